"""The forms of a certificate, and of a line of the ledger's export."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from ...accounting.ledger.entries.kinds import Entry

__all__ = [
    "Certificate",
    "Day",
    "ExportedEntry",
    "Inclusion",
    "Mechanism",
    "PlannedMargins",
    "PublishedMargins",
    "PublishedStage",
    "Sha256",
]

Sha256 = Annotated[str, ("pattern", "^[0-9a-f]{64}$")]
Hexadecimal = Annotated[str, ("pattern", "^([0-9a-f]{2})+$")]
Amount = Annotated[str, ("pattern", r"^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$")]
"""Plain decimal notation, exact."""
Day = Annotated[str, ("format", "date")]
Mechanism = Annotated[dict[str, str | int], ("required", ("kind",))]
"""The versioned record of a mechanism: its kind, and its parameters, amounts as exact decimal texts."""


class CertifiedSeries(TypedDict):
    """The release's place in the series that paid for it.

    Args:
        name: of the series.
        number: from 1.
        releases: how many the series has.
        registered: the mechanism that a series with free columns was registered with.
        part: the release's part, where the series' mechanisms differ.
    """

    name: str
    number: int
    releases: int
    registered: NotRequired[Mechanism]
    part: NotRequired[int]


class Guarantee(TypedDict):
    """What the release guarantees, and to whom.

    Args:
        epsilon: ε as charged; of a series for all its releases together.
        delta: δ, the same.
        rule: versioned name of the theorem that gave the price.
        theorem: the theorem in words.
        epsilon_paper: the price by the published bound; null where it gives no guarantee.
        unit: whose records are hidden, in words.
        rows_per_person: how many of them.
        neighbours: the neighbouring relation.
        in_words: the guarantee.
        limits: what it doesn't cover.
        enforced_by: the column by which no more records of a unit count; where it isn't there, it is believed.
    """

    epsilon: Amount
    delta: Amount
    rule: str
    theorem: str
    epsilon_paper: Amount | None
    unit: str
    rows_per_person: int
    neighbours: Literal["add/remove", "replacement"]
    in_words: str
    limits: str
    enforced_by: NotRequired[str]


class PrivateLooks(TypedDict):
    """Looks at the records outside of releases, before the charge.

    Args:
        count: how many were recorded.
        last_day: of the last one; null where there was none.
    """

    count: int
    last_day: Day | None


class CertifiedColumn(TypedDict):
    """A released column.

    Args:
        column: its name.
        level: at which it is published; the finest stage's where there are several.
        hierarchy_sha256: of the declared hierarchy in canonical form.
        hierarchy: as it was declared; null where it is too large to be carried.
    """

    column: str
    level: int
    hierarchy_sha256: Sha256
    hierarchy: dict[str, Any] | None


class CertifiedChoice(TypedDict):
    """How the map was drawn.

    Args:
        draw: the mechanism.
        epsilon: of the draw.
        in_words: what was done.
        lattice: the candidates and their weights.
        lattice_sha256: of these in canonical form.
        maps: how many candidates there were.
        quality: versioned name of what they were scored by.
        rate: of the fresh sample that it was made on; null for all records.
        sample_id: of that sample.
        steps: of a walk.
        threshold: groups of fewer records counted nothing for a map.
    """

    draw: Literal["permute-and-flip", "exponential", "walk"]
    epsilon: str
    in_words: str
    lattice: dict[str, Any]
    lattice_sha256: Sha256
    maps: int
    quality: str
    rate: str | None
    sample_id: Sha256 | None
    steps: int | None
    threshold: int


class CertifiedMap(TypedDict):
    """The generalization map.

    Args:
        sha256: of levels and hierarchies in canonical form.
        columns: in the order of the table.
        selection: how it was drawn, where it was.
    """

    sha256: Sha256
    columns: list[CertifiedColumn]
    selection: NotRequired[CertifiedChoice]


class PublishedStage(TypedDict):
    """A stage of a deletion release, the finest first.

    Args:
        levels: of the columns.
        published_groups: of the stage.
        published_records: of the stage.
        largest_deletion: the most records that a group can have lost there.
    """

    levels: dict[str, int]
    published_groups: int
    published_records: int
    largest_deletion: int


class PlannedMargins(TypedDict):
    """Noisy margins beside a deletion release.

    Args:
        columns: the columns of each margin.
        cells: counts of all margins together.
        standard_error: of each count, in records.
        epsilon_alone: what they would cost alone; null where that has no price.
        rows_epsilon_alone: what the rows would cost alone.
    """

    columns: list[list[str]]
    cells: int
    standard_error: float
    epsilon_alone: float | None
    rows_epsilon_alone: float | None


class PublishedMargins(PlannedMargins):
    """The same after the release.

    Args:
        records: how many there are by the margins.
        largest_difference: between a margin and the weighted rows.
    """

    records: float
    largest_difference: float


class Published(TypedDict):
    """What was published; what is there beside form, groups and records depends on the kind of release.

    Args:
        form: of the table.
        groups: rows of the table without repetitions.
        records: their records; null where what is published counts none.
        confidence: of the intervals.
        missing: what a missing value counted as in an answer.
        stages: of a deletion release.
        margins: of a deletion release.
        cells_per_side: of the grid of points.
        bounds: of that grid, in words.
        radius: of its cells.
        moved_share: share of the records that noise moved, at most.
        error_bound: of the points, in words.
        reports: local reports that were added up.
        encoding: of local reports.
        hashes: of their Bloom filter.
        seed: of its hash functions.
    """

    form: Literal["microdata", "counts", "histogram", "points", "answer", "estimates"]
    groups: int
    records: int | None
    confidence: NotRequired[str]
    missing: NotRequired[int | None]
    stages: NotRequired[list[PublishedStage]]
    margins: NotRequired[PublishedMargins]
    cells_per_side: NotRequired[int]
    bounds: NotRequired[str]
    radius: NotRequired[str]
    moved_share: NotRequired[str]
    error_bound: NotRequired[str]
    reports: NotRequired[int]
    encoding: NotRequired[str]
    hashes: NotRequired[int]
    seed: NotRequired[Hexadecimal]


class LedgerPlace(TypedDict):
    """The charge's place in the ledger.

    Args:
        position: of the entry.
        hash: of the chain there.
    """

    position: int
    hash: Sha256


class CertifiedFilterCharge(TypedDict):
    """What the release took of a filter budget.

    Args:
        rule: versioned name of the theorem that gave the divergence.
        divergence: of all releases that the charge is for.
        tail: the mass that was cut off for it.
        share: of the budget.
    """

    rule: str
    divergence: Amount
    tail: Amount
    share: Amount


class CertifiedFilterBudget(TypedDict):
    """The filter budget that paid, with all that its figures are computed from.

    Args:
        rule: versioned name of the theorem that makes it hold.
        epsilon: of the budget: what all its releases together guarantee.
        delta: of the budget.
        order: of the divergences.
        tail_delta: the most that all tails together may become.
        tail_each: the most that a release's tail is, beside what is infinite for sure.
        allowance: the most that all divergences together may become.
        charge: what this release took.
        in_words: the budget's guarantee.
    """

    rule: str
    epsilon: Amount
    delta: Amount
    order: Amount
    tail_delta: Amount
    tail_each: Amount
    allowance: Amount
    charge: CertifiedFilterCharge
    in_words: str


class Inclusion(TypedDict):
    """The column of rates by which sampled records were kept.

    Args:
        column: its name.
        rates: the rates that were drawn with, ascending.
    """

    column: str
    rates: list[str]


class Signature(TypedDict):
    """The signature over everything else.

    Args:
        algorithm: its name.
        key_id: of the key that signed.
        public_key: of that key.
        value: the signature.
    """

    algorithm: str
    key_id: Hexadecimal
    public_key: Sha256
    value: Hexadecimal


class Certificate(TypedDict):
    """The certificate of a release: `certificate.json` beside its files.

    Args:
        format: of the certificate.
        release_id: unique in the ledger.
        name: the release's label.
        dataset: whose budget paid.
        day: of the charge.
        mechanism: its versioned record.
        sampler_layout: version of the layout of random words.
        sample_id: commitment to the sampling key.
        code_version: of the software.
        code_sources: SHA-256 of the software's sources.
        series: the place in the series that paid; null where the release paid for itself.
        guarantee: what is guaranteed.
        private_looks: looks at the records before the charge.
        map: of the generalization.
        published: what was published.
        files: name and SHA-256 of each published file.
        ledger: the charge's place.
        filter_budget: of a data set with a filter budget.
        inclusion: where records have rates of their own.
        signature: over all of this.
    """

    format: Literal["crowdblend-certificate/5"]
    release_id: str
    name: str
    dataset: str
    day: Day
    mechanism: Mechanism
    sampler_layout: str
    sample_id: Sha256
    code_version: str
    code_sources: Sha256
    series: CertifiedSeries | None
    guarantee: Guarantee
    private_looks: PrivateLooks
    map: CertifiedMap
    published: Published
    files: dict[str, Sha256]
    ledger: LedgerPlace
    filter_budget: NotRequired[CertifiedFilterBudget]
    inclusion: NotRequired[Inclusion]
    signature: Signature


class ExportedEntry(TypedDict):
    """A line of `ledger export`: an entry of the ledger with its place.

    Args:
        position: from 0.
        hash: of the chain there.
        entry: of a versioned kind.
    """

    position: int
    hash: Sha256
    entry: Entry
