"""What a release of many columns tells: as it was once proposed, with a last stage of `*`, and as it is now.

    python -m benchmarks.utility.stars --nist FOLDER --adult FOLDER --write docs/preview.md

The folders hold ma2019.csv, NIST's diverse communities excerpt of Massachusetts 2019 (SDNist, public domain), and UCI
Adult with ARX's hierarchies; the project ships neither. The walk is a steward's: hierarchies from the surveys' code
lists, a proposal as `spec new --records` makes it, a preview and a release, all at ε = 1 and δ = 1e-6. Here the records
themselves stand for the public file of the same format; an office has another.

- once: all columns, in three stages and a fourth of `*` alone, which takes what the others leave;
- now: all columns, as they are proposed;
- kept: the columns that the preview of that says are worth keeping, at the levels that it says.

A release draws its noise anew each time, so that its numbers vary a little.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from crowdblend.accounting.theory.planning.deletion_proposal import propose_deletion, stage_levels
from crowdblend.deploy.api import add_dataset, preview, release

from ..generated_pages import write_between

__all__ = ["BY", "Walk", "adult", "main", "nist"]

BY = "benchmarks/utility/stars.py"
EPSILON, DELTA = Decimal(1), Decimal("1e-6")
Levels = Mapping[str, Sequence[int]]
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Records with public hierarchies, and a folder with a ledger to release them in.

    Args:
        title: of the records.
        file: the records, CSV.
        separator: of the records.
        columns: name of each released column → the rows of its hierarchy, the last level `*`.
        work: where hierarchies, ledger and releases go; temporary.
    """

    title: str
    file: Path
    separator: str
    columns: Mapping[str, Rows]
    work: Path

    @property
    def records(self) -> int:
        """How many there are."""
        return len(self.file.read_text(encoding="utf-8").splitlines()) - 1

    def proposed(self) -> tuple[Levels, Decimal]:
        """The levels of each stage, and the margins' share, as `spec new --records` proposes them."""
        labels = {name: _labels(rows) for name, rows in self.columns.items()}
        found = propose_deletion([*labels.values()], records=self.records, epsilon=EPSILON, delta=DELTA)
        levels = {name: stage_levels(own, records=self.records) for name, own in labels.items()}
        return {name: [own[place] for place in found.stages] for name, own in levels.items()}, found.margin_share

    def once(self) -> tuple[Levels, Decimal]:
        """What was proposed before: three stages and one of `*` alone."""
        levels = {name: stage_levels(_labels(rows), records=self.records) for name, rows in self.columns.items()}
        return {name: [*own, len(self.columns[name][0]) - 1] for name, own in levels.items()}, Decimal("0.5")

    def spec(self, name: str, levels: Levels, share: Decimal, *, source: Path) -> Path:
        """A specification of the columns that have levels."""
        texts = []
        for column, own in levels.items():
            hierarchy = self.work / f"{column}.csv"
            hierarchy.write_text("\n".join(";".join(row) for row in self.columns[column]) + "\n", encoding="utf-8")
            texts.append(f"[columns.{column}]\nhierarchy = {json.dumps(str(hierarchy))}\nlevels = {list(own)}\n")
        path = self.work / f"{name}-{source.stem}.toml"
        path.write_text(
            f'[release]\nname = "{name}"\n[data]\ndataset = "people"\nsource = {json.dumps(str(source))}\n'
            f'separator = "{self.separator}"\n[deletion]\n[margins]\nshare = {share}\n'
            f"[privacy]\nepsilon = {EPSILON}\ndelta = {DELTA}\n{''.join(texts)}",
            encoding="utf-8",
        )
        return path

    def lines(self) -> list[str]:
        """A line of the table for each way, and the columns that are kept."""
        known = {"ledger_url": f"sqlite:///{self.work / 'ledger.db'}", "home": self.work / "private"}
        add_dataset("people", epsilon=10, delta="1e-3", **known)
        ways = {"once": self.once(), "now": self.proposed()}
        lines, kept = [], ""
        for way in ("once", "now", "kept"):
            levels, share = ways[way]
            foretold = preview(self.spec(way, levels, share, source=self.work / "none.csv"), public=self.file).forecast
            output = self.work / way
            release(self.spec(way, levels, share, source=self.file), output=output, **known)
            published = json.loads((output / "certificate.json").read_text(encoding="utf-8"))["published"]
            lines.append(
                f"| {self.title} | {way} | {len(levels)} | {foretold.published:,.0f} | {foretold.deleted:.1%} | "
                f"{foretold.telling.informative:,.0f} | {foretold.telling.columns_told} | {published['records']:,} | "
                f"{published['informative_records']:,} | {published['median_columns_told']} |"
            )
            if way == "now":
                ways["kept"] = {one.column: one.levels for one in foretold.kept}, share
                named = ", ".join(f"{name} {[*own]}" for name, own in ways["kept"][0].items())
                kept = f"Kept of {self.title}, with the level at each stage: {named}."
        return [*lines, kept]


def _labels(rows: Rows) -> list[int]:
    """How many labels each level has, as `stage_levels` takes them."""
    return [len({row[level] for row in rows} - {"*"}) or 1 for level in range(len(rows[0]))]


def _merged(values: Sequence[str], *ways: Sequence[str]) -> Rows:
    """A row for each value: itself, its group in each way (values with spaces between, the others alone), and `*`."""
    rows = []
    for value in values:
        labels = [next((group for group in way if value in group.split()), value) for way in ways]
        rows.append([value, *labels, "*"])
    return rows


def _numbers(below: int, *widths: int, besides: Sequence[str] = ()) -> Rows:
    """A row for each whole number below one, in intervals of these widths, and for codes besides."""
    rows = [[str(n), *(f"{n // w * w} to {n // w * w + w - 1}" for w in widths), "*"] for n in range(below)]
    return [*rows, *([code] * (1 + len(widths)) + ["*"] for code in besides)]


def _range(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


def nist(folder: Path, work: Path) -> Walk:
    """NIST's excerpt with 19 columns, by the codes of the survey's dictionary."""
    no_yes = _merged(["1", "2"])
    maybe = _merged(["N", "1", "2"], ["N 2"])
    towns = ["25-00503", "25-00703", "25-01000", "25-01300", "25-02800"]
    columns: dict[str, Rows] = {
        "PUMA": _merged(towns),
        "AGEP": _numbers(100, 5, 20),
        "SEX": no_yes,
        "MSP": _merged(["N", *_range(1, 6)], ["1 2", "3 4 5"], ["N 3 4 5 6", "1 2"]),
        "HISP": _merged(_range(0, 4), ["1 2 3 4"]),
        "RAC1P": _merged(_range(1, 9), ["3 4 5 7 8 9"], ["2 3 4 5 6 7 8 9"]),
        "NOC": _merged(["N", *_range(0, 20)], [" ".join(_range(3, 20))], ["N 0", " ".join(_range(1, 20))]),
        "NPF": _merged(["N", *_range(2, 20)], [" ".join(_range(5, 20))], ["N 2", " ".join(_range(3, 20))]),
        "HOUSING_TYPE": _merged(_range(1, 3), ["2 3"]),
        "OWN_RENT": _merged(_range(0, 2)),
        "INDP_CAT": _merged(["N", *_range(0, 18)], ["0 1 2 3 4 5 6", "7 8 9 10 11 12", "13 14 15 16 17 18"]),
        "EDU": _merged(
            ["N", *_range(1, 12)], ["1 2 3 4", "5 6 7 8", "9 10 11 12"], ["N 1 2 3 4", "5 6 7 8 9 10 11 12"]
        ),
        "PINCP_DECILE": _merged(["N", *_range(0, 9)], ["0 1 2", "3 4", "5 6", "7 8 9"], ["0 1 2 3 4", "5 6 7 8 9"]),
        "POVPIP": _numbers(502, 50, 250, besides=["N"]),
        "DVET": _merged(["N", *_range(1, 6)], ["1 2 3 4 5 6"]),
        "DREM": maybe,
        "DPHY": maybe,
        "DEYE": no_yes,
        "DEAR": no_yes,
    }
    return Walk(title="NIST's excerpt", file=folder / "ma2019.csv", separator=",", columns=columns, work=work)


def adult(folder: Path, work: Path) -> Walk:
    """UCI Adult with its nine columns and ARX's hierarchies."""
    columns: dict[str, Rows] = {}
    for path in sorted(folder.glob("adult_hierarchy_*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            columns[path.stem.removeprefix("adult_hierarchy_")] = [
                row for row in csv.reader(file, delimiter=";") if row
            ]
    return Walk(title="Adult", file=folder / "adult.csv", separator=";", columns=columns, work=work)


def main(argv: Sequence[str] | None = None) -> None:
    """Walk with each, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nist", type=Path, help="folder of ma2019.csv")
    parser.add_argument("--adult", type=Path, help="folder of adult.csv and its hierarchies")
    parser.add_argument("--write", type=Path, help="the page with the table")
    asked = parser.parse_args(argv)
    table = [
        "| records | way | columns | foretold: published | deleted | informative | columns told | published | "
        "informative | columns told |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    words: list[str] = []
    for walk, folder in ((nist, asked.nist), (adult, asked.adult)):
        if folder is not None:
            with tempfile.TemporaryDirectory() as work:
                *lines, kept = walk(folder, Path(work)).lines()
            print("\n".join([*lines, kept]), flush=True)
            table += lines
            words.append(kept)
    if asked.write is not None:
        write_between(asked.write, [*table, "", " ".join(words)], by=BY)


if __name__ == "__main__":
    main()
