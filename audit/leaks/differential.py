"""Compares what runs on neighbouring data left behind: whatever differs must be explained.

Times, ids and the like are masked, but not trusted: with two runs on each side, a masked part that is the same in
both runs on one data set, the same in both on the other, and different between them follows the records after all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .traces import Traces

__all__ = ["EXPLAINED", "Difference", "Explanation", "differences"]

MASKS: tuple[tuple[str, bytes], ...] = (
    ("ADDRESS", rb"127\.0\.0\.1:\d+"),
    ("UUID", rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    ("HASH", rb"\b[0-9a-f]{32,128}\b"),
    ("TIME", rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+|,\d{3}(?= - ))?(?:\+00:00|Z)?"),
    ("CLOCK", rb"\d\d:\d\d:\d\d(?:\.\d+)?"),
    ("TASK-RUN", rb"\b(?:charge|reading|select|count|write|publish|close)-[0-9a-f]{3}\b"),
    ("FLOAT", rb"(?<![\w.])\d+\.\d+(?:e-?\d+)?(?![\w.])"),
    ("NAME", rb'(?<="prefect\.resource\.name": ")[a-z]+-[a-z]+(?=", "prefect\.run-count")|(?<=\')[a-z]+-[a-z]+(?=\')'),
)
MASK = re.compile(b"|".join(b"(?P<%s>%s)" % (name.replace("-", "_").encode(), text) for name, text in MASKS))


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A difference that is known, and why it is no leak.

    Args:
        place: where, as a regular expression.
        line: what, as a regular expression.
        reason: why it may differ.
    """

    place: str
    line: bytes
    reason: str


EXPLAINED = (
    Explanation(
        place=r"home/releases/.*/record\.json",
        line=rb'"inputs": ',
        reason="keyed fingerprint of the input's names, sizes and times; it stays in the private store",
    ),
    Explanation(
        place=r"names and sizes",
        line=rb"^name home/sources/HASH/HASH",
        reason="a name in the private store is the keyed fingerprint of the source's metadata",
    ),
    Explanation(
        place=r"dask/state\.yaml",
        line=rb"^ *('\[''[a-z]+-[a-z]+-HASH'', \d+\]'|compressed|nbytes|total): \d+$",
        reason="Dask's records of the steward have the size of partial counts, which follows the number of all groups",
    ),
    Explanation(
        place=r"dask/state\.yaml",
        line=rb"^ *(?:memory|optimistic|process|unmanaged|unmanaged_old|unmanaged_recent): \d+$",
        reason="the memory of a worker's process, as the system measured it for a heartbeat, in whole pages",
    ),
    Explanation(
        place=r"dask/state\.yaml",
        line=rb"^ *- TIME - distributed\.worker - INFO - Starting Worker plugin$",
        reason="a worker's own start: whether its line falls among the last that the log keeps follows the clock",
    ),
    Explanation(
        place=r"dask/state\.yaml",
        # Of the counters of `digests_total_since_heartbeat` those of durations, sizes of what was sent, and one task.
        line=rb"^ *(?:'\[(?:''execute'', )?''NAME'', ''(?:NAME|executor|other)'', "
        rb"''(?:bytes''\]': \d+|count''\]': 1|seconds''\]': FLOAT)|profile-duration: FLOAT|num_fds: \d\d?)$",
        reason="what a worker told by its last heartbeat: whether a task's end is in it already follows the clock",
    ),
    Explanation(
        place=r"prefect/prefect\.db \(rows\)",
        # Rows of the task `close` in which no message and no number but 0 and 1 stands.
        line=rb"^(?:task_run|events|event_resources) \((?=.*[\"']close(?:-[0-9a-f]{8})?[\"'])"
        rb'(?!.*message": "[^"])(?:[^0-9]|(?<![0-9])[01](?![0-9])|\bclose-[0-9a-f]{8}\b)*$',
        reason="whether a run's own server has recorded how its last task ended before it is stopped follows the clock",
    ),
    Explanation(
        place=r"log",
        line=rb"^CLOCK \| WARNING \| (?:EventsWorker|APILogWorker) - "
        rb"Still processing items: \d\d? items remaining\.\.\.$",
        reason="whether Prefect has sent all events and lines of its log when a run ends follows the clock",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something that one side has and the other does not.

    Args:
        place: where it stands.
        what: the line, masked, or the masked part with its values on both sides.
        reason: the explanation, None where there is none: then it is a finding.
    """

    place: str
    what: str
    reason: str | None


def differences(
    ones: Sequence[Traces], others: Sequence[Traces], *, explained: Sequence[Explanation] = EXPLAINED
) -> list[Difference]:
    """What sets the runs on one data set apart from those on its neighbour.

    Args:
        ones: runs on D with the same coins; two or more let masked parts be compared too.
        others: as many on D without the one record.
        explained: differences that are known.
    """
    found: list[tuple[str, bytes]] = []
    folded = [[_folded(run) for run in side] for side in (ones, others)]
    places = {_steady(place) for side in folded for run in side for place in run}
    for place in sorted(places):
        here = [[run.get(place, {}) for run in side] for side in folded]
        for these, those, sign in ((here[0], here[1], b"- "), (here[1], here[0], b"+ ")):
            always = set.intersection(*(set(run) for run in these))
            found += [(place, sign + line) for line in always - set.union(*(set(run) for run in those))]
        if min(len(ones), len(others)) > 1:
            found += [(place, b"~ " + line) for line in _following(*here)]
    return [
        Difference(place=place, what=what.decode(errors="replace"), reason=_reason(place, what, explained))
        for place, what in sorted(found)
    ]


def _reason(place: str, what: bytes, explained: Sequence[Explanation]) -> str | None:
    for known in explained:
        if re.fullmatch(known.place, place) and re.search(known.line, what[2:]):
            return known.reason
    return None


def _steady(place: str) -> str:
    return re.sub(r"[0-9a-f-]{20,}", "ID", place)


Folded = dict[bytes, frozenset[tuple[bytes, ...]]]
"""Each masked line with what was masked in it; how often Prefect repeats itself follows the clock."""


def _folded(traces: Traces) -> dict[str, Folded]:
    result: dict[str, dict[bytes, set[tuple[bytes, ...]]]] = {}
    for place, content in traces.lines.items():
        lines = result.setdefault(_steady(place), {})
        for line in content.splitlines():
            masked = MASK.sub(lambda match: (match.lastgroup or "").encode(), line)
            lines.setdefault(masked, set()).add(tuple(match.group() for match in MASK.finditer(line)))
    return {place: {line: frozenset(values) for line, values in lines.items()} for place, lines in result.items()}


def _following(ones: list[Folded], others: list[Folded]) -> list[bytes]:
    """Masked lines of which some part is steady on both sides and not the same."""
    shared = set.intersection(*(set(run) for run in (*ones, *others)))
    found = []
    for line in shared:
        width = max(len(values) for values in ones[0][line])
        for slot in range(width):
            here = {frozenset(values[slot] for values in run[line]) for run in ones}
            there = {frozenset(values[slot] for values in run[line]) for run in others}
            if len(here) == len(there) == 1 and here != there:
                one, other = sorted(here.pop())[:3], sorted(there.pop())[:3]
                found.append(line + b" | " + b", ".join(one) + b" | " + b", ".join(other))
    return found
