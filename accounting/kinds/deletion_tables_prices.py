"""Price deletion releases with further tables: pairs of columns, several tables of rows, and a table of members."""

from __future__ import annotations

from collections import Counter

from ...mechanisms.kinds.deletion import DeletionRelease
from ...mechanisms.kinds.member_deletion import (
    CalibratedMembersDeletion,
    MemberRows,
    MembersDeletion,
    MembersProtection,
    PairedMembersDeletion,
)
from ...mechanisms.kinds.paired_deletion import BlockedDeletion, PairedDeletion, PairedProtection
from ..kernel.prices.arithmetic import decimal_up, multiply_up
from ..kernel.prices.mechanism_kind import MechanismKind, RecordForm
from .composition.bounded_range import BoundedRange
from .composition.composed import Part
from .deletion_prices import DELETION_SHAPES, GroupNoise, Met, deletion_kind, draws_of_release, losses_of_draws


def draws_of_tables(mechanism: DeletionRelease) -> Counter[Met]:
    """Return how many times a record or unit meets a fresh draw of each noise; INVARIANT: of equal noises, added up.

    Each draw is met by one record, but those of a table of members by as many as a unit may have there
    (docs/proofs/pairs.md, docs/proofs/units.md).
    """
    draws = draws_of_release(mechanism)
    if isinstance(mechanism, PairedDeletion):
        # All tables of rows are of all records, so that a record meets the stages of each.
        draws[mechanism.noise] += (mechanism.tables - 1) * mechanism.stages
        draws[mechanism.pair_noise] += mechanism.pairs
    if isinstance(mechanism, MembersDeletion):
        members = mechanism.members
        draws[GroupNoise(noise=members.noise, records=members.most_members)] += members.member_stages
    return draws


def choices_of_pairs(mechanism: DeletionRelease, records: int) -> Counter[BoundedRange]:
    """Return each release's draws of pairs; the losses of each lie within a range of M·ε for M records of a person."""
    if not isinstance(mechanism, PairedDeletion):
        return Counter()
    epsilon = decimal_up(multiply_up(mechanism.pair_epsilon, records))
    return Counter({BoundedRange(epsilon=epsilon): mechanism.pairs})


def losses_of_tables(mechanism: DeletionRelease) -> tuple[Part, ...]:
    """Return what a release is in a composition: the draws of all its tables, and the choices of its pairs."""
    return (*losses_of_draws(draws_of_tables(mechanism), records=1), *choices_of_pairs(mechanism, 1).elements())


PAIRED_DELETION: MechanismKind[PairedDeletion] = deletion_kind(
    {
        "paired-deletion-release/1": RecordForm(mechanism=PairedDeletion, shapes=DELETION_SHAPES),
        "blocked-deletion-release/1": RecordForm(mechanism=BlockedDeletion, shapes=DELETION_SHAPES),
    },
    PairedProtection,
    draws=draws_of_tables,
    choices=choices_of_pairs,
    rules="paired-deletion",
)

MEMBERS_DELETION: MechanismKind[MembersDeletion] = deletion_kind(
    {
        name: RecordForm(mechanism=mechanism, nested={"members": MemberRows}, shapes=DELETION_SHAPES)
        for name, mechanism in (
            ("members-deletion-release/1", MembersDeletion),
            ("calibrated-members-deletion-release/1", CalibratedMembersDeletion),
            ("paired-members-deletion-release/1", PairedMembersDeletion),
        )
    },
    MembersProtection,
    draws=draws_of_tables,
    choices=choices_of_pairs,
    rules="members-deletion",
)
