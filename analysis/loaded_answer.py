"""An answer to a request as a researcher works with it: its table, and regressions from its sums of products."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..mechanisms.hierarchies.build import described_hierarchy, labels_beyond
from ..mechanisms.kernel.errors import InputRefused
from .combined_counts import Amounts
from .conditions import NOTHING_COUNTED
from .count_estimates import ERROR
from .figures import Frames, frame_of
from .published_tables import NOT_DONE, file_of, read_table, verified_certificate
from .regressions import CONSTANT, Of, Part, coefficient_rows, parsed, require_one_response

if TYPE_CHECKING:
    from .figures import DataFrame

_LABELS = ("column", "label", "second_column", "second_label")
_FIGURES = ("answer", "interval_low", "interval_high", "standard_error")
_MOST_TERMS = 60
Cell = tuple[str, str]
"""A column and the label of it that counts; no column is the constant, and no label a number."""
NO_COLUMN: Cell = ("", "")


def load_answer(
    answer: Path | str,
    *,
    request: Path | str | None = None,
    public_key: Path | str | None = None,
    frames: Frames = "pandas",
) -> LoadedAnswer:
    """Read and verify the answer to a request.

    Labels that the hierarchies in its certificate don't have are refused.

    Args:
        answer: its folder, or its certificate.
        request: the request that it must be an answer to; without it that isn't checked.
        public_key: PEM file of the publisher's public keys; without it whose key signed isn't checked.
        frames: "pandas" or "polars".

    Raises:
        InputRefused: it can't be read, doesn't verify, or is an answer to something else.
    """
    key = None if public_key is None else Path(public_key)
    folder, certificate = verified_certificate(Path(answer), public_key=key)
    published, file = certificate["published"], file_of(certificate, "data")
    if published["form"] != "answer" or file is None:
        raise InputRefused(
            "this is no answer.", where=str(folder), not_done=NOT_DONE, remedy="A release is read by `load`."
        )
    if request is not None:
        _require_answer_to(Path(request), published.get("request"))
    columns = [one["column"] for one in certificate["map"]["columns"]]
    table = read_table(folder / file, texts=(*_LABELS, *columns)).to_pydict()
    for one in certificate["map"]["columns"]:
        if one["hierarchy"] is None or one["column"] in _FIGURES:  # a column that is summed may have a figure's name
            continue
        found = set(map(str, table.get(one["column"], ())))
        if labels_beyond(described_hierarchy(one["hierarchy"]), found, level=one["level"]):
            raise InputRefused(
                f"column {one['column']!r} of {file} has labels that its hierarchy doesn't have.",
                where=str(folder),
                not_done=NOT_DONE,
                remedy="Check it with `crowdblend verify`.",
            )
    return LoadedAnswer(table, certificate=certificate, frames=frames)


def _require_answer_to(request: Path, answered: str | None) -> None:
    try:
        sha256 = hashlib.sha256(request.read_bytes()).hexdigest()
    except OSError as error:
        raise InputRefused(
            f"the request can't be read ({error.strerror}).", where=str(request), not_done=NOT_DONE
        ) from None
    if sha256 != answered:
        raise InputRefused(
            "this answers another request, or the request was changed since.",
            where=str(request),
            not_done=NOT_DONE,
            remedy="Compare the request's SHA-256 with `request` in the certificate.",
        )


class LoadedAnswer:
    """An answer's figures, and what follows from them.

    Args:
        table: the published table, by columns.
        certificate: the certificate's fields.
        frames: what tables are given as, "pandas" or "polars".
    """

    def __init__(
        self, table: Mapping[str, Sequence[Any]], *, certificate: Mapping[str, Any], frames: Frames = "pandas"
    ) -> None:
        self.certificate = certificate
        self._table = table
        self._frames = frames

    def __repr__(self) -> str:
        """Return the answer's release id and how many figures it has."""
        return f"LoadedAnswer({self.certificate.get('release_id', '')!r}, figures: {len(self._table['answer'])})"

    def table(self) -> DataFrame:
        """Return the published figures with their intervals, as a frame."""
        names = list(self._table)
        rows = [dict(zip(names, row, strict=True)) for row in zip(*self._table.values(), strict=True)]
        return frame_of(rows, self._frames)

    def regression(self, formula: str, *, of: Of = "records") -> DataFrame:
        """Return the coefficients of ordinary least squares from the sums of products, as a frame.

        They are of the records that have a declared value in every column that was asked for, with numbers beyond
        their bounds as these. Intervals have the noise, to first order; a term has none where the noise of what it has
        besides the others is a fifth of that or more.

        Args:
            formula: `income ~ age + C(region) + sex[Female]`; columns of labels have a coefficient for each label but
                the first.
            of: whose coefficients the intervals are of: the records', or those of a population of which the records
                are a random sample with residuals of one variance.

        Raises:
            InputRefused: it isn't an answer of sums of products, or the formula asks for a column that it hasn't.
        """
        moments = self.certificate["published"].get("moments")
        if moments is None:
            raise InputRefused(
                "this answer has no sums of products.",
                not_done=NOTHING_COUNTED,
                remedy="Ask for them: `crowdblend request --regression`.",
            )
        sums = ProductSums(self._table, centres={one["column"]: one.get("centre") for one in moments})
        response, parts = parsed(formula)
        answers = sums.terms(response)
        require_one_response(response, answers)
        terms = [AnswerTerm(name=CONSTANT, cells={NO_COLUMN: 1.0})]
        terms += [term for part in parts for term in sums.terms(part)]
        if len(terms) > _MOST_TERMS:
            raise InputRefused(
                f"this regression has {len(terms)} terms, more than {_MOST_TERMS}.", not_done=NOTHING_COUNTED
            )
        names = [term.name for term in terms]
        rows = coefficient_rows(names, terms, answers[0], sums, of=of, error=ERROR, source="answer", note="")
        return frame_of(rows, self._frames)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerTerm:
    """A column of the design, or the response: a weighted sum of what was multiplied.

    Args:
        name: as it is shown.
        cells: what is multiplied, with its weights.
    """

    name: str
    cells: Mapping[Cell, float]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LinearSum:
    """A weighted sum of published sums.

    Args:
        weights: of each of them, shape (sums,).
    """

    weights: Amounts

    def plus(self, other: LinearSum, times: float = 1.0) -> LinearSum:
        """Return the sum with a multiple of another."""
        return LinearSum(weights=self.weights + times * other.weights)


class ProductSums:
    """Published sums of products, by what is multiplied.

    Args:
        table: the published table, by columns.
        centres: of each column what was taken from its numbers; None of a column of labels.
    """

    def __init__(self, table: Mapping[str, Sequence[Any]], *, centres: Mapping[str, int | None]) -> None:
        self._centres = centres
        self._sums = np.array(table["answer"], dtype=np.float64)
        self._variances = np.array(table["standard_error"], dtype=np.float64) ** 2
        cells = zip(*([text or "" for text in table[name]] for name in _LABELS), strict=True)
        self._places = {((one, label), (other, second)): n for n, (one, label, other, second) in enumerate(cells)}
        self._labels: dict[str, list[str]] = {}
        for (column, label), second in self._places:
            if second == NO_COLUMN and label:
                self._labels.setdefault(column, []).append(label)

    @property
    def records(self) -> float:
        """Return how many records have a value in every column."""
        return float(self._sums[self._places[NO_COLUMN, NO_COLUMN]])

    def terms(self, part: Part) -> list[AnswerTerm]:
        """Return the columns of the design that a part of a formula stands for.

        Raises:
            InputRefused: there is no such column or label, or what was asked for doesn't tell it.
        """
        column = part.column
        if column not in self._centres:
            raise InputRefused(
                f"column {column!r} was not asked for.",
                not_done=NOTHING_COUNTED,
                remedy=f"There are {', '.join(self._centres)}.",
            )
        if (centre := self._centres[column]) is not None:
            if part.categories or part.function or part.label:
                raise InputRefused(
                    f"column {column!r} was asked for by its numbers as they are.",
                    not_done=NOTHING_COUNTED,
                    remedy=f"Write {column} alone, or send another request.",
                )
            return [AnswerTerm(name=column, cells={(column, ""): 1.0, NO_COLUMN: float(centre)})]
        labels = self._labels[column]
        if part.function or (part.label is not None and part.label not in labels):
            raise InputRefused(
                f"column {column!r} was asked for by its labels, {', '.join(labels[:20])}.", not_done=NOTHING_COUNTED
            )
        taken = labels[1:] if part.label is None else [part.label]
        return [AnswerTerm(name=f"{column}[{label}]", cells={(column, label): 1.0}) for label in taken]

    def nothing(self) -> LinearSum:
        """Return the sum of no sums."""
        return LinearSum(weights=np.zeros_like(self._sums))

    def of(self, one: AnswerTerm, other: AnswerTerm) -> LinearSum:
        """Return the sum over all records of the product of two terms."""
        weights = np.zeros_like(self._sums)
        for (first, weight), (second, times) in product(one.cells.items(), other.cells.items()):
            place = self._place(first, second)
            if place is not None:
                weights[place] += weight * times
        return LinearSum(weights=weights)

    def _place(self, first: Cell, second: Cell) -> int | None:
        """Return the place of the sum of a product; None where it is 0 of every record."""
        if first == NO_COLUMN:
            first, second = second, first
        if first[1] and first[0] == second[0]:
            # A label's square is itself, and no record has two labels of one column.
            return self._places[first, NO_COLUMN] if first == second else None
        return self._places.get((first, second), self._places.get((second, first)))

    def value(self, asked: LinearSum) -> float:
        """Return the estimate of a weighted sum."""
        return float(asked.weights @ self._sums)

    def covariance(self, one: LinearSum, other: LinearSum) -> float:
        """Return the covariance of two estimates."""
        return float((one.weights * self._variances) @ other.weights)

    def excess(self, asked: LinearSum) -> float:
        """Return the excess kurtosis of a weighted sum's error: each sum's noise has that of Laplace's law, 3."""
        squares = asked.weights**2 * self._variances
        total = float(squares.sum())
        return 3.0 * float(squares @ squares) / total**2 if total > 0 else 0.0
