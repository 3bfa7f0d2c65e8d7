"""Which columns go together, by their names and their order in the file: proposed blocks of a wide file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .column_roles import parts_of_name

MOST_TOGETHER = 10
"""More columns than these are proposed as several tables of rows."""
USUAL_BLOCK = 7
"""Columns of a block, the pinned ones among them: with many more no group of people is large enough to be shown."""
MOST_BLOCKS = 12
MOST_PINNED = 3
_LEAST_OF_THEME = 3
_PLAIN = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposedBlocks:
    """How columns are divided into tables of rows.

    Args:
        number: of blocks that the release finds itself.
        pinned: columns that are in each.
        themes: of columns whose names begin alike, by what they begin with; what somebody may write instead.
    """

    number: int
    pinned: tuple[str, ...]
    themes: Mapping[str, tuple[str, ...]]


def proposed_blocks(columns: Sequence[str], *, pinned: Sequence[str]) -> ProposedBlocks | None:
    """Return the blocks of some columns; None of so few that one table holds them.

    Args:
        columns: that are released, in the order of the file.
        pinned: those that most questions are asked by; the first ones are taken.
    """
    if len(columns) <= MOST_TOGETHER:
        return None
    everywhere = tuple(pinned[:MOST_PINNED])
    others = [name for name in columns if name not in everywhere]
    number = min(MOST_BLOCKS, max(2, math.ceil(len(others) / (USUAL_BLOCK - len(everywhere)))))
    return ProposedBlocks(number=number, pinned=everywhere, themes=dict(_themes(others)))


def _themes(columns: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield columns whose names begin with the same word; and neighbours in the file with the same first letter."""
    left = list(columns)
    first_words: dict[str, list[str]] = {}
    for name in columns:
        parts = parts_of_name(name)
        if len(parts) > 1 and _PLAIN.fullmatch(parts[0]):
            first_words.setdefault(parts[0], []).append(name)
    for word, names in first_words.items():
        if len(names) >= _LEAST_OF_THEME:
            left = [name for name in left if name not in names]
            yield word, tuple(names)
    taken, run = set(first_words), list[str]()
    for name in [*left, ""]:
        if run and name[:1].lower() == run[0][:1].lower():
            run.append(name)
            continue
        letter = run[0][:1].lower() if run else ""
        if len(run) >= _LEAST_OF_THEME and _PLAIN.fullmatch(letter) and letter not in taken:
            taken.add(letter)
            yield letter, tuple(run)
        run = [name]
