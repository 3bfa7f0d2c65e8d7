"""What every kind of mechanism must say of itself: one value without defaults, so that nothing can be forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.errors import InputRefused
from ....mechanisms.mechanism import Mechanism
from ....mechanisms.microdata import StronglySafeRelease
from ..composition.loss_distribution import Part
from ..cost import Price
from .records import RecordForm

__all__ = [
    "CELLS",
    "CHOSEN",
    "SAMPLED",
    "SUPPRESSED",
    "WHOLE",
    "Curves",
    "MechanismKind",
    "PrivacyCurve",
    "Published",
    "Statements",
    "Tunable",
    "not_composed",
]

SAMPLED = "The records were sampled with fresh independent coins for this release alone."
WHOLE = "Every record was read; no sample was drawn."
SUPPRESSED = (
    "Counts of fewer than k sampled records are published as 0, those of k and more as they are; every cell that was "
    "declared before the records were read is there."
)
CHOSEN = "a choice of levels, k or rate"
"""Sentences, and a noun, that several kinds have."""

M = TypeVar("M", bound=Mechanism)


class Published(NamedTuple):
    """Nouns for what a kind of release publishes; records are named only where rows stand for them."""

    group: str
    groups: str
    record: str


CELLS = Published("count", "counts", "")
"""What histograms publish without noise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statements(Generic[M]):
    """What is said of a mechanism in certificates and on pages, in sentences.

    Args:
        done: what was done with the records.
        proved: (mechanism, rule of its price) → what else is proved of it for one record of a person; "" for nothing.
        chosen: what the guarantee doesn't cover if it was chosen by looking at the records, as a noun.
        series: what each release of a series does; None where several releases have no price together.
        published: nouns for what is published.
    """

    done: Callable[[M], str]
    proved: Callable[[M, str], str]
    chosen: str
    series: str | None
    published: Published


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivacyCurve:
    """The ε–δ curve of one release for one record, by its exact profile and by the paper: upper bounds both.

    Args:
        log_delta: ε ≥ 0 of shape (n,) → ln δ(ε) of that shape.
        delta_paper: ε → δ by the paper; None where it proves nothing.
        farthest: an ε beyond which nothing is drawn.
    """

    log_delta: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    delta_paper: Callable[[float], float | None]
    farthest: float


class Tunable(NamedTuple):
    """A release whose rate and k can be searched (`inversion.changes_that_fit`), and how its map is chosen.

    Attributes:
        release: the release itself.
        selection_epsilon: ε₁ of the choice of its map; None where the map is fixed.
        selection_rate: rate of the choice's own fresh sample; None where it is made on the whole data.
    """

    release: StronglySafeRelease
    selection_epsilon: Decimal | None
    selection_rate: Decimal | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Curves(Generic[M]):
    """The curves of a kind.

    Args:
        theorem: of Li, Qardaji, Su, arXiv:1101.2604v2, that gives the paper's δ.
        of: a mechanism's curve.
    """

    theorem: str
    of: Callable[[M], PrivacyCurve]


@dataclass(frozen=True, kw_only=True, slots=True)
class MechanismKind(Generic[M]):
    """One kind of mechanism: how it is written down, what it costs, and what is said of it.

    INVARIANT: no field has a default, so that a kind that lacks one fails the type check, and can't be loaded.

    Args:
        records: name on disk, with its version → the form of that record.
        pure: whether its price has no δ, and is asked for with δ = 0.
        price: (mechanism, δ over all releases, releases) → what is charged where a person has one record; there is one
            release where nothing is said of a series.
        group_price: (mechanism, δ, releases, M) → what is charged where a person has up to M records, M > 1.
        paper_price: (mechanism, δ, releases) → the price by the paper alone; None where it has none.
        losses: what one run is in a composition, or a refusal.
        curves: its ε–δ curves; None where its price is one point.
        tunable: the release in it whose rate and k are searched for what fits a budget; None where none is.
        sampling_rate: the rate of the fresh sample that it draws and spends; None where it reads all records.
        samples: how many samples a charge of it takes: its own, and one more where a map is chosen on a fresh sample.
        survey_rate: the largest rate of the data set's own sampling that its price leans on; None where it draws its
            own coins. Such a data set can be released once, ever.
        exclusive: whether its price holds only while nothing else is ever published of its records.
        theorems: rule of a price → where it is proved.
        statements: what certificates and pages say of it.
    """

    records: Mapping[str, RecordForm]
    pure: bool
    price: Callable[[M, Decimal, int], Price]
    group_price: Callable[[M, Decimal, int, int], Price]
    paper_price: Callable[[M, Decimal, int], Price | None] | None
    losses: Callable[[M], tuple[Part, ...]]
    curves: Curves[M] | None
    tunable: Callable[[M], Tunable] | None
    sampling_rate: Callable[[M], Decimal | None]
    samples: Callable[[M], int]
    survey_rate: Callable[[M], Decimal] | None
    exclusive: bool
    theorems: Mapping[str, str]
    statements: Statements[M]


def not_composed(_mechanism: Mechanism) -> tuple[Part, ...]:
    """The `losses` of a kind for which none are composed.

    Raises:
        InputRefused: always.
    """
    raise InputRefused("this mechanism's losses are not composed.")
