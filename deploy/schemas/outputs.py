"""The forms of what commands print with `--json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from ...accounting.theory.planning.planner import Plan
from ...mechanisms.measures.utility import UtilityMeasures
from ..commands.doctor import Check
from ..documents.preview.deletion import DeletionForecast
from ..documents.preview.forecast import Forecast, Suggestion
from .documents import Day, Inclusion, Mechanism, PlannedMargins, PublishedMargins, PublishedStage, Sha256

__all__ = ["OUTPUTS", "Refused"]

Stage = Literal["charged", "reading", "published", "abandoned"]
Number = float | None


class Refusal(TypedDict):
    """Why a command did not do what it was asked.

    Args:
        kind: failed, after a charge; input, the specification or the command is wrong; accountant, it refuses.
        exit_code: with which the command leaves.
        where: file, line, key or option; may be empty.
        message: what is wrong, what was not done, and what to do.
    """

    kind: Literal["failed", "input", "accountant"]
    exit_code: Literal[1, 2, 3]
    where: str
    message: str


class Refused(TypedDict):
    """What every command prints where it refuses or fails.

    Args:
        error: why.
        release_id: of a release that was broken off.
    """

    error: Refusal
    release_id: NotRequired[str]


class SeriesPlace(TypedDict):
    """The place that a release takes in its series.

    Args:
        name: of the series.
        number: from 1.
        releases: how many the series has.
        part: where the series' mechanisms differ.
    """

    name: str
    number: int
    releases: int
    part: NotRequired[int]


class FilterTaken(TypedDict):
    """What a release took of a filter budget.

    Args:
        order: of the divergence.
        divergence: at that order.
        tail: the mass that was cut off for it.
        share: of the budget.
    """

    order: float
    divergence: float
    tail: float
    share: float


class RunResult(TypedDict):
    """A release that was published.

    Args:
        release_id: unique in the ledger.
        looked_up: whether it had been published before, so that nothing was charged now.
        dataset: whose budget paid.
        series: its place, null where it paid for itself.
        filter_charge: of a data set with a filter budget.
        sample_id: commitment to the sampling key; null where no sample was drawn.
        mechanism: its versioned record.
        epsilon: ε as charged.
        delta: δ as charged.
        epsilon_paper: ε by the published bound; null where it gives none.
        levels: level of each column.
        published_groups: rows of the table without repetitions.
        published_records: null where what is published counts none.
        stages: of a deletion release.
        margins: of a deletion release.
        output: where the release lies.
        certificate: where its certificate lies.
        timings: seconds of each stage.
    """

    release_id: str
    looked_up: bool
    dataset: str
    series: SeriesPlace | None
    filter_charge: NotRequired[FilterTaken]
    sample_id: Sha256 | None
    mechanism: Mechanism
    epsilon: float
    delta: float
    epsilon_paper: Number
    levels: dict[str, int]
    published_groups: int
    published_records: int | None
    stages: NotRequired[list[PublishedStage]]
    margins: NotRequired[PublishedMargins]
    output: str
    certificate: str
    timings: dict[str, float]


class Charge(TypedDict):
    """What would be charged.

    Args:
        epsilon: ε.
        delta: δ.
    """

    epsilon: float
    delta: float


class BudgetFacts(TypedDict):
    """A data set's budget, and what would be left of it; amounts that a filter budget doesn't have are null.

    Args:
        dataset: its name.
        accounting: how its releases add up; not there without a ledger.
        epsilon_budget: ε of the budget.
        epsilon_spent: of it.
        epsilon_left: of it.
        epsilon_left_after: after the charge; negative where it doesn't fit.
        delta_budget: δ of the budget.
        delta_spent: of it.
        delta_left: of it.
        delta_left_after: after the charge.
        order: of a filter's divergences.
        divergence: that the charge takes of a filter.
        tail: that it takes of a filter.
        spent_share: of a filter.
        spent_share_after: the charge.
        problem: why a charge would be refused.
    """

    dataset: str
    accounting: NotRequired[Literal["additive", "filter"]]
    epsilon_budget: Number
    epsilon_spent: Number
    epsilon_left: Number
    epsilon_left_after: Number
    delta_budget: Number
    delta_spent: Number
    delta_left: Number
    delta_left_after: Number
    order: NotRequired[float]
    divergence: NotRequired[float]
    tail: NotRequired[float]
    spent_share: NotRequired[float]
    spent_share_after: NotRequired[float]
    problem: str | None


class SourceFacts(TypedDict):
    """The records' source by its metadata.

    Args:
        files: how many; 0 of a database's query.
        format: of the files.
        problem: why it can't be read.
        version: of a lake table.
        remarks: what seems wrong.
    """

    files: int | None
    format: str | None
    problem: str | None
    version: int | None
    remarks: list[str]


class Limit(TypedDict):
    """Whose records are limited.

    Args:
        unit: person or household.
        column: that names it.
        records: the most that count.
    """

    unit: Literal["person", "household"]
    column: str
    records: int


class DryRun(TypedDict):
    """What a run would begin with.

    Args:
        dry_run: always true.
        release_id: that was asked for.
        stage: of a release of this id that there is.
        dataset: whose budget would pay.
        series: that would pay.
        mechanism: its versioned record.
        epsilon: ε of the guarantee.
        delta: δ of the guarantee.
        epsilon_paper: ε by the published bound.
        charge: that a run would make.
        budget: before and after it.
        source: of the records; null where the release is published already.
        levels: of the columns; null where they are drawn, or there are none.
        limit: on the records of a person or household.
        inclusion: where records have rates of their own.
        output: where the release would lie.
    """

    dry_run: Literal[True]
    release_id: str | None
    stage: Stage | None
    dataset: str
    series: str | None
    mechanism: Mechanism
    epsilon: float
    delta: float
    epsilon_paper: Number
    charge: Charge
    budget: BudgetFacts
    source: SourceFacts | None
    levels: dict[str, int] | None
    limit: Limit | None
    inclusion: NotRequired[Inclusion]
    output: str


class ExplainedLevel(TypedDict):
    """A level of a column.

    Args:
        level: its number; 0 is the value itself.
        labels: how many there are.
        values_per_label: the least and the most.
        information_kept: share of the value's information, 0 to 1.
        examples: a few labels.
        possible: whether the release may have this level.
    """

    level: int
    labels: int
    values_per_label: tuple[int, int]
    information_kept: float
    examples: list[str]
    possible: bool


class ExplainedColumn(TypedDict):
    """A released column.

    Args:
        column: its name.
        weight: in the draw of the map; null where the levels are fixed.
        min_level: the finest that the release may have.
        max_level: the coarsest.
        levels: all of them.
    """

    column: str
    weight: Number
    min_level: int
    max_level: int
    levels: list[ExplainedLevel]


class ExplainedChoice(TypedDict):
    """How the map would be drawn.

    Args:
        draw: the mechanism.
        steps: of a walk.
        on: which records.
        rate: of a fresh sample.
        epsilon: as specified.
        epsilon_of_choice: what the draw costs.
        epsilon_of_release: what the release with its drawn map costs.
        threshold: groups of fewer records count nothing for a map.
        candidates: level of each column, for each candidate; null for all within the bounds.
    """

    draw: Literal["permute-and-flip", "exponential", "walk"]
    steps: int | None
    on: Literal["whole", "fresh-sample"]
    rate: Number
    epsilon: float
    epsilon_of_choice: float
    epsilon_of_release: float
    threshold: int
    candidates: list[Any] | None


class ExplainedStage(TypedDict):
    """A stage of a deletion release.

    Args:
        levels: of the columns.
    """

    levels: dict[str, int]


class Explanation(TypedDict):
    """What a specification would do and cost; some keys are of some kinds of release alone.

    Args:
        dataset: whose budget would pay.
        mechanism: its versioned record.
        epsilon: ε of all its releases.
        delta: δ of all its releases.
        epsilon_paper: ε by the published bound.
        rule: versioned name of the theorem that gives the price.
        releases: that the price is for.
        limit: on the records of a person or household.
        inclusion: where records have rates of their own.
        columns: with their levels.
        maps: how many the release may have.
        selection: how the map is drawn.
        cells: declared cells or answers, all of them published.
        relation: the neighbouring relation.
        confidence: of the intervals.
        half_width: of each answer's interval.
        people_for_1_percent: so many reports make every standard error at most 1% of them.
        expected_deletion: records that a group loses at a stage.
        largest_deletion: the same.
        stages: of a deletion release.
        margins: beside it.
        budget: of the data set.
        source: of the records.
    """

    dataset: str
    mechanism: Mechanism
    epsilon: float
    delta: float
    epsilon_paper: Number
    rule: str
    releases: int
    limit: Limit | None
    inclusion: NotRequired[Inclusion]
    columns: list[ExplainedColumn]
    maps: int
    selection: ExplainedChoice | None
    cells: NotRequired[int]
    relation: NotRequired[str]
    confidence: NotRequired[float]
    half_width: NotRequired[float]
    people_for_1_percent: NotRequired[int]
    expected_deletion: NotRequired[float]
    largest_deletion: NotRequired[int]
    stages: NotRequired[list[ExplainedStage]]
    margins: NotRequired[PlannedMargins]
    budget: BudgetFacts
    source: SourceFacts


class DeletionPlan(TypedDict):
    """The noise of deletion releases that a budget allows.

    Args:
        mechanism: its versioned record.
        noise: its shape.
        parameter: σ of Gaussian noise, else ε of a stage.
        expected_deletion: records that a group loses at a stage.
        largest_deletion: the same.
        stages: how many.
        margins: how many.
        margin_error: standard error of each of their counts.
        releases: that the price is for.
        epsilon: ε of all of them.
        delta: δ of all of them.
        rule: versioned name of the theorem that gives the price.
    """

    mechanism: Mechanism
    noise: str
    parameter: float
    expected_deletion: float
    largest_deletion: int
    stages: int
    margins: int
    margin_error: Number
    releases: int
    epsilon: float
    delta: float
    rule: str


class Way(TypedDict):
    """How many releases of a calendar a budget pays for, in one of the ways to pay.

    Args:
        way: how they are paid.
        releases: how many.
        most: whether there may be more, which were not looked for.
        years: that they last.
        lasts: the same in words.
        epsilon: ε of all of them.
        delta: δ of all of them.
        epsilon_each: of one.
        delta_each: of one.
        share_each: of a filter budget, of one.
        limited_by: what is used up first.
    """

    way: str
    releases: int
    most: bool
    years: float
    lasts: str
    epsilon: Number
    delta: Number
    epsilon_each: Number
    delta_each: Number
    share_each: Number
    limited_by: str | None


class CalendarForecast(TypedDict):
    """How long a budget lasts for one calendar.

    Args:
        calendar: as it was asked for.
        k: suppression threshold.
        sampling_rate: of each release.
        releases_a_year: by the calendar.
        ways: to pay.
    """

    calendar: str
    k: int
    sampling_rate: float
    releases_a_year: float
    ways: list[Way]


class ChangeForecast(TypedDict):
    """What another k or rate would change.

    Args:
        k: suppression threshold.
        sampling_rate: of each release.
        releases: by the way to pay.
    """

    k: int
    sampling_rate: float
    releases: dict[str, int]


class BudgetForecast(TypedDict):
    """How long what is left of a budget lasts.

    Args:
        dataset: its name.
        accounting: how its releases add up.
        epsilon_left: of the budget.
        delta_left: of the budget.
        share_left: of a filter budget.
        calendars: that were asked for.
        changes: that would make it last longer.
    """

    dataset: str
    accounting: Literal["additive", "filter"]
    epsilon_left: float
    delta_left: float
    share_left: Number
    calendars: list[CalendarForecast]
    changes: list[ChangeForecast]


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedPlan(Plan):
    """A priced point; null where a quantity does not exist or was not asked for.

    Args:
        survival_share: of the sampled records, for the group sizes that were given.
    """

    survival_share: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class SuppressionPreview(Forecast):
    """What a release would suppress.

    Args:
        suggestions: what would lose less.
    """

    suggestions: list[Suggestion]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionPreview(DeletionForecast):
    """What a deletion release would delete.

    Args:
        suggestions: none.
    """

    suggestions: list[Suggestion]


class JobBegun(TypedDict):
    """A job that was left to run.

    Args:
        release_id: by which it is looked after.
        state: always running.
    """

    release_id: str
    state: Literal["running"]


class JobStatus(TypedDict):
    """How far a release is.

    Args:
        release_id: that was asked for.
        state: of the job, or of the release in the ledger.
        stage: that runs.
        exit_code: with which the job ended.
        message: with which it ended.
        cost: so far, in words.
    """

    release_id: str
    state: Literal["running", "killed", "cancelled", "published", "failed", "refused", "abandoned", "interrupted"]
    stage: str | None
    exit_code: int | None
    message: str | None
    cost: str | None


class ReleaseVerified(TypedDict):
    """Whether a release is what its certificate says.

    Args:
        ok: whether nothing was found.
        findings: what doesn't hold.
        signed_by: id of the key whose signature holds.
        unchecked: what was not shown.
    """

    ok: bool
    findings: list[str]
    signed_by: str | None
    unchecked: list[str]


class ReleaseRow(TypedDict):
    """A release in the ledger.

    Args:
        release_id: unique in the ledger.
        dataset: whose budget paid.
        label: for people.
        series: that paid.
        series_number: its place there.
        stage: how far it is.
        refunded: whether its charge was given back.
        sample_id: commitment to the sampling key.
        selection_sample_id: of the sample that the map is drawn on.
        mechanism: its versioned record.
        epsilon: ε as charged; null where a series paid.
        delta: δ as charged.
        rule: versioned name of the theorem that gave the price.
        day: of the charge.
        position: of the charge in the ledger.
    """

    release_id: str
    dataset: str
    label: str
    series: str | None
    series_number: int | None
    stage: Stage
    refunded: bool
    sample_id: Sha256
    selection_sample_id: Sha256 | None
    mechanism: Mechanism
    epsilon: Number
    delta: Number
    rule: str
    day: Day
    position: int


class ListedRelease(ReleaseRow):
    """A release with what it published, as far as it lies on this machine.

    Args:
        output: where it lies.
        levels: of the columns.
        levels_drawn: whether they were drawn privately.
        published_groups: rows of the table without repetitions.
        published_records: null where what is published counts none.
    """

    output: str | None
    levels: dict[str, int] | None
    levels_drawn: bool | None
    published_groups: int | None
    published_records: int | None


class ReleaseList(TypedDict):
    """Releases in the order of their charges.

    Args:
        releases: the latest, or all.
        release_count: of all.
    """

    releases: list[ListedRelease]
    release_count: int


class ShownRelease(ListedRelease):
    """One release.

    Args:
        cost: so far, in words.
        largest_groups: label of each column, and `count`; null where there are none to show.
    """

    cost: str
    largest_groups: list[dict[str, str | int | float | None]] | None


class BudgetRaise(TypedDict):
    """A budget was raised.

    Args:
        epsilon: the new budget of ε.
        delta: the new budget of δ.
        reason: why.
        by: who did.
        day: when.
        position: of the entry.
    """

    epsilon: float
    delta: float
    reason: str
    by: str
    day: Day
    position: int


class DatasetRow(TypedDict):
    """A data set and its budget; amounts that a filter budget doesn't have are null.

    Args:
        dataset: its name.
        accounting: how its releases add up.
        order: of a filter's divergences.
        epsilon_budget: ε of the budget.
        epsilon_spent: of it.
        epsilon_left: of it, rounded down.
        delta_budget: δ of the budget.
        delta_spent: of it.
        delta_left: of it, rounded down.
        spent_share: of the budget.
        remaining: ε and δ, or divergence and tail.
        allowance: of a filter.
        spent: of a filter.
        raises: of the budget.
        relation: the neighbouring relation.
        survey: whether it is itself a sample.
        rows_per_person: the most records that one person has in a delivery.
    """

    dataset: str
    accounting: Literal["additive", "filter"]
    order: Number
    epsilon_budget: float
    epsilon_spent: Number
    epsilon_left: Number
    delta_budget: float
    delta_spent: Number
    delta_left: Number
    spent_share: float
    remaining: dict[str, float]
    allowance: NotRequired[dict[str, float]]
    spent: NotRequired[dict[str, float]]
    raises: list[BudgetRaise]
    relation: Literal["add/remove", "replacement"]
    survey: bool
    rows_per_person: int


class DatasetList(TypedDict):
    """All data sets.

    Args:
        datasets: in the order in which they were added.
    """

    datasets: list[DatasetRow]


class EstimatedDataset(DatasetRow):
    """The same, with an estimate.

    Args:
        epsilon_estimate: ε of all its releases, composed; no guarantee.
    """

    epsilon_estimate: Number


class SeriesPart(TypedDict):
    """A part of a series of different mechanisms.

    Args:
        part: its number.
        mechanism: in words.
        releases: how many it has.
        taken: of these.
        remaining: of these.
    """

    part: int
    mechanism: str
    releases: int
    taken: int
    remaining: int


class SeriesRow(TypedDict):
    """A series.

    Args:
        series: its name.
        dataset: whose budget paid.
        releases: how many it has.
        taken: of these.
        remaining: of these.
        mechanism: its versioned record.
        free_columns: whether each release has columns of its own.
        parts: where its mechanisms differ.
        epsilon: ε of all its releases.
        delta: δ of all its releases.
        epsilon_paper: ε by the published bound.
        rule: versioned name of the theorem that gave the price.
        day: when it was registered.
        position: of the entry.
    """

    series: str
    dataset: str
    releases: int
    taken: int
    remaining: int
    mechanism: Mechanism
    free_columns: bool
    parts: list[SeriesPart] | None
    epsilon: float
    delta: float
    epsilon_paper: Number
    rule: str
    day: Day
    position: int


class SeriesList(TypedDict):
    """All series.

    Args:
        series: in the order of their registration.
    """

    series: list[SeriesRow]


class PrivateLook(TypedDict):
    """Somebody looked at the records outside of a release.

    Args:
        dataset: whose.
        what: was looked at.
        by: who did.
        day: when.
        position: of the entry.
    """

    dataset: str
    what: str
    by: str
    day: Day
    position: int


class Chain(TypedDict):
    """The ledger's chain.

    Args:
        entries: how many.
        head: hash of the last.
    """

    entries: int
    head: Sha256


class LedgerShown(TypedDict):
    """The ledger.

    Args:
        datasets: all of them.
        series: the latest, or all.
        series_count: of all.
        releases: the latest, or all.
        release_counts: by stage.
        private_looks: all of them.
        chain: of the entries.
        epsilon_estimate_note: what the estimates are not.
    """

    datasets: list[EstimatedDataset]
    series: list[SeriesRow]
    series_count: int
    releases: list[ReleaseRow]
    release_counts: dict[str, int]
    private_looks: list[PrivateLook]
    chain: Chain
    epsilon_estimate_note: str


class LedgerVerified(TypedDict):
    """Whether the ledger holds together.

    Args:
        ok: whether nothing was found.
        findings: what doesn't hold.
        unchecked: what was not checked.
    """

    ok: bool
    findings: list[str]
    unchecked: list[str]


class LedgerMigrated(TypedDict):
    """The ledger's tables before and after.

    Args:
        before: schema revision.
        after: schema revision.
        entries: that stayed as they were.
    """

    before: str
    after: str
    entries: int


class HierarchyFinding(TypedDict):
    """What is wrong, or perhaps not meant, in a hierarchy.

    Args:
        line: of the file; null where it is about no line.
        what: it is.
    """

    line: int | None
    what: str


class HierarchyChecked(TypedDict):
    """What was found in a hierarchy.

    Args:
        ok: whether there is no fault.
        findings: faults.
        remarks: what perhaps isn't meant.
        values: lines.
        labels_per_level: how many, from level 0.
        separator: of the file.
        sha256: as certificates name it; null where a specification doesn't take the file.
    """

    ok: bool
    findings: list[HierarchyFinding]
    remarks: list[HierarchyFinding]
    values: int
    labels_per_level: list[int]
    separator: str
    sha256: Sha256 | None


class HierarchyTree(TypedDict):
    """A hierarchy from its most general labels down.

    Args:
        levels: how many.
        values: how many.
        tree: label and what lies below it; a value has nothing below it.
    """

    levels: int
    values: int
    tree: Annotated[dict[str, Any], ("additionalProperties", {"$ref": "#/$defs/HierarchyTree/properties/tree"})]


class SheetWritten(TypedDict):
    """Where the sheet for researchers is.

    Args:
        html: a file.
        markdown: a file.
    """

    html: str
    markdown: str


class PrivateReport(TypedDict):
    """A private report. Not for publication: it has exact figures of the private records.

    Args:
        release_id: that it is about.
        report: its file.
        look: entry of the ledger that records it.
        measures: the figures.
    """

    release_id: str
    report: str
    look: int
    measures: UtilityMeasures


class TokenMade(TypedDict):
    """A token, told once.

    Args:
        name: for whom.
        expires: the first day on which it opens nothing.
        token: the secret.
    """

    name: str
    expires: Day
    token: str


class TokenRow(TypedDict):
    """A token without its secret.

    Args:
        token_id: its id.
        name: for whom.
        added: when.
        expires: the first day on which it opens nothing.
        state: today.
    """

    token_id: Annotated[str, ("pattern", "^[0-9a-f]{16}$")]
    name: str
    added: Day
    expires: Day
    state: Literal["active", "expired", "revoked"]


class TokenList(TypedDict):
    """All tokens.

    Args:
        tokens: in the order in which they were added.
    """

    tokens: list[TokenRow]


class PublicKey(TypedDict):
    """A public key.

    Args:
        key_id: its id.
        public_key: its bytes in hexadecimal digits.
    """

    key_id: str
    public_key: Sha256


class KeysShown(TypedDict):
    """The public keys of the private store.

    Args:
        current: id of the one that signs now.
        keys: that one first, then the earlier ones.
    """

    current: str
    keys: list[PublicKey]


class Examined(TypedDict):
    """What `doctor` found.

    Args:
        ok: whether all is well.
        checks: what was looked at.
    """

    ok: bool
    checks: list[Check]


OUTPUTS: dict[str, Any] = {
    "cancel": RunResult | Refused,
    "dataset list": DatasetList | Refused,
    "doctor": Examined | Refused,
    "explain": Explanation | Refused,
    "hierarchy check": HierarchyChecked | Refused,
    "hierarchy show": HierarchyTree | Refused,
    "key show": KeysShown | Refused,
    "ledger migrate": LedgerMigrated | Refused,
    "ledger show": LedgerShown | Refused,
    "ledger verify": LedgerVerified | Refused,
    "plan": PricedPlan | DeletionPlan | BudgetForecast | Explanation | Refused,
    "preview": SuppressionPreview | DeletionPreview | Refused,
    "release list": ReleaseList | Refused,
    "release show": ShownRelease | Refused,
    "report private": PrivateReport | Refused,
    "run": RunResult | DryRun | Refused,
    "series add": SeriesRow | Refused,
    "series list": SeriesList | Refused,
    "sheet": SheetWritten | Refused,
    "status": JobStatus | Refused,
    "submit": RunResult | JobBegun | Refused,
    "token add": TokenMade | Refused,
    "token list": TokenList | Refused,
    "verify": ReleaseVerified | Refused,
}
"""Words of a command → what it prints with `--json`."""
