"""Run by the tests as a program: forks processes, lets all begin at once with their attempts, reports outcomes.

It takes one job a line on standard input and gives the outcomes of its attempts as one line.

Steps are done in order: "charge", "reading", "publish", "abandon"; "die" ends the process by SIGKILL there,
and "die-in-charge" does so inside the charge's transaction, with its rows written and not yet committed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

from crowdblend.accounting.kernel.ledger.entries import Entry, sorted_fields
from crowdblend.accounting.kernel.ledger.rules import price_faults
from crowdblend.accounting.kernel.ledger.transactions import Write
from crowdblend.accounting.kernel.prices.mechanism_kind import Price
from crowdblend.accounting.kernel.prices.registry import kind_of, mechanism_record, paper_price, price
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.ledger.charge_request import charged_price
from crowdblend.accounting.ledger.ledger_writer import open_writer
from crowdblend.mechanisms.kernel.errors import Refusal
from crowdblend.mechanisms.kernel.mechanism import Mechanism
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.histogram import SuppressedHistogram
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

sys.path.append(str(Path(__file__).parents[1]))  # this is run as a program, and what tests share lies there
from support.charging import ReleaseCharge

MECHANISM = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
FLIPS = KRandomization(bits=2, flip_probability=Decimal("0.25"))
OTHERS = {
    "histogram": SuppressedHistogram(k=20, sampling_rate=Decimal("0.1")),
    "answer": CountAnswer(epsilon=Decimal("0.5"), relation="add/remove", groups=3, sampling_rate=Decimal("0.1")),
    "reports": FLIPS,
    "counts": OutcomeCounts(randomizer=FLIPS, least_people=10**5),
}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(outcomes_of(json.loads(line))), flush=True)


def outcomes_of(job: dict) -> list[str]:
    attempts = job["attempts"]
    processes = job["processes"] or len(attempts)
    costs = {releases: costs_of(Decimal(job["delta"]), releases) for releases in {1, job["releases"]}}
    start, let_go = os.pipe()
    outcomes, tell = os.pipe()
    for process in range(processes):
        if os.fork():
            continue
        os.close(let_go)
        os.read(start, 1)  # returns for all at once, when the parent closes its end
        for number in range(process, len(attempts), processes):
            attempt = attempts[number]
            charge = charge_of(attempt, costs[job["releases"] if attempt.get("series") else 1])
            if "kind" in attempt:
                charge = charge_of_kind(charge, OTHERS[attempt["kind"]], delta=Decimal(job["delta"]))
            try:
                work(job, attempt.get("steps", job["steps"]), charge)
                outcome = "done"
            except Refusal as refusal:
                outcome = f"{type(refusal).__name__}: {refusal}"
            os.write(tell, json.dumps([number, outcome]).encode() + b"\n")  # short enough to be written whole
        os._exit(0)
    os.close(let_go)
    os.close(tell)
    with os.fdopen(outcomes) as lines:
        told = dict(json.loads(line) for line in lines)
    for _ in range(processes):
        os.wait()
    os.close(start)
    return [told.get(number, "killed") for number in range(len(attempts))]


def costs_of(delta: Decimal, releases: int) -> tuple[Price, Decimal | None]:
    """The price of releases together, and the paper's ε; also remembered where the forks inherit it."""
    costs = price(MECHANISM, delta=delta, releases=releases)
    paper = paper_price(MECHANISM, delta=delta, releases=releases)
    paper_epsilon = None if paper is None else paper.epsilon
    record = sorted_fields(mechanism_record(MECHANISM))
    price_faults(mechanism=record, price=charged_price(costs), epsilon_paper=paper_epsilon, rows_per_person=1)
    return costs, paper_epsilon


def charge_of(attempt: dict, costs: tuple[Price, Decimal | None]) -> ReleaseCharge:
    return ReleaseCharge(
        label="race",
        dataset=attempt.get("dataset", "census"),
        release_id=attempt["release_id"],
        sample_id=attempt["sample_id"],
        mechanism=MECHANISM,
        price=costs[0],
        epsilon_paper=costs[1],
        spec_digest="a" * 64,
        map_digest="b" * 64,
        code_version="0.1.0",
        sampler_layout="chacha20-byte-first/1",
        day=date(2026, 3, 4),
        series=attempt.get("series"),
        series_digest="c" * 64,
    )


def charge_of_kind(charge: ReleaseCharge, mechanism: Mechanism, *, delta: Decimal) -> ReleaseCharge:
    """The same charge for another mechanism, at its own price."""
    delta = Decimal(0) if kind_of(mechanism).pure else delta
    paper = paper_price(mechanism, delta=delta)
    paper_epsilon = None if paper is None else paper.epsilon
    costs = price(mechanism, delta=delta)
    return dataclasses.replace(charge, mechanism=mechanism, price=costs, epsilon_paper=paper_epsilon)


append = Write.append


def append_and_die(ledger: Write, recorded: Entry) -> None:
    append(ledger, recorded)
    os.kill(os.getpid(), signal.SIGKILL)


def work(job: dict, steps: list[str], charge: ReleaseCharge) -> None:
    receipt = None
    anchoring = Anchoring(home=Path(job["home"]), file=None)
    for step in steps:
        with open_writer(job["url"], anchoring=anchoring) as writer:
            match step:
                case "charge":
                    receipt = charge.paid(writer)
                case "die-in-charge":
                    Write.append = append_and_die
                    charge.paid(writer)
                case "reading":
                    writer.mark_reading(receipt)
                case "publish":
                    writer.mark_published(receipt, (("data.csv", "c" * 64),))
                case "abandon":
                    writer.abandon(release_id=charge.release_id, reason="a race", by="x", day=charge.day)
                case "die":
                    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
