"""Releases and commands that are killed, or whose operations fail, at random places: 560 of them, and their table.

Each attempt is held against what must hold whatever happens: a release is charged at most once, what it drew is never
drawn again, nothing is half in view, exit code and words are true, and the same command finishes it afterwards.
CROWDBLEND_CAMPAIGN is the number of disturbances, CROWDBLEND_CAMPAIGN_SEED what they are drawn by.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.ledger.certificate.verify import check_certificate
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy.prefect.environment import QUIET
from crowdblend.mechanisms.local_reports.design import design_of_table
from crowdblend.mechanisms.local_reports.sketch import encode
from crowdblend.tasks.readers.report_files import sketch_table
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool
from support.desk import DEFAULTS, SPEC, TOWNS
from support.disturbance import FAULTS
from support.stand_in_synthesizer import written
from support.truth import Facts, untruths

RELEASE = "the-one"
SCRIPT = "import sys, disturbance; disturbance.main(sys.argv[1])"
RUN = ("run", "spec.toml", "--release-id", RELEASE)
COLUMNS = SPEC[SPEC.index("[columns.colour]") :]
SYNTHETIC = COLUMNS[: COLUMNS.index("[columns.town]")]
HEAD = """
[release]
name = "a"
output = "out"
[data]
dataset = "people"
source = "{source}"
"""
PEOPLE = HEAD.format(source="people.csv") + 'separator = ";"\n'
CHOICE = """[selection]
epsilon = 0.2
on = "whole"
candidates = [{ colour = 0, age = 1, town = 2 }, { colour = 1, age = 1, town = 1 }]
"""
REPORTS = """[reports]
kind = "count-mean-sketch"
epsilon = 4
hashes = 16
bits = 64
seed = "survey"
values = ["red", "blue", "none"]
"""
MICRODATA = SPEC.format(**DEFAULTS)
LEVELS = MICRODATA.replace("level = 0", "levels = [0, 1]").replace("level = 1", "levels = [1, 1]")
SPECS = {
    "microdata": MICRODATA,
    "drawn map": "\n".join(line for line in MICRODATA.splitlines() if not line.startswith("level")).replace(
        "[columns.colour]", CHOICE + "[columns.colour]"
    ),
    "noisy histogram": MICRODATA.replace('form = "microdata"\n', "").replace(
        "[suppression]", '[histogram]\nkind = "noisy"\nepsilon = 0.5'
    ),
    "deletion": LEVELS.replace(
        "[sampling]\nrate = 0.1", '[deletion]\nshape = "optimal"\nepsilon = 0.5\ndelta = 5e-7'
    ).replace("[privacy]", "[privacy]\nepsilon = 1"),
    "synthetic": f"{PEOPLE}[synthetic]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n{SYNTHETIC}",
    "reports": HEAD.format(source="reports.parquet") + REPORTS,
}


@dataclass(frozen=True)
class Scenario:
    """A command at a desk, disturbed again and again.

    Args:
        kind: of the release, by its specification; None for a command that is none.
        how: who calls: "command", "python", "serve", "job".
        words: the command line.
        database: of the ledger.
        add: of the data set.
        before: commands that come before.
        half: whether a release is first cut off once its reading is recorded.
        source: "database" reads the records from PostgreSQL.
        series: the series that pays.
    """

    kind: str | None
    how: str = "command"
    words: tuple[str, ...] = RUN
    database: str = "sqlite"
    add: tuple[str, ...] = ("--epsilon", "10", "--delta", "1e-3")
    before: tuple[tuple[str, ...], ...] = ()
    half: bool = False
    source: str = "file"
    series: str | None = None

    @property
    def is_release(self) -> bool:
        return self.words[0] == "run"

    def __str__(self) -> str:
        what = self.kind if self.is_release else " ".join(self.words[:2])
        extras = [self.database, *(["filter"] if "filter" in self.add else []), *(["series"] if self.series else [])]
        extras += ["from a database"] if self.source == "database" else []
        return f"{what}, {self.how} ({', '.join(extras)})"


FILTER = ("--epsilon", "0.48", "--delta", "1e-6", "--accounting", "filter")
MONTHLY = ("series", "add", "monthly", "spec.toml", "--releases", "2")
IN_SERIES = (*RUN, "--series", "monthly")
ALL = (
    Scenario("microdata"),
    Scenario("microdata", database="postgresql"),
    Scenario("microdata", how="python"),
    Scenario("microdata", how="serve", words=IN_SERIES, before=(MONTHLY,), series="monthly"),
    Scenario("microdata", how="serve", words=IN_SERIES, before=(MONTHLY,), series="monthly", database="postgresql"),
    Scenario("microdata", how="job"),
    Scenario("microdata", add=FILTER),
    Scenario("microdata", source="database"),
    Scenario("drawn map"),
    Scenario("noisy histogram", database="postgresql"),
    Scenario("deletion"),
    Scenario("synthetic"),
    Scenario("reports", add=("--epsilon", "10", "--delta", "1e-3", "--relation", "replacement")),
    Scenario("microdata", words=("abandon", RELEASE, "--reason", "a test"), half=True),
    Scenario("microdata", words=("dataset", "add", "others", "--epsilon", "1", "--delta", "1e-6")),
    Scenario(
        "microdata", words=("dataset", "raise", "people", "--epsilon", "11", "--delta", "2e-3", "--reason", "more")
    ),
    Scenario("microdata", words=MONTHLY, database="postgresql"),
    Scenario("microdata", words=("ledger", "migrate")),
)

ONLY = os.environ.get("CROWDBLEND_CAMPAIGN_ONLY", "")
SCENARIOS = tuple(scenario for scenario in ALL if ONLY in str(scenario))


@dataclass
class Row:
    """What was seen of a scenario.

    Args:
        kills, faults: disturbances of either sort that came.
        codes: exit codes of the disturbed attempts.
        wrong: what did not hold.
    """

    operations: int = 0
    kills: int = 0
    faults: int = 0
    late: int = 0
    codes: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass
class Stand:
    """What is left at the desk after an attempt."""

    stage: str | None
    spent: Decimal
    entries: int
    findings: tuple[str, ...]
    output: str | None
    draws: dict[str, str]
    sample: str | None

    @property
    def facts(self) -> dict[str, Any]:
        return {"stage": self.stage, "in_view": self.output is not None}


@dataclass
class CampaignDesk:
    """One scenario's folder, ledger and kept copies."""

    scenario: Scenario
    folder: Path
    kept: Path
    commands: Any
    server: str
    prefect: str
    number: int
    broken: str | None = None

    @property
    def desk(self) -> Path:
        return self.folder / "desk"

    @property
    def name(self) -> str:
        return f"campaign_{os.getpid()}_{self.number}"

    @property
    def ledger(self) -> str:
        if self.scenario.database == "postgresql":
            return self.server.replace("/postgres?", f"/{self.name}?")
        return f"sqlite:///{self.desk / 'ledger.db'}"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CROWDBLEND_")}
        own = {"CROWDBLEND_LEDGER": self.ledger, "CROWDBLEND_HOME": str(self.desk / "home")}
        own |= {"CROWDBLEND_SYNTHESIZER": str(self.folder / "python-rows"), "PREFECT_API_URL": self.prefect}
        return kept | QUIET | own

    def sql(self, *statements: str) -> None:
        engine = create_engine(self.server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))

    def keep(self, name: str) -> None:
        subprocess.run(["cp", "-a", str(self.desk), str(self.kept / name)], check=True)
        if self.scenario.database == "postgresql":
            self.sql(f"CREATE DATABASE {self.name}_{name} TEMPLATE {self.name}")

    def restore(self, name: str) -> None:
        shutil.rmtree(self.desk)
        subprocess.run(["cp", "-a", str(self.kept / name), str(self.desk)], check=True)
        if self.scenario.database == "postgresql":
            force = f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)"
            self.sql(force, f"CREATE DATABASE {self.name} TEMPLATE {self.name}_{name}")

    def command(self, *words: str) -> None:
        done = self.commands.run(*words, folder=self.desk, environment=self.environment)
        assert done.returncode == 0, f"{self.scenario}: {words}: {done.stderr}"

    def prepare(self) -> None:
        self.desk.mkdir(parents=True)
        self.kept.mkdir()
        if self.scenario.database == "postgresql":
            self.sql(f"CREATE DATABASE {self.name}")
        (self.desk / "towns.csv").write_text(TOWNS)
        colours, towns = ("blue", "green", "red"), ("Lyon", "Marseille", "Lille", "Paris")
        rows = [(colours[i % 3], 20 + 10 * (i % 2), towns[i % 4]) for i in range(2_400)]
        lines = ["colour;age;town", *(";".join(map(str, row)) for row in rows)]
        (self.desk / "people.csv").write_text("\n".join(lines) + "\n")
        spec = SPECS[self.scenario.kind or "microdata"]
        if self.scenario.kind == "reports":
            mechanism = design_of_table(
                {"kind": "count-mean-sketch", "epsilon": Decimal(4), "hashes": 16, "bits": 64, "seed": "survey",
                 "values": ["red", "blue", "none"]}
            ).mechanism  # fmt: skip
            made = encode(mechanism, ["red"] * 900 + ["blue"] * 300, randomness=Random(5).randbytes)
            pq.write_table(sketch_table(mechanism, made), self.desk / "reports.parquet")
        if self.scenario.source == "database":
            values = ",".join(map(str, rows))
            source = f"{self.name}_source"
            self.sql(f"CREATE DATABASE {source}")
            address = self.server.replace("/postgres?", f"/{source}?")
            engine = create_engine(address, poolclass=NullPool, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.execute(text("CREATE TABLE visits (colour text, age smallint, town text)"))
                connection.execute(text(f"INSERT INTO visits VALUES {values}"))
            spec = spec.replace('"people.csv"', f'"{address.replace("+psycopg", "")}"')
            spec = spec.replace('separator = ";"', 'table = "visits"')
        (self.desk / "spec.toml").write_text(spec)
        written(self.folder)
        self.command("dataset", "add", "people", *self.scenario.add)
        for words in self.scenario.before:
            self.command(*words)
        if self.scenario.half:
            self.attempt({"at": 60, "how": "kill", "late": False, "fault": 5}, release=True)
        self.keep("fresh")

    def attempt(self, plan: dict[str, Any], *, release: bool = False) -> tuple[int, str, dict]:
        """One attempt; its exit code, all that it said, and what the disturbance tells."""
        scenario, report = self.scenario, self.folder / "report"
        report.unlink(missing_ok=True)
        how = "command" if release else scenario.how
        if how == "job":
            job = self.desk / "home" / "jobs" / RELEASE
            job.mkdir(parents=True, exist_ok=True, mode=0o700)
            job.parent.chmod(0o700)
            asked = {"spec": "spec.toml", "output": None, "scheduler": None, "series": scenario.series, "new": False}
            (job / "job.json").write_text(json.dumps(asked))
            (job / "end.json").unlink(missing_ok=True)
        words = list(RUN if release else scenario.words)
        given = {
            "desk": str(self.desk), "report": str(report), "plan": plan, "how": how, "words": words,
            "release_id": RELEASE, "series": scenario.series, "broken": self.broken,
        }  # fmt: skip
        done = self.commands.run(json.dumps(given), folder=self.desk, environment=self.environment, script=SCRIPT)
        said = done.stderr
        if how == "job":
            end = self.desk / "home" / "jobs" / RELEASE / "end.json"
            ended = json.loads(end.read_text()) if end.exists() else None
            said = said if ended is None else ended.get("message", "")
            code = -signal.SIGKILL if ended is None else ended["exit_code"]
            return code, said, json.loads(report.read_text())
        return done.returncode, said, json.loads(report.read_text())

    def look(self) -> Stand:
        with open_reader(self.ledger) as reader:
            release = reader.release(RELEASE)
            account = next(each.account for each in reader.datasets() if each.name == "people")
            findings = tuple(str(finding) for finding in reader.verify())
            entries = sum(1 for _ in reader.entries())
        out = self.desk / "out"
        output = None
        if out.exists():
            faults = list(check_certificate(out / "certificate.json"))
            findings += tuple(f"the output in view: {fault}" for fault in faults)
            output = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(out.iterdir()))).hexdigest()
        draws = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (self.desk / "home").rglob("*.draw.json")
        }
        return Stand(
            stage=None if release is None else release.stage,
            spent=account.epsilon_spent,
            entries=entries,
            findings=findings,
            output=output,
            draws=draws,
            sample=None if release is None else release.charge.sample_id,
        )

    def left(self) -> list[str]:
        """What may not outlive a release that is finished."""
        names = [path.name for path in self.desk.iterdir() if ".crowdblend-" in path.name]
        return names + [path.name for path in (self.desk / "home").rglob("*.key") if "releases" in path.parts]

    def remove(self) -> None:
        if self.scenario.database == "postgresql" or self.scenario.source == "database":
            names = (self.name, f"{self.name}_fresh", f"{self.name}_source")
            self.sql(*(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in names))


def never(earlier: Stand, later: Stand) -> Iterator[str]:
    """What may not change from one attempt to a later one."""
    yield from later.findings
    if earlier.sample is not None and later.sample != earlier.sample:
        yield "another sample"
    if earlier.stage in ("reading", "published"):
        for name, digest in earlier.draws.items():
            if later.draws.get(name, digest) != digest:
                yield f"{name} was drawn again"
    if earlier.output is not None and later.output != earlier.output:
        yield "what was in view changed"


def wrongs_of_release(desk: CampaignDesk, plans: list[dict], fresh: Stand, price: Decimal, row: Row) -> Iterator[str]:
    """Disturb a release, perhaps twice, then finish it; what is wrong."""
    before = fresh
    for plan in plans:
        code, said, told = desk.attempt(plan)
        row.codes["killed" if code < 0 else code] += 1
        if not told["fired"]:
            row.late += 1
        elif plan["how"] == "kill":
            row.kills += 1
        else:
            row.faults += 1
        after = desk.look()
        where = f"{plan} before {told['fired']!r}: {code}: {said.strip()[-400:]!r}: "
        if code >= 0:
            facts = Facts(**after.facts, stage_before=before.stage)
            yield from (where + fault for fault in untruths(code, said, facts))
        yield from (where + fault for fault in never(before, after))
        if after.spent not in (fresh.spent, fresh.spent + price):
            yield f"{where}{after.spent} is spent, of a price of {price}"
        before = after
    code, said, _ = desk.attempt({"at": None})
    last = desk.look()
    where = f"{plans} finished: {code}: {said.strip()[-400:]!r}: "
    if code != 0:
        yield where + "it can't be finished"
    yield from (where + fault for fault in never(before, last))
    if last.spent != fresh.spent + price:
        yield f"{where}{last.spent - fresh.spent} is spent, of a price of {price}"
    if code == 0 and desk.left():
        yield f"{where}left behind: {desk.left()}"


def wrongs_of_command(desk: CampaignDesk, plans: list[dict], fresh: Stand, row: Row) -> Iterator[str]:
    """Disturb another command, then do it again; what is wrong."""
    code, said, told = desk.attempt(plans[0])
    row.codes["killed" if code < 0 else code] += 1
    fired, plan = told["fired"], plans[0]
    row.late, row.kills, row.faults = (
        row.late + (not fired),
        row.kills + bool(fired and plan["how"] == "kill"),
        row.faults + bool(fired and plan["how"] != "kill"),
    )
    after = desk.look()
    where = f"{plan} before {fired!r}: {code}: {said.strip()[-400:]!r}: "
    wrote = after.entries > fresh.entries
    if "Traceback" in said:
        yield where + "a traceback"
    if code in (2, 3) and wrote:
        yield where + "a refusal of what the ledger has"
    if wrote and ("Nothing was charged" in said or "Nothing was written" in said or "written or charged" in said):
        yield where + "'nothing was written' of what the ledger has"
    if code == 0 and not wrote and desk.scenario.words[:2] != ("ledger", "migrate"):
        yield where + "exit 0, and the ledger has nothing"
    yield from (where + fault for fault in after.findings)
    code, said, _ = desk.attempt({"at": None})
    last = desk.look()
    where = f"{plans[0]} done again: {code}: {said.strip()[-400:]!r}: "
    if code not in ((2, 3) if wrote else (0,)) and desk.scenario.words[:2] != ("ledger", "migrate"):
        yield where + "done again it ends so"
    if last.entries != fresh.entries + (1 if desk.scenario.words[0] != "ledger" else 0):
        yield f"{where}{last.entries - fresh.entries} entries more"
    yield from (where + fault for fault in last.findings)


def disturbed(desk: CampaignDesk, disturbances: int, random: Random, row: Row) -> None:
    """All disturbances of one scenario."""
    desk.prepare()
    fresh = desk.look()
    code, said, told = desk.attempt({"at": None})
    assert code == 0, f"{desk.scenario}: {said}"
    row.operations, price = told["operations"], desk.look().spent - fresh.spent
    for _ in range(disturbances):
        desk.restore("fresh")
        plans = [
            {
                "at": random.randrange(row.operations),
                "how": random.choice(["kill", "kill", "once", "once", "always"]),
                "late": random.random() < 0.3,
                "fault": random.choice(FAULTS),
            }
            for _ in range(2 if random.random() < 0.25 else 1)
        ]
        if desk.scenario.is_release:
            row.wrong += wrongs_of_release(desk, plans, fresh, price, row)
        else:
            row.wrong += wrongs_of_command(desk, plans, fresh, row)


def table(rows: dict[Scenario, Row]) -> Iterator[str]:
    yield "| scenario | operations | kills | failing operations | not reached | ends | wrong |"
    yield "|---|---|---|---|---|---|---|"
    for scenario, row in rows.items():
        ends = ", ".join(f"{code}: {number}" for code, number in sorted(row.codes.items(), key=str))
        yield f"| {scenario} | {row.operations} | {row.kills} | {row.faults} | {row.late} | {ends} | {len(row.wrong)} |"
    kills, faults = (sum(getattr(row, name) for row in rows.values()) for name in ("kills", "faults"))
    yield f"{kills} kills and {faults} failing operations, {kills + faults} in all"


@pytest.fixture
def campaign(
    commands: Any, postgresql_server: str, prefect_server: Any, tmp_path: Path
) -> Iterator[Callable[..., dict[Scenario, Row]]]:
    """Runs scenarios side by side."""
    made: list[CampaignDesk] = []
    numbers = count()

    def run(scenarios: tuple[Scenario, ...], *, disturbances: int, seed: int, broken: str | None = None) -> dict:
        rows = {scenario: Row() for scenario in scenarios}

        def one(scenario: Scenario, share: int) -> None:
            number = next(numbers)
            folder = tmp_path / f"{number}"
            desk = CampaignDesk(
                scenario=scenario, folder=folder, kept=folder / "kept", commands=commands, server=postgresql_server,
                prefect=prefect_server.api_url, number=number, broken=broken,
            )  # fmt: skip
            folder.mkdir()
            made.append(desk)
            row = rows[scenario]
            try:
                disturbed(desk, share, Random(f"{seed} {scenario}"), row)
            except AssertionError as fault:
                row.wrong.append(f"it can't be prepared: {fault}")
            print(f"{scenario}: {row.kills} kills, {row.faults} faults, wrong: {len(row.wrong)}", flush=True)
            for wrong in row.wrong:
                print(f"    {wrong}", flush=True)

        shares = [len(range(number, disturbances, len(scenarios))) for number in range(len(scenarios))]
        with ThreadPoolExecutor(int(os.environ.get("CROWDBLEND_CAMPAIGN_TOGETHER", "2"))) as pool:
            list(pool.map(one, scenarios, shares))
        return rows

    yield run
    for desk in made:
        desk.remove()


@pytest.mark.long
def test_whatever_is_killed_or_fails_a_release_is_charged_once_told_truly_and_finished(campaign, capsys) -> None:
    disturbances = int(os.environ.get("CROWDBLEND_CAMPAIGN", "560"))
    with capsys.disabled():
        print()
        rows = campaign(
            SCENARIOS, disturbances=disturbances, seed=int(os.environ.get("CROWDBLEND_CAMPAIGN_SEED", "22"))
        )
        print("\n".join(table(rows)))
    wrong = [f"{scenario}: {each}" for scenario, row in rows.items() for each in row.wrong]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.long
def test_a_release_without_its_boundary_is_caught(campaign) -> None:
    """The control of the campaign: words and codes of what goes wrong after the charge are false at once."""
    rows = campaign((Scenario("microdata"),), disturbances=40, seed=1, broken="without_boundary")
    assert sum(len(row.wrong) for row in rows.values()) > 3
