"""The fuzz targets on their corpus and on some inputs of each shape: promises are kept, and faults are seen."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from audit.fuzz import desk as desks
from audit.fuzz import inputs, targets, worker
from audit.fuzz.run import fed

PROJECT = Path(__file__).parents[2]
NAMES = (
    "anchor",
    "certificate",
    "csv",
    "dashboard",
    "hierarchy",
    "ledger-entry",
    "ledger-file",
    "parquet",
    "public-keys",
    "request",
    "specification",
)
SLOW = {"ledger-entry", "ledger-file", "anchor", "dashboard"}


@pytest.fixture
def target(request, monkeypatch):
    monkeypatch.setenv("CROWDBLEND_LEDGER", "")  # the targets set both, and a test leaves them as they were
    monkeypatch.setenv("CROWDBLEND_HOME", "")
    return targets.TARGETS[request.param]


@pytest.mark.parametrize("target", NAMES, indirect=True)
def test_the_corpus_shows_no_fault(target, tmp_path) -> None:
    run = target.prepare(tmp_path / "desk")
    for content in targets.corpus_of(target.name):
        run(content)


@pytest.mark.slow
@pytest.mark.parametrize("target", NAMES, indirect=True)
def test_inputs_of_its_shape_show_no_fault(target, tmp_path) -> None:
    run = target.prepare(tmp_path / "desk")

    @settings(
        max_examples=5 if target.name in SLOW else 40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(target.shaped())
    def feed(content: bytes) -> None:
        run(content)

    feed()


FAULTS = {
    "a traceback": (lambda content: {}["a place"], "KeyError"),
    "an internal fault": (None, "Internal fault"),
    "a hang": (lambda content: time.sleep(30), "no answer"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_seen_and_kept(tmp_path, monkeypatch, name) -> None:
    """Controls: a target that raises, one whose command breaks inside, one that does not come back."""
    broken, words = FAULTS[name]

    def breaking(content: bytes) -> None:
        monkeypatch.setattr(
            "crowdblend.deploy.documents.document_registry.verify_release", lambda *given, **named: None
        )
        desks.said(desks.Desk(tmp_path), "registry", tmp_path / "x")

    target = targets.Target(
        name="broken", prepare=lambda folder: broken or breaking, shaped=targets.TARGETS["csv"].shaped, seconds=1
    )
    feeder = worker.Feeder(target, tmp_path / "kept")
    feeder(b"an input")
    feeder(b"another")
    [told] = [path.read_text() for path in (tmp_path / "kept" / "faults").glob("*.txt")]
    assert words in told
    assert b"an input" in [path.read_bytes() for path in (tmp_path / "kept" / "faults").iterdir()]


def test_a_charge_is_a_fault(tmp_path, monkeypatch) -> None:
    """Control: a product that draws a sampling key before it has charged."""
    from crowdblend.accounting.kernel.keys.private_store import ReleaseFolder

    run = inputs.specification(tmp_path / "desk")
    sound = targets.corpus_of("specification")[-1]
    run(sound)
    fingerprint = ReleaseFolder.fingerprint

    def drawing(self: ReleaseFolder, content: bytes) -> str:
        self.key.create(bytes)
        return fingerprint(self, content)

    monkeypatch.setattr(ReleaseFolder, "fingerprint", drawing)
    with pytest.raises(desks.Fault, match="sampling key"):
        run(sound)


@pytest.mark.slow
def test_the_program_runs_small(tmp_path) -> None:
    words = ["--minutes", "0.05", "--how", "shaped", "--targets", "hierarchy", "public-keys", "--seed", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "audit.fuzz.run", *words, "--output", tmp_path / "fuzz.json"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "fuzz.json").read_text())
    assert (report["part"], report["outcome"], report["findings"]) == ("fuzz", "passed", [])
    assert all(run["inputs"] > 0 for run in report["runs"])


@pytest.mark.long
@pytest.mark.parametrize("way", ["shaped", "guided"])
@pytest.mark.parametrize("name", NAMES)
def test_every_target_is_fed_in_both_ways(name, way, tmp_path) -> None:
    run = fed(name, way, seconds=3, seed=1, keep=tmp_path, grow=False)
    assert run["faults"] == []
    assert run["inputs"] > 0
