"""Describe what is published beside the rows of a deletion release: its noise, share of the loss, and price alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal

from ....mechanisms.kernel.amounts import amount_exact
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kinds.deletion import CalibratedDeletion, DeletionRelease
from ....mechanisms.kinds.deletion_noise import GaussianDeletion
from ....mechanisms.kinds.member_deletion import (
    CalibratedMembersDeletion,
    MemberRows,
    MembersDeletion,
    PairedMembersDeletion,
    members_of,
)
from ....mechanisms.kinds.paired_deletion import PairedDeletion
from ...kernel.prices.mechanism_kind import Price, check_request
from ...kernel.prices.registry import price
from ...kinds.composition.bounded_range import BoundedRange
from ...kinds.deletion_prices import GroupNoise, Met, price_of_draws
from .price_estimates import gaussian_of_width, gaussian_shift

_SHARE_DIGITS = Decimal("0.0001")


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """Describe what is published beside the rows, whose noise is known.

    Args:
        complete: makes of a release of rows the release of all.
        precision: the sum of σ⁻² over what is counted beside the rows in all releases, and of ε²/4 over the draws.
        share: of ε and δ, for what is beside, if the parts' costs were added up; for noise that has an even share.
        ends: of δ, what the ends of the noises beside the rows take, for an estimate.
    """

    complete: Callable[[DeletionRelease], DeletionRelease]
    precision: float
    share: Decimal = Decimal(0)
    ends: float = 0.0


def calibrated(release: DeletionRelease, *, margins: int, noise: GaussianDeletion) -> CalibratedDeletion:
    """Return a deletion release with margins beside it.

    Args:
        release: without them.
        margins: how many, at least 1.
        noise: of their cells.
    """
    return CalibratedDeletion(
        stages=release.stages,
        k=release.k,
        noise=release.noise,
        margins=margins,
        margin_scale=noise.scale,
        margin_width=noise.width,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedMembers:
    """Describe a table of members whose noise is to be planned.

    Args:
        most: how many members of a unit may be in it, at least 1.
        stages: maps in its chain, at least 1.
        share: of μ² of the Gaussian mechanism that has (ε, δ), for this table; above 0 and below 1.
    """

    most: int
    stages: int
    share: Decimal

    def beside(self, other: Beside, *, epsilon: Decimal, delta: Decimal, releases: int) -> Beside:
        """Return what is beside the rows of units: the table of members too.

        Raises:
            InputRefused: there is no noise of this share within bounds.
        """
        try:
            budget = float(self.share) * gaussian_shift(float(epsilon), float(delta) / 2.0) ** 2 / releases
            ends = MEMBERS_ENDS * float(delta)
            noise = gaussian_of_width(
                scale=self.most * math.sqrt(self.stages / budget),
                steps=self.stages * releases,
                records=self.most,
                ends=ends,
            )
        except (ValueError, OverflowError):
            raise InputRefused(
                f"no noise of the table of members costs so little as its share of epsilon {amount_exact(epsilon)} at "
                f"delta {amount_exact(delta)}.",
                remedy="Raise epsilon, delta or the share of the members, or publish fewer members of each unit.",
            ) from None
        rows = MemberRows(
            most_members=self.most, member_stages=self.stages, member_scale=noise.scale, member_width=noise.width
        )
        return replace(
            other,
            complete=lambda release: with_members(other.complete(release), rows),
            precision=other.precision + releases * self.stages * (self.most / float(noise.scale)) ** 2,
            ends=other.ends + ends,
        )


MEMBERS_ENDS = 0.05
"""Of δ, what the ends of the noise of a table of members weigh at most."""


_WITH_MEMBERS: Mapping[type[DeletionRelease], type[MembersDeletion]] = {
    DeletionRelease: MembersDeletion,
    CalibratedDeletion: CalibratedMembersDeletion,
    PairedDeletion: PairedMembersDeletion,
}


def with_members(release: DeletionRelease, members: MemberRows) -> MembersDeletion:
    """Return a release of units with a table of members beside it.

    Args:
        release: of the units alone: without a choice of levels, and with one table of rows.
        members: the table of members.

    Raises:
        TypeError: another kind of release.
    """
    made = _WITH_MEMBERS.get(type(release))
    if made is None:
        raise TypeError(f"a {type(release).__name__} has no table of members")
    return made(**{field.name: getattr(release, field.name) for field in fields(release)}, members=members)


def asked_again(mechanism: DeletionRelease, *, precision: float) -> AskedMembers | None:
    """Return a table of members that takes the share of the privacy loss which a release's own takes.

    Args:
        mechanism: the release; None is returned where it has no such table.
        precision: the sum of σ⁻² over all else that it publishes, and of ε²/4 over its draws.
    """
    members = members_of(mechanism)
    if members is None:
        return None
    own = members.member_stages * (members.most_members / float(members.member_scale)) ** 2
    share = Decimal(own / (own + precision)).quantize(_SHARE_DIGITS)
    return AskedMembers(most=members.most_members, stages=members.member_stages, share=share)


def price_tables(mechanism: MembersDeletion, *, delta: Decimal, releases: int = 1) -> tuple[Price | None, Price | None]:
    """Return the price of a release's tables of units alone, and of its table of members alone; together it is less.

    Args:
        mechanism: the release.
        delta: δ over all releases together, of either part alone; a part that no ε has at this δ has None.
        releases: T ≥ 1.

    Raises:
        InputRefused: δ or T is out of range.
    """
    check_request(delta, releases)
    members = mechanism.members
    own = {field.name: getattr(mechanism, field.name) for field in fields(mechanism) if field.name != "members"}
    [alone] = (units(**own) for units, made in _WITH_MEMBERS.items() if made is type(mechanism))
    met = Counter[Met]({GroupNoise(noise=members.noise, records=members.most_members): members.member_stages})
    try:
        units = price(alone, delta=delta, releases=releases)
    except InputRefused:
        units = None
    return units, price_alone(met, delta, releases, 1)


def price_parts(
    mechanism: CalibratedDeletion, *, delta: Decimal, releases: int = 1, records: int = 1
) -> tuple[Price | None, Price | None]:
    """Return the price of a calibrated release's rows alone, and of its margins alone; together they cost less.

    Args:
        mechanism: the release.
        delta: δ over all releases together, of either part alone; a part that no ε has at this δ has None.
        releases: T ≥ 1.
        records: M ≥ 1.

    Raises:
        InputRefused: δ or T is out of range.
    """
    check_request(delta, releases)
    rows = Counter[Met]({mechanism.noise: mechanism.stages})
    margins = Counter[Met]({mechanism.margin_noise: mechanism.margins})
    return price_alone(rows, delta, releases, records), price_alone(margins, delta, releases, records)


def price_pairs(
    mechanism: PairedDeletion, *, delta: Decimal, releases: int = 1, records: int = 1
) -> tuple[Price | None, Price | None]:
    """Return the price of a paired release's counts of pairs alone, and of the draws of the pairs; as `price_parts`."""
    check_request(delta, releases)
    counts = Counter[Met]({mechanism.pair_noise: mechanism.pairs})
    choices = {BoundedRange(epsilon=mechanism.pair_epsilon * records): mechanism.pairs}
    return (
        price_alone(counts, delta, releases, records),
        price_alone(Counter(), delta, releases, records, choices=choices),
    )


def price_alone(
    draws: Counter[Met],
    delta: Decimal,
    releases: int,
    records: int,
    *,
    choices: Mapping[BoundedRange, int] | None = None,
) -> Price | None:
    """Return what a part of a release would cost alone; as `price_of_draws`, None where no ε has this δ."""
    try:
        return price_of_draws(draws, delta, releases, records, choices=choices)
    except InputRefused:
        return None
