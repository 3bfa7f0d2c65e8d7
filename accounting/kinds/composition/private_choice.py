"""Price a private choice of a map: its own cost, and the privacy profile of the release that follows it."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.kernel.errors import InputRefused
from ...kernel.prices.arithmetic import decimal_up, divide_up
from ...kernel.prices.privacy_profile import check_parameters, log_adding, log_removing
from .amplification import Guarantee, amplified
from .bounded_range import BoundedRange

_LOG_SLACK = 1e-13


def selection_cost(selection_epsilon: Decimal, *, selection_rate: Decimal | None) -> Guarantee:
    """Return what the choice of one map costs: ε₁ on the whole data, ln(1 + β_s(e^{ε₁} − 1)) on a fresh sample at β_s.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.11 and Theorem 1. The caller promises that the choice is
    ε₁-private under add/remove, and that it is made on the whole data with coins of its own, or on a sample that
    serves nothing else; never on the release's own sample (docs/proofs/selection.md).

    Raises:
        InputRefused: ε₁ is not positive, or the rate is out of range.
    """
    if not (selection_epsilon.is_finite() and selection_epsilon > 0):
        raise InputRefused(f"the selection's epsilon must be positive, not {selection_epsilon}.")
    whole = Guarantee(epsilon=selection_epsilon, delta=Decimal(0))
    if selection_rate is None:
        return whole
    return amplified(whole, from_rate=Decimal(1), to_rate=selection_rate)


def range_of_draw(epsilon: Decimal, *, draws: int) -> BoundedRange:
    """Return the range of each of some draws of the exponential mechanism that share ε evenly, rounded up."""
    return BoundedRange(epsilon=decimal_up(divide_up(epsilon, draws)))


def log_profile_selected(
    *, k: int, sampling_rate: float, selection_epsilon: float, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return upper bounds on ln δ(ε) of an ε₁-private choice followed by the release, for ε ≥ 0, both directions.

    With p = e^{ε₁}/(1 + e^{ε₁}) and δ± the release's profile in one direction, δ(ε) = p·δ±(ε − ε₁) + (1−p)·δ±(ε + ε₁)
    (docs/proofs/selection.md). The shape is that of the ε.

    Raises:
        ValueError: parameters out of range.
    """
    check_parameters(k, sampling_rate)
    likely = -math.log1p(math.exp(-selection_epsilon))
    # Both curves fall, so that arguments rounded down are outward.
    low = np.nextafter(epsilons - selection_epsilon, -np.inf)
    high = np.nextafter(epsilons + selection_epsilon, 0.0)
    curves = []
    for ahead, behind in ((log_adding, log_removing), (log_removing, log_adding)):
        forward = ahead(k=k, sampling_rate=sampling_rate, epsilons=np.abs(low))
        backward = behind(k=k, sampling_rate=sampling_rate, epsilons=np.abs(low))
        negative = np.minimum(low, 0.0)
        with np.errstate(divide="ignore"):
            mirrored = np.logaddexp(np.log(-np.expm1(negative)), negative + backward)
        near = np.where(low >= 0.0, forward, mirrored) + likely
        far = ahead(k=k, sampling_rate=sampling_rate, epsilons=high) + likely - selection_epsilon
        curves.append(np.logaddexp(near, far))
    # The logarithms of the two weights and of the sums err by a few units in the last place.
    return np.minimum(np.maximum(curves[0], curves[1]) + _LOG_SLACK * (1.0 + selection_epsilon), 0.0)
