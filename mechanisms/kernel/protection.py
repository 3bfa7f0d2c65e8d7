"""What a protection is: the one way from exact counts to what may be published; and which class each kind has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .group_counts import GroupCounts
from .mechanism import Mechanism, Randomness
from .recoding import KeyLayout

__all__ = ["PROTECTIONS", "REHEARSALS", "Numbers", "Protection", "counts_of_groups", "protection_of", "protects"]

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


PROTECTIONS: Mapping[str, str] = {
    "answers": "..kinds.answers:AnswerProtection",
    "deletion": "..kinds.deletion_protection:DeletionProtection",
    "epsilon_safe": "..kinds.microdata:Suppression",
    "local_reports": "..kinds.local_reports:ReportsProtection",
    "noisy_histogram": "..kinds.histogram:HistogramProtection",
    "outcome_counts": "..kinds.local_reports:ReportsProtection",
    "outlier_histogram": "..kinds.histogram:HistogramProtection",
    "points": "..kinds.points:PointsProtection",
    "selected_deletion": "..kinds.deletion_protection:DeletionProtection",
    "strongly_safe": "..kinds.microdata:Suppression",
    "suppressed_histogram": "..kinds.histogram:HistogramProtection",
    "survey_counts": "..kinds.biased_sampling:SurveyProtection",
    "synthetic_table": "..kinds.synthetic_table:SyntheticProtection",
    "unequal_rates": "..kinds.biased_sampling:UnequalRatesProtection",
}
"""Kind of mechanism → its protection, of a module of `mechanisms.kinds`; a series of several mechanisms has none."""


REHEARSALS: Mapping[str, str] = {"answers": "..kinds.answers:RehearsalProtection"}
"""The same of a second protection that a kind has."""


def protection_of(mechanism: Mechanism) -> type[Protection[Any, Any]]:
    """Return the class of the protections of a mechanism's kind.

    Raises:
        KeyError: the kind has none.
    """
    return _named(PROTECTIONS[mechanism.kind])


def protects(by: object, mechanism: Mechanism) -> bool:
    """Return whether an object is of a class of protections of a mechanism's kind itself, and not of one below it."""
    names = [names[mechanism.kind] for names in (PROTECTIONS, REHEARSALS) if mechanism.kind in names]
    return any(type(by) is _named(name) for name in names)


def _named(place: str) -> type[Protection[Any, Any]]:
    module, _, name = place.partition(":")
    found: type[Protection[Any, Any]] = getattr(import_module(module, __package__), name)
    return found


def counts_of_groups(exact: GroupCounts, layout: KeyLayout) -> NDArray[np.int64]:
    """Return the count of every group that a layout has, of those without records too, in the order of their keys.

    Args:
        exact: some groups and their sizes; a group that is there twice has both.
        layout: of their keys, which have one word.

    Returns:
        Shape (layout.cells,).
    """
    counts = np.zeros(layout.cells, dtype=np.int64)
    np.add.at(counts, exact.keys[0], exact.counts)
    return counts
