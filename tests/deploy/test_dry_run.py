"""`run --dry-run` and `explain`: what would be charged and left, or what stands against it, with nothing written."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.deploy.api import dry_run
from crowdblend.deploy.terminal.stages import Stages
from crowdblend.flows.release import run_flow
from crowdblend.mechanisms.kernel.amounts import amount_shown
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.tasks.counting.executors import LocalThreads

PROGRAM = """
import sys
from crowdblend.deploy import cli
try:
    cli.main(["run", "spec.toml", "--dry-run"])
except SystemExit as leave:
    print(leave.code, [name for name in ("prefect", "distributed") if name in sys.modules])
"""


def test_it_says_what_a_run_would_charge_and_changes_nothing(desk) -> None:
    desk.add_dataset(epsilon="1", delta="1e-5")
    spec = desk.write_spec()
    before = desk.contents()
    answer = desk.succeed("run", spec, "--dry-run", "--json")
    found = answer.json
    explained = desk("explain", spec, "--json").json
    assert found["dry_run"] is True
    assert found["charge"] == {"epsilon": explained["epsilon"], "delta": 1e-6}
    assert found["budget"]["epsilon_left_after"] == pytest.approx(1 - explained["epsilon"])
    assert found["budget"]["delta_left_after"] == pytest.approx(9e-6)
    assert found["levels"] == {"colour": 0, "age": 1, "town": 1}
    assert found["source"] == {"files": 1, "format": "csv", "problem": None, "remarks": [], "version": None}
    assert found["release_id"] is None
    told = desk("run", spec, "--dry-run").out
    assert "Nothing was charged or written" in told
    assert f"would charge ε = {amount_shown(explained['epsilon'])}" in told
    assert desk.contents() == before


def test_prefect_is_not_even_loaded(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "0 []"


def test_over_the_budget_is_3_and_leaves_no_evidence_behind(desk) -> None:
    """A dry run is no attempt to charge: a refusal of the accountant is told and not recorded."""
    desk.add_dataset(epsilon="0.1", delta="1e-3")
    spec = desk.write_spec()
    before, number = desk.contents(), desk.entries()
    answer = desk("run", spec, "--dry-run")
    assert answer.code == 3
    assert desk.contents() == before
    assert desk.entries() == number
    assert desk("run", spec).code == 3
    assert desk.entries() == number + 1, "a real attempt is recorded"


def test_what_a_dry_run_gives_holds_no_release_and_is_never_run(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    planned = dry_run(spec)
    before, number = desk.contents(), desk.entries()
    with pytest.raises(ReleaseFailed, match="holds no release"):
        run_flow(planned, executor=LocalThreads(), randomness=os.urandom, observer=Stages())
    assert desk.contents() == before
    assert desk.entries() == number


def test_without_ledger_or_private_store_none_comes_into_being(desk) -> None:
    spec = desk.write_spec()
    before = desk.contents()
    answer = desk("run", spec, "--dry-run")
    assert answer.code == 2
    assert "no ledger" in answer.err
    assert desk.contents() == before


def test_a_known_release_is_charged_no_second_time(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    desk.succeed("run", spec, "--release-id", "one")
    before = desk.contents()
    answer = desk.succeed("run", spec, "--release-id", "one", "--dry-run", "--json")
    assert answer.json["stage"] == "published"
    assert answer.json["charge"] == {"epsilon": 0.0, "delta": 0.0}
    assert "published already" in desk("run", spec, "--release-id", "one", "--dry-run").out
    assert desk.contents() == before
    other = desk.write_spec(k="30", file="other.toml")
    refused = desk("run", other, "--release-id", "one", "--dry-run")
    assert refused.code == 3
    assert "another specification" in refused.err
    [lock] = desk.home.glob("releases/*/one/lock")
    handle = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        held = desk("run", spec, "--release-id", "one", "--dry-run")
    finally:
        os.close(handle)
    assert held.code == 3
    assert "live process" in held.err
    assert desk("run", spec, "--release-id", "../x", "--dry-run").code == 2


def test_a_series_has_paid_already(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    desk.succeed("series", "add", "monthly", spec, "--releases", "2")
    answer = desk.succeed("run", spec, "--series", "monthly", "--dry-run", "--json")
    assert answer.json["charge"] == {"epsilon": 0.0, "delta": 0.0}
    assert "the series 'monthly' has paid" in desk("run", spec, "--series", "monthly", "--dry-run").out
    wrong = desk("run", desk.write_spec(k="30"), "--series", "monthly", "--dry-run")
    assert wrong.code == 3
    assert desk("run", spec, "--series", "weekly", "--dry-run").code == 2


def test_explain_tells_what_stands_against_it_and_still_explains(desk) -> None:
    spec = desk.write_spec(edit=lambda text: text.replace("[columns.colour]", "[columns.color]"))
    lonely = desk("explain", spec)
    assert lonely.code == 0
    assert "A run would be refused: " in lonely.out
    assert "no ledger" in lonely.out
    assert "the header does not name 'color'" in lonely.out
    desk.add_dataset(epsilon="0.1", delta="1e-3")
    poor = desk("explain", spec, "--json").json
    assert "past the budget" in poor["budget"]["problem"] or "0.1" in poor["budget"]["problem"]
    assert poor["budget"]["epsilon_left_after"] < 0
    assert "'color'" in poor["source"]["problem"]
    assert "more than is left" in desk("explain", spec).out


def test_explain_and_a_dry_run_warn_by_metadata_as_a_run_does(desk) -> None:
    pq.write_table(pa.table({"colour": ["red"], "age": [1], "town": [75001]}), desk.folder / "people.parquet")
    spec = desk.write_spec(source="people.parquet")
    [remark] = desk("explain", spec, "--json").json["source"]["remarks"]
    assert "town" in remark
    assert f"Warning: {remark}" in desk("explain", spec).out
    desk.add_dataset()
    tried = desk("run", spec, "--dry-run", "--json")
    assert tried.json["source"]["remarks"] == [remark]
    assert f"warning: {remark}" in tried.err


def test_a_name_that_is_nearly_one_is_taken_for_a_mistake_before_a_second_budget_is_proposed(desk) -> None:
    desk.add_dataset()
    desk.write_spec(edit=lambda text: text.replace('"people"', '"poeple"'))
    for words in (("run", "spec.toml"), ("run", "spec.toml", "--dry-run"), ("explain", "spec.toml")):
        answer = desk(*words)
        told = answer.out + answer.err
        assert "Did you mean 'people'?" in told, words
        assert told.index("Did you mean") < told.index("dataset add")
    desk.write_spec(edit=lambda text: text.replace('"people"', '"prisons"'))
    assert "Did you mean" not in desk("run", "spec.toml").err
    desk.write_spec()
    desk.succeed("series", "add", "monthly", "spec.toml", "--releases", "2")
    assert "Did you mean 'monthly'?" in desk("run", "spec.toml", "--series", "montly").err
