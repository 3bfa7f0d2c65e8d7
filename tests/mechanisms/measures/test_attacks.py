"""What an attacker sees of one person, against the chances of every outcome."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.deletion import OptimalDeletion, deletion_weights
from crowdblend.mechanisms.measures.attacks import deletion_losses, sampling_losses

NOISE = OptimalDeletion(epsilon=Decimal("0.7"), delta=Decimal("0.02"))


def binomial(records: int, k: int, rate: float) -> dict[int, float]:
    """What a sampled release shows of a group, with its chance."""
    found: dict[int, float] = {}
    for hit in range(records + 1):
        shown = hit if hit >= k else 0
        found[shown] = found.get(shown, 0) + math.comb(records, hit) * rate**hit * (1 - rate) ** (records - hit)
    return found


def deleted(records: int, k: int) -> dict[int, float]:
    """What a stage shows of a group, with its chance."""
    found: dict[int, float] = {}
    for gone, weight in enumerate(deletion_weights(NOISE)):
        shown = records - gone if records - gone >= k else 0
        found[shown] = found.get(shown, 0) + weight / 2**128
    return found


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("records", [1, 2, 3, 4, 9, 40])
def test_a_loss_is_the_logarithm_of_the_ratio_of_the_chances(records: int, k: int) -> None:
    ways = (
        (lambda n: binomial(n, k, 0.3), lambda *seen: sampling_losses(*seen, rate=0.3, k=k)),
        (lambda n: deleted(n, k), lambda *seen: deletion_losses(*seen, noise=NOISE, k=k)),
    )
    for chances, losses in ways:
        there, without = chances(records), chances(records - 1)
        outcomes = sorted(there.keys() | without.keys())
        found = losses(np.array(outcomes), np.full(len(outcomes), records))
        for outcome, loss in zip(outcomes, found.tolist(), strict=True):
            p, q = there.get(outcome, 0.0), without.get(outcome, 0.0)
            assert loss == pytest.approx(math.log(p / q) if p and q else math.inf if p else -math.inf), outcome


def test_losses_beyond_the_price_are_as_rare_as_delta() -> None:
    """Σ max(0, P − e^ε·Q) over outcomes is at most δ, both ways."""
    for records in (1, 5, 12, 30):
        there, without = deleted(records, 1), deleted(records - 1, 1)
        for one, other in ((there, without), (without, there)):
            beyond = sum(max(0.0, p - math.exp(0.7) * other.get(outcome, 0.0)) for outcome, p in one.items())
            assert beyond <= 0.02
