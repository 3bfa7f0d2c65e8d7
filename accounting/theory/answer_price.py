"""What COUNT, SUM and MEAN cost: ε exactly, or less on a fresh sample; and the price of noise made with coins."""

from __future__ import annotations

from decimal import Decimal

from ...mechanisms.answers import Answer
from ...mechanisms.neighbours import ADD_REMOVE
from .amplification import amplified
from .cost import Price
from .exact_decimals import log_up
from .guarantee import Guarantee
from .rounding import decimal_up

__all__ = ["price_answer", "price_coin_flip_count"]


def price_answer(answer: Answer) -> Price:
    """The price of an answer, all its groups together, under its own relation; δ is 0.

    On all records it is ε ("pure-noise/1": the noise's scale is at least the sensitivity over ε, exactly). On a fresh
    sample at rate β it is ln(1 + β(e^ε − 1)) ("pure-noise-amplified/1"; LQS, arXiv:1101.2604v2, Theorem 1). The sample
    serves this answer only. (docs/proofs/answers.md)
    """
    whole = Guarantee(epsilon=answer.epsilon, delta=Decimal(0))
    if answer.sampling_rate is None:
        cost, rule = whole, "pure-noise/1"
    else:
        cost, rule = amplified(whole, from_rate=Decimal(1), to_rate=answer.sampling_rate), "pure-noise-amplified/1"
    return Price(epsilon=decimal_up(cost.epsilon), delta=Decimal(0), relation=answer.relation, rule=rule, releases=1)


def price_coin_flip_count() -> Price:
    """The price of one count with `CoinFlipNoise`: ln 4, rounded up. Source: Notes-DP, Example 1."""
    return Price(
        epsilon=decimal_up(log_up(Decimal(4))),
        delta=Decimal(0),
        relation=ADD_REMOVE,
        rule="coin-flip-noise/1",
        releases=1,
    )
