"""What outlier-private histograms cost: noise whose scale hangs on the count."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.amounts import amount_exact
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.histogram import HistogramProtection, OutlierPrivateHistogram
from ..kernel.prices.arithmetic import decimal_up, float_down, least_epsilon
from ..kernel.prices.mechanism_kind import RELATION, MechanismKind, Price, RecordForm, check_request
from .composition.composed import FilterPart, filter_parts_of_one
from .composition.finite_losses import BothDirections, LossesBySize, LossesInDoubles, losses_of_masses
from .composition.group_privacy import even_group_price

_LARGEST_EPSILON = 500.0
Array = NDArray[np.float64]
_SLACK = 1e-12
_LARGEST_HORIZON = 1_000_000
_FARTHEST, _MOST_PLACES = 60.0, 10_000_000


def delta_for_group(mechanism: OutlierPrivateHistogram, *, count: int, epsilon: float) -> float:
    """Return the least δ at ε for one member of a group of `count`, present or not, both directions, rounded outward.

    [Ours] The hockey-stick divergence of count + noise(count) and count − 1 + noise(count − 1): on either side of
    the two counts both masses are geometric, so that each sum is in closed form (docs/proofs/outlier-privacy.md).

    Raises:
        ValueError: a count below 1 or an ε below 0.
    """
    if count < 1 or not epsilon >= 0.0:
        raise ValueError(f"a member's group has at least one record and epsilon is at least 0, not {count}, {epsilon}")
    present, absent = (1.0 / mechanism.noise(c).scale for c in (count, count - 1))
    growth = min(epsilon, _LARGEST_EPSILON)
    return min(1.0, max(_one_way(present, absent, growth), _one_way(absent, present, growth)) + 5e-324)


def epsilon_for_group(mechanism: OutlierPrivateHistogram, *, count: int, delta: float) -> float | None:
    """Return about the least ε at which the members of a group of `count` have δ; None where none below 500 has it."""
    return least_epsilon(
        lambda epsilon: delta_for_group(mechanism, count=count, epsilon=epsilon), delta, high=_LARGEST_EPSILON
    )


def price_outlier_histogram(mechanism: OutlierPrivateHistogram, *, delta: Decimal) -> Price:
    """Return what the histogram costs everybody under add/remove ("outlier-exact/1"): the least ε of all groups.

    Raises:
        InputRefused: δ out of range, K too large, or no ε is enough.
    """
    check_request(delta)
    if mechanism.horizon > _LARGEST_HORIZON:
        raise InputRefused(
            f"K = {mechanism.horizon} is more than can be enumerated; it may be at most {_LARGEST_HORIZON}."
        )
    target = float_down(delta)
    least: float | None = 0.0 if mechanism.epsilon <= _LARGEST_EPSILON else None  # it hides nobody
    # From K − t + 1 records on, both counts have the same noise: larger groups are like this one.
    for count in range(1, mechanism.horizon - mechanism.margin + 2):
        if least is not None and delta_for_group(mechanism, count=count, epsilon=least) > target:
            least = epsilon_for_group(mechanism, count=count, delta=target)
    if least is None:
        raise InputRefused(
            f"no epsilon is enough for delta {amount_exact(delta)}.", remedy="Raise the margin t, or delta."
        )
    return Price(epsilon=decimal_up(least), delta=delta, relation=RELATION, rule="outlier-exact/1", releases=1)


def _one_way(upper: float, lower: float, epsilon: float) -> float:
    """Return Σ max(0, P − e^ε·Q), P with losses `upper` round 0 and Q with losses `lower` round 1 (which is symmetric).

    Away from 1 on Q's side: P = N·x^{i+1}, Q = M·y^i; away from 0 on P's side: P = N·x^i, Q = M·y^{i+1}.
    """
    norm, other = math.tanh(0.5 * upper), math.exp(epsilon) * math.tanh(0.5 * lower)
    behind = _ray(norm, upper, other * math.exp(-lower), lower)
    ahead = _ray(norm * math.exp(-upper), upper, other, lower)
    return (behind + ahead) * (1.0 + _SLACK)


def _ray(first: float, loss: float, other_first: float, other_loss: float) -> float:
    """Return Σ_{i≥0} max(0, A·e^{−ai} − B·e^{−bi}), with what rounding may lose added."""
    gap = math.log(first) - math.log(other_first)
    slope = loss - other_loss
    if slope == 0.0:
        if gap < -_SLACK:
            return 0.0
        return max(0.0, first - other_first) / -math.expm1(-loss) + first * _SLACK / -math.expm1(-loss)
    # The terms are positive while gap > slope·i: before the crossing where P falls faster, after it where slower.
    crossing = gap / slope
    if slope > 0.0:
        terms = max(0, math.ceil(crossing))
        mass = first * math.expm1(-loss * terms) / math.expm1(-loss)
        other = other_first * math.expm1(-other_loss * terms) / math.expm1(-other_loss)
    else:
        start = max(0, math.floor(crossing) + 1)
        mass = first * math.exp(-loss * start) / -math.expm1(-loss)
        other = other_first * math.exp(-other_loss * start) / -math.expm1(-other_loss)
    return max(0.0, mass - other) + mass * _SLACK


def _outlier_filter_parts(mechanism: OutlierPrivateHistogram) -> tuple[FilterPart, ...]:
    last = mechanism.horizon - mechanism.margin + 1
    if last * _reach(mechanism.noise(0).scale) > _MOST_PLACES:
        raise InputRefused(f"K = {mechanism.horizon} with this noise is more than can be enumerated.")
    return (LossesBySize(mechanism=mechanism, sizes=_outlier_sizes),)


def _outlier_sizes(mechanism: OutlierPrivateHistogram) -> Iterator[tuple[BothDirections, None]]:
    """Yield the losses of the noisy count of each count up to K − t + 1; larger counts have those of the last."""
    for count in range(1, mechanism.horizon - mechanism.margin + 2):
        present, absent = (1.0 / mechanism.noise(c).scale for c in (count, count - 1))
        steps = np.arange(_reach(1.0 / absent), dtype=np.float64)  # of the wider noise
        # Away from the person's side, and away from the other: the place is symmetric.
        here, there = (
            np.concatenate([decay * np.exp(-loss * steps) * math.tanh(0.5 * loss) for decay in decays])
            for loss, decays in ((present, (1.0, math.exp(-present))), (absent, (math.exp(-absent), 1.0)))
        )
        yield (_outlier_losses(here, there, present), _outlier_losses(there, here, absent)), None


def _outlier_losses(likely: Array, other: Array, loss: float) -> LossesInDoubles:
    beyond = 2.0 * math.exp(-loss * (0.5 * likely.size)) * (1.0 + _SLACK)
    return losses_of_masses(likely * (1.0 + _SLACK), other * (1.0 - _SLACK), beyond)


def _reach(scale: float) -> int:
    """Return how many places away the noise is negligible."""
    return math.ceil(_FARTHEST * scale)


OUTLIER_HISTOGRAM: MechanismKind[OutlierPrivateHistogram] = MechanismKind(
    records={"outlier-private-histogram/1": RecordForm(mechanism=OutlierPrivateHistogram)},
    protections=(HistogramProtection,),
    pure=False,
    series=False,
    price=even_group_price(lambda mechanism, delta, _: price_outlier_histogram(mechanism, delta=delta)),
    filter_parts=filter_parts_of_one(_outlier_filter_parts),
    sampling_rate=lambda _: None,
    survey_rate=None,
    exclusive=False,
)
