"""State what a protection is: the one way from exact counts to what may be published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .group_counts import GroupCounts
from .mechanism import Mechanism, Randomness
from .recoding import KeyLayout

Numbers = Sequence[int] | NDArray[np.int64]
"""What is drawn, as it is stored: few numbers, or an array of many."""

Exact_contra = TypeVar("Exact_contra", contravariant=True)
Protected_co = TypeVar("Protected_co", covariant=True)


class Protection(Protocol[Exact_contra, Protected_co]):
    """Makes of exact counts what may be published, by one mechanism with parameters that were fixed beforehand.

    It is a frozen value of the mechanism, layouts of keys and integer tables, checked against one another when it is
    made. It knows no label, no file and no request, so that nothing but the counts and its coins decides its result.

    PRIVACY: exact counts go into `protect` and nowhere else. Where the result is drawn, whoever calls stores it before
    anything depends on it, and never draws again: a second draw is a second price.
    """

    @property
    def mechanism(self) -> Mechanism:
        """What was charged, whose price covers the result."""
        ...

    @property
    def layout(self) -> KeyLayout:
        """Of the groups that are counted."""
        ...

    @property
    def drawn(self) -> bool:
        """Tell whether the result is a random draw; one that isn't is the same again from the same counts."""
        ...

    def protect(self, exact: Exact_contra, *, randomness: Randomness) -> Protected_co:
        """Return what may be published: `Numbers` where it is drawn.

        Args:
            exact: the groups of the layout and their sizes; of local reports, their totals.
            randomness: n to n secret bytes; OpenDP draws its noise by itself.
        """
        ...

    def fits(self, numbers: Numbers) -> bool:
        """Return whether stored numbers can be a result of `protect`; never where nothing is drawn."""
        ...


def counts_of_groups(exact: GroupCounts, layout: KeyLayout) -> NDArray[np.int64]:
    """Return the count of every group that a layout of one word has, also of empty ones, by key; shape (cells,)."""
    counts = np.zeros(layout.cells, dtype=np.int64)
    np.add.at(counts, exact.keys[0], exact.counts)
    return counts
