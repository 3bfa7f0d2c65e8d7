"""The units for systemd, started by a systemd that is a container's first process, with PostgreSQL beside them.

All their confinement is in force but the lists of addresses, which need what a container's control group may lack.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.containers import limits, said

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
IMAGE = "localhost/crowdblend-systemd:tests"
PACKAGES = "systemd dbus curl postgresql"
SERVE, DASHBOARD = "crowdblend-serve", "crowdblend-dashboard"
PAGES = "http://127.0.0.1:8720"
HOME = "/var/lib/crowdblend"
LEDGER = "postgresql://ledger_{role}:secret@127.0.0.1/ledger"
DATABASE = """
CREATE ROLE ledger_owner LOGIN PASSWORD 'secret';
CREATE ROLE ledger_writer LOGIN PASSWORD 'secret';
CREATE ROLE ledger_auditor LOGIN PASSWORD 'secret';
CREATE DATABASE ledger OWNER ledger_owner;
\\connect ledger
REVOKE EXECUTE ON FUNCTION lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea) FROM PUBLIC;
"""
SPEC = """
[release]
name = "census"
[data]
dataset = "census"
source = "/srv/records/census.csv"
[sampling]
rate = 0.1
[suppression]
k = 20
[privacy]
delta = 1e-6
[columns.sex]
values = ["Female", "Male"]
level = 0
"""
EVERY_MINUTE = """
[Service]
ExecStart=
ExecStart=/opt/crowdblend/bin/crowdblend serve /etc/crowdblend/census.toml --series census-2026 --cron "* * * * *" --output /srv/published --allow-unchanged
"""  # noqa: E501
Machine = Callable[..., str]


def waited(condition: Callable[[], bool], machine: Machine) -> None:
    """Wait for a state; if it never comes, the journal tells why."""
    deadline = time.monotonic() + 500
    while not condition():
        assert time.monotonic() < deadline, machine("journalctl --no-pager --boot | tail -n 60")
        time.sleep(1)


@pytest.fixture(scope="module")
def machine(container_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Run something, as root, on a machine of its own that systemd has started."""
    folder = tmp_path_factory.mktemp("systemd")
    install = f"apt-get update && apt-get install --yes --no-install-recommends {PACKAGES}"
    (folder / "Dockerfile").write_text(
        f'FROM {container_image}\nUSER root\nRUN {install}\nENTRYPOINT []\nCMD ["/lib/systemd/systemd"]\n'
    )
    said("podman", "build", "--isolation", "chroot", "--pull=never", "--tag", IMAGE, folder)
    options = ("--detach", "--runtime", "runc", "--systemd=always", "--privileged", "--network", "none")
    name = said("podman", "run", *options, *limits(), IMAGE).strip()

    def run(command: str, *, code: int = 0, text: str | None = None) -> str:
        return said("podman", "exec", "--interactive", name, "sh", "-c", command, code=code, text=text)

    def crowdblend(role: str, words: str) -> str:
        settings = f"CROWDBLEND_HOME={HOME} CROWDBLEND_LEDGER={LEDGER.format(role=role)}"
        return run(f"cd / && runuser --user crowdblend -- env {settings} crowdblend {words}")

    try:
        waited(lambda: run("systemctl is-system-running || true").strip() in ("running", "degraded"), run)
        waited(lambda: run("runuser --user postgres -- pg_isready || true").endswith("accepting connections\n"), run)
        run("runuser --user postgres -- psql --quiet", text=DATABASE)
        run(f"install -d /etc/crowdblend /srv/records /srv/published && install -d -m 0700 -o crowdblend {HOME}")
        run("chown crowdblend /srv/published")
        run("cat >/etc/crowdblend/census.toml", text=SPEC)
        run("cat >/srv/records/census.csv", text="sex\n" + "Female\nMale\n" * 10_000)
        for unit, role in ((SERVE, "writer"), (DASHBOARD, "auditor")):
            run(f"cat >/etc/systemd/system/{unit}.service", text=(UNITS / f"{unit}.service").read_text())
            path = f"/etc/crowdblend/{unit.removeprefix('crowdblend-')}.env"
            run(f"umask 077; cat >{path}", text=f"CROWDBLEND_LEDGER={LEDGER.format(role=role)}\n")
        run("systemctl daemon-reload")
        crowdblend("owner", "ledger init")
        crowdblend("owner", "ledger roles --writer ledger_writer --auditor ledger_auditor --apply")
        crowdblend("writer", "dataset add census --epsilon 5 --delta 1e-4")
        crowdblend("writer", "series add census-2026 /etc/crowdblend/census.toml --releases 2")
        token = crowdblend("writer", "token add auditor --expires 90d 2>/dev/null").strip()
        run(f"umask 077; echo 'user = auditor:{token}' >/root/curl")
        yield run
    finally:
        said("podman", "rm", "--force", "--time", "5", name)


def of(machine: Machine, unit: str, name: str) -> str:
    """A property of a unit."""
    return machine(f"systemctl show --value --property {name} {unit}").strip()


@pytest.mark.long
def test_the_service_of_releases_publishes_is_restarted_and_ends_with_its_series(
    machine: Machine, tmp_path: Path
) -> None:
    machine(f"systemctl start {SERVE}")
    waited(lambda: "comes next at" in machine(f"journalctl --no-pager -u {SERVE}"), machine)
    machine(f"systemctl stop {SERVE}")
    assert of(machine, SERVE, "Result") == "success"
    # The same unit with a schedule that doesn't wait for the next month.
    folder = f"/etc/systemd/system/{SERVE}.service.d"
    machine(f"mkdir -p {folder} && cat >{folder}/often.conf && systemctl daemon-reload", text=EVERY_MINUTE)
    machine(f"systemctl start {SERVE}")
    waited(lambda: "(1 of 2 of census-2026)" in machine(f"journalctl --no-pager -u {SERVE}"), machine)
    machine(f"systemctl kill --signal KILL {SERVE}")
    waited(lambda: int(of(machine, SERVE, "NRestarts")) >= 1, machine)
    waited(lambda: of(machine, SERVE, "ActiveState") == "inactive", machine)
    journal = machine(f"journalctl --no-pager -u {SERVE}")
    assert "(2 of 2 of census-2026)" in journal
    assert "Internal fault" not in journal
    # The end of the series, with its own exit code, is no failure, and nothing starts it again.
    last = journal.rpartition("(2 of 2 of census-2026)")[2]
    assert "Ended" in last
    assert f"{SERVE}.service: Deactivated successfully" in last
    assert "Scheduled restart" not in last
    published = machine("ls -d /srv/published/*").split()
    assert len(published) == 2
    for place in published:
        copy = tmp_path / Path(place).name
        copy.mkdir()
        for file in ("certificate.json", "data.parquet"):
            (copy / file).write_bytes(_bytes(machine, f"{place}/{file}"))
        said(sys.executable, "-m", "crowdblend.deploy", "verify", copy)
        assert json.loads((copy / "certificate.json").read_text())["dataset"] == "census"


@pytest.mark.long
def test_the_service_of_the_pages_answers_and_is_confined(machine: Machine) -> None:
    machine(f"systemctl start {DASHBOARD}")
    waited(lambda: '"ok"' in machine(f"curl --silent {PAGES}/health || true"), machine)
    fetch = f"curl --silent --output /dev/null --write-out '%{{http_code}}' {PAGES}/"
    assert machine(fetch) == "401"
    assert machine(f"{fetch} --config /root/curl") == "200"
    process = of(machine, DASHBOARD, "MainPID")
    status = dict(line.split(":", 1) for line in machine(f"cat /proc/{process}/status").replace("\t", " ").splitlines())
    assert int(status["Uid"].split()[0]) > 60_000
    assert {key: status[key].strip() for key in ("NoNewPrivs", "Seccomp")} == {"NoNewPrivs": "1", "Seccomp": "2"}
    assert int(status["CapBnd"], 16) == 0
    inside = f"nsenter --target {process} --mount"
    for place in ("/etc/new", "/srv/published/new"):
        machine(f"{inside} touch {place}", code=1)
    assert machine(f"{inside} ls /home /root") == "/home:\n\n/root:\n"
    # What was published by the other service, these pages may read.
    machine(f"{inside} setpriv --reuid 65000 --regid 65000 --clear-groups sh -c 'cat /srv/published/*/* >/dev/null'")


def _bytes(machine: Machine, path: str) -> bytes:
    return bytes.fromhex(machine(f"od -An -v -t x1 {path}"))
