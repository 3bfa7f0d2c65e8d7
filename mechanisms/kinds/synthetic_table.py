"""A synthetic table: rows drawn from a model that is fitted to noisy counts, by a method of `opendp[mbi]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.mechanism import Mechanism, Randomness
from ..kernel.protection import Numbers
from ..kernel.recoding import KeyLayout

METHODS = {"mst": 2, "aim": 3}
"""Method → of how many columns together the library counts records at most, before it adds noise."""

LARGEST_RHO = Decimal(1_000_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticTable(Mechanism):
    """Rows that are nobody's, by MST or AIM: noisy counts of a few combinations of columns, chosen privately.

    Sources: McKenna, Miklau, Sheldon, arXiv:2108.04978 (MST); McKenna, Mullins, Sheldon, Miklau, arXiv:2201.12677
    (AIM). What is charged for is that choices and counts together have ρ-zero-concentrated differential privacy; the
    model and the rows are a function of them and of coins. The choices, the noise and the sum of what they cost are the
    library's.

    Args:
        method: "mst" or "aim".
        rho: ρ, above 0 and at most `LARGEST_RHO`.

    Raises:
        ValueError: a field outside its range.
    """

    kind: ClassVar[str] = "synthetic_table"

    method: str
    rho: Decimal

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"the method must be {' or '.join(METHODS)}, not {self.method!r}")
        if not (self.rho.is_finite() and 0 < self.rho <= LARGEST_RHO):
            raise ValueError(f"rho must be above 0 and at most {LARGEST_RHO}, not {self.rho}")


def counted_cells(sizes: Sequence[int], *, method: str) -> int:
    """Return how many counts a method holds in memory: of all combinations of 2 such columns, or of 2 and of 3."""
    products = [1] + [0] * METHODS[method]
    for size in sizes:
        for together in range(len(products) - 1, 0, -1):
            products[together] += products[together - 1] * size
    return sum(products[2:])


def library_rho(mechanism: SyntheticTable) -> float:
    """Return the ρ that the library is told to spend: a millionth less than what is charged.

    The library computes in doubles by how much one record changes the scores that it chooses by. What is kept is for
    that; no bound on its rounding is proved (docs/proofs/synthetic-table.md).
    """
    return float(mechanism.rho) * (1.0 - 1e-6)


_VERSION_NUMBERS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticProtection:
    """The synthetic rows, and the versions of the libraries that drew them.

    PRIVACY: that a draw costs what is charged is the library's claim. One that ends before it is stored has given
    nothing away.

    Args:
        mechanism: the release.
        layout: of the columns.
        draw: draws a table of exact counts by the mechanism: the numbers of the versions of opendp and mbi, three each,
            and the distinct rows with how often each is there. It runs the library, in a process of its own.
    """

    mechanism: SyntheticTable
    layout: KeyLayout
    draw: Callable[[GroupCounts], tuple[tuple[int, ...], GroupCounts]]
    drawn: ClassVar[bool] = True

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> NDArray[np.int64]:
        """Return the numbers of the versions, the rows' keys word by word, and how often each row is there."""
        del randomness
        used, rows = self.draw(exact)
        return np.concatenate([np.array(used, dtype=np.int64), rows.keys.reshape(-1), rows.counts])

    def rows(self, numbers: Numbers) -> tuple[tuple[str, str], GroupCounts]:
        """Return the versions of opendp and mbi, and the rows, of a result of `protect`.

        Raises:
            ValueError: the numbers are nothing that this release can publish.
            OverflowError: one has more than 64 bits.
        """
        every = np.asarray(numbers, dtype=np.int64)
        used, left = every[:_VERSION_NUMBERS].tolist(), every[_VERSION_NUMBERS:]
        height = self.layout.key_words + 1
        if len(used) < _VERSION_NUMBERS or min(used) < 0 or left.size == 0 or left.size % height:
            raise ValueError("numbers are missing")
        rows = left.reshape(height, -1)
        if not self.layout.holds(rows[:-1]) or int(rows[-1].min()) < 1:
            raise ValueError("a key is of no group, or a row is there less than once")
        opendp, mbi = (".".join(map(str, one)) for one in (used[:3], used[3:]))
        return (opendp, mbi), GroupCounts(rows[:-1], rows[-1])

    def fits(self, numbers: Numbers) -> bool:
        """Return whether the numbers are rows of this layout."""
        try:
            self.rows(numbers)
        except (OverflowError, ValueError):
            return False
        return True
