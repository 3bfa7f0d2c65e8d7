"""The stage that draws the map: joint counts, scores and draw stay in this process; the draw is stored, then used."""

from __future__ import annotations

from ...mechanisms.map_selection.draw import MapChoice, draw_map, walk
from ...mechanisms.map_selection.lattice import Levels, group_threshold
from ...mechanisms.map_selection.rollup import scorer, scores
from ...mechanisms.microdata import EpsilonSafeRelease
from ...mechanisms.recoding import GeneralizationMap
from ...mechanisms.suppression import GroupCounts
from ..readers.values import RecordReading
from .count import ReleaseWork, exact_counts
from .draw_once import StoredDraw, draw_once, load_draw, map_draw, store_draw
from .stage import stage

__all__ = ["drawn_map"]


@stage("select")
def drawn_map(
    *, choice: MapChoice, mechanism: EpsilonSafeRelease, reading: RecordReading, work: ReleaseWork
) -> GeneralizationMap:
    """Draw the map ε₁-privately and store the draw, or take the one that an earlier attempt has stored.

    PRIVACY: the choice is made on the whole data with opendp's own coins, or on a fresh sample that serves nothing
    else; never on the release's sample. The stored draw is the map that is published. Counts and scores are given to
    nobody and kept nowhere; an attempt that ends before its draw is stored has given nothing away, so that the next
    one may draw (docs/decisions/0007-drawn-maps.md).

    Args:
        choice: the candidates and the draw.
        mechanism: what is paid for.
        reading: how the records are read.
        work: the release; a choice on a fresh sample is made on the one that its receipt names.

    Raises:
        ReleaseFailed: the records can't be read, the workers were lost, or the draw can't be stored.
    """

    def drawn() -> Levels:
        counts = exact_counts(
            work,
            generalization=choice.lattice.map_of(choice.lattice.finest),
            reading=reading,
            rate=mechanism.selection_rate,
            key=work.folder.selection_key,
            sample_id=work.receipt.selection_sample_id,
        )
        return _drawn(counts, choice=choice, mechanism=mechanism, work=work)

    draw = map_draw(choice, sample_id=work.receipt.sample_id)
    return choice.lattice.map_of(draw_once(draw, drawn, folder=work.folder))


def _drawn(counts: GroupCounts, *, choice: MapChoice, mechanism: EpsilonSafeRelease, work: ReleaseWork) -> Levels:
    """One draw over all candidates, or the last of a walk, of which each is stored before the next depends on it."""
    lattice, epsilon = choice.lattice, mechanism.selection_epsilon
    threshold = group_threshold(mechanism.k, mechanism.sampling_rate, mechanism.selection_rate)
    if choice.draw != "walk":
        scored = scores(counts, lattice=lattice, threshold=threshold, on_progress=work.on_progress)
        return lattice.levels_of(draw_map(scored, epsilon=epsilon, rule=choice.draw))
    steps = choice.steps or 0

    def step(number: int) -> StoredDraw:
        return map_draw(choice, sample_id=work.receipt.sample_id, step=number)

    taken: list[Levels] = []
    while (levels := load_draw(step(len(taken)), folder=work.folder)) is not None:
        taken.append(levels)

    def keep(levels: Levels) -> None:
        store_draw(step(len(taken)), levels, folder=work.folder)
        taken.append(levels)
        work.on_progress(len(taken), steps)

    score_of = scorer(counts, lattice=lattice, threshold=threshold)
    return walk(score_of, lattice=lattice, epsilon=epsilon, steps=steps, taken=tuple(taken), keep=keep)
