"""What the ledger records: a closed union of entries of versioned kinds, never reinterpreted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

from ....mechanisms.amounts import counted
from ....mechanisms.errors import InputRefused
from ...theory.kinds.kind import Published
from ...theory.kinds.registry import kind_of_record, mechanism_of_record
from .values import (
    require_amount,
    require_digest,
    require_name,
    require_release_id,
    require_series_name,
    require_text,
    require_token_id,
)

if TYPE_CHECKING:
    from ....mechanisms.mixed_series import MixedSeries

__all__ = [
    "MIXED",
    "RECORD",
    "BudgetRaised",
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
    "ReleaseAbandoned",
    "ReleaseCharged",
    "ReleaseChargedToFilter",
    "ReleaseChargedTwoSamples",
    "ReleasePublished",
    "ReleaseReading",
    "ReleaseRefused",
    "SeriesPlace",
    "SeriesRegistered",
    "SeriesRegisteredToFilter",
    "TokenAdded",
    "TokenRevoked",
    "UnitDatasetAdded",
    "published_text",
]

Fields = tuple[tuple[str, str | int], ...]
OutputHashes = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChargedPrice:
    """The price as charged.

    Args:
        epsilon: total ε over the releases.
        delta: total δ over the releases.
        rule: versioned name of the theorem that gave the price.
        relation: the neighbouring relation that it holds for.
        releases: how many releases it covers.
    """

    epsilon: Decimal
    delta: Decimal
    rule: str
    relation: str
    releases: int

    def __post_init__(self) -> None:
        require_amount(self.epsilon, "ε")
        require_amount(self.delta, "δ")
        require_name(self.rule, "rule")
        require_name(self.relation, "neighbouring relation")
        if self.releases < 1:
            raise ValueError(f"a price covers at least one release, not {self.releases}")


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterCharge:
    """What a charge takes of a filter budget, with all that it was computed from beside the mechanism.

    Args:
        order: α, the data set's own.
        divergence: D_α of all its releases together, the larger of both directions, after the tails are cut.
        tail: τ, the mass that was cut off for it, of all its releases together.
        rule: versioned name of the theorem that gave the divergence.
    """

    order: Decimal
    divergence: Decimal
    tail: Decimal
    rule: str

    def __post_init__(self) -> None:
        _require_order(self.order)
        require_amount(self.divergence, "divergence")
        require_amount(self.tail, "tail")
        require_name(self.rule, "divergence's rule")


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRegistered:
    """Several releases of one mechanism, parameters fixed now, priced and reserved as one.

    Args:
        series: its name, unique in the ledger.
        dataset: whose budget pays.
        mechanism: the mechanism's versioned record, sorted by field.
        price: of all its releases together.
        epsilon_paper: price by the published bound, None where it gives no guarantee.
        spec_digest: SHA-256 (hex) of all that its releases' specifications must have in common.
        map_digest: SHA-256 (hex) of the generalization map, or of the lattice that each release draws one from.
        day: when.
    """

    KIND: ClassVar[str] = "series-registered/1"
    series: str
    dataset: str
    mechanism: Fields
    price: ChargedPrice
    epsilon_paper: Decimal | None
    spec_digest: str
    map_digest: str
    day: date

    def __post_init__(self) -> None:
        require_series_name(self.series)
        require_name(self.dataset, "data set's name")
        if self.epsilon_paper is not None:
            require_amount(self.epsilon_paper, "the paper's ε")
        require_digest(self.spec_digest, "specification's digest")
        require_digest(self.map_digest, "map's digest")

    @property
    def of_filter(self) -> FilterCharge | None:
        """What it takes of a filter budget; None where it is charged to an additive one."""
        return self.filter_charge if isinstance(self, SeriesRegisteredToFilter) else None

    @property
    def mixed(self) -> MixedSeries | None:
        """Its parts where its mechanisms differ; None for a series of one mechanism, and where they can't be read."""
        if dict(self.mechanism).get("kind") != MIXED:
            return None
        from ....mechanisms.mixed_series import MixedSeries  # for such a series alone

        try:
            series = mechanism_of_record(dict(self.mechanism))
        except InputRefused:
            return None  # which has no price either
        return series if isinstance(series, MixedSeries) else None


MIXED = "mixed-series/1"
"""The record of a series of different mechanisms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRegisteredToFilter(SeriesRegistered):
    """The same in a filter data set.

    Args:
        filter_charge: what all its releases together take of the budget.
    """

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
class SeriesPlace:
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
        require_series_name(self.name)
        require_digest(self.spec_digest, "series' specification's digest")
        if self.number < 1:
            raise ValueError(f"a series counts its releases from 1, not from {self.number}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseCharged:
    """A release is paid for and its sample taken, in one entry: neither exists without the other.

    Args:
        release_id: unique in the ledger.
        label: the release's name for people.
        dataset: whose budget pays.
        sample_id: commitment to the sampling key, unique in the ledger: a sample serves one release.
        mechanism: the mechanism's versioned record, sorted by field.
        price: what is charged; for a release of a series that of the whole series, which was charged before.
        epsilon_paper: price by the published bound, None where it gives no guarantee.
        spec_digest: SHA-256 (hex) of the canonical specification.
        map_digest: SHA-256 (hex) of the generalization map.
        code_version: version of the software.
        sampler_layout: version of the layout of random words.
        series: its place in the series whose reservation pays, None for a release that pays for itself.
        day: of the charge, before any record is read.

    For a release whose map is drawn, the map's digest is that of the lattice that it is drawn from.
    """

    KIND: ClassVar[str] = "release-charged/1"
    release_id: str
    label: str
    dataset: str
    sample_id: str
    mechanism: Fields
    price: ChargedPrice
    epsilon_paper: Decimal | None
    spec_digest: str
    map_digest: str
    code_version: str
    sampler_layout: str
    series: SeriesPlace | None
    day: date

    def __post_init__(self) -> None:
        require_release_id(self.release_id)
        require_name(self.label, "label")
        require_name(self.dataset, "data set's name")
        require_digest(self.sample_id, "sample's id")
        if self.epsilon_paper is not None:
            require_amount(self.epsilon_paper, "the paper's ε")
        require_digest(self.spec_digest, "specification's digest")
        require_digest(self.map_digest, "map's digest")
        require_name(self.code_version, "code version")
        require_name(self.sampler_layout, "sampler's layout")
        if self.series is None and self.price.releases != 1:
            raise ValueError("a release that pays for itself has the price of one release")

    @property
    def samples(self) -> tuple[tuple[str, str], ...]:
        """What each of its samples is for, "release" or "selection", and the sample's id."""
        own = ("release", self.sample_id)
        match self:
            case (
                ReleaseChargedTwoSamples(selection_sample_id=str(other))
                | ReleaseChargedToFilter(selection_sample_id=str(other))
            ):
                return (own, ("selection", other))
            case _:
                return (own,)

    @property
    def of_filter(self) -> FilterCharge | None:
        """What it takes of a filter budget; None where it is charged to an additive one, or paid for by a series."""
        return self.filter_charge if isinstance(self, ReleaseChargedToFilter) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseChargedTwoSamples(ReleaseCharged):
    """The same for a release whose map is chosen on a fresh sample: that one is taken in the entry too.

    Args:
        selection_sample_id: commitment to the key of the sample that the map is chosen on, unique among all samples.
    """

    KIND: ClassVar[str] = "release-charged/2"
    selection_sample_id: str

    def __post_init__(self) -> None:
        ReleaseCharged.__post_init__(self)  # `super()` doesn't know a class with slots
        require_digest(self.selection_sample_id, "selection's sample's id")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseChargedToFilter(ReleaseCharged):
    """A release that pays for itself in a filter data set; its price is what it states about itself alone.

    Args:
        selection_sample_id: as of `ReleaseChargedTwoSamples`; None where the map isn't chosen on a fresh sample.
        filter_charge: what it takes of the data set's budget.
    """

    KIND: ClassVar[str] = "release-charged/3"
    selection_sample_id: str | None
    filter_charge: FilterCharge

    def __post_init__(self) -> None:
        ReleaseCharged.__post_init__(self)
        if self.selection_sample_id is not None:
            require_digest(self.selection_sample_id, "selection's sample's id")
        if self.series is not None:
            raise ValueError("a release that a series pays for takes nothing of a budget itself")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseReading:
    """Durable before the first record is read; from here on the cost is spent for ever.

    PRIVACY: neither this nor the entry at publication has a time: their distance would follow the input.

    Args:
        release_id: the release.
    """

    KIND: ClassVar[str] = "release-reading/1"
    release_id: str

    def __post_init__(self) -> None:
        require_release_id(self.release_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasePublished:
    """The release's files are in view.

    Args:
        release_id: the release.
        output_hashes: name and SHA-256 (hex) of each published file, sorted by name.
    """

    KIND: ClassVar[str] = "release-published/1"
    release_id: str
    output_hashes: OutputHashes

    def __post_init__(self) -> None:
        require_release_id(self.release_id)
        if not self.output_hashes:
            raise ValueError("a publication has at least one file")
        for name, digest in self.output_hashes:
            require_name(name, "file's name")
            require_digest(digest, f"digest of {name}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseAbandoned:
    """The release will never be published; its id and its sample stay used.

    Args:
        release_id: the release.
        reason: why, in one line.
        refunded: whether its cost was given back: only where no record was read.
        by: who abandoned it.
        day: when.
    """

    KIND: ClassVar[str] = "release-abandoned/1"
    release_id: str
    reason: str
    refunded: bool
    by: str
    day: date

    def __post_init__(self) -> None:
        require_release_id(self.release_id)
        require_text(self.reason, "reason")
        require_name(self.by, "name of who does this")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRefused:
    """The accountant said no; evidence of an attempt.

    Args:
        release_id: the id asked for, None where there was none.
        dataset: whose budget was asked.
        cause: short versionless name of the rule, for example "over-budget".
        reason: the refusal as a person saw it.
        day: when.
    """

    KIND: ClassVar[str] = "release-refused/1"
    release_id: str | None
    dataset: str
    cause: str
    reason: str
    day: date

    def __post_init__(self) -> None:
        if self.release_id is not None:
            require_release_id(self.release_id)
        require_name(self.dataset, "data set's name")
        require_name(self.cause, "cause")
        require_text(self.reason, "reason")


def published_text(kind: str, *, groups: int, records: int | None) -> str:
    """What a release published: `875 records in 48 groups`, or `48 noisy counts`, whose sum is no number of records.

    Args:
        kind: the mechanism's kind with its version, such as `noisy-histogram/1`.
        groups: rows of the table without repetitions.
        records: their records; None where what is published counts none.
    """
    try:
        noun = kind_of_record(kind).statements.published
    except InputRefused:  # of a later version
        noun = Published("row", "rows", "" if records is None else "record")
    shown = counted(groups, noun.group, noun.groups)
    return f"{counted(records, noun.record)} in {shown}" if noun.record and records is not None else shown


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenAdded:
    """Somebody may look at the auditors' pages until a day.

    PRIVACY: the ledger has the secret's digest alone. The secret is 256 random bits, so it can't be found from it.

    Args:
        token_id: 16 random hexadecimal digits, public.
        name: for whom, as the steward calls them.
        secret_digest: SHA-256 (hex) that commits to the secret and the id.
        expires: the first day on which it no longer opens anything.
        by: who added it.
        day: when.
    """

    KIND: ClassVar[str] = "token-added/1"
    token_id: str
    name: str
    secret_digest: str
    expires: date
    by: str
    day: date

    def __post_init__(self) -> None:
        require_token_id(self.token_id)
        require_name(self.name, "token's name")
        require_digest(self.secret_digest, "secret's digest")
        require_name(self.by, "name of who does this")
        if self.expires <= self.day:
            raise ValueError(f"a token expires after the day on which it is added, not on {self.expires}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRevoked:
    """A token opens nothing any more.

    Args:
        token_id: the token.
        by: who revoked it.
        day: when.
    """

    KIND: ClassVar[str] = "token-revoked/1"
    token_id: str
    by: str
    day: date

    def __post_init__(self) -> None:
        require_token_id(self.token_id)
        require_name(self.by, "name of who does this")


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerCreated:
    """The first entry of every ledger.

    Args:
        ledger_id: 64 random hexadecimal digits.
    """

    KIND: ClassVar[str] = "ledger-created/1"
    ledger_id: str

    def __post_init__(self) -> None:
        require_digest(self.ledger_id, "ledger's id")


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetUnit:
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
        if self.column is not None:
            require_text(self.column, "unit's column")

    def __str__(self) -> str:
        """As `dataset add --unit` reads it."""
        return self.name if self.column is None else f"{self.name}:{self.column}"

    @classmethod
    def of_text(cls, text: str) -> DatasetUnit:
        """The unit that a text such as `person:who` names.

        Raises:
            ValueError: it names none.
        """
        name, colon, column = text.partition(":")
        return cls(name=name, column=column if colon else None)


RECORD = "record"
UNITS = (RECORD, "person", "household")


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetAdded:
    """A population over time gets a budget; a later delivery of its records refreshes nothing.

    Args:
        dataset: its name, unique in the ledger.
        epsilon: budget of ε, more than 0.
        delta: budget of δ, below 1.
        relation: the one neighbouring relation that its prices must hold for.
        survey_rate: rate of the data set's own sampling where that is part of the price, else None; such a
            data set can be released once.
        rows_per_person: the most records that one person has in a delivery.
        by: who added it.
        day: when.
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
        require_name(self.dataset, "data set's name")
        _require_budget(self.epsilon, self.delta)
        require_name(self.relation, "neighbouring relation")
        require_name(self.by, "name of who does this")
        if self.epsilon == 0:
            raise ValueError("a budget's ε must be more than 0")
        if self.survey_rate is not None:
            require_amount(self.survey_rate, "survey rate")
            if not 0 < self.survey_rate < 1:
                raise ValueError(f"the survey rate must lie strictly between 0 and 1, not {self.survey_rate}")
        if self.rows_per_person < 1:
            raise ValueError(f"a person has at least one record, not {self.rows_per_person}")

    @property
    def fixed_unit(self) -> DatasetUnit | None:
        """Whose presence its releases hide; None where an earlier version added it, which fixed no unit."""
        return self.unit if isinstance(self, UnitDatasetAdded | FilterUnitDatasetAdded) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterAccounting:
    """How a filter budget of (E, D) is accounted, fixed for ever when the data set is added.

    Args:
        rule: versioned name of the theorem that makes the budget hold.
        order: α > 1, the one order of all divergences.
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
        require_name(self.rule, "accounting's rule")
        _require_order(self.order)
        require_amount(self.tail_delta, "share of δ for tails")
        require_amount(self.tail_each, "tail of a release")
        require_amount(self.allowance, "allowance")
        if self.allowance == 0:
            raise ValueError("the allowance of a filter budget must be more than 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterDatasetAdded(DatasetAdded):
    """A population over time gets a filter budget: it pays divergences of one order, however releases are chosen.

    Args:
        accounting: how the budget is accounted; the budget itself is what all releases together guarantee.
    """

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
    """The same with the unit that all its releases hide, so that what is spent is of one unit.

    Args:
        unit: fixed for ever.
    """

    KIND: ClassVar[str] = "dataset-added/3"
    unit: DatasetUnit


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterUnitDatasetAdded(FilterDatasetAdded):
    """The same for a filter budget.

    Args:
        unit: fixed for ever.
    """

    KIND: ClassVar[str] = "dataset-added/4"
    unit: DatasetUnit


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetRaised:
    """A data set's budget becomes larger.

    Args:
        dataset: its name.
        epsilon: the new budget of ε, not the difference.
        delta: the new budget of δ.
        reason: why, in one line.
        by: who raised it.
        day: when.
    """

    KIND: ClassVar[str] = "budget-raised/1"
    dataset: str
    epsilon: Decimal
    delta: Decimal
    reason: str
    by: str
    day: date

    def __post_init__(self) -> None:
        require_name(self.dataset, "data set's name")
        _require_budget(self.epsilon, self.delta)
        require_text(self.reason, "reason")
        require_name(self.by, "name of who does this")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataAccess:
    """Somebody looked at a data set's records outside any release, such as by a report of what a release would lose.

    What is chosen after such a look depends on the records in a way that no price covers, so the certificates of
    later releases say that there was one.

    Args:
        dataset: its name.
        what: what was looked at, in one line; never a value of the records.
        by: who looked.
        day: when.
    """

    KIND: ClassVar[str] = "private-look/1"
    dataset: str
    what: str
    by: str
    day: date

    def __post_init__(self) -> None:
        require_name(self.dataset, "data set's name")
        require_text(self.what, "description of what was looked at")
        require_name(self.by, "name of who does this")


def _require_budget(epsilon: Decimal, delta: Decimal) -> None:
    """Check the form of a budget.

    Raises:
        ValueError: δ is not below 1, or either can't be summed exactly.
    """
    require_amount(epsilon, "ε")
    require_amount(delta, "δ")
    if delta >= 1:
        raise ValueError(f"a budget's δ must be below 1, not {delta}")


def _require_order(order: Decimal) -> None:
    """Check an order of Rényi divergence.

    Raises:
        ValueError: it is not above 1, or can't be recorded exactly.
    """
    require_amount(order, "order")
    if order <= 1:
        raise ValueError(f"an order must be above 1, not {order}")


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
