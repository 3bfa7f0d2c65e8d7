"""The gate of a release: charge, read, choose, protect, stage, publish, close; each step once, and in this order.

What comes from outside is a frozen plan, and at each step a function that reads, counts or writes. Nothing counts
before the ledger has recorded that the records are about to be read; exact counts go into the protection that was
charged and nowhere else; only what it gives is staged; and what was staged once is published as it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum, auto
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self, SupportsIndex

from ...accounting.kernel.keys.private_store import KeyRef, ReleaseFolder
from ...accounting.kernel.ledger.entries import (
    RECORD,
    DatasetUnit,
    ReleaseCharged,
    ReleaseChargedTwoSamples,
    bytes_of_entry,
    entry_of_bytes,
)
from ...accounting.kernel.ledger.ledger_state import Receipt
from ...accounting.kernel.ledger.writer import ReleaseWriter
from ...accounting.kernel.prices.registry import kind_of
from ...mechanisms.kernel.errors import AccountantRefused, ReleaseFailed
from ...mechanisms.kernel.group_counts import GroupCounts
from ...mechanisms.kernel.mechanism import Randomness
from ...mechanisms.kernel.protection import Protection
from ...mechanisms.kernel.recoding import KeyLayout
from ...mechanisms.kernel.sampling import sample_commitment
from .counting import Block, BlockCounts, Counting, CountJob, KeySource, require_every_block
from .draws import NOISE, StoredDraw, draw_once, noise_draw
from .protected import Counted, ExactCounts, Protected, opened_for_choice, protect, seal_counts
from .publication import Output, Rendered, StagedRelease, bring_into_view, remembered_release, stage_release

UNNAMED = "0" * 64
"""Stands in a plan's entry for the id of a sample that isn't drawn yet."""
_REPORTS = ("local_reports", "outcome_counts")
"""Kinds whose records are reports that their devices have protected."""


class Step(Enum):
    """How far a release has come."""

    PLANNED = auto()
    CHARGED = auto()
    READING = auto()
    PROTECTED = auto()
    STAGED = auto()
    IN_VIEW = auto()
    CLOSED = auto()


JobOf = Callable[[KeySource | None], CountJob]
"""Makes the job of a count, of the place where workers find the key; None leaves it in the private store."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is fixed of a release before it is charged.

    Args:
        entry: of the charge; the gate puts in the ids of the samples, and the ledger the number in a series.
        rows_per_person: how many records of a person its price covers.
        unit: whose presence it hides.
        part: its part of a series of different mechanisms, from 1; None elsewhere.
        digest: SHA-256 (hex) of all that decides what is released.
        inputs: canonical list of the input files; kept as a keyed fingerprint, privately.
        output: where the release is published.
        software: digest of all that the rest of the work depends on.
        facts: what else is kept privately with the release, JSON values by names.
    """

    entry: ReleaseCharged
    rows_per_person: int
    unit: DatasetUnit
    part: int | None
    digest: str
    inputs: bytes
    output: Output
    software: str
    facts: Mapping[str, Any] = field(hash=False)


class Gate:
    """One release on its way.

    Args:
        plan: what is fixed of it.
        ledger: open for writing.
        folder: the release's folder in the private store, locked by this process.
        randomness: n to n secret bytes, for keys and for coins that aren't of the sampling.
        place_of: gives the place that a text names.

    Raises:
        TypeError: the ledger or the folder is of another class.
    """

    __slots__ = ("_entry", "_folder", "_ledger", "_place_of", "_plan", "_protected", "_randomness", "_receipt", "_step")

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("there is one gate")

    def __init__(
        self,
        plan: Plan,
        *,
        ledger: ReleaseWriter,
        folder: ReleaseFolder,
        randomness: Randomness,
        place_of: Callable[[str], Output],
    ) -> None:
        # Exact classes: a subclass could answer one thing when it is checked, and another when it is used.
        if not (type(plan) is Plan and type(folder) is ReleaseFolder and issubclass(type(ledger), ReleaseWriter)):
            raise TypeError("a gate takes a plan, a folder of the private store and a ledger")
        self._plan = plan
        self._ledger = ReleaseWriter.over(ledger)
        self._folder = folder
        self._randomness = randomness
        self._place_of = place_of
        self._step = Step.PLANNED
        self._receipt: Receipt | None = None
        self._entry: ReleaseCharged | None = None
        self._protected: Protected | None = None

    def __reduce_ex__(self, _: SupportsIndex) -> NoReturn:
        raise TypeError("a gate is neither copied nor stored")

    def _enter(self, before: Step, after: Step) -> Self:
        """Take a step, which is then taken whatever becomes of it.

        Raises:
            ReleaseFailed: another one is due.
        """
        if self._step is not before:
            raise ReleaseFailed(
                f"the release is {self._step.name.lower().replace('_', ' ')}, and another step of it is due."
            )
        self._step = after
        return self

    @property
    def plan(self) -> Plan:
        """What is fixed of it."""
        return self._plan

    @property
    def receipt(self) -> Receipt:
        """The receipt of its charge; `ReleaseFailed` where it isn't charged."""
        if self._receipt is None:
            raise ReleaseFailed("the release isn't charged.")
        return self._receipt

    @property
    def entry(self) -> ReleaseCharged:
        """The charge as the ledger has it; `ReleaseFailed` where there is none."""
        if self._entry is None:
            raise ReleaseFailed("the release isn't charged.")
        return self._entry

    def charge(self) -> Receipt:
        """Reserve the cost and the sample in one transaction.

        Raises:
            AccountantRefused: over budget, no place in the series, id or sample used, or the ledger behind its anchor.
            ReleaseFailed: the id was charged already; or the ledger failed, so that the charge may be in it.
            ValueError: a fact has a name that the gate itself remembers by.
        """
        self._enter(Step.PLANNED, Step.CHARGED)
        plan, folder = self._plan, self._folder
        remembered = {**plan.facts, **self._binding}
        if "published" in remembered:
            raise ValueError("what is published is remembered when it is staged")
        # INVARIANT: this holds the ledger against its anchor: one that was set back may have forgotten that this sample
        # was read, so no key is destroyed before. It takes the writers' lock too: a charge of this id whose connection
        # was lost in the middle of its commit is in the ledger by now, or never will be.
        if self._ledger.has_release(plan.entry.release_id):
            raise ReleaseFailed(
                "this release was charged meanwhile, by an attempt that lost the database.", not_done=""
            )
        # A key whose release was never charged has drawn nothing, so a new one may replace it. The new key is durable
        # before the ledger knows its sample: the other way round a crash could leave a charge whose key is lost.
        folder.destroy_key()
        folder.forget_draws()
        entry = replace(plan.entry, sample_id=sample_commitment(folder.key.create(self._randomness).load()))
        if isinstance(entry, ReleaseChargedTwoSamples):
            other = sample_commitment(folder.selection_key.create(self._randomness).load())
            entry = replace(entry, selection_sample_id=other)
        # INVARIANT: the rules look at what is recorded, and not at an object that could answer otherwise.
        recorded = entry_of_bytes(bytes_of_entry(entry))
        if not isinstance(recorded, ReleaseCharged):
            raise TypeError("a release is charged by an entry of a charge")
        # Before the charge: a charged release without these facts couldn't be resumed, while facts of one that was
        # never charged are replaced by the next attempt.
        folder.remember(remembered)
        try:
            self._receipt = self._ledger.charge(
                recorded, rows_per_person=plan.rows_per_person, unit=plan.unit, part=plan.part
            )
        except AccountantRefused:
            # After a refusal alone: a lost connection may have left the charge in the ledger, which needs its key.
            folder.destroy_key()
            raise
        self._entry = self._ledger.charged(self._receipt)
        return self._receipt

    @property
    def _binding(self) -> dict[str, str]:
        """What a retry must find as it was at the charge."""
        plan = self._plan
        return {
            "inputs": self._folder.fingerprint(plan.inputs),
            "output": str(plan.output),
            "software": plan.software,
        }

    def resume(self) -> tuple[str, ...]:
        """Take up a release that was charged before and cut off.

        Returns:
            What has changed since its charge, in words; where anything has, nothing more can be done with this gate.

        Raises:
            AccountantRefused: it was never charged, or can't change any more.
        """
        self._enter(Step.PLANNED, Step.CHARGED)
        receipt, entry = self._ledger.charged_before(self._plan.entry.release_id)
        charge, folder, remembered = self._plan.entry, self._folder, self._folder.remembered()
        # Once bytes are staged nothing is read or computed any more, and other software may bring them into view.
        staged = "published" in remembered
        differs = {
            "the software's version": entry.code_version != charge.code_version,
            "the software or a library of it": not staged and remembered.get("software") != self._binding["software"],
            "the sampler's layout": entry.sampler_layout != charge.sampler_layout,
            "the input files": not staged and remembered.get("inputs") != self._binding["inputs"],
            "the output's place": remembered.get("output") != self._binding["output"],
            "the sampling key": _is_lost(folder.key, receipt.sample_id),
            "the selection's sampling key": _is_lost(folder.selection_key, receipt.selection_sample_id),
        }
        changed = tuple(what for what, is_so in differs.items() if is_so)
        if changed or entry.spec_digest != charge.spec_digest:
            self._step = Step.CLOSED
            return changed or ("the specification",)
        self._receipt, self._entry = receipt, entry
        return ()

    def remembered(self) -> StagedRelease | None:
        """Return the release whose bytes an earlier attempt has made durable, which is then staged; else None."""
        release = self._known()
        if release is not None:
            self._enter(Step.CHARGED, Step.STAGED)
        return release

    def read(self) -> None:
        """Make durable that records are about to be read, in the ledger and its anchor: the cost is spent for ever.

        Raises:
            ReleaseFailed: an earlier attempt has made its bytes durable, which are what is published.
        """
        self._enter(Step.CHARGED, Step.READING)
        if self._known() is not None:
            raise ReleaseFailed("the release is staged already, and its sample serves once.")
        self._ledger.mark_reading(self.receipt)

    def exact(
        self,
        counting: Counting,
        *,
        blocks: Sequence[Block],
        counted: Callable[[JobOf, KeyRef | None], BlockCounts],
        unchanged: Callable[[], None],
        on_selection_sample: bool = False,
    ) -> ExactCounts:
        """Count the records of every group that has any: of a fresh sample, or all; of each person at most so many.

        Args:
            counting: how.
            blocks: of the records, as they were listed.
            counted: runs the job that it is given on the workers, and adds up what they count.
            unchanged: refuses files that have changed since they were listed.
            on_selection_sample: whether the sample is that which a map is chosen on.

        Raises:
            ReleaseFailed: the records can't be read, were changed meanwhile, are not all counted or twice, or the
                workers were lost.
        """
        if self._step is not Step.READING:
            raise ReleaseFailed("records are counted after it is recorded that they are read, and before protection.")
        if type(counting) is not Counting or type(counting.layout) is not KeyLayout:
            raise TypeError("records are counted as the kernel's own values say")
        self._require_charged_unit(counting)
        receipt, folder = self.receipt, self._folder
        key, sample = folder.key, receipt.sample_id
        if on_selection_sample:
            key, sample = folder.selection_key, str(receipt.selection_sample_id)
        unused = counting.rate is None and counting.limit is None

        def job_of(delivered: KeySource | None) -> CountJob:
            return CountJob(
                release_id=receipt.release_id,
                token=uuid.uuid4().hex,
                sample_id=None if unused else sample,
                layout=counting.layout,
                rate=counting.rate,
                source=counting.source,
                key_source=None if unused else delivered or key,
                limit=counting.limit,
                units=counting.units,
            )

        total = counted(job_of, None if unused else key)
        require_every_block(total.blocks, blocks)
        counting.layout.require_keys(total.counts.keys)
        unchanged()  # last, so that a file that was changed while it was read is noticed too
        of = Counted(receipt, counting.layout.sizes, counting.rate, selection=on_selection_sample)
        if counting.rates is None or on_selection_sample:
            return seal_counts(total.counts, of=of)
        kind = import_module("...mechanisms.kinds.biased_sampling", __package__)  # of releases with such a column alone
        thinning, coins = kind.Thinning(layout=counting.layout, rates=counting.rates), kind.inclusion_coins
        thinned = thinning.thinned(total.counts, randomness=coins(folder.key.load()))
        return seal_counts(thinned, of=of._replace(sizes=thinning.kept.sizes))

    def _require_charged_unit(self, counting: Counting) -> None:
        """Refuse a count of more records of a person than its price covers, or of another unit than was charged."""
        limit, plan = counting.limit, self._plan
        name, column = (RECORD, None) if limit is None else (limit.unit, limit.column)
        covered = limit is None or limit.records <= plan.rows_per_person
        if not covered or (name, column) != (plan.unit.name, plan.unit.column):
            raise ReleaseFailed("records would be counted by another unit, or more of one, than was charged.")

    @property
    def _rate(self) -> Decimal | None:
        """Rate of the sample that was charged; None where every record is counted."""
        mechanism = self.entry.decoded_mechanism
        return kind_of(mechanism).sampling_rate(mechanism)

    def totals(self, added_up: Callable[[], Any]) -> ExactCounts:
        """Return totals of reports, which their devices have protected, sealed as exact counts are.

        Args:
            added_up: adds the reports up on the workers.

        Raises:
            ReleaseFailed: it isn't recorded that the reports are read; or they can't be read.
        """
        if self._step is not Step.READING:
            raise ReleaseFailed("reports are added up after it is recorded that they are read.")
        return seal_counts(added_up(), of=self._totals)

    @property
    def _totals(self) -> Counted:
        return Counted(self.receipt, None, None, selection=False)

    def choose(
        self, draw: StoredDraw, *, exact: Callable[[], ExactCounts], by: Callable[[GroupCounts], Sequence[int]]
    ) -> tuple[int, ...]:
        """Return the levels of a map that was drawn: those that are stored, or drawn now and stored.

        Args:
            draw: where they are stored.
            exact: counts by the finest map; not called where levels are stored.
            by: the exponential mechanism that was charged.

        Raises:
            ReleaseFailed: no choice was charged, or the counts are of another sample than it was charged for.
        """
        mechanism = self.entry.decoded_mechanism
        selection = kind_of(mechanism).selection
        if selection is None or draw.name == NOISE:
            raise ReleaseFailed("a choice of the map has not been paid for.")
        rate = selection(mechanism).rate

        def made() -> Sequence[int]:
            return by(opened_for_choice(exact(), receipt=self.receipt, rate=rate))

        return tuple(int(level) for level in draw_once(draw, made, folder=self._folder))

    def protect(self, by: Protection[Any, Any], *, exact: Callable[[], ExactCounts]) -> None:
        """Protect exact counts, or take the draw that an earlier attempt has stored.

        PRIVACY: where noise is drawn its result is stored before it is used, and a retry takes it: it is what is
        published. An attempt that ends before has given nothing away.

        Args:
            by: the protection, of the mechanism that was charged.
            exact: counts; not called where a draw is stored.

        Raises:
            ReleaseFailed: it protects by another mechanism; or as `exact`; or the draw can't be stored.
        """
        charged, of = self.entry.decoded_mechanism, self._totals
        if charged.kind not in _REPORTS:
            of = Counted(self.receipt, by.layout.sizes, self._rate, selection=False)

        def once(make: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the kind's protection gives
            if not by.drawn:
                return make()
            draw = noise_draw(self._plan.digest, fits=by.fits, sample_id=self.receipt.sample_id)
            return draw_once(draw, make, folder=self._folder)

        protected = protect(exact, by, charged=charged, of=of, randomness=self._randomness, once=once)
        self._enter(Step.READING, Step.PROTECTED)  # only now: `exact` counts while the step is that of reading
        self._protected = protected

    def stage(self, render: Callable[[Path, Any], Rendered]) -> StagedRelease:
        """Write the release's files where nobody looks yet, and remember them durably.

        Args:
            render: writes every file into the folder that it is given, from the protected result.
        """
        self._enter(Step.PROTECTED, Step.STAGED)
        if self._protected is None:
            raise ReleaseFailed("nothing is protected.")
        return stage_release(
            self._protected,
            output=self._plan.output,
            sample_id=self.receipt.sample_id,
            day=self.entry.day,
            folder=self._folder,
            render=render,
        )

    def publish(self) -> None:
        """Bring what was staged into view in one step.

        Raises:
            ReleaseFailed: something else is in its place, or its bytes are not what they were.
        """
        self._enter(Step.STAGED, Step.IN_VIEW)
        release = self._staged()
        bring_into_view(release.staged, release.output)

    def close(self) -> None:
        """Record that the release is published, then destroy its sampling keys."""
        self._enter(Step.IN_VIEW, Step.CLOSED)
        # The key goes last: until the ledger has recorded the end, a release that was cut off needs it to be resumed.
        self._ledger.mark_published(self.receipt, self._staged().staged.hashes)
        self._folder.destroy_key()

    def _staged(self) -> StagedRelease:
        """Return what was staged, as the private store remembers it."""
        release = self._known()
        if release is None:
            raise ReleaseFailed("nothing is staged.")
        return release

    def _known(self) -> StagedRelease | None:
        release = remembered_release(self._folder, place_of=self._place_of)
        if release is not None and release.sample_id != self.receipt.sample_id:
            raise ReleaseFailed("what is staged is of another sample than was charged.")
        return release


def _is_lost(key: KeyRef, sample_id: str | None) -> bool:
    """Return whether the key of a sample that was taken is gone, or another one."""
    return sample_id is not None and (not key.exists() or sample_commitment(key.load()) != sample_id)
