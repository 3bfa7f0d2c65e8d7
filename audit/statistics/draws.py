"""Runs audits in blocks on two processes: resumable after any interruption, with a progress bar."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .cases import Case
from .confidence import Counts, Event, chosen_event

__all__ = ["Audited", "State", "all_cases", "audit", "shown_progress"]

SCOUT, COUNT = 0, 1
_SAVE_EVERY = 5.0


@dataclass(frozen=True, kw_only=True)
class Audited:
    """The draws of one case: which pair and event were chosen, and what was then counted."""

    case: Case
    pair: int
    event: Event
    counts: tuple[Counts, Counts]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some draws of one neighbour, reproducible by these numbers alone where the mechanism takes a seed."""

    case: str
    pair: int
    side: int
    phase: int
    number: int
    draws: int

    @property
    def key(self) -> str:
        return f"{self.phase}/{self.pair}/{self.side}/{self.number}"

    def seed(self) -> np.random.SeedSequence:
        name = zlib.crc32(self.case.encode())
        return np.random.SeedSequence([name, self.pair, self.side, self.phase, self.number])


class State:
    """What is known of one case, in a file; blocks that were drawn by other sources are forgotten.

    Args:
        folder: where the files lie.
        case: the case.
        sources: digest of the audited sources and of the bench.
    """

    def __init__(self, folder: Path, case: Case, sources: str) -> None:
        self._path = folder / f"{case.name}.json"
        about = [case.claim, case.delta, case.scouts, case.draws, case.block, [pair.name for pair in case.pairs]]
        self._digest = hashlib.sha256(json.dumps([sources, about]).encode()).hexdigest()
        self.blocks: dict[str, Counts] = {}
        if self._path.exists():
            kept = json.loads(self._path.read_text())
            if kept["digest"] == self._digest:
                self.blocks = {key: np.array(counts, dtype=np.int64) for key, counts in kept["blocks"].items()}

    def save(self) -> None:
        """Write everything, in one step."""
        content = {"digest": self._digest, "blocks": {key: counts.tolist() for key, counts in self.blocks.items()}}
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(content))
        os.replace(beside, self._path)

    def total(self, *, phase: int, pair: int, side: int) -> Counts:
        """The outcomes of all blocks of one neighbour."""
        start = f"{phase}/{pair}/{side}/"
        parts = [counts for key, counts in self.blocks.items() if key.startswith(start)]
        whole = np.zeros(max((part.size for part in parts), default=1), dtype=np.int64)
        for part in parts:
            whole[: part.size] += part
        return whole


def all_cases(scale: float) -> dict[str, Case]:
    """Every case by its name; draws are multiplied by `scale`."""
    from .cases_of_choices import choice_cases
    from .cases_of_counts import count_cases
    from .cases_of_deletion import deletion_cases
    from .cases_of_flows import twin_cases
    from .cases_of_members import member_cases
    from .cases_of_noise import noise_cases
    from .cases_of_pairs import pair_cases

    cases = [
        *count_cases(scale),
        *noise_cases(scale),
        *choice_cases(scale),
        *deletion_cases(scale),
        *pair_cases(scale),
        *member_cases(scale),
        *twin_cases(scale),
    ]
    return {case.name: case for case in cases}


_cases: dict[str, Case] = {}


def _begin(scale: float) -> None:
    os.nice(5)
    _cases.update(all_cases(scale))


def _drawn(block: Block) -> tuple[Block, Counts]:
    draw = _cases[block.case].pairs[block.pair].draw
    outcomes = draw(block.side, block.draws, np.random.default_rng(block.seed()))
    return block, np.bincount(outcomes).astype(np.int64)


def _blocks(case: Case, *, phase: int, pair: int, draws: int) -> Iterator[Block]:
    for side in (0, 1):
        for number, start in enumerate(range(0, draws, case.block)):
            size = min(case.block, draws - start)
            yield Block(case=case.name, pair=pair, side=side, phase=phase, number=number, draws=size)


def shown_progress() -> Progress:
    """A bar for all draws."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), transient=True
    )


def audit(
    cases: Sequence[Case], *, folder: Path, sources: str, scale: float, processes: int, progress: Progress
) -> list[Audited]:
    """Scout every pair of every case, choose, then draw what is counted; continues where it was interrupted.

    Args:
        cases: some of `all_cases(scale)`.
        folder: where the state is kept.
        sources: digest of what is audited; the state of other sources is not used.
        scale: as for `all_cases`; the processes make the cases again by it.
        processes: how many draw.
        progress: is told of the blocks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    states = {case.name: State(folder, case, sources) for case in cases}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(scale,)) as pool:
        scouts = [
            block
            for case in cases
            for pair in range(len(case.pairs))
            for block in _blocks(case, phase=SCOUT, pair=pair, draws=case.scouts)
        ]
        _run(pool, scouts, states, progress, "looking for the worst neighbours", 2 * processes)
        chosen = {case.name: _choice(case, states[case.name]) for case in cases}
        counted = [
            block for case in cases for block in _blocks(case, phase=COUNT, pair=chosen[case.name][0], draws=case.draws)
        ]
        _run(pool, counted, states, progress, "counting", 2 * processes)
    found = []
    for case in cases:
        pair, event = chosen[case.name]
        sides = [states[case.name].total(phase=COUNT, pair=pair, side=side) for side in (0, 1)]
        found.append(Audited(case=case, pair=pair, event=event, counts=(sides[0], sides[1])))
    return found


def _choice(case: Case, state: State) -> tuple[int, Event]:
    """The pair that promises most, and its event."""
    events = []
    for pair in range(len(case.pairs)):
        sides = [state.total(phase=SCOUT, pair=pair, side=side) for side in (0, 1)]
        events.append(chosen_event((sides[0], sides[1]), delta=case.delta))
    best = max(range(len(events)), key=lambda pair: events[pair].promise)
    return best, events[best]


def _run(
    pool: ProcessPoolExecutor,
    blocks: Sequence[Block],
    states: dict[str, State],
    progress: Progress,
    words: str,
    ahead: int,
) -> None:
    """Draw the blocks that are not known yet."""
    waiting = [block for block in blocks if block.key not in states[block.case].blocks]
    task = progress.add_task(words, total=len(blocks), completed=len(blocks) - len(waiting))
    running: set[Future[tuple[Block, Counts]]] = set()
    changed: set[str] = set()
    saved = time.monotonic()
    upcoming = iter(waiting)
    try:
        while True:
            while len(running) < ahead and (block := next(upcoming, None)) is not None:
                running.add(pool.submit(_drawn, block))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                block, counts = future.result()
                states[block.case].blocks[block.key] = counts
                changed.add(block.case)
                progress.advance(task)
            if time.monotonic() - saved > _SAVE_EVERY:
                for name in changed:
                    states[name].save()
                changed.clear()
                saved = time.monotonic()
    finally:
        for name in changed:
            states[name].save()
        progress.remove_task(task)
