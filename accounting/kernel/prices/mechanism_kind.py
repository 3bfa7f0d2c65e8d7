"""What every kind of mechanism must say of itself, its records' form and its price included: without defaults.

A mechanism is written down as a versioned name, whole numbers, and exact texts, read back as they were."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import ADD_REMOVE, MOST_RECORDS, REPLACEMENT, Mechanism, Relation
from ....mechanisms.kinds.microdata import StronglySafeRelease
from .amplification import Guarantee
from .loss_distribution import FilterPart, Part

__all__ = [
    "CELLS",
    "CHOSEN",
    "RELATION",
    "SAMPLED",
    "SUPPRESSED",
    "WHOLE",
    "Curves",
    "MechanismKind",
    "Price",
    "PrivacyCurve",
    "Published",
    "RecordForm",
    "Selection",
    "Statements",
    "Tunable",
    "check_records",
    "check_request",
    "filter_parts_of_one",
    "no_filter_parts",
    "no_place",
    "not_composed",
    "pure_filter_parts",
]

_AMOUNT_TEXT = re.compile(r"-?[0-9]+(\.[0-9]+)?(E[+-]?[0-9]+)?")
_HEX_TEXT = re.compile(r"([0-9a-f]{2}){1,64}")
_ALL_RECORDS = "whole"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordForm:
    """One version of a kind's record: the fields of its dataclass, one by one, and those of what it holds beside them.

    INVARIANT: a record that was ever written is read back: a new or another field needs a new version's form.

    Args:
        mechanism: the dataclass, whose fields are the record's: whole numbers as they are, amounts as exact decimal
            texts, bytes in hexadecimal, and "whole" for the rate of what is done on all records.
        nested: field → the dataclass that it holds here; its fields stand in the record beside the others.
        shapes: field → name of a shape → the dataclass that it holds then; in the record it is that name, and the
            dataclass's fields stand beside the others.
    """

    mechanism: type
    nested: Mapping[str, type] = field(default_factory=dict)
    shapes: Mapping[str, Mapping[str, type]] = field(default_factory=dict)

    def describes(self, mechanism: Mechanism) -> bool:
        """Whether a mechanism is written down in this form."""
        return type(mechanism) is self.mechanism and all(
            type(getattr(mechanism, name)) is held for name, held in self.nested.items()
        )

    def _own(self) -> dict[str, _Form]:
        return _forms(self.mechanism, frozenset(self.nested) | frozenset(self.shapes))

    def written(self, mechanism: Mechanism) -> dict[str, str | int]:
        """The record's fields without its name."""
        record = _written(mechanism, self._own())
        for name in self.shapes:
            record[name] = next(
                shape for shape, made in self.shapes[name].items() if type(getattr(mechanism, name)) is made
            )
        for name in (*self.nested, *self.shapes):
            held = getattr(mechanism, name)
            made: type = type(held)
            record |= _written(held, _forms(made))
        return record

    def read(self, kind: str, record: Mapping[str, object]) -> Mechanism:
        """The mechanism that a record describes.

        Args:
            kind: its name on disk, for the message.
            record: all its fields, its name among them.

        Raises:
            InputRefused: a missing or unknown field, or a value of the wrong form.
        """
        own = self._own()
        made = dict(self.nested)
        for name, shapes in self.shapes.items():
            if not isinstance(shape := record.get(name), str) or shape not in shapes:
                raise InputRefused(f"a {kind} record has {name} {' or '.join(shapes)}.")
            made[name] = shapes[shape]
        held = {name: _forms(one) for name, one in made.items()}
        names = {"kind", *own, *self.shapes}.union(*held.values())
        if set(record) != names:
            raise InputRefused(f"a {kind} record has the fields {sorted(names)}, not {sorted(record)}.")
        try:
            values = {name: form.read(record[name]) for name, form in own.items()}
            for name, forms in held.items():
                values[name] = made[name](**{inner: form.read(record[inner]) for inner, form in forms.items()})
            found: Mechanism = self.mechanism(**values)
        except (ValueError, InvalidOperation) as fault:
            raise InputRefused(f"a {kind} record is out of range: {fault}.") from fault
        return found


@dataclass(frozen=True, slots=True)
class _Form:
    """How a field's value is written and read back; `read` refuses what is not of its form by ValueError."""

    written: Callable[[Any], str | int]
    read: Callable[[object], object]


def _read_whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError("a whole number is needed")
    return value


def _read_amount(value: object) -> Decimal:
    if not isinstance(value, str) or not _AMOUNT_TEXT.fullmatch(value):
        raise ValueError("a decimal text is needed")
    return Decimal(value)


def _read_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("a text is needed")


def _read_relation(value: object) -> object:
    if value not in (ADD_REMOVE, REPLACEMENT):
        raise ValueError("an unknown relation")
    return value


def _read_bytes(value: object) -> bytes:
    if not isinstance(value, str) or not _HEX_TEXT.fullmatch(value):
        raise ValueError("1 to 64 bytes in hexadecimal are needed")
    return bytes.fromhex(value)


_FORMS: Mapping[object, _Form] = {
    int: _Form(_read_whole, _read_whole),
    Decimal: _Form(str, _read_amount),
    Decimal | None: _Form(
        lambda rate: _ALL_RECORDS if rate is None else str(rate),
        lambda text: None if text == _ALL_RECORDS else _read_amount(text),
    ),
    Relation: _Form(str, _read_relation),
    bytes: _Form(bytes.hex, _read_bytes),
    str: _Form(str, _read_text),
}
"""Type of a field → how it is written."""


@lru_cache
def _forms(made: type, without: frozenset[str] = frozenset()) -> dict[str, _Form]:
    """Field of a dataclass → its form, but for those that hold another mechanism."""
    hints = get_type_hints(made)
    return {one.name: _FORMS[hints[one.name]] for one in fields(made) if one.name not in without}


def _written(mechanism: object, forms: Mapping[str, _Form]) -> dict[str, str | int]:
    return {name: form.written(getattr(mechanism, name)) for name, form in forms.items()}


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
        selection_draws: how many draws of the exponential mechanism share ε₁ evenly; None for any private choice.
    """

    release: StronglySafeRelease
    selection_epsilon: Decimal | None
    selection_rate: Decimal | None
    selection_draws: int | None


class Selection(NamedTuple):
    """How the map of a release is chosen privately, as far as its mechanism says so.

    Attributes:
        epsilon: ε₁ of the choice where it is made, before any amplification.
        rate: of the choice's own fresh sample; None where it is made on the whole data.
        threshold: k′, the size from which on a group's records count for a map.
        quality: name of the quality that is drawn by.
        draws: how many draws of the exponential mechanism share ε evenly; None where any ε-private draw is paid for.
    """

    epsilon: Decimal
    rate: Decimal | None
    threshold: int
    quality: str
    draws: int | None


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
        filter_parts: (mechanism, M) → the steps of one release in a filter budget, or a refusal that says why it has no
            place in one.
        curves: its ε–δ curves; None where its price is one point.
        tunable: the release in it whose rate and k are searched for what fits a budget; None where none is.
        selection: how a mechanism's map is chosen; None where it is fixed.
        sampling_rate: the rate of the fresh sample that it draws and spends; None where it reads all records.
        samples: how many samples a charge of it takes: its own, and one more where a map is chosen on a fresh sample;
            0 for what no release runs, a series that is only registered.
        survey_rate: the largest rate of the data set's own sampling that its price leans on; None where it draws its
            own coins. Such a data set can be released once, ever.
        exclusive: whether its price holds only while nothing else is ever published of its records.
        earlier: rule by which earlier versions charged more → (mechanism, δ, releases, M) → the price by it, so that
            what was charged is still found to be right.
        theorems: rule of a price → where it is proved.
        statements: what certificates and pages say of it.
    """

    records: Mapping[str, RecordForm]
    pure: bool
    price: Callable[[M, Decimal, int], Price]
    group_price: Callable[[M, Decimal, int, int], Price]
    paper_price: Callable[[M, Decimal, int], Price | None] | None
    losses: Callable[[M], tuple[Part, ...]]
    filter_parts: Callable[[M, int], tuple[FilterPart, ...]]
    curves: Curves[M] | None
    tunable: Callable[[M], Tunable] | None
    selection: Callable[[M], Selection] | None
    sampling_rate: Callable[[M], Decimal | None]
    samples: Callable[[M], int]
    survey_rate: Callable[[M], Decimal] | None
    exclusive: bool
    earlier: Mapping[str, Callable[[M, Decimal, int, int], Price]]
    theorems: Mapping[str, str]
    statements: Statements[M]


def not_composed(_mechanism: Mechanism) -> tuple[Part, ...]:
    """The `losses` of a kind for which none are composed.

    Raises:
        InputRefused: always.
    """
    raise InputRefused("this mechanism's losses are not composed.")


def filter_parts_of_one(losses: Callable[[M], tuple[FilterPart, ...]]) -> Callable[[M, int], tuple[FilterPart, ...]]:
    """The `filter_parts` of a kind that is in a filter budget what it is in a composition, for one record of a person.

    Args:
        losses: those of the kind.

    Returns:
        (mechanism, M) → the steps; it refuses M > 1.
    """

    def parts(mechanism: M, records: int) -> tuple[FilterPart, ...]:
        if records > 1:
            raise no_place(f"its divergence is proved for one record of a person, not for up to {records}")
        try:
            return losses(mechanism)
        except InputRefused as fault:
            raise no_place(fault.what.removesuffix(".")) from fault

    return parts


def no_place(reason: str) -> InputRefused:
    """The refusal of what can't be charged to a filter budget.

    Args:
        reason: why, as a sentence without its first capital and its end.
    """
    return InputRefused(
        f"this mechanism has no place in a filter budget: {reason}.",
        remedy="Charge it to a budget that adds prices up.",
    )


def no_filter_parts(reason: str) -> Callable[[Mechanism, int], tuple[FilterPart, ...]]:
    """The `filter_parts` of a kind that has no place in a filter budget.

    Args:
        reason: why, as a sentence without its first capital and its end.
    """

    def refused(_mechanism: Mechanism, _records: int) -> tuple[FilterPart, ...]:
        raise no_place(reason)

    return refused


def pure_filter_parts(
    price_of_group: Callable[[M, Decimal, int, int], Price],
) -> Callable[[M, int], tuple[FilterPart, ...]]:
    """The `filter_parts` of a kind whose price has no δ: a bare guarantee by its ε.

    Args:
        price_of_group: its price for M ≥ 1 records.
    """

    def parts(mechanism: M, records: int) -> tuple[FilterPart, ...]:
        price = price_of_group(mechanism, Decimal(0), 1, records)
        return (Guarantee(epsilon=price.epsilon, delta=Decimal(0)),)

    return parts


RELATION = "add/remove"


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """An (ε, δ) cost, rounded up, with the rule that gave it.

    Args:
        epsilon: ε of at least 0, at most 12 significant digits.
        delta: δ, the total over all releases.
        relation: the neighbouring relation: "add/remove", data sets that differ by one person's presence, or
            "replacement", by one person's records.
        rule: the versioned rule that was applied, for example "exact-profile/1".
        releases: how many releases of the mechanism the price covers, at least 1.
        rows_per_person: the most records of one person in a delivery that it covers, at least 1.

    Raises:
        ValueError: a field outside its range.
    """

    epsilon: Decimal
    delta: Decimal
    relation: str
    rule: str
    releases: int
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        """Refuse what is not a price."""
        if not (self.epsilon.is_finite() and self.epsilon >= 0):
            raise ValueError(f"epsilon must be finite and at least 0, not {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, not {self.delta}")
        if self.releases < 1:
            raise ValueError(f"releases must be at least 1, not {self.releases}")
        if self.rows_per_person < 1:
            raise ValueError(f"a person has at least one record, not {self.rows_per_person}")


def check_request(delta: Decimal, releases: int = 1) -> None:
    """Whether δ and a number of releases can be priced at all.

    Raises:
        InputRefused: δ is outside (0, 1), or there is less than one release.
    """
    if not (delta.is_finite() and 0 < delta < 1):
        raise InputRefused(f"delta must lie strictly between 0 and 1, not {delta}.")
    if releases < 1:
        raise InputRefused(f"the number of releases must be at least 1, not {releases}.")


def check_records(records: int) -> None:
    """Whether a number of records of one person can be priced at all.

    Raises:
        InputRefused: it is below 1 or above `MOST_RECORDS`.
    """
    if not 1 <= records <= MOST_RECORDS:
        raise InputRefused(f"the records of a person must be 1 to {MOST_RECORDS}, not {records}.")
