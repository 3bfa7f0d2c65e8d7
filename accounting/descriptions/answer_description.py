"""Describe answers: counts, sums and means, and sums of products."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from ...mechanisms.kinds.answers import Answer, CountAnswer, MeanAnswer, SumAnswer
from ...mechanisms.kinds.moments import MomentsAnswer
from ..kinds.answer_prices import price_answer, price_moments
from ..kinds.composition.amplification import Guarantee
from .kind_description import SAMPLED, WHOLE, KindDescription, Published

_LAPLACE = "Laplace mechanism and its discrete form"
_PROVED = {"pure-noise/1": f"{_LAPLACE}; proved in docs/proofs/answers.md"}


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
        **_PROVED,
        "pure-noise-amplified/1": f"{_LAPLACE}, proved in docs/proofs/answers.md, amplified by Li, Qardaji, Su, "
        "arXiv:1101.2604v2, Theorem 1",
    },
    losses=lambda answer: (Guarantee(epsilon=price_answer(answer).epsilon, delta=Decimal(0)),),
)


def _moments_done(moments: MomentsAnswer) -> str:
    return (
        f"{WHOLE} Numbers were clamped to declared bounds, products of each two columns ({moments.columns}) were added "
        f"up over the records that have a declared value in all of them, and each of the {moments.cells:,} sums has "
        "two-sided geometric noise."
    )


MOMENTS: KindDescription[MomentsAnswer] = KindDescription(
    done=_moments_done,
    published=Published("sum", "sums", ""),
    theorems=_PROVED,
    losses=lambda moments: (Guarantee(epsilon=price_moments(moments).epsilon, delta=Decimal(0)),),
)
