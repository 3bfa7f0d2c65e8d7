"""The noise of a deletion release: the shape and the least width that an (ε, δ) allows."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Literal, assert_never

from ....mechanisms.kernel.amounts import amount_exact, amount_shown, counted
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kinds.deletion import CalibratedDeletion, DeletionRelease
from ....mechanisms.kinds.deletion_noise import (
    LARGEST_DELETION,
    DeletionNoise,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    expected_deletion,
    largest_deletion,
)
from ....mechanisms.kinds.member_deletion import (
    CalibratedMembersDeletion,
    MemberRows,
    MembersDeletion,
    PairedMembersDeletion,
)
from ....mechanisms.kinds.paired_deletion import PairedDeletion
from ...kernel.prices.arithmetic import add_up, divide_down, exp_up, multiply_down, multiply_up
from ...kernel.prices.mechanism_kind import Price, check_records, check_request
from ...kernel.prices.registry import price
from ...kinds.composition.bounded_range import BoundedRange
from ...kinds.deletion_prices import GroupNoise, Met, price_of_draws
from .price_estimates import surely_dearer

DeletionShape = Literal["optimal", "geometric", "gaussian"]

MARGIN_SHARE = Decimal("0.2")
"""Of ε and δ, for margins, where no other share is given."""

_SHARE_PROPOSED, _SHARE_OF_FEW = Decimal("0.35"), Decimal("0.5")
_TWELVE_DIGITS = Context(prec=12, rounding=ROUND_FLOOR)
_FOUR_DIGITS = Context(prec=4)
_SCALES = 400
_WIDEST_SCALE = 4.0
_LARGEST_EPSILON = 50
_LARGEST_SHIFT = 1e3
_SHARE_DIGITS = Decimal("0.0001")
_FOR_ROUNDING = Decimal("0.99999999")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionPlan:
    """A deletion release with its noise, and what it is charged.

    Args:
        mechanism: the release.
        price: of all releases, at most the ε asked for at the δ asked for.
    """

    mechanism: DeletionRelease
    price: Price

    @property
    def expected_deletion(self) -> float:
        """E[Z] of each group at each stage, in records."""
        return float(expected_deletion(self.mechanism.noise))

    @property
    def largest_deletion(self) -> int:
        """The most records that a group loses at a stage."""
        return largest_deletion(self.mechanism.noise)


def plan_deletion(
    *,
    epsilon: Decimal,
    delta: Decimal,
    stages: int = 1,
    releases: int = 1,
    rows_per_person: int = 1,
    k: int = 1,
    shape: DeletionShape | None = None,
    margins: int = 0,
    margin_share: Decimal = MARGIN_SHARE,
    members: AskedMembers | None = None,
) -> DeletionPlan:
    """Plan the noise that deletes least in expectation among those tried, charged at most ε at δ over all releases.

    The optimal noise takes an even share of ε and δ at each stage of each release: for a single stage it is the best
    that there is (docs/proofs/deletion.md, Claim 3). The truncated Gaussian has the least width found, its σ searched
    for. The geometric one has an even share of ε; the optimal one is never wider, so it is planned only where asked
    for. Nothing is assumed of the search: what is returned has been priced.

    Where there are margins their noise is that of `plan_margins`, and the rows have what its exact composition with
    theirs leaves: more than the rest of ε.

    Args:
        epsilon: ε over all releases, above 0 and at most 50.
        delta: δ over all releases, 0 < δ < 1.
        stages: maps in each release's chain, at least 1.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1.
        k: the smallest number of records that is published of a group; costs nothing.
        shape: the noise's shape; None for the best.
        margins: how many margins are published beside the rows of each release; 0 for none.
        margin_share: what the margins alone take of ε and δ, above 0 and below 1.
        members: the table of members that is published beside the table of units; None for none.

    Raises:
        InputRefused: a value out of range, or no noise that deletes at most `LARGEST_DELETION` records has this price.
    """
    check_request(delta, releases)
    check_records(rows_per_person)
    if not (epsilon.is_finite() and 0 < epsilon <= _LARGEST_EPSILON):
        raise InputRefused(f"epsilon must be above 0 and at most {_LARGEST_EPSILON}, not {epsilon}.")
    if stages < 1:
        raise InputRefused(f"there must be at least one stage, not {stages}.")
    target = _Target(epsilon=epsilon, delta=delta, stages=stages, releases=releases, records=rows_per_person, k=k)
    if margins:
        noise = plan_margins(
            epsilon=epsilon,
            delta=delta,
            margins=margins,
            releases=releases,
            rows_per_person=rows_per_person,
            share=margin_share,
        )
        beside = Beside(
            complete=partial(calibrated, margins=margins, noise=noise),
            precision=margins * releases / float(noise.scale) ** 2,
            share=margin_share,
        )
        target = replace(target, beside=beside)
    if members is not None:
        beside = target.beside or Beside(complete=lambda rows: rows, precision=0.0)
        target = replace(target, beside=members.beside(beside, epsilon=epsilon, delta=delta, releases=releases))
        shape = "gaussian"  # the one that is planned together with others
    return _least_of_shapes(("optimal", "gaussian") if shape is None else (shape,), target)


def plan_beside(
    *, epsilon: Decimal, delta: Decimal, stages: int, releases: int, rows_per_person: int, k: int, beside: Beside
) -> DeletionPlan:
    """Plan the rows' Gaussian noise of least width that is charged at most ε at δ, with all published beside them.

    Raises:
        InputRefused: as `plan_deletion`.
    """
    target = _Target(
        epsilon=epsilon,
        delta=delta,
        stages=stages,
        releases=releases,
        records=rows_per_person,
        k=k,
        beside=beside,
    )
    return _least_of_shapes(("gaussian",), target)


def _least_of_shapes(tried: Sequence[DeletionShape], target: _Target) -> DeletionPlan:
    best, least = None, Fraction(LARGEST_DELETION)
    for shape in tried:
        found = _least(shape, target, below=least)
        expected = None if found is None else expected_deletion(found.mechanism.noise)
        if expected is not None and (best is None or expected < least):
            best, least = found, expected
    if best is None:
        raise InputRefused(
            f"no noise that deletes at most {LARGEST_DELETION} records of a group is charged at most "
            f"{amount_exact(target.epsilon)} at delta {amount_exact(target.delta)} for "
            f"{counted(target.steps, 'stage')} in all.",
            remedy="Raise epsilon or delta, or plan fewer stages or releases.",
        )
    return best


def plan_margins(
    *, epsilon: Decimal, delta: Decimal, margins: int, releases: int, rows_per_person: int, share: Decimal
) -> GaussianDeletion:
    """Plan the noise of margins that alone take about a share of ε and δ: a truncated Gaussian of least width.

    Its ends weigh at most the share of δ and half of the rest, so that some of δ is left for the rows.

    Args:
        epsilon: ε over all releases.
        delta: δ over all releases.
        margins: how many margins each release publishes, at least 1.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1.
        share: of ε and of δ, above 0 and below 1.

    Raises:
        InputRefused: the share is out of range, or no width within bounds does.
    """
    if not (share.is_finite() and 0 < share < 1):
        raise InputRefused(f"the margins' share must be above 0 and below 1, not {share}.")
    target = _Target(
        epsilon=multiply_down(epsilon, share),
        delta=multiply_down(delta, share),
        stages=margins,
        releases=releases,
        records=rows_per_person,
        k=1,
    )
    most = (float(target.delta) + float(delta)) / 2.0
    for width, scale in _gaussians(target):
        # The scale was chosen for the share of δ. The truncated ends are charged in full, and δ that they use up can't
        # be regained by a smaller shift: hence a bound for them of their own.
        if _end_delta(target, scale, width) > most:
            continue
        with suppress(ValueError):  # of ends that are too improbable
            return GaussianDeletion(scale=_FOUR_DIGITS.create_decimal(scale), width=width)
    raise InputRefused(
        f"no noise of {counted(target.steps, 'margin')} in all costs so little as {amount_shown(target.epsilon)} at "
        f"delta {amount_shown(target.delta)}.",
        remedy="Raise epsilon, delta or the margins' share, or publish fewer margins.",
    )


def gaussian_of_width(*, scale: float, steps: int, records: int, ends: float) -> GaussianDeletion:
    """Return the truncated Gaussian of a σ and about the least width whose ends in so many steps weigh at most `ends`.

    Raises:
        ValueError: there is no such noise within bounds.
    """
    target = _Target(epsilon=Decimal(1), delta=Decimal(1), stages=steps, releases=1, records=records, k=1)
    return GaussianDeletion(scale=_FOUR_DIGITS.create_decimal(scale), width=_width(target, scale, ends))


def gaussian_delta(shift: float, *, epsilon: float) -> float:
    """Return the δ at ε of a Gaussian of deviation 1 that is shifted.

    Source: Balle, Wang, arXiv:1805.06530v2, Theorem 8.
    """
    upper = 0.5 * math.erfc((epsilon / shift - shift / 2.0) / math.sqrt(2.0))
    lower = 0.5 * math.erfc((epsilon / shift + shift / 2.0) / math.sqrt(2.0))
    return upper - math.exp(epsilon) * lower


def gaussian_shift(epsilon: float, delta: float) -> float:
    """Return μ, the shift of a Gaussian of deviation 1 that has this δ at ε, to nearest.

    Raises:
        ValueError: there is none within bounds.
    """
    if gaussian_delta(_LARGEST_SHIFT, epsilon=epsilon) < delta:
        raise ValueError("epsilon is too large")
    low, high = 1e-9, _LARGEST_SHIFT
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if gaussian_delta(middle, epsilon=epsilon) < delta else (low, middle)
    return low


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
    if not isinstance(mechanism, MembersDeletion):
        return None
    members = mechanism.members
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Target:
    epsilon: Decimal
    delta: Decimal
    stages: int
    releases: int
    records: int
    k: int
    beside: Beside | None = None

    @property
    def rows_share(self) -> Decimal:
        """Of ε and δ, for the rows, if the parts' costs were added up."""
        return Decimal(1) if self.beside is None else 1 - self.beside.share

    @property
    def precision(self) -> float:
        """That of what is beside the rows; 0 without."""
        return 0.0 if self.beside is None else self.beside.precision

    @property
    def delta_of_rows(self) -> float:
        """Of δ, about what the ends of what is beside the rows leave."""
        return float(self.delta) - (0.0 if self.beside is None else self.beside.ends)

    @property
    def steps(self) -> int:
        """Stages of all releases together."""
        return self.stages * self.releases

    def priced(self, noise: DeletionNoise, *, estimated: bool = False) -> DeletionPlan | None:
        """Return the release with this noise where its price is within the target, or None.

        `estimated` asks first whether it is surely dearer: of many candidates all but one or two are.
        """
        mechanism = DeletionRelease(stages=self.stages, k=self.k, noise=noise)
        if self.beside is not None:
            mechanism = self.beside.complete(mechanism)
        if estimated and surely_dearer(
            mechanism,
            epsilon=self.epsilon,
            delta=self.delta,
            releases=self.releases,
            rows_per_person=self.records,
        ):
            return None
        with suppress(InputRefused):
            charged = price(mechanism, delta=self.delta, releases=self.releases, rows_per_person=self.records)
            if charged.epsilon <= self.epsilon:
                return DeletionPlan(mechanism=mechanism, price=charged)
        return None


def _least(shape: DeletionShape, target: _Target, *, below: Fraction) -> DeletionPlan | None:
    """Return the plan of this shape; None where no noise within bounds meets the target.

    A Gaussian that deletes at least as many records in expectation as `below` isn't looked for.
    """
    try:
        match shape:
            case "optimal":
                return target.priced(_optimal(target))
            case "geometric":
                return _geometric(target)
            case "gaussian":
                return _gaussian(target, below)
            case _:
                assert_never(shape)
    except ValueError:  # of a noise out of bounds
        return None


def _even_epsilon(target: _Target) -> Decimal:
    epsilon = multiply_down(target.epsilon, target.rows_share)
    return _TWELVE_DIGITS.plus(divide_down(epsilon, target.steps * target.records))


def _optimal(target: _Target) -> OptimalDeletion:
    epsilon, growth, weight = _even_epsilon(target), Decimal(0), Decimal(1)
    for _ in range(target.records):
        growth, weight = add_up(growth, weight), multiply_up(weight, exp_up(epsilon))
    # For M records the δ of one step grows to (1 + e^ε + … + e^((M-1)ε))·δ (group privacy). Rounded so that the price,
    # which rounds upwards, still meets the target.
    delta = divide_down(multiply_down(target.delta, target.rows_share), multiply_up(growth, target.steps))
    if target.records > 1:
        # The price rounds e^ε upwards in another order of operations; without this small gap it could be above the
        # target by the last digit, and the plan would be none.
        delta *= _FOR_ROUNDING
    return OptimalDeletion(epsilon=epsilon, delta=_TWELVE_DIGITS.plus(delta))


def _geometric(target: _Target) -> DeletionPlan | None:
    epsilon = _even_epsilon(target)
    found, failed, width = None, 0, 1
    while found is None:  # wider ones than there are raise an error
        found = target.priced(GeometricDeletion(epsilon=epsilon, width=width))
        failed, width = (failed, width) if found else (width, 2 * width)
    # The price falls with the width, so that bisection finds the least one. Each candidate is priced exactly: a plan is
    # never returned by estimate.
    while width - failed > 1:
        middle = (failed + width) // 2
        better = target.priced(GeometricDeletion(epsilon=epsilon, width=middle))
        found, failed, width = (better, failed, middle) if better else (found, middle, width)
    return found


def _gaussian(target: _Target, below: Fraction) -> DeletionPlan | None:
    """Return the least width whose exact price is within the target, each width with its best σ by estimate."""
    for width, scale in _gaussians(target):
        if width >= below:  # its expectation is its width
            break
        plan = target.priced(GaussianDeletion(scale=_FOUR_DIGITS.create_decimal(scale), width=width), estimated=True)
        if plan is not None:
            return plan
    return None


def _gaussians(target: _Target) -> Iterator[tuple[int, float]]:
    """Yield widths from a little below the least that may do, ascending, each with a σ."""
    least = 1e-3
    while _central_delta(target, least) > target.delta_of_rows:
        # Below this σ the central part alone exceeds δ, whatever the width: there is no use in trying smaller ones.
        least *= 1.01
    scales = [least * _WIDEST_SCALE ** (step / _SCALES) for step in range(1, _SCALES + 1)]
    left = [(scale, target.delta_of_rows - _central_delta(target, scale)) for scale in scales]
    # Begins two below the estimate, which may be too high; the exact price then decides. Steps of 0.5 % keep the search
    # short for wide noise.
    width = max(1, min(_width(target, scale, rest) for scale, rest in left) - 2)
    while width <= LARGEST_DELETION // 2:
        yield width, min(left, key=lambda pair: _end_delta(target, pair[0], width) - pair[1])[0]
        width += max(1, width // 200)


def _central_delta(target: _Target, scale: float) -> float:
    """Estimate δ at ε of all stages as if their noise had no ends: the shifts of all steps as a single Gaussian's."""
    shift = target.records * math.sqrt(target.steps / scale**2 + target.precision)
    return gaussian_delta(shift, epsilon=float(target.epsilon))


def _end_delta(target: _Target, scale: float, width: int) -> float:
    """Estimate the probability of a truncated end at any stage."""
    ends = (math.exp(-(((width - z) / scale) ** 2) / 2.0) for z in range(target.records))
    # What is cut off a noise that is narrow for its σ comes back in all that is left, its ends as well.
    kept = math.erf(width / scale / math.sqrt(2.0)) if width < 2.0 * scale else 1.0
    return target.steps * sum(ends) / (kept * scale * math.sqrt(2.0 * math.pi))


def _width(target: _Target, scale: float, rest: float) -> int:
    """Estimate the least width whose ends fit into the rest of δ."""
    high = 1
    while _end_delta(target, scale, high) > rest and high < LARGEST_DELETION:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _end_delta(target, scale, middle) <= rest else (middle, high)
    return high


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposedDeletion:
    """A deletion release with margins, proposed from public facts alone.

    Args:
        columns: of each, the labels of each level, as they were given.
        stages: places in `stage_levels`, the finest first.
        margin_share: of ε and δ, for the margins.
        plan: its noise and price.
        combinations: how many are declared at the coarsest levels but `*`; None where a column's labels aren't known.
        fitting: how many columns, those of the fewest coarsest labels first, have so few combinations that each has on
            average as many records as it is expected to lose; None where a column's labels aren't known.
    """

    columns: Sequence[Sequence[int]]
    stages: tuple[int, ...]
    margin_share: Decimal
    plan: DeletionPlan
    combinations: int | None
    fitting: int | None

    @property
    def enough(self) -> bool:
        """Whether all columns together are fitting, as far as their labels are known."""
        return self.fitting in (None, len(self.columns))


def stage_levels(labels: Sequence[int], *, records: int) -> tuple[int, int, int]:
    """Return the levels of a column that are proposed: the finest, one in the middle, and the coarsest but `*`.

    Args:
        labels: how many each level has, from the value to the most general one; the last of 1 is `*`.
        records: about how many there are; finer levels with more labels than that are left out.
    """
    last = len(labels) - 1
    coarsest = last - 1 if last > 0 and labels[last] == 1 else last
    finest = next((level for level in range(coarsest) if labels[level] <= records), coarsest)
    return finest, (finest + coarsest + 1) // 2, coarsest


def propose_deletion(
    columns: Sequence[Sequence[int]], *, records: int, epsilon: Decimal, delta: Decimal
) -> ProposedDeletion:
    """Propose the deletion release that keeps pairs of columns about best, as far as public facts can tell.

    It has a margin for each column and three stages, the values first, since margins tell how the values of a label
    are spread. Where the combinations of the coarsest labels have fewer records on average than are deleted of each,
    the stage in the middle is left out and margins take a larger share: more would be lost by a third share of the
    price than it publishes. No stage of `*` alone is proposed: it would publish records that tell nothing.

    PRIVACY: a function of what is declared, of the order of magnitude of the records and of the budget. Nothing of the
    records may be given to it.

    Args:
        columns: of each, the labels of each level as `stage_levels` takes them; empty where they aren't known.
        records: about how many there are, at least 1.
        epsilon: of the release.
        delta: of the release.

    Raises:
        InputRefused: a value out of range, or there is no such release at this price.
    """
    if records < 1:
        raise InputRefused(f"there must be at least one record, not {records}.")
    known = [stage_levels(labels, records=records) for labels in columns if labels]
    whole = all(columns)
    stages = [
        place
        for place in range(3)
        if not place or not whole or any(levels[place] != levels[place - 1] for levels in known)
    ]
    plan = _proposed(len(stages), len(columns), _SHARE_PROPOSED, epsilon=epsilon, delta=delta)
    combinations, fitting, share = None, None, _SHARE_PROPOSED
    if whole:
        coarsest = sorted(labels[stage_levels(labels, records=records)[2]] for labels in columns)
        combinations = math.prod(coarsest)
        if records < combinations * plan.expected_deletion:
            stages, share = sorted({stages[0], stages[-1]}), _SHARE_OF_FEW
            plan = _proposed(len(stages), len(columns), share, epsilon=epsilon, delta=delta)
        fitting = sum(records >= each * plan.expected_deletion for each in accumulate(coarsest, operator.mul))
    return ProposedDeletion(
        columns=columns,
        stages=tuple(stages),
        margin_share=share,
        plan=plan,
        combinations=combinations,
        fitting=fitting,
    )


def _proposed(stages: int, margins: int, share: Decimal, *, epsilon: Decimal, delta: Decimal) -> DeletionPlan:
    return plan_deletion(epsilon=epsilon, delta=delta, stages=stages, margins=margins, margin_share=share)
