"""Local reports: devices have protected them, so that their totals are published as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernel.errors import ReleaseFailed
from ..kernel.mechanism import Randomness
from ..kernel.protection import Numbers
from ..kernel.recoding import KeyLayout
from .krandomization import KRandomization, OutcomeCounts
from .sketch import CountMeanSketch, SketchSums

Totals = SketchSums | NDArray[np.int64]
"""What reports are added up to: of a sketch, the bits of each hash function; else how many reports each outcome has."""


def reports_added_up(totals: Totals) -> int:
    """Return how many reports the totals have."""
    return int(totals.reports.sum() if isinstance(totals, SketchSums) else totals.sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportsProtection:
    """The totals of at least as many reports as are priced; nothing is drawn, so that a retry gives the same.

    PRIVACY: the number of reports is public under replacement, the relation of every price of reports. Whether an
    honest device's report can be read doesn't depend on what its person answered, so neither does success.

    Args:
        mechanism: what each device did, or the counts of all reports.
    """

    mechanism: CountMeanSketch | KRandomization | OutcomeCounts
    drawn: ClassVar[bool] = False

    @property
    def layout(self) -> KeyLayout:
        """What a report can be: an outcome, or a bit of a hash function."""
        if isinstance(self.mechanism, CountMeanSketch):
            return KeyLayout(sizes=(self.mechanism.hashes, self.mechanism.bits))
        randomizer = self.mechanism.randomizer if isinstance(self.mechanism, OutcomeCounts) else self.mechanism
        return KeyLayout(sizes=(1 << randomizer.bits,))

    @property
    def least_reports(self) -> int:
        """How many reports there must be at least."""
        return self.mechanism.least_people if isinstance(self.mechanism, OutcomeCounts) else 1

    def protect(self, exact: Totals, *, randomness: Randomness) -> Totals:
        """Return the totals as they are.

        Raises:
            ReleaseFailed: they are of fewer reports than are priced.
        """
        del randomness
        reports = reports_added_up(exact)
        if reports < self.least_reports:
            raise ReleaseFailed(
                f"{reports} reports could be read, and the release needs {self.least_reports}.",
                remedy="Were the reports made with these parameters? The release can be abandoned; its cost stays "
                "spent.",
            )
        return exact

    def fits(self, numbers: Numbers) -> bool:
        """Return False: no numbers are drawn."""
        del numbers
        return False
