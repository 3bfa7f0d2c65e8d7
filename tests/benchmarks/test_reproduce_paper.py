"""The page on the paper: its tables come out, its curves are right, and the committed page is what is written now."""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path

import mpmath
import pytest

from benchmarks.paper import figures
from benchmarks.paper import reproduce as module

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
COMMITTED = PROJECT / "docs" / "paper"
PRINTED = json.loads((PROJECT / "tests" / "vectors" / "lqs_tables.json").read_text(encoding="utf-8"))
PICTURES = [f"figure-{number}.svg" for number in range(2, 7)]
NUMBER = re.compile(r"(?<![\w#-])-?\d+\.?\d*(?:e[+-]?\d+)?")


@pytest.fixture(scope="module")
def made(benchmark, tmp_path_factory):
    """A folder that the command has just written."""
    folder = tmp_path_factory.mktemp("paper") / "out"
    benchmark("paper.reproduce", "--output", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", *PICTURES]
    return folder


def tables(page: str) -> list[list[list[str]]]:
    """Every Markdown table of a page, as rows of cells without the header."""
    found, rows = [], []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            found.append(rows[2:])
            rows = []
    return found


def true_delta(k: int, rate: str, epsilon: str) -> float:
    """The largest hockey-stick divergence over n, both directions, summed from the definition with 40 digits."""
    with mpmath.workdps(40):
        beta, growth = mpmath.mpf(rate), mpmath.exp(mpmath.mpf(epsilon))

        def outcomes(n: int, last: int) -> list:
            pmf = [mpmath.binomial(n, j) * beta**j * (1 - beta) ** (n - j) for j in range(last + 1)]
            return [mpmath.fsum(pmf[:k]), *pmf[k:]]

        def divergence(one: list, other: list):
            return mpmath.fsum(max(p - growth * q, 0) for p, q in zip(one, other, strict=True))

        pairs = [(outcomes(n, n), outcomes(n - 1, n)) for n in range(k, 4 * k + 20)]
        return float(max(max(divergence(p, q), divergence(q, p)) for p, q in pairs))


def test_table_1_is_the_papers_to_every_printed_digit(made):
    first, second, _ = tables((made / "README.md").read_text(encoding="utf-8"))
    for half, rows in zip(PRINTED["table_1"]["rows"], (first, second), strict=True):
        paper = list(zip(half["rates"], half["epsilons"], half["deltas"], strict=True))
        assert [(rate, epsilon, delta) for rate, epsilon, _, delta, _ in rows] == paper
        assert [(rate, epsilon, delta) for rate, _, epsilon, _, delta in rows] == paper


def test_table_2_is_the_papers_in_all_18_cells(made):
    rows = tables((made / "README.md").read_text(encoding="utf-8"))[2]
    printed = PRINTED["table_2"]
    paper = [(rate, e, d) for rate, ds in printed["rows"].items() for e, d in zip(printed["epsilons"], ds, strict=True)]
    assert len(paper) == 18
    assert [(rate, epsilon, delta) for rate, epsilon, delta, *_ in rows] == paper
    assert [(rate, epsilon, delta) for rate, epsilon, _, delta, *_ in rows] == paper


@pytest.mark.long
def test_the_exact_column_is_the_truth_in_40_digits(made):
    rows = tables((made / "README.md").read_text(encoding="utf-8"))[2]
    for rate, epsilon, _, bound, exact, ratio in rows:
        assert math.isclose(float(exact), true_delta(PRINTED["table_2"]["k"], rate, epsilon), rel_tol=5.1e-3)
        assert math.isclose(float(ratio), float(bound) / float(exact), rel_tol=0.06)


def test_a_value_that_does_not_come_out_is_said_plainly():
    right = " ".join(module.page(PRINTED).split())
    assert "All 12 printed values come out" in right
    assert "All 18 printed values come out" in right
    assert "Only" not in right
    for table, row, place, words in (("table_1", 0, 1, "Only 11 of 12"), ("table_2", "0.1", 3, "Only 17 of 18")):
        wrong = copy.deepcopy(PRINTED)
        cells = wrong[table]["rows"][row]
        cells = cells["epsilons"] if table == "table_1" else cells
        cells[place] = cells[place].replace("4", "5").replace("9", "8")
        assert cells != PRINTED[table]["rows"][row]
        assert words in " ".join(module.page(wrong).split())


@pytest.mark.parametrize("rate", ["0.05", "0.1", "0.2"])
def test_the_peaks_of_figure_2_are_the_first_column_of_table_2(rate):
    point = {"k": 20, "sampling_rate": float(rate), "epsilon": 0.25}
    tails = [figures.tail_of_group(size=n, **point) for n in figures.GROUP_SIZES]
    peak = max(figures.divergence_of_group(size=n, **point) for n in figures.GROUP_SIZES)
    assert f"{max(tail for tail in tails if not math.isnan(tail)):.2e}" == PRINTED["table_2"]["rows"][rate][0]
    assert math.isclose(peak, true_delta(20, rate, "0.25"), rel_tol=1e-9)


def test_the_committed_page_is_what_the_command_writes(made):
    now = (made / "README.md").read_text(encoding="utf-8")
    assert (COMMITTED / "README.md").read_text(encoding="utf-8") == now, "run `make paper`"
    assert sorted(re.findall(r"\]\((figure-\d\.svg)\)", now)) == PICTURES


@pytest.mark.parametrize("name", PICTURES)
def test_the_committed_pictures_are_what_the_command_draws(made, name):
    """Equal up to a hundredth of a point, which leaves room for another processor's last digit."""
    then, now = ((folder / name).read_text(encoding="utf-8") for folder in (COMMITTED, made))
    creators = [re.search(r"Matplotlib v[\w.]+", text)[0] for text in (then, now)]
    assert creators[0] == creators[1], "Matplotlib is not the lock's: install constraints.txt, or run `make paper`"
    assert same_picture(then, now), "run `make paper`"
    assert not same_picture(then, re.sub(r"L (\d)", r"L 1\1", now, count=1))
    assert not re.search(r"<dc:date>", now)


def same_picture(one: str, other: str) -> bool:
    """Whether two SVG files have the same elements, and numbers within 0.01 of each other."""
    if NUMBER.sub("0", one) != NUMBER.sub("0", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= 0.01 for a, b in pairs)


@pytest.mark.slow
def test_the_same_values_give_the_same_bytes(tmp_path):
    (picture,) = (picture for picture in figures.PICTURES if picture.number == 2)
    first = figures.write_picture(picture, tmp_path).read_bytes()
    assert figures.write_picture(picture, tmp_path).read_bytes() == first
