"""The pages that explain: what they tell people to paste is pasted, and their figures are computed again."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from math import comb
from pathlib import Path

import pytest
from crowdblend.accounting.theory.planning.forecast import BudgetLeft, forecast, read_calendar
from crowdblend.deploy.api import plan

PROJECT = Path(__file__).resolve().parents[2]
UNDERSTANDING, ARX = "docs/understanding.md", "docs/coming-from-arx.md"
DELTA = "1e-6"


def page_text(page: str) -> str:
    return (PROJECT / page).read_text(encoding="utf-8")


def rows_of(text: str, first: str) -> list[list[str]]:
    """The cells of a page's table whose first header is given, without headers."""
    table = text.partition(f"\n| {first} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def faults_of_prices(text: str) -> list[str]:
    """Cells of the table of prices by k and β that `plan` doesn't give, to three decimals."""
    rates = [
        cell.strip().removeprefix("β = ") for cell in text.partition("\n| ε |")[2].splitlines()[0].strip("|").split("|")
    ]
    faults = []
    for first, *cells in rows_of(text, "ε"):
        for rate, cell in zip(rates, cells, strict=True):
            epsilon = plan(k=int(first.removeprefix("k = ")), sampling_rate=rate, delta=DELTA).epsilon
            if f"{epsilon:.3f}" != cell:
                faults.append(f"{first}, β = {rate}: {cell}, not {epsilon:.3f}")
    return faults


def test_prices_by_threshold_and_rate_are_those_of_plan() -> None:
    text = page_text(UNDERSTANDING)
    assert len(rows_of(text, "ε")) == 3
    assert not faults_of_prices(text)
    assert len(faults_of_prices(text.replace("0.183 | 0.438", "0.183 | 0.439"))) == 1


@pytest.mark.slow
def test_releases_that_fit_into_a_budget_are_those_of_the_forecast() -> None:
    left = BudgetLeft(epsilon=Decimal(1), delta=Decimal("1e-6"))
    shown = rows_of(page_text(UNDERSTANDING), "parameters")
    found = forecast(left, [read_calendar("12/year")]).changes
    for cells, change in zip(shown, found, strict=True):
        mechanism = change.mechanism
        assert cells[0] == f"k = {mechanism.k}, β = {mechanism.sampling_rate}"
        assert [int(cell.removeprefix("about ")) for cell in cells[1:]] == list(change.releases.values())


def test_prices_of_households_are_those_of_the_page_s_own_program(blocks) -> None:
    [program] = blocks(UNDERSTANDING, "## Households and several records")
    space: dict[str, list[Decimal]] = {}
    exec(program.text, space)  # noqa: S102 - what the page tells people to run
    shown = rows_of(page_text(UNDERSTANDING), "records of one person")
    assert shown == [[str(place), f"{epsilon:.3f}"] for place, epsilon in enumerate(space["prices"], start=1)]


def test_the_sentences_give_what_the_commands_give() -> None:
    text = page_text(UNDERSTANDING)
    one, twelve = (plan(k=20, sampling_rate="0.1", delta=DELTA, releases=n).epsilon for n in (1, 12))
    assert f"ε is {one:.3f}, and e^{one:.3f} is {one.exp():.2f}" in text
    assert f"Twelve in a series cost {twelve:.3f} in all; twelve times one would be {12 * one:.2f}" in text
    assert f"gives k = {plan(epsilon='0.5', sampling_rate='0.2', delta=DELTA).k}." in text
    tails = [sum(chance(n, j) for j in range(20, n + 1)) for n in (200, 300, 100)]
    told = re.sub(r"\s+", " ", text)
    assert f"a group of 200 is seen with a chance of {tails[0]:.0%}, one of 300 with {tails[1]:.0%}, one of " in told
    assert f"one of 100 with {tails[2]:.1%}." in told


def test_what_delta_is_not_is_told_in_exact_figures() -> None:
    """k = 20, β = 0.1, ε = 0.183, n = 79: ratios above e^ε come with 76 times δ, and their excess stays below δ."""
    found = plan(k=20, sampling_rate="0.1", delta=DELTA).epsilon
    ratio, rate = Fraction(found.exp()), Fraction(1, 10)
    assert round(found, 3) == Decimal("0.183")

    def exact(people: int, sampled: int) -> Fraction:
        return comb(people, sampled) * rate**sampled * (1 - rate) ** (people - sampled)

    above = [count for count in range(20, 80) if exact(79, count) > ratio * exact(78, count)]
    assert above == list(range(20, 80))
    often = sum(exact(79, count) for count in above)
    excess = often - ratio * sum(exact(78, count) for count in above)
    assert f"{float(often):.1e}" == "7.6e-05"
    assert 0 < excess <= Fraction(DELTA) < often / 76
    text = re.sub(r"\s+", " ", page_text(UNDERSTANDING))
    assert f"with a chance of {float(often * 100_000):.1f} in 100,000" in text
    assert f"(20 by the factor {float(exact(79, 20) / exact(78, 20)):.3f})" in text
    assert f"plus {float(excess * 10**6):.2f} in a million" in text


NOT_DELTA = re.compile(r"apart from a chance|except with (a )?(chance|probability)|δ is the chance|delta is the chance")


def test_nothing_explains_delta_as_the_chance_of_a_bad_result() -> None:
    read = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
    rooms = ("accounting", "deploy", "examples", "flows", "mechanisms", "tasks")
    read += [
        path for room in rooms for kind in ("py", "html", "md", "txt") for path in (PROJECT / room).rglob(f"*.{kind}")
    ]
    assert len(read) > 300
    assert not [path for path in read if NOT_DELTA.search(re.sub(r"\s+", " ", path.read_text(encoding="utf-8")))]
    assert NOT_DELTA.search("differs by at most e^ε, apart from a chance of δ")


def chance(people: int, sampled: int) -> float:
    """The binomial probability at rate 0.1."""
    return comb(people, sampled) * 0.1**sampled * 0.9 ** (people - sampled)


@pytest.mark.slow
def test_the_commands_of_understanding_run(newcomer, blocks) -> None:
    for heading in ("## The guarantee", "## Why a sample serves one release"):
        [block] = blocks(UNDERSTANDING, heading)
        assert "0.182989" in newcomer.paste(block.text)


@pytest.mark.long
def test_a_project_of_arx_is_released(newcomer, blocks) -> None:
    for block in blocks(ARX, "## Step by step"):
        newcomer.paste(block.text)
    assert (newcomer.folder / "out" / "patients" / "data.csv").is_file()
    assert "sex" in (newcomer.folder / "begun.toml").read_text(encoding="utf-8")
    assert "a search for levels in ARX" in newcomer.paste("crowdblend ledger export")
