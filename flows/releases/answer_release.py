"""Releases of one noisy COUNT, SUM or MEAN, in all or in each declared group; or of the sums that regressions need."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, assert_never, cast

import numpy as np
from pydantic import Field

from ...accounting.kernel.prices.registry import price
from ...mechanisms.answer_errors import estimates, half_width, standard_errors
from ...mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ...mechanisms.hierarchies.declare import IntervalHierarchy
from ...mechanisms.kernel.amounts import amount_shown
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.mechanism import ADD_REMOVE, Relation
from ...mechanisms.kinds.answers import (
    Answer,
    AnswerProtection,
    CountAnswer,
    MeanAnswer,
    RehearsalProtection,
    SumAnswer,
    noise_of,
)
from ...mechanisms.kinds.moments import MomentsAnswer, MomentsProtection
from ...mechanisms.map_selection.choice import Levels
from ...tasks.destinations import Output, output_at
from ...tasks.request import Request
from ..columns import declared_map, require_cells
from ..spec_tables import Exact, SpecTable, refuse_unknown_noise
from .moments_parts import (
    PRODUCT_LABELS,
    declared_products,
    product_facts,
    product_labels,
    products_in_words,
)
from .release_kind import (
    NOISE_MEANS,
    RATE_MEANS,
    GivenSpec,
    ReleaseKind,
    TableReading,
    count_records,
    record_layout,
    rehearsal_epsilon,
)

if TYPE_CHECKING:
    from ...tasks.stages.table import Publication

FIGURES = ("answer", "interval_low", "interval_high", "standard_error")
REHEARSAL_LABELS = ("column", "values")
LONGEST_LABEL = 90
KEPT_BY_REHEARSAL = (
    *("file_format", "dataset", "source", "base", "written_source", "source_day", "version", "query"),
    *("reading", "limit", "verify_page"),
)
_DROWNED = 4.0
_TWELVE_DIGITS = Context(prec=12, rounding=ROUND_FLOOR)
LARGEST_BOUND = 10**9  # so that sums of 4.6 thousand million records fit 64 bits


class AskedTable(SpecTable):
    """What is asked, of all that [answer] says; a request has no more of it."""

    kind: Literal["count", "sum", "mean", "moments"]
    epsilon: Exact = Field(gt=0, le=100)
    column: str | None = None
    by: list[str] = Field(default=[])
    lower: int | None = Field(default=None, ge=-LARGEST_BOUND, le=LARGEST_BOUND)
    upper: int | None = Field(default=None, ge=-LARGEST_BOUND, le=LARGEST_BOUND)
    least_records: int | None = Field(default=None, ge=1, le=10**12)
    missing: int | None = None


class AnswerTable(AskedTable):
    """[answer]: one noisy number, or one for each declared group, or sums of products, instead of the records."""

    noise: str = "two-sided-geometric"
    relation: Relation = ADD_REMOVE
    confidence: Exact = Field(default=Decimal("0.95"), gt=0, lt=1)
    request: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRequest(Request):
    """One COUNT, SUM or MEAN, in all or in each group, or sums of products, from the specification alone.

    Args:
        recoding: the columns that are read: those of `groups`, then the one that is added up; of sums of products all
            that are multiplied.
        groups: the partition of the records, None where the answer is about all of them.
        missing: what a missing value, or one that is no whole number, counts as; within the bounds. Sums of products
            leave such records out, and have 0 here.
        confidence: of the intervals beside the answers, between 0 and 1.
        answered_request: SHA-256 (hex) of the request that is answered; None where nobody sent one.
    """

    kind: ClassVar[str] = "answer"
    domain: ClassVar[bytes] = b"crowdblend answer 1\n"

    mechanism: Answer | MomentsAnswer
    recoding: GeneralizationMap
    groups: GeneralizationMap | None
    missing: int
    confidence: Decimal
    answered_request: str | None = None

    @property
    def own_terms(self) -> Mapping[str, object]:
        """Return groups, what counts for a missing value, confidence, the request, and whether it is a rehearsal."""
        return {
            "groups": None if self.groups is None else self.groups.digest(),
            "missing": self.missing,
            "confidence": str(self.confidence),
            **({} if self.answered_request is None else {"request": self.answered_request}),
            **({"rehearsal": 1} if self.rehearsal else {}),
        }


def rehearsal_of(request: Request, *, output: Output | None) -> AnswerRequest:
    """Return what rehearses a release: noisy counts of the values of each column that become `*`, and of the others.

    Each record is counted for one column, which a coin of its own chooses, as having `*` there at the release's finest
    level or not: a COUNT in twice as many groups as there are columns, at a twentieth of the release's ε.

    Args:
        output: where the counts are published; None for a place beside the release's.

    Raises:
        InputRefused: a release of this kind can't be rehearsed, or none of its columns has labels but `*`.
    """
    whole, recoding = rehearsal_epsilon(request), request.recoding
    finest = recoding if isinstance(recoding, GeneralizationMap) else recoding.lattice.map_of(recoding.lattice.finest)
    columns = tuple(column for column in finest.columns if column.size > 1)
    if whole is None or not columns or any(column.name in (*REHEARSAL_LABELS, *FIGURES) for column in columns):
        raise InputRefused(
            "there is nothing to rehearse here: a rehearsal is of rows of labels, of columns of other names than "
            f"{', '.join((*REHEARSAL_LABELS, *FIGURES))}.",
            where="--rehearse",
            remedy="Leave it out.",
        )
    records = request.price.rows_per_person
    mechanism = CountAnswer(
        # A person's records are all counted: M of them cost M times one's ε. It is divided first, so that the whole
        # rehearsal costs no more than its share.
        epsilon=_TWELVE_DIGITS.divide(whole, records).normalize(),
        relation=ADD_REMOVE,
        groups=2 * len(columns),
        sampling_rate=None,
    )
    place = request.output
    beside = output_at(f"{place}-rehearsal", base=request.base)
    return AnswerRequest(
        **{name: getattr(request, name) for name in KEPT_BY_REHEARSAL},
        # The columns of units are rehearsed, and no table of members is made.
        unit_rule=None if request.unit_rule is None else replace(request.unit_rule, table=None),
        label=f"{request.label[:LONGEST_LABEL]}-rehearsal",
        output=beside if output is None else output,
        price=price(mechanism, delta=Decimal(0), rows_per_person=records),
        mechanism=mechanism,
        recoding=GeneralizationMap(columns=columns),
        groups=None,
        missing=0,
        confidence=Decimal("0.95"),
        rehearsal=True,
    )


def _request(given: GivenSpec) -> AnswerRequest:
    shared, table = given.shared, given.own
    refuse_unknown_noise(table.noise, where=f"{given.path}: [answer].noise")
    if given.unit_rule is not None:
        _require_count_of_units(given)
    groups, recoding, missing = None, None, 0
    try:
        if table.kind == "moments":
            products = declared_products(given, refused=(*PRODUCT_LABELS, *FIGURES))
            recoding = products.recoding
            mechanism: Answer | MomentsAnswer = MomentsAnswer(
                epsilon=table.epsilon, relation=table.relation, columns=products.text
            )
        else:
            groups = _groups(given)
            mechanism = _mechanism(given, groups=1 if groups is None else groups.cells)
            recoding, missing = _read_columns(given, mechanism, groups), _missing(given, mechanism)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=f"{given.path}: [answer]") from None
    return AnswerRequest(
        **shared,
        price=price(mechanism, delta=Decimal(0), rows_per_person=given.tables.data.rows_per_person),
        mechanism=mechanism,
        groups=groups,
        recoding=recoding,
        missing=missing,
        confidence=table.confidence,
        answered_request=table.request,
    )


def _require_count_of_units(given: GivenSpec) -> None:
    """Refuse what isn't proved, or has no meaning, of units whose records make one: all but counts by group."""
    table, where = given.own, f"{given.path}: [answer]"
    if table.kind != "count" or not table.by:
        raise InputRefused(
            "an answer about units is a count of them by group: a derived column has labels, and no numbers to add up.",
            where=f"{where}.{'by' if table.kind == 'count' else 'kind'}",
            remedy='Write kind = "count" and by = ["COLUMN", …]; all units together are one group by a column whose '
            "level has the label * alone.",
        )
    if table.relation != ADD_REMOVE:
        raise InputRefused(
            "the price of units is proved for a unit that is added or removed.",
            where=f"{where}.relation",
            remedy="Remove it, and register the data set's budget for add/remove.",
        )


def _groups(given: GivenSpec) -> GeneralizationMap | None:
    """Return the declared groups, in the order of `by`; None where there are none."""
    path, columns, by = given.path, given.tables.columns, given.own.by
    for name in by:
        if name not in columns or name in FIGURES or by.count(name) > 1:
            raise InputRefused(
                f"{name!r} can't be grouped by: a group's columns are declared, each once, and none is called "
                f"{' or '.join(FIGURES)}.",
                where=f"{path}: [answer].by",
            )
    for name in columns:
        if name not in by:
            raise InputRefused(
                "this column is declared, and the answer is not grouped by it.",
                where=f"{path}: [columns.{name}]",
                remedy="Remove it.",
            )
    if not by:
        return None
    groups = declared_map(path, {name: columns[name] for name in by}, base=given.base)
    require_cells(path, groups)
    return groups


def _mechanism(given: GivenSpec, *, groups: int) -> Answer:
    """Return what is asked; a key that its kind doesn't have is refused.

    Raises:
        ValueError: values that don't go together.
    """
    table: AnswerTable = given.own
    needed = {"count": (), "sum": ("lower", "upper"), "mean": ("lower", "upper", "least_records")}[table.kind]
    given.require_parameters(
        needed,
        of=("lower", "upper", "least_records"),
        what=f"a {table.kind}",
        remedy="Declare it; it may not come from the records.",
    )
    rate = given.sampling_rate
    if table.kind == "count":
        return CountAnswer(epsilon=table.epsilon, relation=table.relation, groups=groups, sampling_rate=rate)
    lower, upper = table.lower or 0, table.upper or 0
    if table.kind == "sum":
        total = SumAnswer(
            epsilon=table.epsilon, relation=table.relation, groups=groups, sampling_rate=rate, lower=lower, upper=upper
        )
        if rate is not None and lower < 0 < upper:
            raise InputRefused(
                "the standard error of a sum from a sample needs bounds of one sign.",
                where=f"{given.path}: [answer].lower",
                remedy="Leave [sampling] out, or ask for the mean.",
            )
        return total
    return MeanAnswer(
        epsilon=table.epsilon,
        relation=table.relation,
        groups=groups,
        sampling_rate=rate,
        lower=lower,
        upper=upper,
        least_records=table.least_records or 0,
    )


def _read_columns(given: GivenSpec, mechanism: Answer, groups: GeneralizationMap | None) -> GeneralizationMap:
    """Return the columns that are read: those of the groups, then the one that is added up.

    A count of all records has no column of its own; one that is named is read as a single group.
    """
    table, grouped = given.own, () if groups is None else groups.columns
    match mechanism:
        case CountAnswer():
            if groups is not None and table.column is None:
                return groups
            lower, upper, level = 0, 1, 1
        case SumAnswer() | MeanAnswer():
            lower, upper, level = mechanism.lower, mechanism.upper + 1, 0
        case _:
            assert_never(mechanism)
    where = f"{given.path}: [answer].column"
    if table.column is None:
        raise InputRefused(
            "this is required and missing.",
            where=where,
            remedy="A count of all records names any column of the table; what is in it decides nothing.",
        )
    if isinstance(mechanism, CountAnswer) and groups is not None:
        raise InputRefused("a count by group has no column of its own.", where=where, remedy="Remove it.")
    if table.column in table.by:
        raise InputRefused("a column is added up or grouped by, not both.", where=where)
    hierarchy = IntervalHierarchy(lower=lower, upper=upper, widths=())
    return GeneralizationMap(columns=(*grouped, MappedColumn(name=table.column, hierarchy=hierarchy, level=level)))


def _missing(given: GivenSpec, mechanism: Answer) -> int:
    """Return what a value that is no whole number counts as: as declared, or the number in the bounds nearest to 0."""
    where, declared = f"{given.path}: [answer].missing", given.own.missing
    match mechanism:
        case CountAnswer():
            if declared is not None:
                raise InputRefused(
                    "a count adds up no values, so nothing counts for a missing one.", where=where, remedy="Remove it."
                )
            return 0
        case SumAnswer(lower=lower, upper=upper) | MeanAnswer(lower=lower, upper=upper):
            missing: int = min(max(0, lower), upper) if declared is None else declared
            if not lower <= missing <= upper:
                raise InputRefused(f"{missing} does not lie within the bounds {lower} and {upper}.", where=where)
            return missing
        case _:
            assert_never(mechanism)


def _protection(request: AnswerRequest, levels: Levels | None) -> AnswerProtection | MomentsProtection:
    """Return the noisy numbers, in steps of the answer."""
    del levels
    mechanism = request.mechanism
    if isinstance(mechanism, MomentsAnswer):
        return MomentsProtection(mechanism=mechanism, layout=request.recoding.layout)
    protection = RehearsalProtection if request.rehearsal else AnswerProtection
    return protection(
        mechanism=mechanism,
        layout=request.recoding.layout,
        groups=None if request.groups is None else request.groups.layout,
        missing=request.missing,
    )


def starred_shares(request: AnswerRequest, steps: Sequence[int]) -> list[dict[str, Any]]:
    """Return the share of each column's values that become `*`, by the noisy counts, with an interval of 95 %.

    The interval has the noise of both counts and the choice of the records that were counted for the column, by the
    normal approximation; no share is given where the noise exceeds the counts.
    """
    deviation, quantile = noise_of(cast("Answer", request.mechanism)).variance ** 0.5, NormalDist().inv_cdf(0.975)
    found = []
    for place, column in enumerate(request.recoding.columns):
        declared, starred = int(steps[2 * place]), int(steps[2 * place + 1])
        many = declared + starred
        share = low = high = None
        # Without this, a share of a few noisy counts would look like a finding.
        if many > _DROWNED * deviation:
            share = min(1.0, max(0.0, starred / many))
            spread = share * (1.0 - share) / many + (share**2 + (1.0 - share) ** 2) * (deviation / many) ** 2
            width = quantile * spread**0.5
            low, high = max(0.0, share - width), min(1.0, share + width)
        found.append({"column": column.name, "share": share, "low": low, "high": high})
    return found


def _publication(request: AnswerRequest, _: GeneralizationMap, steps: tuple[int, ...]) -> Publication:
    """Return one row for each declared group, in the order of their codes.

    The interval holds the exact answer with the request's confidence: exactly for an answer about all records. A
    count or sum from a sample has a normal approximation, which the sampling is part of; a mean from a sample has an
    interval for the sample's mean.
    """
    from ...tasks.stages.table import (
        Publication,
        PublishedTable,
        figure_columns,
        label_columns,
        text_column,
    )

    answer, confidence = request.mechanism, float(request.confidence)
    details: dict[str, Any] = {"confidence": str(request.confidence)}
    if request.answered_request is not None:
        details["request"] = request.answered_request
    if isinstance(answer, MomentsAnswer):
        noises = [noise for block in answer.blocks for noise in [answer.noise(block)] * block.cells]
        errors = [noise.variance**0.5 for noise in noises]
        widths = [float(noise.half_width(confidence)) for noise in noises]
        values = [float(sum_) for sum_ in steps]
        cells = zip(*product_labels(answer, request.recoding), strict=True)
        labels = tuple(text_column(name, own) for name, own in zip(PRODUCT_LABELS, cells, strict=True))
        details["moments"] = product_facts(answer, request.recoding)
    else:
        errors = standard_errors(answer, steps)
        widths = _half_widths(answer, errors, confidence=confidence)
        values = [float(value) for value in estimates(answer, steps)]
        labels = ()
        details["missing"] = request.missing
    if request.rehearsal:
        names = [column.name for column in request.recoding.columns for _ in range(2)]
        texts = (names, ["declared", "*"] * len(request.recoding.columns))
        labels = tuple(text_column(name, own) for name, own in zip(REHEARSAL_LABELS, texts, strict=True))
        details["rehearsal"] = starred_shares(request, steps)
    if request.groups is not None:
        labels = tuple(label_columns(np.arange(request.groups.cells).reshape(1, -1), generalization=request.groups))
    # Every group is a row, so that a dictionary of the labels would be as long as the column.
    plain = (replace(column, values=column.values.dictionary_decode()) for column in labels)
    figures = figure_columns(FIGURES, values, widths, errors, shown=_shown)
    return Publication(
        table=PublishedTable(columns=(*plain, *figures), times=None),
        file_format=request.file_format,
        groups=len(values),
        records=None,
        form="answer",
        details=details,
    )


def _half_widths(answer: Answer, errors: Sequence[float], *, confidence: float) -> list[float]:
    """Return half the width of the interval round each answer."""
    if answer.sampling_rate is None or isinstance(answer, MeanAnswer):
        return [float(half_width(answer, confidence=confidence))] * len(errors)
    # On a sample the error has two parts, of sampling and of noise, whose sum has no law in closed form.
    quantile = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    return [quantile * error for error in errors]


def _shown(figure: float) -> str:
    """Return a figure in CSV: whole numbers have no fraction."""
    whole = math.isfinite(figure) and figure.is_integer() and abs(figure) < 1 << 53
    return str(int(figure)) if whole else repr(figure)


def _explained(request: AnswerRequest) -> dict[str, Any]:
    """Return how accurate the answer will be; known beforehand, since the noise doesn't depend on the records."""
    answer, confidence = request.mechanism, float(request.confidence)
    told: dict[str, Any] = {"maps": 1, "selection": None, "relation": request.price.relation, "confidence": confidence}
    if isinstance(answer, MomentsAnswer):
        return told | {"cells": answer.cells}
    return told | {"cells": answer.groups, "half_width": float(half_width(answer, confidence=confidence))}


def asked_in_words(request: AnswerRequest) -> tuple[str, str]:
    """Return what is asked, as a noun in plain words, and a sentence on how exact the figures will be."""
    answer, confidence = request.mechanism, float(request.confidence)
    column = request.recoding.columns[-1].name
    match answer:
        case MomentsAnswer():
            asked = (
                f"the {answer.cells:,} sums that a regression needs, of {products_in_words(answer, request.recoding)}"
            )
            # Of every block alike: noise is in proportion to what a record can add.
            records = amount_shown(answer.noise(answer.blocks[0]).variance ** 0.5)
            return asked, f"Each sum's standard error is as much as {records} records can add to it at most."
        case CountAnswer():
            together = request.limit is not None and request.limit.together
            asked = f"how many {request.limit.unit if together and request.limit else 'record'}s there are"
        case SumAnswer(lower=lower, upper=upper):
            asked = f"the sum of {column}, of {_clamped(lower, upper, request.missing)}"
        case MeanAnswer(lower=lower, upper=upper, least_records=least):
            asked = (
                f"the mean of {column}, of {_clamped(lower, upper, request.missing)}; their sum is divided by "
                f"{least:,} where there are fewer records"
            )
        case _:
            assert_never(answer)
    if request.groups is not None:
        names = [f"{one.name} (level {one.level})" for one in request.groups.columns]
        asked += f"; in each of {answer.groups:,} groups by {' and '.join(names)}"
    width = amount_shown(float(half_width(answer, confidence=confidence)))
    return asked, f"Its noise moves a figure by at most {width}, with a confidence of {confidence:.4g}."


def _clamped(lower: int, upper: int, missing: int) -> str:
    return f"numbers from {lower:,} to {upper:,}, smaller and larger ones as these and a missing one as {missing:,}"


def _table_reading(mechanism: Answer | MomentsAnswer, form: str) -> TableReading:
    del form
    rate = None if isinstance(mechanism, MomentsAnswer) else mechanism.sampling_rate
    return TableReading(shape="answers", rate=rate, k=None, suppresses=False, noise=None)


KIND = ReleaseKind(
    name=AnswerRequest.kind,
    model=AnswerTable,
    allows=frozenset({"sampling", "unit", "columns"}),
    mechanisms=(CountAnswer, SumAnswer, MeanAnswer, MomentsAnswer),
    series=False,
    forms=False,
    limits=True,
    unequal_rates=lambda _: frozenset(),
    request=_request,
    layout=record_layout,
    count=count_records,
    protection=_protection,
    finish=_publication,
    explain=_explained,
    meanings={
        "epsilon": NOISE_MEANS,
        "sampling_rate": RATE_MEANS,
        "relation": "what is hidden: a person's presence, or a person's values",
        "lower": "smaller values count as this",
        "upper": "larger values count as this",
        "columns": "whose products are added up: numbers by their bounds, and labels by how many there are",
        "least_records": "N: a mean is divided by this where there are fewer records",
    },
    sheet=_table_reading,
    preview=lambda _: None,
    figures=frozenset(FIGURES),
)
