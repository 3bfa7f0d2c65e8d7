"""Least squares from an answer's sums: the records' own coefficients without noise, and errors that are the noise's."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from crowdblend.analysis.loaded_answer import LoadedAnswer
from crowdblend.mechanisms.kernel.errors import InputRefused

CENTRES = {"pay": 50, "age": 40, "town": None}
TOWNS = ("x", "y", "z")
NUMBER = 4_000
SCALES = {"": 1.0, "pay": 50.0, "age": 40.0, "town": 1.0}


@cache
def people() -> dict[str, np.ndarray]:
    coins = np.random.default_rng(5)
    age, town = coins.integers(0, 80, NUMBER), coins.integers(0, 3, NUMBER)
    pay = np.clip(20 + 0.5 * age + np.array([0, 10, 20])[town] + coins.normal(0, 8, NUMBER), 0, 100)
    return {"pay": pay.round(), "age": age.astype(float), "town": town}


def parts_of(values: dict[str, np.ndarray], column: str) -> list[tuple[str, np.ndarray]]:
    if not column:
        return [("", np.ones(NUMBER))]
    if (centre := CENTRES[column]) is not None:
        return [("", values[column] - centre)]
    return [(label, (values[column] == place).astype(float)) for place, label in enumerate(TOWNS)]


def table_of(values: dict[str, np.ndarray], *, error: float, coins: np.random.Generator | None) -> dict[str, list]:
    """The table that the product publishes, with noise of so many records in each sum."""
    names = ("", "pay", "age", "town")
    table: dict[str, list] = {name: [] for name in ("column", "label", "second_column", "second_label")}
    table |= {"answer": [], "standard_error": []}
    for place, first in enumerate(names):
        for second in names[place:]:
            if first == second == "town":
                continue
            spread = error * SCALES[first] * SCALES[second]
            for label, own in parts_of(values, first):
                for other_label, other in parts_of(values, second):
                    told = [(first, label), (second, other_label)]
                    told = [told[1], told[0]] if first == "" else told
                    noise = 0.0 if coins is None else coins.laplace(0, spread / math.sqrt(2))
                    for name, text in zip(table, (*told[0], *told[1]), strict=False):
                        table[name].append(text or None)
                    table["answer"].append(float(own @ other) + noise)
                    table["standard_error"].append(spread)
    return table


def answer(*, error: float = 1e-9, coins: np.random.Generator | None = None) -> LoadedAnswer:
    moments = [{"column": name, "centre": centre} if centre else {"column": name} for name, centre in CENTRES.items()]
    certificate = {"release_id": "r", "published": {"form": "answer", "moments": moments}}
    return LoadedAnswer(table_of(people(), error=error, coins=coins), certificate=certificate)


def true_coefficients() -> np.ndarray:
    values = people()
    design = np.column_stack([np.ones(NUMBER), values["age"], values["town"] == 1, values["town"] == 2]).astype(float)
    return np.linalg.lstsq(design, values["pay"], rcond=None)[0]


def test_without_noise_coefficients_are_those_of_the_records() -> None:
    found = answer().regression("pay ~ age + C(town)")
    assert found["term"].tolist() == ["(constant)", "age", "town[y]", "town[z]"]
    assert found["estimate"].to_numpy() == pytest.approx(true_coefficients(), rel=1e-9)
    assert set(found["source"]) == {"answer"}
    share = answer().regression("town[x] ~ age")
    values = people()
    line = np.polyfit(values["age"], values["town"] == 0, 1)
    assert share["estimate"].tolist() == pytest.approx([line[1], line[0]], rel=1e-6)


def test_stated_errors_are_those_of_the_noise() -> None:
    """By 200 draws of a fixed seed: the spread of the estimates, and how often the intervals hold."""
    coins, drawn = np.random.default_rng(11), []
    for _ in range(200):
        drawn.append(answer(error=2.0, coins=coins).regression("pay ~ age + town"))
    estimates = np.array([frame["estimate"] for frame in drawn])
    stated = np.array([frame["standard_error"] for frame in drawn])
    assert estimates.std(axis=0) == pytest.approx(stated.mean(axis=0), rel=0.15)
    held = [(frame["lower"] <= true_coefficients()) & (true_coefficients() <= frame["upper"]) for frame in drawn]
    assert (np.mean(held, axis=0) > 0.9).all()
    assert np.mean(held) == pytest.approx(0.95, abs=0.025)


def test_where_noise_dominates_no_interval_is_offered() -> None:
    found = answer(error=400.0, coins=np.random.default_rng(2)).regression("pay ~ age + town")
    assert found["lower"].isna().all()
    assert set(found["note"]) == {"too few records tell this term from the others"}


def test_a_populations_intervals_are_wider() -> None:
    of_records = answer(error=4.0, coins=np.random.default_rng(2)).regression("pay ~ age")
    of_people = answer(error=4.0, coins=np.random.default_rng(2)).regression("pay ~ age", of="population")
    assert (of_people["standard_error"] > of_records["standard_error"]).all()


REFUSED = {
    "pay ~ height": "column 'height' was not asked for",
    "pay ~ log(age)": "by its numbers as they are",
    "pay ~ C(age)": "by its numbers as they are",
    "pay ~ age[7]": "by its numbers as they are",
    "pay ~ town[w]": "by its labels, x, y, z",
    "pay ~ log(town)": "by its labels",
    "town ~ age": "is no number",
    "pay": "no formula",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_other_regressions_are_refused(formula: str) -> None:
    with pytest.raises(InputRefused, match=REFUSED[formula].replace("[", r"\[")):
        answer().regression(formula)


def test_an_answer_without_sums_of_products_has_no_regression() -> None:
    loaded = LoadedAnswer({"answer": [Decimal(1)]}, certificate={"published": {"form": "answer"}})
    with pytest.raises(InputRefused, match="crowdblend request --regression"):
        loaded.regression("pay ~ age")
    assert loaded.table()["answer"].tolist() == [1]
