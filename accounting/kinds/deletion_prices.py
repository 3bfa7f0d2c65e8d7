"""What a deletion release costs: each group loses a secret number of records; maps fixed, or chosen privately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from ...mechanisms.kernel.amounts import amount_exact, amount_of_log10, counted
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.deletion import (
    WEIGHT_TOTAL,
    CalibratedDeletion,
    DeletionNoise,
    DeletionRelease,
    ExponentialDeletion,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    SelectedDeletion,
    deletion_weights,
)
from ...mechanisms.map_selection.choice import CHAIN_QUALITY, QUALITY
from ..kernel.prices.amplification import Guarantee
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
from ..kernel.prices.bounded_range import BoundedRange
from ..kernel.prices.finite_losses import FiniteLosses
from ..kernel.prices.group_privacy import rule_for_group
from ..kernel.prices.loss_distribution import COMPOSED_FLOOR, FilterPart, Part, epsilon_composed
from ..kernel.prices.mechanism_kind import (
    RELATION,
    MechanismKind,
    Price,
    Published,
    RecordForm,
    Selection,
    Statements,
    check_request,
    no_place,
)
from .microdata_prices import BOUNDED_RANGE, range_of_draw

__all__ = [
    "DELETION",
    "SELECTED_DELETION",
    "PartPrices",
    "choice_cost",
    "deletion_losses",
    "price_deletion",
    "price_parts",
    "price_selected_deletion",
]

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
_MARGINS = (
    "Beside the rows {margins} of the same records {are} published, of labels that were declared before they were "
    "read, empty cells too; each cell has noise of its own, and the rows' weights were computed from these noisy "
    "counts."
)
_SERIES = (
    "Each release recoded all records with maps that were fixed before they were read; each group lost a secret random "
    "number of records, drawn for it alone in that release. Margins beside the rows, where there are any, have noise "
    "drawn for each cell alone in that release."
)
_KEPT_FOR_SHAPE, _LEFT_FOR_LOSSES = Decimal("1e-9"), Decimal("0.999999999")
_TWICE = Decimal(2)  # of a sum of positive doubles, far more than it errs by, and than e^x − 1 exceeds a small x by


class PartPrices(NamedTuple):
    """What each part of a calibrated release would be charged alone, at the whole δ; together they cost less.

    Attributes:
        rows: the price of the stages; None where no ε has this δ.
        margins: that of the margins; None likewise.
    """

    rows: Price | None
    margins: Price | None


def deletion_losses(mechanism: DeletionRelease, *, records: int = 1) -> FiniteLosses:
    """The exact losses of a release's stages, by the integer weights that are drawn from.

    With M records of a person in one group of which J records are published, Z is n − J with them and n − M − J
    without, so adding the person is the pair (Z, Z + M). A margin's cell, n + Z − m, has the same pair. Any other split
    of M records over the groups of a stage, or the cells of a margin, costs no more (docs/proofs/deletion.md, Claims 2,
    4 and 8).

    Args:
        mechanism: the release; its margins aren't in it.
        records: M, at least 1.
    """
    return _losses(mechanism.noise, records=records, times=mechanism.stages)


def price_deletion(mechanism: DeletionRelease, *, delta: Decimal, releases: int = 1, records: int = 1) -> Price:
    """What is charged for T deletion releases of one mechanism, where a person has up to M records.

    A single stage of a single release costs its exact ε ("deletion-exact/1"); otherwise the composed losses of all
    stages and margins of all releases ("deletion-composed/1"), or the sum of each one's exact ε at an even share of δ
    where that is smaller or δ below the floor of composed prices ("deletion-sum/1"). For M > 1 the losses are those of
    M records in one group, and a 10⁻⁹ part of δ is kept for the difference of the weights from a law whose logarithm is
    concave (docs/proofs/deletion.md, Claim 4).

    Args:
        mechanism: the release.
        delta: δ over all releases together, 0 < δ < 1.
        releases: T ≥ 1.
        records: M ≥ 1.

    Raises:
        InputRefused: δ or T is out of range, or no finite ε has this δ.
    """
    return _priced(_draws(mechanism), delta, releases, records)


def price_parts(mechanism: CalibratedDeletion, *, delta: Decimal, releases: int = 1, records: int = 1) -> PartPrices:
    """The prices of a calibrated release's rows alone, and of its margins alone.

    Args:
        mechanism: the release.
        delta: δ over all releases together, of either part alone.
        releases: T ≥ 1.
        records: M ≥ 1.

    Raises:
        InputRefused: δ or T is out of range.
    """

    def alone(noise: DeletionNoise, times: int) -> Price | None:
        check_request(delta, releases)
        with suppress(InputRefused):
            return _priced(Counter({noise: times}), delta, releases, records)
        return None

    return PartPrices(
        rows=alone(mechanism.noise, mechanism.stages), margins=alone(mechanism.margin_noise, mechanism.margins)
    )


def _draws(mechanism: DeletionRelease) -> Counter[DeletionNoise]:
    """How many times one record meets a fresh draw of each noise: once a stage, once a margin.

    INVARIANT: they are added up, since a margin's noise may be that of the stages.
    """
    draws: Counter[DeletionNoise] = Counter({mechanism.noise: mechanism.stages})
    if isinstance(mechanism, CalibratedDeletion):
        draws[mechanism.margin_noise] += mechanism.margins
    return draws


def _losses(noise: DeletionNoise, *, records: int, times: int) -> FiniteLosses:
    weights, shift = deletion_weights(noise), (0,) * records
    outcomes = zip(weights + shift, shift + weights, strict=True)
    return FiniteLosses(outcomes=tuple(pair for pair in outcomes if pair != (0, 0)), total=WEIGHT_TOTAL, times=times)


def _priced(draws: Counter[DeletionNoise], delta: Decimal, releases: int, records: int) -> Price:
    check_request(delta, releases)
    # INVARIANT: equal weights that belong to noises of different parameters are added up as well.
    parts: Counter[FiniteLosses] = Counter()
    for noise, times in draws.items():
        parts[_losses(noise, records=records, times=1)] += times * releases
    available = delta if records == 1 else multiply_down(delta, _LEFT_FOR_LOSSES)
    epsilon, rule = _least_epsilon(parts, available)
    if epsilon is None:
        raise _no_price(parts, delta, records)
    kept = multiply_down(delta, _KEPT_FOR_SHAPE)
    if records > 1 and _difference_in_shape(draws, epsilon, releases, records) > kept:
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


def _least_epsilon(parts: Counter[FiniteLosses], delta: Decimal) -> tuple[Decimal | float | None, str]:
    steps = parts.total()
    if steps == 1:
        [losses] = parts
        return losses.epsilon_of_step(delta), "deletion-exact/1"
    costs = [(losses.epsilon_of_step(divide_down(delta, steps)), times) for losses, times in parts.items()]
    summed: Decimal | None = Decimal(0)
    for each, times in costs:
        one = None if each is None else multiply_up(decimal_up(each), times)
        summed = None if summed is None or one is None else add_up(summed, one)
    composed = None
    if delta >= COMPOSED_FLOOR:
        # Losses that can't be put on a grid are no fault of the request: the sum is a price too.
        with suppress(ValueError):
            every: dict[Part, int] = dict(parts.items())
            composed = epsilon_composed(every, delta=float_down(delta))
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
        if rise <= 0:
            least, of = here, before
        else:
            total += rise / (before * least)
    return total


def _difference_in_shape(
    draws: Counter[DeletionNoise], epsilon: Decimal | float, releases: int, records: int
) -> Decimal:
    """At most what it adds to δ for several records that the logarithm of the weights isn't quite concave."""
    growth, total = add_up(1, exp_up(Decimal(epsilon))), Decimal(0)
    for noise, times in draws.items():
        bends = multiply_up(Decimal(_bends(deletion_weights(noise))), _TWICE)
        total = add_up(total, multiply_up(multiply_up(growth, 2 * records * times * releases), bends))
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


def _done(mechanism: DeletionRelease) -> str:
    stages = _ONE_STAGE if mechanism.stages == 1 else _STAGES.format(stages=mechanism.stages)
    done = _DONE.format(stages=stages, k=counted(mechanism.k, "record"))
    if not isinstance(mechanism, CalibratedDeletion):
        return done
    are = "is" if mechanism.margins == 1 else "are"
    return f"{done} {_MARGINS.format(margins=counted(mechanism.margins, 'margin'), are=are)}"


def _price(mechanism: DeletionRelease, delta: Decimal, releases: int) -> Price:
    return price_deletion(mechanism, delta=delta, releases=releases)


def _parts(mechanism: DeletionRelease) -> tuple[Part, ...]:
    return tuple(_losses(noise, records=1, times=times) for noise, times in _draws(mechanism).items())


def deletion_filter_parts(mechanism: DeletionRelease, records: int) -> tuple[FiniteLosses, ...]:
    """The steps of a release in a filter budget, for M records of a person in one group, or any others.

    Raises:
        InputRefused: M > 1, and the logarithm of the weights is not concave enough (docs/proofs/filter.md, 5).
    """
    draws = _draws(mechanism)
    # Twice M times this enters the masses, and twice as much the losses; both have room for it in their rounding.
    if records > 1 and any(
        multiply_up(Decimal(_bends(deletion_weights(noise))), 16 * records) > ULP for noise in draws
    ):
        raise no_place(f"the ends of this noise are too improbable where a person has up to {records} records")
    return tuple(_losses(noise, records=records, times=times) for noise, times in draws.items())


def _group_price(mechanism: DeletionRelease, delta: Decimal, releases: int, records: int) -> Price:
    return price_deletion(mechanism, delta=delta, releases=releases, records=records)


_SHAPES: Mapping[str, Mapping[str, type]] = {
    "noise": {"optimal": OptimalDeletion, "geometric": GeometricDeletion, "gaussian": GaussianDeletion}
}

DELETION: MechanismKind[DeletionRelease] = MechanismKind(
    records={
        "deletion-release/1": RecordForm(mechanism=DeletionRelease, shapes=_SHAPES),
        "calibrated-deletion-release/1": RecordForm(mechanism=CalibratedDeletion, shapes=_SHAPES),
    },
    pure=False,
    price=_price,
    group_price=_group_price,
    paper_price=None,
    losses=_parts,
    filter_parts=deletion_filter_parts,
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


def choice_cost(selection_epsilon: Decimal, *, releases: int = 1, records: int = 1) -> Decimal:
    """What the choices of T releases cost in ε, rounded up: M·T·ε₁, as they are pure.

    Args:
        selection_epsilon: ε₁ of one choice.
        releases: T ≥ 1.
        records: M ≥ 1, the most records of a person.
    """
    return multiply_up(selection_epsilon, releases * records)


def price_selected_deletion(
    mechanism: SelectedDeletion, *, delta: Decimal, releases: int = 1, records: int = 1
) -> Price:
    """What is charged for T rounds of choosing a map on all records and releasing with it.

    The sum of the choices' ε₁ and the releases' price ("selected-deletion-sum/1"); where a person has one record, and
    it is smaller, the composed losses of all ("selected-deletion-composed/1"), which are less where the map is drawn by
    exponential mechanisms ("selected-deletion-bounded-range/1"; docs/proofs/bounded-range.md).

    Args:
        mechanism: the release.
        delta: δ over everything together, 0 < δ < 1.
        releases: T ≥ 1.
        records: M ≥ 1.

    Raises:
        InputRefused: as `price_deletion`.
    """
    rest = price_deletion(mechanism.release, delta=delta, releases=releases, records=records)
    choice = choice_cost(mechanism.selection_epsilon, releases=releases, records=records)
    best, rule = decimal_up(add_up(rest.epsilon, choice)), "selected-deletion-sum/1"
    if records == 1 and delta >= COMPOSED_FLOOR:
        composed = None
        parts: dict[Part, int] = {
            part: times * releases for part, times in Counter(_selected_losses(mechanism)).items()
        }
        # Losses that can't be put on a grid are no fault of the request: the sum is a price too.
        with suppress(ValueError):
            composed = epsilon_composed(parts, delta=float_down(delta))
        if composed is not None and decimal_up(composed) < best:
            drawn = isinstance(mechanism, ExponentialDeletion)
            best, rule = decimal_up(composed), f"selected-deletion-{'bounded-range' if drawn else 'composed'}/1"
    return Price(
        epsilon=best,
        delta=delta,
        relation=RELATION,
        rule=rule if records == 1 else rule_for_group(rule, even=False),
        releases=releases,
        rows_per_person=records,
    )


def _selected_price(mechanism: SelectedDeletion, delta: Decimal, releases: int) -> Price:
    return price_selected_deletion(mechanism, delta=delta, releases=releases)


def _selected_group_price(mechanism: SelectedDeletion, delta: Decimal, releases: int, records: int) -> Price:
    return price_selected_deletion(mechanism, delta=delta, releases=releases, records=records)


def _choice_losses(mechanism: SelectedDeletion, records: int) -> tuple[Guarantee | BoundedRange, ...]:
    """The steps of the choice for M records of a person, of which each moves all qualities by 0 … 1, none downward."""
    epsilon = choice_cost(mechanism.selection_epsilon, records=records)
    if isinstance(mechanism, ExponentialDeletion):
        return (range_of_draw(epsilon, draws=mechanism.selection_draws),) * mechanism.selection_draws
    return (Guarantee(epsilon=epsilon, delta=Decimal(0)),)


def _selected_losses(mechanism: SelectedDeletion) -> tuple[Part, ...]:
    return (deletion_losses(mechanism.release), *_choice_losses(mechanism, 1))


def _selected_filter_parts(mechanism: SelectedDeletion, records: int) -> tuple[FilterPart, ...]:
    return (*deletion_filter_parts(mechanism.release, records), *_choice_losses(mechanism, records))


def _selected_done(mechanism: SelectedDeletion) -> str:
    maps = f"a map that was {_DRAWN}"
    if mechanism.stages > 1:
        maps = (
            f"a chain of {mechanism.stages} maps, each coarser than the one before, that was {_DRAWN}; what a "
            "stage did not publish went on to the next"
        )
    return _SELECTED_DONE.format(maps=maps, k=counted(mechanism.k, "record"))


SELECTED_DELETION: MechanismKind[SelectedDeletion] = MechanismKind(
    records={
        "selected-deletion-release/1": RecordForm(
            mechanism=SelectedDeletion, shapes=DELETION.records["deletion-release/1"].shapes
        ),
        "selected-deletion-release/2": RecordForm(
            mechanism=ExponentialDeletion, shapes=DELETION.records["deletion-release/1"].shapes
        ),
    },
    pure=False,
    price=_selected_price,
    group_price=_selected_group_price,
    paper_price=None,
    losses=_selected_losses,
    filter_parts=_selected_filter_parts,
    curves=None,
    tunable=None,
    selection=lambda chosen: Selection(
        chosen.selection_epsilon,
        None,
        chosen.selection_threshold,
        QUALITY if chosen.stages == 1 else CHAIN_QUALITY,
        chosen.selection_draws if isinstance(chosen, ExponentialDeletion) else None,
    ),
    sampling_rate=lambda _: None,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={
        "selected-deletion-sum/1": f"{_SELECTED_PROVED}: the draw's cost and that of the releases, added up",
        "selected-deletion-bounded-range/1": f"{_SELECTED_PROVED}, {BOUNDED_RANGE}, composed by Zhu, Dong, Wang, "
        "arXiv:2106.08567",
        "selected-deletion-composed/1": f"{_SELECTED_PROVED}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
    },
    statements=Statements(
        done=_selected_done,
        proved=lambda *_: "",
        chosen="a choice of candidates, weights, k or noise",
        series=_SELECTED_SERIES,
        published=Published("group", "groups", "record"),
    ),
)
