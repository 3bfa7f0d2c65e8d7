"""Deletion releases: all records but a secret random number of each group, by one map or by a chain of coarser ones.

The map or the chain is fixed in the specification, or drawn privately from candidates. With [margins] noisy counts of
the released columns are published beside the rows, and the rows' weights fit them.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from ...accounting.certificate.row_tables import DATA, table_of_block
from ...accounting.kernel.prices.registry import price
from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.kernel.protection import Numbers
from ...mechanisms.kernel.recoding import KeyLayout
from ...mechanisms.kinds.deletion import CalibratedDeletion, DeletionRelease, ExponentialDeletion, SelectedDeletion
from ...mechanisms.kinds.deletion_noise import expected_deletion, largest_deletion
from ...mechanisms.kinds.deletion_protection import DeletionProtection, published_stages
from ...mechanisms.kinds.member_deletion import MembersDeletion, MembersProtection
from ...mechanisms.kinds.paired_deletion import PairedDeletion, PairedProtection
from ...mechanisms.map_selection.choice import Levels, MapChoice
from ...mechanisms.record_weights import record_weights
from ..block_specs import block_facts
from ..margin_specs import (
    MARGINS,
    deletion_margin_facts,
    fitted_cells,
    margin_error,
    margin_table,
    raked_weights,
    row_stages,
)
from ..survey_weights import TOTALS, SurveyWeights, planned_weights
from .deletion_request import FIGURES, DeletionRequest, DeletionTable, deletion_request
from .paired_parts import PairedResult, explained_parts
from .release_kind import ReleaseKind, TableReading, count_records, explained_choice, record_layout
from .stage_rows import StageRows, below_one_another, levels_of
from .told_columns import told_columns

if TYPE_CHECKING:
    from ...tasks.inputs.source import SourceLayout
    from ...tasks.stages.table import Publication, PublishedTable


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
    error = margin_error(mechanism)
    fitted = fitted_cells(
        maps[0],
        request.margins,
        noisy,
        error=error,
        rows=partial(row_stages, raked.weights, stages, maps=maps, counted=maps[0]),
    )
    table = margin_table(maps[0], request.margins, noisy, error=error, fitted=fitted)
    beside, details = {MARGINS: table}, {MARGINS: facts}
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
    request=deletion_request,
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
