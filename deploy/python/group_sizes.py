"""A public distribution of group sizes, for asking what share of the records would survive suppression."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ...mechanisms.errors import InputRefused

__all__ = ["read_group_sizes"]


def read_group_sizes(path: Path) -> dict[int, int]:
    """Read one group size a line, or a size and how many groups have it, separated by a comma.

    PRIVACY: the sizes must be public (a census, an earlier release, synthetic people), never counts of the records
    that are to be released.

    Returns:
        Size of a group → how many groups have it.

    Raises:
        InputRefused: the file can't be read, or a line is neither.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefused(f"the group sizes can't be read ({type(error).__name__}).", where=str(path)) from None
    sizes: Counter[int] = Counter()
    for number, line in enumerate(lines, start=1):
        fields = [field.strip() for field in line.split(",")]
        if not all(field.isascii() and field.isdigit() and 0 < len(field) < 16 for field in fields) or len(fields) > 2:
            raise InputRefused(
                "this is neither a group size nor a size and a number of groups.", where=f"{path}, line {number}"
            )
        sizes[int(fields[0])] += int(fields[1]) if len(fields) == 2 else 1
    return dict(sizes)
