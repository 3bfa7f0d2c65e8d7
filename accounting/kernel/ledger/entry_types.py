"""What the ledger records: a closed union of entries of versioned kinds, never reinterpreted."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar, Self

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from ..prices.registry import mechanism_of_record
from .entry_values import check_field, require_digest, require_name, require_series_name

__all__ = [
    "MIXED",
    "RECORD",
    "BudgetRaised",
    "ChargeHeader",
    "ChargedPrice",
    "DataAccess",
    "DatasetAdded",
    "DatasetUnit",
    "Entry",
    "Fields",
    "FilterAccounting",
    "FilterCharge",
    "FilterDatasetAdded",
    "FilterUnitDatasetAdded",
    "FreeSeriesRegistered",
    "LedgerCreated",
    "OutputHashes",
    "Record",
    "ReleaseAbandoned",
    "ReleaseCharged",
    "ReleaseChargedToFilter",
    "ReleaseChargedTwoSamples",
    "ReleaseHeader",
    "ReleasePublished",
    "ReleaseReading",
    "ReleaseRefused",
    "SeriesPlace",
    "SeriesRegistered",
    "SeriesRegisteredToFilter",
    "TokenAdded",
    "TokenRevoked",
    "UnitDatasetAdded",
]

Fields = tuple[tuple[str, str | int], ...]
OutputHashes = tuple[tuple[str, str], ...]
MIXED = "mixed-series/1"
"""The record of a series of different mechanisms."""
RECORD = "record"
UNITS = (RECORD, "person", "household")


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """An entry or a part of one: each field's form is checked when it is made.

    These fields mean the same in all classes, but for what a class says of its own.

    Args:
        accounting: how a filter budget is accounted; the budget itself is what all releases together guarantee.
        by: who did it.
        dataset: the data set's name.
        day: when.
        filter_charge: what the release, or all releases of the series together, take of the filter budget.
        mechanism: the mechanism's versioned record, sorted by field.
        order: α > 1, the one order of all divergences in the data set.
        reason: why, in one line.
        relation: the one neighbouring relation that prices hold for.
        release_id: the release.
        rule: versioned name of the theorem that the amounts follow from.
        selection_sample_id: commitment to the key of the sample that the map is chosen on, unique among all samples;
            None where there is no such.
        token_id: 16 random hexadecimal digits, public.
        unit: whose presence all releases of the data set hide, fixed for ever.
    """

    def __post_init__(self) -> None:
        """Refuse (ValueError) a field whose form no entry has, and in subclasses fields that don't go together."""
        for one in fields(self):
            check_field(one.name, getattr(self, one.name))

    @classmethod
    def of(cls, source: object, **others: Any) -> Self:  # noqa: ANN401 - fields of any type
        """A record with the values that another object has under the same names, but for those that are given."""
        same = {one.name for one in fields(cls)} - others.keys()
        return cls(**others, **{name: getattr(source, name) for name in same})


@dataclass(frozen=True, kw_only=True, slots=True)
class ChargedPrice(Record):
    """The price as charged.

    Args:
        epsilon: total ε over the releases.
        delta: total δ over the releases.
        releases: how many releases it covers.
    """

    epsilon: Decimal
    delta: Decimal
    rule: str
    relation: str
    releases: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterCharge(Record):
    """What a charge takes of a filter budget, with all that it was computed from beside the mechanism.

    Args:
        divergence: D_α of all its releases together, the larger of both directions, after the tails are cut.
        tail: τ, the mass that was cut off for it, of all its releases together.
    """

    order: Decimal
    divergence: Decimal
    tail: Decimal
    rule: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChargeHeader:
    """What a charge of a release or a series says beside its mechanism and price.

    Args:
        dataset: whose budget pays.
        epsilon_paper: price by the published bound, None where it gives no guarantee.
        spec_digest: SHA-256 (hex) of the canonical specification, of a series of all that its releases' specifications
            must have in common.
        map_digest: SHA-256 (hex) of the generalization map, or of the lattice that it is drawn from.
        day: of the charge, before any record is read.
    """

    dataset: str
    epsilon_paper: Decimal | None
    spec_digest: str
    map_digest: str
    day: date


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRegistered(ChargeHeader, Record):
    """Several releases of one mechanism, parameters fixed now, priced and reserved as one.

    Args:
        series: its name, unique in the ledger.
        price: of all its releases together.
    """

    KIND: ClassVar[str] = "series-registered/1"
    series: str
    mechanism: Fields
    price: ChargedPrice

    def __post_init__(self) -> None:
        Record.__post_init__(self)  # `super()` doesn't know a class with slots
        require_series_name(self.series, "series' name")

    @property
    def of_filter(self) -> FilterCharge | None:
        """What it takes of a filter budget; None where it is charged to an additive one."""
        return self.filter_charge if isinstance(self, SeriesRegisteredToFilter) else None

    @property
    def decoded_mechanism(self) -> Mechanism:
        """The mechanism that its record describes; InputRefused where this version can't read the record."""
        return mechanism_of_record(dict(self.mechanism))

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
class SeriesRegisteredToFilter(SeriesRegistered):
    """The same in a filter data set."""

    KIND: ClassVar[str] = "series-registered/3"
    filter_charge: FilterCharge


@dataclass(frozen=True, kw_only=True, slots=True)
class FreeSeriesRegistered(SeriesRegistered):
    """The same for a series whose releases have columns, hierarchies and levels of their own.

    A release of it may also have a higher k or a lower sampling rate than `mechanism`, which its price is for: what
    else is covered is nothing (`not_covered`). `map_digest` is of the specification that it was registered with, and
    binds no release; `spec_digest` is of what its releases have in common, without columns, k and rate. Where
    `mechanism` is a series of different mechanisms (`mixed`), each release is of the part that its number says, and
    both digests are of the data set, the parts and δ alone.
    """

    KIND: ClassVar[str] = "series-registered/2"


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesPlace(Record):
    """The place that a release takes in the series that paid for it.

    Args:
        name: of the series.
        number: from 1 to the series' number of releases.
        spec_digest: SHA-256 (hex) of what the release's specification has in common with the series'.
    """

    name: str
    number: int
    spec_digest: str

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        require_series_name(self.name, "series' name")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseHeader(ChargeHeader):
    """What a release's charge says beside its mechanism and price.

    Args:
        release_id: unique in the ledger, 1 to 128 characters.
        label: the release's name for people.
        sample_id: commitment to the sampling key, unique in the ledger: a sample serves one release.
        code_version: version of the software.
        sampler_layout: version of the layout of random words.
    """

    release_id: str
    label: str
    sample_id: str
    code_version: str
    sampler_layout: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseCharged(ReleaseHeader, Record):
    """A release is paid for and its sample taken, in one entry: neither exists without the other.

    Args:
        price: what is charged; for a release of a series that of the whole series, which was charged before.
        series: its place in the series whose reservation pays, None for a release that pays for itself.
    """

    KIND: ClassVar[str] = "release-charged/1"
    mechanism: Fields
    price: ChargedPrice
    series: SeriesPlace | None

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        if self.series is None and self.price.releases != 1:
            raise ValueError("a release that pays for itself has the price of one release")

    @property
    def decoded_mechanism(self) -> Mechanism:
        """The mechanism that its record describes; InputRefused where this version can't read the record."""
        return mechanism_of_record(dict(self.mechanism))

    @property
    def samples(self) -> tuple[tuple[str, str], ...]:
        """What each of its samples is for, "release" or "selection", and the sample's id."""
        own = ("release", self.sample_id)
        other = getattr(self, "selection_sample_id", None)  # which kinds with such a sample have
        return (own,) if other is None else (own, ("selection", other))

    @property
    def of_filter(self) -> FilterCharge | None:
        """What it takes of a filter budget; None where it is charged to an additive one, or paid for by a series."""
        return self.filter_charge if isinstance(self, ReleaseChargedToFilter) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseChargedTwoSamples(ReleaseCharged):
    """The same for a release whose map is chosen on a fresh sample: that one is taken in the entry too."""

    KIND: ClassVar[str] = "release-charged/2"
    selection_sample_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseChargedToFilter(ReleaseCharged):
    """A release that pays for itself in a filter data set; its price is what it states about itself alone."""

    KIND: ClassVar[str] = "release-charged/3"
    selection_sample_id: str | None
    filter_charge: FilterCharge

    def __post_init__(self) -> None:
        ReleaseCharged.__post_init__(self)
        if self.series is not None:
            raise ValueError("a release that a series pays for takes nothing of a budget itself")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseReading(Record):
    """Durable before the first record is read; from here on the cost is spent for ever.

    PRIVACY: neither this nor the entry at publication has a time: their distance would follow the input.
    """

    KIND: ClassVar[str] = "release-reading/1"
    release_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasePublished(Record):
    """The release's files are in view.

    Args:
        output_hashes: name and SHA-256 (hex) of each published file, sorted by name.
    """

    KIND: ClassVar[str] = "release-published/1"
    release_id: str
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
        refunded: whether its cost was given back: only where no record was read.
    """

    KIND: ClassVar[str] = "release-abandoned/1"
    release_id: str
    reason: str
    refunded: bool
    by: str
    day: date


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRefused(Record):
    """The accountant said no; evidence of an attempt.

    Args:
        release_id: the id asked for, None where there was none.
        dataset: whose budget was asked.
        cause: short versionless name of the rule, for example "over-budget".
        reason: the refusal as a person saw it.
    """

    KIND: ClassVar[str] = "release-refused/1"
    release_id: str | None
    dataset: str
    cause: str
    reason: str
    day: date


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenAdded(Record):
    """Somebody may look at the auditors' pages until a day.

    PRIVACY: the ledger has the secret's digest alone. The secret is 256 random bits, so it can't be found from it.

    Args:
        name: for whom, as the steward calls them.
        secret_digest: SHA-256 (hex) that commits to the secret and the id.
        expires: the first day on which it no longer opens anything.
    """

    KIND: ClassVar[str] = "token-added/1"
    token_id: str
    name: str
    secret_digest: str
    expires: date
    by: str
    day: date

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        require_name(self.name, "token's name")
        if self.expires <= self.day:
            raise ValueError(f"a token expires after the day on which it is added, not on {self.expires}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRevoked(Record):
    """A token opens nothing any more."""

    KIND: ClassVar[str] = "token-revoked/1"
    token_id: str
    by: str
    day: date


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerCreated(Record):
    """The first entry of every ledger.

    Args:
        ledger_id: 64 random hexadecimal digits.
    """

    KIND: ClassVar[str] = "ledger-created/1"
    ledger_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetUnit(Record):
    """Whose presence all releases of a data set hide.

    Args:
        name: "person" or "household", whose records a column names; "record" where no column limits how many records of
            a person count, and it is believed that nobody has more than the data set's `rows_per_person`.
        column: the name of that column; None exactly for "record".
    """

    name: str
    column: str | None

    def __post_init__(self) -> None:
        if self.name not in UNITS:
            raise ValueError(f"a unit is one of {', '.join(UNITS)}, not {self.name[:60]!r}")
        if (self.column is None) is not (self.name == RECORD):
            raise ValueError("a person and a household are told by a column, and a record by none")
        Record.__post_init__(self)

    def __str__(self) -> str:
        """As `dataset add --unit` reads it."""
        return self.name if self.column is None else f"{self.name}:{self.column}"

    @classmethod
    def of_text(cls, text: str) -> DatasetUnit:
        """The unit that a text such as `person:who` names; ValueError where it names none."""
        name, colon, column = text.partition(":")
        return cls(name=name, column=column if colon else None)


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetAdded(Record):
    """A population over time gets a budget; a later delivery of its records refreshes nothing.

    Args:
        dataset: its name, unique in the ledger.
        epsilon: budget of ε, more than 0.
        delta: budget of δ, below 1.
        survey_rate: rate of the data set's own sampling where that is part of the price, else None; such a
            data set can be released once.
        rows_per_person: the most records that one person has in a delivery.
    """

    KIND: ClassVar[str] = "dataset-added/1"
    dataset: str
    epsilon: Decimal
    delta: Decimal
    relation: str
    survey_rate: Decimal | None
    rows_per_person: int
    by: str
    day: date

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        _require_below_one(self.delta)
        if self.epsilon == 0:
            raise ValueError("a budget's ε must be more than 0")

    @property
    def fixed_unit(self) -> DatasetUnit | None:
        """Whose presence its releases hide; None where an earlier version added it, which fixed no unit."""
        return self.unit if isinstance(self, UnitDatasetAdded | FilterUnitDatasetAdded) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterAccounting(Record):
    """How a filter budget of (E, D) is accounted, fixed for ever when the data set is added.

    Args:
        tail_delta: D_τ, the most that all τ together may become; below D.
        tail_each: the most that τ of a release is beside what is infinite for sure; what it is follows from it, from
            the other terms and from the mechanism.
        allowance: the most that all D_α together may become, by E, D, α and D_τ, rounded down.
    """

    rule: str
    order: Decimal
    tail_delta: Decimal
    tail_each: Decimal
    allowance: Decimal

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        if self.allowance == 0:
            raise ValueError("the allowance of a filter budget must be more than 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterDatasetAdded(DatasetAdded):
    """A population over time gets a filter budget: it pays divergences of one order, however releases are chosen."""

    KIND: ClassVar[str] = "dataset-added/2"
    accounting: FilterAccounting

    def __post_init__(self) -> None:
        DatasetAdded.__post_init__(self)
        if self.survey_rate is not None:
            raise ValueError("a data set that is itself a sample can be released once, so it has no filter budget")
        if not self.accounting.tail_delta < self.delta:
            raise ValueError("the share of δ for tails must be below the budget's δ")


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitDatasetAdded(DatasetAdded):
    """The same with the unit that all its releases hide, so that what is spent is of one unit."""

    KIND: ClassVar[str] = "dataset-added/3"
    unit: DatasetUnit


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterUnitDatasetAdded(FilterDatasetAdded):
    """The same for a filter budget."""

    KIND: ClassVar[str] = "dataset-added/4"
    unit: DatasetUnit


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetRaised(Record):
    """A data set's budget becomes larger.

    Args:
        epsilon: the new budget of ε, not the difference.
        delta: the new budget of δ.
    """

    KIND: ClassVar[str] = "budget-raised/1"
    dataset: str
    epsilon: Decimal
    delta: Decimal
    reason: str
    by: str
    day: date

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        _require_below_one(self.delta)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataAccess(Record):
    """Somebody looked at a data set's records outside any release, such as by a report of what a release would lose.

    What is chosen after such a look depends on the records in a way that no price covers, so the certificates of
    later releases say that there was one.

    Args:
        what: what was looked at, in one line; never a value of the records.
    """

    KIND: ClassVar[str] = "private-look/1"
    dataset: str
    what: str
    by: str
    day: date


def _require_below_one(delta: Decimal) -> None:
    if delta >= 1:
        raise ValueError(f"a budget's δ must be below 1, not {delta}")


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
