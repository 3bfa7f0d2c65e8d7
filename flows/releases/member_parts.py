"""[unit.members]: the table of members that a deletion release of units publishes beside the table of units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...accounting.certificate.row_tables import MEMBERS
from ...accounting.certificate.write_certificate import certified_map
from ...accounting.kernel.prices.mechanism_kind import Price
from ...accounting.theory.planning.parts_beside import AskedMembers, price_tables
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.protection import Numbers
from ...mechanisms.kinds.deletion_noise import expected_deletion, largest_deletion
from ...mechanisms.kinds.deletion_protection import DeletionProtection, published_stages
from ...mechanisms.kinds.member_deletion import MembersDeletion, MembersProtection, split_numbers
from ...mechanisms.record_weights import record_weights
from ..margin_specs import epsilon_alone
from .release_kind import GivenSpec
from .stage_rows import StageRows, below_one_another, levels_of

if TYPE_CHECKING:
    from ...mechanisms.kinds.paired_deletion import PairedProtection
    from ...mechanisms.unit_records import MemberTable
    from ...tasks.stages.table import Publication

MEMBERS_SHARE = Decimal("0.5")
"""Of the privacy loss, for the table of members, where no other share is given."""


def asked_members(given: GivenSpec) -> AskedMembers | None:
    """Return what is asked of the table of members; None where there is none.

    Raises:
        InputRefused: a noise of its own is given for the units, or codes of a column that both tables have.
    """
    asked = None if given.tables.unit is None else given.tables.unit.members
    if asked is None:
        return None
    table = given.own
    for key in ("shape", "epsilon", "delta", "scale", "width"):
        if getattr(table, key) is not None:
            raise InputRefused(
                "the noise of both tables is planned together.",
                where=f"{given.path}: [deletion].{key}",
                remedy="Remove it, or [unit.members].",
            )
    for name in asked.columns:
        own = given.tables.columns.get(name)
        if own is not None and own.codes:
            raise InputRefused(
                "codes are of the table of units, and the table of members has a column of this name too.",
                where=f"{given.path}: [columns.{name}].codes",
                remedy="Rename the column of units, or remove its codes.",
            )
    return AskedMembers(
        most=asked.most, stages=len(next(iter(asked.columns.values()))), share=asked.share or MEMBERS_SHARE
    )


def protection_with_members(
    table: MemberTable, mechanism: MembersDeletion, units: DeletionProtection | PairedProtection
) -> MembersProtection:
    """Return what protects both tables.

    Args:
        table: which members are published.
        mechanism: the release.
        units: what protects the units by themselves.
    """
    members = DeletionProtection(
        mechanism=mechanism.members.release(k=mechanism.k),
        layouts=tuple(one.layout for one in table.maps),
        tables=tuple(finer.tables_to(coarser) for finer, coarser in pairwise(table.maps)),
        levels=(),
        margins=(),
    )
    return MembersProtection(mechanism=mechanism, units=units, members=members)


def with_table_of_members(
    table: MemberTable,
    mechanism: MembersDeletion,
    numbers: Numbers,
    *,
    form: str,
    units: Callable[[Numbers], Publication],
) -> Publication:
    """Return what is published of the units, with the table of members beside it.

    Args:
        table: which members are published.
        mechanism: the release.
        numbers: what the protection of both tables gave.
        form: "microdata" or "counts", of both tables.
        units: makes the publication of the units of their numbers.
    """
    own, of_members = split_numbers(numbers)
    publication, release = units(own), mechanism.members.release(k=mechanism.k)
    stages, _ = published_stages(
        of_members, k=release.k, layouts=[one.layout for one in table.maps], levels=(), margins=()
    )
    weights = [record_weights(stage.counts, release=release, stage=number) for number, stage in enumerate(stages, 1)]
    rows = StageRows(table.maps, stages, below_one_another(weights))
    made = rows.table(form)
    facts = {
        "most": table.most,
        "form": form,
        "groups": made.distinct,
        "records": made.records,
        "stages": rows.facts(release.noise),
        **made.told,
        "map": certified_map(table.maps[0]),
    }
    return replace(
        publication,
        beside={**publication.beside, MEMBERS: made},
        details={**publication.details, "members": facts},
    )


def members_explained(table: MemberTable, mechanism: MembersDeletion, charged: Price) -> dict[str, Any]:
    """Return what `explain` says of the table of members, and what each table would cost alone at the same δ."""
    units, members = price_tables(mechanism, delta=charged.delta, releases=charged.releases)
    noise = mechanism.members.noise
    return {
        "most": table.most,
        "in_words": table.in_words,
        "stages": [{"levels": levels_of(one)} for one in table.maps],
        "expected_deletion": float(expected_deletion(noise)),
        "largest_deletion": largest_deletion(noise),
        "epsilon_alone": epsilon_alone(members),
        "units_epsilon_alone": epsilon_alone(units),
    }
