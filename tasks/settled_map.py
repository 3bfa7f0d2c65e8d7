"""The map that a release's records are recoded with: the fixed one, or the one that was drawn and stored."""

from __future__ import annotations

from typing import assert_never

from ..accounting.ledger.keystore import ReleaseFolder
from ..mechanisms.map_choice import MapChoice
from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.refusal import ReleaseFailed
from .request import Request

__all__ = ["settle_map", "settled_map", "settled_steps"]

DRAW = "map"


def settled_map(request: Request, *, folder: ReleaseFolder, sample_id: str) -> GeneralizationMap | None:
    """The release's map; None where it is still to be drawn.

    Args:
        request: what is asked for.
        folder: the release's folder in the private store.
        sample_id: commitment to the release's sample, which the draw was made for.

    Raises:
        ReleaseFailed: what is stored is damaged, or was drawn for something else.
    """
    match request.recoding:
        case GeneralizationMap() as fixed:
            return fixed
        case MapChoice() as choice:
            levels = _levels(folder, DRAW, choice=choice, sample_id=sample_id)
            return None if levels is None else choice.lattice.map_of(levels)
        case _:
            assert_never(request.recoding)


def settled_steps(choice: MapChoice, *, folder: ReleaseFolder, sample_id: str) -> tuple[tuple[int, ...], ...]:
    """The draws of a walk that an earlier attempt has made, in order.

    Raises:
        ReleaseFailed: as `settled_map`.
    """
    taken: list[tuple[int, ...]] = []
    while (levels := _levels(folder, _step(len(taken)), choice=choice, sample_id=sample_id)) is not None:
        taken.append(levels)
    return tuple(taken)


def settle_map(
    levels: tuple[int, ...],
    *,
    choice: MapChoice,
    folder: ReleaseFolder,
    sample_id: str,
    step: int | None = None,
) -> None:
    """Store a draw durably and privately, before anything depends on it.

    Args:
        levels: what was drawn, one level a column.
        choice: what it was drawn from.
        folder: the release's folder in the private store.
        sample_id: commitment to the release's sample.
        step: number of a walk's step, from 0; None for the map itself.

    Raises:
        ReleaseFailed: it can't be written.
    """
    draw = DRAW if step is None else _step(step)
    folder.draws.settle(draw, {"lattice": choice.digest(), "sample_id": sample_id, "levels": list(levels)})


def _step(number: int) -> str:
    return f"{DRAW}-step-{number}"


def _levels(folder: ReleaseFolder, draw: str, *, choice: MapChoice, sample_id: str) -> tuple[int, ...] | None:
    stored = folder.draws.settled(draw)
    if stored is None:
        return None
    try:
        levels = tuple(int(level) for level in stored["levels"])
        choice.lattice.index_of(levels)
        fits = (stored["lattice"], stored["sample_id"]) == (choice.digest(), sample_id)
    except (KeyError, TypeError, ValueError):
        fits, levels = False, ()
    if not fits:
        raise ReleaseFailed(
            "the map in the private store was not drawn for this release.",
            remedy="It is never drawn again: the release can only be abandoned.",
        )
    return levels
