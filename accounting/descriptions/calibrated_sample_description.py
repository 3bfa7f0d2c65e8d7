"""Describe sampled releases with noisy margins of all records beside their rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...mechanisms.kernel.amounts import counted
from ...mechanisms.kinds.calibrated_sample import CalibratedSample
from ..kinds.calibrated_sample_prices import calibrated_sample_parts
from .kind_description import KindDescription
from .microdata_description import RECORDS

if TYPE_CHECKING:
    from ...mechanisms.measures.risk import ToldLosses

_DONE = (
    "Every record was counted; no sample was drawn before that. The rows are of those counted records that fresh "
    "independent coins of this release alone chose, recoded with a map that was fixed before they were read; groups of "
    "fewer than k chosen records were left out. Beside the rows {margins} of all records {are} published, of labels "
    "that were declared before the records were read, empty cells too; each cell has noise of its own, and the rows' "
    "weights were computed from these noisy counts."
)
_SERIES = (
    "Each release recoded all records with a map that was fixed before they were read, chose some by fresh independent "
    "coins and left groups of fewer than k chosen records out. Margins of all records beside the rows have noise drawn "
    "for each cell alone in that release."
)
_PROVED = "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form and margins proved in docs/proofs"


def _done(mechanism: CalibratedSample) -> str:
    are = "is" if mechanism.margins == 1 else "are"
    return _DONE.format(margins=counted(mechanism.margins, "margin"), are=are)


def _told(mechanism: CalibratedSample) -> ToldLosses:
    from ...mechanisms.measures.risk import sampling_losses  # of private reports alone

    return partial(sampling_losses, rate=float(mechanism.sampling_rate), k=mechanism.k)


CALIBRATED_SAMPLE: KindDescription[CalibratedSample] = KindDescription(
    done=_done,
    chosen="a choice of levels, k, rate or noise",
    series=_SERIES,
    published=RECORDS,
    theorems={
        "calibrated-sample-sum/1": f"{_PROVED}, the costs of rows and margins added up",
        "calibrated-sample-composed/1": f"{_PROVED}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
    },
    losses=calibrated_sample_parts,
    label="k = {k}, rate {sampling_rate}, {margins} margins with noise of σ = {margin_scale}",
    told=_told,
)
