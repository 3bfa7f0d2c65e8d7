"""Run by the tests as a program: forks a process for each attempt, lets all begin at once, reports outcomes.

It takes one job a line on standard input and gives the outcomes of its attempts as one line.

Steps are done in order: "charge", "reading", "publish", "abandon"; "die" ends the process by SIGKILL there,
and "die-in-charge" does so inside the charge's transaction, with its rows written and not yet committed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

from crowdblend.accounting.ledger import writer as writer_module
from crowdblend.accounting.ledger.anchoring import Anchoring
from crowdblend.accounting.ledger.append import append_entry
from crowdblend.accounting.ledger.canonical import sorted_fields
from crowdblend.accounting.ledger.charge import ReleaseCharge, charged_price
from crowdblend.accounting.ledger.repricing import price_faults
from crowdblend.accounting.ledger.writer import open_writer
from crowdblend.accounting.theory.price import mechanism_record, paper_price, price
from crowdblend.mechanisms.refusal import Refusal
from crowdblend.mechanisms.strongly_safe import StronglySafeRelease


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(outcomes_of(json.loads(line))), flush=True)


def outcomes_of(job: dict) -> list[str]:
    mechanism = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
    delta = Decimal(job["delta"])
    releases = job["releases"]
    costs, paper = (costs_of(mechanism, delta=delta, releases=releases) for costs_of in (price, paper_price))
    paper_epsilon = None if paper is None else paper.epsilon
    price_faults(
        mechanism=sorted_fields(mechanism_record(mechanism)),
        price=charged_price(costs),
        epsilon_paper=paper_epsilon,
        rows_per_person=1,
    )  # once, before the forks, which inherit what it keeps
    start, let_go = os.pipe()
    outcomes, tell = os.pipe()
    for number, attempt in enumerate(job["attempts"]):
        if os.fork():
            continue
        os.close(let_go)
        os.read(start, 1)  # returns for all at once, when the parent closes its end
        charge = ReleaseCharge(
            label="race",
            dataset=attempt.get("dataset", "census"),
            release_id=attempt["release_id"],
            sample_id=attempt["sample_id"],
            mechanism=mechanism,
            price=costs,
            epsilon_paper=paper_epsilon,
            spec_digest="a" * 64,
            map_digest="b" * 64,
            code_version="0.1.0",
            sampler_layout="chacha20-byte-first/1",
            day=date(2026, 3, 4),
            series=attempt.get("series"),
            series_digest="c" * 64,
        )
        try:
            work(job, attempt.get("steps", job["steps"]), charge)
            outcome = "done"
        except Refusal as refusal:
            outcome = f"{type(refusal).__name__}: {refusal}"
        os.write(tell, json.dumps([number, outcome]).encode() + b"\n")
        os._exit(0)
    os.close(let_go)
    os.close(tell)
    with os.fdopen(outcomes) as lines:
        told = dict(json.loads(line) for line in lines)
    for _ in job["attempts"]:
        os.wait()
    os.close(start)
    return [told.get(number, "killed") for number in range(len(job["attempts"]))]


def append_and_die(*args, **kwargs) -> None:
    append_entry(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)


def work(job: dict, steps: list[str], charge: ReleaseCharge) -> None:
    receipt = None
    anchoring = Anchoring(home=Path(job["home"]), file=None)
    for step in steps:
        with open_writer(job["url"], anchoring=anchoring) as writer:
            match step:
                case "charge":
                    receipt = writer.charge(charge)
                case "die-in-charge":
                    writer_module.append_entry = append_and_die
                    writer.charge(charge)
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
