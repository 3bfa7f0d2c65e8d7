"""Deletion releases whose map, or chain of maps, is chosen privately, and then released with."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

from ....mechanisms.amounts import counted
from ....mechanisms.deletion import SelectedDeletion
from ....mechanisms.map_selection.lattice import CHAIN_QUALITY, QUALITY
from ..arithmetic import add_up, decimal_up, float_down, multiply_up
from ..composition.amplification import Guarantee
from ..composition.group_privacy import rule_for_group
from ..composition.loss_distribution import COMPOSED_FLOOR, FilterPart, Part, epsilon_composed
from .deletion import KIND as DELETION
from .deletion import deletion_filter_parts, deletion_losses, price_deletion
from .kind import RELATION, MechanismKind, Price, Published, RecordForm, Selection, Statements

__all__ = ["KIND", "choice_cost", "price_selected_deletion"]

_PROVED = "proved in docs/proofs/deletion.md and docs/proofs/map-quality.md"
_DRAWN = "drawn privately from candidates declared before any record was read"
_DONE = (
    "Every record was read; no sample was drawn. The records were recoded with {maps}; what the draw costs is part of "
    "epsilon and delta. Each group lost a secret random number of records, drawn for it alone, and a group of which "
    "fewer than {k} would have been left published none."
)
_SERIES = (
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
    it is smaller, the composed losses of all ("selected-deletion-composed/1").

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
        # Losses that can't be put on a grid are no fault of the request: the sum is a price too.
        with suppress(ValueError):
            composed = epsilon_composed(dict.fromkeys(_losses(mechanism), releases), delta=float_down(delta))
        if composed is not None and decimal_up(composed) < best:
            best, rule = decimal_up(composed), "selected-deletion-composed/1"
    return Price(
        epsilon=best,
        delta=delta,
        relation=RELATION,
        rule=rule if records == 1 else rule_for_group(rule, even=False),
        releases=releases,
        rows_per_person=records,
    )


def _price(mechanism: SelectedDeletion, delta: Decimal, releases: int) -> Price:
    return price_selected_deletion(mechanism, delta=delta, releases=releases)


def _group_price(mechanism: SelectedDeletion, delta: Decimal, releases: int, records: int) -> Price:
    return price_selected_deletion(mechanism, delta=delta, releases=releases, records=records)


def _losses(mechanism: SelectedDeletion) -> tuple[Part, ...]:
    return (deletion_losses(mechanism.release), Guarantee(epsilon=mechanism.selection_epsilon, delta=Decimal(0)))


def _filter_parts(mechanism: SelectedDeletion, records: int) -> tuple[FilterPart, ...]:
    choice = Guarantee(epsilon=choice_cost(mechanism.selection_epsilon, records=records), delta=Decimal(0))
    return (*deletion_filter_parts(mechanism.release, records), choice)


def _done(mechanism: SelectedDeletion) -> str:
    maps = f"a map that was {_DRAWN}"
    if mechanism.stages > 1:
        maps = (
            f"a chain of {mechanism.stages} maps, each coarser than the one before, that was {_DRAWN}; what a "
            "stage did not publish went on to the next"
        )
    return _DONE.format(maps=maps, k=counted(mechanism.k, "record"))


KIND: MechanismKind[SelectedDeletion] = MechanismKind(
    records={
        "selected-deletion-release/1": RecordForm(
            mechanism=SelectedDeletion, shapes=DELETION.records["deletion-release/1"].shapes
        )
    },
    pure=False,
    price=_price,
    group_price=_group_price,
    paper_price=None,
    losses=_losses,
    filter_parts=_filter_parts,
    curves=None,
    tunable=None,
    selection=lambda chosen: Selection(
        chosen.selection_epsilon,
        None,
        chosen.selection_threshold,
        QUALITY if chosen.stages == 1 else CHAIN_QUALITY,
    ),
    sampling_rate=lambda _: None,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={
        "selected-deletion-sum/1": f"{_PROVED}: the draw's cost and that of the releases, added up",
        "selected-deletion-composed/1": f"{_PROVED}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
    },
    statements=Statements(
        done=_done,
        proved=lambda *_: "",
        chosen="a choice of candidates, weights, k or noise",
        series=_SERIES,
        published=Published("group", "groups", "record"),
    ),
)
