"""Real releases on neighbouring records with the same coins, each in a process of its own, at one desk after another.

Every run begins with a copy of one prepared desk (ledger, keys, times of files) at the same path, so that nothing but
the records and the clock can make two runs differ.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path

from crowdblend.accounting.keys.store_upkeep import open_private_store
from crowdblend.accounting.theory.planning.deletion_planning import plan_deletion
from crowdblend.deploy.prefect_environment import template_in
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import count_keys
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, kept_positions
from crowdblend.mechanisms.kinds.deletion_noise import draw_deletions
from crowdblend.mechanisms.map_selection.choice import Lattice, LatticeColumn, MapWeights, group_threshold
from crowdblend.mechanisms.map_selection.rollup import scores

from .scan import Secrets
from .traces import Traces, traces_of

__all__ = [
    "CERTIFICATE",
    "SCENES",
    "Scene",
    "Stand",
    "deletions",
    "group_counts",
    "records_of_d",
    "secrets_of",
    "without_hierarchies",
]

KEYS = (bytes(range(100, 132)), bytes(range(180, 212)))
RECORDS = 113_171
RATE = Decimal("0.3")
RARE = tuple(f"vermilion-{number:02}" for number in range(30))
RARE_EACH = 30
COLOURS = ("blue", "red", *RARE)
NOON = 1_700_000_000
CERTIFICATE = "out/certificate.json"
HEAD = """
[release]
name = "leaks"
form = "{form}"
format = "{file_format}"
output = "out"
[data]
dataset = "people"
source = "people.csv"
[sampling]
rate = 0.3
[suppression]
k = 20
[privacy]
delta = 1e-6
"""
COLUMNS = f"""
[columns.colour]
values = {json.dumps(COLOURS)}
level = 0
[columns.age]
interval = {{ lower = 0, upper = 100, widths = [10] }}
level = 1
"""
LEVELLESS = COLUMNS.replace("level = 0\n", "").replace("level = 1\n", "")
HISTOGRAM = HEAD.replace('form = "{form}"\n', "").replace("[suppression]", '[histogram]\nkind = "suppressed"')
POINTS = HISTOGRAM.replace("[histogram]", "[points]").replace("k = 20\n", "k = 60\ncells_per_side = 100\n")
DELETION = (
    HEAD.format(form="microdata", file_format="parquet")
    .replace("[sampling]\nrate = 0.3\n", "[deletion]\n")
    .replace("k = 20", "k = 60")
    + "epsilon = 1\n"
    + COLUMNS.replace("level = 0", "levels = [0, 0]").replace("level = 1", "levels = [1, 2]")
)
SCRIPT = """
import hashlib
import sys
from pathlib import Path
from crowdblend.deploy.run import run_release
from crowdblend.flows.paths import resolve_paths
{broken}
keys = sys.argv[2:]
drawn = []
def coins(size):
    if keys:
        return bytes.fromhex(keys.pop(0))[:size]
    drawn.append(size)
    return hashlib.shake_256(b"stage %d" % len(drawn)).digest(size)
result = run_release(
    Path("spec.toml"), state_paths=resolve_paths(), output=None, scheduler=sys.argv[1] or None, release_id="leak-test",
    randomness=coins,
)
print(result["published_records"], result["published_groups"])
if sys.argv[1]:
    from distributed import Client
    with Client(sys.argv[1], set_as_default=False) as client:
        client.dump_cluster_state("dask/state", format="yaml")
        # An entry for each line: how often the run asks whether all tasks are done follows the clock.
        told = {"events": client.get_events(), "worker-logs": client.get_worker_logs()}
        told["scheduler-logs"] = {"scheduler": client.get_scheduler_logs()}
        for name, entries in told.items():
            with Path("dask", name).open("w") as file:
                for topic, some in entries.items():
                    for entry in some:
                        print(topic, entry, file=file)
"""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A kind of release.

    Args:
        name: what it is called.
        spec: its specification.
        cluster: whether a Dask cluster counts.
        choosing: the sample that the map is chosen on: "whole", "fresh", None where it is fixed.
        broken: code that breaks the product first, for controls.
        deleting: whether all records are counted, and some of each group deleted.
        whole_domain: whether every declared group is published, with a count of 0 if need be: then no value is secret.
    """

    name: str
    spec: str
    cluster: bool = False
    choosing: str | None = None
    broken: str = ""
    deleting: bool = False
    whole_domain: bool = False


# At ε₁ = 5 the finest map has all the probability but e^-10000, so that opendp's own coins decide nothing.
SCENES = {
    scene.name: scene
    for scene in (
        Scene(name="fixed", spec=HEAD.format(form="microdata", file_format="parquet") + COLUMNS),
        Scene(name="counts", spec=HEAD.format(form="counts", file_format="csv") + COLUMNS),
        Scene(
            name="drawn",
            spec=HEAD.format(form="microdata", file_format="parquet") + LEVELLESS + "[selection]\nepsilon = 5\n",
            choosing="whole",
        ),
        Scene(
            name="drawn-fresh",
            spec=HEAD.format(form="microdata", file_format="parquet")
            + LEVELLESS
            + '[selection]\nepsilon = 5\non = "fresh-sample"\nrate = 0.5\n',
            choosing="fresh",
        ),
        Scene(
            name="points",
            spec=POINTS.format(file_format="parquet") + "[columns.age]\nbounds = { lower = 0, upper = 100 }\n",
        ),
        Scene(name="histogram", spec=HISTOGRAM.format(file_format="parquet") + COLUMNS, whole_domain=True),
        Scene(name="deletion", spec=DELETION, deleting=True),
        Scene(name="cluster", spec=HEAD.format(form="microdata", file_format="parquet") + COLUMNS, cluster=True),
    )
}


def people(records: int) -> list[str]:
    """Common records, and of each rare colour so few that its sampled ones are suppressed; no id is released."""
    every = RECORDS // (len(RARE) * RARE_EACH)
    lines = []
    for i in range(records):
        rare = i % every == every - 1
        colour = RARE[i // every % len(RARE)] if rare else COLOURS[i % 2]
        lines.append(f"person-{i:06},{colour},{50 + i % 7 if rare else 20 + i % 30}")
    return lines


def one_more() -> str:
    """The record t of the neighbouring data: sampled under the same coins, and alone in its group, the last of all."""
    return f"person-{RECORDS:06},{RARE[-1]},88"


@cache
def kept(records: int, rate: Decimal, key: bytes) -> tuple[int, ...]:
    """Places of the sampled records; the file is one chunk."""
    chunk = ChunkIdentity(file=0, block=0)
    return tuple(kept_positions(key=key, chunk=chunk, records=records, rate=rate).tolist())


@cache
def records_of_d() -> int:
    """At most RECORDS, and such that the coins take the record after them."""
    return kept(RECORDS + 1, RATE, KEYS[0])[-1]


def published_records(traces: Traces) -> int:
    """As the run itself said."""
    return int(traces.lines["result"].split()[0])


def without_hierarchies(traces: Traces) -> Traces:
    """The same, but for the hierarchies in the certificate: whole declared domains, suppressed values among them.

    That they are the declared ones, whatever the records have, is shown where neighbours' certificates are compared.
    """
    if CERTIFICATE not in traces.raw_bytes:
        return traces
    certificate = json.loads(traces.raw_bytes[CERTIFICATE])
    for column in certificate["map"]["columns"]:
        column.pop("hierarchy")
    rest = json.dumps(certificate, ensure_ascii=False).encode()
    return replace(traces, lines=traces.lines | {CERTIFICATE: rest}, raw_bytes=traces.raw_bytes | {CERTIFICATE: rest})


def secrets_of(scene: Scene, *, records: int, published: int) -> Secrets:
    """What a run on so many records must not have left anywhere."""
    if scene.deleting:
        numbers = {f"records of {group}": count for group, count in group_counts(records).items()}
        numbers |= {"rows read": records, "records not published": records - published}
        texts = {"record's id": rb"person-\d{6}", "suppressed value": rb"vermilion-\d\d"}
        keys = (KEYS[0], hashlib.shake_256(b"stage 1").digest(32))
        return Secrets(keys=keys, texts=texts, numbers=numbers, positions=deletions())
    positions = kept(records, RATE, KEYS[0])
    numbers = {
        "sample size": len(positions),
        "suppressed records": len(positions) - published,
        "rows read": records,
    }
    if scene.choosing is not None:
        numbers |= {f"quality {number}": number for number in qualities(records, scene.choosing)}
    if scene.choosing == "fresh":
        numbers["size of the selection's sample"] = len(kept(records, Decimal("0.5"), KEYS[1]))
    texts = {"record's id": rb"person-\d{6}"}
    if not scene.whole_domain:
        texts["suppressed value"] = rb"vermilion-\d\d"
    return Secrets(keys=KEYS, texts=texts, numbers=numbers, positions=positions)


@cache
def group_counts(records: int) -> Counter[str]:
    """How many records each group of the common values has."""
    fields = [line.split(",") for line in people(records)]
    return Counter(f"{colour}, {age[0]}0" for _, colour, age in fields if colour not in RARE)


@cache
def deletions() -> tuple[int, ...]:
    """Z of the first groups of the first stage, in the order of their keys."""
    plan = plan_deletion(epsilon=Decimal(1), delta=Decimal("1e-6"), stages=2, k=60)
    drawn = draw_deletions(plan.mechanism.noise, 36, randomness=hashlib.shake_256(b"stage 1").digest)
    return tuple(drawn.tolist())


@cache
def qualities(records: int, choosing: str) -> frozenset[int]:
    """What a choice among the candidates knows of the records: each map's records above k′, and its score."""
    colour = ValueHierarchy.from_values(list(COLOURS))
    age = IntervalHierarchy(lower=0, upper=100, widths=(10,))
    named = (("colour", colour), ("age", age))
    lattice = Lattice(
        columns=tuple(
            LatticeColumn(
                name=name, hierarchy=hierarchy, min_level=0, max_level=hierarchy.levels - 1, weight=Decimal(1)
            )
            for name, hierarchy in named
        )
    )
    finest = lattice.map_of((0, 0))
    lines = people(records)
    rate = None if choosing == "whole" else Decimal("0.5")
    if rate is not None:
        lines = [lines[place] for place in kept(records, rate, KEYS[1])]
    fields = [line.encode().split(b",")[1:] for line in lines]
    codes = [
        hierarchy.codes_of_texts([field[place] for field in fields], 0) for place, (_, hierarchy) in enumerate(named)
    ]
    counts = count_keys(finest.keys(codes), cells=finest.cells)
    scored = scores(counts, lattice=lattice, threshold=group_threshold(20, RATE, rate)).tolist()
    weights = MapWeights(lattice=lattice).of_all().tolist()
    excess = [score // weight for score, weight in zip(scored, weights, strict=True) if weight]
    return frozenset(number for number in (*scored, *excess) if number > 999)


@dataclass(frozen=True)
class Stand:
    """Where the runs of one scene are made.

    Args:
        folder: holds the desk that is in use, and one folder for each run that is done.
        scene: what is run.
        template: an empty database of Prefect's, for the server of each run; None where each migrates its own.
    """

    folder: Path
    scene: Scene
    template: Path | None = None

    @property
    def desk(self) -> Path:
        """The path that every run sees."""
        return self.folder / "desk"

    @property
    def environment(self) -> dict[str, str]:
        """Of every run: Prefect keeps what it can keep, and its lines are long enough to hold everything."""
        own = {
            "CROWDBLEND_LEDGER": f"sqlite:///{self.desk / 'ledger.db'}",
            "CROWDBLEND_HOME": str(self.desk / "home"),
            "PREFECT_HOME": str(self.desk / "prefect"),
            "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
            "PREFECT_LOGGING_LEVEL": "INFO",
            "PREFECT_LOGGING_TO_API_ENABLED": "true",
            "COLUMNS": "1000",
        }
        kept = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
        return kept | own

    def prepare(self) -> None:
        """Make the ledger and the keys with which each run begins."""
        self.desk.mkdir(parents=True)
        (self.desk / "spec.toml").write_text(self.scene.spec)
        words = ["dataset", "add", "people", "--epsilon", "9", "--delta", "1e-3"]
        command = [sys.executable, "-m", "crowdblend.deploy", *words]
        subprocess.run(command, cwd=self.desk, env=self.environment, check=True, capture_output=True)
        store = open_private_store(self.desk / "home")
        shutil.rmtree(store.release_folder(ledger_id="0" * 64, release_id="none").path.parents[1])  # its key stays
        if self.template is not None:
            place = template_in(self.desk / "home")
            place.parent.mkdir(mode=0o700)
            shutil.copyfile(self.template, place)
        self.desk.rename(self.folder / "prepared")

    def run(self, name: str, *, with_t: bool, scene: Scene | None = None, lines: list[str] | None = None) -> Traces:
        """One release of D, or of D and t, and what it left.

        Args:
            name: of the folder where it is kept.
            with_t: whether the one record more is there.
            scene: another one of the same preparation, such as a broken one.
            lines: other records than these.
        """
        scene = self.scene if scene is None else scene
        shutil.copytree(self.folder / "prepared", self.desk, copy_function=shutil.copy2)
        lines = people(records_of_d()) if lines is None else lines
        lines = ["person,colour,age", *lines, *([one_more()] if with_t else [])]
        (self.desk / "people.csv").write_text("\n".join(lines) + "\n")
        os.utime(self.desk / "people.csv", (NOON, NOON))
        with _cluster(self.desk) if scene.cluster else _nothing() as address:
            code = SCRIPT.replace("{broken}", scene.broken)
            keys = KEYS[:1] if scene.deleting else KEYS
            words = [sys.executable, "-c", code, address, *(key.hex() for key in keys)]
            done = subprocess.run(words, cwd=self.desk, env=self.environment, check=False, capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[-3000:])
        (self.desk / "log").write_bytes(done.stderr)
        (self.desk / "result").write_bytes(done.stdout)
        kept_at = self.folder / name
        self.desk.rename(kept_at)
        return traces_of(kept_at, leaving_out=frozenset({"people.csv", "spec.toml"}))

    def broken(self, code: str) -> Scene:
        """The scene on a product that some code breaks first."""
        return replace(self.scene, broken=code)


@contextmanager
def _nothing() -> Iterator[str]:
    yield ""


@contextmanager
def _cluster(desk: Path) -> Iterator[str]:
    """A scheduler and one worker on loopback; their files and all that they print lie in the desk."""
    folder = desk / "dask"
    folder.mkdir()
    told = folder / "scheduler.json"
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    scheduler += ["--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(told)]
    with (folder / "scheduler.log").open("wb") as log, (folder / "worker.log").open("wb") as worker_log:
        processes = [subprocess.Popen(scheduler, stdout=log, stderr=log, cwd=folder)]
        try:
            address = _address(told)
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
            worker += ["--no-dashboard", "--no-nanny", "--name", "worker", "--local-directory", str(folder)]
            processes.append(subprocess.Popen(worker, stdout=worker_log, stderr=worker_log, cwd=folder))
            yield address
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(timeout=60)


def _address(told: Path) -> str:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if told.exists() and (found := re.search(r'"address":\s*"([^"]+)"', told.read_text())):
            return found.group(1)
        time.sleep(0.1)
    raise RuntimeError("the scheduler did not start")
