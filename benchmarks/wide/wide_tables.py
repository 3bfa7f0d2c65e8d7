"""Wide files for the comparison: NIST's excerpt with 21 columns and UCI Adult with 14, in codes and levels of labels.

Labels follow from the dictionaries of the surveys (the codes and what they mean) and from what is known of them
beforehand, such as a sampling rate or that a working week has 40 hours. No label was chosen by the records.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..utility.k_marginal import AGES_BELOW, BIN, USUAL, VALUES, ages, codes
from ..utility.tables import Table

__all__ = ["WideColumn", "WideTable", "adult_wide", "nist_columns", "nist_wide"]


@dataclass(frozen=True, kw_only=True)
class WideTable:
    """A table, and blocks of its columns that belong together by what they mean.

    Args:
        table: the records with their labels.
        blocks: name → columns; every column is in one or more.
    """

    table: Table
    blocks: Mapping[str, Sequence[str]]

    def places(self) -> list[list[int]]:
        """Return each block's columns by their places."""
        return [[self.table.names.index(name) for name in names] for names in self.blocks.values()]


NIST_BLOCKS = {
    "household": ("PUMA", "NOC", "NPF", "HOUSING_TYPE", "OWN_RENT", "POVPIP", "PWGTP", "WGTP"),
    "person": ("AGEP", "SEX", "MSP", "HISP", "RAC1P", "EDU", "INDP_CAT", "PINCP_DECILE"),
    "health": ("AGEP", "SEX", "DVET", "DREM", "DPHY", "DEYE", "DEAR"),
}

POVERTY = (*range(0, 500, 50), 501)
"""Income as a percentage of the poverty line, in fifties; 501 is all above 500."""
WEIGHTS = (1, 25, 50, 75, 100, 125, 150, 200, 300)
"""Where bins of weights begin: the survey asks one household of a hundred, so that weights are about 100."""
INDUSTRIES = "N", "0 1 2 3 4", "5 6 7 8", "9 10", "11 12 13", "14 15 16 17 18"
"""None; goods; trade, transport and information; offices; education, health and care; other services."""


def binned(*edges: int) -> Callable[[str], str]:
    """Return what gives a number the largest edge that it reaches, and N itself."""

    def of(text: str) -> str:
        return text if text == "N" else str(max(edge for edge in edges if edge <= float(text)))

    return of


def _numbers(*edges: int) -> tuple[str, ...]:
    return tuple(map(str, edges))


@dataclass(frozen=True, kw_only=True, slots=True)
class WideColumn:
    """A column of the survey.

    Args:
        values: that records are coded by, in their order.
        usual: groups of values; a value that is in none is its own.
        coarse: the same.
        value_of: gives the value for what a record's field says.
    """

    values: Sequence[str]
    usual: Sequence[Sequence[str]] = ()
    coarse: Sequence[Sequence[str]] = ()
    value_of: Callable[[str], str] = str

    def labels(self) -> list[tuple[str, str]]:
        """Return each value's usual and coarse label."""
        return [(f"u{_first(value, self.usual)}", f"c{_first(value, self.coarse)}") for value in self.values]


def _first(value: str, groups: Sequence[Sequence[str]]) -> str:
    return next((group[0] for group in groups if value in group), value)


def nist_columns() -> dict[str, WideColumn]:
    """Return the columns of the excerpt that are released."""
    ages_of = _numbers(*range(0, AGES_BELOW, BIN))
    fives = binned(*range(0, AGES_BELOW, BIN))
    weights = {
        "usual": codes("1 25", "50 75", "100 125 150", "200 300"),
        "coarse": codes("1 25 50 75", "100 125 150 200 300"),
    }
    return {
        "PUMA": WideColumn(
            values=("25-00503", "25-00703", "25-01000", "25-01300", "25-02800"),
            coarse=codes("25-00503 25-01300", "25-00703 25-01000 25-02800"),
        ),
        "AGEP": WideColumn(values=ages_of, usual=ages(15, 35, 65), coarse=ages(15, 65), value_of=fives),
        "SEX": WideColumn(values=VALUES["SEX"]),
        "MSP": WideColumn(values=VALUES["MSP"], usual=USUAL["MSP"] or (), coarse=codes("N", "1 2", "3 4 5 6")),
        "HISP": WideColumn(values=tuple("01234"), usual=codes("0", "1 2 3 4"), coarse=codes("0", "1 2 3 4")),
        "RAC1P": WideColumn(values=VALUES["RAC1P"], usual=USUAL["RAC1P"] or (), coarse=USUAL["RAC1P"] or ()),
        "NOC": WideColumn(
            values=("N", *"012345"),
            usual=codes("N", "0", "1 2", "3 4 5"),
            coarse=codes("N", "0", "1 2 3 4 5"),
            value_of=binned(*range(6)),
        ),
        "NPF": WideColumn(
            values=("N", *"234567"),
            usual=codes("N", "2", "3 4", "5 6 7"),
            coarse=codes("N", "2 3 4 5 6 7"),
            value_of=binned(*range(2, 8)),
        ),
        "HOUSING_TYPE": WideColumn(
            values=VALUES["HOUSING_TYPE"], usual=codes("1", "2 3"), coarse=codes("1", "2 3")
        ),
        "OWN_RENT": WideColumn(values=VALUES["OWN_RENT"]),
        "INDP_CAT": WideColumn(
            values=("N", *_numbers(*range(19))),
            usual=codes(*INDUSTRIES),
            coarse=codes("N", "0 1 2 3 4 5 6 7 8", "9 10 11 12 13 14 15 16 17 18"),
        ),
        "EDU": WideColumn(
            values=VALUES["EDU"], usual=USUAL["EDU"] or (), coarse=codes("N 1 2 3 4", "5 6 7 8 9 10 11 12")
        ),
        "PINCP_DECILE": WideColumn(
            values=VALUES["PINCP_DECILE"], usual=USUAL["PINCP_DECILE"] or (), coarse=codes("N", "0 1 2 3 4 5 6 7 8 9")
        ),
        "POVPIP": WideColumn(
            values=("N", *_numbers(*POVERTY)),
            usual=codes("N", "0 50", "100 150 200 250", "300 350 400 450", "501"),
            coarse=codes("N", "0 50 100 150 200 250", "300 350 400 450 501"),
            value_of=binned(*POVERTY),
        ),
        "DVET": WideColumn(
            values=VALUES["DVET"], usual=codes("N", "1 2 3 4 5 6"), coarse=codes("N", "1 2 3 4 5 6")
        ),
        "DREM": WideColumn(values=("N", "1", "2")),
        "DPHY": WideColumn(values=("N", "1", "2")),
        "DEYE": WideColumn(values=("1", "2")),
        "DEAR": WideColumn(values=("1", "2")),
        "PWGTP": WideColumn(values=_numbers(*WEIGHTS), value_of=binned(*WEIGHTS), **weights),
        "WGTP": WideColumn(values=_numbers(0, *WEIGHTS), value_of=binned(0, *WEIGHTS), **weights),
    }  # fmt: skip


def nist_wide(folder: Path) -> WideTable:
    """Return NIST's diverse communities excerpt of Massachusetts 2019 with 21 of its 24 columns.

    The other three repeat some of them: INDP (by INDP_CAT), PINCP (by PINCP_DECILE) and DENSITY (one for each PUMA).

    Args:
        folder: of ma2019.csv.
    """
    with (folder / "ma2019.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = nist_columns()
    table = Table(
        name="nist21",
        title="NIST's excerpt, Massachusetts 2019, 21 columns",
        short="NIST 21",
        labels={name: own.labels() for name, own in columns.items()},
        records=_coded(rows, columns),
        amounts=("PINCP_DECILE", np.array([0.0, *range(10)])),
        target=("PINCP_DECILE", 6),
    )
    return WideTable(table=table, blocks=NIST_BLOCKS)


def _coded(rows: Sequence[Mapping[str, str]], columns: Mapping[str, WideColumn]) -> NDArray[np.int64]:
    """Return the code of each record in each column, shape (columns, records)."""
    found = []
    for name, own in columns.items():
        place = {value: number for number, value in enumerate(own.values)}
        found.append([place[own.value_of(row[name])] for row in rows])
    return np.array(found, dtype=np.int64)


ADULT_BLOCKS = {
    "person": ("age", "sex", "race", "native-country", "marital-status", "relationship", "fnlwgt"),
    "work": ("age", "sex", "workclass", "education", "occupation", "hours-per-week", "income-per-year"),
    "money": ("age", "sex", "education", "capital-gain", "capital-loss", "income-per-year"),
}
GAINS = (0, 1, 2_000, 5_000, 10_000, 20_000, 50_000)
LOSSES = (0, 1, 1_000, 1_500, 2_000, 2_500)
HOURS = (1, 20, 30, 35, 40, 41, 50, 60)
FINAL_WEIGHTS = tuple(range(0, 500_000, 50_000))
SCHOOL = "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th", "HS-grad", "Some-college Assoc-voc Assoc-acdm"
DEGREES = "Bachelors", "Masters Prof-school Doctorate"
COUNTRIES = (
    "United-States",
    "Canada Mexico Cuba Jamaica Puerto-Rico Honduras Columbia Ecuador Haiti Dominican-Republic El-Salvador Guatemala "
    "Peru Outlying-US(Guam-USVI-etc) Trinadad&Tobago Nicaragua",
    "England Germany Italy Poland Portugal France Yugoslavia Scotland Greece Ireland Hungary Holand-Netherlands",
    "India Iran Philippines Cambodia Thailand Laos Taiwan China Japan Vietnam Hong",
    "? South",
)
"""Of birth, by continents; the file's "South" is none that its dictionary explains."""


def adult_columns() -> dict[str, WideColumn]:
    """Return the columns of UCI Adult that are released."""
    ages_of = _numbers(*range(15, 95, BIN))
    works = codes(
        "Private", "Self-emp-not-inc Self-emp-inc", "Federal-gov State-gov Local-gov", "Without-pay Never-worked ?"
    )
    office = "Exec-managerial Prof-specialty Tech-support Adm-clerical Sales"
    hands = "Craft-repair Machine-op-inspct Transport-moving Handlers-cleaners Farming-fishing"
    services = "Other-service Protective-serv Priv-house-serv Armed-Forces ?"
    couples = codes(
        "Married-civ-spouse Married-AF-spouse", "Never-married", "Divorced Separated Married-spouse-absent Widowed"
    )
    return {
        "age": WideColumn(
            values=ages_of,
            usual=codes("15 20", "25 30", "35 40", "45 50", "55 60", "65 70 75 80 85 90"),
            coarse=codes("15 20 25 30", "35 40 45 50", "55 60 65 70 75 80 85 90"),
            value_of=binned(*range(15, 95, BIN)),
        ),
        "workclass": WideColumn(
            values=_each(*works), usual=works, coarse=(works[0], works[1] + works[2] + works[3])
        ),
        "fnlwgt": WideColumn(
            values=_numbers(*FINAL_WEIGHTS),
            usual=codes("0 50000", "100000 150000", "200000 250000", "300000 350000 400000 450000"),
            coarse=codes("0 50000 100000 150000", "200000 250000 300000 350000 400000 450000"),
            value_of=binned(*FINAL_WEIGHTS),
        ),
        "education": WideColumn(
            values=_each(*codes(*SCHOOL, *DEGREES)),
            usual=codes(*SCHOOL, *DEGREES),
            coarse=codes(" ".join(SCHOOL[:2]), " ".join((SCHOOL[2], *DEGREES))),
        ),
        "marital-status": WideColumn(
            values=_each(*couples), usual=couples, coarse=(couples[0], couples[1] + couples[2])
        ),
        "occupation": WideColumn(
            values=_each(*codes(office, hands, services)),
            usual=codes("Exec-managerial Prof-specialty", "Tech-support Adm-clerical Sales", hands, services),
            coarse=codes(office, f"{hands} {services}"),
        ),
        "relationship": WideColumn(
            values=("Husband", "Wife", "Own-child", "Other-relative", "Unmarried", "Not-in-family"),
            usual=codes("Husband Wife", "Own-child Other-relative", "Unmarried Not-in-family"),
            coarse=codes("Husband Wife", "Own-child Other-relative Unmarried Not-in-family"),
        ),
        "race": WideColumn(
            values=("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"),
            usual=codes("White", "Black", "Asian-Pac-Islander Amer-Indian-Eskimo Other"),
            coarse=codes("White", "Black Asian-Pac-Islander Amer-Indian-Eskimo Other"),
        ),
        "sex": WideColumn(values=("Female", "Male")),
        "capital-gain": WideColumn(
            values=_numbers(*GAINS), usual=codes("0", "1 2000", "5000 10000 20000 50000"),
            coarse=codes("0", "1 2000 5000 10000 20000 50000"), value_of=binned(*GAINS),
        ),
        "capital-loss": WideColumn(
            values=_numbers(*LOSSES), usual=codes("0", "1 1000 1500 2000 2500"),
            coarse=codes("0", "1 1000 1500 2000 2500"), value_of=binned(*LOSSES),
        ),
        "hours-per-week": WideColumn(
            values=_numbers(*HOURS), usual=codes("1 20 30", "35 40", "41 50 60"),
            coarse=codes("1 20 30", "35 40 41 50 60"), value_of=binned(*HOURS),
        ),
        "native-country": WideColumn(
            values=_each(*codes(*COUNTRIES)),
            usual=codes(*COUNTRIES),
            coarse=codes(COUNTRIES[0], " ".join(COUNTRIES[1:])),
        ),
        "income-per-year": WideColumn(values=("<=50K", ">50K")),
    }  # fmt: skip


def _each(*groups: Sequence[str]) -> tuple[str, ...]:
    return tuple(itertools.chain(*groups))


def adult_wide(file: Path) -> WideTable:
    """Return UCI Adult with 14 of its 15 columns: all but education-num, which repeats education.

    Args:
        file: with a head and commas, as the repository's adult.data has them.
    """
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, skipinitialspace=True))
    columns = adult_columns()
    table = Table(
        name="adult14",
        title="UCI Adult, 14 columns",
        short="Adult 14",
        labels={name: own.labels() for name, own in columns.items()},
        records=_coded(rows, columns),
        amounts=("age", np.arange(15.0, 95.0, BIN) + 2.0),
        target=("income-per-year", 1),
    )
    return WideTable(table=table, blocks=ADULT_BLOCKS)
