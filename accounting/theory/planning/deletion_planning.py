"""The noise of a deletion release: the shape and the least width that an (ε, δ) allows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import Literal, assert_never

from ....mechanisms.kernel.amounts import amount_exact, amount_shown, counted
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kinds.deletion import DeletionRelease
from ....mechanisms.kinds.deletion_noise import (
    LARGEST_DELETION,
    DeletionNoise,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    expected_deletion,
    largest_deletion,
)
from ...kernel.prices.arithmetic import add_up, divide_down, exp_up, multiply_down, multiply_up
from ...kernel.prices.mechanism_kind import Price, check_records, check_request
from ...kernel.prices.registry import price
from .parts_beside import AskedMembers, Beside, calibrated
from .price_estimates import FOUR_DIGITS, end_delta, gaussian_delta, least_width, log_without_ends, surely_dearer

DeletionShape = Literal["optimal", "geometric", "gaussian"]

MARGIN_SHARE = Decimal("0.2")
"""Of ε and δ, for margins, where no other share is given."""

_TWELVE_DIGITS = Context(prec=12, rounding=ROUND_FLOOR)
_SCALES = 400
_WIDEST_SCALE = 4.0
_LARGEST_EPSILON = 50
_FOR_ROUNDING = Decimal("0.99999999")
_SURELY_ABOVE = 1.001


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
        if target.end_delta(scale, width) > most:
            continue
        with suppress(ValueError):  # of ends that are too improbable
            return GaussianDeletion(scale=FOUR_DIGITS.create_decimal(scale), width=width)
    raise InputRefused(
        f"no noise of {counted(target.steps, 'margin')} in all costs so little as {amount_shown(target.epsilon)} at "
        f"delta {amount_shown(target.delta)}.",
        remedy="Raise epsilon, delta or the margins' share, or publish fewer margins.",
    )


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

    def central_delta(self, scale: float) -> float:
        """Estimate δ at ε of all stages as if their noise had no ends: all steps' shifts as a single Gaussian's."""
        shift = self.records * math.sqrt(self.steps / scale**2 + self.precision)
        return gaussian_delta(shift, epsilon=float(self.epsilon))

    def end_delta(self, scale: float, width: int) -> float:
        """Estimate the probability of a truncated end at any stage."""
        return end_delta(scale, width, steps=self.steps, records=self.records)

    def least_width(self, scale: float, rest: float) -> int:
        """Estimate the least width whose ends fit into the rest of δ."""
        return least_width(scale, rest, steps=self.steps, records=self.records)

    def hopeless(self, noise: DeletionNoise) -> bool:
        """Return whether what is beside the rows exceeds δ by its ends alone, whichever noise the rows have."""
        if self.beside is None:
            return False
        rows = DeletionRelease(stages=self.stages, k=self.k, noise=noise)
        without, alone = (
            log_without_ends(one, releases=self.releases, rows_per_person=self.records)
            for one in (self.beside.complete(rows), rows)
        )
        return -math.expm1(without - alone) > _SURELY_ABOVE * float(self.delta)

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
    tried = False
    for width, scale in _gaussians(target):
        if width >= below:  # its expectation is its width
            break
        noise = GaussianDeletion(scale=FOUR_DIGITS.create_decimal(scale), width=width)
        plan = target.priced(noise, estimated=True)
        if plan is not None:
            return plan
        if not tried and target.hopeless(noise):  # or else thousands of widths would be tried in vain
            return None
        tried = True
    return None


def _gaussians(target: _Target) -> Iterator[tuple[int, float]]:
    """Yield widths from a little below the least that may do, ascending, each with a σ."""
    least = 1e-3
    while target.central_delta(least) > target.delta_of_rows:
        # Below this σ the central part alone exceeds δ, whatever the width: there is no use in trying smaller ones.
        least *= 1.01
        if least > LARGEST_DELETION:  # what is beside the rows takes all of δ, or the ends of any width do
            return
    scales = [least * _WIDEST_SCALE ** (step / _SCALES) for step in range(1, _SCALES + 1)]
    left = [(scale, target.delta_of_rows - target.central_delta(scale)) for scale in scales]
    # Begins two below the estimate, which may be too high; the exact price then decides. Steps of 0.5 % keep the search
    # short for wide noise.
    width = max(1, min(target.least_width(scale, rest) for scale, rest in left) - 2)
    while width <= LARGEST_DELETION // 2:
        yield width, min(left, key=lambda pair: target.end_delta(pair[0], width) - pair[1])[0]
        width += max(1, width // 200)
