"""Run by the crash tests as a program: does each job in a forked child, which may kill itself between two steps.

It takes one job a line on standard input and answers with one line. A step is whatever the child is about to do to
the desk's folder or to the ledger (`support/steps.py`).
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio._backends._asyncio
import dask.dataframe
import graphviz
import opendp.prelude
import prefect.flow_engine
import prefect.task_engine
import psycopg
import scipy.special
import sqlalchemy
import sqlalchemy.dialects.sqlite
from crowdblend.accounting.certificate import verify
from crowdblend.accounting.kernel.keys.private_store import ReleaseFolder
from crowdblend.accounting.kernel.ledger.entries import sorted_fields
from crowdblend.accounting.kernel.ledger.ledger_state import Receipt
from crowdblend.accounting.kernel.ledger.rules import price_faults
from crowdblend.accounting.kernel.ledger.transactions import last_place
from crowdblend.accounting.kernel.ledger.writer import ReleaseWriter
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.accounting.kinds import deletion_prices, microdata_prices, noisy_histogram_prices
from crowdblend.accounting.ledger.charge_request import charged_price
from crowdblend.accounting.ledger.lookup import DatasetContext
from crowdblend.accounting.ledger.reader import LedgerReader
from crowdblend.accounting.theory.planning import planner
from crowdblend.deploy.prefect_environment import NO_HEARTBEATS, changed_settings
from crowdblend.deploy.run import run_release
from crowdblend.flows import release, software
from crowdblend.flows.paths import StatePaths
from crowdblend.flows.spec import read_spec
from crowdblend.flows.unfinished import abandon_release
from crowdblend.mechanisms.kernel.errors import Refusal
from crowdblend.mechanisms.kinds import deletion_protection, histogram
from crowdblend.tasks.kernel import counting as kernel_counting
from crowdblend.tasks.kernel import draws as draw_once
from crowdblend.tasks.kernel.gate import Gate
from crowdblend.tasks.stages import count as select

sys.path.append(str(Path(__file__).parents[1]))  # this is run as a program, and what tests share lies there
from support.steps import Steps

IMPORTED_BEFORE_THE_FORK = (
    *(anyio, dask.dataframe, graphviz, opendp.prelude, prefect.flow_engine, psycopg, scipy.special, sqlalchemy),
    *(deletion_prices, noisy_histogram_prices, microdata_prices, planner, verify),
)


def charge_last() -> None:
    """A broken release: charged after its output is in view."""
    charge, reading, published = ReleaseWriter.charge, ReleaseWriter.mark_reading, ReleaseWriter.mark_published
    owed: list = []

    def owe(self: ReleaseWriter, entry: Any, **terms: Any) -> Receipt:
        owed.append((entry, terms))
        with self._store.reading() as connection:
            position = last_place(connection).position + 1
        known = {"release_id": entry.release_id, "dataset": entry.dataset, "sample_id": entry.sample_id}
        return Receipt(ledger_id=self.ledger_id, position=position, hash="0" * 64, **known)

    def pay(self: ReleaseWriter, receipt: Receipt, hashes: Any) -> None:
        entry, terms = owed.pop()
        receipt = charge(self, entry, **terms)
        reading(self, receipt)
        published(self, receipt, hashes)

    ReleaseWriter.charge, ReleaseWriter.charged = owe, lambda *_: owed[-1][0]
    ReleaseWriter.mark_reading, ReleaseWriter.mark_published = lambda *_: None, pay
    LedgerReader.dataset_context = lambda *_: DatasetContext(rows_per_person=1, look_days=())


def redraw() -> None:
    """A broken release: resumed with another key, which the count takes for the right one."""
    reserve = release.reserve

    def redrawing(**given: Any) -> Any:
        answer = reserve(**given)
        if given["state"] is not None:
            folder = given["gate"]._folder
            folder.destroy_key()
            folder.key.create(given["gate"]._randomness)
            kernel_counting.sample_commitment = lambda key: given["state"].charge.sample_id
        return answer

    release.reserve = redrawing


def keep_key() -> None:
    """A broken release: its key outlives it."""
    ReleaseFolder.destroy_key = lambda self: None


def store_late() -> None:
    """A broken release: its draw is stored after it was used."""
    store, load, publish, held = draw_once.store_draw, draw_once.load_draw, release.publish, []

    def hold(draw: Any, numbers: Any, **given: Any) -> None:
        held.append((draw, numbers, given))

    def known(draw: Any, **given: Any) -> Any:
        return held[-1][1] if held else load(draw, **given)

    def late(*, gate: Gate) -> None:
        for draw, numbers, given in held:
            store(draw, numbers, **given)
        publish(gate=gate)

    draw_once.store_draw, draw_once.load_draw, release.publish = hold, known, late


BROKEN = {function.__name__: function for function in (charge_last, redraw, keep_key, store_late)}


def work(job: dict, steps: Steps) -> Any:
    state_paths = StatePaths(ledger_url=job["ledger"], home=Path(job["desk"], "home"))
    if job["action"] == "abandon":
        return abandon_release(job["release_id"], reason="a test", state_paths=state_paths)
    key = bytes.fromhex(job["key"])
    keys = iter((key, hashlib.sha256(key).digest()))
    result = run_release(
        Path(job["desk"], "spec.toml"),
        state_paths=state_paths,
        output=None,
        scheduler=None,
        release_id=job["release_id"],
        series=job["series"],
        randomness=lambda size: next(keys)[:size],
    )
    return {name: value for name, value in result.items() if name != "timings"}


def kill(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def child(job: dict, answers: int) -> None:
    """Do the job; the pipe's end is the end of this process, however it comes."""
    write = os.write

    def tell(kind: str, what: Any) -> None:
        write(answers, json.dumps([kind, what]).encode() + b"\n")

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    noon = datetime.fromisoformat(f"{job['day']}T12:00:00+00:00")
    release.datetime = type("Today", (), {"now": staticmethod(noon.astimezone)})
    draw_map = select.draw_map
    select.draw_map = lambda scores, **given: draw_map(scores, **given) * 0 + job["draw"]  # the coins, told beforehand
    noisy_counts = histogram.noisy_counts
    histogram.noisy_counts = lambda counts, event: (
        noisy_counts(counts, event) * 0 + counts + (counts < event.k) * job["draw"]  # told beforehand too
    )
    draw_deletions = deletion_protection.draw_deletions
    deletion_protection.draw_deletions = lambda noise, groups, **_: draw_deletions(
        noise, groups, randomness=hashlib.shake_256(f"{job['draw']}".encode()).digest
    )
    if job["version"] is not None:
        release.version = lambda name: job["version"]
    if job["broken"] is not None:
        BROKEN[job["broken"]]()
    steps = Steps(Path(job["desk"]), at=job["kill_before"], act=kill, tell=lambda step: tell("step", step))
    steps.watch()
    try:
        result = work(job, steps)
        steps.step("end", "")
        tell("result", result)
    except Refusal as refusal:
        tell("refused", [type(refusal).__name__, refusal.message])


def remember_price(spec: Path) -> None:
    """Compute what a specification's release costs where the forks inherit it, as far as a process remembers prices."""
    with suppress(Refusal):
        request = read_spec(spec, output=None)
        price_faults(
            mechanism=sorted_fields(mechanism_record(request.mechanism)),
            price=charged_price(request.price),
            epsilon_paper=None if request.paper_price is None else request.paper_price.epsilon,
            rows_per_person=1,
        )


def done(job: dict) -> dict:
    """Fork for one job and collect what its child told."""
    remember_price(Path(job["desk"], "spec.toml"))
    reading, writing = os.pipe()
    number = os.fork()
    if number == 0:
        try:
            os.close(reading)
            child(job, writing)
            os._exit(0)
        finally:
            sys.excepthook(*sys.exc_info())
            os._exit(70)
    os.close(writing)
    with os.fdopen(reading) as told:
        answers = [json.loads(line) for line in told]
    code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    steps = [what for kind, what in answers if kind == "step"]
    return {"code": code, "steps": steps, "result": None, "refused": None} | dict(answers[len(steps) :])


def main() -> None:
    changed_settings(flows=NO_HEARTBEATS).__enter__()
    software.sources_digest()  # which are read once in a process
    gc.collect()
    gc.freeze()  # what the forks share stays shared
    for line in sys.stdin:
        print(json.dumps(done(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
