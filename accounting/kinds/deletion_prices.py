"""What a deletion release costs: each group loses a secret number of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

from ...mechanisms.kernel.amounts import amount_exact, amount_of_log10, counted
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.protection import Protection
from ...mechanisms.kinds.deletion import CalibratedDeletion, DeletionRelease
from ...mechanisms.kinds.deletion_noise import (
    WEIGHT_TOTAL,
    DeletionNoise,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    deletion_weights,
)
from ...mechanisms.kinds.deletion_protection import DeletionProtection
from ..kernel.prices.arithmetic import (
    ULP,
    add_up,
    decimal_up,
    divide_down,
    divide_up,
    exp_up,
    float_down,
    multiply_down,
    multiply_up,
)
from ..kernel.prices.mechanism_kind import (
    RELATION,
    MechanismKind,
    Price,
    RecordForm,
    check_request,
    covered_by_fewer,
)
from .composition.bounded_range import BoundedRange
from .composition.composed import COMPOSED_FLOOR, Part, epsilon_composed, no_place
from .composition.finite_losses import FiniteLosses
from .composition.group_privacy import rule_for_group

M = TypeVar("M", bound=DeletionRelease)

_KEPT_FOR_SHAPE, _LEFT_FOR_LOSSES = Decimal("1e-9"), Decimal("0.999999999")
_TWICE = Decimal(2)  # of a sum of positive doubles, far more than it errs by, and than e^x − 1 exceeds a small x by


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupNoise:
    """Noise that is met by several records of a unit at once, where others are met by one.

    Args:
        noise: its law.
        records: how many records meet each draw at most.
    """

    noise: DeletionNoise
    records: int


Met = DeletionNoise | GroupNoise


def _met(noise: Met, records: int) -> tuple[DeletionNoise, int]:
    """Return a noise and how many records meet it, where a person or unit has M."""
    return (noise.noise, noise.records * records) if isinstance(noise, GroupNoise) else (noise, records)


def deletion_losses(mechanism: DeletionRelease, *, records: int = 1) -> FiniteLosses:
    """Return the exact losses of a release's stages, without its margins, by the integer weights that are drawn from.

    With M records of a person in one group of which J records are published, Z is n − J with them and n − M − J
    without, so adding the person is the pair (Z, Z + M). A margin's cell, n + Z − m, has the same pair. Any other split
    of M records over the groups of a stage, or the cells of a margin, costs no more (docs/proofs/deletion.md, Claims 2,
    4 and 8).
    """
    return _losses(mechanism.noise, records=records, times=mechanism.stages)


def price_deletion(mechanism: DeletionRelease, *, delta: Decimal, releases: int = 1, records: int = 1) -> Price:
    """Return what is charged for T deletion releases of one mechanism, where a person has up to M records.

    A single stage of a single release costs its exact ε ("deletion-exact/1"); otherwise the composed losses of all
    stages and margins of all releases ("deletion-composed/1"), or the sum of each one's exact ε at an even share of δ
    where that is smaller or δ below the floor of composed prices ("deletion-sum/1"). For M > 1 the losses are those of
    M records in one group, and a 10⁻⁹ part of δ is kept for the difference of the weights from a law whose logarithm is
    concave (docs/proofs/deletion.md, Claim 4).

    Raises:
        InputRefused: δ or T is out of range, or no finite ε has this δ.
    """
    return price_of_draws(draws_of_release(mechanism), delta, releases, records)


def draws_of_release(mechanism: DeletionRelease) -> Counter[Met]:
    """Return how many times one record meets a fresh draw of each noise: once a stage, once a margin.

    INVARIANT: they are added up, since a margin's noise may be that of the stages.
    """
    draws: Counter[Met] = Counter({mechanism.noise: mechanism.stages})
    if isinstance(mechanism, CalibratedDeletion):
        draws[mechanism.margin_noise] += mechanism.margins
    return draws


def losses_of_draws(draws: Mapping[Met, int], *, records: int) -> tuple[FiniteLosses, ...]:
    """Return the exact losses of each noise's draws, for M records of a person."""
    return tuple(_losses(noise, records=records, times=times) for noise, times in draws.items())


@lru_cache(maxsize=16)  # in a search one noise is met again and again, and its losses keep what was computed of them
def _losses(met: Met, *, records: int, times: int) -> FiniteLosses:
    noise, records = _met(met, records)
    weights, shift = deletion_weights(noise), (0,) * records
    outcomes = zip(weights + shift, shift + weights, strict=True)
    return FiniteLosses(outcomes=tuple(pair for pair in outcomes if pair != (0, 0)), total=WEIGHT_TOTAL, times=times)


def price_of_draws(
    draws: Mapping[Met, int],
    delta: Decimal,
    releases: int,
    records: int,
    *,
    choices: Mapping[BoundedRange, int] | None = None,
    rules: str = "deletion",
) -> Price:
    """Return what draws of some noises cost, each met by one record of M of a person; as `price_deletion`.

    `choices` are each release's draws by exponential mechanisms: how many have which range for the M records.
    """
    check_request(delta, releases)
    # INVARIANT: noises of different parameters may have equal weights; as keys they are one, and are added up.
    parts: Counter[FiniteLosses] = Counter()
    for noise, times in draws.items():
        parts[_losses(noise, records=records, times=1)] += times * releases
    chosen = {choice: times * releases for choice, times in (choices or {}).items()}
    most = max((_met(noise, records)[1] for noise in draws), default=records)
    available = delta if most == 1 else multiply_down(delta, _LEFT_FOR_LOSSES)
    epsilon, rule = _least_epsilon(parts, available, chosen)
    if epsilon is None:
        raise _no_price(parts, delta, most)
    rule = f"{rules}-{rule}"
    if most > 1 and _difference_in_shape(draws, epsilon, releases, records) > multiply_down(delta, _KEPT_FOR_SHAPE):
        raise InputRefused(
            f"the ends of this noise are too improbable for a price where a person has up to {most} records.",
            remedy="Lower the width.",
        )
    return Price(
        epsilon=decimal_up(epsilon),
        delta=delta,
        relation=RELATION,
        rule=rule if records == 1 else rule_for_group(rule, even=False),
        releases=releases,
        rows_per_person=records,
    )


def _least_epsilon(
    parts: Counter[FiniteLosses], delta: Decimal, choices: Mapping[BoundedRange, int]
) -> tuple[Decimal | float | None, str]:
    steps = parts.total()
    if steps == 1 and not choices:
        [losses] = parts
        return losses.epsilon_of_step(delta), "exact/1"
    costs = [(losses.epsilon_of_step(divide_down(delta, steps)), times) for losses, times in parts.items()]
    summed: Decimal | None = Decimal(0)
    for each, times in (*costs, *((choice.epsilon, times) for choice, times in choices.items())):
        one = None if each is None else multiply_up(decimal_up(each), times)
        summed = None if summed is None or one is None else add_up(summed, one)
    composed = None
    if delta >= COMPOSED_FLOOR:
        # Losses that can't be put on a grid are no fault of the request: the sum is a price too.
        with suppress(ValueError):
            every: list[tuple[Part, int]] = [*parts.items(), *choices.items()]
            composed = epsilon_composed(dict(every), delta=float_down(delta))
    if composed is not None and (summed is None or Decimal(composed) < summed):
        return composed, "composed/1"
    return summed, "sum/1"


def _bends(weights: tuple[int, ...]) -> float:
    """Return by how much the ratios of successive weights rise where, with a concave logarithm, none would, added up.

    Relative, to nearest. Weights below these by at most so much, relatively, have a concave logarithm.
    """
    total, (least, of) = 0.0, (1, 0)
    for before, here in pairwise(weights):
        rise = here * of - least * before
        if rise <= 0:
            least, of = here, before
        else:
            total += rise / (before * least)
    return total


def _difference_in_shape(draws: Mapping[Met, int], epsilon: Decimal | float, releases: int, records: int) -> Decimal:
    """Return at most what it adds to δ for several records that the logarithm of the weights isn't quite concave."""
    growth, total = add_up(1, exp_up(Decimal(epsilon))), Decimal(0)
    for met, times in draws.items():
        noise, several = _met(met, records)
        bends = multiply_up(Decimal(_bends(deletion_weights(noise))), _TWICE)
        total = add_up(total, multiply_up(multiply_up(growth, 2 * several * times * releases), bends))
    return total


def _no_price(parts: Counter[FiniteLosses], delta: Decimal, records: int) -> InputRefused:
    least = Decimal(0)
    for losses, times in parts.items():
        one = divide_up(Decimal(losses.infinite.numerator), losses.infinite.denominator)
        least = add_up(least, multiply_up(one, times))
    people = f" where a person has up to {records} records" if records > 1 else ""
    return InputRefused(
        f"no epsilon is enough for delta {amount_exact(delta)} with this noise at {counted(parts.total(), 'stage')} in "
        f"all{people}: the ends of the noise need a delta of about {amount_of_log10(float(least.log10()))}.",
        remedy="Widen the noise, or raise delta.",
    )


def deletion_parts(mechanism: DeletionRelease) -> tuple[Part, ...]:
    """Return what a release is in a composition: the losses of its stages and of its margins."""
    return losses_of_draws(draws_of_release(mechanism), records=1)


def deletion_filter_parts(mechanism: DeletionRelease, records: int) -> tuple[FiniteLosses, ...]:
    """Return the steps of a release in a filter budget, for M records of a person in one group, or any others."""
    return filter_parts_of_draws(draws_of_release(mechanism), records)


def filter_parts_of_draws(draws: Mapping[Met, int], records: int) -> tuple[FiniteLosses, ...]:
    """Return the steps in a filter budget of draws that M records of a person meet.

    Raises:
        InputRefused: M > 1, and the logarithm of the weights is not concave enough (docs/proofs/filter.md, 5).
    """
    # Twice M times this enters the masses, and twice as much the losses; both have room for it in their rounding.
    for noise, several in (_met(one, records) for one in draws):
        if several > 1 and multiply_up(Decimal(_bends(deletion_weights(noise))), 16 * several) > ULP:
            raise no_place(f"the ends of this noise are too improbable where a person has up to {several} records")
    return losses_of_draws(draws, records=records)


DELETION_SHAPES: Mapping[str, Mapping[str, type]] = {
    "noise": {"optimal": OptimalDeletion, "geometric": GeometricDeletion, "gaussian": GaussianDeletion}
}


def deletion_kind(
    records: Mapping[str, RecordForm],
    protection: type[Protection[Any, Any]],
    *,
    draws: Callable[[M], Counter[Met]],
    choices: Callable[[M, int], Counter[BoundedRange]] = lambda _, __: Counter(),
    rules: str,
) -> MechanismKind[M]:
    """Return a kind that costs its draws and choices together, composed or added up.

    Args:
        records: name on disk → the form of that record.
        protection: the class that protects exact counts by it.
        draws: a release → how many times one record meets a fresh draw of each noise.
        choices: (a release, M) → its draws by exponential mechanisms, by their range for M records of a person.
        rules: how the names of its prices' rules begin.
    """
    return MechanismKind(
        records=records,
        protections=(protection,),
        pure=False,
        series=True,
        price=lambda mechanism, delta, releases, records: price_of_draws(
            draws(mechanism), delta, releases, records, choices=choices(mechanism, records), rules=rules
        ),
        filter_parts=lambda mechanism, records: (
            *filter_parts_of_draws(draws(mechanism), records),
            *choices(mechanism, records).elements(),
        ),
        sampling_rate=lambda _: None,
        survey_rate=None,
        exclusive=False,
        not_covered=covered_by_fewer,
    )


DELETION: MechanismKind[DeletionRelease] = deletion_kind(
    {
        "deletion-release/1": RecordForm(mechanism=DeletionRelease, shapes=DELETION_SHAPES),
        "calibrated-deletion-release/1": RecordForm(mechanism=CalibratedDeletion, shapes=DELETION_SHAPES),
    },
    DeletionProtection,
    draws=draws_of_release,
    rules="deletion",
)
