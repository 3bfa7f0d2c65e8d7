"""The bench itself: its limits hold, its events are chosen well, it goes on where it was, and its report tells all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from audit.faults.catalogue import FAULTS
from audit.faults.detection import copied
from audit.report.write import EXPECTED, gathered, write_report
from audit.statistics.cases_of_counts import exact_outcomes, safe_case
from audit.statistics.confidence import chosen_event, epsilon_lower, lower_limit, upper_limit
from audit.statistics.draws import State
from audit.statistics.uniformity import goodness, independence

PROJECT = Path(__file__).parents[2]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "audit", *words], capture_output=True, text=True, timeout=300, check=False, cwd=PROJECT
    )


@pytest.mark.parametrize("probability", [0.0005, 0.02, 0.5])
def test_limits_are_wrong_as_seldom_as_they_say(probability):
    """Exactly, by summing the probabilities of all hit counts whose limit is on the wrong side."""
    draws, alarm = 4_000, 0.01
    hits = np.arange(draws + 1)
    masses = binom.pmf(hits, draws, probability)
    assert masses[lower_limit(hits, draws, alarm) > probability].sum() <= alarm
    assert masses[upper_limit(hits, draws, alarm) < probability].sum() <= alarm
    # Control: limits for ten times the alarm are wrong more often than that.
    assert masses[lower_limit(hits, draws, 10 * alarm) > probability].sum() > alarm


def test_a_bound_stays_below_the_truth_and_comes_near_it():
    p, q, delta, draws = 0.03, 0.01, 0.001, 10_000_000
    truth = np.log((p - delta) / q)
    bound = epsilon_lower(round(p * draws), draws, round(q * draws), draws, delta=delta, alarm=1e-5)
    assert 0.97 * truth < bound < truth
    assert epsilon_lower(10, draws, 10, draws, delta=delta, alarm=1e-5) == 0.0


def test_the_event_of_the_largest_loss_is_found():
    draws = np.random.default_rng(3)
    with_t, without = (np.bincount(draws.binomial(n, 0.2, 400_000)) for n in (7, 6))
    event = chosen_event((with_t, without), delta=1e-3)
    assert event.likelier == 0
    assert min(event.outcomes) >= 4


def test_the_test_of_a_distribution_accepts_it_and_rejects_a_rate_5_percent_up():
    draws = np.random.default_rng(4)
    for rate, accepted in ((0.2, True), (0.21, False)):
        sampled = draws.binomial(7, rate, 1_000_000)
        counts = np.bincount(np.where(sampled >= 5, sampled, 0))
        assert (goodness(counts, exact_outcomes(7, 5, 0.2)) > 1e-6) is accepted
    assert goodness(np.array([5, 0, 0, 0, 1]), exact_outcomes(7, 5, 0.2)) == 0.0, "an impossible count"


def test_the_test_of_independence_accepts_it_and_rejects_groups_that_know_of_their_place():
    draws = np.random.default_rng(6)
    shown, part = draws.random(300_000) < 0.01, np.arange(300_000) % 3
    assert independence(shown, part) > 1e-6
    assert independence(shown | ((part == 1) & (draws.random(300_000) < 0.004)), part) < 1e-6
    assert independence(np.zeros(9, dtype=bool), part[:9]) == 1.0, "nothing is shown"


@pytest.mark.slow
@pytest.mark.parametrize("size", [300, pytest.param(20_000, marks=pytest.mark.long)])
def test_the_tests_accuse_no_oftener_than_they_say(size):
    """400 releases in which nothing is wrong; 4.2 standard deviations above 5% come once in 70,000 times."""
    draws, accused = np.random.default_rng(7), [0, 0]
    for _ in range(400):
        sampled = draws.binomial(7, 0.2, size)
        counts = np.bincount(np.where(sampled >= 3, sampled, 0))
        accused[0] += goodness(counts, exact_outcomes(7, 3, 0.2)) < 0.05
        accused[1] += independence(sampled >= 3, np.arange(size) % 3) < 0.05
    assert max(accused) < 400 * 0.05 + 4.2 * (400 * 0.05 * 0.95) ** 0.5


def test_what_was_drawn_is_kept_and_other_sources_make_it_void(tmp_path):
    case = safe_case(k=5, rate="0.2", delta="1e-3", draws=1_000, scouts=1_000)
    state = State(tmp_path, case, "these sources")
    state.blocks["1/0/0/0"] = np.array([3, 4])
    state.blocks["1/0/0/1"] = np.array([1, 0, 2])
    state.save()
    assert State(tmp_path, case, "these sources").total(phase=1, pair=0, side=0).tolist() == [4, 4, 2]
    assert not State(tmp_path, case, "other sources").blocks


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_can_be_planted(fault):
    with copied(fault) as sources:
        changed = (sources / "crowdblend" / fault.file).read_text()
        assert fault.new in changed
        compile(changed, fault.file, "exec")


def test_the_report_names_what_is_missing_and_what_failed(tmp_path):
    results, pages = tmp_path / "results", tmp_path / "pages"
    results.mkdir()
    part = {"part": "leaks", "outcome": "passed", "seconds": 3.0, "findings": [], "audited_sources": "a" * 64}
    (results / "leaks.json").write_text(json.dumps(part))
    (results / "stray.json").write_text("[1]")
    report = gathered(results)
    assert report["outcome"] == "passed"
    assert report["missing"] == [name for name in EXPECTED if name != "leaks"]
    assert write_report(results, pages)
    broken = part | {"part": "fuzz", "outcome": "failed", "findings": ["<b>half-written output</b>"]}
    (results / "fuzz.json").write_text(json.dumps(broken))
    assert not write_report(results, pages)
    page = (pages / "audit" / "report.html").read_text()
    assert "Something broke" in page
    assert "&lt;b&gt;half-written output" in page
    assert not re.search(r"(src|href)=\"?https?://", page), "the page asks for nothing from elsewhere"
    assert "half-written output" in (pages / "audit.md").read_text()
    assert json.loads((pages / "audit" / "report.json").read_text())["failed"] == ["fuzz"]


@pytest.mark.slow
def test_a_small_audit_runs_and_goes_on_where_it_was(tmp_path):
    words = ("run", "statistics", "--only", "k-randomization", "--scale", "0.01", "--results", str(tmp_path))
    for _ in range(2):
        done = bench(*words)
        assert done.returncode == 0, done.stderr
        assert "statistics: passed" in done.stdout
    [kept] = (tmp_path / "state").glob("k-randomization.json")
    assert json.loads(kept.read_text())["blocks"]


@pytest.mark.long
def test_the_exhibits_print_what_is_learned(tmp_path):
    done = bench("run", "exhibits", "--results", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    exhibits = json.loads((tmp_path / "exhibits.json").read_text())["exhibits"]
    assert len(exhibits) == 17
    for exhibit in exhibits:
        assert exhibit["title"] in done.stdout
        assert exhibit["other_betrays"]
        assert not exhibit["ours_betrays"]
