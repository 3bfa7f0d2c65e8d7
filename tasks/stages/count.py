"""The stages that see records: what comes back from the workers is counts, and what leaves may be published.

Joint counts, scores and the draw of a map stay in this process; the draw is stored, then used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from ...accounting.kernel.keys.private_store import KeyRef, ReleaseFolder
from ...accounting.kernel.ledger.charge import Receipt
from ...accounting.kernel.prices.mechanism_kind import Selection
from ...mechanisms.kernel.group_counts import GroupCounts
from ...mechanisms.kernel.mechanism import Randomness
from ...mechanisms.kernel.protection import Protection
from ...mechanisms.map_selection.choice import Levels, MapChoice, draw_map, walk
from ...mechanisms.map_selection.rollup import scorer, scores
from ...mechanisms.recoding import GeneralizationMap
from ..counting.chunks import plan_chunks
from ..counting.executors import DaskCluster, Executor, OnProgress
from ..counting.group_counts import count_job, group_counts
from ..inputs.files import require_as_listed
from ..inputs.list import SourceLayout
from ..kernel.counting import KeySource
from ..kernel.draws import StoredDraw, draw_once, load_draw, map_draw, store_draw
from ..kernel.protected import ExactCounts, Protected, protect, seal_counts
from ..readers.values import RecordReading
from .stage import stage

if TYPE_CHECKING:
    from ...mechanisms.kernel.contributions import ContributionLimit

__all__ = ["ReleaseWork", "count_stage", "drawn_chain", "exact_counts", "key_source_at"]

Exact = TypeVar("Exact")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseWork:
    """A release that is paid for, and what its stages work with.

    Args:
        receipt: proof that it is paid for; the samples are those that it names.
        layout: the files of the records.
        folder: the release's folder in the private store.
        executor: where the work is done.
        randomness: n to n secret bytes, for coins that aren't of the sampling; OpenDP draws noise by itself.
        on_progress: called with the progress; for the steward's terminal alone.
    """

    receipt: Receipt
    layout: SourceLayout
    folder: ReleaseFolder
    executor: Executor
    randomness: Randomness
    on_progress: OnProgress


@stage("count")
def count_stage(
    *,
    work: ReleaseWork,
    count: Callable[[], Exact],
    protection: Protection[Exact, Any],
    draw: StoredDraw | None,
) -> Protected:
    """Count, protect the counts, and return what may be published, whatever the kind of the release.

    PRIVACY: exact counts go from `count` to the protection and nowhere else. Where noise is drawn its result is stored
    before it is used, and a retry takes it: it is what is published. An attempt that ends before has given nothing
    away. Counts of files that were changed or exchanged while they were read may have a person twice: they are
    never protected (docs/decisions/0023-bound-readings.md).

    Args:
        work: the release.
        count: counts the records exactly.
        protection: gives of exact counts what may be published: suppressed, or with noise.
        draw: where the noisy numbers stand; None where nothing is drawn, so that a retry gives the same.

    Raises:
        ReleaseFailed: the records can't be read or were changed meanwhile, the workers were lost, or the draw can't be
            stored.
    """

    def exact() -> ExactCounts:
        counts = count()
        require_as_listed(work.layout.source.files)
        return seal_counts(counts)

    def once(make: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the kind's protection gives
        return make() if draw is None else draw_once(draw, make, folder=work.folder)

    return protect(exact, protection, randomness=work.randomness, once=once)


def exact_counts(
    work: ReleaseWork,
    *,
    generalization: GeneralizationMap,
    reading: RecordReading,
    rate: Decimal | None,
    key: KeyRef,
    sample_id: str | None,
    limit: ContributionLimit | None,
) -> GroupCounts:
    """Count the records of every group that has any: of a fresh sample, or all; of each person at most so many.

    PRIVACY: the result has every small group.

    Args:
        work: the release.
        generalization: the map that gives a record its group.
        reading: how the records are read.
        rate: of the sample; None counts every record.
        key: the sample's key in the private store; not used where there is neither a rate nor a limit.
        sample_id: commitment to the sample, as the receipt names it.
        limit: how many records of a person count, chosen by the key; None where all do.

    Raises:
        ReleaseFailed: the records can't be read, or the workers were lost.
    """
    unused = rate is None and limit is None
    with key_source_at(None if unused else key, work.executor) as key_source:
        job = count_job(
            release_id=work.receipt.release_id,
            sample_id=None if unused else sample_id,
            generalization=generalization,
            rate=rate,
            reading=reading,
            key_source=key_source,
            limit=limit,
        )
        chunks = plan_chunks(work.layout)
        if limit is not None:
            from ..counting.person_counts import person_counts  # of releases with such a limit alone

            return person_counts(chunks, job=job, executor=work.executor, on_progress=work.on_progress)
        return group_counts(chunks, job=job, executor=work.executor, on_progress=work.on_progress)


@contextmanager
def key_source_at(key: KeyRef | None, executor: Executor) -> Iterator[KeySource | None]:
    """Where tasks find a key: in the private store, or where there are other machines, in their memory.

    Args:
        key: in the private store; None where every record is counted, for which there is no key.
        executor: where the tasks run.
    """
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
    work: ReleaseWork,
) -> tuple[GeneralizationMap, ...]:
    """Draw the map or chain of maps ε₁-privately and store the draw, or take the one that is stored already.

    PRIVACY: the choice is made on the whole data with opendp's own coins, or on a fresh sample that serves nothing
    else; never on the release's sample. The stored draw is the map that is published. Counts and scores are given to
    nobody and kept nowhere; an attempt that ends before its draw is stored has given nothing away, so that the next
    one may draw (docs/decisions/0007-drawn-maps.md).

    Args:
        choice: the candidates and the draw.
        selection: what is paid for, as the kind of the mechanism has it.
        reading: how the records are read.
        limit: how many records of a person count; None where all do.
        work: the release; a choice on a fresh sample is made on the one that its receipt names.

    Returns:
        The map of each stage, the finest first: one, but for a chain.

    Raises:
        ReleaseFailed: the records can't be read, the workers were lost, or the draw can't be stored.
    """

    # PRIVACY: on the whole data the release's key chooses the records of each person, and draws no coin.
    whole = selection.rate is None

    def drawn() -> Levels:
        counts = exact_counts(
            work,
            generalization=choice.lattice.map_of(choice.lattice.finest),
            reading=reading,
            rate=selection.rate,
            key=work.folder.key if whole else work.folder.selection_key,
            sample_id=work.receipt.sample_id if whole else work.receipt.selection_sample_id,
            limit=limit,
        )
        require_as_listed(work.layout.source.files)
        return _drawn(counts, choice=choice, selection=selection, work=work)

    draw = map_draw(choice, sample_id=work.receipt.sample_id)
    return choice.lattice.chain_of(tuple(draw_once(draw, drawn, folder=work.folder)))


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
