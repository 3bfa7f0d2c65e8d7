"""The forms of a certificate, and of a line of the ledger's export."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from ...accounting.kernel.ledger.entries import Entry

__all__ = [
    "Certificate",
    "Day",
    "ExportedEntry",
    "Inclusion",
    "Mechanism",
    "PlannedMargins",
    "PublishedMargins",
    "PublishedStage",
    "RehearsedColumn",
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
    """The release's place in the series that paid for it."""

    name: Annotated[str, "of the series."]
    number: Annotated[int, "from 1."]
    releases: Annotated[int, "how many the series has."]
    registered: NotRequired[Annotated[Mechanism, "the mechanism that a series with free columns was registered with."]]
    part: NotRequired[Annotated[int, "the release's part, where the series' mechanisms differ."]]


class Guarantee(TypedDict):
    """What the release guarantees, and to whom."""

    epsilon: Annotated[Amount, "ε as charged; of a series for all its releases together."]
    delta: Annotated[Amount, "δ, the same."]
    rule: Annotated[str, "versioned name of the theorem that gave the price."]
    theorem: Annotated[str, "the theorem in words."]
    epsilon_paper: Annotated[Amount | None, "the price by the published bound; null where it gives no guarantee."]
    unit: Annotated[str, "whose records are hidden, in words."]
    rows_per_person: Annotated[int, "how many of them."]
    neighbours: Annotated[Literal["add/remove", "replacement"], "the neighbouring relation."]
    in_words: Annotated[str, "the guarantee."]
    limits: Annotated[str, "what it doesn't cover."]
    enforced_by: NotRequired[
        Annotated[str, "the column by which no more records of a unit count; where it isn't there, it is believed."]
    ]


class PrivateLooks(TypedDict):
    """Looks at the records outside of releases, before the charge."""

    count: Annotated[int, "how many were recorded."]
    last_day: Annotated[Day | None, "of the last one; null where there was none."]


class CertifiedColumn(TypedDict):
    """A released column."""

    column: Annotated[str, "its name."]
    level: Annotated[int, "at which it is published; the finest stage's where there are several."]
    hierarchy_sha256: Annotated[Sha256, "of the declared hierarchy in canonical form."]
    hierarchy: Annotated[dict[str, Any] | None, "as it was declared; null where it is too large to be carried."]


class CertifiedChoice(TypedDict):
    """How the map was drawn."""

    draw: Annotated[Literal["permute-and-flip", "exponential", "walk"], "the mechanism."]
    epsilon: Annotated[str, "of the draw."]
    in_words: Annotated[str, "what was done."]
    lattice: Annotated[dict[str, Any], "the candidates and their weights."]
    lattice_sha256: Annotated[Sha256, "of these in canonical form."]
    maps: Annotated[int, "how many candidates there were."]
    quality: Annotated[str, "versioned name of what they were scored by."]
    rate: Annotated[str | None, "of the fresh sample that it was made on; null for all records."]
    sample_id: Annotated[Sha256 | None, "of that sample."]
    steps: Annotated[int | None, "of a walk."]
    threshold: Annotated[int, "groups of fewer records counted nothing for a map."]


class CertifiedMap(TypedDict):
    """The generalization map."""

    sha256: Annotated[Sha256, "of levels and hierarchies in canonical form."]
    columns: Annotated[list[CertifiedColumn], "in the order of the table."]
    selection: NotRequired[Annotated[CertifiedChoice, "how it was drawn, where it was."]]


class PublishedStage(TypedDict):
    """A stage of a deletion release, the finest first."""

    levels: Annotated[dict[str, int], "of the columns."]
    published_groups: Annotated[int, "of the stage."]
    published_records: Annotated[int, "of the stage."]
    largest_deletion: Annotated[int, "the most records that a group can have lost there."]


class PlannedMargins(TypedDict):
    """Noisy margins beside a deletion release."""

    columns: Annotated[list[list[str]], "the columns of each margin."]
    cells: Annotated[int, "counts of all margins together."]
    standard_error: Annotated[float, "of each count, in records."]
    epsilon_alone: Annotated[float | None, "what they would cost alone; null where that has no price."]
    rows_epsilon_alone: Annotated[float | None, "what the rows would cost alone."]


class PublishedMargins(PlannedMargins):
    """The same after the release."""

    records: Annotated[float, "how many there are by the margins."]
    largest_difference: Annotated[float, "between a margin and the weighted rows."]


class RehearsedColumn(TypedDict):
    """What a rehearsal tells of a column, by noisy counts of some of the records."""

    column: Annotated[str, "its name."]
    share: Annotated[float | None, "of the values that become `*`; null where the noise drowns the counts."]
    low: Annotated[float | None, "lower end of its interval of 95 %."]
    high: Annotated[float | None, "upper end."]


class Published(TypedDict):
    """What was published; what is there beside form, groups and records depends on the kind of release."""

    form: Annotated[
        Literal["microdata", "counts", "histogram", "points", "answer", "estimates", "synthetic"], "of the table."
    ]
    groups: Annotated[int, "rows of the table without repetitions."]
    records: Annotated[int | None, "their records; null where what is published counts none."]
    informative_records: NotRequired[Annotated[int, "published with at least one label that isn't `*`."]]
    median_columns_told: NotRequired[
        Annotated[int, "at least half of the published records have so many labels that aren't `*`, or more."]
    ]
    columns_at_star: NotRequired[Annotated[list[str], "of which every published label is `*`."]]
    rehearsal: NotRequired[Annotated[list[RehearsedColumn], "of a rehearsal alone."]]
    confidence: NotRequired[Annotated[str, "of the intervals."]]
    missing: NotRequired[Annotated[int | None, "what a missing value counted as in an answer."]]
    stages: NotRequired[Annotated[list[PublishedStage], "of a deletion release."]]
    margins: NotRequired[Annotated[PublishedMargins, "of a deletion release."]]
    cells_per_side: NotRequired[Annotated[int, "of the grid of points."]]
    bounds: NotRequired[Annotated[str, "of that grid, in words."]]
    radius: NotRequired[Annotated[str, "of its cells."]]
    moved_share: NotRequired[Annotated[str, "share of the records that noise moved, at most."]]
    error_bound: NotRequired[Annotated[str, "of the points, in words."]]
    reports: NotRequired[Annotated[int, "local reports that were added up."]]
    encoding: NotRequired[Annotated[str, "of local reports."]]
    hashes: NotRequired[Annotated[int, "of their Bloom filter."]]
    seed: NotRequired[Annotated[Hexadecimal, "of its hash functions."]]
    synthesizer: NotRequired[Annotated[str, "what made the rows of a synthetic table, with its version."]]


class LedgerPlace(TypedDict):
    """The charge's place in the ledger."""

    position: Annotated[int, "of the entry."]
    hash: Annotated[Sha256, "of the chain there."]


class CertifiedFilterCharge(TypedDict):
    """What the release took of a filter budget."""

    rule: Annotated[str, "versioned name of the theorem that gave the divergence."]
    divergence: Annotated[Amount, "of all releases that the charge is for."]
    tail: Annotated[Amount, "the mass that was cut off for it."]
    share: Annotated[Amount, "of the budget."]


class CertifiedFilterBudget(TypedDict):
    """The filter budget that paid, with all that its figures are computed from."""

    rule: Annotated[str, "versioned name of the theorem that makes it hold."]
    epsilon: Annotated[Amount, "of the budget: what all its releases together guarantee."]
    delta: Annotated[Amount, "of the budget."]
    order: Annotated[Amount, "of the divergences."]
    tail_delta: Annotated[Amount, "the most that all tails together may become."]
    tail_each: Annotated[Amount, "the most that a release's tail is, beside what is infinite for sure."]
    allowance: Annotated[Amount, "the most that all divergences together may become."]
    charge: Annotated[CertifiedFilterCharge, "what this release took."]
    in_words: Annotated[str, "the budget's guarantee."]


class Inclusion(TypedDict):
    """The column of rates by which sampled records were kept."""

    column: Annotated[str, "its name."]
    rates: Annotated[list[str], "the rates that were drawn with, ascending."]


class Signature(TypedDict):
    """The signature over everything else."""

    algorithm: Annotated[str, "its name."]
    key_id: Annotated[Hexadecimal, "of the key that signed."]
    public_key: Annotated[Sha256, "of that key."]
    value: Annotated[Hexadecimal, "the signature."]


class Certificate(TypedDict):
    """The certificate of a release: `certificate.json` beside its files."""

    format: Annotated[Literal["crowdblend-certificate/5"], "of the certificate."]
    release_id: Annotated[str, "unique in the ledger."]
    name: Annotated[str, "the release's label."]
    dataset: Annotated[str, "whose budget paid."]
    day: Annotated[Day, "of the charge."]
    mechanism: Annotated[Mechanism, "its versioned record."]
    sampler_layout: Annotated[str, "version of the layout of random words."]
    sample_id: Annotated[Sha256, "commitment to the sampling key."]
    code_version: Annotated[str, "of the software."]
    code_sources: Annotated[Sha256, "SHA-256 of the sources of the kernel and of the kind of mechanism that was used."]
    series: Annotated[
        CertifiedSeries | None, "the place in the series that paid; null where the release paid for itself."
    ]
    guarantee: Annotated[Guarantee, "what is guaranteed."]
    private_looks: Annotated[PrivateLooks, "looks at the records before the charge."]
    map: Annotated[CertifiedMap, "of the generalization."]
    published: Annotated[Published, "what was published."]
    files: Annotated[dict[str, Sha256], "name and SHA-256 of each published file."]
    ledger: Annotated[LedgerPlace, "the charge's place."]
    filter_budget: NotRequired[Annotated[CertifiedFilterBudget, "of a data set with a filter budget."]]
    inclusion: NotRequired[Annotated[Inclusion, "where records have rates of their own."]]
    signature: Annotated[Signature, "over all of this."]


class ExportedEntry(TypedDict):
    """A line of `ledger export`: an entry of the ledger with its place."""

    position: Annotated[int, "from 0."]
    hash: Annotated[Sha256, "of the chain there."]
    entry: Annotated[Entry, "of a versioned kind."]
