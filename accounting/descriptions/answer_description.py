"""Describe answers: counts, sums and means."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from ...mechanisms.kinds.answers import Answer, CountAnswer, MeanAnswer, SumAnswer
from ..kinds.answer_prices import price_answer
from ..kinds.composition.amplification import Guarantee
from .kind_description import SAMPLED, WHOLE, KindDescription, Published

_LAPLACE = "Laplace mechanism and its discrete form"


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


ANSWERS: KindDescription[Answer] = KindDescription(
    done=_done,
    published=Published("answer", "answers", ""),
    theorems={
        "pure-noise/1": f"{_LAPLACE}; proved in docs/proofs/answers.md",
        "pure-noise-amplified/1": f"{_LAPLACE}, proved in docs/proofs/answers.md, amplified by Li, Qardaji, Su, "
        "arXiv:1101.2604v2, Theorem 1",
    },
    losses=lambda answer: (Guarantee(epsilon=price_answer(answer).epsilon, delta=Decimal(0)),),
)
