"""A random draw that a release depends on: durable and private before it is used, and never drawn again."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...accounting.kernel.keys.private_store import ReleaseFolder
from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.kernel.protection import Numbers

ABANDON = "It is never drawn again: the release can only be abandoned, by `crowdblend abandon`."
NOISE = "noise"
"""Name of the draw of what is published."""


class DrawFailed(ReleaseFailed):
    """The drawing itself failed, which may follow from the records and from what was drawn."""


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
    fits: Callable[[Numbers], bool]


def noise_draw(digest: str, *, fits: Callable[[Numbers], bool], sample_id: str) -> StoredDraw:
    """Return where the published numbers of a release stand: counts or sums with noise, or what deletion left.

    PRIVACY: noisy numbers alone are kept, never the exact ones nor the noise by itself.
    """
    return StoredDraw(
        name=NOISE,
        field="numbers",
        what="the numbers in the private store were",
        again="They are",
        drawn_for={"request": digest, "sample_id": sample_id},
        fits=fits,
    )


def store_draw(draw: StoredDraw, numbers: Numbers, *, folder: ReleaseFolder) -> None:
    """Store what was drawn, before anything depends on it.

    Few numbers stand in the file as a list of JSON. An array stands there as its size, and the raw bytes of its int64
    numbers (little-endian) packed by zlib, in base64.

    Raises:
        AccountantRefused: this draw is stored already.
        ReleaseFailed: it can't be written.
    """
    folder.store_draw(draw.name, {**draw.drawn_for, draw.field: _stored_form(numbers)})


def _stored_form(numbers: Numbers) -> Any:  # noqa: ANN401 - what JSON has
    if not isinstance(numbers, np.ndarray):
        return list(numbers)
    raw_bytes = np.ascontiguousarray(numbers, dtype="<i8").data.cast("B")
    packed = zlib.compress(raw_bytes, level=1) if numbers.size else b""
    return {"size": numbers.size, "zlib": base64.b64encode(packed).decode("ascii")}


def stored_numbers(stored: Any) -> tuple[int, ...] | NDArray[np.int64]:  # noqa: ANN401 - what JSON has
    """Return the numbers that stand in a draw's file; an array has the shape (n,).

    Raises:
        ValueError: it has none.
    """
    match stored:
        case list() if all(type(number) is int for number in stored):
            return tuple(stored)
        case {"size": int(size), "zlib": str(packed)} if 0 <= size < 1 << 40:
            try:
                raw_bytes = base64.b64decode(packed, validate=True)
                # One byte past the stated size shows that there is more, without unpacking all that a file may claim.
                unpacker = zlib.decompressobj()
                unpacked = unpacker.decompress(raw_bytes, 8 * size + 1) if size else raw_bytes
            except (binascii.Error, zlib.error, MemoryError) as error:
                raise ValueError("the array is damaged") from error
            if memoryview(unpacked).nbytes != 8 * size:
                raise ValueError("the array has another size")
            return np.frombuffer(unpacked, dtype="<i8").astype(np.int64, copy=False)
        case _:
            raise ValueError("there are no numbers")


def load_draw(draw: StoredDraw, *, folder: ReleaseFolder) -> tuple[int, ...] | NDArray[np.int64] | None:
    """Return what an earlier attempt has drawn, an array in the shape (n,); None where nothing is drawn yet.

    Raises:
        ReleaseFailed: what is stored is damaged, or was drawn for something else.
    """
    stored = folder.load_draw(draw.name)
    if stored is None:
        return None
    if stored == draw.drawn_for:
        raise ReleaseFailed("an earlier attempt failed while it drew.", remedy=ABANDON)
    try:
        numbers = stored_numbers(stored.pop(draw.field, None))
        valid = stored == draw.drawn_for and draw.fits(numbers)
    except ValueError:
        valid = False
    if not valid:
        raise ReleaseFailed(
            f"{draw.what} not drawn for this release.",
            remedy=f"{draw.again} never drawn again: the release can only be abandoned.",
        )
    return numbers


def draw_once(
    draw: StoredDraw, make: Callable[[], Numbers], *, folder: ReleaseFolder
) -> tuple[int, ...] | NDArray[np.int64]:
    """Return the stored draw, made and stored first where there is none; an array has the shape (n,).

    INVARIANT: durable before it is used; what follows takes the stored draw and no other.
    PRIVACY: an attempt that is killed before its draw is stored has given nothing away, so that the next one may draw.
    One whose drawing fails is the last: what is drawn until it doesn't fail has another law than one draw, and its loss
    may be nearly twice as large.

    Raises:
        DrawFailed: as `make`; from then on there is no draw.
        ReleaseFailed: it can't be stored, or what is stored is damaged or was drawn for something else.
    """
    drawn = load_draw(draw, folder=folder)
    if drawn is None:
        try:
            numbers = make()
        except DrawFailed:
            folder.store_draw(draw.name, draw.drawn_for)
            raise
        store_draw(draw, numbers, folder=folder)
        # Read back, so that this attempt goes on with exactly what the next one would find.
        drawn = load_draw(draw, folder=folder)
    if drawn is None:
        raise ReleaseFailed(f"{draw.what} drawn, and not stored.")
    return drawn
