"""The stage that draws the map: joint counts, scores and draw stay in this process; the draw is stored, then used."""

from __future__ import annotations

from ..accounting.ledger.charge import Receipt
from ..accounting.ledger.keystore import ReleaseFolder
from ..mechanisms.epsilon_safe import EpsilonSafeRelease
from ..mechanisms.lattice import Levels
from ..mechanisms.map_choice import MapChoice
from ..mechanisms.quality import group_threshold
from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.refusal import ReleaseFailed
from ..mechanisms.scoring import scorer, scores
from ..mechanisms.selection import draw_map, walk
from ..mechanisms.suppression import GroupCounts
from .chunks import plan_chunks
from .count import count_job
from .executors import Advanced, Executor
from .lattice_counts import joint_counts
from .request import MicrodataRequest
from .sampled_counts import key_source_at
from .settled_map import settle_map, settled_map, settled_steps
from .source import SourceLayout
from .stage import stage

__all__ = ["drawn_map"]


@stage("select")
def drawn_map(
    *,
    receipt: Receipt,
    request: MicrodataRequest,
    choice: MapChoice,
    layout: SourceLayout,
    folder: ReleaseFolder,
    executor: Executor,
    advanced: Advanced,
) -> GeneralizationMap:
    """Draw the map ε₁-privately and store the draw, or take the one that an earlier attempt has stored.

    PRIVACY: the choice is made on the whole data with opendp's own coins, or on a fresh sample that serves nothing
    else; never on the release's sample. The stored draw is the map that is published. Counts and scores are given to
    nobody and kept nowhere; an attempt that ends before its draw is stored has given nothing away, so that the next
    one may draw (docs/decisions/0007-drawn-maps.md).

    Args:
        receipt: proof that the release is paid for; a choice on a fresh sample is made on the one that it names.
        request: what is asked for.
        choice: its candidates and draw.
        layout: the files of the records.
        folder: the release's folder in the private store.
        executor: where the counting is done.
        advanced: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records can't be read, the workers were lost, or the draw can't be stored.
    """
    settled = settled_map(request, folder=folder, sample_id=receipt.sample_id)
    if settled is not None:
        return settled
    mechanism = request.mechanism
    if not isinstance(mechanism, EpsilonSafeRelease):
        raise ReleaseFailed("a choice of the map has not been paid for.")
    whole = mechanism.selection_rate is None
    with key_source_at(None if whole else folder.selection_key, executor) as key_source:
        job = count_job(
            release_id=receipt.release_id,
            sample_id=receipt.selection_sample_id,
            generalization=choice.lattice.map_of(choice.lattice.finest),
            rate=mechanism.selection_rate,
            reading=request.reading,
            key_source=key_source,
        )
        counts = joint_counts(plan_chunks(layout), job=job, executor=executor, advanced=advanced)
    levels = _drawn(counts, choice=choice, mechanism=mechanism, receipt=receipt, folder=folder, advanced=advanced)
    # INVARIANT: durable before it is used; what follows takes the stored draw and no other.
    settle_map(levels, choice=choice, folder=folder, sample_id=receipt.sample_id)
    settled = settled_map(request, folder=folder, sample_id=receipt.sample_id)
    if settled is None:
        raise ReleaseFailed("the map that was drawn is not in the private store.")
    return settled


def _drawn(
    counts: GroupCounts,
    *,
    choice: MapChoice,
    mechanism: EpsilonSafeRelease,
    receipt: Receipt,
    folder: ReleaseFolder,
    advanced: Advanced,
) -> Levels:
    """One draw over all candidates, or the last of a walk, of which each is stored before the next depends on it."""
    lattice, epsilon = choice.lattice, mechanism.selection_epsilon
    threshold = group_threshold(mechanism.k, mechanism.sampling_rate, mechanism.selection_rate)
    if choice.draw != "walk":
        scored = scores(counts, lattice=lattice, threshold=threshold, advanced=advanced)
        return lattice.levels_of(draw_map(scored, epsilon=epsilon, rule=choice.draw))
    steps = choice.steps or 0
    taken = list(settled_steps(choice, folder=folder, sample_id=receipt.sample_id))

    def keep(levels: Levels) -> None:
        settle_map(levels, choice=choice, folder=folder, sample_id=receipt.sample_id, step=len(taken))
        taken.append(levels)
        advanced(len(taken), steps)

    score_of = scorer(counts, lattice=lattice, threshold=threshold)
    return walk(score_of, lattice=lattice, epsilon=epsilon, steps=steps, taken=tuple(taken), keep=keep)
