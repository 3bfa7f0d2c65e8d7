"""Price a deletion release of units that publishes some members of each unit in a table of their own."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from ...mechanisms.kinds.member_deletion import (
    CalibratedMembersDeletion,
    MemberRows,
    MembersDeletion,
    MembersProtection,
    PairedMembersDeletion,
    WithMembers,
)
from ...mechanisms.kinds.paired_deletion import PairedDeletion
from ..kernel.prices.mechanism_kind import MechanismKind, Price, RecordForm, covered_by_fewer
from .composition.bounded_range import BoundedRange
from .composition.composed import FilterPart, Part
from .deletion_prices import (
    DELETION_SHAPES,
    GroupNoise,
    Met,
    draws_of_release,
    filter_parts_of_draws,
    losses_of_draws,
    price_of_draws,
)
from .paired_deletion_prices import choices_of_pairs, draws_of_pairs


def price_members_deletion(mechanism: WithMembers, *, delta: Decimal, releases: int = 1, records: int = 1) -> Price:
    """Return what is charged for T releases of units with a table of members, where a unit has up to M records.

    The composed losses of all that is published of the units, each draw met by one record, and of the stages of the
    members, each met by as many as a unit may have there; or their costs added up (docs/proofs/units.md).

    Raises:
        InputRefused: as `price_deletion`.
    """
    return price_of_draws(
        _draws(mechanism),
        delta,
        releases,
        records,
        choices=_choices(mechanism, records),
        rules="members-deletion",
    )


def _draws(mechanism: WithMembers) -> Counter[Met]:
    """Return how many times a unit meets a fresh draw of each noise, and with how many records."""
    units = draws_of_pairs(mechanism) if isinstance(mechanism, PairedDeletion) else draws_of_release(mechanism)
    members = mechanism.members
    units[GroupNoise(noise=members.noise, records=members.most_members)] += members.member_stages
    return units


def _choices(mechanism: WithMembers, records: int) -> Counter[BoundedRange]:
    return choices_of_pairs(mechanism, records) if isinstance(mechanism, PairedDeletion) else Counter()


def members_deletion_losses(mechanism: WithMembers) -> tuple[Part, ...]:
    """Return what a release is in a composition."""
    return (*losses_of_draws(_draws(mechanism), records=1), *_choices(mechanism, 1).elements())


def _filter_parts(mechanism: WithMembers, records: int) -> tuple[FilterPart, ...]:
    return (*filter_parts_of_draws(_draws(mechanism), records), *_choices(mechanism, records).elements())


def _form(mechanism: type) -> RecordForm:
    return RecordForm(mechanism=mechanism, nested={"members": MemberRows}, shapes=DELETION_SHAPES)


MEMBERS_DELETION: MechanismKind[WithMembers] = MechanismKind(
    records={
        "members-deletion-release/1": _form(MembersDeletion),
        "calibrated-members-deletion-release/1": _form(CalibratedMembersDeletion),
        "paired-members-deletion-release/1": _form(PairedMembersDeletion),
    },
    protections=(MembersProtection,),
    pure=False,
    series=True,
    price=lambda mechanism, delta, releases, records: price_members_deletion(
        mechanism, delta=delta, releases=releases, records=records
    ),
    filter_parts=_filter_parts,
    sampling_rate=lambda _: None,
    survey_rate=None,
    exclusive=False,
    not_covered=covered_by_fewer,
)
