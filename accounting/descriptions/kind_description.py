"""Describe a kind of mechanism for documents and pages: what must be said of each, and what only some kinds have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.mechanism import Mechanism
from ...mechanisms.kinds.microdata import StronglySafeRelease
from ..kinds.composition.composed import Part

if TYPE_CHECKING:
    from ...mechanisms.measures.risk import ToldLosses

M = TypeVar("M", bound=Mechanism)

SAMPLED = "The records were sampled with fresh independent coins for this release alone."
WHOLE = "Every record was read; no sample was drawn."
SUPPRESSED = (
    "Counts of fewer than k sampled records are published as 0, those of k and more as they are; every cell that was "
    "declared before the records were read is there."
)
CHOSEN = "a choice of levels, k or rate"
"""Sentences, and a noun, that several kinds have."""


class Published(NamedTuple):
    """Nouns for what a kind of release publishes; records are named only where rows stand for them."""

    group: str
    groups: str
    record: str


CELLS = Published("count", "counts", "")
"""What histograms publish without noise."""


class TrustModel(NamedTuple):
    """Who is trusted with what, for the registry of deployments.

    Attributes:
        model: its name there.
        details: where the records are, in a sentence.
        trust: who is trusted, in sentences.
    """

    model: str
    details: str
    trust: str


CENTRAL = TrustModel(
    "Central",
    "A trusted steward holds the records and publishes the release.",
    "The steward is trusted with the records, the sampling key and the ledger. Readers are trusted with nothing.",
)
"""Of all kinds whose records a steward holds."""


class DeletedRecords(NamedTuple):
    """How many records a release deletes of each group of each stage: the law of the secret number Z.

    Attributes:
        stages: of the release, each with draws of its own.
        k: the smallest number of records that is published of a group.
        weights: of Z = 0, 1, …, whole numbers.
        total: what the weights add up to.
        expected: E[Z].
        variance: Var[Z].
        largest: the largest Z.
        margins: how many noisy margins the rows' weights are raked to.
        margin_variance: of the noise of a margin's cell; 0 where there is none.
    """

    stages: int
    k: int
    weights: tuple[int, ...]
    total: int
    expected: Fraction
    variance: Fraction
    largest: int
    margins: int
    margin_variance: Fraction


class PaidPart(NamedTuple):
    """A part of a series of different mechanisms.

    Attributes:
        number: from 1.
        text: what its releases are, as it was registered.
    """

    number: int
    text: str


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
        selection_draws: how many draws of the exponential mechanism share ε₁ evenly; None for any private choice.
    """

    release: StronglySafeRelease
    selection_epsilon: Decimal | None
    selection_rate: Decimal | None
    selection_draws: int | None


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
class KindDescription(Generic[M]):
    """What certificates, documents and pages say of one kind of mechanism, in sentences, curves and figures.

    INVARIANT: no field decides a price or what is published.

    Args:
        done: what was done with the records.
        published: nouns for what is published.
        theorems: rule of a price → where it is proved.
        losses: what one run is in a composition, or a refusal.
        proved: (mechanism, rule of its price) → what else is proved of it for one record of a person; "" for nothing.
        chosen: what the guarantee doesn't cover if it was chosen by looking at the records, as a noun.
        series: what each release of a series does; None where several releases have no price together.
        curves: its ε–δ curves; None where its price is one point.
        tunable: the release in it whose rate and k are searched for what fits a budget; None where none is.
        label: a line about it, with the fields of its record in braces; None for these fields alone.
        trust: who is trusted with what.
        deletion: how many records it deletes of a group at random; None where it deletes none.
        told: what an attacker who knows all other records learns of one; None where no such attack is tried.
        part: (series, number of a release) → the part of the series that pays for it; None where it has no parts.
    """

    done: Callable[[M], str]
    published: Published
    theorems: Mapping[str, str]
    losses: Callable[[M], tuple[Part, ...]]
    proved: Callable[[M, str], str] = lambda _, __: ""
    chosen: str = CHOSEN
    series: str | None = None
    curves: Curves[M] | None = None
    tunable: Callable[[M], Tunable] | None = None
    label: str | None = None
    trust: TrustModel = CENTRAL
    deletion: Callable[[M], DeletedRecords] | None = None
    told: Callable[[M], ToldLosses] | None = None
    part: Callable[[M, int], PaidPart] | None = None
