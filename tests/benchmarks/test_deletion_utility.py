"""What deletion releases publish of the Adult records: exact expectations, and the page's table by real releases."""

from __future__ import annotations

import itertools
import math
import os
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from crowdblend.accounting.theory.planning.deletion_planning import plan_deletion
from crowdblend.mechanisms.kinds.deletion_noise import GeometricDeletion, deletion_weights
from scipy.stats import binom

from benchmarks.utility.deletion import BY, Adult, Sampling, deleted, sampled

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "deletion.md"
CELL = re.compile(r"([\d,]+) / ([\d,]+)")
SIMULATED = {
    "0.183": ((18_530, 104), (1_790, 55)),
    "0.438": ((22_680, 145), (5_440, 196)),
    "1": ((25_200, 203), (9_840, 425)),
    "2": ((26_920, 291), (14_020, 805)),
}
"""ε → records and groups of the usual and of the finer map, by another program's simulation of the geometric noise."""


def table(text: str) -> str:
    return text.partition(f"<!-- begin of {BY} -->")[2].partition(f"<!-- end of {BY} -->")[0] or text


def cells(text: str) -> dict[str, list[tuple[int, int]]]:
    """ε → published records and groups, in the order of the columns."""
    rows = [line.split("|")[1:-1] for line in table(text).splitlines() if re.match(r"\| [\d.]+ \|", line)]
    return {
        row[0].strip(): [tuple(int(part.replace(",", "")) for part in found) for found in CELL.findall("|".join(row))]
        for row in rows
    }


def require_claims(text: str) -> None:
    """Deletion publishes more than the best sample on either map; three stages 28,000; a series loses 175 a group."""
    found = cells(text)
    assert list(found) == list(SIMULATED)
    for *_, best, ours, best_finer, ours_finer in found.values():
        assert ours[0] > best[0]
        assert ours[1] > best[1]
        assert ours_finer[0] > 3 * best_finer[0]
    staged = re.search(r"\*\*([\d,]+)\*\* of 30,162 records", text)
    assert int(staged[1].replace(",", "")) >= 28_000
    lost = re.search(r"loses ([\d.]+) records in expectation in each, and at most (\d+)", text)
    assert float(lost[1]) <= 175
    assert int(lost[2]) <= 346


def test_the_page_has_what_is_claimed():
    require_claims(PAGE.read_text(encoding="utf-8"))


def test_expectations_are_those_of_every_outcome():
    sizes, noise, sampling = (
        np.array([3, 5]),
        GeometricDeletion(epsilon=Decimal(1), width=2),
        Sampling(k=2, rate=Decimal("0.3")),
    )
    weights = deletion_weights(noise)
    deletion = [[(max(n - z, 0), w / sum(weights)) for z, w in enumerate(weights)] for n in sizes.tolist()]
    sample = [[(j if j >= 2 else 0, float(binom.pmf(j, n, 0.3))) for j in range(n + 1)] for n in sizes.tolist()]
    for laws, expected in ((deletion, deleted(sizes, noise)), (sample, sampled(sizes, sampling))):
        outcomes = [((a + b, (a > 0) + (b > 0)), p * q) for (a, p), (b, q) in itertools.product(*laws)]
        for place, mean, spread in (
            (0, expected.records, expected.records_sd),
            (1, expected.groups, expected.groups_sd),
        ):
            assert mean == pytest.approx(sum(p * out[place] for out, p in outcomes))
            assert spread == pytest.approx(math.sqrt(sum(p * (out[place] - mean) ** 2 for out, p in outcomes)))


@pytest.mark.extra
def test_real_releases_of_adult_publish_what_was_simulated(benchmark, tmp_path):
    """False alarm 2e-3: cells beyond four standard deviations of their exact law, or of two draws of it."""
    folder = Path(os.environ["CROWDBLEND_ADULT"])
    page, picture = tmp_path / PAGE.name, tmp_path / "picture.svg"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    told = benchmark(
        "utility.deletion", "--adult", folder, "--shape", "geometric", "--write", page, "--picture", picture
    )
    require_claims(told)
    assert cells(page.read_text(encoding="utf-8")) == cells(told)
    assert picture.stat().st_size > 10_000
    adult = Adult(folder=folder, work=tmp_path)
    for epsilon, simulated in SIMULATED.items():
        noise = plan_deletion(epsilon=Decimal(epsilon), delta=Decimal("1e-6"), shape="geometric").mechanism.noise
        *_, usual, _, finer = cells(told)[epsilon]
        for levels, found, other in (
            ((1, 2, 1, 1, 2, 1, 1, 1, 0), usual, simulated[0]),
            ((0, 1, 0, 1, 1, 1, 1, 0, 0), finer, simulated[1]),
        ):
            law = deleted(adult.counts(levels), noise)
            assert abs(found[0] - other[0]) <= 4 * math.sqrt(2) * law.records_sd + 5
            assert abs(found[1] - other[1]) <= 4 * math.sqrt(2) * law.groups_sd + 0.5
