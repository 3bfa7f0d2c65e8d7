"""A random draw that a release depends on: durable and private before it is used, and never drawn again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...accounting.ledger.private_store.keys import ReleaseFolder
from ...mechanisms.errors import ReleaseFailed
from ...mechanisms.map_selection.draw import MapChoice
from ...mechanisms.recoding import GeneralizationMap
from ..request import Request

__all__ = ["StoredDraw", "draw_once", "load_draw", "load_map", "map_draw", "noise_draw", "store_draw"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredDraw:
    """A draw's place in the private store, and what a draw found there must be.

    Args:
        name: the draw's name there.
        field: under which its numbers stand.
        what: what it is, for messages: "the map … was".
        again: how messages go on: "It is".
        drawn_for: what it is drawn for; one that was drawn for anything else is refused.
        fits: whether these numbers can be this draw.
    """

    name: str
    field: str
    what: str
    again: str
    drawn_for: Mapping[str, str]
    fits: Callable[[tuple[int, ...]], bool]


def noise_draw(request: Request, *, fits: Callable[[tuple[int, ...]], bool], sample_id: str) -> StoredDraw:
    """Where the published numbers of a release stand: counts or sums with their noise, or what deletion left of groups.

    PRIVACY: noisy numbers alone are kept, never the exact ones nor the noise by itself.

    Args:
        request: what they are drawn for.
        fits: whether numbers can be these.
        sample_id: commitment to the release's sample.
    """
    return StoredDraw(
        name="noise",
        field="numbers",
        what="the numbers in the private store were",
        again="They are",
        drawn_for={"request": request.digest, "sample_id": sample_id},
        fits=fits,
    )


def map_draw(choice: MapChoice, *, sample_id: str, step: int | None = None) -> StoredDraw:
    """Where the levels of a drawn map stand, one a column.

    Args:
        choice: what they are drawn from.
        sample_id: commitment to the release's sample.
        step: number of a walk's step, from 0; None for the map itself.
    """

    def fits(levels: tuple[int, ...]) -> bool:
        try:
            choice.lattice.index_of(levels)
        except ValueError:
            return False
        return True

    return StoredDraw(
        name="map" if step is None else f"map-step-{step}",
        field="levels",
        what="the map in the private store was",
        again="It is",
        drawn_for={"lattice": choice.digest(), "sample_id": sample_id},
        fits=fits,
    )


def store_draw(draw: StoredDraw, numbers: Sequence[int], *, folder: ReleaseFolder) -> None:
    """Store what was drawn, before anything depends on it.

    Args:
        draw: its place.
        numbers: what was drawn.
        folder: the release's folder in the private store.

    Raises:
        AccountantRefused: this draw is stored already.
        ReleaseFailed: it can't be written.
    """
    folder.draws.store_draw(draw.name, {**draw.drawn_for, draw.field: list(numbers)})


def load_draw(draw: StoredDraw, *, folder: ReleaseFolder) -> tuple[int, ...] | None:
    """What an earlier attempt has drawn; None where nothing is drawn yet.

    Args:
        draw: its place.
        folder: the release's folder in the private store.

    Raises:
        ReleaseFailed: what is stored is damaged, or was drawn for something else.
    """
    stored = folder.draws.load_draw(draw.name)
    if stored is None:
        return None
    numbers = stored.pop(draw.field, None)
    if (
        stored != draw.drawn_for
        or not isinstance(numbers, list)
        or not all(type(number) is int for number in numbers)
        or not draw.fits(tuple(numbers))
    ):
        raise ReleaseFailed(
            f"{draw.what} not drawn for this release.",
            remedy=f"{draw.again} never drawn again: the release can only be abandoned.",
        )
    return tuple(numbers)


def draw_once(draw: StoredDraw, make: Callable[[], Sequence[int]], *, folder: ReleaseFolder) -> tuple[int, ...]:
    """The stored draw, made and stored first where there is none.

    INVARIANT: durable before it is used; what follows takes the stored draw and no other.
    PRIVACY: an attempt that ends before its draw is stored has given nothing away, so that the next one may draw.

    Args:
        draw: its place.
        make: draws.
        folder: the release's folder in the private store.

    Raises:
        ReleaseFailed: it can't be stored, or what is stored is damaged or was drawn for something else.
    """
    drawn = load_draw(draw, folder=folder)
    if drawn is None:
        store_draw(draw, make(), folder=folder)
        drawn = load_draw(draw, folder=folder)
    if drawn is None:
        raise ReleaseFailed(f"{draw.what} drawn, and not stored.")
    return drawn


def load_map(request: Request, *, folder: ReleaseFolder, sample_id: str) -> GeneralizationMap | None:
    """The map of a release: the fixed one, or the one that was drawn; None where it is still to be drawn.

    Args:
        request: what is asked for.
        folder: the release's folder in the private store.
        sample_id: commitment to the release's sample, which the draw was made for.

    Raises:
        ReleaseFailed: what is stored is damaged, or was drawn for something else.
    """
    if isinstance(request.recoding, GeneralizationMap):
        return request.recoding
    levels = load_draw(map_draw(request.recoding, sample_id=sample_id), folder=folder)
    return None if levels is None else request.recoding.lattice.map_of(levels)
