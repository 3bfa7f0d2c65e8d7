"""Ask what an analysis needs: of a release by `crowdblend.analysis`, and of records as textbooks answer it.

Records may be the true ones, whose answers are the truth, or synthetic ones. Of these people take the textbook's
interval, as if they were records: it is the sampling error of a file of that size, and knows nothing of any noise.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    """Records, true or synthetic ones.

    Args:
        columns: at the level of the codes.
        codes: of each column, shape (records,).
        numbers: per name of a column of numbers its number in each record, shape (records,).
        widths: of the labels of which these are the middles; none where they are the numbers themselves.
    """

    columns: Sequence[MappedColumn]
    codes: Sequence[Codes]
    numbers: Mapping[str, Amounts]
    widths: Mapping[str, Amounts] = field(default_factory=dict)

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
        return cls(columns=_columns(hierarchies), codes=codes, numbers=numbers)

    @classmethod
    def of_codes(cls, columns: Sequence[MappedColumn], distinct: Sequence[Codes], times: Codes) -> Records:
        """Return records by the codes of their labels, numbers at the middle of a label, or at the range's end.

        Args:
            columns: at the level of the codes.
            distinct: codes of each column of distinct records, shape (distinct records,).
            times: how often each is there.
        """
        codes, numbers = [np.repeat(own, times) for own in distinct], {}
        widths = {}
        for column, own in zip(columns, codes, strict=True):
            with contextlib.suppress(InputRefused):
                edges = edges_of(column, column.level)
                for code, label in enumerate(labels_of(column, column.level)):
                    if not edges.known[code] and any(ends := label_bounds(label)):
                        edges.lower[code] = edges.upper[code] = float(ends[0] or ends[1])
                numbers[column.name] = edges.middle[own]
                widths[column.name] = (edges.upper - edges.lower)[own]
        return cls(columns=columns, codes=codes, numbers=numbers, widths=widths)

    def of(self, where: Where) -> NDArray[np.bool_]:
        """Return which records fulfil a condition."""
        found = np.ones(self.codes[0].size, dtype=np.bool_)
        for place, mask in selection_of(where, self.columns).items():
            found &= mask[self.codes[place]]
        return found

    def known(self, column: str, where: Where) -> Amounts:
        """Return the numbers of a column of the records that fulfil a condition and have one."""
        numbers = self.numbers[column]
        return numbers[self.of(where) & np.isfinite(numbers)]

    def spread(self, column: str, where: Where) -> Amounts:
        """Return the same, spread evenly within labels, in ascending order."""
        numbers = self.numbers[column]
        if column in self.widths:
            numbers = numbers + self.widths[column] * (np.random.default_rng(numbers.size).random(numbers.size) - 0.5)
        return np.sort(numbers[self.of(where) & np.isfinite(numbers)])

    def term(self, part: Part) -> Amounts:
        """Return what a part of a formula is of each record; a number that is unknown counts as the others' mean."""
        if part.label is not None:
            return self.of({part.column: part.label}).astype(np.float64)
        numbers = self.numbers[part.column]
        known = np.isfinite(numbers)
        if not known.all():
            numbers = np.where(known, numbers, numbers[known].mean())
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
        whole = records.of(self.of)
        number = max(float(whole.sum()), 1.0)
        share = float((whole & records.of(self.where)).sum()) / number
        return Answer.around(share, math.sqrt(share * (1.0 - share) / number))


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
        numbers = records.known(self.column, self.where)
        return Answer.around(float(numbers.mean()), float(numbers.std()) / math.sqrt(numbers.size))


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
        numbers = records.spread(self.column, self.where)
        error = WIDTH * math.sqrt(self.q * (1.0 - self.q) / numbers.size)
        # The least number at or below which the share lies; Woodruff's interval.
        shares = np.array([self.q - 1e-12, self.q - error, self.q + error])
        own = np.exp(numbers[np.clip(np.ceil(shares * numbers.size) - 1, 0, numbers.size - 1).astype(np.int64)])
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
            counts += [float((own & one).sum()) for one in (fulfils, ~fulfils)]
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
        answers = records.term(response)
        design = np.column_stack([np.ones(answers.size), *(records.term(part) for part in parts)])
        inverse = np.linalg.inv(design.T @ design)
        coefficients = inverse @ (design.T @ answers)
        rest = answers - design @ coefficients
        variance = float(rest @ rest) / (answers.size - len(names))
        place = names.index(self.term)
        return Answer.around(float(coefficients[place]), math.sqrt(variance * inverse[place, place]))


def _name(part: Part) -> str:
    if part.label is not None:
        return f"{part.column}[{part.label}]"
    return part.column if part.function is None else f"{part.function}({part.column})"
