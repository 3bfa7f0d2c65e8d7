"""A bare (ε, δ) guarantee, of a mechanism about which nothing else is known."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

__all__ = ["Guarantee"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """(ε, δ)-differential privacy under one relation that the context names; pure where δ = 0.

    Args:
        epsilon: ε of at least 0.
        delta: δ, 0 ≤ δ < 1.

    Raises:
        ValueError: a field outside its range.
    """

    epsilon: Decimal
    delta: Decimal

    def __post_init__(self) -> None:
        """Refuse what is not a guarantee."""
        if not (self.epsilon.is_finite() and self.epsilon >= 0):
            raise ValueError(f"epsilon must be finite and at least 0, not {self.epsilon}")
        if not (self.delta.is_finite() and 0 <= self.delta < 1):
            raise ValueError(f"delta must be at least 0 and below 1, not {self.delta}")
