"""What a deletion release costs whose maps are chosen privately."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from decimal import Decimal

from ...mechanisms.kinds.deletion import ExponentialDeletion, SelectedDeletion
from ...mechanisms.kinds.deletion_protection import DeletionProtection
from ...mechanisms.map_selection.choice import CHAIN_QUALITY, QUALITY
from ..kernel.prices.arithmetic import add_up, decimal_up, float_down, multiply_up
from ..kernel.prices.mechanism_kind import RELATION, MechanismKind, Price, RecordForm, Selection, covered_by_fewer
from .composition.amplification import Guarantee
from .composition.bounded_range import BoundedRange
from .composition.composed import COMPOSED_FLOOR, FilterPart, Part, epsilon_composed
from .composition.group_privacy import rule_for_group
from .composition.private_choice import range_of_draw
from .deletion_prices import DELETION, deletion_filter_parts, deletion_losses, price_deletion


def choice_cost(selection_epsilon: Decimal, *, releases: int = 1, records: int = 1) -> Decimal:
    """Return what the choices of T releases cost in ε for M records of a person, rounded up: M·T·ε₁; they are pure."""
    return multiply_up(selection_epsilon, releases * records)


def price_selected_deletion(
    mechanism: SelectedDeletion, *, delta: Decimal, releases: int = 1, records: int = 1
) -> Price:
    """Return what is charged for T rounds of choosing a map on all records and releasing with it, for M records.

    The sum of the choices' ε₁ and the releases' price ("selected-deletion-sum/1"); where a person has one record, and
    it is smaller, the composed losses of all ("selected-deletion-composed/1"), which are less where the map is drawn by
    exponential mechanisms ("selected-deletion-bounded-range/1"; docs/proofs/bounded-range.md).

    Raises:
        InputRefused: as `price_deletion`.
    """
    rest = price_deletion(mechanism.release, delta=delta, releases=releases, records=records)
    choice = choice_cost(mechanism.selection_epsilon, releases=releases, records=records)
    best, rule = decimal_up(add_up(rest.epsilon, choice)), "selected-deletion-sum/1"
    if records == 1 and delta >= COMPOSED_FLOOR:
        composed = None
        parts: dict[Part, int] = {
            part: times * releases for part, times in Counter(selected_deletion_losses(mechanism)).items()
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


def _choice_losses(mechanism: SelectedDeletion, records: int) -> tuple[Guarantee | BoundedRange, ...]:
    """The steps of the choice for M records of a person, of which each moves all qualities by 0 … 1, none downward."""
    epsilon = choice_cost(mechanism.selection_epsilon, records=records)
    if isinstance(mechanism, ExponentialDeletion):
        return (range_of_draw(epsilon, draws=mechanism.selection_draws),) * mechanism.selection_draws
    return (Guarantee(epsilon=epsilon, delta=Decimal(0)),)


def selected_deletion_losses(mechanism: SelectedDeletion) -> tuple[Part, ...]:
    """Return what a release is in a composition: its stages, and the draws of its map."""
    return (deletion_losses(mechanism.release), *_choice_losses(mechanism, 1))


def _selected_filter_parts(mechanism: SelectedDeletion, records: int) -> tuple[FilterPart, ...]:
    return (*deletion_filter_parts(mechanism.release, records), *_choice_losses(mechanism, records))


SELECTED_DELETION: MechanismKind[SelectedDeletion] = MechanismKind(
    records={
        "selected-deletion-release/1": RecordForm(
            mechanism=SelectedDeletion, shapes=DELETION.records["deletion-release/1"].shapes
        ),
        "selected-deletion-release/2": RecordForm(
            mechanism=ExponentialDeletion, shapes=DELETION.records["deletion-release/1"].shapes
        ),
    },
    protections=(DeletionProtection,),
    pure=False,
    series=True,
    price=lambda mechanism, delta, releases, records: price_selected_deletion(
        mechanism, delta=delta, releases=releases, records=records
    ),
    filter_parts=_selected_filter_parts,
    selection=lambda chosen: Selection(
        chosen.selection_epsilon,
        None,
        chosen.selection_threshold,
        QUALITY if chosen.stages == 1 else CHAIN_QUALITY,
        chosen.selection_draws if isinstance(chosen, ExponentialDeletion) else None,
    ),
    sampling_rate=lambda _: None,
    survey_rate=None,
    exclusive=False,
    not_covered=covered_by_fewer,
)
