"""Run as a program: writes the ledgers of schema revision 0003 beside itself, as SQLite files and PostgreSQL dumps.

    python tests/vectors/ledgers_0003/write.py

It was run by commit 7fc02c0c of this project, the program whose ledgers these are. It is kept for the record: a program
with another schema revision can't run it. Keys, ids and days are fixed, so that the entries, and so all hashes and
signatures, are the same in both databases and each time.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

from crowdblend.accounting.ledger.chain.anchor import Anchoring, line_of_head
from crowdblend.accounting.ledger.chain.hashing import GENESIS, Head, link_hash
from crowdblend.accounting.ledger.chain.signed_state import sign_state, vouched
from crowdblend.accounting.ledger.charge import RECORDS, Receipt, ReleaseCharge, SeriesRegistration
from crowdblend.accounting.ledger.database.creation import begin_anchor, create_ledger
from crowdblend.accounting.ledger.database.schema import DERIVED_TABLES, SCHEMA_REVISION, entry
from crowdblend.accounting.ledger.database.store import present_head
from crowdblend.accounting.ledger.entries.codec import entry_of_bytes
from crowdblend.accounting.ledger.entries.kinds import DatasetUnit
from crowdblend.accounting.ledger.filter_budget import propose_accounting
from crowdblend.accounting.ledger.private_store.signing import SigningKey
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.accounting.ledger.rules.audit import Replay, build_state
from crowdblend.accounting.ledger.writer import LedgerWriter, open_writer
from crowdblend.accounting.theory.kinds.registry import paper_price, price, recorded_price
from crowdblend.mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from crowdblend.mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from crowdblend.mechanisms.contributions import LAYOUTS
from crowdblend.mechanisms.deletion import DeletionRelease, GeometricDeletion
from crowdblend.mechanisms.errors import Refusal
from crowdblend.mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from crowdblend.mechanisms.local_reports.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.local_reports.sketch import CountMeanSketch
from crowdblend.mechanisms.mechanism import ADD_REMOVE, REPLACEMENT, Mechanism
from crowdblend.mechanisms.microdata import EpsilonSafeRelease, StronglySafeRelease
from crowdblend.mechanisms.mixed_series import MixedSeries
from crowdblend.mechanisms.points import SyntheticPoints
from crowdblend.mechanisms.synthetic_table import SyntheticTable
from sqlalchemy import Connection, create_engine, delete, event, insert, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from support.earlier_ledgers import answers, load_ledger, new_database, put_keys  # noqa: E402
from support.guards import past_guards  # noqa: E402
from support.postgresql import OwnServer  # noqa: E402

DAY, DELTA, RATE, HALF = date(2026, 3, 4), Decimal("1e-6"), Decimal("0.1"), Decimal("0.5")
SEEDS = {"first": b"\x51" * 32, "second": b"\x52" * 32, "third": b"\x53" * 32, "stranger's": b"\x54" * 32}
SAFE = StronglySafeRelease(k=20, sampling_rate=RATE)
RARE = StronglySafeRelease(k=50, sampling_rate=Decimal("0.05"))
DRAWN = EpsilonSafeRelease(k=20, sampling_rate=RATE, selection_epsilon=RATE, selection_rate=None)
DRAWN_ON_ITS_OWN = replace(DRAWN, selection_rate=Decimal("0.05"))
NOISY = NoisyHistogram(k=20, epsilon=HALF, sampling_rate=RATE)
ANSWER = CountAnswer(epsilon=Decimal("0.05"), relation=ADD_REMOVE, groups=1, sampling_rate=None)
DEAR = replace(ANSWER, epsilon=Decimal(20))
ASKED = CountAnswer(epsilon=RATE, relation=REPLACEMENT, groups=3, sampling_rate=None)
SURVEY = BiasedSampleCounts(k=20, lowest_rate=RATE, highest_rate=RATE, largest_rate=RATE, exceptions=1)
SKETCH = CountMeanSketch(epsilon=Decimal(2), hashes=8, bits=64, seed=b"seed")
FLIPS = KRandomization(bits=2, flip_probability=Decimal("0.25"))
COUNTS = OutcomeCounts(randomizer=FLIPS, least_people=10**5)
YEAR = MixedSeries(parts="2 x k=20,rate=0.1; 1 x k=50,rate=0.05; 2 x epsilon=0.05")
KINDS: Mapping[str, Mechanism] = {
    "microdata": SAFE,
    "drawn-map": DRAWN,
    "two-samples": DRAWN_ON_ITS_OWN,
    "histogram": SuppressedHistogram(k=20, sampling_rate=RATE),
    "noisy": NOISY,
    "outliers": OutlierPrivateHistogram(epsilon=HALF, horizon=60, margin=40),
    "unequal-rates": UnequalRatesHistogram(k=20, sampling_rate=RATE, lowest_rate=Decimal("0.09")),
    "points": SyntheticPoints(dimensions=2, cells_per_side=4, counts=SAFE),
    "noisy-points": SyntheticPoints(dimensions=2, cells_per_side=4, counts=NOISY),
    "count": ANSWER,
    "sum": SumAnswer(epsilon=HALF, relation=ADD_REMOVE, groups=3, sampling_rate=RATE, lower=0, upper=9),
    "mean": MeanAnswer(
        epsilon=HALF, relation=ADD_REMOVE, groups=3, sampling_rate=RATE, lower=0, upper=9, least_records=5
    ),
    "deletion": DeletionRelease(stages=2, k=5, noise=GeometricDeletion(epsilon=Decimal("0.7"), width=30)),
    "synthetic": SyntheticTable(method="mst", rho=Decimal("0.01")),
}
PURE = (CountAnswer, SumAnswer, MeanAnswer, CountMeanSketch, KRandomization)
PERSON, HOUSEHOLD = DatasetUnit(name="person", column="who"), DatasetUnit(name="household", column="home")


def digest(words: str) -> str:
    """The SHA-256 of some words: an id, or a digest of a file that there never was."""
    return hashlib.sha256(words.encode()).hexdigest()


@dataclass(kw_only=True)
class Steward:
    """Who writes one ledger, with shorthands.

    Args:
        name: of the ledger.
        url: of its database.
        home: the private store.
        keys: how many of the ledger's keys have signed.
    """

    name: str
    url: str
    home: Path
    keys: int = 1

    @property
    def anchoring(self) -> Anchoring:
        return Anchoring(home=self.home, file=None)

    def writer(self) -> LedgerWriter:
        return open_writer(self.url, anchoring=self.anchoring)

    def create(self) -> None:
        put_keys(self.name, self.home, keys=1)
        with mock.patch("secrets.token_hex", return_value=digest(f"the ledger {self.name}")):
            create_ledger(self.url, anchoring=self.anchoring)

    def rotate(self) -> None:
        """Let the next key sign, as `key rotate` does."""
        self.keys += 1
        put_keys(self.name, self.home, keys=self.keys)

    def add(self, name: str, *, epsilon: str = "10", delta: str = "0.001", **changes: Any) -> None:
        values: dict[str, Any] = {
            "epsilon": Decimal(epsilon),
            "delta": Decimal(delta),
            "relation": ADD_REMOVE,
            "survey_rate": None,
            "rows_per_person": 1,
            "by": "steward",
            "day": DAY,
        }
        self.writer().add_dataset(name=name, **(values | changes))

    def add_filter(self, name: str, *, epsilon: str = "0.48", delta: str = "1e-6", **changes: Any) -> None:
        accounting = propose_accounting(epsilon=Decimal(epsilon), delta=Decimal(delta), expected=((SAFE, 12),))
        self.add(name, epsilon=epsilon, delta=delta, accounting=accounting, **changes)

    def look(self, dataset: str, what: str) -> None:
        self.writer().record_look(dataset=dataset, what=what, by="analyst", day=DAY)

    def charge(self, name: str, mechanism: Mechanism = SAFE, *, rows: int = 1, **changes: Any) -> Receipt:
        delta = Decimal(0) if isinstance(mechanism, PURE) else DELTA
        paper = paper_price(mechanism, delta=delta, rows_per_person=rows)
        unit = changes.get("unit", RECORDS)
        limited = f"{LAYOUTS[unit.name]} " if unit.name in LAYOUTS else ""
        values: dict[str, Any] = {
            "label": name,
            "dataset": "census",
            "sample_id": digest(f"sample of {name}"),
            "price": price(mechanism, delta=delta, rows_per_person=rows),
            "epsilon_paper": None if paper is None else paper.epsilon,
            "spec_digest": digest(f"specification of {name}"),
            "map_digest": digest("map"),
            "code_version": "0.1.0",
            "sampler_layout": f"{limited}chacha20-byte-first/1 csv-records/2",
            "day": DAY,
        }
        if isinstance(mechanism, EpsilonSafeRelease) and mechanism.selection_rate is not None:
            values["selection_sample_id"] = digest(f"sample that chooses the map of {name}")
        return self.writer().charge(ReleaseCharge(release_id=name, mechanism=mechanism, **(values | changes)))

    def refused(self, name: str, mechanism: Mechanism = SAFE, **changes: Any) -> None:
        """Ask for what the accountant refuses, and require that it does."""
        with suppress(Refusal):
            self.charge(name, mechanism, **changes)
            raise AssertionError(name)

    def read(self, receipt: Receipt) -> Receipt:
        self.writer().mark_reading(receipt)
        return receipt

    def publish(self, receipt: Receipt) -> None:
        files = [(name, digest(f"{name} of {receipt.release_id}")) for name in ("data.csv", "certificate.json")]
        self.writer().mark_published(self.read(receipt), tuple(files))

    def bring(self, receipt: Receipt, stage: str) -> None:
        """Let a release that was charged come to a stage."""
        if stage in ("reading", "burnt"):
            self.read(receipt)
        if stage in ("refunded", "burnt"):
            self.abandon(receipt)
        if stage == "published":
            self.publish(receipt)

    def abandon(self, receipt: Receipt) -> None:
        self.writer().abandon(release_id=receipt.release_id, reason="not needed", by="operator", day=DAY)

    def register(
        self, name: str, mechanism: Mechanism = SAFE, *, releases: int = 3, free: bool = False, **changes: Any
    ) -> None:
        values = self.of_series(name, mechanism, releases)
        registration = SeriesRegistration(
            series=name,
            mechanism=mechanism,
            spec_digest=values.pop("series_digest"),
            price=values["price"],
            epsilon_paper=values["epsilon_paper"],
            free_columns=free,
            **({"dataset": "census", "map_digest": digest("map"), "day": DAY} | changes),
        )
        self.writer().register_series(registration)

    def of_series(self, name: str, mechanism: Mechanism = SAFE, releases: int = 3) -> dict[str, Any]:
        """What a release of a series has of it."""
        paper = paper_price(mechanism, delta=DELTA, releases=releases)
        return {
            "series": name,
            "price": price(mechanism, delta=DELTA, releases=releases),
            "epsilon_paper": None if paper is None else paper.epsilon,
            "series_digest": digest(f"what releases of {name} have in common"),
        }

    def token(self, name: str, *, expires: date, day: date = DAY) -> None:
        drawn = hashlib.sha256(f"{name} {expires}".encode()).digest()
        self.writer().add_token(name=name, expires=expires, by="steward", day=day, randomness=lambda size: drawn[:size])


def first_entry(_: Steward) -> None:
    """Add nothing to the ledger's first entry."""


def additive(steward: Steward) -> None:
    """Additive budgets, releases of every kind and at every stage, refusals, looks, tokens and three keys."""
    steward.add("census", epsilon="12", delta="0.0001")
    steward.add("survey", survey_rate=RATE)
    steward.add("survey of counts", survey_rate=RATE)
    steward.add("phones", relation=REPLACEMENT)
    steward.add("phones counted", relation=REPLACEMENT)
    steward.add("Ünïcode “visits”", rows_per_person=5, unit=PERSON, epsilon="100", delta="0.01")
    steward.add("homes", unit=HOUSEHOLD)
    steward.add("records", unit=RECORDS)
    for place, (name, mechanism) in enumerate(KINDS.items()):
        receipt = steward.charge(name, mechanism)
        steward.bring(receipt, ("published", "reading", "refunded", "charged")[place % 4])
    steward.look("census", "how many groups a coarser map would keep")
    steward.abandon(steward.read(steward.charge("abandoned-after-reading")))
    steward.publish(steward.charge("published-after-a-look"))
    steward.rotate()
    for dataset, mechanism in (("survey", SAFE), ("survey of counts", SURVEY)):
        name = dataset.replace(" ", "-")
        steward.abandon(steward.charge(f"{name}-given-up", mechanism, dataset=dataset))
        steward.publish(steward.charge(name, mechanism, dataset=dataset))
        steward.refused(f"{name}-again", mechanism, dataset=dataset)
    for number, mechanism in enumerate((SKETCH, FLIPS, ASKED)):
        steward.publish(steward.charge(f"phones-{number}", mechanism, dataset="phones"))
    steward.refused("phones-counts", COUNTS, dataset="phones")
    steward.abandon(steward.charge("counts-unread", COUNTS, dataset="phones counted"))
    steward.publish(steward.charge("counts", COUNTS, dataset="phones counted"))
    steward.refused("beside-the-counts", FLIPS, dataset="phones counted")
    for number in range(2):
        steward.publish(steward.charge(f"visits-{number}", dataset="Ünïcode “visits”", rows=5, unit=PERSON))
    steward.publish(steward.charge("homes", dataset="homes", unit=HOUSEHOLD))
    steward.refused("homes-of-records", dataset="homes")
    steward.charge("records", dataset="records")
    steward.charge("by-an-earlier-rule", price=recorded_price(SAFE, rule="pld/1", delta=DELTA))
    steward.refused("microdata")
    steward.refused("its-sample-again", sample_id=digest("sample of microdata"))
    steward.refused("dear", DEAR)
    steward.refused("another-relation", ASKED)
    steward.refused("cheaper", price=replace(price(SAFE, delta=DELTA), epsilon=Decimal("0.1")))
    steward.writer().raise_budget(
        name="census", epsilon=Decimal(40), delta=Decimal("0.001"), reason="the board of 4 March", by="owner", day=DAY
    )
    steward.writer().record_refusal(
        release_id="microdata", dataset="census", cause="other-specification", reason="it was another one", day=DAY
    )
    steward.publish(steward.charge("dear", DEAR))
    steward.rotate()
    steward.token("the auditors", expires=date(2990, 1, 1))
    steward.token("last year's auditors", expires=date(2020, 6, 1), day=date(2020, 1, 1))
    steward.token("a guest", expires=date(2990, 1, 1))
    steward.writer().revoke_token(name="a guest", by="steward", day=DAY)
    steward.token("a guest", expires=date(2991, 1, 1))


def series(steward: Steward) -> None:
    """Series with fixed columns, with free columns and of different parts: places taken, given back and taken again."""
    steward.add("census")
    steward.add("homes", unit=HOUSEHOLD)
    steward.register("monthly")
    monthly = steward.of_series("monthly")
    first = steward.charge("march", **monthly)
    steward.publish(steward.charge("april", **monthly))
    steward.abandon(first)
    steward.abandon(steward.read(steward.charge("march-again", **monthly)))
    steward.charge("may", **monthly)
    steward.refused("june", **monthly)
    steward.register("free", free=True, releases=4)
    free = steward.of_series("free", releases=4)
    for number, mechanism in enumerate((SAFE, StronglySafeRelease(k=30, sampling_rate=RATE), RARE)):
        receipt = steward.charge(f"free-{number}", mechanism, map_digest=digest(f"map {number}"), **free)
        steward.bring(receipt, ("published", "refunded", "reading")[number])
    steward.refused("free-dear", StronglySafeRelease(k=19, sampling_rate=RATE), **free)
    steward.rotate()
    steward.register("year", YEAR, releases=5, free=True)
    year = steward.of_series("year", YEAR, 5)
    for number, (mechanism, part) in enumerate([(ANSWER, 3), (SAFE, 1), (RARE, 2), (SAFE, 1)]):
        receipt = steward.charge(f"year-{number}", mechanism, part=part, map_digest=digest(f"map {number}"), **year)
        steward.bring(receipt, ("published", "refunded", "reading", "charged")[number])
    steward.charge("year-again", RARE, part=1, **year)
    steward.refused("year-full", RARE, part=2, **year)
    steward.register("drawn", DRAWN, releases=2, dataset="homes", unit=HOUSEHOLD)
    drawn = steward.of_series("drawn", DRAWN, 2)
    steward.publish(steward.charge("drawn-1", DRAWN, dataset="homes", unit=HOUSEHOLD, **drawn))
    steward.register("untouched", RARE, releases=12)
    steward.add("small", epsilon="0.2")
    with suppress(Refusal):
        steward.register("too-dear", releases=12, dataset="small")
        raise AssertionError("too-dear")
    steward.refused("of-no-such-series", **(monthly | {"series": "weekly"}))


def filters(steward: Steward) -> None:
    """Filter budgets, with and without a unit: releases, a series, refusals and what was given back."""
    steward.add_filter("census")
    steward.add_filter("visits", unit=PERSON, epsilon="2")
    steward.add_filter("small", epsilon="0.4", unit=RECORDS)
    for number, mechanism in enumerate((SAFE, DRAWN, DRAWN_ON_ITS_OWN, RARE, ANSWER)):
        receipt = steward.charge(f"census-{number}", mechanism)
        steward.bring(receipt, ("published", "reading", "charged", "refunded", "published")[number])
    steward.abandon(steward.read(steward.charge("read-in-vain", RARE)))
    steward.register("quarterly", releases=3)
    quarterly = steward.of_series("quarterly")
    steward.abandon(steward.charge("quarter-1", **quarterly))
    for number in range(3):
        steward.publish(steward.charge(f"quarter-1-{number}", **quarterly))
    steward.refused("quarter-5", **quarterly)
    steward.rotate()
    steward.publish(steward.charge("visits-1", dataset="visits", unit=PERSON))
    steward.refused("visits-of-records", dataset="visits")
    steward.look("visits", "the longest list of visits")
    for number in range(30):
        try:
            steward.charge(f"small-{number}", dataset="small")
        except Refusal:
            break
    for name in ("year", "sampled-free"):
        with suppress(Refusal):
            steward.register(name, YEAR if name == "year" else SAFE, releases=5, free=True)
            raise AssertionError(name)


MANY_STAGES = ("refunded", "burnt", "reading", "charged", *["published"] * 5)


def many(steward: Steward) -> None:
    """Some three hundred entries, by three keys."""
    names = [f"population {number}" for number in range(4)]
    for name in names:
        steward.add(name, epsilon="40", delta="0.01")
    steward.add_filter("filtered", epsilon="4", delta="0.0001")
    steward.register("weekly", releases=40, dataset=names[0])
    weekly = steward.of_series("weekly", releases=40)
    cheap = [ANSWER, SAFE, RARE, NOISY, DRAWN_ON_ITS_OWN]
    for number in range(98):
        if number in (30, 60):
            steward.rotate()
        dataset = [*names, "filtered"][number % 5]
        if dataset == names[0]:
            receipt = steward.charge(f"week-{number}", dataset=dataset, **weekly)
        else:
            mechanism = SAFE if dataset == "filtered" else cheap[number * 7 // 5 % 5]
            receipt = steward.charge(f"release-{number}", mechanism, dataset=dataset)
        steward.bring(receipt, MANY_STAGES[number % len(MANY_STAGES)])
        if number % 4 == 0:
            steward.look(dataset, f"the totals of week {number}")
        if number % 11 == 5:
            steward.refused(f"again-{number}", dataset=dataset, sample_id=digest("sample of release-1"))
        if number % 20 == 0:
            steward.token(f"visitor {number}", expires=date(2990, 1, 1))
        if number % 40 == 20:
            steward.writer().revoke_token(name=f"visitor {number}", by="steward", day=DAY)


def few(steward: Steward) -> None:
    """A dozen entries, of which those ledgers are made that don't hold or whose anchor isn't whole."""
    steward.add("census", epsilon="2", delta="0.00001")
    steward.add("survey", survey_rate=RATE)
    steward.publish(steward.charge("one"))
    steward.publish(steward.charge("of-survey", dataset="survey"))
    steward.abandon(steward.charge("given-up"))
    steward.rotate()
    steward.read(steward.charge("two"))


def anchor_behind(steward: Steward) -> None:
    """The last entry was committed, and the machine failed while it was anchored."""
    few(steward)
    file = anchor_of(steward)
    *lines, last = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines) + last[:100])


def anchor_begun(steward: Steward) -> None:
    """The anchor was lost, and another one begun by a new key."""
    few(steward)
    anchor_of(steward).unlink()
    steward.rotate()
    begin_anchor(steward.url, anchoring=steward.anchoring)
    steward.look("census", "what was lost")


def anchor_of(steward: Steward) -> Path:
    """The anchor of a ledger, in its private store."""
    with open_reader(steward.url) as reader:
        return steward.anchoring.anchor_of(reader.ledger_id).path


Document = dict[str, Any]


def false_price(documents: list[Document]) -> list[Document]:
    """A release is charged less than its mechanism costs."""
    documents[3]["price"]["epsilon"] = "0.1"
    return documents


def sample_twice(documents: list[Document]) -> list[Document]:
    """Two releases read one sample."""
    documents[11]["sample_id"] = documents[3]["sample_id"]
    return documents


def over_budget(documents: list[Document]) -> list[Document]:
    """The data set's budget is smaller than what its releases cost."""
    documents[1]["epsilon"] = "0.3"
    return documents


def survey_twice(documents: list[Document]) -> list[Document]:
    """A survey is released a second time."""
    documents[11]["dataset"] = "survey"
    return documents


def refund_after_reading(documents: list[Document]) -> list[Document]:
    """A release that was read is given its cost back."""
    return [*documents, {**documents[10], "release_id": "two"}]


def published_unread(documents: list[Document]) -> list[Document]:
    """A release is published without an entry that it was read."""
    return [one for one in documents if (one["kind"], one.get("release_id")) != ("release-reading/1", "one")]


def unchanged(documents: list[Document]) -> list[Document]:
    """Every entry is as it was."""
    return documents


FORGED: Mapping[str, Callable[[list[Document]], list[Document]]] = {
    "false-price": false_price,
    "sample-twice": sample_twice,
    "over-budget": over_budget,
    "survey-twice": survey_twice,
    "refund-after-reading": refund_after_reading,
    "published-unread": published_unread,
}
"""Ledgers that a publisher writes past the rules and chains, signs and anchors as the program does."""


def forged(change: Callable[[list[Document]], list[Document]]) -> Callable[[Steward], None]:
    """What writes a ledger past the rules, with all that follows from its entries."""

    def write(steward: Steward) -> None:
        few(steward)
        file = anchor_of(steward)
        heads = raw(steward, lambda connection: rewrite(connection, change, steward.anchoring.keys.current()))
        file.write_bytes(b"".join(line_of_head(head, steward.anchoring.keys.current()) for head in heads))

    return write


def truncated(steward: Steward) -> None:
    """The last two entries are cut off, and the anchor still vouches for them."""
    few(steward)
    raw(steward, lambda connection: rewrite(connection, lambda all_: all_[:-2], steward.anchoring.keys.current()))


def strangers_key(steward: Steward) -> None:
    """The state is signed by a key that the private store doesn't know."""
    few(steward)
    raw(steward, lambda connection: rewrite(connection, unchanged, SigningKey(seed=SEEDS["stranger's"])))


def changed_entry(steward: Steward) -> None:
    """One digit of an entry was changed in its table, and nothing else."""
    few(steward)
    change = 'UPDATE entry SET body = replace(body, \'"epsilon":"2"\', \'"epsilon":"3"\') WHERE position = 1'
    raw(steward, lambda connection: connection.execute(text(change)))


def changed_row(steward: Steward) -> None:
    """An account was changed in its table, and no entry: less seems to be spent."""
    few(steward)
    change = "UPDATE account SET epsilon_spent = '0.05' WHERE dataset = 'census' AND sequence = 1"
    raw(steward, lambda connection: connection.execute(text(change)))


def raw(steward: Steward, work: Callable[[Connection], Any]) -> Any:
    """Work on a ledger's tables past their guards, which are there again afterwards."""
    engine = create_engine(steward.url, poolclass=NullPool)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", lambda driver, _: setattr(driver, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    try:
        with engine.begin() as connection, past_guards(connection):
            return work(connection)
    finally:
        engine.dispose()


def rewrite(connection: Connection, change: Callable[[list[Document]], list[Document]], key: SigningKey) -> list[Head]:
    """Write changed entries with every hash and row that follows, as far as the tables take them; gives all heads."""
    bodies = connection.execute(select(entry.c.body).order_by(entry.c.position)).scalars().all()
    for table in (*reversed(DERIVED_TABLES), entry):
        connection.execute(delete(table))
    replay, previous, heads = Replay(), GENESIS, []
    documents = change([json.loads(body) for body in bodies])
    for position, document in enumerate(documents):
        body = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        own = link_hash(previous=previous, position=position, body=body)
        link = {"position": position, "previous": previous, "hash": own, "kind": document["kind"]}
        connection.execute(insert(entry).values(**link, body=body.decode()))
        heads.append(Head(ledger_id=documents[0]["ledger_id"], position=position, hash=own))
        previous = own
        replay.apply(entry_of_bytes(body), position=position)
        for row in replay.rows:
            attempt = connection.begin_nested()
            try:
                connection.execute(insert(row.table).values(position=position, **row.values))
                attempt.commit()
            except DBAPIError:
                attempt.rollback()
    build_state(connection)
    sign_state(connection, present_head(connection), key, root=vouched(connection).root)
    return heads


ONE, TWO, THREE = ["first"], ["first", "second"], ["first", "second", "third"]
LEDGERS: Mapping[str, tuple[list[str], Callable[[Steward], None]]] = {
    "first-entry": (ONE, first_entry),
    "additive": (THREE, additive),
    "series": (TWO, series),
    "filters": (TWO, filters),
    "many": (THREE, many),
    "anchor-behind": (TWO, anchor_behind),
    "anchor-begun": (THREE, anchor_begun),
    **{name: (TWO, forged(change)) for name, change in FORGED.items()},
    "truncated": (TWO, truncated),
    "strangers-key": (TWO, strangers_key),
    "changed-entry": (TWO, changed_entry),
    "changed-row": (TWO, changed_row),
}
"""Ledger → its keys, each of which signs after the one before it, and what writes it."""


def public_of(seed: bytes) -> str:
    return SigningKey(seed=seed).public.raw.hex()


def pack(files: Mapping[str, bytes]) -> None:
    """Keep all ledgers in one archive, where what they have in common is stored once."""
    with tarfile.open(HERE / "ledgers.tar.xz", "w:xz", preset=9 | lzma.PRESET_EXTREME) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def sqlite_file(path: Path) -> bytes:
    """An SQLite ledger as one file without gaps."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if leftovers := list(path.parent.glob(f"{path.name}-*")):
        raise AssertionError(leftovers)
    return path.read_bytes()


def postgresql_dump(url: str) -> bytes:
    """A PostgreSQL ledger as SQL that any client can run, without comments and commands of psql's own."""
    address = url.replace("postgresql+psycopg", "postgresql")
    words = ["pg_dump", "--no-owner", "--no-privileges", "--rows-per-insert=500", address]
    dump = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    left_out = ("\\", "--", "SET transaction_timeout")
    kept = [line for line in dump.splitlines() if line and not line.startswith(left_out)]
    return "\n".join([*kept, ""]).encode()


def written(name: str, url: str, home: Path) -> list[str]:
    """Write a ledger; gives its entries as they are exported and the lines of its anchor."""
    steward = Steward(name=name, url=url, home=home)
    steward.create()
    LEDGERS[name][1](steward)
    anchor = anchor_file(home)
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        links = connection.execute(select(entry).order_by(entry.c.position)).all()
    return [*(json.dumps(list(link)) for link in links), anchor.read_bytes().decode()]


def anchor_file(home: Path) -> Path:
    """The one anchor of a private store."""
    [file] = (home / "anchors").glob("*.jsonl")
    return file


def main() -> None:
    """Write all ledgers, keys and answers, after a check that both databases have the same entries and answers."""
    if SCHEMA_REVISION != "0003":
        raise SystemExit(f"these ledgers are of schema revision 0003, and this program writes {SCHEMA_REVISION}")
    keys = {name: {"seed": seed.hex(), "public_key": public_of(seed)} for name, seed in SEEDS.items()}
    said = {
        "note": "Keys of tests, known to everybody: nothing that they sign says anything.",
        "keys": keys,
        "ledgers": {name: signers for name, (signers, _) in LEDGERS.items()},
    }
    (HERE / "keys.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    folder = Path(tempfile.mkdtemp(prefix="crowdblend-pg-", dir="/tmp"))
    server = OwnServer(folder=folder)
    server.start()
    try:
        forms: dict[str, bytes] = {}
        for name in LEDGERS:
            forms |= both_forms(name, server.url)
        pack(forms)
        expected = {name: same_answers(name, server.url) for name in LEDGERS}
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
    lines = []
    for name, answered in expected.items():
        each = [f"{json.dumps(asked)}: {json.dumps(said, ensure_ascii=False)}" for asked, said in answered.items()]
        lines.append(f"{json.dumps(name)}: {{\n " + ",\n ".join(each) + "\n}")
    (HERE / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def both_forms(name: str, server: str) -> dict[str, bytes]:
    """Write a ledger in both databases, which must get the same entries; gives its files by their names."""
    with tempfile.TemporaryDirectory() as place:
        file, dumped = Path(place) / "ledger.db", new_database(server, digest(name)[:16])
        same = written(name, f"sqlite:///{file}", Path(place) / "one")
        if written(name, dumped, Path(place) / "two") != same:
            raise AssertionError(f"{name}: the databases differ")
        return {
            f"{name}/anchor.jsonl": anchor_file(Path(place) / "one").read_bytes(),
            f"{name}/ledger.sql": postgresql_dump(dumped),
            f"{name}/ledger.db": sqlite_file(file),
        }


def same_answers(name: str, server: str) -> dict[str, Any]:
    """What the program answers about a ledger, which must be the same of both forms."""
    found = []
    for server_or_none in (None, server):
        with tempfile.TemporaryDirectory() as place:
            placed = load_ledger(name, place=Path(place), server=server_or_none)
            found.append(answers(placed.url, placed.home))
    for asked, said in found[0].items():
        if found[1].get(asked) != said:
            raise AssertionError(f"{name}, {asked}: {said} and {found[1].get(asked)}")
    return found[0]


if __name__ == "__main__":
    main()
