"""MST as its paper has it, on the installed `mbi`: a re-implementation, for files that OpenDP's own MST refuses.

R. McKenna, G. Miklau, D. Sheldon, Winning the NIST contest, arXiv:2108.04978v1: a third of ρ each for the counts by one
column, for choosing the pairs of a spanning tree, and for counting them; labels whose noisy count is below three
standard deviations are one label while the model is fitted, and are drawn evenly afterwards. Noise and draws come from
NumPy, so that it is a measuring rod and no release.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

ITERATIONS = 5000
RARE = 3.0
"""Standard deviations that a label's noisy count must reach to be a label of its own."""


class SpanningTree:
    """A fitted model of records.

    Args:
        records: codes, shape (columns, records).
        sizes: of the columns' domains.
        rho: of zero-concentrated privacy, add/remove.
        coins: NumPy's generator.
    """

    def __init__(self, records: Any, sizes: Sequence[int], *, rho: float, coins: np.random.Generator) -> None:
        from mbi import Domain, LinearMeasurement, estimation  # type: ignore[import-not-found]

        self.coins = coins
        columns = len(sizes)
        deviation = math.sqrt(3.0 / (2.0 * rho))  # σ of one count; n of them together have √n times as much each
        single = deviation * math.sqrt(columns)
        noisy = [
            np.bincount(own, minlength=size) + coins.normal(scale=single, size=size)
            for own, size in zip(records, sizes, strict=True)
        ]
        self.merged = [_merged(counts, RARE * single) for counts in noisy]
        merged_sizes = [int(own.max()) + 1 for own in self.merged]
        self.names = [f"c{number}" for number in range(columns)]
        domain = Domain(self.names, merged_sizes)
        measured = []
        for name, counts, own, size in zip(self.names, noisy, self.merged, merged_sizes, strict=True):
            sums, parts = (np.bincount(own, weights=one, minlength=size) for one in (counts, np.ones(counts.size)))
            scale = np.sqrt(parts)  # of the noise of a sum
            measured.append(LinearMeasurement(sums / scale, (name,), single, query=_Scaled(tuple(scale.tolist()))))
        codes = [own[values] for own, values in zip(self.merged, records, strict=True)]
        first = estimation.mirror_descent(domain, measured, known_total=_total(noisy), iters=1000)
        distances = {
            (a, b): float(
                np.abs(
                    np.bincount(codes[a] * merged_sizes[b] + codes[b], minlength=merged_sizes[a] * merged_sizes[b])
                    - np.asarray(first.project((self.names[a], self.names[b])).datavector())
                ).sum()
            )
            for a, b in itertools.combinations(range(columns), 2)
        }
        for a, b in self._tree(distances, columns, epsilon=math.sqrt(8.0 * rho / 3.0 / (columns - 1))):
            exact = np.bincount(codes[a] * merged_sizes[b] + codes[b], minlength=merged_sizes[a] * merged_sizes[b])
            scale = deviation * math.sqrt(columns - 1)
            measured.append(
                LinearMeasurement(
                    exact + coins.normal(scale=scale, size=exact.size), (self.names[a], self.names[b]), scale
                )
            )
        self.model = estimation.mirror_descent(domain, measured, known_total=_total(noisy), iters=ITERATIONS)

    def _tree(self, distances: dict[tuple[int, int], float], columns: int, *, epsilon: float) -> list[tuple[int, int]]:
        """Return the pairs of a spanning tree, each drawn by the exponential mechanism with sensitivity 1."""
        group, tree = list(range(columns)), []
        for _ in range(columns - 1):
            left = [pair for pair in distances if group[pair[0]] != group[pair[1]]]
            scores = np.array([distances[pair] for pair in left]) * epsilon / 2.0
            pair = left[int(np.argmax(scores + self.coins.gumbel(size=scores.size)))]
            tree.append(pair)
            gone, kept = group[pair[1]], group[pair[0]]
            group = [kept if one == gone else one for one in group]
        return tree

    def drawn(self, method: str) -> Any:
        """Return synthetic records, shape (columns, records): by rounding ("round") or independent draws ("sample")."""
        synthetic = self.model.synthetic_data(method=method).to_dict()
        found = []
        for name, own in zip(self.names, self.merged, strict=True):
            codes = np.asarray(synthetic[name], dtype=np.int64)
            values = np.zeros(codes.size, dtype=np.int64)
            for code in range(int(own.max()) + 1):
                there = codes == code
                values[there] = self.coins.choice(np.flatnonzero(own == code), size=int(there.sum()))
            found.append(values)
        return np.array(found)


class _Scaled:
    """What a measurement asks of a table: its counts, each divided by the noise's own scale."""

    def __init__(self, scale: tuple[float, ...]) -> None:
        self.scale = scale

    def __call__(self, factor: Any) -> Any:
        return factor.datavector() / np.array(self.scale)


def _merged(counts: Any, least: float) -> Any:
    """Return the code of each label where all labels below a count are the last one."""
    frequent = counts >= least
    return np.where(frequent, np.cumsum(frequent) - 1, int(frequent.sum()))


def _total(noisy: Sequence[Any]) -> float:
    """Return about how many records there are, at least 1, from counts by one column with the same noise."""
    weights = np.array([1.0 / one.size for one in noisy])
    return max(1.0, float(np.array([one.sum() for one in noisy]) @ weights / weights.sum()))
