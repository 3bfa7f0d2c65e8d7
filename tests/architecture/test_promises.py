"""`make test` keeps at least one test of every promise: what it leaves to `make check` only says more of the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.balance import FIRST

PROJECT = Path(__file__).resolve().parents[2]
PROMISES = {
    "a release killed at its steps is charged once and ends the same": (
        "flows/test_crash_matrix.py::test_killed_at_some_of_its_steps_a_release_is_charged_once_and_ends_the_same",
    ),
    "the crash matrix finds a broken release": ("flows/test_crash_matrix.py::test_a_broken_release_is_caught",),
    "processes that race for one release id: one publishes": (
        "flows/test_races.py::test_ten_processes_race_for_one_release_id",
    ),
    "processes that race for one budget, on both databases": (
        "accounting/ledger/test_ledger_races.py::test_the_last_of_a_budget_is_spent_once",
    ),
    "a request that means harm is refused, and one that isn't approved costs nothing": (
        "deploy/test_requests.py::test_each_mistake_of_a_request_is_told_with_its_place_and_nothing_is_charged",
        "deploy/test_requests.py::test_without_a_terminal_an_approval_must_be_given",
    ),
    "sums of products cost what they are priced at": (
        "mechanisms/test_moments.py::"
        "test_no_record_costs_more_than_the_price_and_one_of_them_costs_it[a number and labels-add/remove]",
    ),
    "a sample serves one release": ("flows/test_mixed_use.py::test_a_sample_that_served_one_process_serves_no_other",),
    "no secret of a run shows anywhere": ("audit/test_leaks.py::test_no_secret_shows_anywhere",),
    "the leak scan finds a planted leak": ("audit/test_leaks.py::test_the_search_finds_a_planted_leak",),
    "neighbouring data leave the same traces": ("audit/test_leaks.py::test_neighbours_differ_in_nothing_unexplained",),
    "an earlier version's ledger is answered about the same after its migration": (
        "accounting/ledger/test_earlier_ledgers.py::"
        "test_a_migrated_ledger_is_answered_about_as_by_its_own_version[sqlite-additive]",
    ),
    "what was promised of commands, specification, outputs, formats and names stays": (
        "architecture/test_surface.py::test_the_surface_is_the_recorded_one",
    ),
    "a ledger that an earlier version wrote pays for a further release": (
        "integration/test_kept_versions.py::"
        "test_a_ledger_of_an_earlier_version_verifies_and_pays_for_a_further_release[0.1.0]",
    ),
    "a migration that fails at any statement changes nothing": (
        "accounting/ledger/test_ledger_migration.py::test_a_statement_that_fails_leaves_the_ledger_as_it_was[sqlite]",
    ),
    "the ledger keeps its contract on SQLite and on PostgreSQL": (
        "kernel/test_ledger_contract.py::test_a_release_goes_from_charge_to_publication[sqlite]",
        "kernel/test_ledger_contract.py::test_a_release_goes_from_charge_to_publication[postgresql]",
    ),
    "a forged ledger is found": (
        "kernel/test_rules.py",
        "accounting/ledger/forgery/test_entry_mutations.py",
        "accounting/ledger/forgery/test_forgeries.py",
    ),
    "a ledger rewritten with its private store is found": (
        "deploy/test_witness.py::test_a_ledger_rewritten_with_its_private_store_is_found[sqlite]",
    ),
    "maps are drawn with their exact probabilities": (
        "mechanisms/test_map_draw.py::test_maps_are_drawn_with_the_exact_probabilities",
    ),
    "survey weights cost what one more column costs, and no value of a weight matters but its class": (
        "flows/test_survey_weights.py::test_the_price_is_that_of_one_more_column_and_its_pairs[chosen]",
        "mechanisms/test_weighted_totals.py::test_weights_of_one_class_are_told_apart_by_nothing",
    ),
    "R verifies a release and finds what was changed, and the figures that it must give are Python's": (
        "analysis/test_r_package.py::test_r_finds_each_change_and_refuses_in_words",
        "analysis/test_r_package.py::test_the_vectors_are_what_python_answers[named-pairs]",
    ),
    "no event contradicts a price": ("mechanisms/test_selection_privacy.py::test_no_event_contradicts_the_price",),
    "what is forged is told on the auditors' pages": ("accounting/dashboard/test_tampered.py",),
    "the demonstration": ("deploy/test_demo.py::test_the_demonstration_publishes_and_explains",),
    "every kind of release, as a Prefect flow": (
        *(
            f"examples/test_examples.py::test_an_example_is_explained_charged_published_and_verified[{spec.stem}]"
            for spec in sorted((PROJECT / "examples").glob("*/*.toml"))
            if spec.stem not in ("survey", "unequal-rates", "wages")
        ),
        "flows/test_pairs.py::test_pairs_and_labels_are_found_and_what_is_published_is_near_the_records",
        "flows/test_biased_histogram.py::test_a_survey_is_counted_as_it_is_and_released_once_ever",
        "flows/test_biased_histogram.py::test_every_record_is_drawn_with_its_own_rate",
    ),
    "a job answers as a run does": ("deploy/test_jobs.py::test_a_job_answers_as_run_does",),
    "a schedule fires, waits for a late file, is finished after a kill within a charge, and ends with its series": (
        "deploy/serving/test_kills.py::test_a_release_that_came_due_is_finished_after_a_kill_once_its_file_is_there",
    ),
    "a schedule tells a hook why it refuses": ("deploy/serving/test_failure_hook.py",),
    "a run that is broken off says how it is finished": (
        "deploy/test_interruptions.py::test_ctrl_c_in_a_run_tells_the_commands_that_finish_or_abandon_it",
    ),
    "a cluster without workers is told of": (
        "deploy/test_interruptions.py::test_a_run_whose_workers_are_all_dead_says_so_and_goes_on_with_a_new_one",
    ),
    "a cluster draws what threads draw": ("flows/test_cluster.py::test_a_cluster_draws_the_sample_that_threads_draw",),
    "a price is a bound": ("accounting/theory/test_enumeration_parts.py", "kernel/test_exact_profile.py"),
    "a browser shows the auditors' pages": ("accounting/dashboard/test_browser.py",),
    "nobody looks who may not": ("accounting/dashboard/test_access.py::test_only_a_valid_token_opens_any_page",),
}
"""Each promise, and tests of it that `make test` runs: a function with any of its parameters, or any of a file."""


@pytest.mark.slow
def test_the_quick_tests_keep_one_of_every_promise() -> None:
    [selection] = re.findall(r'^test:.*\n.*-m "(.*)"', (PROJECT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert "not slow" in selection
    files = sorted({f"tests/{test.partition('::')[0]}" for tests in PROMISES.values() for test in tests})
    words = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", selection, *files]
    told = subprocess.run([sys.executable, *words], cwd=PROJECT, capture_output=True, text=True, check=False)
    run = {line.removeprefix("tests/") for line in told.stdout.splitlines() if "::" in line}
    run |= {test.partition("[")[0] for test in run} | {test.partition("::")[0] for test in run}
    assert [(promise, test) for promise, tests in PROMISES.items() for test in tests if test not in run] == []


def test_the_files_that_go_first_are_there() -> None:
    assert [file for file in FIRST if not (PROJECT / file).is_file()] == []
