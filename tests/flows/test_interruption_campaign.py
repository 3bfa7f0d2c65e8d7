"""Hundreds of kills, full disks, failing calls and lost connections at random places, over commands and databases.

Each case begins with a copy of a prepared folder, interrupts one command before one of its steps, holds what it said
and its exit code against the ledger and the output's place, runs the same command again without a fault, and looks
whether all is as after one run: charged once, read once, in view once and whole, no key left. CROWDBLEND_CAMPAIGN
names the number of cases in all, CROWDBLEND_CAMPAIGN_SEED another draw of them. What is found is printed for each
command, and at the end a table of all of them.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psycopg
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.certificate.verify import verify_certificate
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.readers.report_files import vector_table
from crowdblend.tasks.stages.synthesize import SYNTHESIZER
from support import truth
from support.commands import Commands
from support.desk import DEFAULTS, SPEC, TOWNS, CommandFolder
from support.earlier_ledgers import PlacedLedger, fill_ledger, private_files, stored_entries
from support.interruptions import ERRORS, FAULTS, of_database, run_interrupted
from support.stand_in_synthesizer import written

CASES = int(os.environ.get("CROWDBLEND_CAMPAIGN", "500"))
SEED = int(os.environ.get("CROWDBLEND_CAMPAIGN_SEED", "1"))
RECORDS = 2_400
RUN = ("run", "spec.toml", "--release-id", "one")
BUDGET = ("dataset", "add", "people", "--epsilon", "100", "--delta", "1e-2")
FILTER = ("dataset", "add", "people", "--epsilon", "0.48", "--delta", "1e-6", "--accounting", "filter")
USUAL = SPEC.format(**DEFAULTS)
NO_LEVELS = re.sub(r"^level = .*\n", "", USUAL, flags=re.M)
COLUMNS = USUAL[USUAL.index("[columns.colour]") :]
HEAD = '[release]\nname = "a"\noutput = "out"\n[data]\ndataset = "people"\nsource = "people.csv"\nseparator = ";"\n'
CHAIN = (
    COLUMNS.replace("level = 0", "levels = [0, 0]", 1)
    .replace("level = 1", "levels = [1, 2]", 1)
    .replace("level = 1", "levels = [0, 1]", 1)
)
PAIRS = (
    HEAD
    + '[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n[margins]\npairs = "auto"\n'
    + re.sub(r"levels = .*", 'levels = "auto"', CHAIN)
)
DELETION = HEAD + "[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n[margins]\n" + CHAIN
TWO_COLUMNS = COLUMNS[: COLUMNS.index("[columns.town]")]
NOISE = '[sampling]\nrate = 0.1\n[histogram]\nkind = "noisy"\nk = 20\nepsilon = 0.5\n[privacy]\ndelta = 1e-6\n'
SYNTHETIC = HEAD + "[synthetic]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n" + TWO_COLUMNS
REPORTS = """
[release]
name = "a"
output = "out"
[data]
dataset = "people"
source = "votes.parquet"
[reports]
kind = "k-randomization"
flip_probability = 0.25
questions = ["voted"]
least_people = 900
[privacy]
delta = 1e-6
"""


@dataclass
class Steward(CommandFolder):
    """A folder whose ledger lies in SQLite or in PostgreSQL, with what commands need in the environment."""

    database: str | None = None
    prefect: str = ""

    @property
    def ledger(self) -> str:
        return self.database or super().ledger

    @property
    def environment(self) -> dict[str, str]:
        more = {"PREFECT_API_URL": self.prefect, "PREFECT_LOGGING_LEVEL": "CRITICAL"}
        synthesizer = self.folder / "python-rows"
        return super().environment | more | ({SYNTHESIZER: str(synthesizer)} if synthesizer.exists() else {})

    def write(self, spec: str = USUAL) -> None:
        """Records, hierarchies and a specification."""
        colours, towns = ("blue", "green", "red"), ("Lyon", "Marseille", "Lille", "Paris")
        lines = [f"{colours[i % 3]};{20 + 10 * (i % 2)};{towns[i % 4]}" for i in range(RECORDS)]
        (self.folder / "people.csv").write_text("\n".join(["colour;age;town", *lines]) + "\n")
        (self.folder / "towns.csv").write_text(TOWNS)
        (self.folder / "spec.toml").write_text(spec)


Prepare = Callable[[Steward], None]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A command, with what must be there before it.

    Args:
        prepare: makes the folder in which it runs.
        words: the command.
        release: the id of the release that it makes, None where it makes none.
        output: the folder of what it publishes.
        database: what holds the ledger.
        again: what the same command may say when it is repeated after it was done, where that is a refusal.
        keeps: returns what the command leaves as it is, interrupted or not.
    """

    prepare: Prepare
    words: tuple[str, ...] = RUN
    release: str | None = "one"
    output: str = "out"
    database: str = "sqlite"
    again: str = ""
    keeps: Callable[[Steward], object] = lambda _: None


def released(spec: str = USUAL, *, add: tuple[str, ...] = BUDGET, more: Prepare = lambda _: None) -> Prepare:
    """A folder in which a release of a specification can be run."""

    def prepare(steward: Steward) -> None:
        steward.write(spec)
        steward.command(*add)
        more(steward)

    return prepare


def as_parquet(steward: Steward) -> None:
    options = pyarrow.csv.ParseOptions(delimiter=";")
    table = pyarrow.csv.read_csv(steward.folder / "people.csv", parse_options=options)
    pq.write_table(table, steward.folder / "people.parquet", row_group_size=500)


def as_table(steward: Steward) -> None:
    """The records as a table of the database that holds the ledger."""
    assert steward.database is not None
    with psycopg.connect(steward.database.replace("postgresql+psycopg", "postgresql")) as connection:
        connection.execute("CREATE SCHEMA records")
        connection.execute("CREATE TABLE records.people (colour text, age text, town text)")
        lines = (steward.folder / "people.csv").read_text().splitlines()[1:]
        with connection.cursor().copy("COPY records.people FROM STDIN") as copy:
            for line in lines:
                copy.write_row(line.split(";"))
    spec = steward.folder / "spec.toml"
    source = steward.database.replace("postgresql+psycopg", "postgresql")
    changed = spec.read_text().replace('separator = ";"', 'table = "records.people"')
    spec.write_text(changed.replace('"people.csv"', f'"{source}"'))


def with_votes(steward: Steward) -> None:
    votes = np.array([0, 1] * 600, dtype=np.uint8)
    pq.write_table(vector_table(votes), steward.folder / "votes.parquet")


def with_series(steward: Steward, releases: int = 3) -> None:
    steward.command("series", "add", "weekly", "spec.toml", "--releases", str(releases))


def of_earlier_version(ledger: str) -> Prepare:
    """A ledger that an earlier version wrote, with its keys and its anchor."""
    return lambda steward: fill_ledger(ledger, PlacedLedger(url=steward.ledger, home=steward.home))


def entries_and_store(steward: Steward) -> object:
    """Return what a migration leaves as it is: the entries with their hashes, keys and the anchor."""
    return stored_entries(steward.ledger), private_files(steward.home)


def begun(steward: Steward) -> None:
    """A release that was killed once it had begun to read: before the step that follows its second commit."""
    kept = steward.folder.with_name("before")
    shutil.copytree(steward.folder, kept)
    kinds = steps_of(steward, RUN)
    shutil.rmtree(steward.folder)
    kept.rename(steward.folder)
    second = [number for number, kind in enumerate(kinds) if kind == "commit"][1]
    interrupted(steward, RUN, fault="kill", at=second + 1)
    assert facts_of(steward, "one").stage == "reading"


MIGRATION = Scenario(
    prepare=of_earlier_version("additive"), words=("ledger", "migrate"), release=None, keeps=entries_and_store
)
SERVED = Scenario(
    prepare=released(more=lambda steward: with_series(steward, releases=1)),
    words=("served", "spec.toml", "weekly", "one"),
    output="published/one",
)
SCENARIOS = {
    "sample, CSV": Scenario(prepare=released()),
    "sample, Parquet, counts": Scenario(
        prepare=released(
            USUAL.replace("people.csv", "people.parquet")
            .replace('form = "microdata"', 'form = "counts"')
            .replace('format = "parquet"', 'format = "csv"')
            .replace('separator = ";"\n', ""),
            more=as_parquet,
        )
    ),
    "drawn map": Scenario(prepare=released(NO_LEVELS + "[selection]\nepsilon = 0.5\n")),
    "deletion with margins": Scenario(prepare=released(DELETION)),
    "deletion with pairs": Scenario(prepare=released(PAIRS)),
    "noise on small counts": Scenario(prepare=released(HEAD + NOISE + TWO_COLUMNS)),
    "filter budget": Scenario(prepare=released(add=(*FILTER, "--expect", "12 x k=20,rate=0.1"))),
    "synthetic table": Scenario(prepare=released(SYNTHETIC, more=lambda steward: written(steward.folder))),
    "local reports": Scenario(prepare=released(REPORTS, add=(*BUDGET, "--relation", "replacement"), more=with_votes)),
    "series": Scenario(prepare=released(more=with_series), words=(*RUN, "--series", "weekly")),
    "scheduled release": Scenario(
        prepare=released(more=with_series), words=("scheduled", "spec.toml", "weekly", "one"), output="one"
    ),
    "Python interface": Scenario(prepare=released(), words=("python", "spec.toml", "one")),
    "submitted job": Scenario(prepare=released(), words=("job", "spec.toml", "one")),
    "sample, PostgreSQL": Scenario(prepare=released(), database="postgresql"),
    "deletion, PostgreSQL": Scenario(prepare=released(DELETION), database="postgresql"),
    "records in PostgreSQL": Scenario(prepare=released(more=as_table), database="postgresql"),
    "dataset add": Scenario(prepare=lambda steward: steward.write(), words=BUDGET, release=None, again="already"),
    "dataset add, PostgreSQL": Scenario(
        prepare=lambda steward: steward.write(), words=BUDGET, release=None, database="postgresql", again="already"
    ),
    "series add": Scenario(
        prepare=released(),
        words=("series", "add", "weekly", "spec.toml", "--releases", "3"),
        release=None,
        again="already",
    ),
    "dataset raise": Scenario(
        prepare=released(),
        words=("dataset", "raise", "people", "--epsilon", "200", "--delta", "1e-2", "--reason", "more"),
        release=None,
        again="raise",
    ),
    "abandon": Scenario(
        prepare=released(more=begun), words=("abandon", "one", "--reason", "a test"), release=None, again="abandoned"
    ),
    "key rotate": Scenario(prepare=released(), words=("key", "rotate"), release=None),
    "token add": Scenario(
        prepare=released(), words=("token", "add", "ann", "--expires", "90d"), release=None, again="is in use"
    ),
    "ledger migrate": MIGRATION,
    "ledger migrate, PostgreSQL": replace(MIGRATION, prepare=of_earlier_version("filters"), database="postgresql"),
    "serve": SERVED,
    "serve, PostgreSQL": replace(SERVED, database="postgresql"),
}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the ledger and the output's place have of a release, and of the chain as a whole."""

    entries: int
    charged: int
    reading: int
    published: int
    stage: str
    findings: tuple[str, ...]
    in_view: bool
    files: dict[str, bytes]
    draws: dict[str, bytes]
    key: bytes | None
    sample: str | None = None


def facts_of(steward: Steward, release: str | None, *, output: str = "out") -> Facts:
    out = steward.folder / output
    files = {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    draws = {path.name: path.read_bytes() for path in steward.home.rglob("*.draw.json")}
    key = steward.home / "signing" / "current.key"
    signing = key.read_bytes() if key.exists() else None
    seen = {"in_view": bool(files), "files": files, "draws": draws, "key": signing}
    try:
        opened = open_reader(steward.ledger)
    except InputRefused as refused:
        # As before `dataset add` or `ledger migrate`, and where they were interrupted.
        if not re.search("there is no ledger here|crowdblend ledger migrate", refused.message):
            raise
        return Facts(entries=0, charged=0, reading=0, published=0, stage="", findings=(), **seen)
    with opened as reader:
        kinds = [
            entry.entry.KIND.rpartition("/")[0]
            for entry in reader.entries()
            if release is None or getattr(entry.entry, "release_id", release) == release
        ]
        counts = {stage: kinds.count(f"release-{stage}") for stage in ("charged", "reading", "published")}
        stage = next((stage for stage in ("published", "reading", "charged") if counts[stage]), "")
        found = tuple(str(finding) for finding in reader.verify())
        state = None if release is None else reader.release(release)
        sample = None if state is None else state.charge.sample_id
        return Facts(entries=len(kinds), stage=stage, findings=found, sample=sample, **counts, **seen)


def interrupted(steward: Steward, words: tuple[str, ...], **fault: object) -> tuple[int, str, str, list[str]]:
    return run_interrupted(steward.processes, words, folder=steward.folder, environment=steward.environment, **fault)


def steps_of(steward: Steward, words: tuple[str, ...]) -> list[str]:
    """The kinds of a command's steps where nothing interrupts it."""
    code, _, err, kinds = interrupted(steward, words)
    assert code == 0, err
    return kinds


def false_words(code: int, said: str, before: Facts, after: Facts) -> Iterator[str]:
    """Yield what an exit code and words say of a command that makes no release and that isn't so."""
    if "Traceback" in said:
        yield "a traceback"
    if code not in (0, 1, 2, 3):
        yield f"exit code {code}"
    # A first signing key that is left decides nothing: the same command takes it when it is repeated.
    new, replaced = after.entries > before.entries, after.key != before.key and before.key is not None
    if code in (2, 3) and (new or replaced):
        yield f"exit code {code} beside a new entry or another signing key"
    if code == 0 and not (new or replaced):
        yield "exit code 0 without a new entry or another signing key"
    if new and re.search(r"[Nn]othing was charged\b", said):
        yield "'nothing was charged' beside a new entry"
    if (new or after.key != before.key) and re.search(r"[Nn]othing was (written|changed|read, written)\b", said):
        yield "'nothing was written' beside a new entry or signing key"


def broken_promises(steward: Steward, scenario: Scenario, before: Facts, after: Facts) -> Iterator[str]:
    """What isn't as after one run, once the command has been repeated."""
    yield from after.findings
    if not after.entries:
        yield "no ledger that can be read"
    if scenario.release is None:
        return
    stages = (after.charged, after.reading, after.published)
    if stages != (1, 1, 1):
        yield f"entries of the release: {stages}"
    check = verify_certificate(steward.folder / scenario.output / "certificate.json", trusted=None)
    if check.findings:
        yield f"the certificate: {check.findings}"
    if before.sample is not None and before.sample != after.sample:
        yield "another sample"
    if before.in_view and before.files != after.files:
        yield "what was in view changed"
    if keys := [str(path.relative_to(steward.home)) for path in steward.home.glob("releases/**/*.key")]:
        yield f"keys are left: {keys}"
    out = steward.folder / scenario.output
    begins = (f".{out.name}", f"{out.name}-", f"{out.name}.")
    beside = {path.name for path in out.parent.iterdir() if path.name.startswith(begins)}
    if beside:
        yield f"left beside the output: {sorted(beside)}"


class Place:
    """Where the cases of a scenario run: one path and one database, laid anew for each."""

    def __init__(self, folder: Path, scenario: Scenario, *, processes: Commands, server: str, prefect: str) -> None:
        self.scenario, self.server = scenario, server
        self.template = folder.with_name(f"{folder.name}-template")
        database = server.replace("/postgres?", "/campaign?")
        self.steward = Steward(
            folder=folder,
            processes=processes,
            prefect=prefect,
            database=database if scenario.database == "postgresql" else None,
        )
        folder.mkdir()
        self.in_database("DROP DATABASE IF EXISTS campaign WITH (FORCE)", "CREATE DATABASE campaign")
        scenario.prepare(self.steward)
        folder.rename(self.template)
        self.in_database("DROP DATABASE IF EXISTS prepared", "ALTER DATABASE campaign RENAME TO prepared")

    def in_database(self, *statements: str) -> None:
        if self.steward.database is not None:
            address = self.server.replace("postgresql+psycopg", "postgresql")
            with psycopg.connect(address, autocommit=True) as connection:
                for statement in statements:
                    connection.execute(statement)

    def lay_anew(self) -> Steward:
        shutil.rmtree(self.steward.folder, ignore_errors=True)
        shutil.copytree(self.template, self.steward.folder)
        self.in_database("DROP DATABASE IF EXISTS campaign WITH (FORCE)", "CREATE DATABASE campaign TEMPLATE prepared")
        return self.steward


def case(place: Place, *, fault: str, at: int, error: int, second: int | None = None) -> tuple[str, list[str]]:
    """Interrupt once, perhaps kill the next attempt too, and repeat; return how it ended, and what it broke."""
    scenario, steward = place.scenario, place.lay_anew()
    before, kept = facts_of(steward, scenario.release, output=scenario.output), scenario.keeps(steward)
    code, out, err, _ = interrupted(steward, scenario.words, fault=fault, at=at, error=error)
    between = facts_of(steward, scenario.release, output=scenario.output)
    if code < 0:
        broken = []
    elif scenario.release is None:
        broken = list(false_words(code, out + err, before, between))
    else:
        so = truth.Facts(stage=between.stage or None, in_view=between.in_view, stage_before=before.stage or None)
        broken = list(truth.untruths(code, out + err, so))
    if broken:
        broken[-1] += f"; it said: {(out + err).strip()[-400:]!r}"
    broken += [f"half in view: {sorted(between.files)}"] * (between.in_view and "certificate.json" not in between.files)
    broken += [f"interrupted: {finding}" for finding in between.findings]
    broken += ["interrupted: something else changed"] * (scenario.keeps(steward) != kept)
    if second is not None:
        interrupted(steward, scenario.words, fault="kill", at=second)
        later = facts_of(steward, scenario.release, output=scenario.output)
        changed = [name for name, drawn in between.draws.items() if later.draws.get(name, drawn) != drawn]
        broken += [f"drawn again: {name}" for name in changed if between.reading]
    again, out, err, _ = interrupted(steward, scenario.words)
    if again != 0 and not (scenario.again and scenario.again in out + err):
        broken.append(f"repeated: exit code {again}: {err.strip().splitlines()[-1:]}")
    else:
        broken += broken_promises(
            steward, scenario, between, facts_of(steward, scenario.release, output=scenario.output)
        )
    broken += ["repeated: something else changed"] * (scenario.keeps(steward) != kept)
    ended = "killed" if code < 0 else f"exit code {code}"
    return (f"{ended}, internal faults" if "nternal fault" in err else ended), broken


SECOND = "second kill"
OUTCOMES = ("exit code 0", "exit code 1", "exit code 2", "exit code 3", "killed")


@pytest.fixture(scope="module")
def campaign(request: pytest.FixtureRequest) -> Iterator[dict[str, Counter]]:
    """The counts of each scenario, which are printed as one table when the last has run."""
    rows: dict[str, Counter] = {}
    yield rows
    heads = ("steps", "cases", *FAULTS, SECOND, *OUTCOMES, "internal faults", "findings")
    total = Counter[str]()
    for row in rows.values():
        total.update(row)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n\n| scenario | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
        for name, row in [*rows.items(), ("all", total)]:
            print(f"| {name} | {' | '.join(str(row[head]) for head in heads)} |")


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_whatever_is_interrupted_is_told_truly_and_finished_once(
    name: str,
    tmp_path: Path,
    commands: Commands,
    postgresql_server: str,
    prefect_server,
    campaign: dict[str, Counter],
    capsys: pytest.CaptureFixture,
) -> None:
    coins, scenario, row, findings = random.Random(f"{SEED} {name}"), SCENARIOS[name], Counter(), []
    place = Place(
        tmp_path / "case", scenario, processes=commands, server=postgresql_server, prefect=prefect_server.api_url
    )
    kinds = steps_of(place.lay_anew(), scenario.words)
    # A failing call must find a call of a file behind it.
    calls = max((step for step, kind in enumerate(kinds) if not of_database(kind)), default=None)
    left_out = {"lost connection": scenario.database == "sqlite", "failing call": calls is None}
    faults = [fault for fault in FAULTS if not left_out.get(fault)]
    for _ in range(-(-CASES // len(SCENARIOS))):
        fault, error = coins.choice(faults), coins.choice(ERRORS)
        at = coins.randrange(calls + 1 if fault == "failing call" else len(kinds))
        second = coins.randrange(len(kinds)) if scenario.release and coins.random() < 0.25 else None
        ended, broken = case(place, fault=fault, at=at, error=error, second=second)
        row.update(("cases", fault, *ended.split(", "), *[SECOND] * (second is not None)))
        findings += [f"{fault} ({error}) before step {at} ({kinds[at]}): {what}" for what in broken]
    row.update({"steps": len(kinds), "findings": len(findings)})
    campaign[name] = row
    with capsys.disabled():
        print("\n".join(["", f"{name}: {row['cases']} cases, {len(findings)} findings", *findings]))
    assert not findings, f"{len(findings)} findings"
