"""The stages that see records: what comes back from the workers is counts, and what leaves may be published.

Joint counts, scores and the draw of a map stay in this process; the draw is stored, then used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...accounting.kernel.keys.private_store import KeyRef, ReleaseFolder
from ...accounting.kernel.ledger.ledger_state import Receipt
from ...accounting.kernel.prices.mechanism_kind import Selection
from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.kernel.group_counts import GroupCounts
from ...mechanisms.kernel.protection import Numbers, Protection
from ...mechanisms.map_selection.choice import Levels, MapChoice, draw_map, walk
from ...mechanisms.map_selection.rollup import scorer, scores
from ..counting.executors import DaskCluster, Executor, OnProgress
from ..counting.group_counting import block_counts, counting_of
from ..inputs.source import SourceLayout, plan_chunks
from ..kernel.counting import BlockCounts, Counting, KeySource
from ..kernel.draws import StoredDraw, load_draw, store_draw
from ..kernel.gate import Gate, JobOf
from ..kernel.protected import ExactCounts
from ..readers.source_files import require_as_listed
from ..readers.values import RecordReading
from ..request import Request
from .stage import stage

if TYPE_CHECKING:
    from ...mechanisms.kernel.contributions import ContributionLimit
    from ...mechanisms.unit_records import UnitRule


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseWork:
    """A release that is paid for, and what its stages work with.

    Args:
        gate: of the release; what is counted and protected goes through it.
        layout: the files of the records.
        folder: the release's folder in the private store.
        executor: where the work is done.
        on_progress: called with the progress; for the steward's terminal alone.
    """

    gate: Gate
    layout: SourceLayout
    folder: ReleaseFolder
    executor: Executor
    on_progress: OnProgress

    @property
    def receipt(self) -> Receipt:
        """Proof that it is paid for; the samples are those that it names."""
        return self.gate.receipt


@stage("count")
def count_stage(*, work: ReleaseWork, count: Callable[[], ExactCounts], protection: Protection[Any, Any]) -> None:
    """Count and protect the counts, whatever the kind of the release.

    PRIVACY: exact counts go from the count to the protection and nowhere else, both inside the gate.

    Raises:
        ReleaseFailed: the records can't be read or were changed meanwhile, the workers were lost, or the draw can't be
            stored.
    """
    work.gate.protect(protection, exact=count)


def exact_counts(work: ReleaseWork, *, counting: Counting, on_selection_sample: bool = False) -> ExactCounts:
    """Count the records of every group that has any: of a fresh sample, or all; of each person at most so many.

    PRIVACY: counts of files that were changed or exchanged while they were read may have a person twice: they are
    never protected (docs/decisions/0023-bound-readings.md).

    Raises:
        ReleaseFailed: the records can't be read, or the workers were lost.
    """
    chunks = plan_chunks(work.layout)

    def counted(job_of: JobOf, key: KeyRef | None) -> BlockCounts:
        with key_source_at(key, work.executor) as key_source:
            return block_counts(chunks, job=job_of(key_source), executor=work.executor, on_progress=work.on_progress)

    return work.gate.exact(
        counting,
        blocks=chunks,
        counted=counted,
        unchanged=partial(require_as_listed, work.layout.source.files),
        on_selection_sample=on_selection_sample,
    )


@contextmanager
def key_source_at(key: KeyRef | None, executor: Executor) -> Iterator[KeySource | None]:
    """Where tasks find a key: in the private store, or where there are other machines, in their memory."""
    if key is None or not isinstance(executor, DaskCluster):
        yield key
        return
    from ..counting.key_delivery import delivered_key  # it loads `distributed`, which one machine alone does without

    with delivered_key(executor.client, key) as delivered:
        yield delivered


@stage("select")
def drawn_chain(
    *,
    choice: MapChoice,
    selection: Selection,
    reading: RecordReading,
    limit: ContributionLimit | None,
    unit_rule: UnitRule | None,
    work: ReleaseWork,
) -> tuple[GeneralizationMap, ...]:
    """Draw the map or chain of maps ε₁-privately and store the draw, or take the one that is stored already.

    PRIVACY: the choice is made on the whole data with opendp's own coins, or on a fresh sample that serves nothing
    else; never on the release's sample. The stored draw is the map that is published. Counts and scores are given to
    nobody and kept nowhere; an attempt that ends before its draw is stored has given nothing away, so that the next
    one may draw (docs/decisions/0007-drawn-maps.md).

    Returns:
        The map of each stage, the finest first: one, but for a chain.

    Raises:
        ReleaseFailed: the records can't be read, the workers were lost, or the draw can't be stored.
    """

    finest = choice.lattice.map_of(choice.lattice.finest)
    counting = counting_of(finest, reading=reading, rate=selection.rate, limit=limit, unit_rule=unit_rule)
    # PRIVACY: on the whole data the release's key chooses the records of each person, and draws no coin.
    levels = work.gate.choose(
        map_draw(choice, sample_id=work.receipt.sample_id),
        exact=lambda: exact_counts(work, counting=counting, on_selection_sample=selection.rate is not None),
        by=lambda counts: _drawn(counts, choice=choice, selection=selection, work=work),
    )
    return choice.lattice.chain_of(levels)


def _drawn(counts: GroupCounts, *, choice: MapChoice, selection: Selection, work: ReleaseWork) -> Levels:
    """One draw over all candidates, or the last of a walk, of which each is stored before the next depends on it."""
    lattice, epsilon, threshold = choice.lattice, selection.epsilon, selection.threshold
    if choice.draw != "walk":
        if lattice.stages > 1:
            from ...mechanisms.map_selection.chains import chain_scores  # of deletion releases alone

            scored = chain_scores(counts, lattice=lattice, threshold=threshold, on_progress=work.on_progress)
        else:
            scored = scores(counts, lattice=lattice, threshold=threshold, on_progress=work.on_progress)
        return lattice.levels_of(draw_map(scored, epsilon=epsilon, rule=choice.draw))
    steps = choice.steps or 0

    def step(number: int) -> StoredDraw:
        return map_draw(choice, sample_id=work.receipt.sample_id, step=number)

    taken: list[Levels] = []
    while (levels := load_draw(step(len(taken)), folder=work.folder)) is not None:
        taken.append(tuple(levels))

    def keep(levels: Levels) -> None:
        store_draw(step(len(taken)), levels, folder=work.folder)
        taken.append(levels)
        work.on_progress(len(taken), steps)

    score_of = scorer(counts, lattice=lattice, threshold=threshold)
    return walk(score_of, lattice=lattice, epsilon=epsilon, steps=steps, taken=tuple(taken), keep=keep)


def map_draw(choice: MapChoice, *, sample_id: str, step: int | None = None) -> StoredDraw:
    """Return where the levels of a drawn map stand, one a column.

    Args:
        step: number of a walk's step, from 0; None for the map itself.
    """

    def fits(levels: Numbers) -> bool:
        try:
            choice.lattice.index_of(tuple(levels))
        except ValueError:
            return False
        return True

    return StoredDraw(
        name="map" if step is None else f"map-step-{step}",
        field="levels",
        what="the map in the private store was",
        again="It is",
        drawn_for={"lattice": choice.digest(), "sample_id": sample_id},
        fits=fits,
    )


def load_map(request: Request, *, folder: ReleaseFolder, sample_id: str) -> GeneralizationMap | None:
    """Return the map of a release: the fixed one, or the one that was drawn; None where it is still to be drawn.

    Of a chain that was drawn it is the first, the finest.

    Raises:
        ReleaseFailed: what is stored is damaged, or was drawn for something else.
    """
    if isinstance(request.recoding, GeneralizationMap):
        return request.recoding
    levels = load_draw(map_draw(request.recoding, sample_id=sample_id), folder=folder)
    return None if levels is None else request.recoding.lattice.chain_of(tuple(levels))[0]


@stage("copy")
def copied_records(*, request: Request, receipt: Receipt, folder: ReleaseFolder) -> Path:
    """Return the copy's file in the release's private folder, made where no attempt has completed it.

    INVARIANT: nothing is counted before the keyed hash of the copy is durable, and later attempts read what has this
    hash, or nothing. A copy that was cut off has decided nothing and is made anew.

    Raises:
        ReleaseFailed: the records can't be copied, or the copy is gone or another one.
    """
    if request.query is None:
        raise TypeError("files are read where they are")
    del receipt
    known = folder.remembered().get("copy")
    if known is None:
        folder.destroy_copy()
        names = [column.name for column in request.source_columns]
        names += [] if request.limit is None else [request.limit.column]
        request.query.read_by.copy(request.query, columns=names, path=folder.copy)
        folder.remember({"copy": folder.fingerprint(_digest(folder.copy))})
    elif known != folder.fingerprint(_digest(folder.copy)):
        raise _lost("was changed")
    return folder.copy


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise _lost(f"can't be read ({error.strerror})") from None


def _lost(what: str) -> ReleaseFailed:
    return ReleaseFailed(
        f"the private copy of the database's records {what}.",
        remedy="They are never read again for this release, which can only be abandoned: `crowdblend abandon`.",
    )
