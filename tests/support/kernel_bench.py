"""A release through the real gate, ledger and private store, whose outside a test replaces piece by piece."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from crowdblend.accounting.kernel.keys.private_store import KeyRef, PrivateStore
from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.ledger.ledger_writer import LedgerWriter, dataset_entry, open_writer
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, count_keys, merge_counts
from crowdblend.mechanisms.kernel.mechanism import Mechanism
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, kept_positions
from crowdblend.mechanisms.kinds.histogram import HistogramProtection, SuppressedHistogram
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, StronglySafeRelease, Suppression, suppress
from crowdblend.tasks.kernel.counting import BlockCounts, Counting, counted_blocks
from crowdblend.tasks.kernel.gate import Gate, JobOf, Plan
from crowdblend.tasks.kernel.publication import Rendered
from support.charging import ReleaseCharge

__all__ = ["CHOSEN", "HISTOGRAM", "LAYOUT", "MICRODATA", "RATE", "Bench", "Block", "Outside", "Records"]

DAY = date(2026, 3, 4)
DELTA = Decimal("1e-6")
RATE = Decimal("0.1")
MICRODATA = StronglySafeRelease(k=20, sampling_rate=RATE)
HISTOGRAM = SuppressedHistogram(k=20, sampling_rate=RATE)
CHOSEN = EpsilonSafeRelease(k=20, sampling_rate=RATE, selection_epsilon=Decimal("0.1"), selection_rate=None)
LAYOUT = KeyLayout(sizes=(3, 4))


@dataclass(frozen=True)
class Block:
    """A block as a source lists it."""

    identity: ChunkIdentity
    records: int | None


BLOCKS = tuple(Block(ChunkIdentity(file=file, block=block), 400) for file in (0, 1) for block in (0, 1))


def codes_of(identity: ChunkIdentity) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the codes of a block's records, most of them of few groups; shape (2, records)."""
    rng = np.random.default_rng(1000 * identity.file + identity.block)
    return np.array([rng.choice(3, 400, p=(0.6, 0.3, 0.1)), rng.choice(4, 400, p=(0.7, 0.1, 0.1, 0.1))])


@dataclass(frozen=True)
class Records:
    """An honest source."""

    def keys(self, blocks: Sequence[Any], *, layout: KeyLayout, coins: Any, persons: Any) -> Iterator[Any]:
        """Give what the coins keep."""
        for block in blocks:
            yield block.identity, self.kept(block.identity, coins(block.identity), layout)

    def kept(self, identity: ChunkIdentity, coins: Any, layout: KeyLayout) -> Any:
        """Return the keys of a block's records that its coins keep."""
        codes = codes_of(identity)
        keys = np.zeros((1, codes.shape[1]), dtype=np.int64)
        for place, column in zip(layout.placements, codes, strict=True):
            keys[place.word] += place.scaled(column)
        kept = coins.kept(codes.shape[1])
        return keys if kept is None else keys[:, kept]


def added_up(parts: Sequence[BlockCounts]) -> BlockCounts:
    """Return the sum of partial counts, as an honest executor does."""
    return BlockCounts(merge_counts([one.counts for one in parts]), np.concatenate([one.blocks for one in parts]))


def render(folder: Path, result: Any) -> Rendered:
    """Write a protected result as it is."""
    keys, counts = (result.keys[0], result.counts) if isinstance(result, GroupCounts) else (None, np.array(result))
    said = {"keys": None if keys is None else keys.tolist(), "counts": counts.tolist()}
    (folder / "data.json").write_text(json.dumps(said))
    return Rendered(groups=int(counts.size), records=int(counts.sum()), details={})


@cache
def _prices(mechanism: Mechanism, rows_per_person: int) -> tuple[Any, Decimal | None]:
    paper = paper_price(mechanism, delta=DELTA, rows_per_person=rows_per_person)
    return price(mechanism, delta=DELTA, rows_per_person=rows_per_person), None if paper is None else paper.epsilon


@dataclass(kw_only=True)
class Outside:
    """All that a gate is handed; each part can be replaced by one that lies."""

    plan: Plan
    counting: Counting
    protection: Any
    blocks: Sequence[Any] = BLOCKS
    part: Callable[..., BlockCounts] = counted_blocks
    split: Callable[[Sequence[Any]], Sequence[Sequence[Any]]] = lambda blocks: [[block] for block in blocks]
    add: Callable[[Sequence[BlockCounts]], BlockCounts] = added_up
    job: Callable[[JobOf, KeyRef | None], Any] = lambda job_of, _: job_of(None)
    unchanged: Callable[[], None] = lambda: None
    render: Callable[[Path, Any], Any] = render
    place_of: Callable[[str], Any] = Path
    randomness: Callable[[int], bytes] = os.urandom
    ledger: Any = None
    drive: Callable[[Gate, Outside], None] = field(default=lambda gate, outside: outside.through(gate))

    def counted(self, job_of: JobOf, key: KeyRef | None) -> BlockCounts:
        """Run a job."""
        job = self.job(job_of, key)
        return self.add([self.part(tuple(group), job=job) for group in self.split(self.blocks)])

    def exact(self, gate: Gate, **changes: Any) -> Any:
        """Count through a gate."""
        handed = {"blocks": BLOCKS, "counted": self.counted, "unchanged": self.unchanged} | changes
        return gate.exact(self.counting, **handed)

    def protect(self, gate: Gate) -> None:
        """Count and protect."""
        gate.protect(self.protection, exact=lambda: self.exact(gate))

    def through(self, gate: Gate) -> None:
        """Take every step in its order."""
        gate.charge()
        gate.read()
        self.finish(gate)

    def finish(self, gate: Gate) -> None:
        """Take every step after the reading began."""
        self.protect(gate)
        gate.stage(self.render)
        gate.publish()
        gate.close()


class Bench:
    """A fresh ledger with a data set, and a private store.

    Args:
        root: an empty folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.anchoring = Anchoring(home=root / "home", file=None)
        create_where_none(SigningKeys(home=self.anchoring.home), os.urandom)
        self.url = f"sqlite:///{root / 'ledger.db'}"
        create_ledger(self.url, anchoring=self.anchoring)
        self.writer: LedgerWriter = open_writer(self.url, anchoring=self.anchoring)
        self.add_dataset("census")
        self.store = PrivateStore(self.anchoring.home)
        self.secrets: list[bytes] = []

    def add_dataset(self, name: str, *, relation: str = "add/remove", rows_per_person: int = 1) -> None:
        """Add a data set with a large budget."""
        self.writer.add_dataset(
            dataset_entry(
                name=name,
                epsilon=Decimal(1000),
                delta=Decimal("0.001"),
                relation=relation,
                survey_rate=None,
                rows_per_person=rows_per_person,
                by="steward",
                day=DAY,
            )
        )

    def output(self, name: str = "one") -> Path:
        """Return where a release is published."""
        return self.root / f"out-{name}"

    def plan(
        self,
        name: str = "one",
        *,
        mechanism: Any = MICRODATA,
        facts: Mapping[str, Any] = {},
        rows_per_person: int = 1,
        **more: Any,
    ) -> Plan:
        """Return the honest plan of a release."""
        costs, paper = _prices(mechanism, rows_per_person)
        charge = ReleaseCharge(
            release_id=name,
            label="census",
            sample_id="0" * 64,
            mechanism=mechanism,
            price=costs,
            epsilon_paper=paper,
            spec_digest="a" * 64,
            map_digest="b" * 64,
            code_version="0.1.0",
            day=DAY,
            **({"dataset": "census", "sampler_layout": "chacha20-byte-first/1"} | more),
        )
        return Plan(
            entry=charge.entry,
            rows_per_person=rows_per_person,
            unit=charge.unit,
            part=None,
            digest="c" * 64,
            inputs=b"files",
            output=self.output(name),
            software="d" * 64,
            facts=facts,
        )

    def outside(self, name: str = "one", *, mechanism: Any = MICRODATA, source: Any = None) -> Outside:
        """Return an outside that tells the truth, but for the source that is given."""
        protection = HistogramProtection if mechanism == HISTOGRAM else Suppression
        counting = Counting(layout=LAYOUT, source=source or Records(), rate=RATE, limit=None)
        return Outside(
            plan=self.plan(name, mechanism=mechanism),
            counting=counting,
            protection=protection(mechanism=mechanism, layout=LAYOUT),
        )

    @contextmanager
    def gate(self, outside: Outside) -> Iterator[Gate]:
        """Hold a release and make its gate."""
        with self.folder(outside.plan.entry.release_id) as folder:
            yield Gate(
                outside.plan,
                ledger=outside.ledger or self.writer,
                folder=folder,
                randomness=lambda size: self._secret(outside.randomness(size)),
                place_of=outside.place_of,
            )

    def folder(self, name: str = "one") -> Any:
        """Hold a release's folder."""
        return self.store.hold(ledger_id=self.writer.ledger_id, release_id=name)

    def _secret(self, drawn: bytes) -> bytes:
        self.secrets.append(drawn)
        return drawn

    def run(self, outside: Outside) -> None:
        """Drive a release as the outside says."""
        with self.gate(outside) as gate:
            outside.drive(gate, outside)

    def run_lying(self, outside: Outside, plant: Callable[[Outside, Bench], None]) -> None:
        """Drive a release after a lie was planted."""
        plant(outside, self)
        self.run(outside)

    def published(self, name: str = "one") -> Any:
        """Return what is published; None where nothing is."""
        path = self.output(name) / "data.json"
        return json.loads(path.read_text()) if path.exists() else None

    def paid_for(self, *, mechanism: Any = MICRODATA, secret: bytes | None = None) -> Any:
        """Return what the release's key gives, computed block by block from the records, without the gate."""
        counts = []
        for block in BLOCKS:
            codes = codes_of(block.identity)
            kept = kept_positions(
                key=secret or self.secrets[-1], chunk=block.identity, records=codes.shape[1], rate=RATE
            )
            counts.append(count_keys((4 * codes[0] + codes[1])[kept].reshape(1, -1), cells=12))
        total = merge_counts(counts)
        groups = suppress(total.keys, total.counts, 20)
        if mechanism != HISTOGRAM:
            return {"keys": groups.keys[0].tolist(), "counts": groups.counts.tolist()}
        cells = np.zeros(12, dtype=np.int64)
        cells[groups.keys[0]] = groups.counts
        return {"keys": None, "counts": cells.tolist()}
