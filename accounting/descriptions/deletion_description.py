"""Describe deletion releases, their maps fixed or chosen privately."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ...mechanisms.kernel.amounts import counted
from ...mechanisms.kinds.deletion import CalibratedDeletion, DeletionRelease, SelectedDeletion
from ...mechanisms.kinds.deletion_noise import WEIGHT_TOTAL, deletion_weights, expected_deletion, largest_deletion
from ...mechanisms.kinds.member_deletion import MembersDeletion
from ...mechanisms.kinds.paired_deletion import PairedDeletion
from ...mechanisms.record_weights import deletion_variance
from ..kinds.deletion_prices import deletion_parts
from ..kinds.deletion_tables_prices import losses_of_tables
from ..kinds.selected_deletion_prices import selected_deletion_losses
from .kind_description import DeletedRecords, KindDescription, Published
from .microdata_description import BOUNDED_RANGE

if TYPE_CHECKING:
    from ...mechanisms.measures.risk import ToldLosses

M = TypeVar("M", bound=DeletionRelease)


def _deleted(mechanism: DeletionRelease) -> DeletedRecords:
    noise, margins, spread = mechanism.noise, 0, Fraction(0)
    if isinstance(mechanism, CalibratedDeletion):
        margins, spread = mechanism.margins, deletion_variance(mechanism.margin_noise)
    return DeletedRecords(
        stages=mechanism.stages,
        k=mechanism.k,
        weights=deletion_weights(noise),
        total=WEIGHT_TOTAL,
        expected=expected_deletion(noise),
        variance=deletion_variance(noise),
        largest=largest_deletion(noise),
        margins=margins,
        margin_variance=spread,
    )


def _told(mechanism: DeletionRelease) -> ToldLosses:
    from ...mechanisms.measures.risk import deletion_losses  # of private reports alone

    return partial(deletion_losses, noise=mechanism.noise, k=mechanism.k)


_LABEL = "deletion in {in_stages}, k = {k}, {coins}"
_PROVED = "proved in docs/proofs/deletion.md"
_DONE = (
    "Every record was read; no sample was drawn. {stages} Each group lost a secret random number of records, drawn for "
    "it alone, and a group of which fewer than {k} would have been left published none."
)
_FIXED = "fixed before they were read"
_FIXED_OR_COMPUTED = f"{_FIXED} or computed from noisy counts of the same release alone"
_ONE_STAGE = f"The records were recoded with a map that was {_FIXED}."
_STAGES = (
    "The records were recoded with a chain of {stages} maps, each coarser than the one before, all "
    f"{_FIXED}; what a stage did not publish went on to the next."
)
_MARGINS = (
    "Beside the rows {margins} of the same records {are} published, of labels that were declared before they were "
    "read, empty cells too; each cell has noise of its own, and the rows' weights were computed from these noisy "
    "counts."
)
_SERIES = (
    f"Each release recoded all records with maps that were {_FIXED}; each group lost a secret random "
    "number of records, drawn for it alone in that release. Margins beside the rows, where there are any, have noise "
    "drawn for each cell alone in that release."
)


def _done(mechanism: DeletionRelease) -> str:
    stages = _ONE_STAGE if mechanism.stages == 1 else _STAGES.format(stages=mechanism.stages)
    if isinstance(mechanism, PairedDeletion):  # its levels may follow from what it has published before
        stages = stages.replace(_FIXED, _FIXED_OR_COMPUTED)
    done = _DONE.format(stages=stages, k=counted(mechanism.k, "record"))
    if not isinstance(mechanism, CalibratedDeletion):
        return done
    are = "is" if mechanism.margins == 1 else "are"
    return f"{done} {_MARGINS.format(margins=counted(mechanism.margins, 'margin'), are=are)}"


_SELECTED_PROVED = "proved in docs/proofs/deletion.md and docs/proofs/map-quality.md"
_DRAWN = "drawn privately from candidates declared before any record was read"
_SELECTED_DONE = (
    "Every record was read; no sample was drawn. The records were recoded with {maps}; what the draw costs is part of "
    "epsilon and delta. Each group lost a secret random number of records, drawn for it alone, and a group of which "
    "fewer than {k} would have been left published none."
)
_SELECTED_SERIES = (
    f"Each release recoded all records with maps that were {_DRAWN}, anew for that release; what the draw costs is "
    "part of epsilon and delta. Each group lost a secret random number of records, drawn for it alone in that release."
)


def _selected_done(mechanism: SelectedDeletion) -> str:
    maps = f"a map that was {_DRAWN}"
    if mechanism.stages > 1:
        maps = (
            f"a chain of {mechanism.stages} maps, each coarser than the one before, that was {_DRAWN}; what a "
            "stage did not publish went on to the next"
        )
    return _SELECTED_DONE.format(maps=maps, k=counted(mechanism.k, "record"))


DELETION: KindDescription[DeletionRelease] = KindDescription(
    done=_done,
    chosen="a choice of levels, k or noise",
    series=_SERIES,
    published=Published("group", "groups", "record"),
    theorems={
        "deletion-exact/1": f"optimal partition selection of Desfontaines, Voss, Gipson, Mandayam, arXiv:2006.03684, "
        f"Theorem 1, as deletion; {_PROVED}",
        "deletion-sum/1": f"{_PROVED}, the stages' costs added up",
        "deletion-composed/1": f"{_PROVED}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
    },
    losses=deletion_parts,
    label=_LABEL,
    deletion=_deleted,
    told=_told,
)


SELECTED_DELETION: KindDescription[SelectedDeletion] = KindDescription(
    done=_selected_done,
    chosen="a choice of candidates, weights, k or noise",
    series=_SELECTED_SERIES,
    published=Published("group", "groups", "record"),
    theorems={
        "selected-deletion-sum/1": f"{_SELECTED_PROVED}: the draw's cost and that of the releases, added up",
        "selected-deletion-bounded-range/1": f"{_SELECTED_PROVED}, {BOUNDED_RANGE}, composed by Zhu, Dong, Wang, "
        "arXiv:2106.08567",
        "selected-deletion-composed/1": f"{_SELECTED_PROVED}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
    },
    losses=selected_deletion_losses,
    label=f"{_LABEL}, levels chosen at ε {{selection_epsilon}} on all records",
    deletion=_deleted,
    told=_told,
)


_PAIRS = (
    "Then {pairs} of columns were chosen one after the other, each by a private draw that compares the records with "
    "what had been published before, and {counted} with noise of {own} own; what the draws cost is part of epsilon and "
    "delta."
)
_PAIRED_SERIES = (
    f"{_SERIES.replace(_FIXED, _FIXED_OR_COMPUTED)} Pairs of columns were chosen privately in each release by what it "
    "had published before, and counted with noise; what the draws cost is part of epsilon and delta."
)


def _paired_done(mechanism: PairedDeletion) -> str:
    one = mechanism.pairs == 1
    pairs = _PAIRS.format(
        pairs=counted(mechanism.pairs, "pair"),
        counted="was counted" if one else "were counted",
        own="its" if one else "their",
    )
    return f"{_done(mechanism)} {pairs}"


def _with_tables(
    *, rules: str, done: Callable[[M], str], chosen: str, series: str, proved: str, costs: str, beside: str
) -> KindDescription[M]:
    """Describe a kind with tables beside its rows and margins."""
    return KindDescription(
        done=done,
        chosen=chosen,
        series=series,
        published=Published("group", "groups", "record"),
        theorems={
            f"{rules}-sum/1": f"{proved}: the costs of {costs}, added up",
            f"{rules}-composed/1": f"{proved}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
        },
        losses=losses_of_tables,
        label=f"{_LABEL}, {beside}",
        deletion=_deleted,
        told=_told,
    )


PAIRED_DELETION: KindDescription[PairedDeletion] = _with_tables(
    rules="paired-deletion",
    done=_paired_done,
    chosen="a choice of levels, k, noise or the number of pairs",
    series=_PAIRED_SERIES,
    proved="proved in docs/proofs/pairs.md and docs/proofs/bounded-range.md",
    costs="stages, margins, pairs and draws",
    beside="{pairs} pairs chosen at ε {pair_epsilon} each",
)


_MEMBERS = (
    "Beside the table of units, in a table of their own, members of each unit are published: at most {most} of a unit, "
    "recoded with {maps} fixed before the records were read. Each group of members lost a secret random number of "
    "records too, with noise for that many members of one unit. No row of either table says which unit it belongs to."
)
_MEMBERS_SERIES = (
    f"{_PAIRED_SERIES} In each release members of units are published in a table of their own, at most so many of a "
    "unit as the price covers."
)


def _members_done(mechanism: MembersDeletion) -> str:
    done = _paired_done(mechanism) if isinstance(mechanism, PairedDeletion) else _done(mechanism)
    rows = mechanism.members
    maps = "a map" if rows.member_stages == 1 else f"a chain of {rows.member_stages} maps, the finest first,"
    return f"{done} {_MEMBERS.format(most=counted(rows.most_members, 'member'), maps=maps)}"


MEMBERS_DELETION: KindDescription[MembersDeletion] = _with_tables(
    rules="members-deletion",
    done=_members_done,
    chosen="a choice of levels, k, noise, or the number of members or pairs",
    series=_MEMBERS_SERIES,
    proved="proved in docs/proofs/units.md, docs/proofs/deletion.md and docs/proofs/pairs.md",
    costs="both tables and of all beside them",
    beside="up to {most_members} members of a unit",
)
