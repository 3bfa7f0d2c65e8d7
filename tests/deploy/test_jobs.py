"""Jobs outlive their terminal, answer as `run` does, and say what they cost when they are cut off."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

NOWHERE = "http://127.0.0.1:1/api"
RESULT = {"release_id", "dataset", "sample_id", "epsilon", "delta", "levels", "published_groups", "output", "timings"}


def many(desk, rig) -> None:
    rig.write_records(desk.folder / "many", 6_000_000)


def job_process(desk, release_id: str) -> int:
    return int((desk.home / "jobs" / release_id / "alive").read_text())


def ledger(desk):
    return desk.folder / "ledger.db"


def test_a_job_answers_as_run_does(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    code, out, err = desk.start("submit", "spec.toml", "--json").finish()
    assert code == 0, err
    result = json.loads(out)
    assert result.keys() >= RESULT
    assert re.findall("crowdblend: (charge|count|publish|close)$", err, re.MULTILINE) == [
        "charge",
        "count",
        "publish",
        "close",
    ]
    again = ("submit", "spec.toml", "--release-id", result["release_id"], "--json")
    code, out, err = desk.start(*again).finish()
    assert code == 0, err
    assert json.loads(out)["sample_id"] == result["sample_id"]
    code, out, err = desk.start("submit", "spec.toml", "--json").finish()
    assert code == 2
    assert json.loads(out)["error"]["exit_code"] == 2
    desk.write_spec(k="30")
    other = ("submit", "spec.toml", "--release-id", result["release_id"], "--output", "elsewhere")
    code, out, err = desk.start(*other).finish()
    assert code == 3, err
    known = desk.succeed("status", result["release_id"], "--json").json
    assert (known["state"], known["exit_code"]) == ("published", None)
    desk.write_spec(k="1", rate="0.9", delta="1e-7", output="too-dear")
    code, out, err = desk.start("submit", "spec.toml").finish()
    assert code in (2, 3)
    assert "Traceback" not in err


HISTOGRAM = '[histogram]\nkind = "noisy"\nk = 20\nepsilon = 1\n'
POINTS = '[points]\nkind = "noisy"\nk = 20\nepsilon = 1\ncells_per_side = 4\n'
COLOUR = '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevel = 0\n'
AGE = "[columns.age]\nbounds = { lower = 0, upper = 100 }\n"
PAID = "[sampling]\nrate = 0.1\n[privacy]\ndelta = 1e-6\n"


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(PAID + HISTOGRAM + COLOUR, id="histogram", marks=pytest.mark.long),
        pytest.param(PAID + POINTS + AGE, id="points", marks=pytest.mark.long),
        pytest.param('[answer]\nkind = "count"\ncolumn = "age"\nepsilon = 1\n', id="answer", marks=pytest.mark.long),
    ],
)
def test_a_job_makes_any_kind_of_release(desk, table) -> None:
    desk.add_dataset()
    data = '[data]\ndataset = "people"\nsource = "people.csv"\nseparator = ";"\n'
    (desk.folder / "kind.toml").write_text(f'[release]\nname = "kind"\noutput = "out"\n{data}{table}')
    code, out, err = desk.start("submit", "kind.toml", "--json").finish()
    assert code == 0, err
    result = json.loads(out)
    assert result.keys() >= RESULT
    desk.succeed("verify", result["certificate"])
    assert desk("status", result["release_id"], "--json").json["state"] == "published"


@pytest.mark.slow
def test_a_job_outlives_its_terminal(desk, rig) -> None:
    many(desk, rig)
    desk.add_dataset()
    desk.write_spec(source="many")
    words = ("submit", "spec.toml", "--release-id", "lasting")
    terminal = desk.start(*words)
    rig.await_stage(ledger(desk), "lasting", "reading")
    terminal.send_signal(signal.SIGKILL)
    terminal.wait()
    running = desk("status", "lasting", "--json").json
    assert running["state"] in ("running", "published")
    code, _, err = desk.start(*words).finish()  # a job that it started in this process would be this one's child
    assert code in (0, 3), err
    rig.await_stage(ledger(desk), "lasting", "published")
    deadline = time.monotonic() + 900
    while (told := desk("status", "lasting", "--json").json)["state"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert told["exit_code"] == 0
    assert (desk.folder / "out" / "certificate.json").exists()


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("ctrl-c", marks=pytest.mark.slow),
        pytest.param("cancel", marks=pytest.mark.long),
        pytest.param("kill", marks=pytest.mark.long),
    ],
)
def test_a_job_that_is_cut_off_says_what_it_cost_and_can_be_finished(desk, rig, how) -> None:
    many(desk, rig)
    desk.add_dataset()
    desk.write_spec(source="many")
    words = ("submit", "spec.toml", "--release-id", "cut")
    running = desk.start(*words)
    rig.await_stage(ledger(desk), "cut", "reading")
    match how:
        case "ctrl-c":
            running.send_signal(signal.SIGINT)
        case "cancel":
            answer = desk.succeed("cancel", "cut")
            assert "is spent" in answer.err
        case "kill":
            os.kill(job_process(desk, "cut"), signal.SIGKILL)
    code, _, err = running.finish()
    assert code == 1, err
    assert "is spent, since reading had begun" in err
    assert "--release-id cut" in err
    assert "Traceback" not in err
    assert not (desk.folder / "out").exists()
    told = desk("status", "cut", "--json").json
    assert told["state"] == {"kill": "killed"}.get(how, "cancelled")
    [before] = desk("ledger", "show", "--json").json["releases"]
    code, out, err = desk.start(*words, "--json").finish()
    assert code == 0, err
    assert json.loads(out)["sample_id"] == before["sample_id"]
    shown = desk("ledger", "show", "--json").json
    assert shown["datasets"][0]["epsilon_spent"] == before["epsilon"]


def test_a_job_that_was_cancelled_is_no_error_of_the_command(desk, rig) -> None:
    rig.write_records(desk.folder / "many", 2_000_000)
    desk.add_dataset()
    desk.write_spec(source="many")
    code, _, err = desk.start("submit", "spec.toml", "--release-id", "stopped", "--detach").finish()
    assert code == 0, err
    told = desk.succeed("cancel", "stopped", "--json")
    assert (told.json["release_id"], told.json["state"], told.json["exit_code"]) == ("stopped", "cancelled", 1)
    assert "crowdblend: The job was cancelled. " in told.err
    assert told.json == desk.succeed("status", "stopped", "--json").json
    assert desk("cancel", "stopped", "--json").json["error"]["exit_code"] == 2
    desk.succeed("run", "spec.toml", "--release-id", "stopped")
    finished = desk.succeed("status", "stopped", "--json").json
    assert (finished["state"], finished["exit_code"]) == ("published", None), "a job isn't needed to finish it"


def test_an_unknown_job_is_refused(desk) -> None:
    desk.add_dataset()
    assert desk("status", "nothing").code == 2
    assert desk("cancel", "nothing").code == 2
    assert desk("status", "../x").code == 2


@pytest.mark.slow
def test_a_prefect_server_that_is_not_there_is_refused_before_the_charge(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    code, _, err = desk.start("submit", "spec.toml", PREFECT_API_URL=NOWHERE).finish()
    assert code == 2, err
    assert "Prefect's server can't be reached. Nothing was read, written or charged." in err
    assert desk("ledger", "show", "--json").json["releases"] == []


@pytest.fixture(params=["sqlite", "postgresql"])
def desk_of(desk, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """A desk whose ledger lies in a file or on a real PostgreSQL server."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql_server")
        name = f"races_{os.getpid()}"
        engine = create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        desk.database = server.replace("/postgres?", f"/{name}?")
        monkeypatch.setenv("CROWDBLEND_LEDGER", desk.ledger)
    return desk


@pytest.mark.slow
def test_two_flows_started_together_on_the_last_of_a_budget(desk_of) -> None:
    desk = desk_of
    desk.write_spec()
    price = desk("plan", "--k", "20", "--sampling-rate", "0.1", "--delta", "1e-6", "--json").json["epsilon"]
    desk.add_dataset(epsilon=str(1.5 * price))
    racers = [desk.start("submit", "spec.toml", "--output", f"out-{n}") for n in range(2)]
    ends = [racer.finish() for racer in racers]
    assert sorted(code for code, _, _ in ends) == [0, 3], ends
    assert len(list(desk.folder.glob("out-*"))) == 1
    [dataset] = desk("ledger", "show", "--json").json["datasets"]
    assert dataset["epsilon_spent"] == pytest.approx(price)
    desk.succeed("ledger", "verify")
