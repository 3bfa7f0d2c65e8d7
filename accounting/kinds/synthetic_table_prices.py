"""Synthetic tables: ρ-zero-concentrated privacy, charged as the least (ε, δ) that follows from it."""

from __future__ import annotations

import math
from decimal import Decimal

from ...mechanisms.kinds.synthetic_table import SyntheticProtection, SyntheticTable
from ..kernel.prices.arithmetic import add_up, decimal_up, exact_log_down, multiply_up
from ..kernel.prices.mechanism_kind import RELATION, MechanismKind, Price, RecordForm, check_request
from .composition.amplification import Concentrated
from .composition.group_privacy import rule_for_group
from .composition.renyi_filter import conversion_loss

RULE, RULE_OF_SERIES = "zero-concentrated/1", "zero-concentrated-series/1"
_NEAREST, _FARTHEST, _WIDTH = math.log(1e-9), math.log(1e9), 1e-7
_GOLDEN = 0.6180339887498949  # (√5 − 1)/2


def concentrated_epsilon(rho: Decimal, *, delta: Decimal) -> Decimal:
    """Return an ε at which ρ-zero-concentrated privacy is (ε, δ)-private: nearly the least over all orders.

    It is αρ + ln((α−1)/α) − (ln δ + ln α)/(α − 1) at the order α that was found; every α > 1 gives a valid ε, so that
    the search decides nothing but how little is charged (docs/proofs/synthetic-table.md). Source: Bun, Steinke,
    arXiv:1605.02065, Definition 1.1; Canonne, Kamath, Steinke, arXiv:2004.00010, Proposition 12.
    """
    order = decimal_up(add_up(1, Decimal(math.exp(_best_place(float(rho), float(exact_log_down(delta)))))))
    epsilon = add_up(multiply_up(order, rho), conversion_loss(order, delta))
    return decimal_up(max(epsilon, Decimal(0)))


def _best_place(rho: float, log_delta: float) -> float:
    """ln(α − 1) at about the least ε, in doubles: a golden-section search."""

    def epsilon(place: float) -> float:  # but for ρ, which all orders have
        above = math.exp(place)
        return above * rho - math.log1p(1.0 / above) - (log_delta + math.log1p(above)) / above

    low, high = _NEAREST, _FARTHEST
    while high - low > _WIDTH:
        first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if epsilon(first) <= epsilon(second):
            high = second
        else:
            low = first
    return low


def rho_of_all(rho: Decimal, records: int, releases: int) -> Decimal:
    """ρ of T tables where the records of a person are M: T·M²ρ.

    Source: Bun, Steinke, arXiv:1605.02065, Propositions 1.9 and 1.7 (docs/proofs/synthetic-table.md, 2 and 7).
    """
    return multiply_up(rho, records * records * releases)


def _price(mechanism: SyntheticTable, delta: Decimal, releases: int, records: int) -> Price:
    check_request(delta, releases)
    rule = RULE if releases == 1 else RULE_OF_SERIES
    return Price(
        epsilon=concentrated_epsilon(rho_of_all(mechanism.rho, records, releases), delta=delta),
        delta=delta,
        relation=RELATION,
        rule=rule if records == 1 else rule_for_group(rule, even=False),
        releases=releases,
        rows_per_person=records,
    )


def _filter_parts(mechanism: SyntheticTable, records: int) -> tuple[Concentrated, ...]:
    return (Concentrated(rho=rho_of_all(mechanism.rho, records, 1)),)


SYNTHETIC_TABLE: MechanismKind[SyntheticTable] = MechanismKind(
    records={"synthetic-table/1": RecordForm(mechanism=SyntheticTable)},
    protections=(SyntheticProtection,),
    pure=False,
    series=True,
    price=_price,
    filter_parts=_filter_parts,
    sampling_rate=lambda _: None,
    survey_rate=None,
    exclusive=False,
)
