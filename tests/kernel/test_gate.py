"""The gate on honest ways: taken up after each step, with two samples, with rates of records' own, and with reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from crowdblend.accounting.kernel.ledger.entries import DatasetUnit
from crowdblend.mechanisms.kernel.contributions import LAYOUTS, ContributionLimit
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kernel.sampling import kept_positions, sample_commitment
from crowdblend.mechanisms.kinds.biased_sampling import Thinning, inclusion_coins
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.local_reports import ReportsProtection
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, suppress
from crowdblend.tasks.kernel.counting import (
    BlockCounts,
    CountJob,
    added_records,
    chosen_records,
    counted_blocks,
    person_records,
)
from crowdblend.tasks.kernel.draws import StoredDraw
from crowdblend.tasks.kernel.gate import Gate
from crowdblend.tasks.kernel.protected import opened_for_choice
from support.kernel_bench import BLOCKS, HISTOGRAM, LAYOUT, MICRODATA, RATE, Bench, Outside, Records

LOW, HIGH = Decimal("0.05"), Decimal("0.1")
RATES = (LOW, LOW, HIGH, HIGH)
TWICE = EpsilonSafeRelease(k=20, sampling_rate=RATE, selection_epsilon=Decimal("0.1"), selection_rate=Decimal("0.2"))
REPORTS = OutcomeCounts(randomizer=KRandomization(bits=2, flip_probability=Decimal("0.25")), least_people=10**6)


STEPS: Mapping[str, Callable[[Gate, Outside], object]] = {
    "charge": lambda gate, _: gate.charge(),
    "read": lambda gate, _: gate.read(),
    "protect": lambda gate, own: own.protect(gate),
    "stage": lambda gate, own: gate.stage(own.render),
    "publish": lambda gate, _: gate.publish(),
    "close": lambda gate, _: gate.close(),
}


@pytest.mark.parametrize("taken", range(1, 6), ids=lambda taken: [*STEPS][taken - 1])
@pytest.mark.parametrize("mechanism", [MICRODATA, HISTOGRAM], ids=lambda one: one.kind)
def test_a_release_that_was_cut_off_after_a_step_is_finished_once(bench: Bench, taken: int, mechanism: Any) -> None:
    own = bench.outside(mechanism=mechanism)
    with bench.gate(own) as gate:
        for step in [*STEPS.values()][:taken]:
            step(gate, own)
        assert gate.plan is own.plan
    secret = bench.secrets[0]
    with bench.gate(own) as gate:
        assert gate.resume() == ()
        if (staged := gate.remembered()) is None:
            gate.read()
            own.finish(gate)
        else:
            assert staged.in_view is (taken == 5)
            gate.publish()
            gate.close()
    assert bench.published() == bench.paid_for(mechanism=mechanism, secret=secret)
    with bench.gate(own) as gate:
        assert any("key" in what for what in gate.resume()), "its key is gone, and it is never made again"


@pytest.mark.parametrize("mechanism", [MICRODATA, HISTOGRAM], ids=lambda one: one.kind)
def test_any_other_step_than_the_next_is_refused(bench: Bench, mechanism: Any) -> None:
    """Those that were taken before among them; records are counted between reading and protection alone."""
    wrong = STEPS | {"count": lambda gate, own: own.exact(gate)}
    for taken in range(len(STEPS) + 1):
        for name in wrong.keys() - {[*STEPS, "none"][taken], *(["count"] if taken == 2 else [])}:
            own = bench.outside(f"{name}-{taken}", mechanism=mechanism)
            with bench.gate(own) as gate:
                for step in [*STEPS.values()][:taken]:
                    step(gate, own)
                with pytest.raises(ReleaseFailed, match=r"another step of it is due|before protection|isn't charged"):
                    wrong[name](gate, own)
            assert (bench.published(f"{name}-{taken}") is not None) is (taken > 4)


def test_what_has_changed_since_the_charge_is_told_and_the_gate_is_closed(bench: Bench) -> None:
    own = replace(bench.outside(), randomness=bytes)
    with bench.gate(own) as gate:
        gate.charge()
    for change, told in (
        *(({"software": other * 64}, "the software or a library of it") for other in "0f"),
        *(({"inputs": bytes([other])}, "the input files") for other in range(6)),  # of any fingerprints
        *(({"output": bench.output(f"elsewhere-{other}")}, "the output's place") for other in range(6)),
        *(({"entry": replace(own.plan.entry, spec_digest=other * 64)}, "the specification") for other in "0f"),
        *(({"entry": replace(own.plan.entry, code_version=other)}, "the software's version") for other in ("0", "9")),
        *(
            ({"entry": replace(own.plan.entry, sampler_layout=other)}, "the sampler's layout")
            for other in ("a/1", "z/1")
        ),
    ):
        other = replace(own, plan=replace(own.plan, **change))
        with bench.gate(other) as gate:
            assert any(told in what for what in gate.resume()), gate
            with pytest.raises(ReleaseFailed, match="another step of it is due"):
                gate.read()
    with bench.gate(own) as gate:
        assert gate.resume() == ()
    with bench.folder() as folder:
        key = folder.path / "sampling.key"
    others = [bytes([first]) * 32 for first in range(1, 7)]
    assert {sample_commitment(secret) < sample_commitment(bytes(32)) for secret in others} == {True, False}
    for secret in others:
        key.write_bytes(secret)
        with bench.gate(own) as gate:
            assert gate.resume() == ("the sampling key",)


@pytest.mark.parametrize("taken", [4, 5], ids=["staged", "in view"])
def test_what_is_staged_is_published_and_closed_whatever_the_source_has_become(bench: Bench, taken: int) -> None:
    """Else its output stays in view, and its sampling key in the store, until the old files come back."""
    own = bench.outside()
    with bench.gate(own) as gate:
        for step in [*STEPS.values()][:taken]:
            step(gate, own)
    with bench.gate(replace(own, plan=replace(own.plan, inputs=b"the next delivery"))) as gate:
        assert gate.resume() == ()
        assert gate.remembered() is not None
        gate.publish()
        gate.close()
    assert bench.published() is not None


def test_a_map_is_chosen_on_a_sample_of_its_own_and_once(bench: Bench) -> None:
    own = replace(bench.outside(), plan=bench.plan(mechanism=TWICE, selection_sample_id="1" * 64))
    own.protection = replace(own.protection, mechanism=TWICE)
    other = replace(own.counting, rate=TWICE.selection_rate)
    draw = StoredDraw(name="map", field="levels", what="it was", again="It is", drawn_for={}, fits=lambda _: True)
    seen: list[Any] = []
    with bench.gate(own) as gate:
        receipt = gate.charge()
        assert (receipt.sample_id, receipt.selection_sample_id) == tuple(map(sample_commitment, bench.secrets))
        gate.read()

        def exact() -> Any:
            return gate.exact(
                other, blocks=BLOCKS, counted=own.counted, unchanged=own.unchanged, on_selection_sample=True
            )

        for _ in range(2):
            assert gate.choose(draw, exact=exact, by=lambda counts: seen.append(counts) or (0, 1)) == (0, 1)
        own.finish(gate)
    [counts] = seen
    first, second = bench.secrets
    assert counts.counts.sum() == sum(
        kept_positions(key=second, chunk=block.identity, records=400, rate=Decimal("0.2")).size for block in BLOCKS
    )
    assert bench.published() == bench.paid_for(secret=first)


def test_records_with_rates_of_their_own_are_drawn_once_more_by_the_releases_key(bench: Bench) -> None:
    own = bench.outside()
    own.counting = replace(own.counting, rates=RATES)
    own.protection = replace(own.protection, layout=KeyLayout(sizes=(3,)))
    bench.run(own)
    [secret] = bench.secrets
    sampled = replace(own.counting, rates=None)
    job = CountJob(
        release_id="one",
        token="t",  # noqa: S106 - the name of a computation
        sample_id=sample_commitment(secret),
        layout=LAYOUT,
        rate=RATE,
        source=sampled.source,
        key_source=SimpleNamespace(load=lambda: secret),
    )
    counts = counted_blocks(BLOCKS, job=job).counts
    thinned = Thinning(layout=LAYOUT, rates=RATES).thinned(counts, randomness=inclusion_coins(secret))
    groups = suppress(thinned.keys, thinned.counts, MICRODATA.k)
    assert 0 < groups.counts.sum() < counts.counts.sum()
    assert bench.published() == {"keys": groups.keys[0].tolist(), "counts": groups.counts.tolist()}


class Persons(Records):
    """A source of records of 50 persons, of whom each has 32."""

    def keys(self, blocks: Any, *, layout: Any, coins: Any, persons: Any) -> Iterator[Any]:
        """Give each block's records, with whose they are."""
        for block in blocks:
            groups = self.kept(block.identity, coins(block.identity), layout)
            yield block.identity, np.concatenate([persons.of_numbers(np.arange(400) % 50).view(np.int64), groups])


def counted_by_person(job_of: Any, _: Any) -> BlockCounts:
    """Run a job with a limit."""
    job = job_of(None)
    parts = [person_records([block], job=job) for block in BLOCKS]
    records = added_records([part.counts for part in parts], job=job)
    return BlockCounts(chosen_records(records, job=job), np.concatenate([part.blocks for part in parts]))


def test_as_many_records_of_a_person_are_counted_as_were_charged_or_fewer(bench: Bench) -> None:
    bench.add_dataset("people", rows_per_person=3)
    who = DatasetUnit(name="person", column="who")
    paid = {"dataset": "people", "rows_per_person": 3, "unit": who, "sampler_layout": f"{LAYOUTS['person']} csv/1"}
    own = replace(bench.outside(source=Persons()), plan=bench.plan(**paid))
    limits = {most: ContributionLimit(unit="person", column="who", records=most) for most in (1, 2, 3, 4)}
    wrong = [replace(limits[3], column="home"), replace(limits[3], unit="household"), limits[4], None]
    with bench.gate(own) as gate:
        receipt = gate.charge()
        gate.read()
        for records in (1, 2, 3):
            own.counting = replace(own.counting, rate=None, limit=limits[records])
            exact = own.exact(gate, counted=counted_by_person)
            assert opened_for_choice(exact, receipt=receipt, rate=None).counts.sum() == 50 * records
        for limit in wrong:
            own.counting = replace(own.counting, limit=limit)
            with pytest.raises(ReleaseFailed, match="by another unit, or more of one, than was charged"):
                own.exact(gate, counted=counted_by_person)


def test_who_counts_is_lent_the_releases_key_where_coins_are_drawn_with_it(bench: Bench) -> None:
    own, lent = bench.outside(), []

    def counted(job_of: Any, key: Any) -> BlockCounts:
        lent.append(key)
        return own.counted(job_of, key)

    with bench.gate(own) as gate:
        gate.charge()
        gate.read()
        own.exact(gate, counted=counted)
        own.counting = replace(own.counting, rate=None)
        own.exact(gate, counted=counted)
        [sampled, every] = lent
        assert (sampled.load(), every) == (bench.secrets[0], None)


def test_totals_of_reports_are_published_where_there_are_enough(bench: Bench) -> None:
    bench.add_dataset("drinks", relation="replacement")
    own = replace(bench.outside(), plan=bench.plan(mechanism=REPORTS, dataset="drinks"))
    own.protection = ReportsProtection(mechanism=REPORTS)
    totals = np.array([300_000] * 4)
    with bench.gate(own) as gate:
        assert gate.plan == own.plan
        with pytest.raises(ReleaseFailed, match="isn't charged"):
            _ = gate.receipt
        with pytest.raises(ReleaseFailed, match="after it is recorded that they are read"):
            gate.totals(lambda: totals)
        receipt = gate.charge()
        gate.read()
        exact = gate.totals(lambda: totals)
        assert opened_for_choice(exact, receipt=receipt, rate=None) is totals
        with pytest.raises(ReleaseFailed, match="of another release"):
            opened_for_choice(exact, receipt=replace(receipt, release_id="two"), rate=None)
        gate.protect(own.protection, exact=lambda: gate.totals(lambda: totals))
        with pytest.raises(ReleaseFailed, match="after it is recorded that they are read"):
            gate.totals(lambda: totals)
        gate.stage(own.render)
        gate.publish()
        gate.close()
    assert bench.published() == {"keys": None, "counts": totals.tolist()}


def test_a_gate_without_its_charge_or_its_result_goes_no_further(bench: Bench, monkeypatch: Any) -> None:
    """Whatever has put something else in their place."""
    own = bench.outside()
    with bench.gate(own) as gate:
        gate.charge()
        gate.read()
        own.protect(gate)
        gate._protected = None
        with pytest.raises(ReleaseFailed, match="nothing is protected"):
            gate.stage(own.render)
    monkeypatch.setattr("crowdblend.tasks.kernel.gate.entry_of_bytes", lambda _: own.plan)
    with bench.gate(bench.outside("two")) as gate, pytest.raises(TypeError, match="by an entry of a charge"):
        gate.charge()
