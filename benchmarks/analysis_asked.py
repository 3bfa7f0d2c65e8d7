"""What an analysis asks: of a release by `crowdblend.analysis`, and of records as textbooks answer it.

Records may be the true ones, whose answers are the truth, or synthetic ones. Of these people take the textbook's
interval, as if they were records: it is the sampling error of a file of that size, and knows nothing of any noise.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from crowdblend.analysis import Figure, LoadedRelease
from crowdblend.analysis.conditions import Where, edges_of, labels_of, selection_of
from crowdblend.analysis.figures import quantile_of
from crowdblend.analysis.regressions import Part, parsed
from crowdblend.mechanisms.generalization_map import MappedColumn
from crowdblend.mechanisms.hierarchies.codebook import label_bounds
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals
from crowdblend.mechanisms.hierarchies.declare import Hierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused
from numpy.typing import NDArray

__all__ = ["Analysis", "Answer", "Asked", "Coefficient", "Mean", "OddsRatio", "Quantile", "Records", "Share"]

Amounts = NDArray[np.float64]
Codes = NDArray[np.int64]
WIDTH = quantile_of(0.05)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An estimate, and an interval where there is one."""

    estimate: float
    lower: float | None = None
    upper: float | None = None

    @classmethod
    def around(cls, estimate: float, error: float) -> Answer:
        """Return an estimate with the normal interval of a standard error."""
        return cls(estimate=estimate, lower=estimate - WIDTH * error, upper=estimate + WIDTH * error)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Records:
    """Records, or distinct synthetic ones with how often each is there.

    Args:
        columns: at the level of the codes.
        codes: of each column, shape (records,).
        numbers: per name of a column of numbers its number in each record, shape (records,).
        times: how often each record is there, shape (records,).
    """

    columns: Sequence[MappedColumn]
    codes: Sequence[Codes]
    numbers: Mapping[str, Amounts]
    times: Amounts

    @classmethod
    def of_values(
        cls, hierarchies: Mapping[str, Hierarchy], values: Mapping[str, NDArray[np.float64] | NDArray[np.str_]]
    ) -> Records:
        """Return records by their values: texts, or numbers."""
        codes, numbers = [], {}
        for name, hierarchy in hierarchies.items():
            own = values[name]
            if isinstance(hierarchy, ValueHierarchy):
                kinds, places = np.unique(own, return_inverse=True)
                codes.append(hierarchy.codes_of_texts([str(kind).encode() for kind in kinds], 0)[places])
                with contextlib.suppress(ValueError):
                    numbers[name] = own.astype(np.float64)
            elif isinstance(hierarchy, DecimalIntervals):
                numbers[name] = own.astype(np.float64)
                codes.append(hierarchy.codes_of_numbers(numbers[name], 0))
            else:
                numbers[name] = own.astype(np.float64)
                codes.append(hierarchy.codes_of_integers(own.astype(np.int64), 0))
        return cls(columns=_columns(hierarchies), codes=codes, numbers=numbers, times=np.ones(codes[0].size))

    @classmethod
    def of_codes(cls, columns: Sequence[MappedColumn], codes: Sequence[Codes], times: Amounts) -> Records:
        """Return records by the codes of their labels, numbers at the middle of a label, or the end of the range."""
        numbers = {}
        for column, own in zip(columns, codes, strict=True):
            with contextlib.suppress(InputRefused):
                middles = edges_of(column, column.level).middle
                for code, label in enumerate(labels_of(column, column.level)):
                    if np.isnan(middles[code]) and any(ends := label_bounds(label)):
                        middles[code] = float(ends[0] or ends[1])
                numbers[column.name] = middles[own]
        return cls(columns=columns, codes=codes, numbers=numbers, times=times)

    def of(self, where: Where) -> NDArray[np.bool_]:
        """Return which records fulfil a condition."""
        found = np.ones(self.codes[0].size, dtype=np.bool_)
        for place, mask in selection_of(where, self.columns).items():
            found &= mask[self.codes[place]]
        return found

    def count(self, where: Where) -> float:
        """Return how many records fulfil a condition."""
        return float(self.times[self.of(where)].sum())

    def known(self, column: str, where: Where) -> tuple[Amounts, Amounts]:
        """Return the numbers of a column of the records that fulfil a condition, and how often each is there."""
        numbers = self.numbers[column]
        kept = self.of(where) & np.isfinite(numbers)
        return numbers[kept], self.times[kept]

    def term(self, part: Part) -> Amounts:
        """Return what a part of a formula is of each record; a number that is unknown counts as the others' mean."""
        if part.label is not None:
            return self.of({part.column: part.label}).astype(np.float64)
        numbers = self.numbers[part.column]
        known = np.isfinite(numbers)
        if not known.all():
            numbers = np.where(known, numbers, np.average(numbers[known], weights=self.times[known]))
        return numbers**2 if part.function == "square" else numbers


def _columns(hierarchies: Mapping[str, Hierarchy]) -> list[MappedColumn]:
    return [MappedColumn(name=name, hierarchy=one, level=0) for name, one in hierarchies.items()]


@dataclass(frozen=True)
class Asked(ABC):
    """A figure that an analysis asks for.

    Args:
        name: in words.
    """

    name: str

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it is about, each two of which must have been counted together."""

    def of_release(self, release: LoadedRelease) -> Answer | None:
        """Return the answer of a release; None where it refuses one."""
        with contextlib.suppress(InputRefused):
            return self._of_release(release)
        return None

    def of_records(self, records: Records) -> Answer:
        """Return the answer of records, with a textbook's interval."""
        return self._of_records(records)

    @abstractmethod
    def _of_release(self, release: LoadedRelease) -> Answer | None: ...

    @abstractmethod
    def _of_records(self, records: Records) -> Answer: ...


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """An analysis: some figures, the first of which is drawn.

    Args:
        title: in words.
        source: where it was published in this form.
        asked: its figures.
    """

    title: str
    source: str
    asked: Sequence[Asked]


def _answered(figure: object) -> Answer:
    if not isinstance(figure, Figure | pd.Series):
        raise TypeError("this is a frame, and no figure")
    ends = [None if end is None or math.isnan(end) else float(end) for end in (figure.lower, figure.upper)]
    return Answer(estimate=float(figure.estimate), lower=ends[0], upper=ends[1])


def _row(frame: object, column: str, label: str) -> Answer | None:
    if not isinstance(frame, pd.DataFrame):
        raise TypeError("this release was loaded without pandas")
    own = frame[frame[column] == label]
    return None if own.empty else _answered(own.iloc[0])


@dataclass(frozen=True)
class Share(Asked):
    """Which share of some records fulfils a condition."""

    where: Where
    of: Where

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it is about."""
        return tuple({**self.where, **self.of})

    def _of_release(self, release: LoadedRelease) -> Answer | None:
        return _answered(release.share(self.where, of=self.of))

    def _of_records(self, records: Records) -> Answer:
        whole = records.count(self.of)
        share = float(records.times[records.of(self.of) & records.of(self.where)].sum()) / max(whole, 1.0)
        return Answer.around(share, math.sqrt(share * (1.0 - share) / max(whole, 1.0)))


@dataclass(frozen=True)
class Mean(Asked):
    """The mean of a column."""

    column: str
    where: Where

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it is about."""
        return tuple({self.column: None, **self.where})

    def _of_release(self, release: LoadedRelease) -> Answer | None:
        return _answered(release.mean(self.column, where=self.where))

    def _of_records(self, records: Records) -> Answer:
        numbers, times = records.known(self.column, self.where)
        mean = float(np.average(numbers, weights=times))
        spread = float(np.average((numbers - mean) ** 2, weights=times))
        return Answer.around(mean, math.sqrt(spread / float(times.sum())))


@dataclass(frozen=True)
class Quantile(Asked):
    """A quantile of a column of logarithms, as the number itself."""

    column: str
    where: Where
    q: float = 0.5

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it is about."""
        return tuple({self.column: None, **self.where})

    def _of_release(self, release: LoadedRelease) -> Answer | None:
        own = _answered(release.quantile(self.column, self.q, where=self.where))
        return Answer(estimate=math.exp(own.estimate), lower=_exp(own.lower), upper=_exp(own.upper))

    def _of_records(self, records: Records) -> Answer:
        numbers, times = records.known(self.column, self.where)
        order = np.argsort(numbers, kind="stable")
        reached = np.cumsum(times[order]) / float(times.sum())
        error = WIDTH * math.sqrt(self.q * (1.0 - self.q) / float(times.sum()))
        # The least number at or below which the share lies; Woodruff's interval.
        at = np.searchsorted(reached, [self.q - 1e-12, self.q - error, self.q + error])
        own = np.exp(numbers[order[np.minimum(at, order.size - 1)]])
        return Answer(estimate=float(own[0]), lower=float(own[1]), upper=float(own[2]))


def _exp(number: float | None) -> float | None:
    return None if number is None else math.exp(number)


@dataclass(frozen=True)
class OddsRatio(Asked):
    """The odds of a condition among some records over those among others."""

    where: Where
    of: Where
    against: Where

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it is about."""
        return tuple({**self.where, **self.of})

    def _of_release(self, release: LoadedRelease) -> Answer | None:
        return _answered(release.odds(self.where, of=self.of, against=self.against))

    def _of_records(self, records: Records) -> Answer:
        fulfils, counts = records.of(self.where), []
        for group in (self.of, self.against):
            own = records.of(group)
            counts += [float(records.times[own & one].sum()) for one in (fulfils, ~fulfils)]
        if min(counts) <= 0:
            return Answer(estimate=math.nan)
        ratio = math.log(counts[0] * counts[3] / (counts[1] * counts[2]))
        width = WIDTH * math.sqrt(sum(1.0 / count for count in counts))
        return Answer(estimate=math.exp(ratio), lower=math.exp(ratio - width), upper=math.exp(ratio + width))


@dataclass(frozen=True)
class Coefficient(Asked):
    """A coefficient of ordinary least squares."""

    formula: str
    term: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it is about."""
        response, parts = parsed(self.formula)
        return tuple({part.column: None for part in (response, *parts)})

    def _of_release(self, release: LoadedRelease) -> Answer | None:
        return _row(release.regression(self.formula), "term", self.term)

    def _of_records(self, records: Records) -> Answer:
        response, parts = parsed(self.formula)
        names = ["(constant)", *(_name(part) for part in parts)]
        design = np.column_stack([np.ones(records.times.size), *(records.term(part) for part in parts)])
        answers, times = records.term(response), records.times
        inverse = np.linalg.inv(design.T @ (design * times[:, None]))
        coefficients = inverse @ (design.T @ (answers * times))
        rest = answers - design @ coefficients
        variance = float((times * rest**2).sum()) / (float(times.sum()) - len(names))
        place = names.index(self.term)
        return Answer.around(float(coefficients[place]), math.sqrt(variance * inverse[place, place]))


def _name(part: Part) -> str:
    if part.label is not None:
        return f"{part.column}[{part.label}]"
    return part.column if part.function is None else f"{part.function}({part.column})"
