"""Exhibit: a budget for adaptive releases whose bound follows what the tails of earlier ones have spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from crowdblend.accounting.kinds.composition.renyi_filter import RULE, FilterCost, FilterTerms, conversion_loss, fits
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE

from .exhibit import Exhibit

__all__ = ["running_tails"]

_TERMS = FilterTerms(
    epsilon=Decimal(1), delta=Decimal("1e-6"), order=Decimal(30), tail_delta=Decimal("3e-7"), tail_each=Decimal("3e-7")
)
_UP = Context(prec=40, rounding=ROUND_CEILING)

Rule = Callable[[FilterTerms, Sequence[FilterCost]], bool]


@dataclass(frozen=True)
class _Coin:
    """A release with two outcomes, by their probabilities with and without the person; one may be all tail."""

    present: tuple[Fraction, Fraction]
    absent: tuple[Fraction, Fraction]
    tail: Fraction

    @property
    def cost(self) -> FilterCost:
        """Its divergence without its tail, from exact moments of both directions."""
        order = int(_TERMS.order)
        moments = [
            sum((p**order / q ** (order - 1) for p, q in zip(ahead, behind, strict=True) if q), Fraction(0))
            for ahead, behind in ((self.present, self.absent), (self.absent, self.present))
        ]
        # Where an outcome is impossible with the person absent it is cut off; the other direction has no such outcome.
        largest = max(moments)
        log = _UP.next_plus(_UP.ln(_UP.divide(Decimal(largest.numerator), Decimal(largest.denominator))))
        divergence = max(_UP.divide(log, Decimal(order - 1)), Decimal(0))
        tail = _UP.divide(Decimal(self.tail.numerator), Decimal(self.tail.denominator))
        return FilterCost(divergence=divergence, tail=tail, rule=RULE, relation=ADD_REMOVE)


def _coin(heads: str, loss: str) -> _Coin:
    likely, other = Fraction(heads), Fraction(heads) / Fraction(Decimal(loss).exp())
    return _Coin((likely, 1 - likely), (other, 1 - other), Fraction(0))


def _all_tail(mass: Fraction) -> _Coin:
    return _Coin((mass, 1 - mass), (Fraction(0), Fraction(1)), mass)


def _following(terms: FilterTerms, costs: Sequence[FilterCost]) -> bool:
    """The bound that is not private: what the tails have not spent yet is left to the divergences."""
    left = terms.delta - sum(cost.tail for cost in costs)
    allowed = terms.epsilon - conversion_loss(terms.order, left) if left > 0 else Decimal(-1)
    return sum(cost.divergence for cost in costs) <= allowed


def _reached(rule: Rule, coins: Sequence[_Coin], times: int) -> Fraction:
    """The most that an adversary reaches of δ at E in so many releases, each chosen by the outcomes before it."""
    growth = Fraction(_TERMS.epsilon.exp()) * (1 - Fraction(1, 10**20))
    priced = [(coin, coin.cost) for coin in coins]

    def best(ratio: Fraction, spent: tuple[FilterCost, ...], left: int) -> Fraction:
        most = max(Fraction(0), 1 - growth / ratio)
        for coin, cost in priced if left else []:
            if rule(_TERMS, (*spent, cost)):
                value = Fraction(0)
                for ahead, behind in zip(coin.present, coin.absent, strict=True):
                    value += ahead * (best(ratio * ahead / behind, (*spent, cost), left - 1) if behind else 1)
                most = max(most, value)
        return most

    return best(Fraction(1), (), times)


def running_tails() -> Exhibit:
    """Two releases, the second chosen by the first; a bound that follows the tails, and one with a fixed share."""
    coins = [_coin("7.26e-5", "0.6567"), _coin("0.41", "0.377"), _coin("0.285", "0.377"), _coin("2.07e-5", "1.0339")]
    coins += [_all_tail(Fraction(tail) * (1 - Fraction(1, 10**9))) for tail in ("3e-7", "9.999e-7")]
    following, fixed = (_reached(rule, coins, 2) for rule in (_following, fits))
    epsilon, delta = _TERMS.epsilon, _TERMS.delta
    return Exhibit(
        name="running-tails",
        title="A budget for adaptive releases whose bound follows the tails spent so far",
        other_way=f"at ({epsilon}, {delta:.0e}) and order {_TERMS.order} a release is refused by what the tails of "
        "earlier ones have left of delta",
        from_other=f"two releases, the second chosen by the first: delta is {float(following):.3g} at epsilon "
        f"{epsilon}, exactly",
        from_ours=f"with {_TERMS.tail_delta:.0e} of delta fixed for all tails beforehand the same choices reach "
        f"{float(fixed):.3g}",
        other_betrays=following > Fraction(delta),
        ours_betrays=fixed > Fraction(delta),
    )
