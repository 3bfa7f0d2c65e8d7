"""COUNT, SUM and MEAN, and sums of products: they cost ε exactly, or less on a fresh sample."""

from __future__ import annotations

from decimal import Decimal

from ...mechanisms.kinds.answers import (
    Answer,
    AnswerProtection,
    CountAnswer,
    MeanAnswer,
    RehearsalProtection,
    SumAnswer,
)
from ...mechanisms.kinds.moments import MomentsAnswer, MomentsProtection
from ..kernel.prices.arithmetic import decimal_up
from ..kernel.prices.mechanism_kind import MechanismKind, Price, RecordForm
from .composition.amplification import Guarantee, amplified
from .composition.composed import pure_filter_parts
from .composition.group_privacy import summed_group_price


def price_answer(answer: Answer) -> Price:
    """Return the price of an answer, all its groups together, under its own relation; δ is 0.

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


_price = summed_group_price(price_answer)

ANSWERS: MechanismKind[Answer] = MechanismKind(
    records={
        "count-answer/1": RecordForm(mechanism=CountAnswer),
        "sum-answer/1": RecordForm(mechanism=SumAnswer),
        "mean-answer/1": RecordForm(mechanism=MeanAnswer),
    },
    protections=(AnswerProtection, RehearsalProtection),
    pure=True,
    series=False,
    price=_price,
    filter_parts=pure_filter_parts(_price),
    sampling_rate=lambda answer: answer.sampling_rate,
    survey_rate=None,
    exclusive=False,
)


def price_moments(moments: MomentsAnswer) -> Price:
    """Return the price of all sums together, under their own relation: ε, and δ is 0 (docs/proofs/answers.md)."""
    epsilon, relation = decimal_up(moments.epsilon), moments.relation
    return Price(epsilon=epsilon, delta=Decimal(0), relation=relation, rule="pure-noise/1", releases=1)


_price_of_moments = summed_group_price(price_moments)

MOMENTS: MechanismKind[MomentsAnswer] = MechanismKind(
    records={"moments-answer/1": RecordForm(mechanism=MomentsAnswer)},
    protections=(MomentsProtection,),
    pure=True,
    series=False,
    price=_price_of_moments,
    filter_parts=pure_filter_parts(_price_of_moments),
    sampling_rate=lambda _: None,
    survey_rate=None,
    exclusive=False,
)
