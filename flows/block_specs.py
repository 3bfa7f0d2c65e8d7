"""[blocks]: several tables of rows, of some of the released columns each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..mechanisms.kernel.amounts import counted
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.pair_model.blocks import Block, BlockChoice
from .spec_tables import BlocksTable

if TYPE_CHECKING:
    from ..tasks.stages.table import PublishedTable

_COLUMNS_OF_BLOCK, _LEAST_OWN = 6, 4
"""Columns of a block where nothing is said, and the least number of those that aren't pinned: with more columns few
groups have enough people to be shown, and more blocks have wider noise."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")

Blocks = tuple[Block, ...] | BlockChoice


def declared_blocks(
    path: Path, table: BlocksTable | None, names: Sequence[str], *, always: int | None = None
) -> Blocks | None:
    """Return the blocks that are written, or how they are chosen; None without [blocks].

    Args:
        path: of the specification.
        table: [blocks].
        names: of the released columns.
        always: the number of a column that is pinned whatever is written; None where there is none.

    Raises:
        InputRefused: a column isn't released, stands twice or in no block; or there are too many blocks.
    """
    if table is None:
        return None
    where = f"{path}: [blocks]"
    pinned = _places(table.pinned, names, where=f"{where}.pinned")
    if always is not None:
        pinned = tuple(sorted({*pinned, always}))
    written = table.written
    if not written:
        free = len(names) - len(pinned)
        number = table.number or proposed_blocks(len(names), pinned=len(pinned))
        if number > max(free, 1):
            raise InputRefused(
                f"{counted(number, 'block')} can't be made of {counted(free, 'column')}.",
                where=f"{where}.number",
                remedy="Lower the number, or pin fewer columns.",
            )
        return BlockChoice(number=number, pinned=pinned)
    if table.number is not None:
        raise InputRefused(
            "the blocks are written, so that their number is known.", where=f"{where}.number", remedy="Remove it."
        )
    blocks = []
    for name, block in written.items():
        own = f"{path}: [blocks.{name}]"
        if _NAME.fullmatch(name) is None:
            raise InputRefused(
                "a block's name is part of a file's name: up to 40 small letters, digits, - and _.",
                where=own,
                remedy="Rename it.",
            )
        columns = _places(block.columns, names, where=f"{own}.columns")
        blocks.append(Block(name, tuple(sorted({*columns, *pinned}))))
    there = {place for block in blocks for place in block.columns}
    if missing := [name for place, name in enumerate(names) if place not in there]:
        raise InputRefused(
            f"the column {missing[0]!r} is released and stands in no block, so that no row would tell it.",
            where=where,
            remedy="Name it in a block, or pin it; or leave it out of [columns].",
        )
    if len({block.columns for block in blocks}) < len(blocks):
        raise InputRefused("two blocks have the same columns.", where=where, remedy="Remove one of them.")
    return tuple(blocks)


def proposed_blocks(columns: int, *, pinned: int) -> int:
    """Return how many blocks are made where nothing is said."""
    return max(1, -(-(columns - pinned) // max(_LEAST_OWN, _COLUMNS_OF_BLOCK - pinned)))


def block_facts(
    blocks: Sequence[Block],
    *,
    themes: Mapping[str, str],
    stages: Sequence[list[dict[str, Any]]],
    tables: Sequence[PublishedTable],
) -> dict[str, Any]:
    """Return what a certificate says of each block, and of what their rows tell together.

    Args:
        blocks: in the order of their tables.
        themes: of those blocks that have one, by their names.
        stages: of each block, what is said of its stages.
        tables: of each block.
    """
    said = [
        {
            "name": block.name,
            **({"theme": themes[block.name]} if block.name in themes else {}),
            "columns": list(own[0]["levels"]),
            "groups": table.distinct,
            "records": table.records,
            "stages": own,
            **table.told,
        }
        for block, own, table in zip(blocks, stages, tables, strict=True)
    ]
    told = {name for one in said for name in set(one["columns"]) - set(one["columns_at_star"])}
    columns = dict.fromkeys(name for one in said for name in one["columns"])
    return {
        "blocks": said,
        "informative_records": sum(one["informative_records"] for one in said),
        "columns_at_star": [name for name in columns if name not in told],
    }


def _places(columns: Sequence[str], names: Sequence[str], *, where: str) -> tuple[int, ...]:
    """Return the numbers of some released columns.

    Raises:
        InputRefused: one isn't released, or stands there twice.
    """
    for place, name in enumerate(columns):
        if name not in names:
            raise InputRefused(f"{name!r} is not a released column.", where=where, remedy="Name columns of [columns].")
        if name in columns[:place]:
            raise InputRefused(f"{name!r} stands there twice.", where=where, remedy="Name it once.")
    return tuple(names.index(name) for name in columns)
