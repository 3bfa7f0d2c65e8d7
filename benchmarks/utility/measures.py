"""What a release is worth to somebody who works with it, by the records that it was made of.

- *k-marginal*: NIST's score for all pairs of columns by their values (`k_marginal.k_marginal`), 0 … 1000; 0 where
  nothing is published.
- *error of counts*: the median of |found − true| / true over the combinations of two columns' usual labels that at
  least a thousandth of the records have; *unweighted*, rows are counted and scaled to the number of records.
- *error of means*: likewise of a column's mean among the records of each usual label of the other columns, as a share
  of its mean among all.
- *coverage*: the share of pairs of bounds (`count_bounds`) that hold the true count: of all labels of a counted column,
  and of other columns and of two columns for the labels that the release shows; *width*: the median of
  (upper − lower) / true, of labels of one column.
- *model*: the area under the ROC curve, on the real records, of a logistic regression that was fitted to the release.
- *small groups kept*: of the combinations of all columns' usual labels that 10 to 99 records have, the share that the
  release shows; *invented*: of those that it shows, the share that no record has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from crowdblend.accounting.theory.count_bounds import HALF, QUANTILE
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from numpy.typing import NDArray
from scipy.stats import rankdata

from .tables import USUAL_LEVEL, Table
from .ways import Margins, Released, counted, of_values

__all__ = ["QUANTILE", "Truth", "auc"]

LEAST_SHARE = 1e-3
SMALL = (10, 99)
NEAR = 1e-6
_RIDGE, _STEPS, _SETTLED = 1e-4, 12, 1e-3

Amounts = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The records that were released.

    Args:
        table: their columns.
        records: their values, shape (columns, records).
    """

    table: Table
    records: Codes

    @property
    def number(self) -> int:
        """How many there are."""
        return self.records.shape[1]

    @cached_property
    def whole(self) -> Released:
        """All of them, published as they are."""
        groups = counted(self.table, self.records, 0)
        values = np.array(self.table.map_of(0).decode(groups.keys)) - 1
        rows = groups.counts.astype(float)
        return of_values(self.table, values, rows=rows, weights=np.ones(rows.size), real=self.number)

    @cached_property
    def pairs(self) -> list[Amounts]:
        """Their pairs of columns, as `pair_counts`."""
        return pair_counts(self.whole, self.whole.rows)

    @cached_property
    def groups(self) -> GroupCounts:
        """By all columns' usual labels."""
        return counted(self.table, self.records, USUAL_LEVEL)

    def measured(self, released: Released) -> dict[str, float]:
        """Every measure; those that can't be had are left out."""
        weighted, plain = _told_pairs(released), pair_counts(released, released.rows)
        total = max(float(released.rows.sum()), 1e-300)
        plain = [one * (self.number / total) for one in plain]
        return {
            "k-marginal": self._k_marginal(weighted),
            "counts": self._counts(weighted),
            "counts, unweighted": self._counts(plain),
            "means": self._means(weighted),
            "means, unweighted": self._means(plain),
            "model": self._model(released),
            "records kept": released.real / self.number,
            **self._groups(released),
            **self._coverage(released),
        }

    def k_marginal(self, released: Released) -> float:
        """NIST's score of all pairs of columns."""
        return self._k_marginal(_told_pairs(released))

    def _k_marginal(self, found: Sequence[Amounts]) -> float:
        if not any(one.any() for one in found):
            return 0.0
        distances = [
            float(np.abs(true / self.number - one / max(float(one.sum()), 1e-300)).sum())
            for true, one in zip(self.pairs, found, strict=True)
        ]
        return 500.0 * (2.0 - float(np.mean(distances)))

    def _places(self) -> list[tuple[int, int]]:
        return list(itertools.combinations(range(len(self.table.names)), 2))

    def _counts(self, found: Sequence[Amounts]) -> float:
        usual = [_merging(codes) for codes in self.table.label_codes(USUAL_LEVEL)]
        errors = []
        for (one, other), true, pair in zip(self._places(), self.pairs, found, strict=True):
            exact, told = usual[one] @ true @ usual[other].T, usual[one] @ pair @ usual[other].T
            asked = exact >= LEAST_SHARE * self.number
            errors.append(np.abs(told - exact)[asked] / exact[asked])
        return float(np.median(np.concatenate(errors)))

    def _means(self, found: Sequence[Amounts]) -> float:
        name, amounts = self.table.amounts
        place = self.table.names.index(name)
        usual = [_merging(codes) for codes in self.table.label_codes(USUAL_LEVEL)]
        overall = float(self.whole.rows @ self.whole.shares[place] @ amounts) / self.number
        errors = []
        for (one, other), true, pair in zip(self._places(), self.pairs, found, strict=True):
            if place not in (one, other):
                continue
            by, exact, told = (other, true.T, pair.T) if place == one else (one, true, pair)
            exact, told = usual[by] @ exact, usual[by] @ told
            asked = exact.sum(axis=1) >= LEAST_SHARE * self.number
            means = exact[asked] @ amounts / exact[asked].sum(axis=1)
            shown = told[asked].sum(axis=1)
            guessed = np.divide(told[asked] @ amounts, shown, out=np.zeros_like(shown), where=shown > 0)
            errors.append(np.abs(guessed - means) / abs(overall))
        return float(np.median(np.concatenate(errors)))

    def _model(self, released: Released) -> float:
        if not (released.mass > 0).any():
            return 0.5
        name, first = self.table.target
        place = self.table.names.index(name)
        answers, fitted = released.shares[place][:, first:].sum(axis=1), _features(released, place)
        coefficients = _logistic(fitted, answers, np.maximum(released.mass, 0.0))
        true = self.whole
        positive = true.shares[place][:, first:].sum(axis=1) > 0.5
        return auc(_features(true, place) @ coefficients, positive, true.rows)

    def _groups(self, released: Released) -> dict[str, float]:
        there = np.all([own >= 0 for own in released.labels], axis=0) & (released.mass > 0)
        recoding = self.table.map_of(USUAL_LEVEL)
        shown = np.unique(recoding.keys([own[there] for own in released.labels])[0])
        small = (self.groups.counts >= SMALL[0]) & (self.groups.counts <= SMALL[1])
        keys = self.groups.keys[0]
        found = {"invented": float(np.mean(~np.isin(shown, keys))) if shown.size else 0.0}
        if small.any():
            found["small groups kept"] = float(np.mean(np.isin(keys[small], shown)))
        return found

    def _coverage(self, released: Released) -> dict[str, float]:
        if released.bounds is None and released.margins is not None:
            return self._coverage_of_counts(released, released.margins)
        if released.bounds is None or not released.rows.size:
            return {}
        codes = self.table.label_codes(released.bounds_level)
        sizes = [one.size(released.bounds_level) for one in self.table.hierarchies]
        cells = math.prod(sizes)
        merges = [_merging(own) for own in codes]
        at = [np.argmax(share @ merge.T, axis=1) for share, merge in zip(released.shares, merges, strict=True)]
        singles, pairs = [], []
        for place, merge in enumerate(merges):
            true = merge @ self.whole.shares[place].T @ self.whole.rows
            for label in np.unique(at[place]).tolist():
                told = released.bounds(at[place] == label, cells // sizes[place])
                singles.append((*told, float(true[label])))
        for (one, other), true in zip(self._places(), self.pairs, strict=True):
            exact = merges[one] @ true @ merges[other].T
            for label, beside in np.unique(np.stack([at[one], at[other]]), axis=1).T.tolist():
                inside = (at[one] == label) & (at[other] == beside)
                told = released.bounds(inside, cells // sizes[one] // sizes[other])
                pairs.append((*told, float(exact[label, beside])))
        if released.margins is not None:  # counts by one column are read off them
            singles = self._by_margins(released, released.margins)
        low, high, true = np.array(singles).T
        return {
            "coverage, one column": float(np.mean((low <= true + NEAR) & (true <= high + NEAR))),
            "coverage, two columns": float(
                np.mean([low <= true + NEAR and true <= high + NEAR for low, high, true in pairs])
            ),
            "width, one column": float(np.median((high - low)[true > 0] / true[true > 0])),
        }

    def _coverage_of_counts(self, released: Released, margins: Margins) -> dict[str, float]:
        """Of noisy counts by one column and by pairs, each with its standard error; what isn't counted is left out."""
        low, high, true = np.array(self._by_margins(released, margins)).T
        found = {
            "coverage, one column": float(np.mean((low <= true) & (true <= high))),
            "width, one column": float(np.median((high - low)[true > 0] / true[true > 0])),
        }
        inside = []
        for first, second, labels, noisy, deviation in released.counted_pairs:
            exact = np.zeros_like(noisy)
            pair = self._places().index((first, second))
            np.add.at(exact, (labels[0][:, None], labels[1][None, :]), self.pairs[pair])
            inside.append((np.abs(noisy - exact) <= QUANTILE * deviation + HALF).reshape(-1))
        return found | ({"coverage, two columns": float(np.mean(np.concatenate(inside)))} if inside else {})

    def _by_margins(self, released: Released, margins: Margins) -> list[tuple[float, float, float]]:
        """Bounds of each counted label, by the standard error, and how many records have it."""
        counts, error = margins
        half = QUANTILE * error + HALF
        labels = [_merging(own) for own in self.table.label_codes(released.margins_level)]
        return [
            (float(said) - half, float(said) + half, float(number))
            for told, share, one in zip(counts, self.whole.shares, labels, strict=True)
            for said, number in zip(told, one @ share.T @ self.whole.rows, strict=True)
        ]


def _told_pairs(released: Released) -> Sequence[Amounts]:
    """For each pair of columns what the release tells of its values: by its model where it has one, else by rows."""
    return pair_counts(released, released.mass) if released.pair_tables is None else released.pair_tables


def pair_counts(released: Released, mass: Amounts) -> list[Amounts]:
    """For each pair of columns how much there is of each pair of values, shape (values, values)."""
    return [(one * mass[:, None]).T @ other for one, other in itertools.combinations(released.shares, 2)]


def _merging(codes: Codes) -> Amounts:
    """Which label each value has, shape (labels, values)."""
    return (np.unique(codes)[:, None] == codes[None, :]).astype(float)


def _features(released: Released, target: int) -> Amounts:
    parts = [share[:, 1:] for place, share in enumerate(released.shares) if place != target]
    return np.concatenate([np.ones((released.rows.size, 1)), *parts], axis=1)


def _logistic(features: Amounts, answers: Amounts, weights: Amounts) -> Amounts:
    """Coefficients by Newton's method with a little shrinkage."""
    found = np.zeros(features.shape[1])
    shrunk = _RIDGE * float(weights.sum()) * np.eye(found.size)
    for _ in range(_STEPS):
        chances = 1.0 / (1.0 + np.exp(-np.clip(features @ found, -30, 30)))
        slope = features.T @ (weights * (answers - chances)) - shrunk @ found
        curve = (features * (weights * chances * (1 - chances))[:, None]).T @ features + shrunk
        step = np.linalg.solve(curve, slope)
        found = found + step
        if float(np.abs(step).max()) < _SETTLED:
            break
    return found


def auc(scores: Amounts, positive: NDArray[np.bool_], rows: Amounts) -> float:
    """The chance that a record with a yes has a higher score than one with a no, half where they are the same.

    Args:
        scores: shape (groups,).
        positive: whether it is a yes, shape (groups,).
        rows: records of each group, shape (groups,).
    """
    ranks = rankdata(np.round(scores, 9), method="dense") - 1
    yes = np.bincount(ranks, weights=rows * positive)
    no = np.bincount(ranks, weights=rows * ~positive)
    below = np.cumsum(no) - no
    both = float(yes.sum()) * float(no.sum())
    return float(yes @ (below + no / 2)) / both if both else math.nan
