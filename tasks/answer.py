"""The stage that answers a COUNT, SUM or MEAN: exact tallies, noise drawn once, stored, then used."""

from __future__ import annotations

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from ..accounting.ledger.charge import Receipt
from ..accounting.ledger.keystore import ReleaseFolder
from ..mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer, Tally, answered, tallied
from ..mechanisms.hierarchy import BUCKET_CODE
from ..mechanisms.suppression import GroupCounts
from .answer_table import PublishedAnswers, write_answers
from .executors import Advanced, Executor
from .publication import Publication
from .request import AnswerRequest
from .settled_numbers import settle_numbers, settled_numbers
from .source import SourceLayout
from .stage import stage
from .whole_counts import exact_counts

__all__ = ["published_answer"]

FIRST_CODE = 2  # after the bucket's and the one of smaller numbers, as `IntervalHierarchy` has them


@stage("count")
def published_answer(
    *,
    receipt: Receipt,
    request: AnswerRequest,
    layout: SourceLayout,
    folder: ReleaseFolder,
    executor: Executor,
    advanced: Advanced,
) -> Publication:
    """Tally, add the noise and store the result, or take the one that an earlier attempt has stored.

    PRIVACY: as for a histogram: the stored numbers are those that are published, and an attempt that ends before they
    are stored has given nothing away.

    Args:
        receipt: proof that the release is paid for; the sample is the one that it names.
        request: what is asked for.
        layout: the files of the records.
        folder: the release's folder in the private store.
        executor: where the counting is done.
        advanced: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records can't be read, the workers were lost, or the draw can't be stored.
    """
    answer = request.mechanism
    steps = settled_numbers(count=answer.groups, request=request, folder=folder, sample_id=receipt.sample_id)
    if steps is None:
        counts = exact_counts(
            receipt=receipt,
            request=request,
            rate=answer.sampling_rate,
            layout=layout,
            folder=folder,
            executor=executor,
            advanced=advanced,
        )
        steps = answered(answer, tally_of(counts, request))
        # INVARIANT: durable before it is used.
        settle_numbers(steps, request=request, folder=folder, sample_id=receipt.sample_id)
    answers = PublishedAnswers.of(request, steps)
    return Publication(
        write=lambda place: write_answers(answers, folder=place, file_format=request.file_format),
        groups=answer.groups,
        records=None,
        form="answer",
        details={"confidence": str(request.confidence), "missing": request.missing},
    )


def tally_of(counts: GroupCounts, request: AnswerRequest) -> Tally:
    """Records and clamped sums of each group, from how many records have which codes.

    Args:
        counts: of `request.recoding`.
        request: what is asked for.
    """
    answer = request.mechanism
    codes = request.recoding.decode(counts.keys)
    groups = np.zeros(counts.counts.size, dtype=np.int64)
    if request.groups is not None:
        groups = request.groups.keys(codes[: len(request.groups.columns)])[0]
    match answer:
        case CountAnswer():
            values = None
        case SumAnswer(lower=lower, upper=upper) | MeanAnswer(lower=lower, upper=upper):
            values = _values(codes[-1], lower=lower, upper=upper, missing=request.missing)
        case _:
            assert_never(answer)
    return tallied(answer, groups=groups, values=values, times=counts.counts)


def _values(codes: NDArray[np.int64], *, lower: int, upper: int, missing: int) -> NDArray[np.int64]:
    """The number that each code stands for: the bound for one beyond it, `missing` for what is no number."""
    values = np.clip(codes - FIRST_CODE + lower, lower, upper)
    values[codes == BUCKET_CODE] = missing
    return values
