"""What goes wrong once a release may be charged is told by what the ledger and the output's place have then."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from crowdblend.accounting.kernel.ledger import database as store
from crowdblend.accounting.kernel.ledger.writer import ReleaseWriter
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy.api import Refusal, ReleaseFailed, release
from sqlalchemy import create_engine, text
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.pool import NullPool
from support.postgresql import OwnServer
from support.truth import Facts, untruths

KILL_AT = Path(__file__).parents[1] / "support" / "kill_at"
LOCK = """
import sqlite3, sys
ledger = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
ledger.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@dataclass
class Disturbance:
    """Does harm before one of the ledger's connections that follow the charge, and makes it good again.

    Args:
        at: number of the connection after the charge, from 0.
        harm: what is done; gives what undoes it.
        connections: how many were opened after the charge.
    """

    at: int
    harm: Callable[[], Callable[[], None]]
    connections: int = 0
    charged: bool = False
    undo: Callable[[], None] | None = None

    def heal(self) -> None:
        if self.undo is not None:
            self.undo()
        self.undo = None


@contextmanager
def disturbed(disturbance: Disturbance) -> Iterator[Disturbance]:
    """Count the connections to the ledger after the charge, and do the harm before the one that is asked for."""
    connect, charge = sqlalchemy.Engine.connect, ReleaseWriter.charge

    def connecting(self: sqlalchemy.Engine, *given: Any, **named: Any) -> Any:
        if disturbance.charged:
            if disturbance.connections == disturbance.at:
                disturbance.undo = disturbance.harm()
            disturbance.connections += 1
        return connect(self, *given, **named)

    def charging(self: ReleaseWriter, *given: Any, **named: Any) -> Any:
        receipt = charge(self, *given, **named)
        disturbance.charged = True
        return receipt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlalchemy.Engine, "connect", connecting)
        patch.setattr(ReleaseWriter, "charge", charging)
        try:
            yield disturbance
        finally:
            disturbance.heal()


def locked(desk: Any) -> Callable[[], None]:
    """Another process holds the ledger for writing."""
    holder = subprocess.Popen(
        [sys.executable, "-c", LOCK, str(desk.folder / "ledger.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "locked\n"

    def free() -> None:
        holder.communicate(input="")

    return free


def moved(path: Path) -> Callable[[], None]:
    """A file or folder isn't there for a while."""
    elsewhere = path.with_name(f"{path.name}.elsewhere")
    path.rename(elsewhere)

    def bring_back() -> None:
        if path.is_dir():
            path.rmdir()
        elsewhere.replace(path)

    return bring_back


def anchor_of(desk: Any) -> Path:
    [anchor] = (desk.home / "anchors").glob("*.jsonl")
    return anchor


HARMS = {
    "a lock of another process": locked,
    "a ledger that is gone": lambda desk: moved(desk.folder / "ledger.db"),
    "an anchor that is gone": lambda desk: moved(anchor_of(desk)),
    "signing keys that are gone": lambda desk: moved(desk.home / "signing"),
}


def facts_of(desk: Any, release_id: str, output: str = "out") -> Facts:
    with open_reader(desk.ledger) as reader:
        state = reader.release(release_id)
    in_view = (desk.folder / output / "certificate.json").is_file()
    return Facts(stage=None if state is None else state.stage, in_view=in_view)


def spent(desk: Any) -> float:
    return desk("ledger", "show", "--json").json["datasets"][0]["epsilon_spent"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SECONDS_TO_WAIT", 0.2)


def broken_off(desk: Any, disturbance: Disturbance, *, name: str) -> bool:
    """One release that is disturbed, is told truly, and is finished; whether the disturbance came at all."""
    words = ("run", "spec.toml", "--release-id", name, "--output", name)
    before = spent(desk)
    with disturbed(disturbance):
        answer = desk(*words)
    came = disturbance.connections > disturbance.at
    facts = facts_of(desk, name, name)
    told = f"{answer.code}: {answer.err}"
    assert list(untruths(answer.code, answer.err, facts)) == [], told
    assert answer.code == (1 if facts.stage != "published" else answer.code), told
    price = spent(desk) - before
    again = desk.succeed(*words, "--json")
    assert again.json["epsilon"] == pytest.approx(price)
    assert spent(desk) - before == price, "it was charged twice"
    return came


SLOW = pytest.mark.slow
LEAST_CONNECTIONS = 6
"""After the charge: the entry and what it says of the data set, reading, close, and what the result says of both."""
QUICK = "an anchor that is gone"


@pytest.mark.parametrize("harm", [pytest.param(harm, marks=() if harm == QUICK else SLOW) for harm in HARMS])
def test_each_call_to_the_ledger_after_the_charge_may_fail(desk, harm: str) -> None:
    desk.add_dataset(epsilon="100", delta="1e-2")
    desk.write_spec()
    at = 0
    while broken_off(desk, Disturbance(at=at, harm=lambda: HARMS[harm](desk)), name=f"r{at}"):
        at += 1
    assert at >= LEAST_CONNECTIONS
    desk.succeed("ledger", "verify")


@pytest.fixture
def own_ledger(desk, own_postgresql, monkeypatch: pytest.MonkeyPatch) -> OwnServer:
    """The desk's ledger on a PostgreSQL server of the test's own."""
    engine = create_engine(own_postgresql.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE ledger"))
    desk.database = own_postgresql.url.replace("/postgres?", "/ledger?")
    monkeypatch.setenv("CROWDBLEND_LEDGER", desk.ledger)
    return own_postgresql


@pytest.mark.slow
def test_postgresql_may_be_killed_before_each_call_after_the_charge(desk, own_ledger) -> None:
    desk.add_dataset(epsilon="100", delta="1e-2")
    desk.write_spec()

    def killed() -> Callable[[], None]:
        own_ledger.kill()
        return own_ledger.start

    at = 0
    while broken_off(desk, Disturbance(at=at, harm=killed), name=f"r{at}"):
        at += 1
    assert at >= LEAST_CONNECTIONS
    desk.succeed("ledger", "verify")


@contextmanager
def killed_around_commit(server: OwnServer, write: str, *, committed: bool, back: bool) -> Iterator[None]:
    """Kill PostgreSQL right before or after the commit of one of the ledger's writes, whose answer is lost."""
    method, commit = getattr(ReleaseWriter, write), DefaultDialect.do_commit
    armed: list[str] = []

    def writing(self: ReleaseWriter, *given: Any, **named: Any) -> Any:
        armed.append(write)
        return method(self, *given, **named)

    def killing(self: DefaultDialect, connection: Any) -> None:
        if not armed:
            commit(self, connection)
            return
        armed.clear()
        if committed:
            commit(self, connection)
        server.kill()
        if back:
            server.start()
        connection.execute("SELECT 1")  # on the lost connection: the driver's own error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReleaseWriter, write, writing)
        patch.setattr(DefaultDialect, "do_commit", killing)
        yield
    if server.process is None:
        server.start()


@SLOW
@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("write", ["charge", "mark_reading", "mark_published"])
def test_a_commit_whose_answer_is_lost_is_looked_up_or_said_not_to_be_known(
    desk, own_ledger, write: str, committed: bool, back: bool
) -> None:
    desk.add_dataset()
    desk.write_spec()
    with killed_around_commit(own_ledger, write, committed=committed, back=back):
        answer = desk("run", "spec.toml", "--release-id", "one")
    facts = facts_of(desk, "one")
    assert answer.code == 1, answer.err
    assert list(untruths(answer.code, answer.err, facts)) == [], answer.err
    reached = ["charge", "mark_reading", "mark_published"].index(write) + committed
    assert facts.stage == [None, "charged", "reading", "published"][reached]
    assert ("isn't known" in answer.err) == (not back and write != "mark_published"), answer.err
    price = desk.succeed("run", "spec.toml", "--release-id", "one", "--json").json["epsilon"]
    assert spent(desk) == pytest.approx(price)
    desk.succeed("ledger", "verify")


def test_a_python_caller_is_told_the_same(desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", desk.prefect())
    desk.add_dataset()
    desk.write_spec()
    for name, at in (("reading", 2), ("close", 3)):
        with disturbed(Disturbance(at=at, harm=lambda: moved(anchor_of(desk)))), pytest.raises(Refusal) as caught:
            release(desk.folder / "spec.toml", release_id=name, output=name)
        facts = facts_of(desk, name, name)
        assert facts.stage == ("charged" if name == "reading" else "reading")
        assert isinstance(caught.value, ReleaseFailed)
        assert list(untruths(caught.value.exit_code, str(caught.value), facts)) == [], str(caught.value)
        release(desk.folder / "spec.toml", release_id=name, output=name)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["charged", "count", "publish", "close"])
def test_a_submitted_job_is_told_the_same(desk, step: str) -> None:
    desk.add_dataset()
    desk.write_spec()
    anchor = anchor_of(desk)
    harm = {"TEST_HARM_AT": step, "TEST_HARM": f"mv {anchor} {anchor}.elsewhere", "PYTHONPATH": str(KILL_AT)}
    code, _, err = desk.start("submit", "spec.toml", "--release-id", "one", **harm).finish()
    Path(f"{anchor}.elsewhere").rename(anchor)
    facts = facts_of(desk, "one")
    assert facts.stage == ("charged" if step == "charged" else "reading"), err
    assert code == 1, err
    assert list(untruths(code, err, facts)) == [], err
    desk.succeed("run", "spec.toml", "--release-id", "one")


def test_an_unknown_fault_after_the_charge_says_what_is_so(desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.add_dataset()
    desk.write_spec()

    def broken(**_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("crowdblend.flows.release.count_stage", broken)
        answer = desk("run", "spec.toml", "--release-id", "one")
    assert answer.code == 1
    assert "Internal fault (ZeroDivisionError in broken" in answer.err
    assert "is spent, since reading had begun. Nothing was published." in answer.err


def test_retries_that_prefect_is_set_to_leave_a_failure_its_cause(desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import PREFECT_FLOW_DEFAULT_RETRIES, temporary_settings

    desk.add_dataset()
    desk.write_spec()
    attempts = []

    def broken(**_: object) -> None:
        attempts.append(1)
        raise ZeroDivisionError

    with monkeypatch.context() as patch, temporary_settings({PREFECT_FLOW_DEFAULT_RETRIES: 2}):
        patch.setattr("crowdblend.flows.release.count_stage", broken)
        answer = desk("run", "spec.toml", "--release-id", "one")
    assert (answer.code, attempts) == (1, [1])
    assert "Internal fault (ZeroDivisionError in broken" in answer.err


LIMITED = """
import resource, sys
from crowdblend.deploy import cli
resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, 700_000))
cli.main(sys.argv[1:])
"""


@SLOW
def test_a_private_store_that_takes_no_more_is_no_unreachable_prefect(desk, commands) -> None:
    """Prefect's own server has its database there."""
    desk.add_dataset()
    desk.write_spec()
    own = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API")} | desk.settings
    ended = commands.run("run", "spec.toml", folder=desk.folder, environment=own, script=LIMITED)
    assert ended.returncode == 2, ended.stderr
    assert "the private store can't be used (File too large). Nothing was read, written or charged." in ended.stderr
    assert "Prefect" not in ended.stderr.split("crowdblend: release")[-1]


def test_a_published_release_whose_output_is_gone_is_looked_up_as_that(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    words = ("run", "spec.toml", "--release-id", "one")
    assert "output_in_place" not in desk.succeed(*words, "--json").json
    assert desk.succeed(*words, "--json").json["output_in_place"] is True
    assert "It isn't there" not in desk.succeed(*words).out
    shutil.rmtree(desk.folder / "out")
    assert "It isn't there any more as it was published" in desk.succeed(*words).out
    assert desk.succeed(*words, "--json").json["output_in_place"] is False
