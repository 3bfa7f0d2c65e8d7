"""Synthetic tables: ρ-zero-concentrated privacy, charged as the least (ε, δ) that follows from it."""

from __future__ import annotations

import math
from decimal import Decimal

from ...mechanisms.kernel.amounts import amount_exact
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.synthetic_table import LARGEST_RHO, SyntheticTable
from ..kernel.prices.amplification import Concentrated
from ..kernel.prices.arithmetic import add_up, decimal_down, decimal_up, exact_log_down, multiply_up
from ..kernel.prices.group_privacy import rule_for_group
from ..kernel.prices.mechanism_kind import (
    RELATION,
    WHOLE,
    MechanismKind,
    Price,
    Published,
    RecordForm,
    Statements,
    check_request,
    not_composed,
)
from ..kernel.prices.renyi import conversion_loss

__all__ = ["SYNTHETIC_TABLE", "concentrated_epsilon", "largest_rho"]

_RULE, _RULE_OF_SERIES = "zero-concentrated/1", "zero-concentrated-series/1"
_DONE = (
    "The rows of this table are synthetic: none is a record of a person, and combinations of labels may be there that "
    "nobody has. A model was fitted by {method} of the library OpenDP to noisy counts of labels that were declared "
    "before the records were read, of single columns and of combinations that were chosen privately; the rows were "
    "drawn from it, each by itself."
)
_SERIES = (
    "Each release fitted a model of its own to noisy counts of all records, of labels that were declared before they "
    "were read, and drew its rows from that; none is a record of a person."
)
_THEOREM = (
    "Bun, Steinke, arXiv:1605.02065, Definition 1.1, by the conversion of Canonne, Kamath, Steinke, "
    "arXiv:2004.00010, Proposition 12; proved in docs/proofs/synthetic-table.md, given that the library's choices "
    "and counts have the stated rho"
)
_NEAREST, _FARTHEST, _WIDTH = math.log(1e-9), math.log(1e9), 1e-7
_LEAST_RHO = 1e-12
_GOLDEN = 0.6180339887498949  # (√5 − 1)/2


def concentrated_epsilon(rho: Decimal, *, delta: Decimal) -> Decimal:
    """An ε at which ρ-zero-concentrated differential privacy is (ε, δ)-private: the least over all orders, nearly.

    It is αρ + ln((α−1)/α) − (ln δ + ln α)/(α − 1) at the order α that was found; every α > 1 gives a valid ε, so that
    the search decides nothing but how little is charged (docs/proofs/synthetic-table.md). Source: Bun, Steinke,
    arXiv:1605.02065, Definition 1.1; Canonne, Kamath, Steinke, arXiv:2004.00010, Proposition 12.

    Args:
        rho: ρ > 0.
        delta: δ, 0 < δ < 1.

    Returns:
        ε ≥ 0, rounded up to 12 digits.
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


def largest_rho(epsilon: Decimal, *, delta: Decimal, records: int = 1, releases: int = 1) -> Decimal:
    """About the largest ρ of each table whose price is at most ε together, of at most 12 digits.

    Args:
        epsilon: ε > 0.
        delta: δ, 0 < δ < 1.
        records: M, the most records of one person.
        releases: T, how many tables.

    Raises:
        InputRefused: there is none.
    """
    check_request(delta, releases)

    def fits(rho: Decimal) -> bool:
        return concentrated_epsilon(_of_all(rho, records, releases), delta=delta) <= epsilon

    low, high = math.log(_LEAST_RHO), math.log(LARGEST_RHO)
    while high - low > _WIDTH * 1e-4:
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(Decimal(math.exp(middle))) else (low, middle)
    rho = decimal_down(Decimal(math.exp(low)))
    if not fits(rho):
        raise InputRefused(f"epsilon {amount_exact(epsilon)} is too little for a synthetic table.", remedy="Raise it.")
    return rho


def _of_all(rho: Decimal, records: int, releases: int) -> Decimal:
    """ρ of T tables where the records of a person are M: T·M²ρ.

    Source: Bun, Steinke, arXiv:1605.02065, Propositions 1.9 and 1.7 (docs/proofs/synthetic-table.md, 2 and 7).
    """
    return multiply_up(rho, records * records * releases)


def _price(mechanism: SyntheticTable, delta: Decimal, releases: int) -> Price:
    return _group_price(mechanism, delta, releases, 1)


def _group_price(mechanism: SyntheticTable, delta: Decimal, releases: int, records: int) -> Price:
    check_request(delta, releases)
    rule = _RULE if releases == 1 else _RULE_OF_SERIES
    return Price(
        epsilon=concentrated_epsilon(_of_all(mechanism.rho, records, releases), delta=delta),
        delta=delta,
        relation=RELATION,
        rule=rule if records == 1 else rule_for_group(rule, even=False),
        releases=releases,
        rows_per_person=records,
    )


def _filter_parts(mechanism: SyntheticTable, records: int) -> tuple[Concentrated, ...]:
    return (Concentrated(rho=_of_all(mechanism.rho, records, 1)),)


SYNTHETIC_TABLE: MechanismKind[SyntheticTable] = MechanismKind(
    records={"synthetic-table/1": RecordForm(mechanism=SyntheticTable)},
    pure=False,
    price=_price,
    group_price=_group_price,
    paper_price=None,
    losses=not_composed,
    filter_parts=_filter_parts,
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda _: None,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={
        _RULE: _THEOREM,
        _RULE_OF_SERIES: f"{_THEOREM}; of several tables the sum",
    },
    statements=Statements(
        done=lambda mechanism: f"{WHOLE} {_DONE.format(method=mechanism.method.upper())}",
        proved=lambda *_: "",
        chosen="a choice of columns, levels or method",
        series=_SERIES,
        published=Published("combination", "combinations", "synthetic row"),
    ),
)
