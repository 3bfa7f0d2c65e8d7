"""What each page of the studio is given: fields with what is wrong at them, and the facts beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...accounting.ledger.lookup import DatasetState
from ...flows.approvals import Approval
from .draft_problems import Problem
from .public_previews import PublicPreview
from .release_outlook import Outlook
from .studio_runs import ReportState, RunState

STEPS = ("dataset", "file", "columns", "matters", "price", "review", "approval", "run", "result")
"""The pages in their order, by their paths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One field of a form.

    Args:
        name: of the field; its label and its hint are the texts of this name, without a number at its end.
        value: as it is shown.
        problems: what is wrong with it, as the command line says it.
        options: values to choose from, each with the text's key that is shown; none for a field that is typed into.
    """

    name: str
    value: str = ""
    problems: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The key of its texts."""
        return self.name.partition("-")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """What every page has.

    Args:
        step: the page's name in `STEPS`.
        language: of its texts.
        languages: all that there are, each with its own name.
        text: the texts of this language.
        problems: that are about the page as a whole.
    """

    step: str
    language: str
    languages: Mapping[str, str]
    text: Mapping[str, Any]
    problems: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """The page's number, from 1."""
        return STEPS.index(self.step) + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetPage:
    """The data set whose budget pays.

    Args:
        fields: of the form that adds one.
        known: those of the ledger.
        chosen: the name of the one that the draft charges.
        pays_for: how many releases like the draft what is left of it pays for; None where nobody knows.
        ledger: where it lies, without a password.
    """

    fields: Mapping[str, Field]
    known: tuple[DatasetState, ...]
    chosen: str
    pays_for: int | None
    ledger: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePage:
    """The file of the records.

    Args:
        fields: of the form.
        columns: names, types and value labels, as the file's metadata has them.
        headers: whether the names are the first line of a file, which may be a record.
    """

    fields: Mapping[str, Field]
    columns: tuple[tuple[str, str, int], ...]
    headers: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnRow:
    """One column of the file: its role as a field, what it seems to be, and whether its labels are declared."""

    number: int
    name: str
    kind: str
    role: Field
    remark: str
    declared: str
    problems: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnsPage:
    """Which columns leave, with the mark of what they were read from."""

    rows: tuple[ColumnRow, ...]
    mark: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnPage:
    """How a column's values become labels.

    Args:
        number: of the column, from 0.
        name: of the column.
        remarks: what `spec new` says of it.
        fields: of the form.
        levels: what the declaration gives, as `explain --json` has it; empty where it is refused.
        paired: whether the release finds the level itself.
        next_number: of the released column after it; None of the last.
        mark: of the columns that the number is of.
    """

    number: int
    name: str
    remarks: tuple[str, ...]
    fields: Mapping[str, Field]
    levels: tuple[dict[str, Any], ...]
    paired: bool
    next_number: int | None
    mark: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MattersPage:
    """Which columns matter most, and which go together.

    Args:
        paired: whether anything is weighed in this kind.
        fields: of the form.
        columns: of each released column its name, and the fields of its weight, whether it is in every block, and the
            names of its own blocks.
        themes: names of blocks with their columns; empty where the release finds them.
        mark: of the columns that the fields are numbered by.
        computing: whether the tables are still being planned.
    """

    paired: bool
    fields: Mapping[str, Field]
    columns: tuple[tuple[str, Field, Field, Field], ...]
    themes: tuple[tuple[str, str], ...]
    mark: str
    computing: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PricePage:
    """The kind of release and its price.

    Args:
        kind: of release.
        fields: of the form.
        slider: ε as the slider has it.
        outlook: what it would tell; None while it is computed, or where it can't be.
        computing: whether it is computed.
        records: about how many there are; None where nobody says.
        left: of ε in the budget; None where no data set is chosen.
        public: what public records foretell; None where none are named.
    """

    kind: str
    fields: Mapping[str, Field]
    slider: str
    outlook: Outlook | None
    computing: bool
    records: int | None
    left: float | None
    public: PublicPreview | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewPage:
    """The specification, and what a run would begin with.

    Args:
        fields: of the form.
        lines: of the specification, each with the key of the text that says what it means.
        found: what is wrong, each with where it is mended; None while it is computed.
        facts: of the dry run, as `run --dry-run --json` prints it; None where there is none.
        warnings: of the dry run, which decide nothing.
        command: that does the same.
        waits: whether a second person has to approve it first, and hasn't.
    """

    fields: Mapping[str, Field]
    lines: Sequence[tuple[str, str]]
    found: tuple[Problem, ...] | None
    facts: Mapping[str, Any] | None
    warnings: tuple[str, ...]
    command: str
    waits: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalPage:
    """Whether a second person approves it.

    Args:
        fields: of the form that takes the approval.
        approvers: the file of those who may; empty where nobody has to.
        digest: that is signed; empty where there is none yet.
        computing: whether it is computed.
        given: the approval that counts; None where there is none.
        command: by which a second person approves a copy of it.
    """

    fields: Mapping[str, Field]
    approvers: str
    digest: str
    computing: bool
    given: Approval | None
    command: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """The run.

    Args:
        run: how far it is; None where none was begun.
        fields: of the form that gives a release up.
        stages: all that there are.
        waits: whether a second person has to approve the draft first, and hasn't.
        commands: for what is typed and not clicked, by the keys of their texts.
        facts: of the dry run of what would be charged; None where there is none.
        computing: whether they are computed.
        mark: of what would be charged.
    """

    run: RunState | None
    fields: Mapping[str, Field]
    stages: tuple[str, ...]
    waits: bool
    commands: Mapping[str, str]
    facts: Mapping[str, Any] | None
    computing: bool
    mark: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultPage:
    """What was published.

    Args:
        run: that published it; None where none has.
        folder: of the release.
        findings: what doesn't hold of it; empty where it verifies.
        unchecked: what the check doesn't show.
        tables: of each its file's name, its headers and its first rows.
        files: names of all published files.
        said: sentences on what was published.
        sheet: the path of the researchers' sheet; empty where it couldn't be made.
        commands: to check and to describe it.
        computing: whether it is still being verified.
        fields: of the form that asks for a private report.
        report: how far that is; None where nothing is published.
    """

    run: RunState | None
    folder: str
    findings: tuple[str, ...]
    unchecked: tuple[str, ...]
    tables: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]], ...]
    files: tuple[str, ...]
    said: tuple[str, ...]
    sheet: str
    commands: tuple[str, ...]
    fields: Mapping[str, Field]
    computing: bool = False
    report: ReportState | None = None
