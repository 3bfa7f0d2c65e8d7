"""Define what the ledger records: the kinds of entries with their fields, and the one byte string of an entry.

A kind has a version and is never reinterpreted. Its bytes are sorted-key ASCII JSON without floating-point numbers; the
hash of an entry's link binds them to their place and to all entries before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from ..field_forms import (
    Amount,
    BudgetDelta,
    Check,
    Count,
    Digest,
    Fields,
    Name,
    Order,
    OutputHashes,
    PositiveAmount,
    Rate,
    ReleaseId,
    SeriesName,
    Text,
    TokenId,
    amount_of_text,
    amount_text,
    require_digest,
    require_name,
)
from ..prices.registry import mechanism_of_record

WORDS = {"by": "name of who does this", "column": "unit's column", "dataset": "data set's name"}
WORDS |= {"delta": "δ", "epsilon": "ε"}
"""What messages call a field, where its name doesn't say it."""
MIXED = "mixed-series/1"
"""The record of a series of different mechanisms."""
RECORD = "record"
UNITS = (RECORD, "person", "household")


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """An entry or a part of one: each field's form is checked when it is made, and ValueError raised for another.

    These fields mean the same in all classes, but for what a class says of its own.

    Args:
        accounting: How the filter budget is accounted; the budget itself is what all releases together guarantee.
        by: Name of the person who did this.
        dataset: Name of the data set; a charge takes of its budget.
        day: Day on which this was done.
        delta: δ of the whole budget, below 1, or of all releases that a price is for.
        epsilon: ε of the whole budget, or of all releases that a price is for.
        filter_charge: What the release, or all releases of the series together, take of the filter budget.
        ledger_id: Id of the ledger, 64 random hexadecimal digits.
        map_digest: SHA-256 (hex) of the generalization map, or of the lattice that it is drawn from.
        mechanism: Versioned record of the mechanism, sorted by field.
        order: α > 1, the one order of all divergences in the data set.
        price: Price that is charged; for a series, of all its releases together.
        reason: Reason, in one line.
        relation: The one neighbouring relation that prices hold for.
        release_id: Id of the release, 1 to 128 characters, unique in the ledger.
        releases: Number of releases that the price covers.
        rule: Versioned name of the theorem that the amounts follow from.
        selection_sample_id: Commitment to the key of the sample that the map is chosen on, unique among all samples;
            None where there is no such sample.
        spec_digest: SHA-256 (hex) of the canonical specification; for a series, of what its releases have in common.
        token_id: Public id of the token, 16 random hexadecimal digits.
        unit: Unit whose presence all releases of the data set hide, fixed for ever.
    """

    def __post_init__(self) -> None:
        cls: Any = type(self)  # for mypy, which takes no class for hashable
        for name, check in _checks(cls):
            if (value := getattr(self, name)) is not None:
                check(value, WORDS.get(name, name.replace("_", " ")))

    @classmethod
    def of(cls, source: object, **others: Any) -> Self:  # noqa: ANN401 - fields of any type
        """Return a record with another object's values of the same names, but for those that are given."""
        same = {one.name for one in fields(cls)} - others.keys()
        return cls(**others, **{name: getattr(source, name) for name in same})


@cache
def _checks(cls: type[Any]) -> tuple[tuple[str, Check], ...]:
    """Return the names of the fields that have a form, each with its check."""
    hints = get_type_hints(cls, include_extras=True).items()
    annotated = ((name, option) for name, hint in hints for option in (hint, *get_args(hint)))
    return tuple((name, check) for name, option in annotated for check in getattr(option, "__metadata__", ()))


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerCreated(Record):
    """The first entry of every ledger."""

    KIND: ClassVar[str] = "ledger-created/1"
    ledger_id: Digest


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetUnit(Record):
    """Whose presence all releases of a data set hide.

    Args:
        name: "person" or "household", whose records a column names; "record" where no column limits how many records of
            a person count, and it is believed that nobody has more than the data set's `rows_per_person`.
        column: Name of the column that names persons or households; None exactly for "record".
    """

    name: str
    column: Text | None

    def __post_init__(self) -> None:
        if self.name not in UNITS:
            raise ValueError(f"a unit is one of {', '.join(UNITS)}, not {self.name[:60]!r}")
        if (self.column is None) is not (self.name == RECORD):
            raise ValueError("a person and a household are identified by a column, and a record by none")
        Record.__post_init__(self)  # `super()` doesn't know a class with slots

    def __str__(self) -> str:
        """Write it as `dataset add --unit` reads it."""
        return self.name if self.column is None else f"{self.name}:{self.column}"

    @classmethod
    def of_text(cls, text: str) -> DatasetUnit:
        """Return the unit that a text such as `person:who` names; ValueError where it names none."""
        name, colon, column = text.partition(":")
        return cls(name=name, column=column if colon else None)


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetAdded(Record):
    """A population over time gets a budget; a later delivery of its records refreshes nothing.

    Args:
        survey_rate: Rate of the data set's own sampling where that is part of the price, else None; such a
            data set can be released once.
        rows_per_person: Largest number of records of one person in a delivery.
    """

    KIND: ClassVar[str] = "dataset-added/1"
    dataset: Name
    epsilon: PositiveAmount
    delta: BudgetDelta
    relation: Name
    survey_rate: Rate | None
    rows_per_person: Count
    by: Name
    day: date

    @property
    def fixed_unit(self) -> DatasetUnit | None:
        """Whose presence its releases hide; None where an earlier version added it, which fixed no unit."""
        unit: DatasetUnit | None = getattr(self, "unit", None)
        return unit


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterAccounting(Record):
    """How a filter budget of (E, D) is accounted, fixed for ever when the data set is added.

    Args:
        tail_delta: D_τ, the largest sum of all τ; below D.
        tail_each: Largest τ of one release, besides the probability of an infinite loss. A release's own τ follows from
            it, from the other terms and from the mechanism.
        allowance: Largest sum of all D_α, by E, D, α and D_τ, rounded down.
    """

    rule: Name
    order: Order
    tail_delta: Amount
    tail_each: Amount
    allowance: PositiveAmount


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterDatasetAdded(DatasetAdded):
    """A population over time gets a filter budget: it pays divergences of one order, however releases are chosen."""

    KIND: ClassVar[str] = "dataset-added/2"
    accounting: FilterAccounting

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        if self.survey_rate is not None:
            raise ValueError("a data set that is itself a sample can be released once, so it has no filter budget")
        if not self.accounting.tail_delta < self.delta:
            raise ValueError("the share of δ for tails must be below the budget's δ")


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitDatasetAdded(DatasetAdded):
    """The same as dataset-added/1, with the unit that all releases hide; so everything spent is of one unit."""

    KIND: ClassVar[str] = "dataset-added/3"
    unit: DatasetUnit


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterUnitDatasetAdded(FilterDatasetAdded):
    """The same as dataset-added/2, with the unit that all releases hide."""

    KIND: ClassVar[str] = "dataset-added/4"
    unit: DatasetUnit


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetRaised(Record):
    """A data set's budget becomes larger: the whole new budget is recorded, not the difference."""

    KIND: ClassVar[str] = "budget-raised/1"
    dataset: Name
    epsilon: Amount
    delta: BudgetDelta
    reason: Text
    by: Name
    day: date


@dataclass(frozen=True, kw_only=True, slots=True)
class DataAccess(Record):
    """Somebody looked at a data set's records outside any release, such as by a report of what a release would lose.

    What is chosen after such a look depends on the records in a way that no price covers, so the certificates of
    later releases say that there was one.

    Args:
        what: What was looked at, in one line; never a value of the records.
    """

    KIND: ClassVar[str] = "private-look/1"
    dataset: Name
    what: Text
    by: Name
    day: date


@dataclass(frozen=True, kw_only=True, slots=True)
class ChargedPrice(Record):
    """The price as charged."""

    epsilon: Amount
    delta: Amount
    rule: Name
    relation: Name
    releases: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterCharge(Record):
    """What a charge takes of a filter budget, with all that it was computed from beside the mechanism.

    Args:
        divergence: D_α of all releases of the charge together, the larger of both directions, after the tails are cut.
        tail: τ, the probability mass that was cut off, of all releases of the charge together.
    """

    order: Order
    divergence: Amount
    tail: Amount
    rule: Name


@dataclass(frozen=True, kw_only=True, slots=True)
class Charge(Record):
    """What the charges of a series and of a release have in common.

    Args:
        epsilon_paper: ε by the published bound; None where that bound gives no guarantee.
        day: Day of the charge, before any record is read.
    """

    dataset: Name
    mechanism: Fields
    price: ChargedPrice
    epsilon_paper: Amount | None
    spec_digest: Digest
    map_digest: Digest
    day: date

    @property
    def of_filter(self) -> FilterCharge | None:
        """What it takes of a filter budget itself; None where it is charged to an additive one or a series paid."""
        taken: FilterCharge | None = getattr(self, "filter_charge", None)
        return taken

    @property
    def decoded_mechanism(self) -> Mechanism:
        """The mechanism that its record describes; InputRefused where this version can't read the record."""
        return mechanism_of_record(dict(self.mechanism))


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRegistered(Charge):
    """Several releases of one mechanism, parameters fixed now, priced and reserved as one.

    Args:
        series: Name of the series, unique in the ledger.
    """

    KIND: ClassVar[str] = "series-registered/1"
    series: SeriesName

    @property
    def mixed(self) -> Any:  # noqa: ANN401
        """Its `MixedSeries` where its mechanisms differ; None for one of one mechanism, and where it can't be read."""
        if dict(self.mechanism).get("kind") != MIXED:
            return None
        try:
            return self.decoded_mechanism
        except InputRefused:
            return None  # which has no price either


@dataclass(frozen=True, kw_only=True, slots=True)
class FreeSeriesRegistered(SeriesRegistered):
    """A series whose releases have columns, hierarchies and levels of their own.

    A release of it may also have a higher k or a lower sampling rate than `mechanism`, which its price is for: what
    else is covered is nothing (`not_covered`). `map_digest` is of the specification that it was registered with, and
    binds no release; `spec_digest` is of what its releases have in common, without columns, k and rate. Where
    `mechanism` is a series of different mechanisms (`mixed`), each release is of the part that its number says, and
    both digests are of the data set, the parts and δ alone.
    """

    KIND: ClassVar[str] = "series-registered/2"


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRegisteredToFilter(SeriesRegistered):
    """The same as series-registered/1 in a filter data set."""

    KIND: ClassVar[str] = "series-registered/3"
    filter_charge: FilterCharge


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesPlace(Record):
    """The place that a release takes in the series that paid for it.

    Args:
        name: Name of the series.
        number: Number of the place, from 1 to the series' number of releases.
    """

    name: SeriesName
    number: Count
    spec_digest: Digest


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseCharged(Charge):
    """A release is paid for and its sample taken, in one entry: neither exists without the other.

    Args:
        label: Label of the release, for people.
        sample_id: Commitment to the sampling key, unique in the ledger: a sample serves one release.
        code_version: Version of the software.
        sampler_layout: Version of the layout of random words.
        series: The release's place in the series that paid, whose price the release has; None for a release that pays
            for itself.
    """

    KIND: ClassVar[str] = "release-charged/1"
    release_id: ReleaseId
    label: Name
    sample_id: Digest
    code_version: Name
    sampler_layout: Name
    series: SeriesPlace | None

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        if self.series is None and self.price.releases != 1:
            raise ValueError("a release that pays for itself has the price of one release")
        if self.series is not None and self.of_filter is not None:
            raise ValueError("a release that a series pays for takes nothing of a budget itself")

    @property
    def samples(self) -> tuple[tuple[str, str], ...]:
        """What each of its samples is for, "release" or "selection", and the sample's id."""
        own = ("release", self.sample_id)
        other = getattr(self, "selection_sample_id", None)  # which kinds with such a sample have
        return (own,) if other is None else (own, ("selection", other))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseChargedTwoSamples(ReleaseCharged):
    """The same as release-charged/1 for a map that is chosen on a fresh sample, which the entry takes too."""

    KIND: ClassVar[str] = "release-charged/2"
    selection_sample_id: Digest


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseChargedToFilter(ReleaseCharged):
    """A release that pays for itself in a filter data set; its price is the guarantee of this release alone."""

    KIND: ClassVar[str] = "release-charged/3"
    selection_sample_id: Digest | None
    filter_charge: FilterCharge


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseReading(Record):
    """Records are about to be read: this is durable before the first one, and from here on the cost is spent for ever.

    PRIVACY: neither this nor the entry at publication has a time: their distance would follow the input.
    """

    KIND: ClassVar[str] = "release-reading/1"
    release_id: ReleaseId


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasePublished(Record):
    """The release's files are published.

    Args:
        output_hashes: Name and SHA-256 (hex) of each published file, sorted by name.
    """

    KIND: ClassVar[str] = "release-published/1"
    release_id: ReleaseId
    output_hashes: OutputHashes

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        if not self.output_hashes:
            raise ValueError("a publication has at least one file")
        for name, digest in self.output_hashes:
            require_name(name, "file's name")
            require_digest(digest, f"digest of {name}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseAbandoned(Record):
    """The release will never be published; its id and its sample stay used.

    Args:
        refunded: Whether its cost was given back: only where no record was read.
    """

    KIND: ClassVar[str] = "release-abandoned/1"
    release_id: ReleaseId
    reason: Text
    refunded: bool
    by: Name
    day: date


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRefused(Record):
    """The accountant refused a release; evidence of an attempt.

    Args:
        release_id: Id of the release that was refused; None where there was none.
        cause: Short versionless name of the rule, for example "over-budget".
        reason: The refusal as a person saw it.
    """

    KIND: ClassVar[str] = "release-refused/1"
    release_id: ReleaseId | None
    dataset: Name
    cause: Name
    reason: Text
    day: date


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenAdded(Record):
    """Somebody may look at the auditors' pages until a day.

    PRIVACY: the ledger has the secret's digest alone. The secret is 256 random bits, so it can't be found from it.

    Args:
        name: Name of the person that the token is for, as the steward calls them.
        secret_digest: SHA-256 (hex) that commits to the secret and the id.
        expires: First day on which the token no longer opens anything.
    """

    KIND: ClassVar[str] = "token-added/1"
    token_id: TokenId
    name: Name
    secret_digest: Digest
    expires: date
    by: Name
    day: date

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        if self.expires <= self.day:
            raise ValueError(f"a token expires after the day on which it is added, not on {self.expires}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRevoked(Record):
    """A token opens nothing any more."""

    KIND: ClassVar[str] = "token-revoked/1"
    token_id: TokenId
    by: Name
    day: date


Entry = (
    LedgerCreated
    | DatasetAdded
    | FilterDatasetAdded
    | UnitDatasetAdded
    | FilterUnitDatasetAdded
    | BudgetRaised
    | DataAccess
    | SeriesRegistered
    | FreeSeriesRegistered
    | SeriesRegisteredToFilter
    | ReleaseCharged
    | ReleaseChargedTwoSamples
    | ReleaseChargedToFilter
    | ReleaseReading
    | ReleasePublished
    | ReleaseAbandoned
    | ReleaseRefused
    | TokenAdded
    | TokenRevoked
)
ENTRY_TYPES: Mapping[str, type[Entry]] = {member.KIND: member for member in get_args(Entry)}
"""Every kind of entry that this version knows."""

LINK_DOMAIN = b"crowdblend ledger entry 1\n"
GENESIS = "0" * 64
Reader = Callable[[Any], Any]
JSON_TYPES = {str: "text field", int: "whole-number field", bool: "true-or-false field", dict: "field of named values"}
OF_TEXT: Mapping[object, Reader] = {Decimal: amount_of_text, date: date.fromisoformat}
ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """Where a ledger's chain ended at some moment.

    Args:
        ledger_id: which ledger, 64 hexadecimal digits.
        position: place of the last entry, from 0.
        hash: its link's hash, which binds all entries before it.
    """

    ledger_id: str
    position: int
    hash: str

    def __post_init__(self) -> None:
        require_digest(self.ledger_id, "ledger's id")
        require_digest(self.hash, "head's hash")
        if type(self.position) is not int or self.position < 0:
            raise ValueError("a head's position is a whole number from 0")


def link_hash(*, previous: str, position: int, body: bytes) -> str:
    """Return the SHA-256 (hex) that binds an entry's bytes to its place and to all entries before it.

    The parts before the body have fixed lengths, so that no two different links share their input; a previous hash that
    is not 32 bytes in hexadecimal raises `ValueError`.
    """
    if len(bytes.fromhex(previous)) != 32:
        raise ValueError("a link's previous hash must have 32 bytes")
    return hashlib.sha256(LINK_DOMAIN + bytes.fromhex(previous) + position.to_bytes(8, "big") + body).hexdigest()


def sorted_fields(record: Mapping[str, str | int]) -> Fields:
    """Return a mechanism's record as entries hold it: pairs, sorted by name."""
    return tuple(sorted(record.items()))


def bytes_of_entry(entry: Entry) -> bytes:
    """Return the entry's canonical bytes, the same on every machine and in every version.

    Raises:
        TypeError: a field holds a value of a type that no entry has.
    """
    return ENCODER.encode({"kind": entry.KIND} | _encoded(entry)).encode("ascii")


def entry_of_bytes(body: bytes) -> Entry:
    """Read an entry back.

    INVARIANT: only canonical bytes are accepted, so that an entry has one hash.

    Raises:
        ValueError: no JSON, an unknown kind, an unknown or missing field, a value of a wrong type or outside its
            range, or any other byte string than the canonical one.
    """
    try:
        document = json.loads(body.decode("ascii"))
    except RecursionError:
        raise ValueError("an entry has no deep nesting") from None
    if type(document) is not dict:
        raise ValueError("an entry must be a JSON object")
    kind = document.pop("kind", None)
    if not isinstance(kind, str) or kind not in ENTRY_TYPES:
        raise ValueError(f"this version knows no entry of kind {str(kind)[:60]!r}")
    entry: Entry = _record(ENTRY_TYPES[kind], document)
    if bytes_of_entry(entry) != body:
        raise ValueError("the entry is not in its canonical form")
    return entry


def _encoded(value: object) -> Any:  # noqa: ANN401 - what JSON has for it
    match value:
        case None | str() | bool() | int():
            return value
        case Decimal():
            return amount_text(value)
        case date():
            return value.isoformat()
        case tuple():
            return {name: _encoded(member) for name, member in value}
        case Record():
            cls: Any = type(value)
            return {name: _encoded(getattr(value, name)) for name in _readers(cls)}
        case _:
            raise TypeError(f"an entry can't hold a value of type {type(value).__name__}")


def _record(cls: Any, document: Mapping[str, object]) -> Any:  # noqa: ANN401 - a class, and an object of it
    readers = _readers(cls)
    if unknown := sorted(document.keys() - readers.keys()):
        raise ValueError(f"{cls.__name__} has no field {unknown[0][:60]!r}")
    if missing := sorted(readers.keys() - document.keys()):
        raise ValueError(f"{cls.__name__} needs the field {missing[0]!r}")
    return cls(**{name: read(document[name]) for name, read in readers.items()})


@cache
def _readers(cls: type[Any]) -> dict[str, Reader]:
    """Return how each field of a class is read back, by its type."""
    hints = get_type_hints(cls)
    return {field.name: _reader(hints[field.name]) for field in fields(cls)}


def _reader(hint: Any) -> Reader:  # noqa: ANN401 - a type hint
    """Return how a value of a type is read back from JSON; the types of a union have different forms there."""
    options = dict(map(_option, get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)))
    last = [form for form in JSON_TYPES if form in options][-1]

    def read(value: object) -> object:
        # By exact type, since `True` would pass for the number 1 otherwise, and have other bytes.
        if type(value) not in options:
            raise ValueError(f"a {JSON_TYPES[last]} holds something else")
        return options[type(value)](value)

    return read


def _option(option: Any) -> tuple[type, Reader]:  # noqa: ANN401 - a type hint
    """Return the type that JSON has for the values of a type, and how they are made from that."""
    if option in (str, int, bool, NoneType):
        return option, lambda value: value
    if option in OF_TEXT:
        return str, OF_TEXT[option]
    if get_origin(option) is tuple:  # of pairs of a name and a value
        read_member = _reader(get_args(get_args(option)[0])[1])
        return dict, lambda value: sorted_fields({name: read_member(member) for name, member in value.items()})
    return dict, partial(_record, option)
