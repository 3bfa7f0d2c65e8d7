"""Ordinary least squares from counted pairs: the sums of squares and products that it needs are sums of noisy counts.

X'X and X'y are linear in the cells of margins and pairs, so that their errors are the noise's and known. The errors of
coefficients follow to first order: those of X'y − X'Xβ, which has no bias, times (X'X)⁻¹. No interval is offered where
the noise of X'X isn't small beside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from ..mechanisms.hierarchies.codebook import label_bounds
from ..mechanisms.kernel.errors import InputRefused
from .combined_counts import Amounts, Codes, CombinedCounts, LinearCount
from .conditions import NOTHING_COUNTED, caps_of, edges_of, labels_of, place_of, refused_cap
from .figures import Source, quantile_of
from .published_tables import PublishedTables, labels_to

Of = Literal["records", "population"]
_TERM = re.compile(r"(?P<function>C|log|square)\((?P<inner>.+)\)|(?P<column>[^\[\]]+)\[(?P<label>.+)\]|(?P<name>.+)")
_MOST_NOISE = 0.2
"""Noise of what a term has besides the others, as a share of it, up to which first-order errors are relied on."""
_LEAST_COUNT = 1e-9
CONSTANT = "(constant)"
_BY_LABELS = "Write C({column}) for a coefficient of each label, or {column}[…] for one of them."


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """State what a formula says of a column.

    Args:
        column: its name.
        categories: whether each of its labels has a coefficient.
        function: of its numbers, "log" or "square"; None for the numbers themselves.
        label: the label that alone has one; None where the column isn't taken so.
    """

    column: str
    categories: bool = False
    function: str | None = None
    label: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Term:
    """A column of the design, or the response.

    Args:
        name: as it is shown.
        place: of its column; None of the constant.
        level: of the labels that have its values.
        values: of each label.
    """

    name: str
    place: int | None
    level: int
    values: Amounts


def parsed(formula: str) -> tuple[Part, tuple[Part, ...]]:
    """Return the response and the regressors of `income ~ age + C(region) + sex[Female]`.

    Raises:
        InputRefused: it has another form.
    """
    left, tilde, right = formula.partition("~")
    parts = [_part(text.strip()) for text in (left, *right.split("+"))]
    if not tilde or any(not part.column for part in parts) or len({*parts}) < len(parts):
        raise InputRefused(
            f"{formula!r} is no formula of a regression.",
            not_done=NOTHING_COUNTED,
            remedy="Write it as response ~ column + column; C(column) for a coefficient of each label, column[label].",
        )
    return parts[0], tuple(parts[1:])


def _part(text: str) -> Part:
    found = _TERM.fullmatch(text)
    if found is None:
        return Part(column="")
    if found["function"]:
        function = None if found["function"] == "C" else found["function"]
        return Part(column=found["inner"].strip(), categories=function is None, function=function)
    if found["label"]:
        return Part(column=found["column"].strip(), label=found["label"])
    return Part(column=found["name"].strip())


def levels_for(places: Sequence[int], published: PublishedTables) -> dict[int, int]:
    """Return the finest labels by which all pairs of some columns were counted: each column's level.

    Raises:
        InputRefused: two of them weren't counted together.
    """
    levels = {place: published.columns[place].level for place in places}
    for one, other in combinations(sorted(set(places)), 2):
        able = [pair for pair in published.pairs if set(pair.columns) == {one, other}]
        if not able:
            names = " and ".join(published.columns[place].name for place in (one, other))
            raise InputRefused(
                f"{names} weren't counted together.",
                not_done=NOTHING_COUNTED,
                remedy="Leave one of them out, or work with completed copies: `release.complete()`.",
            )
        finest = max(able, key=lambda pair: pair.counts.size)
        for place, level in zip(finest.columns, finest.levels, strict=True):
            levels[place] = max(levels[place], level)
    return levels


def terms_of(part: Part, published: PublishedTables, levels: Mapping[int, int]) -> list[Term]:
    """Return the columns of the design that a part of a formula stands for; of categories all but the first label.

    Raises:
        InputRefused: there is no such column or label, or numbers are asked for of which a label has no largest one.
    """
    place = place_of(part.column, published.columns)
    column, level = published.columns[place], levels[place]
    labels = labels_of(column, level)
    if part.label is not None:
        if part.label not in labels:
            raise InputRefused(
                f"{part.label!r} is no label of column {part.column!r} in this regression.",
                not_done=NOTHING_COUNTED,
                remedy=f"There are {', '.join(labels)}.",
            )
        return [_indicator(f"{part.column}[{part.label}]", place, level, labels, part.label)]
    if not part.categories:
        try:
            values = _numbers(part, place, published, level)
        except InputRefused:
            if part.function:
                raise
        else:
            if caps := caps_of(column, level):
                raise refused_cap(column, labels[min(caps)], remedy=_BY_LABELS.format(column=part.column))
            name = part.column if part.function is None else f"{part.function}({part.column})"
            return [Term(name=name, place=place, level=level, values=values)]
    return [_indicator(f"{part.column}[{label}]", place, level, labels, label) for label in labels[2:]]


def _numbers(part: Part, place: int, published: PublishedTables, level: int) -> Amounts:
    """Return what a formula takes of the numbers of a column's labels.

    Numbers beyond the declared range count as its ends. What is no number counts as the mean of the others, by the
    margin: as 0 its cell's noise alone would make every coefficient worse.
    """
    column = published.columns[place]
    values, labels = edges_of(column, level).middle, labels_of(column, level)
    for code in np.flatnonzero(np.isnan(values)).tolist():
        ends = label_bounds(labels[code])
        if any(ends):
            values[code] = float(ends[0] or ends[1])
    if part.function == "log" and (values <= 0).any():
        raise InputRefused(
            f"labels of column {part.column!r} have middles at 0 or below, which have no logarithm.",
            not_done=NOTHING_COUNTED,
        )
    values = np.log(values) if part.function == "log" else values**2 if part.function == "square" else values
    known = np.isfinite(values)
    counts = np.bincount(labels_to(column, level), published.margins[place], minlength=values.size)[known]
    weights = np.maximum(counts, 0.0) + _LEAST_COUNT
    return np.where(known, values, float(weights @ values[known]) / float(weights.sum()))


def _indicator(name: str, place: int, level: int, labels: Sequence[str], label: str) -> Term:
    return Term(name=name, place=place, level=level, values=np.array([float(one == label) for one in labels]))


TermT_contra = TypeVar("TermT_contra", contravariant=True)
LinearT = TypeVar("LinearT", bound="Linear")


class Linear(Protocol):
    """A weighted sum of noisy numbers."""

    def plus(self: LinearT, other: LinearT, times: float = 1.0) -> LinearT:
        """Return the sum with a multiple of another."""
        ...


class SumsOfProducts(Protocol[TermT_contra, LinearT]):
    """Hold what least squares needs of the records: sums of products of terms, with the covariance of their errors."""

    @property
    def records(self) -> float:
        """Return how many records there are."""
        ...

    def nothing(self) -> LinearT:
        """Return the sum of no numbers."""
        ...

    def of(self, one: TermT_contra, other: TermT_contra) -> LinearT:
        """Return the sum over all records of the product of two terms."""
        ...

    def value(self, asked: LinearT) -> float:
        """Return the estimate of a weighted sum."""
        ...

    def covariance(self, one: LinearT, other: LinearT) -> float:
        """Return the covariance of two estimates."""
        ...

    def excess(self, asked: LinearT) -> float:
        """Return the excess kurtosis of a weighted sum's error: 0 of the normal law, 3 of Laplace's."""
        ...


class Moments:
    """Sums of products of terms over all records, as linear functions of noisy counts."""

    def __init__(self, published: PublishedTables, combined: CombinedCounts) -> None:
        self._published = published
        self._combined = combined
        self.records = combined.records
        self.nothing = LinearCount
        self.value = combined.value
        self.covariance = combined.covariance

    def excess(self, asked: LinearCount) -> float:
        """Return 0: the noise of counts is as good as normal."""
        del asked
        return 0.0

    def of(self, one: Term, other: Term) -> LinearCount:
        """Return the sum over all records of the product of two terms."""
        if one.place is None or other.place is None:
            alone = other if one.place is None else one
            if alone.place is None:
                return LinearCount(records=1.0)
            return LinearCount(mains={alone.place: self._at(alone, self._published.columns[alone.place].level)})
        if one.place == other.place:
            level = self._published.columns[one.place].level
            return LinearCount(mains={one.place: self._at(one, level) * self._at(other, level)})
        found = []
        for number, pair in enumerate(self._published.pairs):
            terms = [term for place in pair.columns for term in (one, other) if term.place == place]
            if len(terms) == 2 and all(level <= term.level for level, term in zip(pair.levels, terms, strict=True)):
                first, second = (self._at(term, level) for term, level in zip(terms, pair.levels, strict=True))
                found.append(self._combined.of_pair(number, np.outer(first, second)))
        return self._combined.narrowest(found)

    def _at(self, term: Term, level: int) -> Amounts:
        """Return a term's values by finer labels than its own."""
        if term.place is None:
            raise TypeError("the constant has no labels")
        hierarchy = self._published.columns[term.place].hierarchy
        codes: Codes = np.arange(hierarchy.size(level), dtype=np.int64)
        return term.values[hierarchy.coarser(codes, level=level, to=term.level)]


def least_squares(
    formula: str, published: PublishedTables, combined: CombinedCounts, *, of: Of, error: float
) -> list[dict[str, Any]]:
    """Return a row for each coefficient: its name, its estimate, its interval, its standard error, a note.

    Args:
        formula: `log(income) ~ age + square(age) + C(region)`.
        published: the release.
        combined: its margins and pairs.
        of: whose coefficients the intervals are of: the records', or those of a population of which the records are a
            random sample with residuals of one variance.
        error: of each interval.

    Raises:
        InputRefused: the formula can't be read, or two of its columns weren't counted together.
    """
    response, parts = parsed(formula)
    places = [place_of(part.column, published.columns) for part in (response, *parts)]
    levels = levels_for(places, published)
    answers = terms_of(response, published, levels)
    require_one_response(response, answers)
    constant = Term(name=CONSTANT, place=None, level=0, values=np.ones(1))
    terms = [constant, *(term for part in parts for term in terms_of(part, published, levels))]
    return coefficient_rows(
        [term.name for term in terms],
        terms,
        answers[0],
        Moments(published, combined),
        of=of,
        error=error,
        source="pairs" if len({*places}) > 1 else "margins",
        note=_level_notes(published, levels),
    )


def require_one_response(response: Part, answers: Sequence[object]) -> None:
    """Refuse a response that stands for several columns of the design, or for none."""
    if len(answers) != 1:
        raise InputRefused(
            f"the response {response.column!r} is no number.",
            not_done=NOTHING_COUNTED,
            remedy=f"Name one of its labels, {response.column}[…], for the share that has it.",
        )


def coefficient_rows(
    names: Sequence[str],
    terms: Sequence[TermT_contra],
    response: TermT_contra,
    sums: SumsOfProducts[TermT_contra, LinearT],
    *,
    of: Of,
    error: float,
    source: Source,
    note: str,
) -> list[dict[str, Any]]:
    """Return a row for each coefficient, as `least_squares`.

    Args:
        names: of the terms.
        terms: columns of the design, the constant among them.
        response: what they explain.
        sums: of their products.
        of: whose coefficients the intervals are of.
        error: of each interval.
        source: what the sums are made of.
        note: what a reader must know besides.
    """
    products = [[sums.of(one, other) for other in terms] for one in terms]
    answered = [sums.of(term, response) for term in terms]
    squares = np.array([[sums.value(one) for one in row] for row in products])
    try:
        inverse = np.linalg.inv(squares)
    except np.linalg.LinAlgError:
        inverse = np.full(squares.shape, np.nan)
    with_answer = np.array([sums.value(one) for one in answered])
    coefficients = inverse @ with_answer
    rest = sums.value(sums.of(response, response)) - float(with_answer @ coefficients)
    residual = max(rest, 0.0) / max(sums.records - len(terms), 1.0)
    rows = []
    for number, name in enumerate(names):
        moved = sums.nothing()
        for place, weight in enumerate(inverse[number].tolist()):
            moved = moved.plus(answered[place], weight)
            for other, coefficient in enumerate(coefficients.tolist()):
                moved = moved.plus(products[place][other], -weight * coefficient)
        noise = variance = sums.covariance(moved, moved)
        if of == "population":
            variance += residual * inverse[number, number]
        sound = _is_well_known(inverse[:, number], products, sums) and variance > 0
        # The sample's error, which is added, is normal: it has none of the excess.
        excess = sums.excess(moved) * (noise / variance) ** 2 if sound else 0.0
        width = _quantile(error, excess=excess) * math.sqrt(variance) if sound else math.nan
        estimate = float(coefficients[number])
        rows.append(
            {
                "term": name,
                "estimate": estimate,
                "lower": estimate - width if sound else None,
                "upper": estimate + width if sound else None,
                "standard_error": math.sqrt(variance) if sound else None,
                "source": source,
                "note": note if sound else "too few records tell this term from the others",
            }
        )
    return rows


def _quantile(error: float, *, excess: float) -> float:
    """Return the width, in standard errors, of a symmetric law whose tails are heavier than the normal law's.

    Source: E. A. Cornish, R. A. Fisher, Moments and cumulants in the specification of distributions, Rev. Inst. Int.
    Stat. 5 (1938): the term of the fourth cumulant.
    """
    normal = quantile_of(error)
    return normal + excess / 24.0 * (normal**3 - 3.0 * normal)


def _is_well_known(
    column: Amounts, products: Sequence[Sequence[LinearT]], sums: SumsOfProducts[TermT_contra, LinearT]
) -> bool:
    """Return whether the noise of what a term has besides the others is small beside it.

    With c the term's column of (X'X)⁻¹ over its own entry, c'X'Xc is the sum of squares of what is left of the term.
    """
    if not np.isfinite(column).all() or not column.any():
        return False
    left = sums.nothing()
    for one, row in zip(column.tolist(), products, strict=True):
        for other, product in zip(column.tolist(), row, strict=True):
            left = left.plus(product, one * other)
    value = sums.value(left)
    return value > 0 and math.sqrt(sums.covariance(left, left)) <= _MOST_NOISE * value


def _level_notes(published: PublishedTables, levels: Mapping[int, int]) -> str:
    coarser = [
        published.columns[place].name for place, level in levels.items() if level > published.columns[place].level
    ]
    return f"by coarser labels of {', '.join(coarser)}" if coarser else ""
