"""How much memory groups may take, and whether a release's records may need more."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.recoding import KeyLayout
from ..inputs.source import SourceLayout

_GIB = 1 << 30
_NUMBER_BYTES = 8
_FEW_GROUPS = 1 << 20
"""So many groups take less memory than reading the records does."""
_TABLES_OF_A_PAIR = 5
"""Its exact counts, estimates by both details, the model's table and the next model's."""
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def require_room(layout: SourceLayout, *, maps: Sequence[KeyLayout], columns: int | None = None) -> None:
    """Refuse records that may have more distinct groups than there is memory for; only metadata is looked at.

    There are no more groups than combinations of labels, nor than records; CSV has at least a byte for each field, but
    for compressed CSV, of which nothing is known. Of each group of the first map key and count are in memory, with five
    more numbers while records are deleted and labels put together, or twice with one more; and of each group of a later
    stage a key and four numbers.

    Args:
        layout: the files.
        maps: how the groups of each stage make keys, those that are counted first.
        columns: how many are read of each record; None for those of the first map.

    Raises:
        InputRefused: the groups may need more than CROWDBLEND_MEMORY says, or half of this machine's memory.
    """
    records = layout.records
    if records is None and layout.n_bytes:
        records = layout.n_bytes // (columns or len(maps[0].sizes))
    # An upper bound by what is public or was in the files' metadata. The true number of groups is known only after the
    # records were read, that is after the charge.
    groups = [one.cells if records is None else min(records, one.cells) for one in maps]
    numbers = groups[0] * max(2 * maps[0].key_words + 3, maps[0].key_words + 6)
    numbers += sum(many * (one.key_words + 4) for many, one in zip(groups[1:], maps[1:], strict=True))
    needed, room = numbers * _NUMBER_BYTES, room_bytes()
    if groups[0] > _FEW_GROUPS and needed > room:
        raise InputRefused(
            f"there may be so many distinct groups that they need {_rounded(needed)} GiB of memory, and "
            f"{room / _GIB:.3g} GiB are meant for them.",
            where="[columns]",
            remedy="Begin with coarser levels or fewer columns; or, where there is more memory or there are surely "
            f"fewer groups, set CROWDBLEND_MEMORY to {_rounded(needed)}.",
        )


def require_room_for_pairs(labels: Sequence[int]) -> None:
    """Refuse columns whose pairs have more cells than there is memory for: five tables of each while pairs are drawn.

    Args:
        labels: of each column.

    Raises:
        InputRefused: the tables need more than CROWDBLEND_MEMORY says, or half of this machine's memory.
    """
    cells = (sum(labels) ** 2 - sum(size * size for size in labels)) // 2
    needed, room = cells * _NUMBER_BYTES * _TABLES_OF_A_PAIR, room_bytes()
    if needed > room:
        raise InputRefused(
            f"the tables of all pairs of columns, by the labels of their margins, need {_rounded(needed)} GiB of "
            f"memory, and {room / _GIB:.3g} GiB are meant for them.",
            where="[columns]",
            remedy="Give the columns with most labels a coarser min_level, or margin_level; or, where there is more "
            f"memory, set CROWDBLEND_MEMORY to {_rounded(needed)}.",
        )


def _rounded(n_bytes: int) -> int:
    """GiB, the next power of two. PRIVACY: the number of records, which decides it, is shown to its order alone."""
    return 1 << max(0, (-(-n_bytes // _GIB) - 1).bit_length())


def room_bytes() -> float:
    """Return bytes that groups may take: what the steward says, or half of what the machine or container has.

    Raises:
        InputRefused: what the steward says is no number of GiB.
    """
    said = os.environ.get("CROWDBLEND_MEMORY")
    if said is not None:
        try:
            gib = float(said)
        except ValueError:
            gib = math.nan
        if not 0 < gib < math.inf:
            raise InputRefused(
                "this is no number of GiB above 0.", where="CROWDBLEND_MEMORY", remedy="Write, for example, 4 or 0.5."
            )
        return gib * _GIB
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no such file, or "max"
        # In a container the machine's memory is what the host has; a process beyond the container's limit is killed
        # without a word.
        machine = min(machine, int(_CONTAINER_LIMIT.read_text(encoding="ascii")))
    return machine / 2
