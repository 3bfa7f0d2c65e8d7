"""A draw is the same numbers for ever: stored before it is used, given back as it was, and refused where it isn't."""

from __future__ import annotations

import base64
import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.tasks.kernel.draws import DrawFailed, draw_once, load_draw, noise_draw, store_draw, stored_numbers
from hypothesis import given, settings
from hypothesis import strategies as st

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)


class Folder:
    """A release's folder in memory."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}

    def load_draw(self, name: str) -> Any:
        """Return what is stored."""
        return None if name not in self.files else dict(self.files[name])

    def store_draw(self, name: str, fields: Any) -> None:
        """Store it."""
        self.files[name] = fields


def draw_of(sample_id: str = "s", *, fits: Any = lambda numbers: True) -> Any:
    return noise_draw("d", fits=fits, sample_id=sample_id)


@settings(derandomize=True)
@given(numbers=NUMBERS, as_array=st.booleans())
def test_what_was_drawn_is_given_back_and_never_drawn_again(numbers: list[int], as_array: bool) -> None:
    folder: Any = Folder()
    drawn: Any = np.array(numbers, dtype=np.int64) if as_array else tuple(numbers)
    assert load_draw(draw_of(), folder=folder) is None
    for make in (lambda: drawn, lambda: pytest.fail("drawn twice")):
        found = draw_once(draw_of(), make, folder=folder)
        assert isinstance(found, np.ndarray if as_array else tuple)
        assert list(found) == numbers
    for other in (draw_of("another sample"), draw_of(fits=lambda _: False)):
        with pytest.raises(ReleaseFailed, match="not drawn for this release"):
            load_draw(other, folder=folder)


def test_what_failed_while_it_drew_is_never_drawn_again() -> None:
    """Noise that is drawn until it is small has a larger loss than noise."""
    folder: Any = Folder()

    def fail() -> Any:
        raise DrawFailed("too little memory.")

    with pytest.raises(DrawFailed, match="too little memory"):
        draw_once(draw_of(), fail, folder=folder)
    with pytest.raises(ReleaseFailed, match=r"failed while it drew.*can only be abandoned"):
        draw_once(draw_of(), lambda: [1], folder=folder)
    other: Any = Folder()
    with pytest.raises(ZeroDivisionError):
        draw_once(draw_of(), lambda: 1 // 0, folder=other)
    assert list(draw_once(draw_of(), lambda: [1], folder=other)) == [1]


def test_as_many_numbers_as_a_table_has_groups_are_given_back() -> None:
    folder: Any = Folder()
    store_draw(draw_of(), np.arange(100_000), folder=folder)
    assert np.array_equal(load_draw(draw_of(), folder=folder), np.arange(100_000))


def packed(numbers: bytes) -> str:
    return base64.b64encode(zlib.compress(numbers)).decode("ascii")


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        "1",
        [1, "2"],
        [1, True],
        {"size": 1},
        {"size": -1, "zlib": ""},
        {"size": 1 << 40, "zlib": ""},
        {"size": 1, "zlib": "%"},
        {"size": 1, "zlib": "AAAA"},
        {"size": 1, "zlib": "%" + packed(bytes(8))},
        {"size": 1, "zlib": packed(bytes(16))},
        {"size": 2, "zlib": packed(bytes(8))},
        {"size": 0, "zlib": packed(bytes(8))},
    ],
    ids=str,
)
def test_numbers_that_were_changed_are_refused(damaged: Any) -> None:
    with pytest.raises(ValueError, match=r"damaged|another size|no numbers"):
        stored_numbers(damaged)
    folder: Any = Folder()
    store_draw(draw_of(), [1], folder=folder)
    folder.files["noise"]["numbers"] = damaged
    with pytest.raises(ReleaseFailed, match="can only be abandoned"):
        load_draw(draw_of(), folder=folder)


def test_a_store_that_keeps_nothing_is_found_out() -> None:
    forgetful: Any = SimpleNamespace(load_draw=lambda _: None, store_draw=lambda *_: None)
    with pytest.raises(ReleaseFailed, match="drawn, and not stored"):
        draw_once(draw_of(), lambda: [1], folder=forgetful)
