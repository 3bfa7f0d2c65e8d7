"""COUNT, SUM and MEAN: they cost ε exactly, or less on a fresh sample."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from ...mechanisms.kinds.answers import Answer, CountAnswer, MeanAnswer, SumAnswer
from ..kernel.prices.amplification import Guarantee, amplified
from ..kernel.prices.arithmetic import decimal_up
from ..kernel.prices.group_privacy import summed_group_price
from ..kernel.prices.mechanism_kind import (
    CHOSEN,
    SAMPLED,
    WHOLE,
    MechanismKind,
    Price,
    Published,
    RecordForm,
    Statements,
    pure_filter_parts,
)

__all__ = ["ANSWERS", "price_answer"]

_LAPLACE = "Laplace mechanism and its discrete form"


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


def _done(answer: Answer) -> str:
    return f"{WHOLE if answer.sampling_rate is None else SAMPLED} {_answered(answer)}"


def _answered(answer: Answer) -> str:
    where = "" if answer.groups == 1 else f" in each of {answer.groups} declared groups, empty ones too"
    match answer:
        case CountAnswer():
            return f"The records were counted{where}, and each count has two-sided geometric noise."
        case SumAnswer(lower=lower, upper=upper):
            return (
                f"Values clamped to {lower} … {upper} were added up{where}, and each sum has two-sided geometric noise."
            )
        case MeanAnswer(lower=lower, upper=upper, least_records=least):
            return (
                f"Values clamped to {lower} … {upper} were added up{where} and divided by the number of records, or by "
                f"{least} where there are fewer; each quotient has Laplace noise on a fine grid."
            )
        case _:
            assert_never(answer)


def _price(answer: Answer, _delta: Decimal, _releases: int) -> Price:
    return price_answer(answer)


ANSWERS: MechanismKind[Answer] = MechanismKind(
    records={
        "count-answer/1": RecordForm(mechanism=CountAnswer),
        "sum-answer/1": RecordForm(mechanism=SumAnswer),
        "mean-answer/1": RecordForm(mechanism=MeanAnswer),
    },
    pure=True,
    price=_price,
    group_price=summed_group_price(_price),
    paper_price=None,
    losses=lambda answer: (Guarantee(epsilon=price_answer(answer).epsilon, delta=Decimal(0)),),
    filter_parts=pure_filter_parts(summed_group_price(_price)),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda answer: answer.sampling_rate,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={
        "pure-noise/1": f"{_LAPLACE}; proved in docs/proofs/answers.md",
        "pure-noise-amplified/1": f"{_LAPLACE}, proved in docs/proofs/answers.md, amplified by Li, Qardaji, Su, "
        "arXiv:1101.2604v2, Theorem 1",
    },
    statements=Statements(
        done=_done,
        proved=lambda *_: "",
        chosen=CHOSEN,
        series=None,
        published=Published("answer", "answers", ""),
    ),
)
