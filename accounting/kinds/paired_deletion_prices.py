"""Price a deletion release that draws and counts pairs of columns beside its rows, in one table or several."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from ...mechanisms.kinds.paired_deletion import BlockedDeletion, PairedDeletion, PairedProtection
from ..kernel.prices.arithmetic import decimal_up, multiply_up
from ..kernel.prices.mechanism_kind import MechanismKind, Price, RecordForm, covered_by_fewer
from .composition.bounded_range import BoundedRange
from .composition.composed import FilterPart, Part
from .deletion_prices import (
    DELETION_SHAPES,
    Met,
    draws_of_release,
    filter_parts_of_draws,
    losses_of_draws,
    price_of_draws,
)


def price_paired_deletion(mechanism: PairedDeletion, *, delta: Decimal, releases: int = 1, records: int = 1) -> Price:
    """Return what is charged for T paired releases of one mechanism, where a person has up to M records.

    The composed losses of all tables' stages, margins, pairs and draws ("paired-deletion-composed/1"), or their prices
    added up ("paired-deletion-sum/1"). A draw's losses lie within an interval of length M·ε (docs/proofs/pairs.md).

    Raises:
        InputRefused: as `price_deletion`.
    """
    choices = choices_of_pairs(mechanism, records)
    return price_of_draws(draws_of_pairs(mechanism), delta, releases, records, choices=choices, rules="paired-deletion")


def draws_of_pairs(mechanism: PairedDeletion) -> Counter[Met]:
    """Return how many times one record meets a fresh draw of each noise; INVARIANT: of equal noises, added up."""
    draws = draws_of_release(mechanism)
    # All tables of rows are of all records, so that a record meets the stages of each.
    draws[mechanism.noise] += (mechanism.tables - 1) * mechanism.stages
    draws[mechanism.pair_noise] += mechanism.pairs
    return draws


def choices_of_pairs(mechanism: PairedDeletion, records: int) -> Counter[BoundedRange]:
    """Return each release's draws of pairs, with the range of each for M records of a person."""
    epsilon = decimal_up(multiply_up(mechanism.pair_epsilon, records))
    return Counter({BoundedRange(epsilon=epsilon): mechanism.pairs})


def paired_deletion_losses(mechanism: PairedDeletion) -> tuple[Part, ...]:
    """Return what a release is in a composition: its stages, margins and pairs, and the draws of the pairs."""
    return (*losses_of_draws(draws_of_pairs(mechanism), records=1), *choices_of_pairs(mechanism, 1).elements())


def _filter_parts(mechanism: PairedDeletion, records: int) -> tuple[FilterPart, ...]:
    return (
        *filter_parts_of_draws(draws_of_pairs(mechanism), records),
        *choices_of_pairs(mechanism, records).elements(),
    )


PAIRED_DELETION: MechanismKind[PairedDeletion] = MechanismKind(
    records={
        "paired-deletion-release/1": RecordForm(mechanism=PairedDeletion, shapes=DELETION_SHAPES),
        "blocked-deletion-release/1": RecordForm(mechanism=BlockedDeletion, shapes=DELETION_SHAPES),
    },
    protections=(PairedProtection,),
    pure=False,
    series=True,
    price=lambda mechanism, delta, releases, records: price_paired_deletion(
        mechanism, delta=delta, releases=releases, records=records
    ),
    filter_parts=_filter_parts,
    sampling_rate=lambda _: None,
    survey_rate=None,
    exclusive=False,
    not_covered=covered_by_fewer,
)
