"""The forms of what commands print with `--json`: the types of what is printed, and beside each key what it means."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from .document_forms import (
    ChosenBlocks,
    ChosenLevels,
    Day,
    ExplainedMembers,
    ExplainedStage,
    Inclusion,
    Mechanism,
    PlannedMargins,
    PlannedWeights,
    PublishedBlock,
    PublishedMargins,
    PublishedMembers,
    PublishedPair,
    PublishedStage,
    PublishedWeights,
    RehearsedColumn,
    Sha256,
    ToldBeforehand,
)

Stage = Literal["charged", "reading", "published", "abandoned"]
Number = float | None
Relation = Literal["add/remove", "replacement"]
JobState = Literal["running", "killed", "cancelled", "published", "failed", "refused", "abandoned", "interrupted"]


class Refusal(TypedDict):
    """Why a command did not do what it was asked."""

    kind: Annotated[
        Literal["failed", "input", "accountant"],
        '"failed": something failed after a charge; "input": the specification or command is wrong; '
        '"accountant": the accountant refuses.',
    ]
    exit_code: Annotated[Literal[1, 2, 3], "Exit code of the command."]
    where: Annotated[str, "File, line, key or option that is concerned; may be empty."]
    message: Annotated[str, "What is wrong, what was not done, and what to do."]


class Refused(TypedDict):
    """What every command prints where it refuses or fails."""

    error: Annotated[Refusal, "Why the command did not do what it was asked."]
    release_id: NotRequired[Annotated[str, "Id of the release that was broken off."]]


class SeriesPlace(TypedDict):
    """The place that a release takes in its series."""

    name: Annotated[str, "Name of the series."]
    number: Annotated[int, "Number of the release in the series, counted from 1."]
    releases: Annotated[int, "Number of releases of the series."]
    part: NotRequired[Annotated[int, "Number of the release's part, where the mechanisms of the series differ."]]


class FilterTaken(TypedDict):
    """What a release took of a filter budget."""

    order: Annotated[float, "Order of the divergence."]
    divergence: Annotated[float, "Rényi divergence of that order that the release took."]
    tail: Annotated[float, "Probability mass that was cut off to bound the divergence."]
    share: Annotated[float, "Share of the budget that the release took."]


class Payment(TypedDict):
    """What paid for a release."""

    series: Annotated[SeriesPlace | None, "Place in the series that paid; null where the release paid for itself."]
    filter_charge: NotRequired[
        Annotated[FilterTaken, "What the release took of a filter budget; present for such budgets alone."]
    ]


class WrittenBlock(TypedDict):
    """A table of rows that the specification names."""

    name: Annotated[str, "Name of the block; its table is the file `data-NAME`."]
    columns: Annotated[list[str], "The columns of its table."]


class PlannedPairs(TypedDict):
    """Pairs of columns that will be chosen and counted while a release runs."""

    number: Annotated[int, "Number of pairs that are chosen and counted."]
    candidates: Annotated[int, "Number of pairs, at their levels, that they are chosen from."]
    standard_error: Annotated[float, "Standard error of each count, in records."]
    epsilon_of_draw: Annotated[float, "ε of each choice; composed, all of them cost less than their sum."]
    epsilon_alone: Annotated[Number, "ε that the counts of pairs would cost alone; null where that has no price."]
    draws_epsilon_alone: Annotated[Number, "ε that the choices would cost alone; null where that has no price."]


class Told(TypedDict):
    """How much the published records tell, and what a deletion release published."""

    informative_records: NotRequired[
        Annotated[int, "Number of published records with at least one label that isn't `*`."]
    ]
    median_columns_told: NotRequired[
        Annotated[int, "At least half of the published records have this many labels that aren't `*`, or more."]
    ]
    columns_at_star: NotRequired[Annotated[list[str], "Columns of which every published label is `*`."]]
    in_words: NotRequired[
        Annotated[list[str], "How much the records tell, and what to check of columns that are `*`; sentences."]
    ]
    rehearsal: NotRequired[
        Annotated[list[RehearsedColumn], "What a rehearsal found of each column; present for rehearsals alone."]
    ]
    stages: NotRequired[Annotated[list[PublishedStage], "The stages of a deletion release, the finest first."]]
    blocks: NotRequired[
        Annotated[list[PublishedBlock], "The tables of rows where there are several, in the order of their blocks."]
    ]
    margins: NotRequired[Annotated[PublishedMargins, "The noisy margins that were published beside the rows."]]
    survey_weights: NotRequired[Annotated[PublishedWeights, "The survey weights, where records have some."]]
    pairs: NotRequired[Annotated[list[PublishedPair], "The pairs that were counted, in the order of their draws."]]
    members: NotRequired[Annotated[PublishedMembers, "The table of members beside the table of units, where one is."]]


class LookedUp(TypedDict):
    """What is also reported of a release that had been published before."""

    output_in_place: NotRequired[
        Annotated[
            bool | None,
            "For a release that was published before: whether its output still has the published bytes; null "
            "where that can't be checked.",
        ]
    ]


class RunResult(LookedUp, Payment, Told):
    """A release that was published."""

    release_id: Annotated[str, "Id of the release, unique in the ledger."]
    looked_up: Annotated[bool, "Whether the release had been published before, so that nothing was charged now."]
    dataset: Annotated[str, "Name of the data set whose budget paid."]
    sample_id: Annotated[Sha256 | None, "Commitment to the sampling key; null where no sample was drawn."]
    mechanism: Annotated[Mechanism, "Versioned record of the mechanism."]
    epsilon: Annotated[float, "ε as charged."]
    delta: Annotated[float, "δ as charged."]
    epsilon_paper: Annotated[Number, "ε by the published bound; null where that bound gives none."]
    levels: Annotated[dict[str, int], "Level of each column."]
    published_groups: Annotated[int, "Number of rows of the table, repetitions not counted."]
    published_records: Annotated[int | None, "Number of published records; null where what is published counts none."]
    output: Annotated[str, "Folder or URL of the release."]
    certificate: Annotated[str, "Place of the release's certificate."]
    timings: Annotated[dict[str, float], "Duration of each stage in seconds."]


class Charge(TypedDict):
    """What would be charged."""

    epsilon: Annotated[float, "ε that would be charged."]
    delta: Annotated[float, "δ that would be charged."]


class BudgetFacts(TypedDict):
    """A data set's budget, and what would be left of it; amounts that a filter budget doesn't have are null."""

    dataset: Annotated[str, "Name of the data set."]
    accounting: NotRequired[
        Annotated[Literal["additive", "filter"], "How the costs of releases add up; absent without a ledger."]
    ]
    epsilon_budget: Annotated[Number, "Budget of ε."]
    epsilon_spent: Annotated[Number, "ε that is spent of the budget."]
    epsilon_left: Annotated[Number, "ε that is left of the budget."]
    epsilon_left_after: Annotated[
        Number, "ε that would be left after the charge; negative where the charge doesn't fit."
    ]
    delta_budget: Annotated[Number, "Budget of δ."]
    delta_spent: Annotated[Number, "δ that is spent of the budget."]
    delta_left: Annotated[Number, "δ that is left of the budget."]
    delta_left_after: Annotated[Number, "δ that would be left after the charge."]
    order: NotRequired[Annotated[float, "Order of a filter budget's divergences."]]
    divergence: NotRequired[Annotated[float, "Divergence that the charge takes of a filter budget."]]
    tail: NotRequired[Annotated[float, "Tail that the charge takes of a filter budget."]]
    spent_share: NotRequired[Annotated[float, "Share of a filter budget that is spent."]]
    spent_share_after: NotRequired[Annotated[float, "Share of a filter budget that would be spent after the charge."]]
    problem: Annotated[str | None, "Why the charge would be refused; null where it would not."]


class SourceFacts(TypedDict):
    """The records' source by its metadata."""

    files: Annotated[int | None, "Number of files; 0 for a database query."]
    format: Annotated[str | None, "Format of the files."]
    problem: Annotated[str | None, "Why the source can't be read; null where it can."]
    version: Annotated[int | None, "Version of a lake table."]
    remarks: Annotated[list[str], "What seems wrong with the source."]


class Limit(TypedDict):
    """Whose records are limited."""

    unit: Annotated[Literal["person", "household"], "Unit whose records are limited."]
    column: Annotated[str, "Column that names the unit."]
    records: Annotated[int, "Largest number of records of a unit that count."]
    derived: NotRequired[
        Annotated[dict[str, str], "What each column says of a unit; present where all its records make one."]
    ]


class Included(TypedDict):
    """The rates of records, where they have rates of their own."""

    inclusion: NotRequired[Annotated[Inclusion, "The column of rates; present where records have rates of their own."]]


class DryRun(Included):
    """What a run would begin with."""

    dry_run: Annotated[Literal[True], "Always true."]
    release_id: Annotated[str | None, "Id that was asked for."]
    stage: Annotated[Stage | None, "Stage of the release that already has this id; null where there is none."]
    dataset: Annotated[str, "Name of the data set whose budget would pay."]
    series: Annotated[str | None, "Name of the series that would pay; null where the release pays for itself."]
    mechanism: Annotated[Mechanism, "Versioned record of the mechanism."]
    epsilon: Annotated[float, "ε of the guarantee."]
    delta: Annotated[float, "δ of the guarantee."]
    epsilon_paper: Annotated[Number, "ε by the published bound; null where that bound gives none."]
    charge: Annotated[Charge, "The charge that a run would make."]
    rehearsal_epsilon: Annotated[Number, "ε that a rehearsal would cost; null where there is none."]
    budget: Annotated[BudgetFacts, "The budget before and after the charge."]
    source: Annotated[SourceFacts | None, "The source of the records; null where the release is published already."]
    levels: Annotated[
        dict[str, int] | None, "Level of each column; null where the levels are drawn, or there are none."
    ]
    limit: Annotated[Limit | None, "Limit on the records of a person or household; null where there is none."]
    output: Annotated[str, "Folder or URL where the release would lie."]


class ExplainedLevel(TypedDict):
    """A level of a column."""

    level: Annotated[int, "Number of the level; 0 is the value itself."]
    labels: Annotated[int, "Number of labels of this level."]
    values_per_label: Annotated[tuple[int, int], "Smallest and largest number of values of a label."]
    information_kept: Annotated[float, "Share of the value's information that the level keeps, from 0 to 1."]
    examples: Annotated[list[str], "A few labels of this level."]
    possible: Annotated[bool, "Whether the release may have this level."]


class ExplainedColumn(TypedDict):
    """A released column."""

    column: Annotated[str, "Name of the column."]
    weight: Annotated[Number, "Weight of the column in the draw of the map; null where the levels are fixed."]
    min_level: Annotated[int, "Finest level that the release may have."]
    max_level: Annotated[int, "Coarsest level that the release may have."]
    levels: Annotated[list[ExplainedLevel], "All levels of the column."]


class ExplainedChoice(TypedDict):
    """How the map would be drawn."""

    draw: Annotated[Literal["permute-and-flip", "exponential", "walk"], "The mechanism that draws the map."]
    steps: Annotated[int | None, "Number of steps of a walk."]
    on: Annotated[Literal["whole", "fresh-sample"], "Records that the map is drawn on."]
    rate: Annotated[Number, "Rate of the fresh sample; null where all records are used."]
    epsilon: Annotated[float, "ε of the draw as specified."]
    epsilon_of_choice: Annotated[float, "ε that the draw costs."]
    epsilon_of_release: Annotated[float, "ε that the release with its drawn map costs."]
    threshold: Annotated[int, "Groups of fewer records count nothing for a map."]
    candidates: Annotated[
        list[Any] | None,
        "Levels of the columns for each candidate; null where all maps within the bounds are candidates.",
    ]


class Explanation(Included):
    """What a specification would do and cost; some keys are of some kinds of release alone."""

    rehearsal_epsilon: NotRequired[Annotated[Number, "ε that a rehearsal would cost; null where there is none."]]
    dataset: Annotated[str, "Name of the data set whose budget would pay."]
    mechanism: Annotated[Mechanism, "Versioned record of the mechanism."]
    epsilon: Annotated[float, "ε of all releases that the price is for."]
    delta: Annotated[float, "δ of all releases that the price is for."]
    epsilon_paper: Annotated[Number, "ε by the published bound; null where that bound gives none."]
    rule: Annotated[str, "Versioned name of the theorem that gives the price."]
    releases: Annotated[int, "Number of releases that the price is for."]
    limit: Annotated[Limit | None, "Limit on the records of a person or household; null where there is none."]
    columns: Annotated[list[ExplainedColumn], "The released columns with their levels."]
    maps: Annotated[int, "Number of maps that the release may have."]
    selection: Annotated[ExplainedChoice | None, "How the map is drawn; null where the levels are fixed."]
    cells: NotRequired[Annotated[int, "Number of declared cells or answers, all of which are published."]]
    relation: NotRequired[Annotated[str, "The neighbouring relation of the guarantee."]]
    confidence: NotRequired[Annotated[float, "Confidence of the intervals."]]
    half_width: NotRequired[Annotated[float, "Half the width of each answer's interval."]]
    people_for_1_percent: NotRequired[
        Annotated[int, "Number of reports from which on every standard error is at most 1% of them."]
    ]
    expected_deletion: NotRequired[Annotated[float, "Expected number of records that a group loses at a stage."]]
    largest_deletion: NotRequired[Annotated[int, "Largest number of records that a group loses at a stage."]]
    stages: NotRequired[Annotated[list[ExplainedStage], "The stages of a deletion release, the finest first."]]
    margins: NotRequired[Annotated[PlannedMargins, "The noisy margins beside the rows."]]
    survey_weights: NotRequired[Annotated[PlannedWeights, "The survey weights, where records have some."]]
    pairs: NotRequired[Annotated[PlannedPairs, "The pairs of columns that a deletion release will choose."]]
    blocks: NotRequired[Annotated[list[WrittenBlock], "The tables of rows, where the specification names several."]]
    chosen_blocks: NotRequired[
        Annotated[ChosenBlocks, "How several tables of rows will follow from the published counts."]
    ]
    chosen_levels: NotRequired[
        Annotated[ChosenLevels, "How the levels of the rows will follow from the published counts; absent where fixed."]
    ]
    told: NotRequired[Annotated[ToldBeforehand, "What will be told of each column, where pairs are chosen."]]
    members: NotRequired[Annotated[ExplainedMembers, "The table of members beside the table of units, where one is."]]
    budget: Annotated[BudgetFacts, "Budget of the data set."]
    source: Annotated[SourceFacts, "Source of the records."]


class DeletionPlan(TypedDict):
    """The noise of deletion releases that a budget allows."""

    mechanism: Annotated[Mechanism, "Versioned record of the mechanism."]
    noise: Annotated[str, "Shape of the noise."]
    parameter: Annotated[float, "Standard deviation σ of Gaussian noise; for other noise, ε of a stage."]
    expected_deletion: Annotated[float, "Expected number of records that a group loses at a stage."]
    largest_deletion: Annotated[int, "Largest number of records that a group loses at a stage."]
    stages: Annotated[int, "Number of stages."]
    margins: Annotated[int, "Number of margins."]
    margin_error: Annotated[Number, "Standard error of each count of the margins; null where there are none."]
    blocks: NotRequired[Annotated[int, "Number of tables of rows, each with so many stages."]]
    pairs: NotRequired[Annotated[int, "Number of pairs of columns that are chosen and counted."]]
    pair_scale: NotRequired[Annotated[float, "σ of the noise of the pairs' counts."]]
    releases: Annotated[int, "Number of releases that the price is for."]
    epsilon: Annotated[float, "ε of all these releases."]
    delta: Annotated[float, "δ of all these releases."]
    rule: Annotated[str, "Versioned name of the theorem that gives the price."]


class Way(TypedDict):
    """How many releases of a calendar a budget pays for, in one of the ways to pay."""

    way: Annotated[str, "How the releases are paid for."]
    releases: Annotated[int, "Number of releases that the budget pays for."]
    most: Annotated[bool, "Whether there may be more releases, which were not counted."]
    years: Annotated[float, "Years that these releases last."]
    lasts: Annotated[str, "How long these releases last, in words."]
    epsilon: Annotated[Number, "ε of all these releases."]
    delta: Annotated[Number, "δ of all these releases."]
    epsilon_each: Annotated[Number, "ε of one release."]
    delta_each: Annotated[Number, "δ of one release."]
    share_each: Annotated[Number, "Share of a filter budget that one release takes."]
    limited_by: Annotated[str | None, "What of the budget is used up first."]


class CalendarForecast(TypedDict):
    """How long a budget lasts for one calendar."""

    calendar: Annotated[str, "The calendar as it was asked for."]
    k: Annotated[int, "Suppression threshold."]
    sampling_rate: Annotated[float, "Sampling rate of each release."]
    releases_a_year: Annotated[float, "Number of releases a year by the calendar."]
    ways: Annotated[list[Way], "What each way of paying gives."]


class ChangeForecast(TypedDict):
    """What another k or rate would change."""

    k: Annotated[int, "Suppression threshold."]
    sampling_rate: Annotated[float, "Sampling rate of each release."]
    releases: Annotated[dict[str, int], "Number of releases by the way of paying."]


class BudgetForecast(TypedDict):
    """How long what is left of a budget lasts."""

    dataset: Annotated[str, "Name of the data set."]
    accounting: Annotated[Literal["additive", "filter"], "How the costs of releases add up."]
    epsilon_left: Annotated[float, "ε that is left of the budget."]
    delta_left: Annotated[float, "δ that is left of the budget."]
    share_left: Annotated[Number, "Share that is left of a filter budget."]
    calendars: Annotated[list[CalendarForecast], "The calendars that were asked for."]
    changes: Annotated[
        list[ChangeForecast], "Changes of k or the sampling rate that would make the budget last longer."
    ]


class JobBegun(TypedDict):
    """A job that was left to run."""

    release_id: Annotated[str, "Id of the release, by which its status is asked for."]
    state: Annotated[Literal["running"], "Always running."]


class JobStatus(TypedDict):
    """How far a release is."""

    release_id: Annotated[str, "Id that was asked for."]
    state: Annotated[
        JobState,
        "State of the job, or of the release in the ledger.",
    ]
    stage: Annotated[str | None, "Stage that runs."]
    exit_code: Annotated[int | None, "Exit code of the job; null while it runs."]
    message: Annotated[str | None, "Message that the job ended with."]
    cost: Annotated[str | None, "What the release has cost so far, in words."]


class ReleaseVerified(TypedDict):
    """Whether a release is what its certificate says."""

    ok: Annotated[bool, "Whether no finding was made."]
    findings: Annotated[list[str], "What doesn't hold."]
    signed_by: Annotated[str | None, "Id of the key whose signature holds."]
    unchecked: Annotated[list[str], "What could not be checked."]
    kernel: Annotated[
        Sha256 | None,
        "SHA-256 of the sources of the kernel and the kind that made the release; null where it can't be read.",
    ]
    kernel_is_installed: Annotated[bool, "Whether this installation has the same sources."]


class ReleaseRow(TypedDict):
    """A release in the ledger."""

    release_id: Annotated[str, "Id of the release, unique in the ledger."]
    dataset: Annotated[str, "Name of the data set whose budget paid."]
    label: Annotated[str, "Label of the release for people."]
    series: Annotated[str | None, "Name of the series that paid; null where the release paid for itself."]
    series_number: Annotated[int | None, "Number of the release in its series."]
    stage: Annotated[Stage, "Stage that the release has reached."]
    refunded: Annotated[bool, "Whether the charge was given back."]
    sample_id: Annotated[Sha256, "Commitment to the sampling key."]
    selection_sample_id: Annotated[Sha256 | None, "Commitment to the key of the sample that the map is drawn on."]
    mechanism: Annotated[Mechanism, "Versioned record of the mechanism."]
    epsilon: Annotated[Number, "ε as charged; null where a series paid."]
    delta: Annotated[Number, "δ as charged; null where a series paid."]
    rule: Annotated[str, "Versioned name of the theorem that gave the price."]
    day: Annotated[Day, "Day of the charge."]
    position: Annotated[int, "Position of the charge in the ledger."]


class ListedRelease(ReleaseRow):
    """A release with what it published, as far as it lies on this machine."""

    output: Annotated[str | None, "Folder or URL of the release; null where it isn't known."]
    levels: Annotated[dict[str, int] | None, "Level of each column."]
    levels_drawn: Annotated[bool | None, "Whether the levels were drawn privately."]
    published_groups: Annotated[int | None, "Number of rows of the table, repetitions not counted."]
    published_records: Annotated[int | None, "Number of published records; null where what is published counts none."]


class ReleaseList(TypedDict):
    """Releases in the order of their charges."""

    releases: Annotated[list[ListedRelease], "The latest releases, or all of them."]
    release_count: Annotated[int, "Number of all releases."]


class ShownRelease(ListedRelease):
    """One release."""

    cost: Annotated[str, "What the release has cost so far, in words."]
    largest_groups: Annotated[
        list[dict[str, str | int]] | None,
        "The largest groups: label of each column, and `count`; null where there are none to show.",
    ]


class BudgetRaise(TypedDict):
    """A budget was raised."""

    epsilon: Annotated[float, "New budget of ε."]
    delta: Annotated[float, "New budget of δ."]
    reason: Annotated[str, "Reason for the raise."]
    by: Annotated[str, "Who raised the budget."]
    day: Annotated[Day, "Day of the raise."]
    position: Annotated[int, "Position of the entry in the ledger."]


class Account(TypedDict):
    """What is spent and left of a budget; amounts that a filter budget doesn't have are null."""

    accounting: Annotated[Literal["additive", "filter"], "How the costs of releases add up."]
    order: Annotated[Number, "Order of a filter budget's divergences."]
    epsilon_budget: Annotated[float, "Budget of ε."]
    epsilon_spent: Annotated[Number, "ε that is spent of the budget."]
    epsilon_left: Annotated[Number, "ε that is left of the budget, rounded down."]
    delta_budget: Annotated[float, "Budget of δ."]
    delta_spent: Annotated[Number, "δ that is spent of the budget."]
    delta_left: Annotated[Number, "δ that is left of the budget, rounded down."]
    spent_share: Annotated[float, "Share of the budget that is spent."]
    remaining: Annotated[dict[str, float], "What is left: ε and δ, or divergence and tail."]
    allowance: NotRequired[Annotated[dict[str, float], "Largest sums of a filter budget: divergence and tail."]]
    spent: NotRequired[Annotated[dict[str, float], "What is spent of a filter budget: divergence and tail."]]


class DatasetRow(Account):
    """A data set and its budget."""

    dataset: Annotated[str, "Name of the data set."]
    raises: Annotated[list[BudgetRaise], "Raises of the budget."]
    relation: Annotated[Relation, "The neighbouring relation of the guarantees."]
    survey: Annotated[bool, "Whether the data set is itself a sample."]
    rows_per_person: Annotated[int, "Largest number of records of one person in a delivery."]
    unit: Annotated[
        str | None,
        "Unit that all releases hide: record, person:COLUMN or household:COLUMN; null where nothing fixes it.",
    ]


class DatasetList(TypedDict):
    """All data sets."""

    datasets: Annotated[list[DatasetRow], "All data sets, in the order in which they were added."]


class EstimatedDataset(DatasetRow):
    """A data set and its budget, with an estimate of its composed ε."""

    epsilon_estimate: Annotated[Number, "ε of all releases, composed; an estimate without guarantee."]


class SeriesPart(TypedDict):
    """A part of a series of different mechanisms."""

    part: Annotated[int, "Number of the part."]
    mechanism: Annotated[str, "Mechanism of the part, in words."]
    releases: Annotated[int, "Number of releases of the part."]
    taken: Annotated[int, "Number of these releases that are taken."]
    remaining: Annotated[int, "Number of these releases that remain."]


class SeriesRow(TypedDict):
    """A series."""

    series: Annotated[str, "Name of the series."]
    dataset: Annotated[str, "Name of the data set whose budget paid."]
    releases: Annotated[int, "Number of releases of the series."]
    taken: Annotated[int, "Number of these releases that are taken."]
    remaining: Annotated[int, "Number of these releases that remain."]
    mechanism: Annotated[Mechanism, "Versioned record of the mechanism."]
    free_columns: Annotated[bool, "Whether each release has columns of its own."]
    parts: Annotated[list[SeriesPart] | None, "The parts of the series, where its mechanisms differ."]
    epsilon: Annotated[float, "ε of all releases of the series."]
    delta: Annotated[float, "δ of all releases of the series."]
    epsilon_paper: Annotated[Number, "ε by the published bound; null where that bound gives none."]
    rule: Annotated[str, "Versioned name of the theorem that gave the price."]
    day: Annotated[Day, "Day of the registration."]
    position: Annotated[int, "Position of the entry in the ledger."]


class SeriesList(TypedDict):
    """All series."""

    series: Annotated[list[SeriesRow], "All series, in the order of their registration."]


class PrivateLook(TypedDict):
    """Somebody looked at the records outside of a release."""

    dataset: Annotated[str, "Name of the data set that was looked at."]
    what: Annotated[str, "What was looked at."]
    by: Annotated[str, "Who looked."]
    day: Annotated[Day, "Day of the look."]
    position: Annotated[int, "Position of the entry in the ledger."]


class Chain(TypedDict):
    """The ledger's chain."""

    entries: Annotated[int, "Number of entries."]
    head: Annotated[Sha256, "Hash of the last entry."]


class LedgerShown(TypedDict):
    """The ledger."""

    datasets: Annotated[list[EstimatedDataset], "All data sets."]
    series: Annotated[list[SeriesRow], "The latest series, or all of them."]
    series_count: Annotated[int, "Number of all series."]
    releases: Annotated[list[ReleaseRow], "The latest releases, or all of them."]
    release_counts: Annotated[dict[Stage, int], "Number of releases by stage."]
    private_looks: Annotated[list[PrivateLook], "All looks outside of releases."]
    chain: Annotated[Chain, "The chain of the entries."]
    epsilon_estimate_note: Annotated[str, "What the estimates are not."]


class LedgerVerified(TypedDict):
    """Whether the ledger holds together."""

    ok: Annotated[bool, "Whether no finding was made."]
    findings: Annotated[list[str], "What doesn't hold."]
    unchecked: Annotated[list[str], "What could not be checked."]
    witnessed: Annotated[
        int | None,
        "Number of entries that enough witnesses have cosigned; 0 if that does not hold, null where no "
        "witness is named.",
    ]


class LedgerMigrated(TypedDict):
    """The ledger's tables before and after."""

    before: Annotated[str, "Schema revision before the migration."]
    after: Annotated[str, "Schema revision after the migration."]
    entries: Annotated[int, "Number of entries, all of which stayed as they were."]
    mended: Annotated[bool, "Whether the snapshot of the state was damaged, and was made again."]


class HierarchyFinding(TypedDict):
    """What is wrong, or perhaps not meant, in a hierarchy."""

    line: Annotated[int | None, "Line of the file; null where the finding is about no line."]
    what: Annotated[str, "What the finding is."]


class HierarchyChecked(TypedDict):
    """What was found in a hierarchy."""

    ok: Annotated[bool, "Whether the hierarchy has no fault."]
    findings: Annotated[list[HierarchyFinding], "The faults."]
    remarks: Annotated[list[HierarchyFinding], "What breaks no rule but is perhaps not meant."]
    values: Annotated[int, "Number of values."]
    labels_per_level: Annotated[list[int], "Number of labels of each level, from level 0."]
    separator: Annotated[str, "Separator of the file."]
    sha256: Annotated[
        Sha256 | None, "SHA-256 as certificates have it; null where a specification doesn't take the file."
    ]


class HierarchyTree(TypedDict):
    """A hierarchy from its most general labels down."""

    levels: Annotated[int, "Number of levels."]
    values: Annotated[int, "Number of values."]
    tree: Annotated[
        dict[str, Any],
        ("additionalProperties", {"$ref": "#/$defs/HierarchyTree/properties/tree"}),
        "Each label with the tree of what lies below it; a value has nothing below it.",
    ]


class DocumentWritten(TypedDict):
    """Where the files of a document about a release are."""

    files: Annotated[list[str], "The new files."]


class SheetWritten(TypedDict):
    """Where the sheet for researchers is, and the lookup file of its labels."""

    html: Annotated[str, "File of the sheet in HTML."]
    markdown: Annotated[str, "File of the sheet in Markdown."]
    labels: Annotated[str, "File of the table's labels."]


class TokenMade(TypedDict):
    """A token, shown once."""

    name: Annotated[str, "Name of the person that the token is for."]
    expires: Annotated[Day, "First day on which the token opens nothing."]
    token: Annotated[str, "The secret token."]


class TokenRow(TypedDict):
    """A token without its secret."""

    token_id: Annotated[str, ("pattern", "^[0-9a-f]{16}$"), "Id of the token."]
    name: Annotated[str, "Name of the person that the token is for."]
    added: Annotated[Day, "Day on which the token was added."]
    expires: Annotated[Day, "First day on which the token opens nothing."]
    state: Annotated[Literal["active", "expired", "revoked"], "State of the token today."]


class TokenList(TypedDict):
    """All tokens."""

    tokens: Annotated[list[TokenRow], "All tokens, in the order in which they were added."]


class PublicKey(TypedDict):
    """A public key."""

    key_id: Annotated[str, "Id of the key."]
    public_key: Annotated[Sha256, "Bytes of the key in hexadecimal digits."]


class KeysShown(TypedDict):
    """The public keys of the private store."""

    current: Annotated[str, "Id of the key that signs now."]
    keys: Annotated[list[PublicKey], "The current key, then the earlier ones."]
