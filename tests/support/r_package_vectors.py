"""Run as a program: what `crowdblend.analysis` answers about the R package's releases, as JSON that its tests check.

    python tests/support/r_package_vectors.py                     # the answers, from the releases that are there
    python tests/support/r_package_vectors.py --releases          # new releases first, with fresh noise
    python tests/support/r_package_vectors.py --releases members  # this one alone; its key joins those that are there

The releases are of invented people, made by the command line. Their answers follow from their files alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from crowdblend.analysis import LoadedRelease, load, rubin
from crowdblend.analysis.completed_copies import completed_codes
from crowdblend.analysis.published_tables import PublishedTables
from crowdblend.mechanisms.hierarchies.build import described_hierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused
from scipy.special import ndtri

PACKAGE = Path(__file__).resolve().parents[2] / "r" / "crowdblend"
RELEASES = PACKAGE / "inst" / "extdata"
VECTORS = PACKAGE / "tests" / "vectors.json"
KEY = "publisher.pem"
PEOPLE = 2_400
TOWNS = ("Genève", "Lausanne", "Vevey", "Zürich", "Basel")
HEAD = """
[release]
name = "{name}"
format = "csv"
output = "{name}"
"""
COLUMNS = {
    "sex": 'values = ["f", "m"]',
    "age": "interval = { lower = 15, upper = 65, widths = [5, 25] }",
    "schooling": 'values = ["9", "12", "16"]',
    "town": 'hierarchy = "towns.csv"',
    "wage": "interval = { lower = 0.0, upper = 60.0, widths = [5.0, 20.0] }",
    "begun": 'dates = { from = "2014-01-01", to = "2025-12-31", levels = ["quarter", "year"] }',
}
EXACT = "[privacy]\nepsilon = 2\ndelta = 1e-6\n"
STAGES = {
    "sex": "levels = [0, 0]",
    "age": "levels = [1, 2]",
    "schooling": "levels = [0, 0]",
    "town": "levels = [0, 1]",
    "wage": "levels = [1, 2]",
    "begun": "levels = [2, 2]",
}
COARSE = {
    "sex": "level = 0",
    "age": "level = 2",
    "schooling": "level = 0",
    "town": "level = 1",
    "wage": "level = 2",
    "begun": "level = 3",
}
AUTO = dict.fromkeys(COLUMNS, 'levels = "auto"') | {
    "wage": 'levels = "auto"\nmin_level = 1',
    "begun": 'levels = "auto"\nmin_level = 2',
}
NAMED = (
    "pairs = ["
    + ", ".join(
        f'["{one}", "{other}"]'
        for one, other in [
            ("sex", "age"),
            ("sex", "wage"),
            ("age", "wage"),
            ("schooling", "wage"),
            ("sex", "schooling"),
        ]
    )
    + ', ["age", "schooling"]]\n'
)
SPECIFICATIONS = {
    "margins": ("counts", EXACT + "[deletion]\n[margins]\n", STAGES),
    "named-pairs": ("microdata", EXACT + "[deletion]\n[margins]\nshare = 0.7\n" + NAMED, STAGES),
    "chosen-pairs": ("counts", EXACT + '[deletion]\n[margins]\npairs = "auto"\n', AUTO),
    "blocks": (
        "counts",
        EXACT
        + '[deletion]\n[margins]\npairs = "auto"\n[blocks]\npinned = ["sex"]\n'
        + '[blocks.work]\ncolumns = ["age", "schooling", "wage"]\n[blocks.place]\ncolumns = ["town", "begun"]\n',
        AUTO,
    ),
    "sample-with-margins": ("counts", EXACT + "[sampling]\nrate = 0.4\n[margins]\n", COARSE),
    "deletion": ("counts", EXACT + "[deletion]\n", COARSE),
    "sample": ("counts", "[privacy]\ndelta = 1e-4\n[sampling]\nrate = 0.3\n[suppression]\nk = 12\n", COARSE),
    "noisy-histogram": (
        "",
        '[privacy]\ndelta = 1e-4\n[sampling]\nrate = 0.3\n[histogram]\nkind = "noisy"\nk = 12\nepsilon = 1\n',
        {name: COARSE[name] for name in ("sex", "town")},
    ),
    "members": (
        "counts",
        EXACT.replace("2", "8") + "[deletion]\n[margins]\n",
        dict.fromkeys(("size", "sex", "town"), "level = 0"),
    ),
}
UNITS = """
[unit]
by = "home"
{columns}
[unit.members]
most = 3
columns = {{ sex = [0, 0], age = [1, 2], town = [0, 1], wage = [2, 2] }}
"""
"""Of the release of households, whose own columns follow from their members."""
UNIT_COLUMNS = {
    "size": "count_members = { cap = 4 }",
    "sex": 'member_label = { column = "sex", highest = "age" }',
    "town": 'member_label = { column = "town", highest = "age" }',
}


def write_people(path: Path) -> None:
    """Write invented records: wages rise with schooling and age, and schooling is another in each town."""
    lines = [",".join((*COLUMNS, "home"))]
    for number in range(PEOPLE):
        mixed = (number * 7_919 + number * number * 31) % 100_003
        sex, age = "fm"[mixed % 2], 16 + mixed // 2 % 47
        schooling = (9, 12, 16)[min((mixed // 97 + mixed // 7 % 2 + (age < 40)) % 4, 2)]
        town = TOWNS[min(mixed // 1_009 % 8, 4) if schooling < 16 else mixed // 1_009 % 3]
        wage = 4 + 1.4 * schooling + 0.25 * (age - 15) + 3 * (sex == "m") + 6 * math.sin(mixed) * math.sin(3.7 * mixed)
        day = f"{2025 - (mixed // 11 % (age - 14)) // 5}-{1 + mixed // 13 % 12:02}-{1 + mixed // 17 % 28:02}"
        lines.append(f"{sex},{age},{schooling},{town},{max(wage, 0.0):.2f},{day},{mixed % 1_009}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = "".join(f"{town};{'Léman' if place < 3 else 'Rhine'};*\n" for place, town in enumerate(TOWNS))
    path.with_name("towns.csv").write_text(rows, encoding="utf-8")


def specification(name: str) -> str:
    """Return the specification of a release."""
    form, tables, levels = SPECIFICATIONS[name]
    of_units = name == "members"
    own = UNIT_COLUMNS if of_units else COLUMNS
    columns = "".join(f"[columns.{column}]\n{own[column]}\n{level}\n" for column, level in levels.items())
    head = HEAD.format(name=name) + (f'form = "{form}"\n' if form else "")
    data = f'[data]\ndataset = "{"homes" if of_units else "people"}"\nsource = "people.csv"\n'
    told = [f"[unit.columns.{one}]\n{COLUMNS[one]}" for one in ("sex", "age", "town", "wage")]
    return head + data + (UNITS.format(columns="\n".join(told)) if of_units else "") + tables + columns


def make_releases(names: Sequence[str]) -> None:
    """Replace releases by new ones of the same people; where it isn't all of them, the key is added to the others'."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_people(home / "people.csv")
        settings = {"CROWDBLEND_HOME": str(home / "store"), "CROWDBLEND_LEDGER": f"sqlite:///{home / 'ledger.db'}"}

        def command(*words: str) -> None:
            program = str(Path(sys.executable).with_name("crowdblend"))
            subprocess.run(
                [program, *words], check=True, cwd=home, env=os.environ | settings, stdout=subprocess.DEVNULL
            )

        command("dataset", "add", "people", "--epsilon", "100", "--delta", "0.01")
        command("dataset", "add", "homes", "--epsilon", "100", "--delta", "0.01", "--unit", "household:home")
        for name in names:
            (home / f"{name}.toml").write_text(specification(name), encoding="utf-8")
            command("run", f"{name}.toml")
        command("key", "export", KEY)
        for name in names:
            shutil.rmtree(RELEASES / name, ignore_errors=True)
            shutil.copytree(home / name, RELEASES / name)
        kept = "" if set(names) == set(SPECIFICATIONS) else (RELEASES / KEY).read_text(encoding="utf-8")
        (RELEASES / KEY).write_text(kept + (home / KEY).read_text(encoding="utf-8"), encoding="utf-8")


Question = dict[str, Any]


def questions(release: LoadedRelease) -> Iterator[Question]:
    """Yield what is asked of a release: the function's name in `ask`, and its arguments."""
    names = [column.name for column in release.columns]
    last = {name: release.labels(name)[-1] for name in names}
    yield {"ask": "count", "where": {}}
    for name in names:
        yield from ({"ask": "count", "where": {name: label}} for label in release.labels(name))
        yield {"ask": "table", "rows": name}
        yield {"ask": "share", "where": {name: last[name]}, "of": {"sex": "f"}}
        yield {"ask": "mean", "column": name}
        yield {"ask": "mean", "column": name, "by": "sex"}
        yield {"ask": "mean", "column": name, "where": {"town": "Léman"}}
        yield {"ask": "quantile", "column": name, "q": 0.5}
        yield {"ask": "quantile", "column": name, "q": 0.9, "by": "town"}
        yield {"ask": "quantile", "column": name, "q": 0.25, "where": {"sex": ["f", "m"], "town": "Rhine"}}
        for other in names:
            # Each pair in one order of its columns, by turns.
            if (names.index(other) - names.index(name)) % len(names) in (1, 2, 3):
                yield {"ask": "table", "rows": name, "columns": other}
                yield {"ask": "count", "where": {name: last[name], other: release.labels(other)[1:3]}}
    for where in (
        {"age": {"range": [15, 40]}},
        {"age": {"range": [20, 45]}},
        {"age": 37},
        {"age": "[40, 65)"},
        {"wage": "[20.0, 60.0)"},
        {"schooling": {"range": [10, 17]}, "sex": "m"},
        {"schooling": 12},
        {"begun": "2024"},
        {"town": "nowhere"},
        {"nothing": 1},
        {"sex": "f", "age": "[15, 40)", "schooling": ["12", "16"]},
        {"sex": "f", "age": "[15, 40)", "schooling": "16", "town": "Léman", "wage": "[20.0, 40.0)"},
        {"age": "[40, 65)", "town": "Rhine", "begun": "2025"},
    ):
        yield {"ask": "count", "where": where}
        yield {"ask": "share", "where": where, "of": {"sex": "f"}}
    yield {"ask": "odds", "where": {"schooling": "16"}}
    yield {"ask": "odds", "where": {"schooling": ["12", "16"]}, "of": {"sex": "m"}}
    yield {"ask": "odds", "where": {"schooling": "16"}, "by": "sex"}
    yield {"ask": "odds", "where": {"schooling": "16"}, "by": "sex", "against": "f"}
    yield {"ask": "odds", "where": {"schooling": "16"}, "by": "age", "against": "[40, 65)"}
    yield {"ask": "odds", "where": {"town": "Vevey"}, "by": "sex", "against": "f"}
    yield {"ask": "odds", "where": {"wage": "[20.0, 40.0)"}, "by": "schooling", "of": {"sex": "f"}}
    yield {"ask": "odds", "where": {"schooling": "16"}, "of": {"sex": "f"}, "against": {"sex": "m"}}
    yield {"ask": "odds", "where": {"schooling": "16"}, "against": "f"}
    yield {"ask": "mean", "column": "wage", "where": {"sex": "f", "age": "[15, 40)"}}
    yield {"ask": "quantile", "column": "wage", "q": 0.5, "where": {"sex": "f", "schooling": "16"}}
    yield {"ask": "table", "rows": "schooling", "where": {"sex": "f", "age": "[15, 40)"}}
    for formula in (
        "wage ~ sex",
        "wage ~ age + sex + C(schooling)",
        "wage ~ schooling",
        "sex[f] ~ schooling + age",
        "wage ~ town",
        "wage ~ age + begun",
        "wage ~ sex[m] + schooling",
        "log(wage) ~ schooling + age + square(age)",
        "log(schooling) ~ square(wage)",
        "log(age) ~ log(schooling)",
        "wage ~ log(sex)",
        "town ~ sex",
    ):
        yield {"ask": "regression", "formula": formula, "of": "records"}
        yield {"ask": "regression", "formula": formula, "of": "population"}
    yield {"ask": "copy"}
    if "size" in names:  # of households, cut at a cap
        yield {"ask": "mean", "column": "size", "where": {"size": ["1", "2", "3"]}}
        yield {"ask": "quantile", "column": "size", "q": 0.5, "where": {"size": ["1", "2"]}}
        yield from ({"ask": "count", "where": {"size": {"range": one}}} for one in ([1, 4], [2, 10], [4, 100]))
    if release.members is not None:
        yield from (question | {"members": True} for question in questions(release.members))


def condition(given: dict[str, Any]) -> dict[str, object]:
    """Return a condition of which ranges are written as JSON has them."""
    return {name: range(*one["range"]) if isinstance(one, dict) else one for name, one in given.items()}


def answer(release: LoadedRelease, question: Question) -> dict[str, list[Any]] | None:
    """Return the columns of what is answered, None where it is refused; of one value alone it is there once."""
    asked = {
        name: condition(one) if name in ("where", "of", "against") and isinstance(one, dict) else one
        for name, one in question.items()
    }
    ask = asked.pop("ask")
    if asked.pop("members", False):
        assert release.members is not None
        release = release.members
    try:
        if ask == "copy":
            return copy_counts(release)
        found = getattr(release, ask)(**asked)
    except InputRefused:
        return None
    rows = [found.as_dict()] if not hasattr(found, "to_dict") else found.to_dict("records")
    columns = {name: [plain(row[name]) for row in rows] for name in rows[0]}
    return {name: own[:1] if len({*own}) == 1 else own for name, own in columns.items()}


def plain(value: Any) -> Any:
    """Return a value as JSON has it, to twelve digits: what is no number is null."""
    if isinstance(value, str) or value is None:
        return value
    return float(f"{value:.12g}") if math.isfinite(value) else None


class Coins:
    """The numbers x ← 16,807·x mod (2³¹ − 1), S. Park, K. Miller (1988), which R and Python compute alike."""

    def __init__(self) -> None:
        self.state = 1

    def uniform(self, number: int) -> np.ndarray:
        """Return numbers between 0 and 1."""
        found = np.empty(number)
        for place in range(number):
            self.state = 16_807 * self.state % (2**31 - 1)
            found[place] = self.state / (2**31 - 1)
        return found

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return normal deviates, the last place of a shape first."""
        return ndtri(self.uniform(math.prod(shape))).reshape(shape)


def copy_counts(release: LoadedRelease) -> dict[str, list[Any]] | None:
    """Return a completed copy's size by these numbers, the weighted sums of its records' codes, and its counts."""
    if not release.published.margins:
        return None
    coins = Coins()
    codes = completed_codes(in_order(release.published), coins.uniform, coins.normal)
    places = np.arange(1, codes[0].size + 1)
    return {
        "size": [int(codes[0].size)],
        "sums": [float((codes[place] * places).sum()) for place in sorted(codes)],
        "counts": [
            int(one)
            for place in sorted(codes)
            for one in np.bincount(codes[place], minlength=release.columns[place].size)
        ],
    }


def in_order(published: PublishedTables) -> PublishedTables:
    """Return a release whose groups of rows stand in the order of their labels: a reader may have them in any other."""
    tables = []
    for table in published.rows:
        stages = []
        for stage in table.stages:
            at = np.lexsort([stage.counts, *reversed(stage.codes)])
            codes = tuple(own[at] for own in stage.codes)
            stages.append(replace(stage, codes=codes, counts=stage.counts[at], mass=stage.mass[at]))
        tables.append(replace(table, stages=tuple(stages)))
    return replace(published, rows=tuple(tables))


def rubin_answers() -> list[dict[str, Any]]:
    """Return what Rubin's rules give of some copies' figures."""
    combined = []
    for estimates, variances in (
        ([1.0, 2.5, 3.0], None),
        ([10.0, 11.0, 12.5, 9.0], [1.0, 2.0, 1.5, 1.0]),
        ([2.0, 2.0], None),
    ):
        found = {name: plain(value) for name, value in rubin(estimates, variances).as_dict().items()}
        combined.append({"estimates": estimates, "variances": variances, "answer": found})
    return combined


DESCRIPTIONS: tuple[dict[str, Any], ...] = (
    {"kind": "interval/1", "lower": -7, "upper": 23, "widths": [5, 20]},
    {"kind": "interval/1", "lower": 0, "upper": 3_000_000, "widths": [1_000_000]},
    {"kind": "decimal-interval/1", "lower": "-0.50", "upper": "2.00", "widths": ["0.75", "1.50"]},
    {"kind": "dates/1", "from": "2019-12-30", "to": "2020-03-02", "levels": ["month", "quarter", "year", "decade"]},
    {"kind": "weight-classes/1", "bounds": ["1", "20", "50", "100.5", "200", "500"]},
    {
        "kind": "values/1",
        "levels": 3,
        "rows": [
            ["Zoë", "\U0001d54f", "*"],
            ["a", "B", "*"],
            ["Émile", "B", "*"],
            ['b"\\c', "*", "*"],
            ["10", "9", "*"],
        ],
    },
    {"kind": "values/1", "levels": 2, "fold_case": True, "rows": [["Yes", "*"], ["no", "*"]]},
    {"kind": "values/1", "levels": 2, "rows": []},
)


def hierarchy_answers() -> list[dict[str, Any]]:
    """Return hierarchies with their digests, and the labels of each level with the code of each at the next one."""
    found = []
    for description in DESCRIPTIONS:
        own = described_hierarchy(description)
        levels = []
        for level in range(own.levels):
            if own.size(level) > 1_000:
                levels.append({"size": own.size(level)})
                continue
            codes = np.arange(own.size(level), dtype=np.int64)
            up = own.coarser(codes, level=level, to=min(level + 1, own.levels - 1))
            levels.append({"size": own.size(level), "labels": own.labels(codes, level), "up": up.tolist()})
        found.append({"hierarchy": own.description(), "digest": own.digest(), "levels": levels})
    return found


def vectors() -> dict[str, Any]:
    """Return the questions about each release with their answers, and some of Rubin's rules."""
    asked = {}
    for name in SPECIFICATIONS:
        release = load(RELEASES / name, public_key=RELEASES / KEY)
        asked[name] = [question | {"answer": answer(release, question)} for question in questions(release)]
    return {"releases": asked, "rubin": rubin_answers(), "hierarchies": hierarchy_answers()}


def written(found: dict[str, Any]) -> str:
    """Return the vectors as JSON, a line for each question, so that changes can be seen."""
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return (
        text.replace(',{"ask":', ',\n{"ask":')
        .replace('},{"estimates"', '},\n{"estimates"')
        .replace('{"hierarchy"', '\n{"hierarchy"')
        + "\n"
    )


def main() -> None:
    """Write the vectors."""
    parser = argparse.ArgumentParser(description="Write what the R package must answer.")
    parser.add_argument("--releases", nargs="*", metavar="NAME", help="make new releases first, all or these")
    chosen = parser.parse_args().releases
    if chosen is not None:
        make_releases(chosen or [*SPECIFICATIONS])
    VECTORS.write_text(written(vectors()), encoding="utf-8")


if __name__ == "__main__":
    main()
