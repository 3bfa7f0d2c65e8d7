"""Numbers with noise, durable and private before anything depends on them, so that a retry repeats them."""

from __future__ import annotations

from collections.abc import Sequence

from ..accounting.ledger.keystore import ReleaseFolder
from ..mechanisms.refusal import ReleaseFailed
from .request import Request

__all__ = ["settle_numbers", "settled_numbers"]

DRAW = "noise"


def settle_numbers(numbers: Sequence[int], *, request: Request, folder: ReleaseFolder, sample_id: str) -> None:
    """Store what was drawn, before anything depends on it.

    PRIVACY: noisy numbers alone are kept, never the exact ones nor the noise by itself.

    Args:
        numbers: the noisy numbers, which will be published.
        request: what they were drawn for.
        folder: the release's folder in the private store.
        sample_id: commitment to the release's sample.

    Raises:
        ReleaseFailed: they can't be written.
    """
    folder.draws.settle(DRAW, {"request": request.digest, "sample_id": sample_id, "numbers": list(numbers)})


def settled_numbers(*, count: int, request: Request, folder: ReleaseFolder, sample_id: str) -> list[int] | None:
    """What an earlier attempt has drawn; None where nothing is drawn yet.

    Args:
        count: how many numbers there must be.
        request: what they are for.
        folder: the release's folder in the private store.
        sample_id: commitment to the release's sample.

    Raises:
        ReleaseFailed: what is stored is damaged, or was drawn for something else.
    """
    stored = folder.draws.settled(DRAW)
    if stored is None:
        return None
    numbers = stored.get("numbers")
    if (
        not isinstance(numbers, list)
        or len(numbers) != count
        or not all(type(number) is int for number in numbers)
        or (stored.get("request"), stored.get("sample_id")) != (request.digest, sample_id)
    ):
        raise ReleaseFailed(
            "the numbers in the private store were not drawn for this release.",
            remedy="They are never drawn again: the release can only be abandoned.",
        )
    return numbers
