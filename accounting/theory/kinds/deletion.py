"""Deletion releases: microdata from which each group loses a secret random number of records."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from itertools import pairwise

from ....mechanisms.amounts import amount_exact, amount_of_log10, counted
from ....mechanisms.deletion import (
    WEIGHT_TOTAL,
    DeletionRelease,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    deletion_weights,
)
from ....mechanisms.errors import InputRefused
from ..arithmetic import add_up, decimal_up, divide_down, exp_up, float_down, multiply_down, multiply_up
from ..composition.finite_losses import FiniteLosses
from ..composition.group_privacy import rule_for_group
from ..composition.releases import COMPOSED_FLOOR, epsilon_composed
from .kind import RELATION, MechanismKind, Price, Published, RecordForm, Statements, check_request

__all__ = ["KIND", "deletion_losses", "price_deletion"]

_PROVED = "proved in docs/proofs/deletion.md"
_DONE = (
    "Every record was read; no sample was drawn. {stages} Each group lost a secret random number of records, drawn for "
    "it alone, and a group of which fewer than {k} would have been left published none."
)
_ONE_STAGE = "The records were recoded with a map that was fixed before they were read."
_STAGES = (
    "The records were recoded with a chain of {stages} maps, each coarser than the one before, all fixed before they "
    "were read; what a stage did not publish went on to the next."
)
_SERIES = (
    "Each release recoded all records with maps that were fixed before they were read; each group lost a secret random "
    "number of records, drawn for it alone in that release."
)
_KEPT_FOR_SHAPE = Decimal("1e-9")
_TWICE = Decimal(2)  # of a sum of positive doubles, far more than it errs by, and than e^x − 1 exceeds a small x by


def deletion_losses(mechanism: DeletionRelease, *, records: int = 1) -> FiniteLosses:
    """The exact losses of a release's stages, by the integer weights that are drawn from.

    With M records of a person in one group of which J records are published, Z is n − J with them and n − M − J
    without, so adding the person is the pair (Z, Z + M). Any other split of M records over the groups of a stage costs
    no more (docs/proofs/deletion.md, Claims 2 and 4).

    Args:
        mechanism: the release.
        records: M, at least 1.
    """
    weights, shift = deletion_weights(mechanism.noise), (0,) * records
    outcomes = zip(weights + shift, shift + weights, strict=True)
    return FiniteLosses(
        outcomes=tuple(pair for pair in outcomes if pair != (0, 0)), total=WEIGHT_TOTAL, times=mechanism.stages
    )


def price_deletion(mechanism: DeletionRelease, *, delta: Decimal, releases: int = 1, records: int = 1) -> Price:
    """What is charged for T deletion releases of one mechanism, where a person has up to M records.

    A single stage of a single release costs its exact ε ("deletion-exact/1"); otherwise the composed losses of all
    stages of all releases ("deletion-composed/1"), or the sum of each stage's exact ε at an even share of δ where that
    is smaller or δ below the floor of composed prices ("deletion-sum/1"). For M > 1 the losses are those of M records
    in one group, and a 10⁻⁹ part of δ is kept for the difference of the weights from a law whose logarithm is concave
    (docs/proofs/deletion.md, Claim 4).

    Args:
        mechanism: the release.
        delta: δ over all releases together, 0 < δ < 1.
        releases: T ≥ 1.
        records: M ≥ 1.

    Raises:
        InputRefused: δ or T is out of range, or no finite ε has this δ.
    """
    check_request(delta, releases)
    losses = deletion_losses(mechanism, records=records)
    available = delta if records == 1 else multiply_down(delta, 1 - _KEPT_FOR_SHAPE)
    epsilon, rule = _least_epsilon(losses, available, mechanism.stages * releases)
    if epsilon is None:
        raise _no_price(mechanism, delta, releases, records, losses)
    kept = multiply_down(delta, _KEPT_FOR_SHAPE)
    if records > 1 and _difference_in_shape(mechanism, epsilon, releases, records) > kept:
        raise InputRefused(
            f"the ends of this noise are too improbable for a price where a person has up to {records} records.",
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


def _least_epsilon(losses: FiniteLosses, delta: Decimal, steps: int) -> tuple[Decimal | float | None, str]:
    if steps == 1:
        return losses.epsilon_of_step(delta), "deletion-exact/1"
    each = losses.epsilon_of_step(divide_down(delta, steps))
    summed = None if each is None else multiply_up(decimal_up(each), steps)
    composed = None
    if delta >= COMPOSED_FLOOR:
        # Losses that can't be put on a grid are no fault of the request: the sum is a price too.
        with suppress(ValueError):
            composed = epsilon_composed({losses: steps // losses.times}, delta=float_down(delta))
    if composed is not None and (summed is None or Decimal(composed) < summed):
        return composed, "deletion-composed/1"
    return summed, "deletion-sum/1"


def _bends(weights: tuple[int, ...]) -> float:
    """By how much the ratios of successive weights rise where, in a law with a concave logarithm, none would, added up.

    Relative, to nearest. Weights below these by at most so much, relatively, have a concave logarithm.
    """
    total, (least, of) = 0.0, (1, 0)
    for before, here in pairwise(weights):
        rise = here * of - least * before
        if rise <= 0 or of == 0:
            least, of = here, before
        else:
            total += rise / (before * least)
    return total


def _difference_in_shape(mechanism: DeletionRelease, epsilon: Decimal | float, releases: int, records: int) -> Decimal:
    """At most what it adds to δ for several records that the logarithm of the weights isn't quite concave."""
    bends = multiply_up(Decimal(_bends(deletion_weights(mechanism.noise))), _TWICE)
    draws = 2 * records * mechanism.stages * releases
    return multiply_up(multiply_up(add_up(1, exp_up(Decimal(epsilon))), draws), bends)


def _no_price(
    mechanism: DeletionRelease, delta: Decimal, releases: int, records: int, losses: FiniteLosses
) -> InputRefused:
    steps = mechanism.stages * releases
    least = Decimal(losses.infinite.numerator) / losses.infinite.denominator * steps
    people = f" where a person has up to {records} records" if records > 1 else ""
    return InputRefused(
        f"no epsilon is enough for delta {amount_exact(delta)} with this noise at {counted(steps, 'stage')} in "
        f"all{people}: the ends of the noise need a delta of about {amount_of_log10(float(least.log10()))}.",
        remedy="Widen the noise, or raise delta.",
    )


def _done(mechanism: DeletionRelease) -> str:
    stages = _ONE_STAGE if mechanism.stages == 1 else _STAGES.format(stages=mechanism.stages)
    return _DONE.format(stages=stages, k=counted(mechanism.k, "record"))


def _price(mechanism: DeletionRelease, delta: Decimal, releases: int) -> Price:
    return price_deletion(mechanism, delta=delta, releases=releases)


def _group_price(mechanism: DeletionRelease, delta: Decimal, releases: int, records: int) -> Price:
    return price_deletion(mechanism, delta=delta, releases=releases, records=records)


KIND: MechanismKind[DeletionRelease] = MechanismKind(
    records={
        "deletion-release/1": RecordForm(
            mechanism=DeletionRelease,
            shapes={
                "noise": {"optimal": OptimalDeletion, "geometric": GeometricDeletion, "gaussian": GaussianDeletion}
            },
        )
    },
    pure=False,
    price=_price,
    group_price=_group_price,
    paper_price=None,
    losses=lambda mechanism: (deletion_losses(mechanism),),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda _: None,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={
        "deletion-exact/1": f"optimal partition selection of Desfontaines, Voss, Gipson, Mandayam, arXiv:2006.03684, "
        f"Theorem 1, as deletion; {_PROVED}",
        "deletion-sum/1": f"{_PROVED}, the stages' costs added up",
        "deletion-composed/1": f"{_PROVED}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
    },
    statements=Statements(
        done=_done,
        proved=lambda *_: "",
        chosen="a choice of levels, k or noise",
        series=_SERIES,
        published=Published("group", "groups", "record"),
    ),
)
