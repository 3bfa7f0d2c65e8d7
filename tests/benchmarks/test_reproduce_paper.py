"""The page on the paper: its tables come out, its curves are right, and the committed page is what is written now."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
PRINTED = json.loads((PROJECT / "tests" / "vectors" / "lqs_tables.json").read_text(encoding="utf-8"))
PICTURES = [f"figure-{number}.svg" for number in range(2, 7)]


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
