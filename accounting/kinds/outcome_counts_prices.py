"""What the published counts of many local reports cost, shuffled or exact."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.amounts import amount_exact, amount_shown
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.mechanism import REPLACEMENT
from ...mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from ...mechanisms.kinds.local_reports import ReportsProtection
from ..kernel.prices.arithmetic import (
    ABOVE,
    BELOW,
    add_down,
    add_up,
    decimal_up,
    divide_up,
    exp_up,
    float_down,
    least_epsilon,
    log_binomial_pmf,
    log_up,
    multiply_up,
    sum_margin,
)
from ..kernel.prices.mechanism_kind import MechanismKind, Price, RecordForm, check_request
from .composition.composed import no_filter_parts
from .local_report_prices import LOCAL_RULE, local_epsilon

EXACT_RULE, SHUFFLED_RULE = "outcome-counts-exact/1", "shuffle-fmt-3.1/1"
_ROOT = Context(prec=60, rounding=ROUND_CEILING)
EXACT_PEOPLE = 1024
"""Beyond this many people the profile of this many is used, which covers it."""


_SLACK = 4e-11
Array = NDArray[np.float64]


class OnesProfile:
    """δ(ε) of the published number of ones under replacement, n public: the least for n ≤ `EXACT_PEOPLE`.

    [Ours] With T the ones among the n − 1 others, δ is the largest over their m of
    Σ_s max(0, (p − e^ε q)·Pr[T = s−1] − (e^ε p − q)·Pr[T = s]); the other direction is its mirror image, and δ does
    not rise with n (docs/proofs/outcome-counts.md).

    Args:
        people: n, or a public lower bound on it; at least 1.
        flip_probability: q, 0 < q < ½; a lower bound on it is a valid one.

    Raises:
        InputRefused: an argument out of range.
    """

    def __init__(self, *, people: int, flip_probability: float) -> None:
        if people < 1 or not 0.0 < flip_probability < 0.5:
            raise InputRefused(
                f"at least one person and a flip probability between 0 and ½ are needed, not {people} and "
                f"{flip_probability}."
            )
        self._q = flip_probability
        others = min(people, EXACT_PEOPLE) - 1
        ones = [_binomial(count, 1.0 - self._q) for count in range(others + 1)]
        zeros = [_binomial(count, self._q) for count in range(others + 1)]
        self._others = np.array([np.convolve(ones[m], zeros[others - m]) for m in range(others + 1)])

    def delta(self, epsilon: float) -> float:
        """Return the least δ at ε ≥ 0, rounded outward; 0 from the local ε on."""
        q = self._q
        p = 1.0 - q
        growth = float(np.exp(epsilon)) * BELOW
        gain = (p - growth * q) * ABOVE + (ABOVE - 1.0) * p
        loss = (growth * p - q) * BELOW**2
        if p < growth * q * BELOW**2:
            return 0.0
        edge = np.zeros((self._others.shape[0], 1))
        shifted = np.hstack([edge, self._others])
        unshifted = np.hstack([self._others, edge])
        terms = gain * shifted * (1.0 + _SLACK) - loss * unshifted * (1.0 - _SLACK)
        total = np.maximum(terms, 0.0).sum(axis=1) * sum_margin(terms.shape[1])
        return min(1.0, float(total.max()) + 1e-290)


def _binomial(trials: int, p: float) -> Array:
    counts = np.arange(trials + 1, dtype=np.float64)
    logs, _ = log_binomial_pmf(counts, np.full_like(counts, float(trials)), p)
    return np.exp(logs)


def epsilon_shuffled(*, local: Decimal, people: int, delta: Decimal) -> Decimal | None:
    """Return ε of n shuffled reports that are ε₀-local, at δ, under replacement; None where the theorem doesn't hold.

    ln(1 + (e^{ε₀}−1)/(e^{ε₀}+1)·(8·√(e^{ε₀}·ln(4/δ)/n) + 8·e^{ε₀}/n)) if ε₀ ≤ ln(n/(16·ln(2/δ))), rounded up, and at
    most ε₀. Source: Feldman, McMillan, Talwar, Hiding Among the Clones, arXiv:2012.12803, Theorem 3.1. The counts of
    the outcomes tell the same as the shuffled reports. It falls with n, for which a public lower bound may stand.

    Raises:
        InputRefused: an argument out of range.
    """
    check_request(delta)
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
    """Return what the published outcome counts of n people's reports cost under replacement, n a public lower bound.

    The smallest of: the exact price for L = 1 ("outcome-counts-exact/1", where n is beyond `EXACT_PEOPLE` that of fewer
    people), the shuffle bound where its condition holds ("shuffle-fmt-3.1/1"), and the local ε ("local/1", with δ = 0).

    PRIVACY: under add/remove the total of the counts alone tells neighbours apart: this price never enters an
    add/remove budget.

    Raises:
        InputRefused: an argument out of range.
    """
    check_request(delta)
    local = local_epsilon(mechanism)
    choices = [(local, Decimal(0), LOCAL_RULE)]
    shuffled = epsilon_shuffled(local=local, people=people, delta=delta)
    if shuffled is not None:
        choices.append((shuffled, delta, SHUFFLED_RULE))
    if mechanism.bits == 1:
        profile = OnesProfile(people=people, flip_probability=float_down(mechanism.flip_probability))
        exact = least_epsilon(profile.delta, float_down(delta), high=float(local) + 1.0)
        if exact is not None:
            choices.append((decimal_up(exact), delta, EXACT_RULE))
    epsilon, spent, rule = min(choices)
    return Price(epsilon=epsilon, delta=spent, relation=REPLACEMENT, rule=rule, releases=1)


def _price(counts: OutcomeCounts, delta: Decimal, _releases: int, records: int) -> Price:
    """Return the price of outcome counts where one below that of the reports themselves is proved.

    PRIVACY: where none is, their price has another δ, and is charged as that of the reports.
    """
    if records > 1:
        raise InputRefused(
            "the counts of local reports have no price where a person may have several.",
            remedy="Charge the reports: leave out δ and the least number of people.",
        )
    price = price_outcome_counts(counts.randomizer, people=counts.least_people, delta=delta)
    if price.rule == LOCAL_RULE:
        raise InputRefused(
            f"for the counts of {counts.least_people} reports nothing below the price of the reports themselves, "
            f"ε = {amount_shown(price.epsilon)}, is proved at δ = {amount_exact(delta)}.",
            remedy="Charge the reports: leave out δ and the least number of people; or count more people.",
        )
    return price


OUTCOME_COUNTS: MechanismKind[OutcomeCounts] = MechanismKind(
    records={"outcome-counts/1": RecordForm(mechanism=OutcomeCounts, nested={"randomizer": KRandomization})},
    protections=(ReportsProtection,),
    pure=False,
    series=False,
    price=_price,
    filter_parts=no_filter_parts("its price stands alone: nothing else may be published of the same reports"),
    sampling_rate=lambda _: None,
    survey_rate=None,
    # PRIVACY: the proof uses the coins of everybody's report. A second publication made from the same reports, even one
    # with noise of its own, can give those coins away: the two prices don't add up (docs/proofs/outcome-counts.md).
    exclusive=True,
)
