"""Two-sided geometric noise: its distribution, exactly, and its draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

_DIGITS = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoSidedGeometricNoise:
    """The discrete Laplace distribution: Pr[x] = (1−α)/(1+α)·α^|x| on the whole numbers, α = e^{−ε/Δ}.

    Args:
        epsilon: ε above 0, exact; between 1e-300 and 1e300, since it is computed with as a double.
        sensitivity: Δ, the most that one record can move the answer, in whole steps; at least 1.

    Raises:
        ValueError: a field outside its range.
    """

    epsilon: Decimal
    sensitivity: int = 1

    def __post_init__(self) -> None:
        if not (self.epsilon.is_finite() and self.epsilon > 0):
            raise ValueError(f"epsilon must be positive and finite, not {self.epsilon}")
        if abs(self.epsilon.adjusted()) > _DIGITS:
            raise ValueError(f"epsilon must be a number that a double can hold, not {self.epsilon}")
        if self.sensitivity < 1:
            raise ValueError(f"the sensitivity must be at least 1, not {self.sensitivity}")

    @property
    def scale(self) -> float:
        """The least double that is not below Δ/ε: so that the real ε is never above the declared one."""
        return _double_up(Fraction(self.sensitivity) / Fraction(self.epsilon))

    @property
    def decay(self) -> float:
        """The ratio α of successive probabilities."""
        return math.exp(-1.0 / self.scale)

    @property
    def variance(self) -> float:
        """The variance 2α/(1−α)²."""
        # `expm1` keeps the digits of 1 − α where the scale is large and α near 1.
        return 2.0 * self.decay / math.expm1(-1.0 / self.scale) ** 2

    def half_width(self, confidence: float) -> int:
        """Return the least w with Pr[|x| > w] = 2α^{w+1}/(1+α) of at most 1 − confidence.

        Raises:
            ValueError: a confidence outside (0, 1).
        """
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"a confidence must lie strictly between 0 and 1, not {confidence}")
        # The tail is at most 1 − confidence exactly where w + 1 is at least this number of steps.
        steps = -self.scale * math.log((1.0 - confidence) * (1.0 + self.decay) / 2.0)
        return max(0, math.ceil(steps) - 1)


def add_two_sided_geometric(values: Sequence[int], noise: TwoSidedGeometricNoise) -> list[int]:
    """Return each value plus an independent draw of the noise, saturating at 64 bits.

    PRIVACY: OpenDP's sampler draws from the operating system by itself and is exact for the scale as a double;
    a second call is a second draw. Store the result before anything depends on it.
    """
    if not values:
        return []
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    # The sensitivity Δ is already part of the scale. OpenDP only draws: its own map from distances to ε isn't asked.
    measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=noise.scale)
    return [int(value) for value in measurement([int(value) for value in values])]


def _double_up(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
