"""The forms of what commands print with `--json`: the types of what is printed, and beside each key what it means."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from .documents import (
    Day,
    Inclusion,
    Mechanism,
    PlannedMargins,
    PublishedMargins,
    PublishedStage,
    RehearsedColumn,
    Sha256,
)

__all__ = [
    "Account",
    "BudgetFacts",
    "BudgetForecast",
    "BudgetRaise",
    "CalendarForecast",
    "Chain",
    "ChangeForecast",
    "Charge",
    "DatasetList",
    "DatasetRow",
    "DeletionPlan",
    "DocumentWritten",
    "DryRun",
    "EstimatedDataset",
    "ExplainedChoice",
    "ExplainedColumn",
    "ExplainedLevel",
    "ExplainedStage",
    "Explanation",
    "FilterTaken",
    "HierarchyChecked",
    "HierarchyFinding",
    "HierarchyTree",
    "Included",
    "JobBegun",
    "JobState",
    "JobStatus",
    "KeysShown",
    "LedgerMigrated",
    "LedgerShown",
    "LedgerVerified",
    "Limit",
    "ListedRelease",
    "LookedUp",
    "Payment",
    "PrivateLook",
    "PublicKey",
    "Refusal",
    "Refused",
    "Relation",
    "ReleaseList",
    "ReleaseRow",
    "ReleaseVerified",
    "RunResult",
    "SeriesList",
    "SeriesPart",
    "SeriesPlace",
    "SeriesRow",
    "SheetWritten",
    "ShownRelease",
    "SourceFacts",
    "TokenList",
    "TokenMade",
    "TokenRow",
    "Told",
    "Way",
]

Stage = Literal["charged", "reading", "published", "abandoned"]
Number = float | None
Relation = Literal["add/remove", "replacement"]
JobState = Literal["running", "killed", "cancelled", "published", "failed", "refused", "abandoned", "interrupted"]


class Refusal(TypedDict):
    """Why a command did not do what it was asked."""

    kind: Annotated[
        Literal["failed", "input", "accountant"],
        "failed, after a charge; input, the specification or the command is wrong; accountant, it refuses.",
    ]
    exit_code: Annotated[Literal[1, 2, 3], "with which the command leaves."]
    where: Annotated[str, "file, line, key or option; may be empty."]
    message: Annotated[str, "what is wrong, what was not done, and what to do."]


class Refused(TypedDict):
    """What every command prints where it refuses or fails."""

    error: Annotated[Refusal, "why."]
    release_id: NotRequired[Annotated[str, "of a release that was broken off."]]


class SeriesPlace(TypedDict):
    """The place that a release takes in its series."""

    name: Annotated[str, "of the series."]
    number: Annotated[int, "from 1."]
    releases: Annotated[int, "how many the series has."]
    part: NotRequired[Annotated[int, "where the series' mechanisms differ."]]


class FilterTaken(TypedDict):
    """What a release took of a filter budget."""

    order: Annotated[float, "of the divergence."]
    divergence: Annotated[float, "at that order."]
    tail: Annotated[float, "the mass that was cut off for it."]
    share: Annotated[float, "of the budget."]


class Payment(TypedDict):
    """What paid for a release."""

    series: Annotated[SeriesPlace | None, "its place, null where it paid for itself."]
    filter_charge: NotRequired[Annotated[FilterTaken, "of a data set with a filter budget."]]


class Told(TypedDict):
    """How much the published records tell, and what a deletion release published."""

    informative_records: NotRequired[Annotated[int, "published with at least one label that isn't `*`."]]
    median_columns_told: NotRequired[
        Annotated[int, "at least half of the published records have so many labels that aren't `*`, or more."]
    ]
    columns_at_star: NotRequired[Annotated[list[str], "of which every published label is `*`."]]
    in_words: NotRequired[Annotated[list[str], "how much the records tell, and what to check of columns that are `*`."]]
    rehearsal: NotRequired[Annotated[list[RehearsedColumn], "of a rehearsal alone."]]
    stages: NotRequired[Annotated[list[PublishedStage], "of a deletion release, the finest first."]]
    margins: NotRequired[Annotated[PublishedMargins, "beside them."]]


class LookedUp(TypedDict):
    """What is told besides of a release that had been published before."""

    output_in_place: NotRequired[
        Annotated[
            bool | None,
            "of a release that was looked up: whether it lies there now with the bytes that were published; null where "
            "that can't be looked at.",
        ]
    ]


class RunResult(LookedUp, Payment, Told):
    """A release that was published."""

    release_id: Annotated[str, "unique in the ledger."]
    looked_up: Annotated[bool, "whether it had been published before, so that nothing was charged now."]
    dataset: Annotated[str, "whose budget paid."]
    sample_id: Annotated[Sha256 | None, "commitment to the sampling key; null where no sample was drawn."]
    mechanism: Annotated[Mechanism, "its versioned record."]
    epsilon: Annotated[float, "ε as charged."]
    delta: Annotated[float, "δ as charged."]
    epsilon_paper: Annotated[Number, "ε by the published bound; null where it gives none."]
    levels: Annotated[dict[str, int], "level of each column."]
    published_groups: Annotated[int, "rows of the table without repetitions."]
    published_records: Annotated[int | None, "null where what is published counts none."]
    output: Annotated[str, "where the release lies."]
    certificate: Annotated[str, "where its certificate lies."]
    timings: Annotated[dict[str, float], "seconds of each stage."]


class Charge(TypedDict):
    """What would be charged."""

    epsilon: Annotated[float, "ε."]
    delta: Annotated[float, "δ."]


class BudgetFacts(TypedDict):
    """A data set's budget, and what would be left of it; amounts that a filter budget doesn't have are null."""

    dataset: Annotated[str, "its name."]
    accounting: NotRequired[
        Annotated[Literal["additive", "filter"], "how its releases add up; not there without a ledger."]
    ]
    epsilon_budget: Annotated[Number, "ε of the budget."]
    epsilon_spent: Annotated[Number, "of it."]
    epsilon_left: Annotated[Number, "of it."]
    epsilon_left_after: Annotated[Number, "after the charge; negative where it doesn't fit."]
    delta_budget: Annotated[Number, "δ of the budget."]
    delta_spent: Annotated[Number, "of it."]
    delta_left: Annotated[Number, "of it."]
    delta_left_after: Annotated[Number, "after the charge."]
    order: NotRequired[Annotated[float, "of a filter's divergences."]]
    divergence: NotRequired[Annotated[float, "that the charge takes of a filter."]]
    tail: NotRequired[Annotated[float, "that it takes of a filter."]]
    spent_share: NotRequired[Annotated[float, "of a filter."]]
    spent_share_after: NotRequired[Annotated[float, "the charge."]]
    problem: Annotated[str | None, "why a charge would be refused."]


class SourceFacts(TypedDict):
    """The records' source by its metadata."""

    files: Annotated[int | None, "how many; 0 of a database's query."]
    format: Annotated[str | None, "of the files."]
    problem: Annotated[str | None, "why it can't be read."]
    version: Annotated[int | None, "of a lake table."]
    remarks: Annotated[list[str], "what seems wrong."]


class Limit(TypedDict):
    """Whose records are limited."""

    unit: Annotated[Literal["person", "household"], "person or household."]
    column: Annotated[str, "that names it."]
    records: Annotated[int, "the most that count."]


class Included(TypedDict):
    """The rates of records, where they have rates of their own."""

    inclusion: NotRequired[Annotated[Inclusion, "where records have rates of their own."]]


class DryRun(Included):
    """What a run would begin with."""

    dry_run: Annotated[Literal[True], "always true."]
    release_id: Annotated[str | None, "that was asked for."]
    stage: Annotated[Stage | None, "of a release of this id that there is."]
    dataset: Annotated[str, "whose budget would pay."]
    series: Annotated[str | None, "that would pay."]
    mechanism: Annotated[Mechanism, "its versioned record."]
    epsilon: Annotated[float, "ε of the guarantee."]
    delta: Annotated[float, "δ of the guarantee."]
    epsilon_paper: Annotated[Number, "ε by the published bound."]
    charge: Annotated[Charge, "that a run would make."]
    rehearsal_epsilon: Annotated[Number, "what a rehearsal would cost; null where there is none."]
    budget: Annotated[BudgetFacts, "before and after it."]
    source: Annotated[SourceFacts | None, "of the records; null where the release is published already."]
    levels: Annotated[dict[str, int] | None, "of the columns; null where they are drawn, or there are none."]
    limit: Annotated[Limit | None, "on the records of a person or household."]
    output: Annotated[str, "where the release would lie."]


class ExplainedLevel(TypedDict):
    """A level of a column."""

    level: Annotated[int, "its number; 0 is the value itself."]
    labels: Annotated[int, "how many there are."]
    values_per_label: Annotated[tuple[int, int], "the least and the most."]
    information_kept: Annotated[float, "share of the value's information, 0 to 1."]
    examples: Annotated[list[str], "a few labels."]
    possible: Annotated[bool, "whether the release may have this level."]


class ExplainedColumn(TypedDict):
    """A released column."""

    column: Annotated[str, "its name."]
    weight: Annotated[Number, "in the draw of the map; null where the levels are fixed."]
    min_level: Annotated[int, "the finest that the release may have."]
    max_level: Annotated[int, "the coarsest."]
    levels: Annotated[list[ExplainedLevel], "all of them."]


class ExplainedChoice(TypedDict):
    """How the map would be drawn."""

    draw: Annotated[Literal["permute-and-flip", "exponential", "walk"], "the mechanism."]
    steps: Annotated[int | None, "of a walk."]
    on: Annotated[Literal["whole", "fresh-sample"], "which records."]
    rate: Annotated[Number, "of a fresh sample."]
    epsilon: Annotated[float, "as specified."]
    epsilon_of_choice: Annotated[float, "what the draw costs."]
    epsilon_of_release: Annotated[float, "what the release with its drawn map costs."]
    threshold: Annotated[int, "groups of fewer records count nothing for a map."]
    candidates: Annotated[list[Any] | None, "level of each column, for each candidate; null for all within the bounds."]


class ExplainedStage(TypedDict):
    """A stage of a deletion release."""

    levels: Annotated[dict[str, int], "of the columns."]


class Explanation(Included):
    """What a specification would do and cost; some keys are of some kinds of release alone."""

    rehearsal_epsilon: NotRequired[Annotated[Number, "what a rehearsal would cost; null where there is none."]]
    dataset: Annotated[str, "whose budget would pay."]
    mechanism: Annotated[Mechanism, "its versioned record."]
    epsilon: Annotated[float, "ε of all its releases."]
    delta: Annotated[float, "δ of all its releases."]
    epsilon_paper: Annotated[Number, "ε by the published bound."]
    rule: Annotated[str, "versioned name of the theorem that gives the price."]
    releases: Annotated[int, "that the price is for."]
    limit: Annotated[Limit | None, "on the records of a person or household."]
    columns: Annotated[list[ExplainedColumn], "with their levels."]
    maps: Annotated[int, "how many the release may have."]
    selection: Annotated[ExplainedChoice | None, "how the map is drawn."]
    cells: NotRequired[Annotated[int, "declared cells or answers, all of them published."]]
    relation: NotRequired[Annotated[str, "the neighbouring relation."]]
    confidence: NotRequired[Annotated[float, "of the intervals."]]
    half_width: NotRequired[Annotated[float, "of each answer's interval."]]
    people_for_1_percent: NotRequired[Annotated[int, "so many reports make every standard error at most 1% of them."]]
    expected_deletion: NotRequired[Annotated[float, "records that a group loses at a stage."]]
    largest_deletion: NotRequired[Annotated[int, "the same."]]
    stages: NotRequired[Annotated[list[ExplainedStage], "of a deletion release."]]
    margins: NotRequired[Annotated[PlannedMargins, "beside it."]]
    budget: Annotated[BudgetFacts, "of the data set."]
    source: Annotated[SourceFacts, "of the records."]


class DeletionPlan(TypedDict):
    """The noise of deletion releases that a budget allows."""

    mechanism: Annotated[Mechanism, "its versioned record."]
    noise: Annotated[str, "its shape."]
    parameter: Annotated[float, "σ of Gaussian noise, else ε of a stage."]
    expected_deletion: Annotated[float, "records that a group loses at a stage."]
    largest_deletion: Annotated[int, "the same."]
    stages: Annotated[int, "how many."]
    margins: Annotated[int, "how many."]
    margin_error: Annotated[Number, "standard error of each of their counts."]
    releases: Annotated[int, "that the price is for."]
    epsilon: Annotated[float, "ε of all of them."]
    delta: Annotated[float, "δ of all of them."]
    rule: Annotated[str, "versioned name of the theorem that gives the price."]


class Way(TypedDict):
    """How many releases of a calendar a budget pays for, in one of the ways to pay."""

    way: Annotated[str, "how they are paid."]
    releases: Annotated[int, "how many."]
    most: Annotated[bool, "whether there may be more, which were not looked for."]
    years: Annotated[float, "that they last."]
    lasts: Annotated[str, "the same in words."]
    epsilon: Annotated[Number, "ε of all of them."]
    delta: Annotated[Number, "δ of all of them."]
    epsilon_each: Annotated[Number, "of one."]
    delta_each: Annotated[Number, "of one."]
    share_each: Annotated[Number, "of a filter budget, of one."]
    limited_by: Annotated[str | None, "what is used up first."]


class CalendarForecast(TypedDict):
    """How long a budget lasts for one calendar."""

    calendar: Annotated[str, "as it was asked for."]
    k: Annotated[int, "suppression threshold."]
    sampling_rate: Annotated[float, "of each release."]
    releases_a_year: Annotated[float, "by the calendar."]
    ways: Annotated[list[Way], "to pay."]


class ChangeForecast(TypedDict):
    """What another k or rate would change."""

    k: Annotated[int, "suppression threshold."]
    sampling_rate: Annotated[float, "of each release."]
    releases: Annotated[dict[str, int], "by the way to pay."]


class BudgetForecast(TypedDict):
    """How long what is left of a budget lasts."""

    dataset: Annotated[str, "its name."]
    accounting: Annotated[Literal["additive", "filter"], "how its releases add up."]
    epsilon_left: Annotated[float, "of the budget."]
    delta_left: Annotated[float, "of the budget."]
    share_left: Annotated[Number, "of a filter budget."]
    calendars: Annotated[list[CalendarForecast], "that were asked for."]
    changes: Annotated[list[ChangeForecast], "that would make it last longer."]


class JobBegun(TypedDict):
    """A job that was left to run."""

    release_id: Annotated[str, "by which it is looked after."]
    state: Annotated[Literal["running"], "always running."]


class JobStatus(TypedDict):
    """How far a release is."""

    release_id: Annotated[str, "that was asked for."]
    state: Annotated[
        JobState,
        "of the job, or of the release in the ledger.",
    ]
    stage: Annotated[str | None, "that runs."]
    exit_code: Annotated[int | None, "with which the job ended."]
    message: Annotated[str | None, "with which it ended."]
    cost: Annotated[str | None, "so far, in words."]


class ReleaseVerified(TypedDict):
    """Whether a release is what its certificate says."""

    ok: Annotated[bool, "whether nothing was found."]
    findings: Annotated[list[str], "what doesn't hold."]
    signed_by: Annotated[str | None, "id of the key whose signature holds."]
    unchecked: Annotated[list[str], "what was not shown."]
    kernel: Annotated[
        Sha256 | None, "SHA-256 of the sources of the kernel and the kind that made it; null where it can't be read."
    ]
    kernel_is_installed: Annotated[bool, "whether this installation has the same sources."]


class ReleaseRow(TypedDict):
    """A release in the ledger."""

    release_id: Annotated[str, "unique in the ledger."]
    dataset: Annotated[str, "whose budget paid."]
    label: Annotated[str, "for people."]
    series: Annotated[str | None, "that paid."]
    series_number: Annotated[int | None, "its place there."]
    stage: Annotated[Stage, "how far it is."]
    refunded: Annotated[bool, "whether its charge was given back."]
    sample_id: Annotated[Sha256, "commitment to the sampling key."]
    selection_sample_id: Annotated[Sha256 | None, "of the sample that the map is drawn on."]
    mechanism: Annotated[Mechanism, "its versioned record."]
    epsilon: Annotated[Number, "ε as charged; null where a series paid."]
    delta: Annotated[Number, "δ as charged."]
    rule: Annotated[str, "versioned name of the theorem that gave the price."]
    day: Annotated[Day, "of the charge."]
    position: Annotated[int, "of the charge in the ledger."]


class ListedRelease(ReleaseRow):
    """A release with what it published, as far as it lies on this machine."""

    output: Annotated[str | None, "where it lies."]
    levels: Annotated[dict[str, int] | None, "of the columns."]
    levels_drawn: Annotated[bool | None, "whether they were drawn privately."]
    published_groups: Annotated[int | None, "rows of the table without repetitions."]
    published_records: Annotated[int | None, "null where what is published counts none."]


class ReleaseList(TypedDict):
    """Releases in the order of their charges."""

    releases: Annotated[list[ListedRelease], "the latest, or all."]
    release_count: Annotated[int, "of all."]


class ShownRelease(ListedRelease):
    """One release."""

    cost: Annotated[str, "so far, in words."]
    largest_groups: Annotated[
        list[dict[str, str | int]] | None,
        "label of each column, and `count`; null where there are none to show.",
    ]


class BudgetRaise(TypedDict):
    """A budget was raised."""

    epsilon: Annotated[float, "the new budget of ε."]
    delta: Annotated[float, "the new budget of δ."]
    reason: Annotated[str, "why."]
    by: Annotated[str, "who did."]
    day: Annotated[Day, "when."]
    position: Annotated[int, "of the entry."]


class Account(TypedDict):
    """What is spent and left of a budget; amounts that a filter budget doesn't have are null."""

    accounting: Annotated[Literal["additive", "filter"], "how its releases add up."]
    order: Annotated[Number, "of a filter's divergences."]
    epsilon_budget: Annotated[float, "ε of the budget."]
    epsilon_spent: Annotated[Number, "of it."]
    epsilon_left: Annotated[Number, "of it, rounded down."]
    delta_budget: Annotated[float, "δ of the budget."]
    delta_spent: Annotated[Number, "of it."]
    delta_left: Annotated[Number, "of it, rounded down."]
    spent_share: Annotated[float, "of the budget."]
    remaining: Annotated[dict[str, float], "ε and δ, or divergence and tail."]
    allowance: NotRequired[Annotated[dict[str, float], "of a filter."]]
    spent: NotRequired[Annotated[dict[str, float], "of a filter."]]


class DatasetRow(Account):
    """A data set and its budget."""

    dataset: Annotated[str, "its name."]
    raises: Annotated[list[BudgetRaise], "of the budget."]
    relation: Annotated[Relation, "the neighbouring relation."]
    survey: Annotated[bool, "whether it is itself a sample."]
    rows_per_person: Annotated[int, "the most records that one person has in a delivery."]
    unit: Annotated[
        str | None, "whom its releases hide: record, person:COLUMN or household:COLUMN; null where nothing fixes it."
    ]


class DatasetList(TypedDict):
    """All data sets."""

    datasets: Annotated[list[DatasetRow], "in the order in which they were added."]


class EstimatedDataset(DatasetRow):
    """The same, with an estimate."""

    epsilon_estimate: Annotated[Number, "ε of all its releases, composed; no guarantee."]


class SeriesPart(TypedDict):
    """A part of a series of different mechanisms."""

    part: Annotated[int, "its number."]
    mechanism: Annotated[str, "in words."]
    releases: Annotated[int, "how many it has."]
    taken: Annotated[int, "of these."]
    remaining: Annotated[int, "of these."]


class SeriesRow(TypedDict):
    """A series."""

    series: Annotated[str, "its name."]
    dataset: Annotated[str, "whose budget paid."]
    releases: Annotated[int, "how many it has."]
    taken: Annotated[int, "of these."]
    remaining: Annotated[int, "of these."]
    mechanism: Annotated[Mechanism, "its versioned record."]
    free_columns: Annotated[bool, "whether each release has columns of its own."]
    parts: Annotated[list[SeriesPart] | None, "where its mechanisms differ."]
    epsilon: Annotated[float, "ε of all its releases."]
    delta: Annotated[float, "δ of all its releases."]
    epsilon_paper: Annotated[Number, "ε by the published bound."]
    rule: Annotated[str, "versioned name of the theorem that gave the price."]
    day: Annotated[Day, "when it was registered."]
    position: Annotated[int, "of the entry."]


class SeriesList(TypedDict):
    """All series."""

    series: Annotated[list[SeriesRow], "in the order of their registration."]


class PrivateLook(TypedDict):
    """Somebody looked at the records outside of a release."""

    dataset: Annotated[str, "whose."]
    what: Annotated[str, "was looked at."]
    by: Annotated[str, "who did."]
    day: Annotated[Day, "when."]
    position: Annotated[int, "of the entry."]


class Chain(TypedDict):
    """The ledger's chain."""

    entries: Annotated[int, "how many."]
    head: Annotated[Sha256, "hash of the last."]


class LedgerShown(TypedDict):
    """The ledger."""

    datasets: Annotated[list[EstimatedDataset], "all of them."]
    series: Annotated[list[SeriesRow], "the latest, or all."]
    series_count: Annotated[int, "of all."]
    releases: Annotated[list[ReleaseRow], "the latest, or all."]
    release_counts: Annotated[dict[Stage, int], "by stage."]
    private_looks: Annotated[list[PrivateLook], "all of them."]
    chain: Annotated[Chain, "of the entries."]
    epsilon_estimate_note: Annotated[str, "what the estimates are not."]


class LedgerVerified(TypedDict):
    """Whether the ledger holds together."""

    ok: Annotated[bool, "whether nothing was found."]
    findings: Annotated[list[str], "what doesn't hold."]
    unchecked: Annotated[list[str], "what was not checked."]
    witnessed: Annotated[
        int | None,
        "how many entries enough witnesses have cosigned; 0 if that does not hold, null where none are named.",
    ]


class LedgerMigrated(TypedDict):
    """The ledger's tables before and after."""

    before: Annotated[str, "schema revision."]
    after: Annotated[str, "schema revision."]
    entries: Annotated[int, "that stayed as they were."]
    mended: Annotated[bool, "whether the snapshot of the state was damaged, and was made again."]


class HierarchyFinding(TypedDict):
    """What is wrong, or perhaps not meant, in a hierarchy."""

    line: Annotated[int | None, "of the file; null where it is about no line."]
    what: Annotated[str, "it is."]


class HierarchyChecked(TypedDict):
    """What was found in a hierarchy."""

    ok: Annotated[bool, "whether there is no fault."]
    findings: Annotated[list[HierarchyFinding], "faults."]
    remarks: Annotated[list[HierarchyFinding], "what perhaps isn't meant."]
    values: Annotated[int, "lines."]
    labels_per_level: Annotated[list[int], "how many, from level 0."]
    separator: Annotated[str, "of the file."]
    sha256: Annotated[Sha256 | None, "as certificates name it; null where a specification doesn't take the file."]


class HierarchyTree(TypedDict):
    """A hierarchy from its most general labels down."""

    levels: Annotated[int, "how many."]
    values: Annotated[int, "how many."]
    tree: Annotated[
        dict[str, Any],
        ("additionalProperties", {"$ref": "#/$defs/HierarchyTree/properties/tree"}),
        "label and what lies below it; a value has nothing below it.",
    ]


class DocumentWritten(TypedDict):
    """Where the files of a document about a release are."""

    files: Annotated[list[str], "the new files."]


class SheetWritten(TypedDict):
    """Where the sheet for researchers is, and the lookup file of its labels."""

    html: Annotated[str, "a file."]
    markdown: Annotated[str, "a file."]
    labels: Annotated[str, "a file."]


class TokenMade(TypedDict):
    """A token, shown once."""

    name: Annotated[str, "for whom."]
    expires: Annotated[Day, "the first day on which it opens nothing."]
    token: Annotated[str, "the secret."]


class TokenRow(TypedDict):
    """A token without its secret."""

    token_id: Annotated[str, ("pattern", "^[0-9a-f]{16}$"), "its id."]
    name: Annotated[str, "for whom."]
    added: Annotated[Day, "when."]
    expires: Annotated[Day, "the first day on which it opens nothing."]
    state: Annotated[Literal["active", "expired", "revoked"], "today."]


class TokenList(TypedDict):
    """All tokens."""

    tokens: Annotated[list[TokenRow], "in the order in which they were added."]


class PublicKey(TypedDict):
    """A public key."""

    key_id: Annotated[str, "its id."]
    public_key: Annotated[Sha256, "its bytes in hexadecimal digits."]


class KeysShown(TypedDict):
    """The public keys of the private store."""

    current: Annotated[str, "id of the one that signs now."]
    keys: Annotated[list[PublicKey], "that one first, then the earlier ones."]
