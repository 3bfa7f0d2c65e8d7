"""The privacy profile of a release after a private choice of its map."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...kernel.prices.privacy_profile import check_parameters, log_adding, log_removing

__all__ = [
    "log_profile_selected",
]

_LOG_SLACK = 1e-13


def log_profile_selected(
    *, k: int, sampling_rate: float, selection_epsilon: float, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Upper bounds on ln δ(ε) of an ε₁-private choice followed by the release, for ε ≥ 0, both directions.

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
