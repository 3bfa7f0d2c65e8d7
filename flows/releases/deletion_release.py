"""Deletion releases: all records but a secret random number of each group, by one map or by a chain of coarser ones.

The map or the chain is fixed in the specification, or drawn privately from candidates. With [margins] noisy counts of
the released columns are published beside the rows, and the rows' weights fit them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import Field

from ...accounting.certificate.row_tables import DATA, table_of_block
from ...accounting.kernel.prices.mechanism_kind import Price
from ...accounting.kernel.prices.registry import price
from ...accounting.kinds.selected_deletion_prices import choice_cost
from ...accounting.theory.planning.deletion_planning import MARGIN_SHARE, plan_deletion, plan_margins
from ...accounting.theory.planning.parts_beside import AskedMembers, calibrated
from ...mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.protection import Numbers
from ...mechanisms.kernel.recoding import KeyLayout
from ...mechanisms.kinds.deletion import CalibratedDeletion, DeletionRelease, ExponentialDeletion, SelectedDeletion
from ...mechanisms.kinds.deletion_noise import (
    LARGEST_DELETION,
    DeletionNoise,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    expected_deletion,
    largest_deletion,
)
from ...mechanisms.kinds.deletion_protection import DeletionProtection, published_stages
from ...mechanisms.kinds.margins import Margin
from ...mechanisms.kinds.member_deletion import MembersDeletion, MembersProtection
from ...mechanisms.kinds.paired_deletion import PairedDeletion, PairedProtection
from ...mechanisms.map_selection.choice import LatticeColumn, Levels, MapChoice
from ...mechanisms.pair_model.blocks import RULE as BLOCKS_RULE
from ...mechanisms.pair_model.blocks import BlockChoice
from ...mechanisms.pair_model.chosen_levels import RULE
from ...mechanisms.pair_model.paired_plan import PairedPlan
from ...mechanisms.record_weights import record_weights, weight_place
from ...tasks.request import Request
from ..block_specs import Blocks, block_facts, declared_blocks
from ..columns import (
    MOST_CELLS,
    automatic_levels,
    declared_chain,
    declared_choice,
    exponential_draws,
    margin_map,
)
from ..margin_specs import (
    MARGINS,
    declared_margins,
    deletion_margin_facts,
    margin_error,
    margin_names,
    margin_table,
    raked_weights,
)
from ..spec_tables import Exact, MarginsTable, SelectionTable, SpecTable
from ..survey_weights import SURVEY_WEIGHT, TOTALS, SurveyWeights, planned_weights, released_columns
from .paired_parts import (
    STAGES,
    STAGES_OF_BLOCK,
    PairedResult,
    explained_parts,
    pair_details,
    paired_plan,
    planned_pairs,
)
from .release_kind import (
    GivenSpec,
    ReleaseKind,
    TableReading,
    count_records,
    explained_choice,
    record_layout,
    require_left,
)
from .stage_rows import StageRows, below_one_another, levels_of
from .told_columns import told_columns

if TYPE_CHECKING:
    from ...mechanisms.unit_records import MemberTable
    from ...tasks.inputs.source import SourceLayout
    from ...tasks.stages.table import Publication, PublishedTable

Number = TypeVar("Number", np.int64, np.float64)
Shape = Literal["optimal", "geometric", "gaussian"]
PARAMETERS: Mapping[Shape, tuple[str, ...]] = {
    "optimal": ("epsilon", "delta"),
    "geometric": ("epsilon", "width"),
    "gaussian": ("scale", "width"),
}
FIGURES = ("stage", "weight", SURVEY_WEIGHT, "count")


class DeletionTable(SpecTable):
    """[deletion]: a secret random number of records is deleted from each group, instead of sampling."""

    shape: Shape | None = None
    epsilon: Exact | None = Field(default=None, gt=0, le=50)
    delta: Exact | None = Field(default=None, gt=0, lt=1)
    scale: Exact | None = Field(default=None, gt=0, le=LARGEST_DELETION)
    width: int | None = Field(default=None, ge=1, le=LARGEST_DELETION // 2)
    stages: int | None = Field(default=None, ge=1, le=20)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionRequest(Request):
    """One deletion release, from the specification alone.

    Args:
        form: "microdata" repeats each published row, "counts" gives one row a group with its count.
        recoding: the map of the first stage, the finest; or the candidates and the draw of a map or of a chain; or,
            where pairs are chosen, the map of the margins.
        coarser: the maps of the later stages, each a coarsening of the one before; none where they are drawn.
        margins: of which columns noisy counts are published beside the rows, by the labels of `recoding`.
        free: the columns whose levels follow from what is published before the rows; none where they are fixed.
        blocks: tables of rows, or how they are chosen; None where there is one of all columns.
        themes: what each block is about, by its name, where it says so.
    """

    kind: ClassVar[str] = "deletion"
    domain: ClassVar[bytes] = b"crowdblend deletion 1\n"

    form: Literal["microdata", "counts"]
    mechanism: DeletionRelease
    coarser: tuple[GeneralizationMap, ...]
    margins: tuple[Margin, ...]
    free: tuple[LatticeColumn, ...] = ()
    blocks: Blocks | None = None
    themes: tuple[tuple[str, str], ...] = ()

    @property
    def paired(self) -> PairedPlan | None:
        """Return the public side of a release that chooses pairs; None for another one."""
        if not (isinstance(self.mechanism, PairedDeletion) and isinstance(self.recoding, GeneralizationMap)):
            return None
        return paired_plan(self.mechanism, self.recoding, self.free or self.coarser, self.blocks)

    @property
    def members(self) -> tuple[MemberTable, MembersDeletion] | None:
        """Return which members of units are published, and the mechanism that pays for them; None where none are."""
        table = None if self.unit_rule is None else self.unit_rule.table
        return (table, self.mechanism) if table is not None and isinstance(self.mechanism, MembersDeletion) else None

    @property
    def maps(self) -> tuple[GeneralizationMap, ...]:
        """Return the map of each stage, the finest first.

        Raises:
            InputRefused: they are still to be drawn.
        """
        if not isinstance(self.recoding, GeneralizationMap) or self.free:
            raise InputRefused(
                "the levels of this release are still to be found, when it runs.",
                where="[columns]" if self.free else "[selection]",
                remedy="Where levels have to be known beforehand, give them.",
            )
        return self.coarser if isinstance(self.mechanism, PairedDeletion) else (self.recoding, *self.coarser)

    @property
    def levels(self) -> dict[str, int] | None:
        """Return the levels of the first stage; None where they are drawn or found while the release runs."""
        if not isinstance(self.recoding, GeneralizationMap) or self.free:
            return None
        return levels_of(self.maps[0])

    @property
    def names_sample(self) -> bool:
        """No sample is drawn."""
        return False

    @property
    def own_terms(self) -> Mapping[str, object]:
        """Return the form; the levels of the later stages, or how all are drawn; the margins, where there are any."""
        if isinstance(self.recoding, MapChoice):
            return {"form": self.form, "selection": {"draw": self.recoding.draw, "steps": self.recoding.steps}}
        margins = {MARGINS: margin_names(self.recoding, self.margins)} if self.margins else {}
        coarser = [[column.level for column in one.columns] for one in self.coarser]
        free = {"levels": [RULE, *([str(one.max_level), str(one.weight)] for one in self.free)]} if self.free else {}
        return {"form": self.form, "coarser": coarser, **margins, **free, **self._block_terms}

    @property
    def _block_terms(self) -> Mapping[str, object]:
        if self.blocks is None:
            return {}
        if isinstance(self.blocks, BlockChoice):
            return {"blocks": [BLOCKS_RULE, self.blocks.number, list(self.blocks.pinned)]}
        return {"blocks": [[block.name, list(block.columns)] for block in self.blocks], "themes": dict(self.themes)}

    @property
    def free_terms(self) -> Mapping[str, object]:
        """Return the form, and how all stages' levels are drawn."""
        return {name: value for name, value in self.own_terms.items() if name in ("form", "selection")}

    @property
    def series_digest(self) -> str:
        """Return the SHA-256 (hex) of all that the releases of a series have in common."""
        return self.digest_of_series(b"crowdblend deletion series 1\n")


def _request(given: GivenSpec) -> DeletionRequest:
    shared, selection, columns = given.shared, given.tables.selection, released_columns(given)
    recoding: GeneralizationMap | MapChoice
    coarser: tuple[GeneralizationMap, ...] = ()
    margins: tuple[Margin, ...] = ()
    if given.tables.margins is not None and given.tables.margins.pairs == "auto":
        return _paired_request(given)
    if given.tables.blocks is not None:
        raise InputRefused(
            "blocks go by pairs of columns that are counted beside them.",
            where=f"{given.path}: [blocks]",
            remedy='Write [margins] pairs = "auto" besides, or remove it.',
        )
    if given.own.stages is not None:
        raise InputRefused(
            "the number of stages follows from the number of levels.",
            where=f"{given.path}: [deletion].stages",
            remedy='Remove it; it goes with levels = "auto".',
        )
    if selection is None:
        recoding, *later = declared_chain(given.path, columns, base=given.base, refused=FIGURES)
        coarser, margins = tuple(later), declared_margins(given.path, given.tables.margins, recoding)
        stages = 1 + len(coarser)
    else:
        _check_selection(given, selection)
        recoding = declared_choice(
            given.path,
            columns,
            selection,
            base=given.base,
            refused=FIGURES,
            chains=True,
            recorded=given.recorded,
        )
        stages = recoding.lattice.stages
    mechanism, charged = _priced(given, stages=stages, margins=len(margins))
    return DeletionRequest(
        **shared,
        form=given.tables.release.form,
        mechanism=mechanism,
        price=charged,
        recoding=recoding,
        coarser=coarser,
        margins=margins,
    )


def _paired_request(given: GivenSpec) -> DeletionRequest:
    """Return a release that chooses pairs of columns, and perhaps its levels, by what it has published before."""
    path, margins, columns = given.path, given.tables.margins or MarginsTable(), released_columns(given)
    if not margins.columns:
        raise InputRefused(
            'pairs = "auto" goes by the counts of the columns.',
            where=f"{path}: [margins].columns",
            remedy="Remove it.",
        )
    for there, where in ((given.tables.selection, "[selection]"), (_given_noise(given), "[deletion].shape")):
        if there is not None:
            raise InputRefused(
                'this does not go with pairs = "auto", which plans all noises together and needs no draw of levels.',
                where=f"{path}: {where}",
                remedy="Remove it.",
            )
    free = automatic_levels(path, columns, base=given.base, refused=FIGURES) or ()
    stages: tuple[GeneralizationMap, ...] = ()
    if free:
        counted = GeneralizationMap(
            columns=tuple(MappedColumn(name=one.name, hierarchy=one.hierarchy, level=one.min_level) for one in free)
        )
    else:
        stages = declared_chain(path, columns, base=given.base, refused=FIGURES, pairs=True)
        first = [(one.name, one.hierarchy, one.level) for one in stages[0].columns]
        counted = margin_map(path, columns, first)
        if given.own.stages is not None:
            raise InputRefused(
                "the number of stages follows from the number of levels.",
                where=f"{path}: [deletion].stages",
                remedy="Remove it.",
            )
    if sum(counted.sizes) > MOST_CELLS:
        raise InputRefused(
            f"the margins have more than the {MOST_CELLS} cells that one release publishes.",
            where=f"{path}: [columns]",
            remedy="Give coarser levels.",
        )
    try:
        blocks = declared_blocks(path, given.tables.blocks, counted.names, always=weight_place(counted))
        mechanism, charged = planned_pairs(
            margins,
            epsilon=given.epsilon,
            delta=given.privacy.delta,
            stages=len(stages) or given.own.stages or (STAGES if blocks is None else STAGES_OF_BLOCK),
            details=pair_details(counted, free or stages),
            releases=given.releases,
            rows_per_person=given.tables.data.rows_per_person,
            k=1 if given.tables.suppression is None else given.tables.suppression.k,
            blocks=blocks,
            members=_asked_members(given),
        )
    except InputRefused as refusal:
        where = refusal.where or f"{path}: [margins]"
        raise InputRefused(refusal.what, where=where, remedy=refusal.remedy) from None
    return DeletionRequest(
        **given.shared,
        form=given.tables.release.form,
        mechanism=mechanism,
        price=charged,
        recoding=counted,
        coarser=stages,
        margins=tuple((place,) for place in range(len(counted.columns))),
        free=free,
        blocks=blocks,
        themes=() if given.tables.blocks is None else given.tables.blocks.themes,
    )


def _check_selection(given: GivenSpec, selection: SelectionTable) -> None:
    """Check that [selection] is a choice on all records, and leaves something of ε to the release itself."""
    if given.tables.margins is not None:
        raise InputRefused(
            "margins are counted by levels that are known beforehand, and [selection] draws them.",
            where=f"{given.path}: [margins]",
            remedy="Remove one of them.",
        )
    for key, wrong in (("on", selection.on != "whole"), ("rate", selection.rate is not None)):
        if wrong:
            raise InputRefused(
                "a deletion release reads all records, and its map is chosen on all of them.",
                where=f"{given.path}: [selection].{key}",
                remedy="Remove it.",
            )
    require_left(given.privacy.epsilon, choice=_cost_of_choice(given), path=given.path)


def _cost_of_choice(given: GivenSpec) -> Decimal:
    """Return what the choices of all releases cost in ε; 0 where the map is fixed."""
    selection = given.tables.selection
    if selection is None:
        return Decimal(0)
    return choice_cost(selection.epsilon, releases=given.releases, records=given.tables.data.rows_per_person)


def _priced(given: GivenSpec, *, stages: int, margins: int) -> tuple[DeletionRelease, Price]:
    """Return the mechanism and its price: with the noise that is given, or the one that (ε, δ) allows."""
    table, privacy, rows = given.own, given.privacy, given.tables.data.rows_per_person
    k = 1 if given.tables.suppression is None else given.tables.suppression.k
    epsilon, noise = given.epsilon, _given_noise(given)
    share = (given.tables.margins or MarginsTable()).share or MARGIN_SHARE
    members = _asked_members(given)
    try:
        if noise is None:
            plan = plan_deletion(
                epsilon=epsilon - _cost_of_choice(given),
                delta=privacy.delta,
                stages=stages,
                releases=given.releases,
                rows_per_person=rows,
                k=k,
                shape=table.shape,
                margins=margins,
                margin_share=share,
                members=members,
            )
            if given.tables.selection is None:
                return plan.mechanism, plan.price
            noise = plan.mechanism.noise
        mechanism = _mechanism(given, DeletionRelease(stages=stages, k=k, noise=noise))
        if margins:
            beside = plan_margins(
                epsilon=epsilon,
                delta=privacy.delta,
                margins=margins,
                releases=given.releases,
                rows_per_person=rows,
                share=share,
            )
            mechanism = calibrated(mechanism, margins=margins, noise=beside)
        charged = price(mechanism, delta=privacy.delta, releases=given.releases, rows_per_person=rows)
    except InputRefused as refusal:
        # Without a noise of its own the specification's ε is at fault; with one it is the noise that can't be priced.
        where = f"{given.path}: {'[privacy].epsilon' if noise is None else '[deletion]'}"
        raise InputRefused(refusal.what, where=where, remedy=refusal.remedy) from None
    given.require_affordable(
        charged,
        costs="this noise costs",
        remedy="Widen the noise, or leave its parameters out: they follow from ε and δ.",
    )
    return mechanism, charged


def _asked_members(given: GivenSpec) -> AskedMembers | None:
    if given.unit_rule is None or given.unit_rule.table is None:
        return None
    from .member_parts import asked_members  # of releases with such a table alone

    return asked_members(given)


def _mechanism(given: GivenSpec, release: DeletionRelease) -> DeletionRelease:
    """Return a release, or the choice of its map before it."""
    selection = given.tables.selection
    if selection is None:
        return release
    draws, own = exponential_draws(selection, given.recorded), release
    if draws is None:
        return SelectedDeletion(stages=own.stages, k=own.k, noise=own.noise, selection_epsilon=selection.epsilon)
    return ExponentialDeletion(
        stages=own.stages,
        k=own.k,
        noise=own.noise,
        selection_epsilon=selection.epsilon,
        selection_draws=draws,
    )


def _given_noise(given: GivenSpec) -> DeletionNoise | None:
    """Return the noise of [deletion]; None where its parameters follow from ε and δ."""
    table: DeletionTable = given.own
    where = f"{given.path}: [deletion]"
    named = {name for names in PARAMETERS.values() for name in names if getattr(table, name) is not None}
    if not named:
        return None
    if table.shape is None:
        raise InputRefused(
            "parameters of a noise are given, and its shape is not.",
            where=f"{where}.shape",
            remedy="Name the shape, or remove the parameters: shape and width then follow from ε and δ.",
        )
    for name in sorted(named ^ set(PARAMETERS[table.shape])):
        what = f"is not a parameter of a noise of the shape {table.shape}" if name in named else "is missing"
        raise InputRefused(
            f"this {what}.",
            where=f"{where}.{name}",
            remedy=f"Its parameters are {' and '.join(PARAMETERS[table.shape])}.",
        )
    epsilon, delta = table.epsilon or Decimal(0), table.delta or Decimal(0)
    try:
        match table.shape:
            case "optimal":
                return OptimalDeletion(epsilon=epsilon, delta=delta)
            case "geometric":
                return GeometricDeletion(epsilon=epsilon, width=table.width or 0)
            case "gaussian":
                return GaussianDeletion(scale=table.scale or Decimal(0), width=table.width or 0)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=where) from None


def _layout(request: DeletionRequest) -> SourceLayout:
    """Return the files of records, which can't have more groups than there is memory for."""
    from ...tasks.counting.memory import require_room, require_room_for_pairs

    layout, choice = record_layout(request), request.recoding
    finest = (choice.lattice.map_of(choice.lattice.finest),) if isinstance(choice, MapChoice) else ()
    maps = finest * request.mechanism.stages
    if request.paired is not None and isinstance(choice, GeneralizationMap):
        maps = (choice,) * (1 + request.mechanism.stages)
        require_room_for_pairs(choice.sizes)
    # Asked before the charge: a release that runs out of memory afterwards stays paid for. Where levels aren't known
    # yet, every stage counts as the finest one, which has the most groups.
    counted: tuple[KeyLayout, ...] = maps or request.maps
    if request.members is not None:
        counted = (request.members[0].layout(counted[0]), *counted)
    require_room(layout, maps=counted, columns=len(request.source_columns))
    return layout


def _maps_of(request: DeletionRequest, levels: Levels | None) -> tuple[GeneralizationMap, ...]:
    """Return the map of each stage: the fixed ones, or those of levels that were drawn.

    Raises:
        ValueError: no candidate has these levels.
    """
    choice = request.recoding
    return choice.lattice.chain_of(levels or ()) if isinstance(choice, MapChoice) else request.maps


def _protection(
    request: DeletionRequest, levels: Levels | None
) -> DeletionProtection | PairedProtection | MembersProtection:
    own = _own_protection(request, levels)
    if request.members is None:
        return own
    from .member_parts import protection_with_members  # of releases with such a table alone

    return protection_with_members(*request.members, own)


def _own_protection(request: DeletionRequest, levels: Levels | None) -> DeletionProtection | PairedProtection:
    if (plan := request.paired) is not None:
        return plan.protection()
    maps = _maps_of(request, levels)
    return DeletionProtection(
        mechanism=request.mechanism,
        layouts=tuple(one.layout for one in maps),
        tables=tuple(finer.tables_to(coarser) for finer, coarser in pairwise(maps)),
        levels=levels or (),
        margins=request.margins,
    )


def _publication(request: DeletionRequest, _: GeneralizationMap, numbers: Numbers) -> Publication:
    """Return the tables of rows, what is beside them, and the table of members where there is one."""
    if request.members is None:
        return _own_publication(request, numbers)
    from .member_parts import with_table_of_members  # of releases with such a table alone

    return with_table_of_members(*request.members, numbers, form=request.form, units=partial(_own_publication, request))


def _own_publication(request: DeletionRequest, numbers: Numbers) -> Publication:
    """Stage after stage, in each the groups in the order of their keys; and the margins in a table of their own."""
    from ...tasks.stages.table import Publication

    plan = request.paired
    beside: dict[str, PublishedTable] = {}
    if plan is None:
        rows, beside, details = _rows_alone(request, numbers)
        tables = {DATA: rows.table(request.form)}
        details = {"stages": rows.facts(request.mechanism.noise)} | details
    else:
        # What follows from published figures, such as weights, is post-processing and costs nothing.
        result = PairedResult(plan, numbers)
        survey = result.survey
        every = [
            StageRows(one.maps, one.stages, raked.weights, survey)
            for one, raked in zip(result.rows, result.raked, strict=True)
        ]
        stems = [table_of_block(one.block.name) if one.block.name else DATA for one in result.rows]
        tables = dict(zip(stems, (one.table(request.form) for one in every), strict=True))
        facts = [one.facts(request.mechanism.noise) for one in every]
        if request.blocks is None:
            details = {"stages": facts[0]}
        else:
            blocks = [one.block for one in result.rows]
            details = block_facts(blocks, themes=dict(request.themes), stages=facts, tables=list(tables.values()))
        details |= result.facts(request.price)
        beside = {MARGINS: result.table()}
        if survey is not None:
            details |= survey.facts()
            beside[TOTALS] = result.totals(survey)
    first, *others = tables
    return Publication(
        table=tables[first],
        stem=first,
        beside={stem: tables[stem] for stem in others} | beside,
        file_format=request.file_format,
        groups=sum(one.distinct for one in tables.values()),
        records=sum(one.records for one in tables.values()),
        form=request.form,
        details=details,
    )


def _rows_alone(
    request: DeletionRequest, numbers: Numbers
) -> tuple[StageRows, dict[str, PublishedTable], dict[str, Any]]:
    """Return the rows of a release that chooses no pairs, its margins' table, and what is said of it."""
    mechanism, choice = request.mechanism, request.recoding
    drawn = mechanism.stages * len(choice.columns) if isinstance(choice, MapChoice) else 0
    levels = tuple(int(level) for level in numbers[:drawn])
    maps = _maps_of(request, levels)
    stages, noisy = published_stages(
        numbers, k=mechanism.k, layouts=[one.layout for one in maps], levels=levels, margins=request.margins
    )
    weights = below_one_another(
        [record_weights(stage.counts, release=mechanism, stage=number) for number, stage in enumerate(stages, start=1)]
    )
    if not isinstance(mechanism, CalibratedDeletion):
        return StageRows(maps, stages, weights), {}, {}
    raked = raked_weights(weights, stages, maps=maps, margins=request.margins, noisy=noisy)
    facts = deletion_margin_facts(maps[0], request.margins, mechanism, request.price) | {
        "records": raked.total,
        "largest_difference": raked.largest_difference,
    }
    beside, details = {MARGINS: margin_table(maps[0], request.margins, noisy)}, {MARGINS: facts}
    error = margin_error(mechanism)
    if (survey := SurveyWeights.of(maps[0], noisy, deviation=error)) is not None:
        beside[TOTALS] = survey.totals_table(noisy, survey.tables(request.margins, noisy), deviation=error)
        details |= survey.facts()
    return StageRows(maps, stages, raked.weights, survey), beside, details


def _explained(request: DeletionRequest) -> dict[str, Any]:
    """Return what is deleted, and the levels of each stage or their candidates, whatever the records are."""
    mechanism, choice = request.mechanism, request.recoding
    noise = mechanism.noise
    margins: dict[str, Any] = {}
    if (plan := request.paired) is not None:
        margins = explained_parts(plan, request.price) | told_columns(plan)
    elif isinstance(mechanism, CalibratedDeletion):
        margins = {MARGINS: deletion_margin_facts(request.maps[0], request.margins, mechanism, request.price)}
    return {
        "maps": choice.lattice.size if isinstance(choice, MapChoice) else mechanism.stages,
        "selection": _explained_choice(request, choice) if isinstance(choice, MapChoice) else None,
        "expected_deletion": float(expected_deletion(noise)),
        "largest_deletion": largest_deletion(noise),
        "stages": []
        if isinstance(choice, MapChoice) or request.free
        else [{"levels": levels_of(one)} for one in request.maps],
        **margins,
        **({} if isinstance(choice, MapChoice) else planned_weights(choice)),
        **_explained_members(request),
    }


def _explained_members(request: DeletionRequest) -> dict[str, Any]:
    if request.members is None:
        return {}
    from .member_parts import members_explained  # of releases with such a table alone

    return {"members": members_explained(*request.members, request.price)}


def _explained_choice(request: DeletionRequest, choice: MapChoice) -> dict[str, Any]:
    mechanism, charged = request.mechanism, request.price
    if not isinstance(mechanism, SelectedDeletion):
        raise TypeError("a choice that its mechanism doesn't have")
    rows = charged.rows_per_person
    return explained_choice(
        choice,
        epsilon=mechanism.selection_epsilon,
        rate=None,
        costs=mechanism.selection_epsilon,
        alone=price(mechanism.release, delta=charged.delta, releases=charged.releases, rows_per_person=rows),
        threshold=mechanism.selection_threshold,
    )


def _table_reading(mechanism: DeletionRelease, form: str) -> TableReading:
    shape: Literal["microdata", "counts"] = "counts" if form == "counts" else "microdata"
    return TableReading(shape=shape, rate=None, k=mechanism.k, suppresses=False, noise=None)


KIND = ReleaseKind(
    name=DeletionRequest.kind,
    model=DeletionTable,
    allows=frozenset({"suppression", "privacy", "selection", "margins", "blocks", "unit", "columns"}),
    mechanisms=(DeletionRelease, SelectedDeletion, ExponentialDeletion, PairedDeletion, MembersDeletion),
    series=True,
    forms=True,
    limits=True,
    unequal_rates=lambda _: frozenset(),
    request=_request,
    layout=_layout,
    count=count_records,
    protection=_protection,
    finish=_publication,
    explain=_explained,
    meanings={
        "stages": "maps in the chain, the finest first; what one doesn't publish goes on to the next",
        "k": "a stage publishes no group of which fewer records would be left",
        "noise": "the shape of the noise",
        "selection_epsilon": "ε₁ of drawing the levels",
        "epsilon": "ε of one stage",
        "delta": "δ of one stage",
        "scale": "σ of the noise",
        "width": "m: the noise lies in 0 to 2m",
        "margins": "noisy counts by one column or two, beside the rows",
        "margin_scale": "σ of the margins' noise",
        "margin_width": "m of the margins' noise, which lies in −m to m",
        "pairs": "pairs of columns that are chosen and counted, one after the other",
        "pair_scale": "σ of the noise of the pairs' counts",
        "pair_width": "m of that noise, which lies in −m to m",
        "pair_epsilon": "ε of choosing a pair",
        "blocks": "tables of rows, of some of the columns each, with as many stages each",
    },
    sheet=_table_reading,
    preview=lambda mechanism: mechanism,
    figures=frozenset(FIGURES),
)
