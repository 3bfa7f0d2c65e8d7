"""Releases of microdata: truthful rows of the groups with at least k sampled records, or their counts.

With [margins] noisy counts of all records are published beside them, and the rows have weights that fit these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...accounting.kernel.prices.registry import price
from ...accounting.kinds.composition.private_choice import selection_cost
from ...accounting.theory.planning.inversion import Target, largest_sampling_rate, least_k
from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.group_counts import GroupCounts
from ...mechanisms.kernel.protection import Numbers
from ...mechanisms.kinds.calibrated_sample import CalibratedSample, CalibratedSampleProtection
from ...mechanisms.kinds.margins import Margin
from ...mechanisms.kinds.microdata import (
    EpsilonSafeRelease,
    ExponentialSafeRelease,
    Microdata,
    StronglySafeRelease,
    Suppression,
)
from ...mechanisms.map_selection.choice import Levels, MapChoice, group_threshold
from ...tasks.request import Request
from ..columns import declared_choice, declared_map, exponential_draws
from ..spec_tables import SelectionTable
from .release_kind import (
    GivenSpec,
    ReleaseKind,
    TableReading,
    count_records,
    explained_choice,
    record_layout,
    require_left,
)

if TYPE_CHECKING:
    from ...tasks.inputs.source import SourceLayout
    from ...tasks.stages.table import Publication

__all__ = ["KIND", "MicrodataRequest"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MicrodataRequest(Request):
    """One microdata release, from the specification alone.

    Args:
        form: "microdata" repeats each published row, "counts" gives one row a group with its count.
        margins: of which columns noisy counts of all records are published beside the rows.
    """

    kind: ClassVar[str] = "microdata"
    domain: ClassVar[bytes] = b"crowdblend specification 1\n"

    form: Literal["microdata", "counts"]
    mechanism: Microdata | CalibratedSample
    margins: tuple[Margin, ...] = ()

    @property
    def names_sample(self) -> bool:
        """Tell whether a keyed sample is drawn; beside margins all records are counted, and coins drawn afterwards."""
        return not isinstance(self.mechanism, CalibratedSample)

    @property
    def selection_rate(self) -> Decimal | None:
        """Rate of the fresh sample that the map is chosen on; None where there is no such sample."""
        return self.mechanism.selection_rate if isinstance(self.mechanism, EpsilonSafeRelease) else None

    @property
    def own_terms(self) -> Mapping[str, object]:
        """Return the form, the margins, and what beside mechanism and lattice decides the draw of a map."""
        terms: dict[str, object] = {"form": self.form}
        if self.margins and isinstance(self.recoding, GeneralizationMap):
            from ..margin_specs import MARGINS, margin_names  # of releases with margins alone, here and below

            terms[MARGINS] = margin_names(self.recoding, self.margins)
        if isinstance(self.recoding, MapChoice):
            terms["selection"] = {"draw": self.recoding.draw, "steps": self.recoding.steps}
        return terms

    @property
    def free_terms(self) -> Mapping[str, object]:
        """Return the terms without the margins, whose number the mechanism has."""
        return {"form": self.form} if self.margins else self.own_terms

    @property
    def series_digest(self) -> str:
        """Return the SHA-256 (hex) of all that the releases of a series have in common."""
        return self.digest_of_series(b"crowdblend series 1\n")


def _request(given: GivenSpec) -> MicrodataRequest:
    path, spec, releases = given.path, given.tables, given.releases
    columns, privacy, shared = given.columns, given.privacy, given.shared
    rows_per_person = spec.data.rows_per_person
    if (releases > 1 or rows_per_person > 1) and (spec.sampling is None or spec.suppression is None):
        who = "a series fixes" if releases > 1 else "a release with several records of a person names"
        raise InputRefused(
            f"{who} both k and rate, and one of them is missing.",
            where=f"{path}: {'[sampling].rate' if spec.sampling is None else '[suppression].k'}",
            remedy="`crowdblend plan --releases` finds the one that is missing." if releases > 1 else "Give both.",
        )
    if spec.margins is not None:
        from .calibrated_sample_parts import planned_sample

        paid, charged, recoding, margins = planned_sample(given, spec.margins)
        return MicrodataRequest(
            **shared, form=spec.release.form, mechanism=paid, price=charged, recoding=recoding, margins=margins
        )
    if spec.selection is not None:
        _check_selection(path, spec.selection, epsilon=privacy.epsilon, times=releases * rows_per_person)
    thinning = given.drawn_rates()
    mechanism = _mechanism(given)
    charged = given.priced(
        mechanism,
        costs=f"k = {mechanism.k} and rate = {mechanism.sampling_rate} cost",
        remedy="Raise k, lower the rate, or leave one of them out: it follows from ε and δ.",
    )
    return MicrodataRequest(
        **shared,
        thinning=thinning,
        form=spec.release.form,
        mechanism=mechanism,
        price=charged,
        recoding=declared_map(path, columns, base=given.base)
        if spec.selection is None
        else declared_choice(path, columns, spec.selection, base=given.base, recorded=given.recorded),
    )


def _check_selection(path: Path, selection: SelectionTable, *, epsilon: Decimal | None, times: int) -> None:
    """Check that [selection] holds together, and leaves something of the ε asked for to the release itself."""
    if (selection.on == "fresh-sample") is not (selection.rate is not None):
        fresh = selection.on == "fresh-sample"
        raise InputRefused(
            "a choice on a fresh sample needs that sample's rate."
            if fresh
            else "a rate belongs to a choice on a fresh sample.",
            where=f"{path}: [selection].rate",
            remedy="" if fresh else 'Remove it, or write on = "fresh-sample".',
        )
    cost = selection_cost(selection.epsilon, selection_rate=selection.rate).epsilon * times
    require_left(epsilon, choice=cost, path=path)


def _mechanism(given: GivenSpec) -> Microdata:
    """Return the mechanism with its k and rate; one of them may follow from ε and δ."""
    spec, rate = given.tables, given.sampling_rate
    epsilon, delta, chosen = given.privacy.epsilon, given.privacy.delta, spec.selection
    k = None if spec.suppression is None else spec.suppression.k
    selection_epsilon, selection_rate = (None, None) if chosen is None else (chosen.epsilon, chosen.rate)
    draws = None if chosen is None else exponential_draws(chosen, given.recorded)
    if (k is None or rate is None) and (epsilon is None or (k is None and rate is None)):
        missing = "[suppression].k" if k is None else "[sampling].rate"
        raise InputRefused(
            "this is required and missing.",
            where=f"{given.path}: {missing}",
            remedy="Give both k and rate, or [privacy].epsilon and one of them.",
        )
    if epsilon is not None and (k is None or rate is None):
        target = Target(
            epsilon=epsilon,
            delta=delta,
            selection_epsilon=selection_epsilon,
            selection_rate=selection_rate,
            selection_draws=draws,
        )
        if k is None and rate is not None:
            k = least_k(rate, target)
        elif k is not None:
            rate = largest_sampling_rate(k, target)
    if k is None or rate is None:
        raise InputRefused("k or the rate is missing.", where=str(given.path))
    if selection_epsilon is None:
        return StronglySafeRelease(k=k, sampling_rate=rate)
    if draws is None:
        return EpsilonSafeRelease(
            k=k, sampling_rate=rate, selection_epsilon=selection_epsilon, selection_rate=selection_rate
        )
    return ExponentialSafeRelease(
        k=k,
        sampling_rate=rate,
        selection_epsilon=selection_epsilon,
        selection_rate=selection_rate,
        selection_draws=draws,
    )


def _layout(request: MicrodataRequest) -> SourceLayout:
    """Return the files of records; where all are counted, these can't have more groups than there is memory for."""
    layout = record_layout(request)
    if isinstance(request.mechanism, CalibratedSample) and isinstance(request.recoding, GeneralizationMap):
        from ...tasks.counting.memory import require_room

        require_room(layout, maps=(request.recoding,))
    return layout


def _protection(request: MicrodataRequest, levels: Levels | None) -> Suppression | CalibratedSampleProtection:
    recoding = request.recoding
    if isinstance(recoding, MapChoice):
        recoding = recoding.lattice.map_of(levels or ())
    if isinstance(request.mechanism, CalibratedSample):
        return CalibratedSampleProtection(mechanism=request.mechanism, layout=recoding.layout, margins=request.margins)
    return Suppression(mechanism=request.mechanism, layout=recoding.layout)


def _publication(
    request: MicrodataRequest, generalization: GeneralizationMap, protected: GroupCounts | Numbers
) -> Publication:
    """Return the published rows; beside margins, what was drawn has these after the rows."""
    from ...tasks.stages.table import Publication, count_table

    protection = _protection(request, tuple(column.level for column in generalization.columns))
    if isinstance(protection, CalibratedSampleProtection):
        from .calibrated_sample_parts import sample_publication

        if isinstance(protected, GroupCounts):
            raise TypeError("what margins are beside is drawn, and stored as numbers")
        rows, noisy = protection.published(protected)
        return sample_publication(
            protection.mechanism,
            request.price,
            recoding=generalization,
            margins=request.margins,
            rows=rows,
            noisy=noisy,
            form=request.form,
            file_format=request.file_format,
        )
    if not isinstance(protected, GroupCounts):
        raise TypeError("the groups of a sample are not drawn")
    surviving = protected
    return Publication(
        table=count_table(surviving.keys, surviving.counts, generalization=generalization, form=request.form),
        file_format=request.file_format,
        groups=len(surviving.counts),
        records=int(surviving.counts.sum()),
        form=request.form,
        details={},
    )


def _explained(request: MicrodataRequest) -> dict[str, Any]:
    """Return how many maps there are, what choosing one costs, and which margins there are."""
    choice, mechanism, charged = request.recoding, request.mechanism, request.price
    if isinstance(choice, GeneralizationMap) and isinstance(mechanism, CalibratedSample):
        from ..margin_specs import MARGINS
        from .calibrated_sample_parts import planned_margins

        beside = planned_margins(mechanism, charged, recoding=choice, margins=request.margins)
        return {"maps": 1, "selection": None, MARGINS: beside}
    if isinstance(choice, GeneralizationMap):
        return {"maps": 1, "selection": None}
    if not isinstance(mechanism, EpsilonSafeRelease):
        return {"maps": choice.lattice.size, "selection": None}
    rate = mechanism.selection_rate
    selection = explained_choice(
        choice,
        epsilon=mechanism.selection_epsilon,
        rate=rate,
        costs=selection_cost(mechanism.selection_epsilon, selection_rate=rate).epsilon,
        alone=price(
            mechanism.release,
            delta=charged.delta,
            releases=charged.releases,
            rows_per_person=charged.rows_per_person,
        ),
        threshold=group_threshold(mechanism.k, mechanism.sampling_rate, rate),
    )
    return {"maps": choice.lattice.size, "selection": selection}


def _table_reading(mechanism: Microdata | CalibratedSample, form: str) -> TableReading:
    return TableReading(
        shape="counts" if form == "counts" else "microdata",
        rate=mechanism.sampling_rate,
        k=mechanism.k,
        suppresses=True,
        noise=None,
    )


KIND = ReleaseKind(
    name=MicrodataRequest.kind,
    model=None,
    allows=frozenset({"sampling", "suppression", "privacy", "selection", "margins", "unit", "columns"}),
    mechanisms=(StronglySafeRelease, EpsilonSafeRelease, ExponentialSafeRelease, CalibratedSample),
    series=True,
    forms=True,
    limits=True,
    unequal_rates=lambda _: frozenset({"column"}),
    request=_request,
    layout=_layout,
    count=count_records,
    protection=_protection,
    finish=_publication,
    explain=_explained,
    meanings={},
    sheet=_table_reading,
    preview=lambda mechanism: mechanism,
    figures=frozenset({"count"}),
)
