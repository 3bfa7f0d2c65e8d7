"""A release whose outside lies: it is refused, or publishes what was paid for, or the lie is one that is assumed away.

Gate, ledger, keys and private store are real; readers, executors, planners, renders and callers are replaced. What is
assumed has a key in docs/kernel.md, and no other lie goes through.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crowdblend.accounting.kernel.ledger.entries import DatasetUnit, ReleaseCharged
from crowdblend.accounting.kernel.ledger.ledger_state import Receipt
from crowdblend.accounting.kernel.ledger.rules import RuleBroken
from crowdblend.accounting.keys.anchor import Anchoring, head_of_line
from crowdblend.accounting.ledger.ledger_writer import LedgerWriter
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.mechanisms.kernel.contributions import ContributionKeys, ContributionLimit
from crowdblend.mechanisms.kernel.errors import Refusal, ReleaseFailed
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease, Suppression
from crowdblend.tasks.kernel import protected as sealing
from crowdblend.tasks.kernel.counting import BlockCounts, Counting, CountJob, counted_blocks, person_records
from crowdblend.tasks.kernel.draws import StoredDraw
from crowdblend.tasks.kernel.gate import Gate, Step
from crowdblend.tasks.kernel.publication import Rendered
from support.kernel_bench import (
    CHOSEN,
    HISTOGRAM,
    LAYOUT,
    MICRODATA,
    RATE,
    Bench,
    Outside,
    Records,
    added_up,
    codes_of,
    render,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernel.md"
PAID_FOR = ""
"""What is published has the distribution that was paid for: it is what the release's key gives."""
REFUSALS = (Refusal, RuleBroken, TypeError, ValueError, OSError, AttributeError)


@dataclass(frozen=True)
class Assumed:
    """The key of what is assumed, by which docs/kernel.md has it."""

    key: str
    same: bool = False
    """Whether what is published is what was paid for all the same."""


@dataclass(frozen=True)
class Lie:
    """What is planted, and what becomes of the release."""

    name: str
    plant: Callable[[Outside, Bench], None]
    outcome: str | Assumed
    mechanism: Any


LIES: list[Lie] = []


def lie(outcome: str | Assumed, *, mechanism: Any = MICRODATA) -> Callable[[Any], Any]:
    """Put a lie into the table: a part of the message that it is refused with, PAID_FOR, or what is assumed."""

    def put(plant: Any) -> Any:
        LIES.append(Lie(plant.__name__, plant, outcome, mechanism))
        return plant

    return put


def source(lying: Callable[..., Iterator[Any]]) -> Callable[[Outside, Bench], None]:
    """Plant a source of records: a generator of blocks, layout and coins."""

    class Lying(Records):
        def keys(self, blocks: Sequence[Any], *, layout: KeyLayout, coins: Any, persons: Any) -> Iterator[Any]:
            return lying(self, blocks, layout, coins)

    def plant(outside: Outside, _: Bench) -> None:
        outside.counting = replace(outside.counting, source=Lying())

    plant.__name__ = lying.__name__
    return plant


NUMBER = "another number of records"
BEGUN = "isn't its task's, or began one twice"
FORM = "in another form than their columns"
CODES = "codes that its columns don't declare"
BLOCKS_OF_SUM = "twice, or lacks one"

# Sources


@lie(BEGUN)
@source
def a_reader_repeats_a_block(own, blocks, layout, coins):
    for block in [*blocks, *blocks]:
        yield block.identity, own.kept(block.identity, coins(block.identity), layout)


@lie(NUMBER)
@source
def a_reader_gives_what_it_read_of_a_block_twice(own, blocks, layout, coins):
    for block in blocks:
        keys = own.kept(block.identity, coins(block.identity), layout)
        yield block.identity, keys
        yield block.identity, keys


@lie(NUMBER)
@source
def a_reader_drops_a_block(own, blocks, layout, coins):
    for block in blocks:
        if block.identity != ChunkIdentity(file=1, block=1):
            yield block.identity, own.kept(block.identity, coins(block.identity), layout)


@lie(NUMBER)
@source
def a_reader_asks_for_more_coins_than_the_footer_has_records(own, blocks, layout, coins):
    for block in blocks:
        told = coins(block.identity)
        keys = own.kept(block.identity, told, layout)
        more = told.kept(100)
        yield block.identity, np.concatenate((keys, np.zeros((1, more.size), dtype=np.int64)), axis=1)


@lie(NUMBER)
@source
def a_reader_asks_for_fewer_coins(own, blocks, layout, coins):
    for block in blocks:
        kept = coins(block.identity).kept(300)
        yield block.identity, layout.keys(codes_of(block.identity))[:, kept]


@lie("fewer records than none")
@source
def a_reader_takes_back_coins_to_draw_again(own, blocks, layout, coins):
    for block in blocks:
        told = coins(block.identity)
        told.kept(1)
        told.kept(-1)
        yield block.identity, own.kept(block.identity, told, layout)


@lie(BEGUN)
@source
def a_reader_invents_a_block(own, blocks, layout, coins):
    for block in blocks:
        yield block.identity, own.kept(block.identity, coins(block.identity), layout)
    forged = ChunkIdentity(file=7, block=7)
    yield forged, own.kept(blocks[0].identity, coins(forged), layout)


@lie("that it had not begun")
@source
def a_reader_gives_records_of_a_block_without_its_coins(own, blocks, layout, coins):
    for block in blocks:
        yield block.identity, layout.keys(codes_of(block.identity))


@lie(BEGUN)
@source
def a_reader_begins_a_block_of_another_task(own, blocks, layout, coins):
    for block in blocks:
        other = ChunkIdentity(file=1 - block.identity.file, block=block.identity.block)
        yield other, own.kept(other, coins(other), layout)


class _Two(tuple):
    """A name that equals a block's, and that says another one to who draws its coins."""

    file, block = 0, 0

    def __new__(cls, own: ChunkIdentity) -> _Two:
        made = super().__new__(cls)
        made.own = own
        return made

    def __eq__(self, other: object) -> bool:
        return self.own == other

    def __hash__(self) -> int:
        return hash(self.own)


@lie(BEGUN)
@source
def a_reader_has_two_blocks_share_their_coins(own, blocks, layout, coins):
    for block in blocks:
        yield block.identity, own.kept(block.identity, coins(_Two(block.identity)), layout)


@lie(PAID_FOR)
@source
def a_reader_gives_record_after_record(own, blocks, layout, coins):
    for block in blocks:
        keys = own.kept(block.identity, coins(block.identity), layout)
        yield from ((block.identity, keys[:, place : place + 1]) for place in range(keys.shape[1]))


@lie(PAID_FOR)
@source
def a_reader_gives_kept_records_in_another_order(own, blocks, layout, coins):
    for block in reversed(blocks):
        yield block.identity, own.kept(block.identity, coins(block.identity), layout)[:, ::-1]


def of_codes(change: Callable[[Any, Any, KeyLayout], Any]) -> Callable[[Outside, Bench], None]:
    """Plant a source that changes the keys that it gives."""

    @source
    def lying(own, blocks, layout, coins):
        for block in blocks:
            keys = own.kept(block.identity, coins(block.identity), layout)
            yield block.identity, change(keys, block, layout)

    return lying


def _set(keys: Any, value: int) -> Any:
    keys[0, 0] = value
    return keys


class _Shapeless(np.ndarray):
    """An array that says it is shorter."""

    @property
    def shape(self) -> tuple[int, int]:
        return (1, np.asarray(self).shape[1] - 1)


for name, outcome, change in (
    ("less_than_was_kept", NUMBER, lambda keys, *_: keys[:, :-1]),
    ("more_than_was_kept", NUMBER, lambda keys, *_: np.concatenate((keys, keys[:, :1]), axis=1)),
    ("every_record", NUMBER, lambda keys, block, to: to.keys(codes_of(block.identity))),
    (
        "records_that_are_chosen_by_their_values",
        Assumed("values"),
        lambda keys, block, to: np.sort(to.keys(codes_of(block.identity)), axis=1)[:, : keys.shape[1]],
    ),
    ("a_key_below_all_groups", CODES, lambda keys, *_: _set(keys, -1)),
    ("a_key_above_all_groups", CODES, lambda keys, *_: _set(keys, LAYOUT.cells)),
    ("a_key_that_is_a_blocks_mark", CODES, lambda keys, *_: _set(keys, -1 - (5 << 32))),
    ("keys_of_another_type", CODES, lambda keys, *_: keys.astype(np.int32)),
    ("keys_that_are_fractions", CODES, lambda keys, *_: keys + 0.5),
    ("keys_of_two_words", FORM, lambda keys, *_: np.concatenate((keys, keys))),
    ("keys_in_a_row", FORM, lambda keys, *_: keys[0]),
    ("keys_in_a_list", FORM, lambda keys, *_: keys.tolist()),
    ("keys_in_an_array_that_lies_of_its_size", FORM, lambda keys, *_: keys.view(_Shapeless)),
    (
        "a_code_below_its_column",
        "its column doesn't declare",
        lambda keys, _, to: to.placements[0].scaled(keys[0] - 99),
    ),
    ("a_code_above_its_column", "its column doesn't declare", lambda keys, _, to: to.placements[1].scaled(keys[0] + 4)),
    ("a_code_of_another_value", Assumed("values"), lambda keys, *_: keys * 0 + 11),
):
    planted = of_codes(change)
    planted.__name__ = name
    lie(outcome)(planted)


@lie(Assumed("values"))
@source
def a_reader_swaps_the_names_of_two_blocks(own, blocks, layout, coins):
    other = {block.identity: ChunkIdentity(file=1 - block.identity.file, block=1) for block in blocks}
    for block in blocks:
        yield block.identity, own.kept(other[block.identity], coins(block.identity), layout)


@lie(CODES)
@source
def a_reader_changes_what_it_gave_after_it_was_looked_at(own, blocks, layout, coins):
    given = []
    for block in blocks:
        given.append(own.kept(block.identity, coins(block.identity), layout))
        yield block.identity, given[-1]
        given[-1][:] = LAYOUT.cells + 5


# Executors


def executor(**changes: Any) -> Callable[[Outside, Bench], None]:
    """Plant other parts of the executor."""

    def plant(outside: Outside, _: Bench) -> None:
        for name, value in changes.items():
            setattr(outside, name, value)

    return plant


def _job(**changes: Any) -> Callable[..., Any]:
    return lambda job_of, _: replace(job_of(None), **changes)


@dataclass(frozen=True)
class Key:
    """Another key source."""

    secret: bytes

    def load(self) -> bytes:
        return self.secret


for name, outcome, changes in (
    ("a_partial_sum_is_lost", BLOCKS_OF_SUM, {"add": lambda parts: added_up(parts[:-1])}),
    ("a_partial_sum_is_added_twice", BLOCKS_OF_SUM, {"add": lambda parts: added_up([*parts, parts[0]])}),
    ("a_task_runs_twice", BLOCKS_OF_SUM, {"split": lambda blocks: [[one] for one in [*blocks, blocks[0]]]}),
    ("a_task_has_a_block_twice", "has a block of the records twice", {"split": lambda blocks: [[*blocks, blocks[0]]]}),
    ("a_task_is_left_out", BLOCKS_OF_SUM, {"split": lambda blocks: [[one] for one in blocks[1:]]}),
    (
        "a_sum_names_no_blocks",
        BLOCKS_OF_SUM,
        {"add": lambda parts: added_up(parts)._replace(blocks=parts[0].blocks[:0])},
    ),
    ("another_key", "not this release's", {"job": lambda job_of, _: job_of(Key(bytes(32)))}),
    ("a_key_of_another_length", "must have|not 5|has 32", {"job": lambda job_of, _: job_of(Key(b"short"))}),
    ("tasks_of_several_blocks", PAID_FOR, {"split": lambda blocks: [blocks[1:], blocks[:1]]}),
    ("tasks_in_another_order", PAID_FOR, {"split": lambda blocks: [[one] for one in reversed(blocks)]}),
    ("sums_in_another_order", PAID_FOR, {"add": lambda parts: added_up(parts[::-1])}),
    ("the_job_is_made_twice", PAID_FOR, {"job": lambda job_of, key: job_of(key) and job_of(None)}),
    ("a_job_of_every_record", Assumed("workers"), {"job": _job(rate=None, sample_id=None, key_source=None)}),
    (
        "counts_of_the_executors_own",
        Assumed("workers"),
        {"add": lambda parts: BlockCounts(GroupCounts(np.array([[3]]), np.array([999])), added_up(parts).blocks)},
    ),
    (
        "counts_of_no_group",
        CODES,
        {"add": lambda parts: BlockCounts(GroupCounts(np.array([[99]]), np.array([999])), added_up(parts).blocks)},
    ),
):
    planted = executor(**changes)
    planted.__name__ = name
    lie(outcome)(planted)


@lie(Assumed("workers"))
def an_executor_gives_the_sum_of_another_release(outside: Outside, bench: Bench) -> None:
    kept: list[Any] = []
    other = bench.outside("two")
    other.add = lambda parts: kept.append(added_up(parts)) or kept[0]
    bench.run(other)
    outside.add = lambda _: kept[0]


@lie("has a block of the records twice")
def a_block_changes_its_name(outside: Outside, _: Bench) -> None:
    class Turning:
        records = 400
        asked = 0

        @property
        def identity(self) -> ChunkIdentity:
            return ChunkIdentity(file=0, block=0)

    outside.split = lambda blocks: [[*blocks, Turning()]]


@lie("were changed")
def a_file_changes_between_count_and_protection(outside: Outside, _: Bench) -> None:
    def changed() -> None:
        raise ReleaseFailed("the files were changed.")

    outside.unchanged = changed


@lie(Assumed("files"))
def files_that_change_are_said_to_be_unchanged(outside: Outside, _: Bench) -> None:
    """The look at the files is of the one who lists them; here they have changed, and it says nothing."""

    @source
    def changed(own, blocks, layout, coins):
        for block in blocks:
            yield block.identity, own.kept(ChunkIdentity(file=5, block=5), coins(block.identity), layout)

    changed(outside, _)


# Planners


def plan(change: Callable[[Any], Any]) -> Callable[[Outside, Bench], None]:
    """Plant another entry in the plan."""

    def plant(outside: Outside, _: Bench) -> None:
        outside.plan = replace(outside.plan, entry=change(outside.plan.entry))

    return plant


class _Cheap(ReleaseCharged):
    """A charge that has one mechanism for whoever looks at its price, and another one for whoever writes it down."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name != "mechanism" or not sys._getframe(1).f_globals["__name__"].endswith("ledger.entries"):
            return found
        return tuple((key, 1 if key == "k" else value) for key, value in found)


for name, outcome, changed in (
    ("a_lower_price", "ε is recorded as", lambda e: replace(e, price=replace(e.price, epsilon=Decimal("0.001")))),
    ("another_delta", "ε is recorded as", lambda e: replace(e, price=replace(e.price, delta=Decimal("1e-3")))),
    ("a_price_of_another_rule", "the rule is|priced", lambda e: replace(e, price=replace(e.price, rule="none"))),
    ("the_papers_epsilon", "paper", lambda e: replace(e, epsilon_paper=Decimal("0.1"))),
    ("an_unknown_data_set", "no-such|unknown|data set", lambda e: replace(e, dataset="no-such")),
    ("an_unknown_mechanism", "mechanism", lambda e: replace(e, mechanism=(("kind", "free-lunch/1"),))),
    (
        "an_entry_that_is_recorded_otherwise_than_it_is_priced",
        "no epsilon is enough for delta",
        lambda e: _Cheap(**{one.name: getattr(e, one.name) for one in fields(e)}),
    ),
    ("the_sample_of_another_release", PAID_FOR, lambda e: replace(e, sample_id="e" * 64)),
):
    planted = plan(changed)
    planted.__name__ = name
    lie(outcome)(planted)


@lie("has the release id|is used|charged meanwhile|release id")
def an_id_that_is_charged_already(outside: Outside, bench: Bench) -> None:
    bench.run(bench.outside("two"))
    outside.plan = replace(outside.plan, entry=replace(outside.plan.entry, release_id="two"))


@lie(PAID_FOR)
def a_clock_that_goes_back(outside: Outside, bench: Bench) -> None:
    """Days say when, and decide nothing."""
    bench.run(bench.outside("two"))
    outside.plan = replace(
        outside.plan, entry=replace(outside.plan.entry, day=outside.plan.entry.day - timedelta(days=400))
    )


@lie("is staged")
def a_plan_that_says_what_is_published(outside: Outside, bench: Bench) -> None:
    forged = bench.root / "forged"
    forged.mkdir()
    (forged / "data.json").write_text(json.dumps("exact counts"))
    outside.plan = replace(outside.plan, facts={"published": {"sample_id": "0" * 64, "staging": str(forged)}})


class _Turning(Counting):
    """A counting that says another rate than the charged one to the workers' job alone."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return Decimal("0.9") if name == "rate" and sys._getframe(1).f_code.co_name == "job_of" else found


@lie("the kernel's own values")
def a_counting_that_answers_differently_each_time(outside: Outside, _: Bench) -> None:
    own = outside.counting
    outside.counting = _Turning(layout=own.layout, source=own.source, rate=own.rate, limit=own.limit)


class _Wide(KeyLayout):
    """A layout of which every key is."""

    __slots__ = ()

    def require_keys(self, keys: Any) -> None:
        pass


class _Agreeing(StronglySafeRelease):
    """A mechanism that says it equals the one that was charged."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = StronglySafeRelease.__hash__


class _Open(Suppression):
    __slots__ = ()

    def protect(self, exact: GroupCounts, *, randomness: Any) -> GroupCounts:
        return exact


class _LookAlike:
    mechanism, layout, drawn = MICRODATA, LAYOUT, False

    def protect(self, exact: Any, *, randomness: Any) -> Any:
        return exact

    def fits(self, numbers: Any) -> bool:
        return True


OTHER, OWN, UNKNOWN = (
    "of another release, sample or layout",
    "the kernel's own values",
    "no protection that the kernel knows",
)
ONE_RECORD = ContributionLimit(unit="person", column="who", records=1)


def part(name: str, **changes: Any) -> Callable[[Outside, Bench], None]:
    """Plant a changed part of what the gate is handed."""
    return lambda outside, _: setattr(outside, name, replace(getattr(outside, name), **changes))


for name, outcome, planted in (
    ("a_unit_that_the_data_set_has_not", "unit", part("plan", unit=DatasetUnit(name="person", column="who"))),
    ("a_limit_that_was_not_charged", "same sample|another unit", part("counting", limit=ONE_RECORD)),
    ("a_limit_that_the_executor_forgets", "person by person", executor(job=_job(limit=ONE_RECORD))),
    ("a_count_of_every_record", OTHER, part("counting", rate=None)),
    ("a_count_at_a_higher_rate", OTHER, part("counting", rate=Decimal("0.9"))),
    ("a_layout_that_every_key_is_of", OWN, part("counting", layout=_Wide(sizes=LAYOUT.sizes))),
    ("a_protection_of_another_layout", OTHER, part("protection", layout=KeyLayout(sizes=(12,)))),
    (
        "a_protection_of_a_lower_threshold",
        "of another mechanism",
        part("protection", mechanism=StronglySafeRelease(k=1, sampling_rate=RATE)),
    ),
    (
        "a_protection_whose_mechanism_equals_every_other",
        PAID_FOR,
        part("protection", mechanism=_Agreeing(k=1, sampling_rate=RATE)),
    ),
    ("a_protection_below_the_real_one", UNKNOWN, executor(protection=_Open(mechanism=MICRODATA, layout=LAYOUT))),
    ("a_protection_that_looks_like_the_real_one", UNKNOWN, executor(protection=_LookAlike())),
):
    planted.__name__ = name
    lie(outcome)(planted)


# Callers


def driven(outcome: str | Assumed, *, mechanism: Any = MICRODATA) -> Callable[[Any], Any]:
    """Put a lie of the caller of the gate into the table: a function of gate, outside and bench."""

    def put(drive: Any) -> Any:
        def plant(outside: Outside, bench: Bench) -> None:
            outside.drive = lambda gate, own: drive(gate, own, bench)

        plant.__name__ = drive.__name__
        return lie(outcome, mechanism=mechanism)(plant)

    return put


def begin(gate: Gate) -> None:
    gate.charge()
    gate.read()


@driven("no ExactCounts that the kernel made")
def counts_that_nobody_sealed(gate, own, _):
    begin(gate)
    gate.protect(own.protection, exact=lambda: GroupCounts(np.array([[3]]), np.array([99])))
    own.finish(gate)


@driven("of another release, sample or layout")
def counts_of_another_release(gate, own, bench):
    begin(gate)
    other = bench.outside("two")
    with bench.gate(other) as second:
        begin(second)
        exact = other.exact(second)
        gate.protect(own.protection, exact=lambda: exact)
    gate.stage(own.render)
    gate.publish()


@driven("of another release, sample or layout")
def totals_of_a_release_of_records(gate, own, _):
    begin(gate)
    gate.protect(own.protection, exact=lambda: gate.totals(lambda: GroupCounts(np.array([[3]]), np.array([99]))))


def _draw(name: str) -> StoredDraw:
    return StoredDraw(name=name, field="numbers", what="it was", again="It is", drawn_for={}, fits=lambda _: True)


@driven("has not been paid for")
def a_choice_that_was_not_charged(gate, own, _):
    begin(gate)
    stolen: list[Any] = []
    gate.choose(_draw("map"), exact=lambda: own.exact(gate), by=lambda counts: stolen.append(counts) or (1,))
    assert not stolen


@driven("has not been paid for", mechanism=HISTOGRAM)
def a_choice_that_is_stored_as_the_noise(gate, own, _):
    begin(gate)
    gate.choose(_draw("noise"), exact=lambda: own.exact(gate), by=lambda counts: counts.counts)


@driven("another step of it is due")
def a_protection_within_a_protection(gate, own, _):
    begin(gate)

    def inside() -> Any:
        exact = own.exact(gate)
        gate.protect(own.protection, exact=lambda: exact)
        return exact

    gate.protect(own.protection, exact=inside)


@driven("can't go on")
def a_release_that_is_resumed_and_was_never_charged(gate, own, _):
    gate.resume()
    gate.read()
    own.finish(gate)


@driven("is staged already")
def a_second_release_of_a_staged_sample(gate, own, bench):
    gate.charge()
    gate.read()
    own.protect(gate)
    gate.stage(own.render)
    again = Gate(own.plan, ledger=bench.writer, folder=gate._folder, randomness=own.randomness, place_of=Path)
    assert again.resume() == ()
    again.read()
    own.finish(again)


# Maps that are chosen by exact counts


def chosen(gate: Gate, own: Outside, *, rate: Decimal | None, by: Any = lambda _: (0, 0)) -> Any:
    """Choose a map by counts at some rate, and return them."""
    begin(gate)
    counting = replace(own.counting, rate=rate)
    exact = gate.exact(counting, blocks=own.blocks, counted=own.counted, unchanged=own.unchanged)
    gate.choose(_draw("map"), exact=lambda: exact, by=by)
    return exact


@driven(PAID_FOR, mechanism=CHOSEN)
def a_choice_that_was_charged(gate, own, _):
    chosen(gate, own, rate=None)
    own.finish(gate)


@driven("of another release, sample or layout", mechanism=CHOSEN)
def a_choice_on_the_releases_own_sample(gate, own, _):
    chosen(gate, own, rate=RATE)


@driven("of another release, sample or layout", mechanism=CHOSEN)
def counts_for_a_choice_that_are_published(gate, own, _):
    exact = chosen(gate, own, rate=None)
    gate.protect(own.protection, exact=lambda: exact)


@driven(Assumed("choice", same=True), mechanism=CHOSEN)
def a_choice_that_keeps_what_it_sees(gate, own, bench):
    chosen(gate, own, rate=None, by=lambda counts: (bench.root / "kept").write_text(str(counts)) and (0, 0))
    own.finish(gate)
    assert (bench.root / "kept").exists()


@driven(Assumed("process"))
def a_caller_that_writes_into_the_gate(gate, own, _):
    begin(gate)
    counts = GroupCounts(np.array([[3]]), np.array([1]))
    gate._protected = sealing._sealed(sealing.Protected, None, counts)
    gate._step = Step.PROTECTED
    gate.stage(own.render)
    gate.publish()
    gate.close()


@lie(Assumed("steward", same=True))
def a_plan_that_charges_another_data_set(outside: Outside, bench: Bench) -> None:
    bench.add_dataset("patients")
    outside.plan = replace(outside.plan, entry=replace(outside.plan.entry, dataset="patients"))


# Ledgers


class _Generous(LedgerWriter):
    """A ledger that pays for everything, and writes nothing down."""

    def charge(self, entry: Any, **_: Any) -> Receipt:
        return Receipt(
            ledger_id="0" * 64,
            position=1,
            hash="0" * 64,
            release_id=entry.release_id,
            dataset=entry.dataset,
            sample_id=entry.sample_id,
        )

    def charged(self, receipt: Receipt) -> Any:
        raise AssertionError

    def mark_reading(self, receipt: Receipt) -> None:
        pass

    def has_release(self, release_id: str) -> bool:
        return False


@lie(PAID_FOR)
def a_ledger_that_makes_up_receipts(outside: Outside, bench: Bench) -> None:
    outside.ledger = _Generous(open_store(bench.url, read_only=False), bench.anchoring)


def set_back(bench: Bench, anchoring: Any) -> LedgerWriter:
    """Put back an earlier copy of the ledger, that a release was charged to meanwhile, and open it."""
    copied = bench.root / "copy.db"
    bench.writer.close()
    shutil.copy(bench.root / "ledger.db", copied)
    bench.run(bench.outside("two"))
    bench.writer.close()
    copied.replace(bench.root / "ledger.db")
    bench.writer = LedgerWriter(open_store(bench.url, read_only=False), anchoring)
    return bench.writer


@lie("was lost")
def a_ledger_that_is_set_back(outside: Outside, bench: Bench) -> None:
    outside.ledger = set_back(bench, bench.anchoring)


class _Forgetful(Anchoring):
    """An anchor that has forgotten all after the data set was added."""

    def last_of(self, ledger_id: str) -> Any:
        first, second, *_ = (self.home / "anchors" / f"{ledger_id}.jsonl").read_bytes().splitlines(keepends=True)
        del first
        return head_of_line(second)


@lie(Assumed("anchor", same=True))
def a_ledger_that_is_set_back_with_its_anchor(outside: Outside, bench: Bench) -> None:
    forgetful = _Forgetful(home=bench.anchoring.home, file=None)
    outside.ledger = set_back(bench, forgetful)
    anchor = bench.anchoring.anchor_of(bench.writer.ledger_id).path
    anchor.write_bytes(b"".join(anchor.read_bytes().splitlines(keepends=True)[:2]))
    assert not bench.writer.has_release("two")


@lie("a gate takes")
def an_object_that_is_no_ledger(outside: Outside, bench: Bench) -> None:
    class Fake:
        _store, _anchoring, ledger_id = bench.writer._store, bench.anchoring, bench.writer.ledger_id
        __class__ = LedgerWriter

    outside.ledger = Fake()


# What is stored and staged


def stored(change: Callable[[dict[str, Any]], Any]) -> Any:
    """Plant a stored draw that was changed after the first attempt."""

    def drive(gate: Gate, own: Outside, _: Bench) -> None:
        begin(gate)
        draw = {"request": own.plan.digest, "sample_id": gate.receipt.sample_id, "numbers": [1] * 12}
        (gate._folder.path / "noise.draw.json").write_text(json.dumps(change(draw)))
        (gate._folder.path / "noise.draw.json").chmod(0o600)
        own.finish(gate)

    return drive


for name, outcome, changed in (
    ("a_draw_of_another_request", "not drawn for this release", lambda d: d | {"request": "0" * 64}),
    ("a_draw_of_another_sample", "not drawn for this release", lambda d: d | {"sample_id": "0" * 64}),
    ("a_truncated_draw", "not drawn for this release", lambda d: d | {"numbers": [1] * 11}),
    ("a_draw_of_texts", "not drawn for this release", lambda d: d | {"numbers": ["1"] * 12}),
    ("a_damaged_draw", "is damaged", lambda d: "no record"),
    ("a_draw_of_ones_own", Assumed("private-store"), lambda d: d),
):
    planted = stored(changed)
    planted.__name__ = name
    driven(outcome, mechanism=HISTOGRAM)(planted)


def staged(spoil: Callable[[Gate, Path, Bench], object]) -> Any:
    """Plant a change of what is staged, or of what is remembered of it."""

    def drive(gate: Gate, own: Outside, bench: Bench) -> None:
        begin(gate)
        own.protect(gate)
        spoil(gate, gate.stage(own.render).staged.folder, bench)
        gate.publish()

    return drive


def remember_another_sample(gate: Gate, *_: Any) -> None:
    known = gate._folder.remembered()["published"]
    gate._folder.remember({"published": known | {"sample_id": "0" * 64}})


for name, outcome, spoil in (
    ("staged_bytes_that_change", "not what was written", lambda _, to, __: (to / "data.json").write_text("counts")),
    (
        "a_file_beside_the_staged_ones",
        "not what was written",
        lambda _, to, __: (to / "more.json").write_text("counts"),
    ),
    ("a_staged_folder_that_is_gone", "not what was written", lambda _, to, __: shutil.rmtree(to)),
    ("a_place_that_is_taken_meanwhile", "something else has come", lambda _, __, bench: bench.output().mkdir()),
    ("a_release_of_another_sample_in_its_record", "of another sample", remember_another_sample),
):
    planted = staged(spoil)
    planted.__name__ = name
    driven(outcome)(planted)


@lie("without files")
def a_render_that_writes_nothing(outside: Outside, _: Bench) -> None:
    outside.render = lambda *_: Rendered(groups=0, records=0, details={})


@lie("No such file")
def a_render_that_renames_its_folder(outside: Outside, bench: Bench) -> None:
    outside.render = lambda folder, result: (render(folder, result), folder.rename(bench.root / "away"))[0]


@driven("nothing is staged")
def a_render_that_fails_half_way(gate, own, bench):
    begin(gate)
    own.protect(gate)

    def half(folder: Path, result: Any) -> Any:
        render(folder, result)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        gate.stage(half)
    gate.publish()


@lie(Assumed("documents"))
def a_render_that_writes_something_else(outside: Outside, _: Bench) -> None:
    def other(folder: Path, result: Any) -> Any:
        (folder / "data.json").write_text(json.dumps("what its author pleases"))
        return Rendered(groups=0, records=0, details={})

    outside.render = other


@lie(Assumed("coins", same=True))
def coins_that_are_known(outside: Outside, _: Bench) -> None:
    outside.randomness = bytes


def assumptions() -> set[str]:
    """Return the keys of what docs/kernel.md assumes."""
    return set(re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("planted", LIES, ids=[one.name for one in LIES])
def test_a_lie_is_refused_or_changes_nothing_or_is_named_as_assumed(planted: Lie, bench: Bench) -> None:
    outside = bench.outside(mechanism=planted.mechanism)
    if isinstance(planted.outcome, str) and planted.outcome:
        with pytest.raises(REFUSALS) as refused:
            bench.run_lying(outside, planted.plant)
        texts = [str(refused.value), *map(str, getattr(refused.value, "args", ()))]
        assert any(re.search(planted.outcome, text) for text in texts), texts
        assert bench.published() is None
        return
    bench.run_lying(outside, planted.plant)
    assert bench.writer.has_release("one")
    published, paid_for = bench.published(), bench.paid_for(mechanism=planted.mechanism)
    if isinstance(planted.outcome, Assumed):
        assert planted.outcome.key in assumptions()
        assert published is not None
        assert (published == paid_for) is planted.outcome.same
    else:
        assert published == paid_for


def test_there_are_many_lies_and_the_page_assumes_nothing_that_none_of_them_shows() -> None:
    assert len(LIES) >= 30
    assert len({one.name for one in LIES}) == len(LIES)
    assert {one.outcome.key for one in LIES if isinstance(one.outcome, Assumed)} == assumptions()


# Persons, whose records come with two words more: on a worker


def persons_job(secret: bytes, own: Any) -> CountJob:
    from crowdblend.mechanisms.kernel.sampling import sample_commitment

    limit = ContributionLimit(unit="person", column="who", records=1)
    return CountJob(
        release_id="one",
        token="t",  # noqa: S106 - the name of a computation
        sample_id=sample_commitment(secret),
        layout=LAYOUT,
        rate=RATE,
        source=own,
        key_source=Key(secret),
        limit=limit,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (lambda keys: keys, FORM),
        (lambda keys: np.concatenate((keys, keys)), FORM),
        (lambda keys: np.concatenate((keys, keys, keys, keys)), FORM),
        (lambda keys: np.concatenate((keys, keys, keys)) + 0.5, CODES),
        (lambda keys: np.concatenate((keys, keys, keys + 12)), CODES),
        (lambda keys: np.concatenate((keys, keys, keys))[:, :-1], NUMBER),
    ],
)
def test_persons_of_another_form_are_refused(words: Any, message: str) -> None:
    class Persons(Records):
        def keys(self, blocks: Any, *, layout: Any, coins: Any, persons: ContributionKeys) -> Iterator[Any]:
            for block in blocks:
                yield block.identity, words(self.kept(block.identity, coins(block.identity), layout))

    from support.kernel_bench import BLOCKS

    job = persons_job(bytes(range(32)), Persons())
    with pytest.raises(ReleaseFailed, match=message):
        person_records(BLOCKS, job=job)
    with pytest.raises(ReleaseFailed, match="person by person"):
        counted_blocks(BLOCKS, job=job)
