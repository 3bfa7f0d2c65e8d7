"""What a researcher needs to know of a deletion release: stages, weights, small groups, and code that counts in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ....mechanisms.deletion import (
    WEIGHT_TOTAL,
    DeletionRelease,
    deletion_variance,
    deletion_weights,
    expected_deletion,
    largest_deletion,
)
from ....mechanisms.hierarchies.build import described_hierarchy

__all__ = [
    "Counted",
    "DeletionFacts",
    "GroupError",
    "Loading",
    "PublishedStage",
    "SmallGroup",
    "deletion_code",
    "deletion_facts",
]

COUNTS = (1, 2, 5, 10, 20, 50, 100, 1_000)
SHARES = (Fraction(1, 5), Fraction(7, 20), Fraction(1, 2), Fraction(13, 20), Fraction(4, 5), Fraction(1))
SMALL = 5
MOST_MERGED = 40
MOST_LABELS = 10_000
OUTSIDE = Fraction(1, 40)


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedStage:
    """One stage.

    Args:
        number: 1 for the finest.
        levels: of each column.
        groups: that it published.
        records: that it published.
    """

    number: int
    levels: Mapping[str, int]
    groups: int
    records: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupError:
    """How certain the weights of a group of the last stage are.

    Args:
        published: J, its records in the table.
        weight: of each.
        error: standard error of that.
        people: what the weights add up to.
        low: the fewest that it has in 19 of 20 draws, had it enough for being published for certain.
        high: the most.
    """

    published: int
    weight: float
    error: float
    people: float
    low: int
    high: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallGroup:
    """A group that is small.

    Args:
        people: that it has in truth.
        published: the probability that it is in the table at all.
        estimate: what its weights add up to in the mean where it is.
    """

    people: int
    published: float
    estimate: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionFacts:
    """What the noise of a release means for its table; from the integer weights that it was drawn by.

    Args:
        stages: the chain, the finest first.
        k: the smallest number of records that is published of a group.
        expected: E[Z], records.
        deviation: sd(Z), records.
        largest: the largest Z.
        errors: of groups of the last stage.
        small: what becomes of small groups.
        counted: the column that the code counts by; None where it counts by stage.
        calibrated: whether the weights were raked to noisy margins afterwards.
    """

    stages: tuple[PublishedStage, ...]
    k: int
    expected: float
    deviation: float
    largest: int
    errors: tuple[GroupError, ...]
    small: tuple[SmallGroup, ...]
    counted: Counted | None
    calibrated: bool

    @property
    def unbiased_from(self) -> int:
        """So many records of a group are published for certain, and estimated without bias."""
        return self.largest + self.k


def deletion_facts(mechanism: DeletionRelease, certificate: Mapping[str, Any], table: pa.Table) -> DeletionFacts:
    """Read what concerns the deletion from a certificate that verifies, and its table.

    Args:
        mechanism: the certificate's.
        certificate: its fields.
        table: the published rows, labels as texts.
    """
    noise, k = mechanism.noise, mechanism.k
    weights, expected, largest = deletion_weights(noise), expected_deletion(noise), largest_deletion(noise)
    sizes = {max(k, round(share * (largest + k))) for share in SHARES} | ({SMALL} if k <= SMALL < largest else set())
    stages = tuple(
        PublishedStage(
            number=number,
            levels=stage["levels"],
            groups=stage["published_groups"],
            records=stage["published_records"],
        )
        for number, stage in enumerate(certificate["published"]["stages"], start=1)
    )
    return DeletionFacts(
        stages=stages,
        k=k,
        expected=float(expected),
        deviation=sqrt(deletion_variance(noise)),
        largest=largest,
        errors=tuple(_errors(mechanism)),
        small=tuple(_small(weights, size, k=k, expected=expected) for size in sorted(sizes)),
        counted=_counted(certificate, table, stages),
        calibrated="margins" in certificate["published"],
    )


def _errors(mechanism: DeletionRelease) -> list[GroupError]:
    """sd(Z)/J a row, and the middle 95 % of Z by its exact distribution."""
    weights = deletion_weights(mechanism.noise)
    expected, deviation = float(expected_deletion(mechanism.noise)), sqrt(deletion_variance(mechanism.noise))
    reached = list(accumulate(weights))
    low = next(z for z, below in enumerate(reached) if below > OUTSIDE * WEIGHT_TOTAL)
    high = next(z for z, below in enumerate(reached) if below >= (1 - OUTSIDE) * WEIGHT_TOTAL)
    return [
        GroupError(
            published=count,
            weight=1.0 + expected / count,
            error=deviation / count,
            people=count + expected,
            low=count + low,
            high=count + high,
        )
        for count in sorted({mechanism.k, *(count for count in COUNTS if count >= mechanism.k)})
    ]


def _small(weights: Sequence[int], size: int, *, k: int, expected: Fraction) -> SmallGroup:
    """A group of `size` is published where Z ≤ size − k, and then estimated at size − Z + E[Z]."""
    reached = weights[: size - k + 1]
    chance = sum(reached)
    kept = Fraction(sum((size - z) * weight for z, weight in enumerate(reached)), chance)
    return SmallGroup(people=size, published=chance / WEIGHT_TOTAL, estimate=float(kept + expected))


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """The column that the code counts by, at the levels of the last stage.

    Args:
        column: its name.
        merged: stage and label → the label of the last stage that it belongs to; those that aren't the same alone.
    """

    column: str
    merged: Mapping[tuple[int, str], str]


def _counted(certificate: Mapping[str, Any], table: pa.Table, stages: Sequence[PublishedStage]) -> Counted | None:
    """The first column whose labels need not be merged; else the first with few to merge into several."""
    columns = certificate["map"]["columns"]
    for column in columns:
        if len({stage.levels[column["column"]] for stage in stages}) == 1:
            return Counted(column=column["column"], merged={})
    found = (_merging(column, table, stages) for column in columns)
    return next((one for one in found if one is not None), None)


def _merging(column: Mapping[str, Any], table: pa.Table, stages: Sequence[PublishedStage]) -> Counted | None:
    """The labels that the table has, and those of the last stage that they belong to.

    None where they are many, or all become one.
    """
    name, last = column["column"], stages[-1].levels[column["column"]]
    if column["hierarchy"] is None:
        return None
    hierarchy = described_hierarchy(column["hierarchy"])
    if hierarchy.size(last) == 1:
        return None
    merged: dict[tuple[int, str], str] = {}
    for stage in stages[:-1]:
        level = stage.levels[name]
        if hierarchy.size(level) > MOST_LABELS:
            return None
        codes = np.arange(hierarchy.size(level), dtype=np.int64)
        becomes = hierarchy.labels(hierarchy.coarser(codes, level=level, to=last), last)
        merged |= {
            (stage.number, label): coarse
            for label, coarse in zip(hierarchy.labels(codes, level), becomes, strict=True)
            if label != coarse
        }
    pairs = pa.table({"stage": table["stage"], "label": table[name].cast(pa.string())}).group_by(["stage", "label"])
    there = sorted((int(row["stage"]), row["label"]) for row in pairs.aggregate([]).to_pylist())
    few = {pair: merged[pair] for pair in there if pair in merged}
    return Counted(column=name, merged=few) if len(few) <= MOST_MERGED else None


class Loading(NamedTuple):
    """How the table is loaded in each tool."""

    pandas: str
    polars: str
    duckdb: str
    r: str


def deletion_code(
    facts: DeletionFacts, *, labels: Sequence[str], counts: bool, loading: Loading, literal: Callable[[str], str]
) -> dict[str, str]:
    """The same weighted count in each tool, with its standard error: sd(Z) a group of the last stage.

    Args:
        facts: of the release.
        labels: the columns of labels.
        counts: whether a row is a group with its `count`.
        loading: the lines, or the source in SQL, that load the table.
        literal: a text as Python and R write it.
    """
    by = "stage" if facts.counted is None else facts.counted.column
    merged = {} if facts.counted is None else facts.counted.merged
    last = len(facts.stages) if len(facts.stages) > 1 else None
    asked = _Asked(
        by=by, merged=merged, last=last, labels=labels, counts=counts, error=f"{facts.deviation:.12g}", literal=literal
    )
    return {
        "pandas": asked.pandas(loading.pandas),
        "Polars": asked.polars(loading.polars),
        "DuckDB": asked.duckdb(loading.duckdb),
        "R": asked.r(loading.r),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """A count; `last` is the number of the last stage where there are several, `error` sd(Z)."""

    by: str
    merged: Mapping[tuple[int, str], str]
    last: int | None
    labels: Sequence[str]
    counts: bool
    error: str
    literal: Callable[[str], str]

    def pandas(self, load: str) -> str:
        name, texts = self.literal(self.by), ", ".join(self.literal(label) for label in self.labels)
        lines = ["import pandas as pd", "", load]
        if self.merged:
            pairs = ", ".join(f"({s}, {self.literal(a)}): {self.literal(b)}" for (s, a), b in self.merged.items())
            lines += [
                f"coarse = {{{pairs}}}",
                f'table[{name}] = [coarse.get(pair, pair[1]) for pair in zip(table["stage"], table[{name}])]',
            ]
        weight = '(table["weight"] * table["count"])' if self.counts else 'table["weight"]'
        last = "table" if self.last is None else f'table[table["stage"] == {self.last}]'
        lines += [
            f"people = {weight}.groupby(table[{name}], observed=True).sum()",
            f"last = {last}.drop_duplicates([{texts}])",
            f"groups = last.groupby({name}, observed=True).size().reindex(people.index, fill_value=0)",
            f"error = groups**0.5 * {self.error}  # sd(Z), a group",
            'print(pd.DataFrame({"people": people, "error": error}))',
        ]
        return "\n".join(lines) + "\n"

    def polars(self, load: str) -> str:
        name, texts = self.literal(self.by), ", ".join(self.literal(label) for label in self.labels)
        lines = ["import polars as pl", "", load]
        if self.merged:
            rows = ", ".join(f"({s}, {self.literal(a)}, {self.literal(b)})" for (s, a), b in self.merged.items())
            schema = f'{{"stage": pl.Int64, {name}: pl.String, "merged": pl.String}}'
            lines += [
                f'coarse = pl.DataFrame([{rows}], schema={schema}, orient="row")',
                f'table = table.with_columns(pl.col({name}).cast(pl.String)).join(coarse, on=["stage", {name}], '
                'how="left")',
                f'table = table.with_columns(pl.coalesce("merged", {name}).alias({name}))',
            ]
        weight = '(pl.col("weight") * pl.col("count"))' if self.counts else 'pl.col("weight")'
        last = "table" if self.last is None else f'table.filter(pl.col("stage") == {self.last})'
        lines += [
            f"people = table.group_by({name}).agg(people={weight}.sum())",
            f"groups = {last}.unique([{texts}]).group_by({name}).agg(groups=pl.len())",
            f'counts = people.join(groups, on={name}, how="left").with_columns(pl.col("groups").fill_null(0))',
            f'print(counts.with_columns(error=pl.col("groups").sqrt() * {self.error}).sort({name}))',
        ]
        return "\n".join(lines) + "\n"

    def duckdb(self, source: str) -> str:
        name, texts = _quoted(self.by), ", ".join(_quoted(label) for label in self.labels)
        weight = '"weight" * "count"' if self.counts else '"weight"'
        where = "" if self.last is None else f' FILTER (WHERE "stage" = {self.last})'
        label, origin = name, source
        if self.merged:
            rows = ", ".join(f"({s}, {_text(a)}, {_text(b)})" for (s, a), b in self.merged.items())
            label = f"coalesce(merged, {name})"
            origin = (
                f'{source}\nLEFT JOIN (VALUES {rows}) AS coarse(of_stage, of_label, merged)\n  ON "stage" = of_stage '
                f"AND {name} = of_label"
            )
        return (
            f"SELECT {label} AS label, sum({weight}) AS people,\n"
            f"       sqrt(count(DISTINCT row({texts})){where}) * {self.error} AS error\n"
            f"FROM {origin}\nGROUP BY label\nORDER BY label;\n"
        )

    def r(self, load: str) -> str:
        name, texts = self.literal(self.by), ", ".join(self.literal(label) for label in self.labels)
        lines = [load, "table <- as.data.frame(table)", f"label <- as.character(table[[{name}]])"]
        if self.merged:
            stages = ", ".join(str(stage) for stage, _ in self.merged)
            finer = ", ".join(self.literal(label) for _, label in self.merged)
            merged = ", ".join(self.literal(label) for label in self.merged.values())
            lines += [
                f"place <- match(paste(table$stage, label), paste(c({stages}), c({finer})))",
                f"label <- ifelse(is.na(place), label, c({merged})[place])",
            ]
        weight = "table$weight * table$count" if self.counts else "table$weight"
        last, of = ("TRUE", "") if self.last is None else (f"table$stage == {self.last}", ', "stage"')
        lines += [
            f"people <- tapply({weight}, label, sum)",
            f"last <- {last} & !duplicated(table[c({texts}{of})])",
            f"error <- sqrt(tapply(last, label, sum)) * {self.error}",
            "print(cbind(people, error))",
        ]
        return "\n".join(lines) + "\n"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
