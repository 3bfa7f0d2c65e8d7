"""A series deployed to a real Prefect server: its schedule fires, a release each time, and the last is refused."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml

MANIFEST = Path(__file__).parents[2] / "deploy" / "prefect.yaml"
PREFECT = [sys.executable, "-m", "prefect", "--no-prompt"]


def ask(server, path: str, **body) -> list[dict]:
    return httpx.post(f"{server.api_url}/{path}", json=body, timeout=600).raise_for_status().json()


def flow_runs(server) -> list[dict]:
    """The deployment's flow runs, by their scheduled times."""
    runs = ask(
        server, "flow_runs/filter", sort="EXPECTED_START_TIME_ASC", flow_runs={"parent_task_run_id": {"is_null_": True}}
    )
    return [run for run in runs if run["deployment_id"]]


def ended(server, count: int, *, worker, seconds: float = 300) -> list[dict]:
    """Wait until so many flow runs have ended."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx.HTTPError):
            done = [run for run in flow_runs(server) if run["state_type"] in ("COMPLETED", "FAILED", "CRASHED")]
            if len(done) >= count:
                return done
        assert time.monotonic() < deadline, (flow_runs(server), worker.log.read_text()[-3000:])
        time.sleep(1)


class Worker:
    """A Prefect worker of the process type, in a process of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.log = folder / "worker.log"
        words = ["worker", "start", "--pool", "crowdblend", "--type", "process"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*PREFECT, *words], env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def deploy(desk, environment: dict[str, str], *, cron: str) -> None:
    """Deploy the project's own manifest, with this desk's places."""
    manifest = yaml.safe_load(MANIFEST.read_text())
    [deployment] = manifest["deployments"]
    deployment["parameters"] = {
        "spec": str(desk.folder / "spec.toml"),
        "series": "monthly",
        "output": str(desk.folder / "published"),
        "allow_unchanged": True,  # the records stay as they are; what is released once: test_deliveries.py
    }
    deployment["schedules"][0]["cron"] = cron
    (desk.folder / "prefect.yaml").write_text(yaml.safe_dump(manifest))
    for words in (
        ["work-pool", "create", "crowdblend", "--type", "process", "--overwrite"],
        ["deploy", "--prefect-file", "prefect.yaml", "--all"],
    ):
        done = subprocess.run(
            [*PREFECT, *words],
            check=False,
            env=environment,
            cwd=desk.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_a_schedule_fires_twice_and_the_third_release_is_refused(desk, own_prefect_server) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    desk.succeed("series", "add", "monthly", spec, "--releases", "2")
    [before] = desk("ledger", "show", "--json").json["datasets"]
    environment = own_prefect_server.environment | {"CROWDBLEND_LEDGER": desk.ledger, "CROWDBLEND_HOME": str(desk.home)}
    deploy(desk, environment, cron="* * * * *")
    worker = Worker(desk.folder, environment)
    try:
        [first] = ended(own_prefect_server, 1, worker=worker)
        own_prefect_server.stop(signal.SIGKILL)
        own_prefect_server.start()
        runs = ended(own_prefect_server, 3, worker=worker)
    finally:
        worker.stop()
    states = [(run["state_type"], run["state_name"]) for run in runs]
    with desk.capture.disabled():
        print([(run["expected_start_time"], run["state_name"], run["state"]["message"]) for run in runs])
    assert states == [("COMPLETED", "Completed")] * 2 + [("FAILED", "Refused")]
    assert "series 'monthly': all its 2 releases are taken" in runs[2]["state"]["message"]
    assert first["id"] == runs[0]["id"]
    shown = desk("ledger", "show", "--json").json
    assert len(shown["releases"]) == 2
    assert len({release["sample_id"] for release in shown["releases"]}) == 2
    assert {release["stage"] for release in shown["releases"]} == {"published"}
    assert shown["datasets"][0]["epsilon_spent"] == before["epsilon_spent"]
    desk.succeed("ledger", "verify")
    for run, release in zip(runs, shown["releases"], strict=False):
        when = run["expected_start_time"].partition(".")[0].replace("-", "").replace(":", "").removesuffix("Z")
        assert release["release_id"] == f"monthly@{when}Z"
        assert (desk.folder / "published" / release["release_id"] / "certificate.json").exists()
    artifacts = ask(own_prefect_server, "artifacts/filter")
    told = json.dumps(artifacts) + json.dumps(runs)
    assert "monthly@" in told
    for secret in ("2400", "2_400", "secret"):
        assert secret not in told.replace(str(desk.folder), "")


@pytest.mark.slow
def test_parameters_are_checked_when_a_run_is_submitted(desk, own_prefect_server) -> None:
    environment = own_prefect_server.environment
    deploy(desk, environment, cron="0 3 1 1 *")
    [deployment] = ask(own_prefect_server, "deployments/filter")
    for wrong in ({"spec": "census.csv"}, {"series": "no such name"}, {"release_id": "-x"}):
        answer = httpx.post(
            f"{own_prefect_server.api_url}/deployments/{deployment['id']}/create_flow_run",
            json={"parameters": wrong, "enforce_parameter_schema": True},
            timeout=60,
        )
        assert answer.status_code in (400, 409, 422), (wrong, answer.text)
    assert deployment["concurrency_limit"] == 1 or deployment["global_concurrency_limit"]["limit"] == 1


def test_an_unknown_parameter_fails_a_run_before_it_begins() -> None:
    from crowdblend.deploy.prefect.scheduled import scheduled_release
    from prefect.exceptions import SignatureMismatchError

    known = {"spec": "census.toml", "series": "monthly", "output": "published"}
    assert scheduled_release.validate_parameters(known).keys() >= known.keys()
    with pytest.raises(SignatureMismatchError):
        scheduled_release.validate_parameters(known | {"ledger": "sqlite://"})
