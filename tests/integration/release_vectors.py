"""Run as a program: makes a release of each kind, with every coin and clock fixed, and writes what came of it as JSON.

It drives the command line alone, in an empty working folder, so that it stays the same however the modules are laid
out. What is otherwise new each time is fixed where it enters the process: the bytes and digits that `secrets` gives,
OpenDP's noise, the day, the version, the digest of the software's sources, and the name of the working folder. The
uniform order of work that threads leave open decides nothing, and no other thing is masked.

    cd "$(mktemp -d)" && python .../tests/integration/release_vectors.py >.../tests/vectors/releases.json
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib
import importlib.metadata
import io
import json
import os
import pathlib
import pkgutil
import secrets
import sys
from collections.abc import Callable, Iterator
from typing import Any

FOLDER = pathlib.Path.cwd()
PACKAGE_NAMES = ("mechanisms", "accounting", "tasks", "flows", "deploy")
COLOUR = '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevel = 0\n'
AGE = "[columns.age]\ninterval = { lower = 0, upper = 100, widths = [10, 50] }\nlevel = 2\n"
TOWN = '[columns.town]\nhierarchy = "towns.csv"\nlevel = 1\n'
COLUMNS = COLOUR + AGE + TOWN
FREE = "".join(line + "\n" for line in COLUMNS.splitlines() if not line.startswith("level"))
RATE, CROWD, DELTA = "[sampling]\nrate = 0.3\n", "[suppression]\nk = 8\n", "[privacy]\ndelta = 1e-3\n"
SAFE = RATE + CROWD + DELTA
AXES = "[columns.height]\nbounds = { lower = 1.2, upper = 2.2 }\n[columns.weight]\nbounds = { lower = 30, upper = 130, missing = 70 }\n"  # noqa: E501
TOWNS = "Lyon;South;*\nMarseille;South;*\nLille;North;*\nParis;North;*\n"


def spec(
    *tables: str, form: str = "", file: str = "csv", dataset: str = "people", source: str = "people.csv", data: str = ""
) -> str:
    head = f'[release]\nname = "vector"\nformat = "{file}"\n' + (f'form = "{form}"\n' if form else "")
    return f'{head}[data]\ndataset = "{dataset}"\nsource = "{source}"\n{data}' + "".join(tables)


MESSY = (
    'separator = ";"\nencoding = "cp1252"\ntrim = true\ndecimal = ","\nwhole_floats = true\nnull = ["", "NA", "-9"]\n'
)
CASES = {
    "microdata-rows": spec(SAFE, COLUMNS, file="parquet"),
    "microdata-rows-csv": spec(SAFE, COLUMNS, form="microdata"),
    "microdata-counts": spec(SAFE, COLUMNS, form="counts", file="parquet"),
    "microdata-counts-csv": spec(SAFE, COLUMNS, form="counts"),
    "microdata-other-levels": spec(
        SAFE, COLUMNS.replace("level = 2", "level = 3").replace("level = 0", "level = 1"), form="counts"
    ),
    "microdata-of-parquet": spec(SAFE, COLUMNS, source="people.parquet", form="counts"),
    "microdata-of-files": spec(SAFE, COLUMNS, source="parts/*.csv", form="counts"),
    "microdata-messy": spec(
        SAFE,
        COLOUR.replace("level", "fold_case = true\nlevel"),
        AGE,
        TOWN,
        source="messy.csv",
        form="counts",
        data=MESSY,
    ),
    "microdata-unquoted": spec(SAFE, COLUMNS, form="counts", data='quoting = "none"\n'),
    "microdata-k-follows": spec(RATE, "[privacy]\nepsilon = 1.5\ndelta = 1e-3\n", COLUMNS, form="counts"),
    "microdata-rate-follows": spec(CROWD, "[privacy]\nepsilon = 1.5\ndelta = 1e-3\n", COLUMNS, form="counts"),
    "microdata-several-records": spec(
        RATE, "[suppression]\nk = 40\n", DELTA, COLOUR, dataset="visits", data="rows_per_person = 3\n"
    ),
    "map-drawn": spec(SAFE, "[selection]\nepsilon = 0.2\n", FREE, form="counts"),
    "map-drawn-of-candidates": spec(
        SAFE,
        '[selection]\nepsilon = 0.2\non = "fresh-sample"\nrate = 0.5\ndraw = "exponential"\n'
        "candidates = [{ colour = 0, age = 2, town = 2 }, { colour = 1, age = 2, town = 1 }]\n",
        FREE,
        form="counts",
    ),
    "map-walked": spec(
        SAFE, "[selection]\nepsilon = 0.2\nsteps = 5\n", FREE + "weight = 2\nmin_level = 1\n", form="counts"
    ),
    "histogram-suppressed": spec(RATE, DELTA, '[histogram]\nkind = "suppressed"\nk = 8\n', COLUMNS),
    "histogram-noisy": spec(
        RATE, DELTA, '[histogram]\nkind = "noisy"\nk = 8\nepsilon = 0.5\n', COLUMNS, file="parquet"
    ),
    "histogram-outlier-private": spec(
        DELTA, '[histogram]\nkind = "outlier-private"\nepsilon = 0.5\nhorizon = 60\nmargin = 40\n', COLUMNS
    ),
    "histogram-unequal-rates": spec(
        '[sampling]\ncolumn = "inclusion"\nrates = [0.1, 0.2]\n',
        DELTA,
        '[histogram]\nkind = "suppressed"\nk = 8\n',
        TOWN,
    ),
    "histogram-of-survey": spec(
        '[sampling.design]\nlowest = 0.1\nhighest = 0.2\nexceptions = 2\ncolumn = "inclusion"\n',
        DELTA,
        '[histogram]\nkind = "suppressed"\nk = 40\n',
        TOWN,
        dataset="survey",
    ),
    "points-suppressed": spec(RATE, DELTA, '[points]\nkind = "suppressed"\nk = 8\ncells_per_side = 5\n', AXES),
    "points-noisy": spec(
        RATE, DELTA, '[points]\nkind = "noisy"\nk = 8\nepsilon = 0.5\ncells_per_side = 5\n', AXES, file="parquet"
    ),
    "answer-count": spec('[answer]\nkind = "count"\nepsilon = 0.5\nby = ["town", "colour"]\n', COLOUR, TOWN),
    "answer-sum": spec(RATE, '[answer]\nkind = "sum"\nepsilon = 0.5\ncolumn = "income"\nlower = 0\nupper = 9000\n'),
    "answer-mean": spec(
        '[answer]\nkind = "mean"\nepsilon = 1\ncolumn = "income"\nlower = -5\nupper = 9000\nleast_records = 100\n'
        'by = ["town"]\nrelation = "replacement"\nmissing = 7\nconfidence = 0.9\n',
        TOWN,
        dataset="employees",
        file="parquet",
    ),
    "reports-sketch": spec(
        '[reports]\nkind = "count-mean-sketch"\nepsilon = 4\nhashes = 16\nbits = 64\nseed = "vector"\n'
        'values = ["coffee", "tea", "water"]\n',
        dataset="phones",
        source="sketches.csv",
    ),
    "reports-of-values": spec(
        '[reports]\nkind = "k-randomization"\nflip_probability = 0.25\nvalues = ["coffee", "tea", "water"]\n',
        dataset="phones",
        source="vectors.csv",
    ),
    "reports-of-questions": spec(
        '[reports]\nkind = "k-randomization"\nflip_probability = 0.25\nquestions = ["smokes"]\nleast_people = 900\n',
        DELTA,
        dataset="commuters",
        source="questions.csv",
    ),
    "reports-of-bloom-filter": spec(
        '[reports]\nkind = "k-randomization"\nflip_probability = 0.125\nvalues = ["coffee", "tea"]\n'
        'bloom = { bits = 8, hashes = 2, seed = "vector" }\n',
        dataset="phones",
        source="bloom.csv",
        file="parquet",
    ),
}
IN_SERIES = {
    "series-first": spec(SAFE, COLUMNS),
    "series-second": spec(SAFE, COLUMNS, source="people.parquet", file="parquet"),
}
STAGES = (
    COLOUR.replace("level = 0", "levels = [0, 1, 1]"),
    AGE.replace("level = 2", "levels = [1, 2, 3]"),
    TOWN.replace("level = 1", "levels = [0, 1, 2]"),
)
KEPT = "[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-3\n"
# Made last, so that nothing of the others follows from them.
DELETIONS = {
    "deletion-rows": spec(KEPT, COLUMNS, dataset="kept", file="parquet"),
    "deletion-three-stages": spec(KEPT, CROWD, *STAGES, dataset="kept", form="counts"),
}
DELETIONS_IN_SERIES = {"deletion-of-series": spec(KEPT, COLUMNS, dataset="kept", form="counts")}
REFUSED = {
    "refused": spec(SAFE, COLUMNS, dataset="poor"),
    "broken": spec(SAFE, COLUMNS, source="damaged.parquet"),
}
DATASETS = {
    "people": "",
    "visits": "--rows-per-person 3",
    "survey": "--survey-rate 0.2",
    "employees": "--relation replacement",
    "phones": "--relation replacement",
    "commuters": "--relation replacement",
}
PLANS = (
    "--k 20 --sampling-rate 0.1 --delta 1e-6",
    "--k 20 --sampling-rate 0.1 --delta 1e-6 --releases 12",
    "--k 20 --sampling-rate 0.1 --epsilon 1",
    "--k 20 --epsilon 0.5 --delta 1e-6 --releases 3",
    "--sampling-rate 0.1 --epsilon 0.5 --delta 1e-6 --releases 3",
    "--k 20 --sampling-rate 0.1 --epsilon 1 --delta 1e-6 --releases max",
    "--k 20 --sampling-rate 0.1 --delta 1e-6 --selection-epsilon 0.1",
    "--k 20 --sampling-rate 0.1 --delta 1e-6 --selection-epsilon 0.1 --selection-rate 0.05 --releases 4",
    "--k 1000 --sampling-rate 0.5 --delta 1e-9",
    "--amplify-from 1 --sampling-rate 0.1 --epsilon 2.4 --delta 1e-5",
    "--k 2 --sampling-rate 0.5 --delta 0.3 --group-sizes sizes.csv",
)


class Coins:
    """Bytes that are no secret: SHA-256 of a label and a number, begun anew for each command."""

    def __init__(self) -> None:
        self.begin("")

    def begin(self, label: str) -> None:
        self.label, self.given = label, 0

    def bytes(self, size: int | None = None) -> bytes:
        wanted, parts = 32 if size is None else size, []
        for _ in range(-(-wanted // 32)):
            parts.append(hashlib.sha256(f"{self.label}/{self.given}".encode()).digest())
            self.given += 1
        return b"".join(parts)[:wanted]

    def digits(self, size: int | None = None) -> str:
        return self.bytes(size).hex()


COINS = Coins()


class Today(datetime.datetime):
    """The clock of this process."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return datetime.datetime(2026, 3, 4, 12, tzinfo=tz)


def fix_noise() -> None:
    """Let OpenDP's measurements answer with what follows from the numbers that they are given and their privacy."""
    import opendp.core

    invoke = opendp.core.measurement_invoke

    def fixed(measurement: Any, values: list[Any]) -> Any:
        answer = invoke(measurement, values)
        distance = measurement.map(1.0 if isinstance(answer, list) and isinstance(answer[0], float) else 1)
        coins = hashlib.sha256(repr((values, distance)).encode()).digest()
        if isinstance(answer, list):
            return [value + coins[place % 32] % 9 - 4 for place, value in enumerate(values)]
        return coins[0] % len(values)  # a noisy maximum

    opendp.core.measurement_invoke = fixed


def fix_surroundings() -> Callable[[list[str]], int]:
    """Fix all that would be new each time; gives the command line."""
    secrets.token_bytes, secrets.token_hex = COINS.bytes, COINS.digits
    fix_noise()
    command = next(iter(importlib.metadata.entry_points(group="console_scripts", name="crowdblend"))).load()
    for name in PACKAGE_NAMES:
        package = importlib.import_module(f"crowdblend.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(("__main__", "migrations.env")):
                importlib.import_module(module.name)
    clocks = 0
    for name, module in list(sys.modules.items()):
        if name.startswith("crowdblend.") and getattr(module, "datetime", None) is datetime.datetime:
            module.datetime, clocks = Today, clocks + 1  # type: ignore[attr-defined]
        if name.startswith("crowdblend.") and callable(getattr(module, "version", None)):
            module.version = lambda _: "0.1.0"  # type: ignore[attr-defined]
    if not clocks:
        raise RuntimeError("no module reads the clock where this program looks for it")
    # The digest of the software's sources: as if there were none. The working folder's name: as Linux calls it.
    rglob, resolve = pathlib.Path.rglob, pathlib.Path.resolve

    def without_sources(self: pathlib.Path, pattern: str) -> Iterator[pathlib.Path]:
        return iter(()) if pattern == "*.py" else rglob(self, pattern)

    def resolved(self: pathlib.Path, strict: bool = False) -> pathlib.Path:
        real = resolve(self, strict)
        return pathlib.Path("/proc/self/cwd") / real.relative_to(FOLDER) if real.is_relative_to(FOLDER) else real

    pathlib.Path.rglob, pathlib.Path.resolve = without_sources, resolved  # type: ignore[method-assign, assignment]
    return command  # type: ignore[no-any-return]


def people(separator: str = ",", rows: range = range(3000)) -> Iterator[str]:
    """Records with every kind of value that a column meets: of the domain, outside of it, missing, oddly written."""
    colours = ("blue", "green", "red", "blue", "red", "", "violet", '"green"')
    towns = ("Lyon", "Marseille", "Lille", "Paris", "Paris", "Rome", "")
    ages = ("", "007", "-3", "250", "12.5", "forty")
    yield separator.join(("colour", "age", "town", "income", "inclusion", "height", "weight")) + "\n"
    for row in rows:
        spread = int.from_bytes(hashlib.sha256(str(row).encode()).digest()[:6], "big")
        age = ages[spread % 6] if spread % 41 == 0 else str(spread % 97)
        income = "" if spread % 13 == 0 else str(spread % 12011 - 40)
        figures = (f"{1.1 + spread % 120 / 100:.2f}", "" if spread % 17 == 0 else f"{25 + spread % 111}.5")
        rate = ("0.1", "0.2", "0.15", "0.3", "?")[spread % 5]
        yield separator.join((colours[spread % 8], age, towns[spread // 8 % 7], income, rate, *figures)) + "\n"


def lay_out() -> None:
    """Write the records, the hierarchy and the specifications into the working folder."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    def write(name: str, text: str, encoding: str = "utf-8") -> None:
        path = pathlib.Path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode(encoding))

    write("towns.csv", TOWNS)
    write("sizes.csv", "1\n2,3\n7\n")
    write("people.csv", "".join(people()))
    for part in range(3):
        write(f"parts/{part}.csv", "".join(people(rows=range(1000 * part, 1000 * part + 1000 - part))))
    messy = "".join(people(separator=" ; ")).replace(".5\n", ",0\n").replace("red", "RED").replace("violet", "NA")
    messy = messy.replace(" ; Rome", ';"Ly""on\n€é"').replace(" ; ", ";", 6).replace("\n", "\r\n")
    write("messy.csv", messy, "cp1252")
    table = pyarrow.csv.read_csv("people.csv", convert_options=pa.csv.ConvertOptions(strings_can_be_null=True))
    whole = [text if text and text.lstrip("-").isdigit() else None for text in table["age"].to_pylist()]
    table = table.set_column(1, "age", pa.array([None if text is None else int(text) for text in whole]))
    pq.write_table(table, "people.parquet", row_group_size=700)
    bits = [hashlib.sha256(f"report {number}".encode()).digest() for number in range(1200)]
    write("sketches.csv", "hash,bits\n" + "".join(f"{line[0] % 16},{line[:8].hex()}\n" for line in bits))
    for name, size in (("vectors", 3), ("questions", 1), ("bloom", 8)):
        write(f"{name}.csv", "vector\n" + "".join(f"{line[1] % 2**size}\n" for line in bits))
    damaged = bytearray(pathlib.Path("people.parquet").read_bytes())
    damaged[4 : len(damaged) // 2] = bytes(len(damaged) // 2 - 4)
    pathlib.Path("damaged.parquet").write_bytes(damaged)
    for name, text in (CASES | IN_SERIES | REFUSED | DELETIONS | DELETIONS_IN_SERIES).items():
        write(f"{name}.toml", text)


def sha256(path: pathlib.Path) -> str:
    """Of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(share: int | None = None) -> dict[str, Any]:
    """Do everything in the working folder, or the first few plans and releases; what came of it."""
    for name in [name for name in os.environ if name.startswith(("PREFECT_API", "PREFECT_HOME", "CROWDBLEND_"))]:
        del os.environ[name]
    os.environ |= {"CROWDBLEND_HOME": "home", "CROWDBLEND_LEDGER": "sqlite:///ledger.db", "LOGNAME": "steward"}
    os.environ |= {"PREFECT_LOGGING_LEVEL": "CRITICAL", "PREFECT_LOGGING_TO_API_ENABLED": "false", "DO_NOT_TRACK": "1"}
    command = fix_surroundings()
    lay_out()

    def run(*words: str, leaves: int = 0) -> str:
        COINS.begin(" ".join(words))
        said, told = io.StringIO(), io.StringIO()
        code: object = 0
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
            try:
                command(list(words))
            except SystemExit as leave:
                code = leave.code or 0
        if code != leaves:
            raise RuntimeError(f"{words} left with {code}: {told.getvalue()}")
        return said.getvalue()

    def release(name: str, *words: str) -> dict[str, Any]:
        out = pathlib.Path("out", name)
        result = json.loads(run("run", f"{name}.toml", "--output", str(out), "--release-id", name, "--json", *words))
        places = {place: result.pop(place) for place in ("output", "certificate", "timings")}
        if places["output"] != str(FOLDER / out) or not run("verify", str(out)):
            raise RuntimeError(f"{name} is not where it should be: {places['output']}")
        return {"result": result, "files": {path.name: sha256(path) for path in sorted(out.iterdir())}}

    for name, words in DATASETS.items():
        run("dataset", "add", name, "--epsilon", "1000", "--delta", "0.5", *words.split())
    run("dataset", "looked", "visits", "--what", "how many records a person has")
    plans = {words: json.loads(run("plan", *words.split(), "--json")) for words in PLANS[:share]}
    releases = {name: release(name) for name in [*CASES][:share]}
    if share is not None:
        exported = [json.loads(line) for line in run("ledger", "export").splitlines()]
        return {"plans": plans, "releases": releases, "ledger": exported}
    run("dataset", "raise", "people", "--epsilon", "2000", "--delta", "0.6", "--reason", "another year")
    run("series", "add", "monthly", "series-first.toml", "--releases", "3")
    releases |= {name: release(name, "--series", "monthly") for name in IN_SERIES}
    run("dataset", "add", "poor", "--epsilon", "0.01", "--delta", "1e-6")
    run("run", "refused.toml", "--output", "out/refused", "--release-id", "refused", leaves=3)
    run("run", "microdata-rows.toml", "--output", "out/other", "--release-id", "answer-sum", leaves=3)
    run("run", "broken.toml", "--output", "out/broken", "--release-id", "broken", leaves=1)
    run("abandon", "broken", "--reason", "a damaged file")
    run("token", "add", "auditor", "--expires", "90d")
    [anchor] = pathlib.Path("home", "anchors").glob("*.jsonl")
    before = {"datasets": json.loads(run("ledger", "show", "--json"))["datasets"], "anchor": sha256(anchor)}
    run("dataset", "add", "kept", "--epsilon", "1000", "--delta", "0.5")
    releases |= {name: release(name) for name in DELETIONS}
    run("series", "add", "yearly", "deletion-of-series.toml", "--releases", "4")
    releases |= {name: release(name, "--series", "yearly") for name in DELETIONS_IN_SERIES}
    verified = json.loads(run("ledger", "verify", "--json"))
    if not verified["ok"]:
        raise RuntimeError(f"the ledger does not hold: {verified['findings']}")
    return {
        "plans": plans,
        "releases": releases,
        **before,
        "ledger": [json.loads(line) for line in run("ledger", "export").splitlines()],
        "kept": [one for one in json.loads(run("ledger", "show", "--json"))["datasets"] if one["dataset"] == "kept"],
    }


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:])), indent=1, ensure_ascii=False))
