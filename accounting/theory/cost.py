"""An (ε, δ) cost with the rule that gave it, and what can be priced at all."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ...mechanisms.errors import InputRefused

__all__ = ["RELATION", "Price", "check_request"]

RELATION = "add/remove"


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """An (ε, δ) cost, rounded up, with the rule that gave it.

    Args:
        epsilon: ε of at least 0, at most 12 significant digits.
        delta: δ, the total over all releases.
        relation: the neighbour relation, "add/remove": data sets that differ by one person's presence.
        rule: the versioned rule that was applied, for example "exact-profile/1".
        releases: how many releases of the mechanism the price covers, at least 1.
        rows_per_person: the most records of one person in a delivery that it covers, at least 1.

    Raises:
        ValueError: a field outside its range.
    """

    epsilon: Decimal
    delta: Decimal
    relation: str
    rule: str
    releases: int
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        """Refuse what is not a price."""
        if not (self.epsilon.is_finite() and self.epsilon >= 0):
            raise ValueError(f"epsilon must be finite and at least 0, not {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, not {self.delta}")
        if self.releases < 1:
            raise ValueError(f"releases must be at least 1, not {self.releases}")
        if self.rows_per_person < 1:
            raise ValueError(f"a person has at least one record, not {self.rows_per_person}")


def check_request(delta: Decimal, releases: int) -> None:
    """Whether δ and a number of releases can be priced at all.

    Raises:
        InputRefused: δ is outside (0, 1), or there is less than one release.
    """
    if not (delta.is_finite() and 0 < delta < 1):
        raise InputRefused(f"delta must lie strictly between 0 and 1, not {delta}.")
    if releases < 1:
        raise InputRefused(f"the number of releases must be at least 1, not {releases}.")
