"""A synthetic table: rows drawn from a model that is fitted to noisy counts, by a method of `opendp[mbi]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from ..kernel.mechanism import Mechanism

__all__ = ["LARGEST_RHO", "METHODS", "SyntheticTable", "counted_cells", "library_rho"]

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
    """How many counts the method holds in memory: of all combinations of 2 columns, or of 2 and of 3.

    Args:
        sizes: number of labels of each column.
        method: "mst" or "aim".
    """
    products = [1] + [0] * METHODS[method]
    for size in sizes:
        for together in range(len(products) - 1, 0, -1):
            products[together] += products[together - 1] * size
    return sum(products[2:])


def library_rho(mechanism: SyntheticTable) -> float:
    """The ρ that the library is told to spend: a millionth less than what is charged.

    The library computes in doubles by how much one record changes the scores that it chooses by. What is kept is for
    that; no bound on its rounding is proved (docs/proofs/synthetic-table.md).
    """
    return float(mechanism.rho) * (1.0 - 1e-6)
