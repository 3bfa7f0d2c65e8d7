"""The forms of a certificate, and of a line of the ledger's export."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from ...accounting.kernel.ledger.entries import Entry

Sha256 = Annotated[str, ("pattern", "^[0-9a-f]{64}$")]
Hexadecimal = Annotated[str, ("pattern", "^([0-9a-f]{2})+$")]
Amount = Annotated[str, ("pattern", r"^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$")]
"""Plain decimal notation, exact."""
Day = Annotated[str, ("format", "date")]
Mechanism = Annotated[dict[str, str | int], ("required", ("kind",))]
"""The versioned record of a mechanism: its kind, and its parameters, amounts as exact decimal texts."""


class CertifiedSeries(TypedDict):
    """The release's place in the series that paid for it."""

    name: Annotated[str, "Name of the series."]
    number: Annotated[int, "Number of the release in the series, counted from 1."]
    releases: Annotated[int, "Number of releases of the series."]
    registered: NotRequired[Annotated[Mechanism, "The mechanism that a series with free columns was registered with."]]
    part: NotRequired[Annotated[int, "Number of the release's part, where the mechanisms of the series differ."]]


class Guarantee(TypedDict):
    """What the release guarantees, and to whom."""

    epsilon: Annotated[Amount, "ε as charged; for a release of a series it covers all releases of the series together."]
    delta: Annotated[Amount, "δ as charged; for a release of a series it covers all releases of the series together."]
    rule: Annotated[str, "Versioned name of the theorem that gave the price."]
    theorem: Annotated[str, "The theorem in words."]
    epsilon_paper: Annotated[Amount | None, "ε by the published bound; null where that bound gives no guarantee."]
    unit: Annotated[str, "Whose records the guarantee hides, in words."]
    rows_per_person: Annotated[int, "Largest number of records of one such unit."]
    neighbours: Annotated[Literal["add/remove", "replacement"], "The neighbouring relation of the guarantee."]
    in_words: Annotated[str, "The guarantee in words."]
    limits: Annotated[str, "What the guarantee doesn't cover."]
    enforced_by: NotRequired[
        Annotated[
            str, "Column that limits the records of a unit; without this key the limit is the steward's statement."
        ]
    ]


class PrivateLooks(TypedDict):
    """Looks at the records outside of releases, before the charge."""

    count: Annotated[int, "Number of looks that the ledger records before the charge."]
    last_day: Annotated[Day | None, "Day of the last look; null where there was none."]


class CertifiedColumn(TypedDict):
    """A released column."""

    column: Annotated[str, "Name of the column."]
    level: Annotated[int, "Level at which the column is published; the finest one where there are several stages."]
    hierarchy_sha256: Annotated[Sha256, "SHA-256 of the declared hierarchy in canonical form."]
    hierarchy: Annotated[
        dict[str, Any] | None, "The hierarchy as it was declared; null where it is too large for the certificate."
    ]


class CertifiedChoice(TypedDict):
    """How the map was drawn."""

    draw: Annotated[Literal["permute-and-flip", "exponential", "walk"], "The mechanism that drew the map."]
    epsilon: Annotated[str, "ε of the draw."]
    in_words: Annotated[str, "How the map was drawn, in words."]
    lattice: Annotated[dict[str, Any], "The candidates and the weights of their columns."]
    lattice_sha256: Annotated[Sha256, "SHA-256 of the candidates and weights in canonical form."]
    maps: Annotated[int, "Number of candidates."]
    quality: Annotated[str, "Versioned name of the quality function of the draw."]
    rate: Annotated[str | None, "Rate of the fresh sample that the map was drawn on; null where all records were used."]
    sample_id: Annotated[Sha256 | None, "Commitment to the sampling key of that sample."]
    steps: Annotated[int | None, "Number of steps of a walk."]
    threshold: Annotated[int, "Groups of fewer records counted nothing for a map."]


class CertifiedMap(TypedDict):
    """The generalization map."""

    sha256: Annotated[Sha256, "SHA-256 of the levels and hierarchies in canonical form."]
    columns: Annotated[list[CertifiedColumn], "The released columns, in the order of the table."]
    selection: NotRequired[Annotated[CertifiedChoice, "How the map was drawn, where it was drawn privately."]]


class PublishedStage(TypedDict):
    """A stage of a deletion release, the finest first."""

    levels: Annotated[dict[str, int], "Level of each column at this stage."]
    published_groups: Annotated[int, "Number of groups that this stage published."]
    published_records: Annotated[int, "Number of records that this stage published."]
    largest_deletion: Annotated[int, "Largest number of records that a group can have lost at this stage."]


class PublishedBlock(TypedDict):
    """A table of rows of some columns."""

    name: Annotated[str, "Name of the block; its table is the file `data-NAME`."]
    theme: NotRequired[Annotated[str, "What the block is about; absent where the specification doesn't say."]]
    columns: Annotated[list[str], "The columns of its table."]
    groups: Annotated[int, "Number of rows of the table, repetitions not counted."]
    records: Annotated[int, "Number of records that the table shows."]
    stages: Annotated[list[PublishedStage], "The stages of the block, the finest first."]
    informative_records: Annotated[int, "Number of its records with at least one label that isn't `*`."]
    median_columns_told: Annotated[int, "At least half of its records have this many labels that aren't `*`, or more."]
    columns_at_star: Annotated[list[str], "Columns of which every label in this table is `*`."]


class PublishedMembers(TypedDict):
    """The table of members beside the table of units: the file `members`."""

    most: Annotated[int, "Number of members of a unit that may be in the table."]
    form: Annotated[Literal["microdata", "counts"], "Whether rows are repeated, or each group has a count."]
    groups: Annotated[int, "Number of rows of the table, repetitions not counted."]
    records: Annotated[int, "Number of members that the table shows."]
    stages: Annotated[list[PublishedStage], "The stages of the table, the finest first."]
    informative_records: Annotated[int, "Number of its records with at least one label that isn't `*`."]
    median_columns_told: Annotated[int, "At least half of its records have this many labels that aren't `*`, or more."]
    columns_at_star: Annotated[list[str], "Columns of which every label in this table is `*`."]
    map: NotRequired[Annotated[CertifiedMap, "The map of its first stage; in the certificate alone."]]


class PlannedMargins(TypedDict):
    """Noisy margins beside the rows of a release."""

    columns: Annotated[list[list[str]], "The columns of each margin."]
    cells: Annotated[int, "Number of counts of all margins together."]
    standard_error: Annotated[float, "Standard error of each count, in records."]
    epsilon_alone: Annotated[float | None, "ε that the margins would cost alone; null where that has no price."]
    rows_epsilon_alone: Annotated[float | None, "ε that the rows would cost alone; null where that has no price."]


class PublishedMargins(PlannedMargins):
    """Noisy margins that were published beside the rows of a release."""

    records: Annotated[float, "Number of records by the margins."]
    largest_difference: Annotated[float, "Largest difference between a margin's count and that of the weighted rows."]


class PlannedWeights(TypedDict):
    """Survey weights that are released by classes."""

    column: Annotated[str, "Name of the column of survey weights."]
    bounds: Annotated[list[float], "Bounds of the classes; weights outside count as the nearest bound."]


class PublishedWeights(PlannedWeights):
    """Survey weights that were released by classes, and their total over all records."""

    mean: Annotated[float, "Mean weight by the published counts, which a record without a weight counts as."]
    total: Annotated[float, "Total of the weights of all records."]
    standard_error: Annotated[float, "Standard error of the total, by the noise alone."]
    interval_low: Annotated[float, "Lower end of an interval of 95 % for the total of the clipped weights."]
    interval_high: Annotated[float, "Upper end of that interval."]
    in_words: Annotated[str, "How the weights were released, in words."]


class PublishedPair(TypedDict):
    """A pair of columns that was chosen and counted."""

    columns: Annotated[list[str], "The two columns."]
    levels: Annotated[list[int], "Level by which each of them was counted."]
    cells: Annotated[int, "Number of counts of the pair."]
    standard_error: Annotated[float, "Standard error of each count, in records."]


class LevelBounds(TypedDict):
    """Which levels a column could have."""

    min_level: Annotated[int, "The finest level."]
    max_level: Annotated[int, "The coarsest level."]
    weight: Annotated[str, "How much the column's detail matters against the others'."]


class ChosenLevels(TypedDict):
    """How the rows' levels follow from the published counts."""

    rule: Annotated[str, "Versioned name of the rule."]
    columns: Annotated[dict[str, LevelBounds], "Bounds and weight of each column."]


class ChosenBlocks(TypedDict):
    """How the blocks follow from the published counts."""

    rule: Annotated[str, "Versioned name of the rule."]
    number: Annotated[int, "Number of blocks."]
    pinned: Annotated[list[str], "Columns that stand in every block."]


class RehearsedColumn(TypedDict):
    """What a rehearsal found of a column, by noisy counts of some of the records."""

    column: Annotated[str, "Name of the column."]
    share: Annotated[float | None, "Share of the values that become `*`; null where the noise drowns the counts."]
    low: Annotated[float | None, "Lower end of the share's 95 % interval."]
    high: Annotated[float | None, "Upper end of the share's 95 % interval."]


class MultipliedColumn(TypedDict):
    """A column whose products with others were added up: a number has bounds and a centre, others have labels."""

    column: Annotated[str, "Name of the column."]
    lower: NotRequired[Annotated[int, "Least number counted; smaller ones count as it."]]
    upper: NotRequired[Annotated[int, "Greatest number counted; greater ones count as it."]]
    centre: NotRequired[Annotated[int, "What is taken from each number before it is multiplied."]]
    labels: NotRequired[Annotated[int, "Number of labels, each of which counts as a column of 0 and 1."]]


class Published(TypedDict):
    """What was published; what is there beside form, groups and records depends on the kind of release."""

    form: Annotated[
        Literal["microdata", "counts", "histogram", "points", "answer", "estimates", "synthetic"],
        "What the rows of the table are.",
    ]
    groups: Annotated[int, "Number of rows of the table, repetitions not counted."]
    records: Annotated[int | None, "Number of published records; null where what is published counts none."]
    informative_records: NotRequired[
        Annotated[int, "Number of published records with at least one label that isn't `*`."]
    ]
    median_columns_told: NotRequired[
        Annotated[int, "At least half of the published records have this many labels that aren't `*`, or more."]
    ]
    columns_at_star: NotRequired[Annotated[list[str], "Columns of which every published label is `*`."]]
    rehearsal: NotRequired[
        Annotated[list[RehearsedColumn], "What a rehearsal found of each column; present for rehearsals alone."]
    ]
    confidence: NotRequired[Annotated[str, "Confidence of the intervals."]]
    missing: NotRequired[Annotated[int | None, "What a missing value counted as in an answer."]]
    moments: NotRequired[
        Annotated[list[MultipliedColumn], "The columns whose products were added up, in the order of the mechanism."]
    ]
    request: NotRequired[
        Annotated[Sha256, "SHA-256 of the request that was answered; absent where nobody has sent one."]
    ]
    stages: NotRequired[Annotated[list[PublishedStage], "The stages of a deletion release, the finest first."]]
    blocks: NotRequired[
        Annotated[list[PublishedBlock], "The tables of rows where there are several, in the order of their blocks."]
    ]
    margins: NotRequired[Annotated[PublishedMargins, "The noisy margins beside the rows."]]
    pairs: NotRequired[Annotated[list[PublishedPair], "The pairs that were counted, in the order of their draws."]]
    members: NotRequired[Annotated[PublishedMembers, "The table of members beside the table of units, where one is."]]
    survey_weights: NotRequired[Annotated[PublishedWeights, "The survey weights, where records have some."]]
    chosen_levels: NotRequired[
        Annotated[ChosenLevels, "How the levels of the rows follow from the published counts; absent where fixed."]
    ]
    chosen_blocks: NotRequired[
        Annotated[ChosenBlocks, "How the blocks follow from the published counts; absent where they were written."]
    ]
    cells_per_side: NotRequired[Annotated[int, "Number of cells on each side of the grid of points."]]
    bounds: NotRequired[Annotated[str, "Bounds of the grid of points, in words."]]
    radius: NotRequired[Annotated[str, "Radius of the grid's cells."]]
    moved_share: NotRequired[Annotated[str, "Largest share of the records that the noise moved."]]
    error_bound: NotRequired[Annotated[str, "Error bound of the points, in words."]]
    reports: NotRequired[Annotated[int, "Number of local reports that were added up."]]
    encoding: NotRequired[Annotated[str, "Encoding of the local reports."]]
    hashes: NotRequired[Annotated[int, "Number of hash functions of the reports' Bloom filter."]]
    seed: NotRequired[Annotated[Hexadecimal, "Seed of these hash functions."]]
    synthesizer: NotRequired[Annotated[str, "The program that made the rows of a synthetic table, with its version."]]


class LedgerPlace(TypedDict):
    """The charge's place in the ledger."""

    position: Annotated[int, "Position of the charge's entry in the ledger."]
    hash: Annotated[Sha256, "Hash of the ledger's chain at that entry."]


class CertifiedFilterCharge(TypedDict):
    """What the release took of a filter budget."""

    rule: Annotated[str, "Versioned name of the theorem that gave the divergence."]
    divergence: Annotated[Amount, "Divergence of all releases that the charge is for."]
    tail: Annotated[Amount, "Probability mass that was cut off to bound the divergence."]
    share: Annotated[Amount, "Share of the budget that the charge took."]


class CertifiedFilterBudget(TypedDict):
    """The filter budget that paid, with all that its figures are computed from."""

    rule: Annotated[str, "Versioned name of the theorem that makes the budget hold."]
    epsilon: Annotated[Amount, "ε that all releases of the data set together guarantee."]
    delta: Annotated[Amount, "δ that all releases of the data set together guarantee."]
    order: Annotated[Amount, "Order of the divergences."]
    tail_delta: Annotated[Amount, "Largest sum of all tails."]
    tail_each: Annotated[Amount, "Largest tail of one release, besides what is infinite for certain."]
    allowance: Annotated[Amount, "Largest sum of all divergences."]
    charge: Annotated[CertifiedFilterCharge, "What this release took of the budget."]
    in_words: Annotated[str, "The guarantee of the budget in words."]


class Inclusion(TypedDict):
    """The column of rates by which sampled records were kept."""

    column: Annotated[str, "Name of the column of rates."]
    rates: Annotated[list[str], "The rates that records were kept with, ascending."]


class MemberTableRule(TypedDict):
    """Which members of each unit are published in a table of their own."""

    most: Annotated[int, "Number of members of a unit that may be in the table."]
    columns: Annotated[dict[str, list[int]], "Levels of each of its columns, one for each stage."]
    in_words: Annotated[str, "The same in words."]


class UnitRecordRules(TypedDict):
    """How all records of a household or person made one record."""

    members: Annotated[dict[str, Sha256], "Members' columns that were read, with the SHA-256 of their hierarchies."]
    columns: Annotated[dict[str, dict[str, Any]], "Rule of each released column, as it was declared."]
    in_words: Annotated[dict[str, str], "The same in words."]
    table: NotRequired[Annotated[MemberTableRule, "Which members are published too, where there is a table of them."]]


class Signature(TypedDict):
    """The signature over everything else."""

    algorithm: Annotated[str, "Name of the signature algorithm."]
    key_id: Annotated[Hexadecimal, "Id of the key that signed."]
    public_key: Annotated[Sha256, "The public key of that id."]
    value: Annotated[Hexadecimal, "The signature itself."]


class Certificate(TypedDict):
    """The certificate of a release: `certificate.json` beside its files."""

    format: Annotated[Literal["crowdblend-certificate/5"], "Format of the certificate, with its version."]
    release_id: Annotated[str, "Id of the release, unique in the ledger."]
    name: Annotated[str, "Label of the release."]
    dataset: Annotated[str, "Name of the data set whose budget paid."]
    day: Annotated[Day, "Day of the charge."]
    mechanism: Annotated[Mechanism, "Versioned record of the mechanism."]
    sampler_layout: Annotated[str, "Version of the layout of random words."]
    sample_id: Annotated[Sha256, "Commitment to the sampling key."]
    code_version: Annotated[str, "Version of the software."]
    code_sources: Annotated[Sha256, "SHA-256 of the sources of the kernel and of the kind of mechanism that was used."]
    series: Annotated[CertifiedSeries | None, "Place in the series that paid; null where the release paid for itself."]
    guarantee: Annotated[Guarantee, "What the release guarantees."]
    private_looks: Annotated[PrivateLooks, "Looks at the records before the charge."]
    map: Annotated[CertifiedMap, "The generalization map."]
    published: Annotated[Published, "What was published."]
    files: Annotated[dict[str, Sha256], "SHA-256 of each published file, by the file's name."]
    ledger: Annotated[LedgerPlace, "Place of the charge in the ledger."]
    filter_budget: NotRequired[
        Annotated[CertifiedFilterBudget, "The filter budget that paid; present for data sets with such a budget."]
    ]
    inclusion: NotRequired[Annotated[Inclusion, "The column of rates; present where records have rates of their own."]]
    unit_records: NotRequired[
        Annotated[UnitRecordRules, "How units' records were made; present where each unit has one."]
    ]
    signature: Annotated[Signature, "Signature over all other fields."]


class ExportedEntry(TypedDict):
    """A line of `ledger export`: an entry of the ledger with its place."""

    position: Annotated[int, "Position of the entry in the ledger, counted from 0."]
    hash: Annotated[Sha256, "Hash of the ledger's chain at this entry."]
    entry: Annotated[Entry, "The entry, of a versioned kind."]


class ColumnTold(TypedDict):
    """What will be told of a column by counts, and where it will stand in rows."""

    column: Annotated[str, "Name of the column."]
    level: Annotated[int, "Level of the labels by which the column is counted; finer ones are never told."]
    labels: Annotated[int, "Number of counts of the column by itself, that of `*` among them."]
    standard_error: Annotated[float, "Standard error of each of these counts, in records."]
    share: Annotated[float | None, "The same as a share of the records; null where nobody said how many there are."]
    pairs: Annotated[int, "Number of other columns with which it may be counted together."]
    pairs_by_coarser_labels: Annotated[int, "Number of those with which it may be counted by coarser labels alone."]
    least_tables: Annotated[int, "Number of tables of rows that it will be in at least."]
    most_tables: Annotated[int, "Number of tables of rows that it will be in at most."]


class ToldBeforehand(TypedDict):
    """What a release that chooses pairs will tell, and how exactly, whatever the records are."""

    columns: Annotated[list[ColumnTold], "The columns that are counted."]
    records: Annotated[int | None, "About how many records there are, as somebody said; null where nobody did."]
    tables: Annotated[int, "Number of tables of rows."]
    likely_group: Annotated[int, "Number of people of which a group is shown at a stage in 19 of 20 releases."]
    certain_group: Annotated[int, "Number of people from which on a group is shown at a stage in every release."]


class ExplainedStage(TypedDict):
    """A stage of a deletion release."""

    levels: Annotated[dict[str, int], "Level of each column at this stage."]


class ExplainedMembers(TypedDict):
    """The table of members that a release of units would publish."""

    most: Annotated[int, "Number of members of a unit that may be in the table."]
    in_words: Annotated[str, "Which members those are."]
    stages: Annotated[list[ExplainedStage], "The stages of the table, the finest first."]
    expected_deletion: Annotated[float, "Expected number of members that a group loses at a stage."]
    largest_deletion: Annotated[int, "Largest number of members that a group loses at a stage."]
    epsilon_alone: Annotated[float | None, "ε that this table would cost alone; null where that has no price."]
    units_epsilon_alone: Annotated[
        float | None, "ε that all of the units would cost alone; null where that has no price."
    ]
