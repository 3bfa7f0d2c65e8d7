"""One exhibit: an attack on another way of doing things, and the same attack on ours."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Exhibit"]


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """What an attacker learned.

    Args:
        name: unique, of letters, digits and dashes.
        title: the attack in a few words.
        other_way: what the other way does.
        from_other: what the attacker learned from it, with numbers.
        from_ours: what the attacker learned from ours, with numbers.
        other_betrays: whether the attack worked on the other way, as it must to be worth showing.
        ours_betrays: whether it worked on ours.
    """

    name: str
    title: str
    other_way: str
    from_other: str
    from_ours: str
    other_betrays: bool
    ours_betrays: bool

    def record(self) -> dict[str, Any]:
        """For the part's result."""
        return asdict(self)
