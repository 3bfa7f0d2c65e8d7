"""Which columns go together, by their names and their order in the file: proposed blocks of a wide file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...flows.block_specs import proposed_blocks as usual_blocks
from .column_roles import parts_of_name

MOST_TOGETHER = 10
"""More columns than these are proposed as several tables of rows."""
MOST_BLOCKS = 20
MOST_PINNED = 3
LEAST_SHARE = 0.025
"""Of the records: a group of so many should be shown, for which the noise of many blocks may be too wide."""
LABELS_OF_PINNED = 4
"""About so many labels a pinned column has in each block, and so much smaller the groups get."""
_LEAST_OF_THEME = 3
_WORD = re.compile(r"[a-z0-9]{1,30}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposedBlocks:
    """How columns are divided into tables of rows.

    Args:
        number: of blocks.
        pinned: columns that are in each.
        themes: of each block its name and its columns besides; empty where the release finds the blocks itself.
        too_few_records: whether as many blocks as the columns need would lose too many records.
    """

    number: int
    pinned: tuple[str, ...]
    themes: Mapping[str, tuple[str, ...]]
    too_few_records: bool = False


def most_blocks(*, records: int, expected_deletion: float) -> int:
    """Return how many blocks so many records can have, by what a group loses where there is one: √B times as much."""
    return min(MOST_BLOCKS, max(2, math.floor((records * LEAST_SHARE / expected_deletion) ** 2)))


def most_pinned(*, records: int, expected_deletion: float) -> int:
    """Return how many columns may stand in each block, by what a group of a block loses.

    Besides, a block's own columns need groups of the least share.
    """
    groups = records * LEAST_SHARE / expected_deletion
    return min(MOST_PINNED, max(0, math.floor(math.log(groups, LABELS_OF_PINNED)))) if groups >= 1 else 0


def proposed_blocks(columns: Sequence[str], *, pinned: Sequence[str], most: int) -> ProposedBlocks:
    """Return the blocks of more columns than one table holds well.

    Where names tell themes of most columns, and these are not more blocks than records allow, each theme is a block, or
    several, and what is left is divided in the order of the file. Else the release finds the blocks itself.

    Args:
        columns: that are released, in the order of the file.
        pinned: those that most questions are asked by, and that stand in each block.
        most: blocks.
    """
    everywhere = tuple(pinned)
    others = [name for name in columns if name not in everywhere]
    themes = dict(_themes(others))
    told = {name for names in themes.values() for name in names}
    if 2 * len(told) >= len(others):
        rest = tuple(name for name in others if name not in told)
        parts = dict(_in_parts({**themes, **({"others": rest} if rest else {})}, most=MOST_TOGETHER - len(everywhere)))
        if 2 <= len(parts) <= most:
            return ProposedBlocks(number=len(parts), pinned=everywhere, themes=parts)
    usual = usual_blocks(len(columns), pinned=len(everywhere))
    return ProposedBlocks(
        number=min(most, usual), pinned=everywhere, themes={}, too_few_records=most < min(MOST_BLOCKS, usual)
    )


def _in_parts(themes: Mapping[str, Sequence[str]], *, most: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield themes, those of more columns than a block has in parts of about the same size."""
    for name, columns in themes.items():
        parts = math.ceil(len(columns) / most)
        for part in range(parts):
            own = columns[part * len(columns) // parts : (part + 1) * len(columns) // parts]
            yield name if parts == 1 else f"{name}-{part + 1}", tuple(own)


def _themes(columns: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield columns whose names begin with the same word; and neighbours in the file with the same first letter."""
    words: dict[str, list[str]] = {}
    for name in columns:
        parts = parts_of_name(name)
        if len(parts) > 1 and _WORD.fullmatch(parts[0]) and not parts[0].isdigit():
            words.setdefault(parts[0], []).append(name)
    themes = {word: names for word, names in words.items() if len(names) >= _LEAST_OF_THEME and word != "others"}
    yield from ((word, tuple(names)) for word, names in themes.items())
    run: list[str] = []
    left = [name for name in columns if not any(name in names for names in themes.values())]
    letters = set[str]()
    for name in [*left, ""]:
        if run and name and name[0].lower() == run[0][0].lower():
            run.append(name)
            continue
        letter = run[0][0].lower() if run else ""
        if len(run) >= _LEAST_OF_THEME and _WORD.fullmatch(letter) and letter not in letters | themes.keys():
            letters.add(letter)
            yield letter, tuple(run)
        run = [name]
