"""What publishing only the counts of local reports costs: amplification by shuffling, and one bit exactly."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

from ...mechanisms.krandomization import KRandomization
from ...mechanisms.neighbours import REPLACEMENT
from ...mechanisms.refusal import InputRefused
from .cost import Price, check_request
from .exact_decimals import add_down, add_up, divide_up, exp_up, log_up, multiply_up
from .least_epsilon import least_epsilon
from .local_reports import LOCAL_RULE, local_epsilon
from .outcome_counts import OnesProfile
from .rounding import decimal_up, float_down

__all__ = ["epsilon_shuffled", "holds_alone", "price_outcome_counts"]

_EXACT, _SHUFFLED = "outcome-counts-exact/1", "shuffle-fmt-3.1/1"
_ROOT = Context(prec=60, rounding=ROUND_CEILING)


def epsilon_shuffled(*, local: Decimal, people: int, delta: Decimal) -> Decimal | None:
    """ε of n shuffled reports that are ε₀-local, at δ, under replacement; None where the theorem's condition fails.

    ln(1 + (e^{ε₀}−1)/(e^{ε₀}+1)·(8·√(e^{ε₀}·ln(4/δ)/n) + 8·e^{ε₀}/n)) if ε₀ ≤ ln(n/(16·ln(2/δ))), rounded up, and at
    most ε₀. Source: Feldman, McMillan, Talwar, Hiding Among the Clones, arXiv:2012.12803, Theorem 3.1. The counts of
    the outcomes tell the same as the shuffled reports.

    Args:
        local: ε₀ above 0.
        people: n, or a public lower bound on it; ε falls with n.
        delta: 0 < δ < 1.

    Raises:
        InputRefused: an argument out of range.
    """
    check_request(delta, 1)
    if people < 1 or not (local.is_finite() and local > 0):
        raise InputRefused(f"at least one person and a positive epsilon are needed, not {people} and {local}.")
    growth = exp_up(local)
    if multiply_up(multiply_up(growth, 16), log_up(divide_up(Decimal(2), delta))) > people:
        return None
    square = divide_up(multiply_up(growth, log_up(divide_up(Decimal(4), delta))), people)
    root = _ROOT.next_plus(_ROOT.sqrt(square))
    spread = add_up(multiply_up(root, 8), divide_up(multiply_up(growth, 8), people))
    share = divide_up(add_up(-1, growth), add_down(1, growth))
    return decimal_up(min(log_up(add_up(1, multiply_up(share, spread))), local))


def price_outcome_counts(mechanism: KRandomization, *, people: int, delta: Decimal) -> Price:
    """What the published outcome counts of n people's reports cost under replacement, n public.

    The smallest of: the exact price for L = 1 ("outcome-counts-exact/1", where n is beyond `EXACT_PEOPLE` that of fewer
    people), the shuffle bound where its condition holds ("shuffle-fmt-3.1/1"), and the local ε ("local/1", with δ = 0).

    PRIVACY: under add/remove the total of the counts alone tells neighbours apart: this price never enters an
    add/remove budget.

    Args:
        mechanism: the local randomizer.
        people: n, or a public lower bound on it.
        delta: 0 < δ < 1.

    Raises:
        InputRefused: an argument out of range.
    """
    check_request(delta, 1)
    local = local_epsilon(mechanism)
    choices = [(local, Decimal(0), LOCAL_RULE)]
    shuffled = epsilon_shuffled(local=local, people=people, delta=delta)
    if shuffled is not None:
        choices.append((shuffled, delta, _SHUFFLED))
    if mechanism.bits == 1:
        profile = OnesProfile(people=people, flip_probability=float_down(mechanism.flip_probability))
        found = least_epsilon(profile.delta, float_down(delta), high=float(local) + 1.0)
        if found is not None:
            choices.append((decimal_up(found), delta, _EXACT))
    epsilon, spent, rule = min(choices)
    return Price(epsilon=epsilon, delta=spent, relation=REPLACEMENT, rule=rule, releases=1)


def holds_alone(rule: str) -> bool:
    """Whether a price holds only while the counts are all that is ever published of their reports.

    Its proof uses the coins of everybody's report. A second publication made from the same reports, even one with
    noise of its own, can give those coins away, so that the two prices don't add up (docs/proofs/outcome-counts.md).
    """
    return rule in (_EXACT, _SHUFFLED)
