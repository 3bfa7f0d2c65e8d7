"""What kinds of release that publish every declared cell refuse alike."""

from __future__ import annotations

from pathlib import Path

from ...accounting.theory.refused_mechanisms import refuse_unsafe
from ...mechanisms.errors import InputRefused
from ...mechanisms.recoding import GeneralizationMap

__all__ = ["require_cells", "require_safe_noise"]

MOST_CELLS = 1_000_000
NOISE = "two-sided-geometric"


def require_cells(path: Path, recoding: GeneralizationMap) -> None:
    """Refuse more cells than are published.

    Raises:
        InputRefused: there are more.
    """
    if recoding.cells > MOST_CELLS:
        raise InputRefused(
            f"these columns have {recoding.cells} combinations of labels, more than the {MOST_CELLS} that one release "
            "publishes.",
            where=f"{path}: [columns]",
            remedy="Use coarser levels or fewer columns.",
        )


def require_safe_noise(name: str, *, where: str) -> None:
    """Refuse noise that gives no guarantee, and noise that nobody knows.

    Args:
        name: the noise.
        where: the table that names it.

    Raises:
        InputRefused: it isn't the two-sided geometric.
    """
    refuse_unsafe(name, where=f"{where}.noise")
    if name != NOISE:
        raise InputRefused(
            f"there is no noise {name!r}.", where=f"{where}.noise", remedy=f'Leave it out, or write "{NOISE}".'
        )
