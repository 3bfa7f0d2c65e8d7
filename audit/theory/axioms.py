"""What costs nothing more, and what a guarantee is worth under another relation or for several records."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from crowdblend.accounting.kernel.prices.arithmetic import add_up, decimal_up, exp_up, multiply_up
from crowdblend.accounting.kinds.composition.amplification import Guarantee
from crowdblend.mechanisms.kernel.errors import InputRefused

__all__ = ["for_group", "for_replacement", "post_processed", "randomly_chosen"]


def post_processed(guarantee: Guarantee) -> Guarantee:
    """The guarantee of any function of a mechanism's output: the same (LQS, arXiv:1101.2604v2, Theorem 2).

    The caller promises that the function sees the output and nothing else of the data.
    """
    return guarantee


def randomly_chosen(guarantees: Sequence[Guarantee]) -> Guarantee:
    """The guarantee of one of several mechanisms, drawn by coins that don't depend on the data: the worst of them.

    Source: LQS, arXiv:1101.2604v2, §2.4 (choice axiom).

    Raises:
        InputRefused: nothing to choose from.
    """
    if not guarantees:
        raise InputRefused("a random choice needs at least one mechanism.")
    return Guarantee(
        epsilon=max(guarantee.epsilon for guarantee in guarantees),
        delta=max(guarantee.delta for guarantee in guarantees),
    )


def for_group(guarantee: Guarantee, *, records: int) -> Guarantee:
    """The guarantee for up to m records at once: (mε, (1 + e^ε + … + e^{(m−1)ε})·δ) under add/remove.

    Source: Dwork and Roth, The Algorithmic Foundations of Differential Privacy (2014), Theorem 2.2 and its proof for
    δ > 0 (docs/proofs/axioms.md).

    Raises:
        InputRefused: m < 1, or the δ reaches 1.
    """
    if records < 1:
        raise InputRefused(f"a person has at least one record, not {records}.")
    growth = exp_up(guarantee.epsilon)
    delta, weight = Decimal(0), Decimal(1)
    for _ in range(records if guarantee.delta else 0):
        delta = add_up(delta, multiply_up(weight, guarantee.delta))
        weight = multiply_up(weight, growth)
        if delta >= 1:
            raise InputRefused(f"delta reaches 1 for {records} records of one person: this guarantees nothing.")
    return Guarantee(epsilon=decimal_up(multiply_up(guarantee.epsilon, records)), delta=decimal_up(delta))


def for_replacement(guarantee: Guarantee) -> Guarantee:
    """An add/remove guarantee (ε, δ) for data sets that differ in one record's values: (2ε, (1 + e^ε)δ).

    A replacement is a removal and an addition. There is no way back: a replacement guarantee says nothing about a
    record's presence.

    Raises:
        InputRefused: the δ reaches 1.
    """
    return for_group(guarantee, records=2)
