"""How well pairs of columns are kept, on NIST's records: deletion releases and sampled ones.

    python -m benchmarks.utility.k_marginal --nist FOLDER

The folder holds ma2019.csv, NIST's diverse communities excerpt of Massachusetts 2019 (SDNist, public domain); the
project does not ship it. The score is NIST's k-marginal with k = 2, over ten columns, ages in bins of 5: 500·(2 − the
mean over all pairs of columns of the L1 distance of the pair's two distributions). A label counts as its values, each
as often as the others.

Releases are made by the product, charged to a ledger and read back from their files. "Sampled, raked" is a sampled
release at 0.8 of ε with counts of every column at 0.2 of it, each a release of its own, and the weights raked here as
deletion's are. Synthesizers beside them: `compare.py`.

The fine and the coarse map were chosen by trying maps on these very records: values that are rare or frequent are
published as they are (veterans, races, housing), and those that are spread about evenly are merged (ages, sexes,
deciles of income), since such a label is read well. That look is not in the price, so their scores tell what a well
chosen map reaches; an office chooses on public records, or privately. All kinds have the same maps. "Usual" is the map
that one would write for readable groups, without such a look.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from crowdblend.accounting.theory.planning.inversion import Target, least_k
from crowdblend.deploy.api import add_dataset, release
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.generalization_map import GeneralizationMap
from crowdblend.mechanisms.record_weights import rake_weights
from numpy.typing import NDArray

from ..generated_pages import write_between

__all__ = ["BY", "COLUMNS", "Records", "k_marginal", "main"]

BY = "benchmarks/utility/k_marginal.py"
EPSILON, DELTA, MARGIN_SHARE = Decimal(1), Decimal("1e-6"), Decimal("0.2")
RATES = (Decimal("0.3"), Decimal("0.5"), Decimal("0.6"))
COLUMNS = (
    "AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE",
)  # fmt: skip
AGES = "AGEP"
BIN, AGES_BELOW = 5, 100

VALUES: Mapping[str, tuple[str, ...]] = {
    "AGEP": tuple(str(age) for age in range(AGES_BELOW)),
    "SEX": ("1", "2"),
    "MSP": ("N", "1", "2", "3", "4", "5", "6"),
    "RAC1P": tuple("123456789"),
    "HOUSING_TYPE": ("1", "2", "3"),
    "OWN_RENT": ("0", "1", "2"),
    "EDU": ("N", *(str(code) for code in range(1, 13))),
    "PINCP_DECILE": ("N", *(str(decile) for decile in range(10))),
    "DVET": ("N", "1", "2", "3", "4", "5", "6"),
    "DEYE": ("1", "2"),
}
"""The codes of the survey's dictionary; N does not apply: to children, or to people who never served."""

Cut = tuple[str, ...]
Way = Sequence[Cut] | None
ALL: tuple[Cut, ...] = ()
"""A column merged to `*`; None publishes the values as they are."""


def ages(*cuts: int) -> list[Cut]:
    """Intervals of ages between these."""
    edges = (0, *cuts, AGES_BELOW)
    return [tuple(str(age) for age in range(*pair)) for pair in itertools.pairwise(edges)]


def codes(*groups: str) -> list[Cut]:
    """Groups of codes, each written with spaces between."""
    return [tuple(group.split()) for group in groups]


FINE: Mapping[str, Way] = {
    "AGEP": ages(15, 35, 65), "SEX": ALL, "MSP": None, "RAC1P": None, "HOUSING_TYPE": None, "OWN_RENT": None,
    "EDU": None, "PINCP_DECILE": codes("N", "0 1 2 3 4", "5 6 7 8 9"), "DVET": None, "DEYE": None,
}  # fmt: skip
COARSE: Mapping[str, Way] = {
    "AGEP": ages(15), "SEX": ALL, "MSP": None, "RAC1P": None, "HOUSING_TYPE": None, "OWN_RENT": None, "EDU": None,
    "PINCP_DECILE": codes("N", "0 1 2 3 4 5 6 7 8 9"), "DVET": None, "DEYE": None,
}  # fmt: skip
USUAL: Mapping[str, Way] = {
    "AGEP": ages(15, 35, 65), "SEX": None, "MSP": codes("N", "1 2", "3 4 5", "6"),
    "RAC1P": codes("1", "2 3 4 5 6 7 8 9"), "HOUSING_TYPE": codes("1", "2 3"), "OWN_RENT": None,
    "EDU": codes("N 1 2 3 4", "5 6 7 8", "9 10 11 12"), "PINCP_DECILE": codes("N", "0 1 2 3 4", "5 6 7 8 9"),
    "DVET": codes("N", "1 2 3 4 5 6"), "DEYE": None,
}  # fmt: skip
MAPS = {"fine": FINE, "coarse": COARSE, "usual": USUAL}

Amounts = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Records:
    """The records, and a folder with a ledger to release them in.

    Args:
        file: the records.
        work: where hierarchies, ledger and releases go; temporary.
    """

    file: Path
    work: Path
    _made: list[Path] = field(default_factory=list)

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The code of every record in every column, ages in their bins; shape (columns, records).

        Raises:
            ValueError: a value that the survey's dictionary doesn't have.
        """
        with self.file.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        found = [[VALUES[name].index(row[name]) for row in rows] for name in COLUMNS]
        whole = np.array(found, dtype=np.int64)
        whole[COLUMNS.index(AGES)] //= BIN
        return whole

    @property
    def known(self) -> dict[str, Any]:
        """The ledger and the private store of a release."""
        return {"ledger_url": f"sqlite:///{self.work / 'ledger.db'}", "home": self.work / "private"}

    def add(self) -> None:
        """Register the data set, with a budget for all that is measured."""
        add_dataset("people", epsilon=1000, delta="0.1", **self.known)

    def spec(self, tables: str, maps: Sequence[Mapping[str, Way]], *, columns: Sequence[str] = COLUMNS) -> Path:
        """A specification with these tables, of one map or of a chain; as counts."""
        texts = []
        for name in columns:
            ways = [one[name] for one in maps]
            level = f"levels = {list(range(1, len(maps) + 1))}" if len(maps) > 1 else "level = 1"
            texts.append(f'[columns.{name}]\nhierarchy = "{self._hierarchy(name, ways)}"\n{level}\n')
        path = self._new("toml")
        path.write_text(
            f'[release]\nname = "people"\n[data]\ndataset = "people"\nsource = "{self.file}"\n{tables}{"".join(texts)}',
            encoding="utf-8",
        )
        return path

    def published(self, spec: Path) -> tuple[Any, list[dict[str, Any]]]:
        """Release; what was asked for, and the rows of the published table."""
        output = self._new("out")
        release(spec, output=output, **self.known)
        rows: list[dict[str, Any]] = pq.read_table(output / "data.parquet").to_pylist()
        return read_spec(spec, output=output), rows

    def _hierarchy(self, name: str, ways: Sequence[Way]) -> Path:
        """A file with a level for each way: the value, its labels, and `*`."""
        path = self._new("csv")
        lines = []
        for value in VALUES[name]:
            labels = []
            for groups in ways:
                own = next((group for group in groups or () if value in group), (value,))
                labels.append("*" if groups == ALL else own[0] if len(own) == 1 else f"{own[0]} to {own[-1]}")
            lines.append(";".join([value, *labels, "*"]))
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def _new(self, suffix: str) -> Path:
        self._made.append(self.work / f"{len(self._made)}.{suffix}")
        return self._made[-1]


def k_marginal(true: Sequence[Amounts], found: Sequence[Amounts], *, weights: Amounts) -> float:
    """NIST's score of weighted groups against records, 0 … 1000.

    Args:
        true: per column the records' share in each value, shape (records, values).
        found: the same of the groups, shape (groups, values).
        weights: of the groups.
    """
    distances = []
    for one, other in itertools.combinations(range(len(true)), 2):
        pairs = true[one].T @ true[other] / len(true[one])
        guessed = (found[one] * weights[:, None]).T @ found[other]
        distances.append(float(np.abs(pairs - guessed / max(float(guessed.sum()), 1e-300)).sum()))
    return 500.0 * (2.0 - float(np.mean(distances)))


def ones(codes_of: NDArray[np.int64]) -> list[Amounts]:
    """Per column, each record's share in each value: all in its own."""
    sizes = [(AGES_BELOW // BIN) if name == AGES else len(VALUES[name]) for name in COLUMNS]
    return [np.eye(size)[own] for size, own in zip(sizes, codes_of, strict=True)]


def shares(rows: Iterable[Mapping[str, Any]], *, stages: Sequence[GeneralizationMap]) -> list[Amounts]:
    """Per column, each row's share in each value: the same in every value of its label at its stage."""
    rows, found = list(rows), []
    for name in COLUMNS:
        values = VALUES[name]
        spread: dict[tuple[int, str], Amounts] = {}
        for number, one in enumerate(stages, start=1):
            column = next(column for column in one.columns if column.name == name)
            texts = [value.encode() for value in values]
            labels = column.hierarchy.labels(column.hierarchy.codes_of_texts(texts, column.level), column.level)
            for label in {*labels, "*"}:
                inside = np.array([label in ("*", own) for own in labels], dtype=float)
                if name == AGES:
                    inside = inside.reshape(-1, BIN).sum(axis=1)
                spread[number, label] = inside / inside.sum()
        found.append(np.array([spread[int(row.get("stage", 1)), row[name]] for row in rows]).reshape(len(rows), -1))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """One line of the table."""

    name: str
    score: float
    kept: str


def deletion(records: Records, true: Sequence[Amounts], *, margins: bool, maps: Sequence[str]) -> Scored:
    """A deletion release by a chain of maps, with margins or without."""
    tables = f"[deletion]\n[privacy]\nepsilon = {EPSILON}\ndelta = {DELTA}\n{'[margins]' if margins else ''}\n"
    request, rows = records.published(records.spec(tables, [MAPS[name] for name in maps]))
    found = shares(rows, stages=request.maps)
    weights = np.array([row["weight"] for row in rows])
    name = "deletion, calibrated" if margins else "deletion"
    return Scored(
        name=f"{name}, {' then '.join(maps)} map",
        score=k_marginal(true, found, weights=weights),
        kept=f"{len(rows):,} of {records.codes.shape[1]:,} records",
    )


def sampled(records: Records, true: Sequence[Amounts]) -> tuple[Scored, Scored]:
    """The best sampled release of the three maps and of three rates; and the best of those that were raked."""
    plain, raked = [], []
    counts = column_counts(records)
    for (name, one), rate in itertools.product(MAPS.items(), RATES):
        for epsilon, into in ((EPSILON, plain), (EPSILON * (1 - MARGIN_SHARE), raked)):
            k = least_k(rate, Target(epsilon=epsilon, delta=DELTA))
            tables = (
                f"[sampling]\nrate = {rate}\n[suppression]\nk = {k}\n[privacy]\nepsilon = {epsilon}\ndelta = {DELTA}\n"
            )
            request, rows = records.published(records.spec(tables, [one]))
            if not rows:
                continue
            generalization = request.recoding
            weights = np.ones(len(rows))
            if into is raked:
                weights = raked_weights(rows, generalization, counts)
            score = k_marginal(true, shares(rows, stages=[generalization]), weights=weights)
            told = f"sampled{', raked' if into is raked else ''}, best: {name} map, β = {rate}, k = {k}"
            into.append(Scored(name=told, score=score, kept=f"{len(rows):,} sampled records"))
    return max(plain, key=lambda one: one.score), max(raked, key=lambda one: one.score)


def column_counts(records: Records) -> list[dict[str, float]]:
    """Noisy counts of every column's values: an answer each, of all records."""
    found = []
    each = EPSILON * MARGIN_SHARE / len(COLUMNS)
    for name in COLUMNS:
        tables = f'[answer]\nkind = "count"\nepsilon = {each}\nby = ["{name}"]\n'
        _, rows = records.published(records.spec(tables, [dict.fromkeys(COLUMNS)], columns=[name]))
        found.append({row[name]: float(row["answer"]) for row in rows})
    return found


def raked_weights(
    rows: Sequence[Mapping[str, Any]], generalization: GeneralizationMap, counts: Sequence[Mapping[str, float]]
) -> Amounts:
    """Weights of sampled rows that fit the counts of every column, as those of a calibrated deletion release do."""
    codes_of, noisy = [], []
    for column, own in zip(generalization.columns, counts, strict=True):
        labels = column.hierarchy.labels(np.arange(column.size, dtype=np.int64), column.level)
        place = {label: code for code, label in enumerate(labels)}
        codes_of.append(np.array([place[row[column.name]] for row in rows], dtype=np.int64))
        values = list(own)
        texts = [value.encode() for value in values]
        sums = np.zeros(column.size)
        np.add.at(sums, column.hierarchy.codes_of_texts(texts, column.level), [own[value] for value in values])
        noisy.append(np.rint(sums).astype(np.int64))
    return rake_weights(
        np.ones(len(rows)),
        np.ones(len(rows), dtype=np.int64),
        codes_of,
        layout=generalization,
        margins=[(place,) for place in range(len(codes_of))],
        noisy=noisy,
    ).weights


def compared(records: Records) -> list[str]:
    """The table: every release."""
    true = ones(records.codes)
    chain = ("fine", "coarse")
    lines = [
        deletion(records, true, margins=True, maps=chain),
        deletion(records, true, margins=False, maps=chain),
        deletion(records, true, margins=True, maps=["usual"]),
        deletion(records, true, margins=False, maps=["usual"]),
        *sampled(records, true),
    ]
    table = [f"| at ε = {EPSILON}, δ = {DELTA:e} | k-marginal | real records |", "|---|---|---|"]
    return table + [f"| {one.name} | {one.score:.0f} | {one.kept} |" for one in lines]


def main(argv: Sequence[str] | None = None) -> None:
    """Release, score, print, and write the table into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nist", type=Path, required=True)
    parser.add_argument("--write", type=Path, help="page with a place for the table")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="k-marginal-") as temporary:
        records = Records(file=asked.nist.resolve() / "ma2019.csv", work=Path(temporary))
        records.add()
        lines = compared(records)
    print("\n".join(lines))
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)


if __name__ == "__main__":
    main()
