"""What one record can change, and what is secret, appears nowhere but in the key store.

A value scan looks for the secret, the sample's size and suppressed values; a differential run compares two releases
with the same coins whose inputs differ in one suppressed record. Each must also catch a leak planted on purpose.
"""

from __future__ import annotations

import base64
import os
import re
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from crowdblend.mechanisms.hierarchy import ValueHierarchy
from crowdblend.mechanisms.intervals import IntervalHierarchy
from crowdblend.mechanisms.lattice import Lattice, LatticeColumn
from crowdblend.mechanisms.quality import MapWeights, group_threshold
from crowdblend.mechanisms.sampling import ChunkIdentity, kept_positions
from crowdblend.mechanisms.scoring import scores
from crowdblend.mechanisms.suppression import count_keys

KEY = bytes(range(100, 132))
RECORDS = 113_171
RARE = "vermilion-rare"
SPEC = """
[release]
name = "leaks"
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
[columns.colour]
values = ["blue", "red", "vermilion-rare"]
level = 0
[columns.age]
interval = { lower = 0, upper = 100, widths = [10] }
level = 1
"""
# Every level of every column is a candidate; at ε₁ = 5 the finest map has all the probability but e^-10000.
DRAWN = SPEC.replace("level = 0\n", "").replace("level = 1\n", "") + "[selection]\nepsilon = 5\n"
POINTS = """
[release]
name = "leaks"
output = "out"
[data]
dataset = "people"
source = "people.csv"
[sampling]
rate = 0.3
[points]
kind = "suppressed"
k = 20
cells_per_side = 10
[privacy]
delta = 1e-6
[columns.age]
bounds = { lower = 0, upper = 100 }
"""
ANSWERED = """
[release]
name = "leaks"
output = "out"
[data]
dataset = "people"
source = "people.csv"
[answer]
kind = "count"
by = ["colour"]
epsilon = 1e-5
[columns.colour]
values = ["blue", "red"]
level = 0
"""
SCRIPT = """
import sys
from pathlib import Path
from crowdblend.deploy.running import run_release
from crowdblend.flows.settings import house
result = run_release(
    Path("spec.toml"), house=house(), output=None, scheduler=None, release_id="leak-test",
    randomness=lambda size: bytes.fromhex(sys.argv[1])[:size],
)
print(result["published_records"], result["published_groups"])
"""


@dataclass(frozen=True)
class Traces:
    """Everything that a run left outside the key store, by place."""

    files: dict[str, bytes]

    def holding(self, pattern: bytes) -> list[str]:
        return [name for name, content in self.files.items() if re.search(pattern, content)]


def people(records: int) -> list[str]:
    """The last record of every thousand is of the rare group, too few of which are ever sampled for k."""
    return [
        f"{RARE},{50 + i % 7}" if i % 10_000 == 9_999 else f"{('red', 'blue')[i % 2]},{20 + i % 30}"
        for i in range(records)
    ]


def run(folder: Path, lines: list[str], *, spec: str, plant: str = "") -> Traces:
    """One release by a process of its own, with a Prefect home of its own."""
    folder.mkdir()
    (folder / "spec.toml").write_text(spec)
    (folder / "people.csv").write_text("colour,age\n" + "\n".join(lines) + "\n")
    environment = os.environ | {
        "CROWDBLEND_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
        "CROWDBLEND_HOME": str(folder / "home"),
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
        "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_LOGGING_TO_API_ENABLED": "true",
        "COLUMNS": "1000",
    }
    environment.pop("PREFECT_API_URL", None)
    command = [sys.executable, "-m", "crowdblend.deploy", "dataset", "add", "people"]
    subprocess.run([*command, "--epsilon", "9", "--delta", "1e-3"], cwd=folder, env=environment, check=True)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, KEY.hex()],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
    )
    files = {"log": done.stderr, "result": done.stdout}
    for place in ("out", "prefect", "home"):
        for path in sorted((folder / place).rglob("*")):
            if path.is_file() and path.suffix not in (".db", ".db-wal", ".db-shm"):
                files[f"{place}/{path.relative_to(folder / place)}"] = path.read_bytes()
    files["ledger"] = dump(folder / "ledger.db")
    files["prefect.db"] = dump(folder / "prefect" / "prefect.db")
    if plant:
        files["log"] += plant.encode()
    return Traces(files=files)


def dump(path: Path) -> bytes:
    """Every row of every table as text, but for the block types that Prefect ships, in an order of their own."""
    with sqlite3.connect(path) as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        names = [name for name in names if not name.startswith("block_")]
        rows = [f"{name} {row!r}" for name in sorted(names) for row in database.execute(f'SELECT * FROM "{name}"')]
    database.close()
    return "\n".join(rows).encode()


@pytest.fixture(scope="module", params=["fixed", "drawn", "points"])
def neighbours(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Traces, Traces]:
    """Releases of D and of D with one more record, sampled under the same coins but of a suppressed group."""
    folder = tmp_path_factory.mktemp("neighbours")
    lines = people(records_of_d())
    spec = {"fixed": SPEC, "drawn": DRAWN, "points": POINTS}[request.param]
    return run(folder / "d", lines, spec=spec), run(folder / "d-and-one", [*lines, f"{RARE},88"], spec=spec)


@cache
def records_of_d() -> int:
    """At most RECORDS, and such that the coins take the record after them."""
    chunk = ChunkIdentity(file=0, block=0)
    return int(kept_positions(key=KEY, chunk=chunk, records=RECORDS + 1, rate=Decimal("0.3"))[-1])


@cache
def qualities(records: int) -> frozenset[int]:
    """What a choice among the candidates knows of the records: each map's records above k′, and its score."""
    colour = ValueHierarchy.from_values(["blue", "red", RARE])
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
    texts = [line.encode().split(b",") for line in people(records)]
    codes = [hierarchy.codes_of_texts([text[place] for text in texts], 0) for place, (_, hierarchy) in enumerate(named)]
    counts = count_keys(finest.keys(codes), cells=finest.cells)
    threshold = group_threshold(20, Decimal("0.3"), None)
    scored = scores(counts, lattice=lattice, threshold=threshold)
    weights = MapWeights(lattice=lattice).of_all()
    excess = [score // weight for score, weight in zip(scored.tolist(), weights.tolist(), strict=True) if weight]
    return frozenset(number for number in (*scored.tolist(), *excess) if number > 999)


def sample_size(records: int) -> int:
    chunk = ChunkIdentity(file=0, block=0)
    return len(kept_positions(key=KEY, chunk=chunk, records=records, rate=Decimal("0.3")))


def scan(traces: Traces, *, records: int, published: int) -> dict[str, list[str]]:
    """Where each secret shows; the private store may keep fingerprints, but no value and no key after the end."""
    size = sample_size(records)
    secrets = {
        "secret": re.escape(KEY),
        "secret in hex": KEY.hex().encode(),
        "secret in base64": re.escape(base64.b64encode(KEY)),
        "suppressed value": RARE.encode(),
        "sample size": rb"(?<![\d.])%d(?!\d)" % size,
        "suppressed records": rb"(?<![\d.:-])%d(?![\d.:-])" % (size - published)
        if size - published > 99
        else b"\xff\x00\xff\x00",
        "rows read": rb"(?<![\d.])%d(?!\d)" % records,
    }
    for number in qualities(records):
        secrets[f"quality {number}"] = rb"(?<![\d.])%d(?!\d)" % number
    return {name: places for name, pattern in secrets.items() if (places := traces.holding(pattern))}


def published_records(traces: Traces) -> int:
    return int(traces.files["result"].split()[0])


def test_no_secret_shows_anywhere(neighbours: tuple[Traces, Traces]) -> None:
    for traces in neighbours:
        published = published_records(traces)
        assert published > 10_000
        for records in (records_of_d(), records_of_d() + 1):
            assert not scan(traces, records=records, published=published)


@pytest.mark.parametrize("leak", ["key", "size", "value", "quality"])
def test_the_scan_finds_a_planted_leak(neighbours: tuple[Traces, Traces], leak: str) -> None:
    planted = {
        "key": f"k={KEY.hex()}",
        "size": f" kept {sample_size(records_of_d())} rows",
        "value": f" {RARE} dropped",
        "quality": f" the best map scores {max(qualities(records_of_d()))}",
    }
    traces = Traces(files=neighbours[0].files | {"log": planted[leak].encode()})
    assert scan(traces, records=records_of_d(), published=published_records(traces))


def test_exact_numbers_below_noise_show_nowhere(tmp_path: Path) -> None:
    """The noise of this answer is 0 with a probability of 5e-6, so that an exact count that shows is a leak."""
    exact = {"blue": 70_123, "red": 43_048}
    lines = [f"{colour},{20 + i % 30}" for colour, count in exact.items() for i in range(count)]
    traces = run(tmp_path / "asked", lines, spec=ANSWERED)
    patterns = [rb"(?<![\d.])%d(?!\d)" % number for number in (*exact.values(), sum(exact.values()))]
    assert [traces.holding(pattern) for pattern in patterns] == [[], [], []]
    planted = Traces(files=traces.files | {"log": b" counted 70123 blue"})
    assert planted.holding(patterns[0]) == ["log"]
    [draw] = [content for place, content in traces.files.items() if place.endswith("noise.draw.json")]
    assert not [place for place in traces.holding(re.escape(draw)) if not place.startswith("home/")]


NOISE = [
    (rb"127\.0\.0\.1:\d+", b"ADDRESS"),
    (rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", b"UUID"),
    (rb"\b[0-9a-f]{32,128}\b", b"HASH"),
    (rb'"key_id": "[0-9a-f]{16}"', b"KEY-ID"),
    (rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?", b"TIME"),
    (rb"\d\d:\d\d:\d\d(\.\d+)?", b"CLOCK"),
    (rb"\b(charge|reading|select|count|write|publish|close)-[0-9a-f]{3}\b", b"TASK-RUN"),
    (rb"\d+\.\d+(e-?\d+)?", b"FLOAT"),
    (rb"d-and-one|neighbours\d*/d\b", b"FOLDER"),
    (rb"\"prefect.resource.name\": \"[a-z]+-[a-z]+\", \"prefect.run-count\": \"0\"", b"NAME"),
    (rb"'[a-z]+-[a-z]+'", b"NAME"),
]


def settled(traces: Traces) -> dict[str, set[bytes]]:
    """The traces without ids and times, as sets of lines: how often Prefect repeats itself follows the clock."""
    result = {}
    for place, content in traces.files.items():
        if place.startswith("home/"):
            continue
        for pattern, word in NOISE:
            content = re.sub(pattern, word, content)
        result[re.sub(r"[0-9a-f-]{20,}", "ID", place)] = set(content.splitlines())
    return result


def test_neighbours_differ_in_nothing(neighbours: tuple[Traces, Traces]) -> None:
    one, other = (settled(traces) for traces in neighbours)
    assert one.keys() == other.keys()
    for place in one:
        differing = one[place] ^ other[place]
        assert not differing, (place, sorted(differing)[:20])
    tables = [name for name in neighbours[0].files if name.startswith("out/data")]
    assert tables
    assert all(neighbours[0].files[name] == neighbours[1].files[name] for name in tables)


def test_the_comparison_finds_a_planted_difference(neighbours: tuple[Traces, Traces]) -> None:
    one, other = neighbours
    for place in ("log", "ledger", "prefect.db"):
        leaked = Traces(files=other.files | {place: other.files[place] + b"\nsuppressed 12 groups"})
        assert settled(one)[place] != settled(leaked)[place]
