"""What decides a kind of mechanism's guarantee: its records' form, its price, and what it takes; without defaults.

A mechanism is written down as a versioned name, whole numbers, and exact texts, read back as they were."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import ADD_REMOVE, MOST_RECORDS, REPLACEMENT, Mechanism, Relation
from ....mechanisms.kernel.protection import Protection

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
        """Tell whether a mechanism is written down in this form."""
        return type(mechanism) is self.mechanism and all(
            type(getattr(mechanism, name)) is held for name, held in self.nested.items()
        )

    def _own(self) -> dict[str, _Form]:
        return _forms(self.mechanism, frozenset(self.nested) | frozenset(self.shapes))

    def written(self, mechanism: Mechanism) -> dict[str, str | int]:
        """Return the record's fields without its name."""
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
        """Return the mechanism that a record, all its fields with its name among them, describes.

        Raises:
            InputRefused: a missing or unknown field, or a value of the wrong form.
        """
        own = self._own()
        made = dict(self.nested)
        for name, shapes in self.shapes.items():
            if not isinstance(shape := record.get(name), str) or shape not in shapes:
                raise InputRefused(f"a {kind} record has {name} {' or '.join(shapes)}.")
            made[name] = shapes[shape]
        held = {name: _forms(held_class) for name, held_class in made.items()}
        names = {"kind", *own, *self.shapes}.union(*held.values())
        # Exactly these fields: an unknown one may be a parameter that changes the price.
        if set(record) != names:
            raise InputRefused(f"a {kind} record has the fields {sorted(names)}, not {sorted(record)}.")
        try:
            values = {name: form.read(record[name]) for name, form in own.items()}
            for name, forms in held.items():
                values[name] = made[name](**{inner: form.read(record[inner]) for inner, form in forms.items()})
            mechanism: Mechanism = self.mechanism(**values)
        except (ValueError, InvalidOperation) as fault:
            raise InputRefused(f"a {kind} record is out of range: {fault}.") from fault
        return mechanism


@dataclass(frozen=True, slots=True)
class _Form:
    """How a field's value is written and read back; `read` refuses what is not of its form by ValueError."""

    written: Callable[[Any], str | int]
    read: Callable[[object], object]


def _read_whole(value: object) -> int:
    if type(value) is not int:  # `true` is an instance of int
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
    """Return the form of each field of a dataclass, but for those that hold another mechanism."""
    hints = get_type_hints(made)
    return {each.name: _FORMS[hints[each.name]] for each in fields(made) if each.name not in without}


def _written(mechanism: object, forms: Mapping[str, _Form]) -> dict[str, str | int]:
    return {name: form.written(getattr(mechanism, name)) for name, form in forms.items()}


M = TypeVar("M", bound=Mechanism)


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


def covered_alone(registered: Mechanism, mechanism: Mechanism, _number: int) -> str | None:
    """Return None for the registered mechanism itself, and a reason for every other one."""
    return None if mechanism == registered else "another kind of mechanism"


def covered_by_fewer(registered: Mechanism, mechanism: Mechanism, _number: int) -> str | None:
    """Return None for the registered mechanism with a higher k, a lower sampling rate or both; else a reason."""
    # A higher k is post-processing; a lower rate is the same mechanism on records that coins have thinned beforehand.
    # That a privacy profile is smaller would not be enough: the price is that of a game in which an adversary picks
    # sizes of groups, and a smaller profile need not be below that of each size (docs/proofs/composition.md, "What may
    # change within a series").
    covered: tuple[type | None, ...] = (type(mechanism),)
    if hasattr(mechanism, "selection_draws"):  # an exponential draw is one that any private choice pays for
        covered += (type(mechanism).__base__,)
    if type(registered) not in covered:
        return covered_alone(registered, mechanism, 1)
    for parameter in fields(registered):  # type: ignore[arg-type]  # every mechanism is a dataclass
        name = parameter.name
        asked, paid = getattr(mechanism, name), getattr(registered, name)
        if name == "k" and asked < paid:
            return f"k = {asked} is below the registered {paid}"
        if name == "sampling_rate" and asked > paid:
            return f"the sampling rate {asked} is above the registered {paid}"
        if name not in ("k", "sampling_rate") and asked != paid:
            return f"{name.replace('_', ' ')} differs from what was registered"
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class MechanismKind(Generic[M]):
    """One kind of mechanism: how it is written down, what it costs, and what may be published of exact counts.

    INVARIANT: a field has a default only where that is the strictest value: a kind that lacks another fails the type
    check, and can't be loaded.

    Args:
        records: name on disk, with its version → the form of that record.
        protections: the classes that protect exact counts by it, the usual one first; none for a series, which no
            release runs.
        pure: whether its price has no δ, and is asked for with δ = 0.
        series: whether several releases of it have a price together.
        price: (mechanism, δ over all releases, releases, M) → what is charged where a person has up to M records; there
            is one release where there are no series.
        filter_parts: (mechanism, M) → the steps of one release in a filter budget, or a refusal that says why it has no
            place in one.
        sampling_rate: the rate of the fresh sample that it draws and spends; None where it reads all records.
        survey_rate: the largest rate of the data set's own sampling that its price leans on; None where it draws its
            own coins. Such a data set can be released once, ever.
        exclusive: whether its price holds only while nothing else is ever published of its records.
        selection: how a mechanism's map is chosen; None where it is fixed.
        paper_price: (mechanism, δ, releases) → its price by the paper alone, None where it has none; None for a kind
            that the paper doesn't treat.
        earlier: rule by which earlier versions charged more → (mechanism, δ, releases, M) → the price by it, so that
            what was charged is still found to be right.
        not_covered: (registered, mechanism, number) → why the price of a series with free columns doesn't cover its
            release of that number by another mechanism, in words; None where it does.
    """

    records: Mapping[str, RecordForm]
    protections: tuple[type[Protection[Any, Any]], ...]
    pure: bool
    series: bool
    price: Callable[[M, Decimal, int, int], Price]
    filter_parts: Callable[[M, int], tuple[Any, ...]]
    sampling_rate: Callable[[M], Decimal | None]
    survey_rate: Callable[[M], Decimal] | None
    exclusive: bool
    selection: Callable[[M], Selection] | None = None
    paper_price: Callable[[M, Decimal, int], Price | None] | None = None
    earlier: Mapping[str, Callable[[M, Decimal, int, int], Price]] = field(default_factory=dict)
    not_covered: Callable[[M, Mechanism, int], str | None] = covered_alone

    def samples(self, mechanism: M) -> int:
        """Return how many samples a charge takes: none for a series, two where a map is chosen on a fresh one."""
        if not self.protections:
            return 0
        chosen = None if self.selection is None else self.selection(mechanism)
        return 1 if chosen is None or chosen.rate is None else 2


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
    """Refuse a δ outside (0, 1), or less than one release."""
    if not (delta.is_finite() and 0 < delta < 1):
        raise InputRefused(f"delta must lie strictly between 0 and 1, not {delta}.")
    if releases < 1:
        raise InputRefused(f"the number of releases must be at least 1, not {releases}.")


def check_records(records: int) -> None:
    """Refuse a number of records of one person below 1 or above `MOST_RECORDS`."""
    if not 1 <= records <= MOST_RECORDS:
        raise InputRefused(f"the records of a person must be 1 to {MOST_RECORDS}, not {records}.")


def no_price_for_surveyed_group(records: int, *, where: str = "") -> InputRefused:
    """Return the refusal of a survey's own sampling as the protection of people who may have several records, up to M.

    PRIVACY: a survey draws a person, and one coin then decides about all records of that person. Group privacy is for
    records with a coin each; with one coin for five records the count modulo 5 betrays a person with one
    (docs/proofs/robust-sampling.md).
    """
    return InputRefused(
        "no price is proved for a data set's own sampling where a person may have several records (here up to "
        f"{records}): a survey that draws a person draws all of them with one coin, and the records' coins must be "
        "independent.",
        where=where,
        remedy="Keep one record of each person, or release with a fresh sample of the release's own ([sampling].rate) "
        "from a data set that was added without --survey-rate.",
    )
