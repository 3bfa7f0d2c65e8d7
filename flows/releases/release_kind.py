"""What every kind of release must say of itself: its table, how it counts, which documents tell of it; all kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from pydantic import BaseModel

from ...accounting.kernel.prices.mechanism_kind import Price
from ...accounting.kernel.prices.registry import kind_of, price
from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.kernel.amounts import amount_exact, amount_shown
from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.kernel.mechanism import Mechanism
from ...mechanisms.kinds.calibrated_sample import CalibratedSample
from ...mechanisms.kinds.histogram import SuppressedHistogram
from ...mechanisms.kinds.microdata import EpsilonSafeRelease, StronglySafeRelease
from ...mechanisms.map_selection.choice import Levels, MapChoice
from ...tasks.destinations import Output, output_at
from ...tasks.readers.values import RecordReading
from ...tasks.request import AlsoFormat, FileFormat, MetadataTexts, Request
from ..columns import contribution_limit, read_query, record_reading, require_statistics_names
from ..spec_tables import ColumnTable, PrivacyTable, SpecTables, refuse_unknown_noise, refuse_unsafe

if TYPE_CHECKING:
    from ...mechanisms.inclusion import InclusionColumn
    from ...mechanisms.kernel.contributions import ContributionLimit
    from ...mechanisms.kernel.protection import Protection
    from ...mechanisms.kinds.deletion import DeletionRelease
    from ...mechanisms.unit_records import UnitRule
    from ...tasks.inputs.source import DatabaseQuery, SourceLayout
    from ...tasks.kernel.protected import ExactCounts
    from ...tasks.stages.count import ReleaseWork
    from ...tasks.stages.table import Publication

DEFAULT_KIND = "microdata"
"""The kind of a specification that has no table of another kind."""

KINDS = {
    "microdata": f"{__package__}.microdata_release",
    "histogram": f"{__package__}.histogram_release",
    "points": f"{__package__}.points_release",
    "answer": f"{__package__}.answer_release",
    "deletion": f"{__package__}.deletion_release",
    "reports": f"{__package__}.local_reports_release",
    "synthetic": f"{__package__}.synthetic_release",
}
"""Name of the kind → its module, which has a `KIND`. A new kind is a line here, or is added from elsewhere."""


def add_release_kind(module: str) -> None:
    """Add the kind of release of another distribution, which charges a kind of mechanism that was switched on.

    Args:
        module: its full name; it has a `KIND`.

    Raises:
        InputRefused: the module can't be loaded, or its kind has the name of another one.
    """
    try:
        kind: ReleaseKind = import_module(module).KIND
    except (ImportError, AttributeError) as error:
        raise InputRefused(
            f"the kind of release in {module} can't be loaded ({type(error).__name__}: {error})."
        ) from None
    if KINDS.get(kind.name, module) != module:
        raise InputRefused(f"there is another kind of release {kind.name!r} already.", where=module)
    KINDS[kind.name] = module


def release_kind(name: str) -> ReleaseKind:
    """Return a kind of release by its name.

    Raises:
        KeyError: there is no such kind.
    """
    kind: ReleaseKind = import_module(KINDS[name]).KIND
    return kind


REHEARSED = frozenset({"microdata", "deletion", "synthetic"})
"""The kinds of release that can be rehearsed: those that publish rows of labels."""
_REHEARSAL_SHARE = Decimal("0.05")
_THREE_DIGITS = Context(prec=3, rounding=ROUND_FLOOR)


def rehearsal_epsilon(request: Request) -> Decimal | None:
    """Return the ε of a rehearsal, a twentieth of the release's; None where such a release can't be rehearsed."""
    if request.rehearsal or request.kind not in REHEARSED or request.price.releases > 1:
        return None
    # Rounded down, so that the rehearsal never takes more than its share.
    return _THREE_DIGITS.multiply(request.price.epsilon, _REHEARSAL_SHARE)


def kind_of_mechanism(mechanism: Mechanism) -> ReleaseKind:
    """Return the kind of release that charges a mechanism.

    Raises:
        LookupError: none does.
    """
    for kind in map(release_kind, KINDS):
        if isinstance(mechanism, kind.mechanisms):
            return kind
    raise LookupError(f"no kind of release charges a {type(mechanism).__name__}")


Suppressing = StronglySafeRelease | EpsilonSafeRelease | CalibratedSample | SuppressedHistogram
"""Mechanisms whose suppression can be predicted on records that may be looked at."""


Shape = Literal["microdata", "counts", "histogram", "answers", "synthetic"]
"""What the rows of a published table are."""


class _Shared(TypedDict):
    label: str
    file_format: FileFormat
    also: tuple[AlsoFormat, ...]
    codes: Mapping[str, Mapping[str, int]]
    metadata: MetadataTexts | None
    verify_page: bool
    output: Output
    dataset: str
    source: str
    base: Path
    version: int | None
    query: DatabaseQuery | None
    reading: RecordReading
    limit: ContributionLimit | None
    unit_rule: UnitRule | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenSpec:
    """A specification whose tables go together.

    Args:
        kind: its name.
        own: the table of its kind, by the kind's model; None for the kind that has none.
        output: where the release will be published, instead of the place that the specification names.
        unit_rule: by which each unit's records make one; None where they count as they are.
        releases: how many releases of it δ and the price are for.
        recorded: the mechanism of the release or series that is in the ledger already; None for a new one.
    """

    path: Path
    tables: SpecTables
    kind: str
    own: Any
    base: Path
    unit_rule: UnitRule | None
    output: Output | None
    releases: int
    recorded: Mechanism | None

    @property
    def privacy(self) -> PrivacyTable:
        """[privacy].

        Raises:
            InputRefused: it is missing.
        """
        if self.tables.privacy is None:
            raise InputRefused("this is required and missing.", where=f"{self.path}: [privacy].delta")
        return self.tables.privacy

    @property
    def columns(self) -> Mapping[str, ColumnTable]:
        """[columns], at least one.

        Raises:
            InputRefused: there is none.
        """
        if not self.tables.columns:
            raise InputRefused(
                "no column is named, so nothing would be released.",
                where=f"{self.path}: [columns]",
                remedy="Write a table such as [columns.age] for each column that may leave; where these stand as "
                "comments, remove the # before their lines.",
            )
        return self.tables.columns

    @property
    def sampling_rate(self) -> Decimal | None:
        """[sampling].rate, or the highest of its rates, where there is one."""
        table = self.tables.sampling
        if table is None or table.rates is None:
            return None if table is None else table.rate
        return table.rates[-1]

    def drawn_rates(self) -> InclusionColumn | None:
        """Return the column of rates that records are drawn with, None where they have one rate.

        Raises:
            InputRefused: rates that can't be drawn with, or a column that is released too.
        """
        table = self.tables.sampling
        if table is None or table.column is None or table.rates is None:
            return None
        from ...mechanisms.inclusion import drawn_rates, require_rates  # of releases with such a column alone

        try:
            require_rates(table.rates)
            found = drawn_rates(table.column, table.rates)
        except ValueError as error:
            raise InputRefused(f"{error}.", where=f"{self.path}: [sampling].rates") from None
        self.require_apart(found, key="column")
        return found

    def require_apart(self, inclusion: InclusionColumn, *, key: str) -> None:
        """Check that a column that says the rate isn't released too."""
        if inclusion.column.name in self.tables.columns:
            raise InputRefused(
                "a column can't both be released and give the inclusion rate.",
                where=f"{self.path}: [sampling].{key}",
                remedy="Copy the column under another name.",
            )

    @property
    def shared(self) -> _Shared:
        """Return what every kind's request takes from the specification as it is.

        Raises:
            InputRefused: no output is named.
        """
        release, data = self.tables.release, self.tables.data
        if self.output is None and release.output is None:
            raise InputRefused(
                "no output is named.", where=f"{self.path}: [release].output", remedy="Name one here or with --output."
            )
        names = [*self.tables.columns, *([] if data.weight is None else [data.weight])]
        require_statistics_names(names, formats=release.also, where=f"{self.path}: [release].also")
        return _Shared(
            label=release.name,
            file_format=release.format,
            also=tuple(release.also),
            # Codes are of files of statistics packages alone. Others leave them out, so that declaring them changes no
            # digest of a release that doesn't use them.
            codes={name: dict(column.codes) for name, column in self.tables.columns.items() if column.codes}
            if release.also
            else {},
            metadata=None if release.metadata is None else MetadataTexts(**release.metadata.model_dump()),
            verify_page=release.verify_page,
            output=self.output or output_at(str(release.output), base=self.base),
            dataset=data.dataset,
            source=data.source,
            base=self.base,
            version=data.version,
            query=read_query(self.path, self.tables),
            reading=record_reading(self.tables),
            limit=contribution_limit(self.path, self.tables),
            unit_rule=self.unit_rule,
        )

    @property
    def epsilon(self) -> Decimal:
        """Return [privacy].epsilon of a kind that asks for it.

        Raises:
            InputRefused: it is missing.
        """
        if self.privacy.epsilon is None:
            raise InputRefused("this is required and missing.", where=f"{self.path}: [privacy].epsilon")
        return self.privacy.epsilon

    def priced(
        self,
        mechanism: Mechanism,
        *,
        costs: str = "this costs",
        remedy: str = "Lower the rate or the noise's ε, or raise k or the margin.",
    ) -> Price:
        """Return the price of the releases at [privacy].delta, which is at most the ε asked for."""
        rows = self.tables.data.rows_per_person
        charged = price(mechanism, delta=self.privacy.delta, releases=self.releases, rows_per_person=rows)
        self.require_affordable(charged, costs=costs, remedy=remedy)
        return charged

    def require_affordable(self, charged: Price, *, costs: str, remedy: str) -> None:
        """Refuse a price above the ε that was asked for; `costs` says what costs it, as "this costs"."""
        asked = self.privacy.epsilon
        if asked is None or charged.epsilon <= asked:
            return
        together = "" if self.releases == 1 else f" for {self.releases} releases"
        raise InputRefused(
            f"{costs} ε = {amount_shown(charged.epsilon)}{together} at δ = {amount_exact(charged.delta)}, more than "
            f"the ε = {amount_exact(asked)} asked for.",
            where=f"{self.path}: [privacy].epsilon",
            remedy=remedy,
        )

    def require_parameters(
        self, needed: Sequence[str], *, of: Sequence[str], what: str = "this kind", remedy: str = ""
    ) -> None:
        """Refuse a parameter that the kind's table has and what it asks for hasn't, or the other way round.

        Args:
            needed: those that must be there.
            of: all that there are.
        """
        where = f"{self.path}: [{self.kind}]"
        for name in of:
            if (present := getattr(self.own, name) is not None) is not (name in needed):
                raise InputRefused(
                    f"this is not a parameter of {what}." if present else "this is required and missing.",
                    where=f"{where}.{name}",
                    remedy="Remove it." if present else remedy,
                )

    def require_kind(self, kinds: Collection[str]) -> None:
        """Refuse a kind in the kind's table that gives no guarantee or that there isn't, and such noise."""
        where, kind = f"{self.path}: [{self.kind}]", self.own.kind
        refuse_unsafe(kind, where=f"{where}.kind")
        if kind not in kinds:
            raise InputRefused(
                f"there is no kind {kind!r}.", where=f"{where}.kind", remedy=f"Name one of {', '.join(kinds)}."
            )
        refuse_unknown_noise(self.own.noise, where=f"{where}.noise")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableReading:
    """How a published table is read: by one rate, one threshold and one noise.

    Args:
        shape: what its rows are.
        rate: rate of the sample that was counted; None where every record was.
        k: the mechanism's threshold; None where it has none.
        suppresses: whether groups below the threshold are missing.
        noise: ε of the noise on counts; None where there is none.
    """

    shape: Shape
    rate: Decimal | None
    k: int | None
    suppresses: bool
    noise: Decimal | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NoDocument:
    """Why there is no such document."""

    of: tuple[str, ...]

    def named(self, word: str = "") -> str:
        """Return what there is none of, in words.

        Args:
            word: to be repeated before each but the first.
        """
        first, *more = self.of
        *between, last = [first, *(f"{word} {name}".strip() for name in more)]
        return f"{', '.join(between)} or {last}" if between else last


K_MEANS, NOISE_MEANS, RATE_MEANS = (
    "counts below it are dropped or noisy",
    "ε of the noise",
    "probability that a record is sampled; whole: every record is read",
)
"""What several kinds' parameters k, epsilon and sampling_rate mean."""

WITHOUT_DOCUMENTS = NoDocument(of=("points", "unequal inclusion rates", "local reports"))


class Observer(Protocol):
    """What shows which stage runs and how far it is: the steward's terminal, nothing else."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Return a stage, from its beginning to its end."""
        ...

    def on_progress(self, done: int, total: int) -> None:
        """So much of the running stage is done."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseKind:
    """A kind of release: what it asks for, how it is made, and what is said of it. INVARIANT: no field has a default.

    Args:
        name: of its table in a specification, and in the registry.
        model: of its table; None for the kind that a specification without such a table is of.
        allows: the other tables that it knows, besides [release], [data] and [cluster].
        mechanisms: what it charges.
        series: whether it can be one of a series.
        forms: whether [release].form says if rows or counts are published.
        limits: whether [data].person or household can limit what is counted of one.
        unequal_rates: which keys of [sampling] but rate a release with this table has a price for: "column" where its
            own coins can draw each record at the rate that it names, "design" where the data were drawn so.
        request: what a specification asks for; refuses what is wrong with it.
        layout: the source's files by their metadata; refuses a source that isn't what is asked for.
        count: counts exactly, on the workers.
        protection: makes of exact counts what may be published; of the levels that were drawn, None where they are
            fixed.
        finish: makes the publication of what the protection gave.
        explain: what `explain` tells of a request besides price and columns; how many "cells" there are, where all
            that are declared are published.
        meanings: field of its mechanisms' records → what it means, for those that `explain` shows.
        sheet: how a table is read, by mechanism and form; or why there is no sheet, and no preview by such a table.
        preview: the suppression or deletion that can be predicted; None where there is neither; or why there is no
            preview.
        figures: the published columns that have numbers and not the labels of a hierarchy; None where all have.
    """

    name: str
    model: type[BaseModel] | None
    allows: frozenset[str]
    mechanisms: tuple[type, ...]
    series: bool
    forms: bool
    limits: bool
    unequal_rates: Callable[[Any], frozenset[str]]
    request: Callable[[GivenSpec], Request]
    layout: Callable[[Any], SourceLayout]
    count: Callable[[Any, ReleaseWork, GeneralizationMap], ExactCounts]
    protection: Callable[[Any, Levels | None], Protection[Any, Any]]
    finish: Callable[[Any, GeneralizationMap, Any], Publication]
    explain: Callable[[Any], dict[str, Any]]
    meanings: Mapping[str, str]
    sheet: Callable[[Any, str], TableReading | NoDocument]
    preview: Callable[[Any], Suppressing | DeletionRelease | NoDocument | None]
    figures: frozenset[str] | None


def record_layout(request: Request) -> SourceLayout:
    """Return the files of records with their headers, or a database's columns with their types; no record is read.

    Raises:
        InputRefused: there are none, or they lack a column.
    """
    columns = tuple(column.name for column in request.source_columns)
    if request.query is not None:
        return request.query.read_by.layout(request.query, columns=columns, limit=request.limit)
    from ...tasks.inputs.list import list_records  # pyarrow, which a refusal does without
    from ...tasks.inputs.source import check_metadata  # pyarrow, which a refusal does without
    from ...tasks.readers.statistics_files import require_one_meaning

    source = list_records(request.source, base=request.base, version=request.version)
    layout = check_metadata(source, columns=columns, reading=request.reading)
    require_one_meaning(
        layout.layouts,
        [file.path for file in source.files],
        hierarchies={column.name: column.hierarchy for column in request.source_columns},
    )
    if request.limit is None:
        return layout
    from ...tasks.inputs.source import with_person_column

    return with_person_column(source, columns=columns, reading=request.reading, limit=request.limit)


def require_left(epsilon: Decimal | None, *, choice: Decimal, path: Path) -> None:
    """Refuse a choice of the map that leaves nothing of the ε asked for.

    Args:
        choice: what the choices of all releases cost in ε.
    """
    if epsilon is not None and choice >= epsilon:
        raise InputRefused(
            f"choosing the map costs ε = {amount_shown(choice)}, which leaves nothing of the ε = "
            f"{amount_exact(epsilon)} asked for.",
            where=f"{path}: [selection].epsilon",
            remedy="Lower it, or raise [privacy].epsilon.",
        )


def explained_choice(
    choice: MapChoice, *, epsilon: Decimal, rate: Decimal | None, costs: Decimal, alone: Price, threshold: int
) -> dict[str, Any]:
    """Return what `explain` says of a choice of the map.

    Args:
        epsilon: ε₁, as it was asked for.
        rate: of the fresh sample that the map is chosen on; None for all records.
        costs: ε of one choice.
        alone: the price of the release without the choice.
        threshold: from which size on a group's records count.
    """
    listed = choice.lattice.candidates
    return {
        "draw": choice.draw,
        "steps": choice.steps,
        "on": "whole" if rate is None else "fresh-sample",
        "rate": None if rate is None else float(rate),
        "epsilon": float(epsilon),
        "epsilon_of_choice": float(costs),
        "epsilon_of_release": float(alone.epsilon),
        "threshold": threshold,
        "candidates": None if listed is None else [choice.lattice.named(levels) for levels in listed],
    }


def chosen_map(request: Request, work: ReleaseWork, observer: Observer) -> GeneralizationMap:
    """Return the map that records are counted by, of several stages the first: the fixed one, or one drawn and stored.

    Raises:
        ReleaseFailed: the choice has not been paid for, or as of `tasks.stages.count.drawn_chain`.
    """
    # Fixed beforehand, nothing is drawn and no record read.
    if isinstance(request.recoding, GeneralizationMap):
        return request.recoding
    from ...tasks.stages.count import drawn_chain

    selection = kind_of(request.mechanism).selection
    if selection is None or not isinstance(request.recoding, MapChoice):
        raise ReleaseFailed("a choice of the map has not been paid for.")
    with observer.stage("select"):
        return drawn_chain(
            choice=request.recoding,
            selection=selection(request.mechanism),
            reading=request.reading,
            limit=request.limit,
            unit_rule=request.unit_rule,
            work=work,
        )[0]


def drawn_levels(request: Request, work: ReleaseWork) -> Levels | None:
    """Return the levels that were drawn, of all stages, as they are stored; None where they are fixed.

    Raises:
        ReleaseFailed: they are not stored, or are damaged.
    """
    from ...tasks.kernel.draws import load_draw
    from ...tasks.stages.count import map_draw

    if not isinstance(request.recoding, MapChoice):
        return None
    levels = load_draw(map_draw(request.recoding, sample_id=work.receipt.sample_id), folder=work.folder)
    if levels is None:
        raise ReleaseFailed("the levels of this release have not been drawn.")
    return tuple(levels)


def count_records(request: Request, work: ReleaseWork, generalization: GeneralizationMap) -> ExactCounts:
    """Count the records of each group exactly, on the workers; sampled ones at the rate that each names."""
    from ...tasks.counting.group_counting import counting_of
    from ...tasks.stages.count import exact_counts

    columns, rates = generalization, None
    if (thinning := request.thinning) is not None:
        # The rate is read as one more column of the same record, so that coin and labels can't be of different records.
        # It is not a column of the published map.
        columns, rates = GeneralizationMap(columns=(*generalization.columns, thinning.column)), thinning.rates_of_codes
    counting = counting_of(
        columns,
        reading=request.reading,
        rate=request.sampling_rate,
        limit=request.limit,
        rates=rates,
        unit_rule=request.unit_rule,
        with_members=True,
    )
    return exact_counts(work, counting=counting)
