"""What a guarantee is worth under sampling: of a bare guarantee, and of crowd-blending mechanisms."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ....mechanisms.kernel.errors import InputRefused
from ...kernel.prices.arithmetic import (
    add_up,
    decimal_up,
    divide_up,
    exp_up,
    log_up,
    multiply_up,
)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Concentrated:
    """ρ-zero-concentrated differential privacy: D_α at most αρ in both directions, for every order α > 1.

    Source: Bun, Steinke, arXiv:1605.02065, Definition 1.1.

    Args:
        rho: ρ > 0.

    Raises:
        ValueError: it is not above 0 and finite.
    """

    rho: Decimal

    def __post_init__(self) -> None:
        """Refuse what is no such guarantee."""
        if not (self.rho.is_finite() and self.rho > 0):
            raise ValueError(f"rho must be positive and finite, not {self.rho}")


def amplified(guarantee: Guarantee, *, from_rate: Decimal, to_rate: Decimal) -> Guarantee:
    """Return (ε₂, δ₂) with e^{ε₂} − 1 = (β₂/β₁)(e^{ε₁} − 1), δ₂ = (β₂/β₁)δ₁, from (ε₁, δ₁) at β₁ under sampling at β₂.

    Source: LQS, arXiv:1101.2604v2, Theorem 1 (docs/proofs/amplification.md). The caller promises that the
    guarantee holds for the mechanism run on a fresh sample at `from_rate` (1: on the whole data), and that the
    mechanism runs on a fresh sample at `to_rate` with nothing else answered from that sample. Rounded up to 12 digits.

    Raises:
        InputRefused: the rates are out of range, or the second is above the first.
    """
    if not (from_rate.is_finite() and to_rate.is_finite() and 0 < to_rate <= from_rate <= 1):
        raise InputRefused(
            f"amplification goes from a rate of at most 1 down to a lower one above 0, not from {from_rate} to "
            f"{to_rate}."
        )
    if to_rate == from_rate:
        return guarantee
    ratio = divide_up(to_rate, from_rate)
    epsilon = log_up(add_up(1, multiply_up(ratio, add_up(-1, exp_up(guarantee.epsilon)))))
    return Guarantee(
        epsilon=decimal_up(min(epsilon, guarantee.epsilon)),
        delta=decimal_up(divide_up(multiply_up(guarantee.delta, to_rate), from_rate)),
    )
