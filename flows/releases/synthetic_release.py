"""Releases of synthetic tables: rows drawn from a model of noisy counts, for whom true rows aren't needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...accounting.theory.planning.synthetic_planning import largest_rho
from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.protection import Numbers
from ...mechanisms.kinds.synthetic_table import METHODS, SyntheticProtection, SyntheticTable, counted_cells
from ...mechanisms.map_selection.choice import Levels
from ...tasks.request import Request
from ..columns import declared_map
from ..spec_tables import SpecTable
from .release_kind import GivenSpec, NoDocument, ReleaseKind, TableReading, count_records, record_layout

if TYPE_CHECKING:
    from ...tasks.inputs.source import SourceLayout
    from ...tasks.stages.table import Publication

MOST_CELLS = 1 << 26


class SyntheticSpecTable(SpecTable):
    """[synthetic]: rows drawn from a model of noisy counts, instead of the records."""

    method: Literal["mst", "aim"] = "mst"


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticRequest(Request):
    """A synthetic table, from the specification alone."""

    kind: ClassVar[str] = "synthetic"
    domain: ClassVar[bytes] = b"crowdblend synthetic 1\n"

    mechanism: SyntheticTable
    recoding: GeneralizationMap

    @property
    def names_sample(self) -> bool:
        """No sample is drawn."""
        return False

    @property
    def own_terms(self) -> Mapping[str, object]:
        """Nothing beside mechanism and map."""
        return {}

    def rehearse(self) -> None:
        """Draw once from made-up records."""
        from ...tasks.stages.synthesize import rehearse

        rehearse(layout=self.recoding.layout, mechanism=self.mechanism)


def _request(given: GivenSpec) -> SyntheticRequest:
    shared, privacy, method = given.shared, given.privacy, given.own.method
    recoding = declared_map(given.path, given.columns, base=given.base)
    _check_columns(given, recoding)
    try:
        rho = largest_rho(
            given.epsilon,
            delta=privacy.delta,
            records=given.tables.data.rows_per_person,
            releases=given.releases,
        )
    except InputRefused as refusal:
        where = f"{given.path}: [privacy].epsilon"
        raise InputRefused(refusal.what, where=where, remedy=refusal.remedy) from None
    mechanism = SyntheticTable(method=method, rho=rho)
    return SyntheticRequest(**shared, price=given.priced(mechanism), mechanism=mechanism, recoding=recoding)


def _check_columns(given: GivenSpec, recoding: GeneralizationMap) -> None:
    """Refuse what no model is fitted to: a single column, one with a single label, or too many combinations."""
    if len(recoding.columns) == 1:
        raise InputRefused(
            "a synthetic table has at least two columns: a model of one column is its counts.",
            where=f"{given.path}: [columns]",
            remedy="Release more columns, or a noisy histogram or answer instead.",
        )
    for column in recoding.columns:
        if column.size == 1:
            raise InputRefused(
                "at this level the column has a single label.",
                where=f"{given.path}: [columns.{column.name}].level",
                remedy="Take a lower level, or leave the column out.",
            )
    method = given.own.method
    cells = counted_cells([column.size for column in recoding.columns], method=method)
    if cells > MOST_CELLS:
        raise InputRefused(
            f"{method.upper()} counts all combinations of up to {METHODS[method]} columns: {cells} here, more than the "
            f"{MOST_CELLS} that it is run with.",
            where=f"{given.path}: [columns]",
            remedy="Use coarser levels or fewer columns" + (', or method = "mst".' if method == "aim" else "."),
        )


def _layout(request: SyntheticRequest) -> SourceLayout:
    """Return the files of records, once the synthesizer is found installed and there is memory for their groups."""
    from ...tasks.counting.memory import require_room
    from ...tasks.stages.synthesize import require_synthesizer

    require_synthesizer()
    layout = record_layout(request)
    require_room(layout, maps=(request.recoding,))
    return layout


def _protection(request: SyntheticRequest, levels: Levels | None) -> SyntheticProtection:
    """Return the synthetic rows, drawn by the library in a process of its own."""
    from ...tasks.stages.synthesize import synthetic_rows

    del levels
    mechanism, layout = request.mechanism, request.recoding.layout
    draw = partial(synthetic_rows, layout=layout, mechanism=mechanism)
    return SyntheticProtection(mechanism=mechanism, layout=layout, draw=draw)


def _publication(request: SyntheticRequest, _: GeneralizationMap, numbers: Numbers) -> Publication:
    """Return every synthetic row as often as it was drawn."""
    from ...tasks.stages.table import Publication, count_table

    (opendp, mbi), rows = _protection(request, None).rows(numbers)
    return Publication(
        table=count_table(rows.keys, rows.counts, generalization=request.recoding, form="microdata"),
        file_format=request.file_format,
        groups=rows.counts.size,
        records=int(rows.counts.sum()),
        form="synthetic",
        details={"synthesizer": f"{request.mechanism.method.upper()} of opendp {opendp}, with mbi {mbi}"},
    )


def _explained(request: SyntheticRequest) -> dict[str, Any]:
    del request
    return {"maps": 1, "selection": None}


KIND = ReleaseKind(
    name=SyntheticRequest.kind,
    model=SyntheticSpecTable,
    allows=frozenset({"privacy", "unit", "columns"}),
    mechanisms=(SyntheticTable,),
    series=True,
    forms=False,
    limits=True,
    unequal_rates=lambda _: frozenset(),
    request=_request,
    layout=_layout,
    count=count_records,
    protection=_protection,
    finish=_publication,
    explain=_explained,
    meanings={
        "method": "by which a model is fitted: mst, or aim",
        "rho": "ρ of zero-concentrated privacy, which ε and δ follow from",
    },
    sheet=lambda *_: TableReading(shape="synthetic", rate=None, k=None, suppresses=False, noise=None),
    preview=lambda _: NoDocument(of=("synthetic tables",)),
    figures=None,
)
