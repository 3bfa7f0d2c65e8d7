"""Deletion releases: all records but a secret random number of each group, by one map or by a chain of coarser ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...accounting.theory.kinds.kind import Price
from ...accounting.theory.kinds.registry import price
from ...accounting.theory.planning.deletion import plan_deletion
from ...mechanisms.amounts import amount_exact, amount_shown
from ...mechanisms.deletion import (
    LARGEST_DELETION,
    DeletionNoise,
    DeletionRelease,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    delete_records,
    draw_deletions,
    expected_deletion,
    largest_deletion,
    record_weights,
)
from ...mechanisms.errors import InputRefused
from ...mechanisms.microdata import GroupCounts
from ...mechanisms.recoding import GeneralizationMap, coarsened
from ...tasks.request import Request
from ..columns import declared_chain
from ..spec_tables import Exact, SpecTable
from .kind import GivenSpec, ReleaseKind, TableReading, count_records, fixed_columns, record_layout

if TYPE_CHECKING:
    from ...tasks.inputs.list import SourceLayout
    from ...tasks.stages.count import ReleaseWork
    from ...tasks.stages.table import Publication

__all__ = ["KIND", "DeletionRequest", "DeletionTable"]

Shape = Literal["optimal", "geometric", "gaussian"]
PARAMETERS: Mapping[Shape, tuple[str, ...]] = {
    "optimal": ("epsilon", "delta"),
    "geometric": ("epsilon", "width"),
    "gaussian": ("scale", "width"),
}
FIGURES = ("stage", "weight", "count")


class DeletionTable(SpecTable):
    """[deletion]: a secret random number of records is deleted from each group, instead of sampling."""

    shape: Shape | None = None
    epsilon: Exact | None = Field(default=None, gt=0, le=50)
    delta: Exact | None = Field(default=None, gt=0, lt=1)
    scale: Exact | None = Field(default=None, gt=0, le=LARGEST_DELETION)
    width: int | None = Field(default=None, ge=1, le=LARGEST_DELETION // 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionRequest(Request):
    """One deletion release, from the specification alone.

    Args:
        form: "microdata" repeats each published row, "counts" gives one row a group with its count.
        recoding: the map of the first stage, the finest.
        coarser: the maps of the later stages, each a coarsening of the one before.
    """

    kind: ClassVar[str] = "deletion"
    domain: ClassVar[bytes] = b"crowdblend deletion 1\n"

    form: Literal["microdata", "counts"]
    mechanism: DeletionRelease
    recoding: GeneralizationMap
    coarser: tuple[GeneralizationMap, ...]

    @property
    def maps(self) -> tuple[GeneralizationMap, ...]:
        """The map of each stage, the finest first."""
        return (self.recoding, *self.coarser)

    @property
    def names_sample(self) -> bool:
        """No sample is drawn."""
        return False

    @property
    def own_terms(self) -> Mapping[str, object]:
        """The form, and the levels of each stage after the first."""
        return {"form": self.form, "coarser": [[column.level for column in one.columns] for one in self.coarser]}

    @property
    def series_digest(self) -> str:
        """SHA-256 (hex) of all that the releases of a series have in common."""
        return self.digest_of_series(b"crowdblend deletion series 1\n")


def _request(given: GivenSpec) -> DeletionRequest:
    shared = given.shared
    maps = declared_chain(given.path, given.columns, base=given.base, refused=FIGURES)
    mechanism, charged = _priced(given, stages=len(maps))
    return DeletionRequest(
        **shared,
        form=given.tables.release.form,
        mechanism=mechanism,
        price=charged,
        recoding=maps[0],
        coarser=maps[1:],
    )


def _priced(given: GivenSpec, *, stages: int) -> tuple[DeletionRelease, Price]:
    """The mechanism and its price: with the noise that is given, or the one that (ε, δ) allows."""
    table, privacy, rows = given.own, given.privacy, given.tables.data.rows_per_person
    k = 1 if given.tables.suppression is None else given.tables.suppression.k
    if privacy.epsilon is None:
        raise InputRefused("this is required and missing.", where=f"{given.path}: [privacy].epsilon")
    noise = _given_noise(given)
    try:
        if noise is None:
            plan = plan_deletion(
                epsilon=privacy.epsilon,
                delta=privacy.delta,
                stages=stages,
                releases=given.releases,
                rows_per_person=rows,
                k=k,
                shape=table.shape,
            )
            return plan.mechanism, plan.price
        mechanism = DeletionRelease(stages=stages, k=k, noise=noise)
        charged = price(mechanism, delta=privacy.delta, releases=given.releases, rows_per_person=rows)
    except InputRefused as refusal:
        where = f"{given.path}: {'[privacy].epsilon' if noise is None else '[deletion]'}"
        raise InputRefused(refusal.what, where=where, remedy=refusal.remedy) from None
    if charged.epsilon > privacy.epsilon:
        together = "" if given.releases == 1 else f" for {given.releases} releases"
        raise InputRefused(
            f"this noise costs ε = {amount_shown(charged.epsilon)}{together} at δ = {amount_exact(charged.delta)}, "
            f"more than the ε = {amount_exact(privacy.epsilon)} asked for.",
            where=f"{given.path}: [privacy].epsilon",
            remedy="Widen the noise, or leave its parameters out: they follow from ε and δ.",
        )
    return mechanism, charged


def _given_noise(given: GivenSpec) -> DeletionNoise | None:
    """The noise of [deletion]; None where its parameters follow from ε and δ."""
    table: DeletionTable = given.own
    where = f"{given.path}: [deletion]"
    named = {name for names in PARAMETERS.values() for name in names if getattr(table, name) is not None}
    if not named:
        return None
    if table.shape is None:
        raise InputRefused(
            "parameters of a noise go with its shape.",
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
    """The files of records, which can't have more groups than there is memory for."""
    from ...tasks.counting.group_counts import require_room

    layout = record_layout(request)
    require_room(layout, maps=request.maps)
    return layout


def _protected(request: DeletionRequest, work: ReleaseWork, counts: GroupCounts) -> NDArray[np.int64]:
    """What each stage publishes, as `_published` reads it.

    PRIVACY: Z is drawn once for each group of each stage, here and nowhere else. What is stored is what is published
    after it, never Z by itself, which would tell how many records a published group has.
    """
    keys: list[NDArray[np.int64]] = [counts.keys]
    parents: list[NDArray[np.int64]] = []
    for finer, coarser in pairwise(request.maps):
        above, places = coarsened(keys[-1], finer=finer, coarser=coarser)
        keys.append(above)
        parents.append(places)
    noise = request.mechanism.noise
    deletions = [draw_deletions(noise, groups.shape[1], randomness=work.randomness) for groups in keys]
    kept = delete_records(counts.counts, release=request.mechanism, parents=parents, deletions=deletions)
    numbers: list[NDArray[np.int64]] = []
    for groups, records in zip(keys, kept, strict=True):
        there = np.flatnonzero(records)
        numbers += [np.array([there.size], dtype=np.int64), groups[:, there].reshape(-1), records[there]]
    return np.concatenate(numbers)


def _published(request: DeletionRequest, numbers: Sequence[int] | NDArray[np.int64]) -> list[GroupCounts]:
    """What each stage publishes: for each the number of its groups, their keys word by word, and their records.

    Raises:
        ValueError: the numbers are nothing that this release can publish.
        OverflowError: one has more than 64 bits.
    """
    left = np.asarray(numbers, dtype=np.int64)
    stages = []
    for generalization in request.maps:
        height = generalization.key_words + 1
        if not left.size or not 0 <= int(left[0]) * height < left.size:
            raise ValueError("groups are missing")
        end = 1 + int(left[0]) * height
        rows, left = left[1:end].reshape(height, -1), left[end:]
        if rows.size and int(rows[-1].min()) < request.mechanism.k:
            raise ValueError("a group is below k")
        if not generalization.holds(rows[:-1]):
            raise ValueError("a key is of no group")
        stages.append(GroupCounts(rows[:-1], rows[-1]))
    if left.size:
        raise ValueError("there are more numbers than groups")
    return stages


def _can_be_published(request: DeletionRequest, numbers: Sequence[int] | NDArray[np.int64]) -> bool:
    try:
        _published(request, numbers)
    except (ValueError, OverflowError):
        return False
    return True


def _publication(
    request: DeletionRequest, _: GeneralizationMap, numbers: Sequence[int] | NDArray[np.int64]
) -> Publication:
    """Stage after stage, in each the groups in the order of their keys."""
    from ...tasks.stages.table import Publication, PublishedTable, figure_column, label_columns, stacked_columns

    stages, mechanism = _published(request, numbers), request.mechanism
    counts = np.concatenate([stage.counts for stage in stages])
    numbered = [np.full(stage.counts.size, number, dtype=np.int64) for number, stage in enumerate(stages, start=1)]
    weights = [
        record_weights(stage.counts, release=mechanism, stage=number) for number, stage in enumerate(stages, start=1)
    ]
    columns = stacked_columns(
        [label_columns(stage.keys, generalization=one) for stage, one in zip(stages, request.maps, strict=True)]
    )
    if len(stages) > 1:
        columns = (*columns, figure_column("stage", np.concatenate(numbered)))
    columns = (*columns, figure_column("weight", np.concatenate(weights)))
    rows = request.form == "microdata"
    if not rows:
        columns = (*columns, figure_column("count", counts))
    return Publication(
        table=PublishedTable(columns=columns, times=counts if rows else None),
        file_format=request.file_format,
        groups=counts.size,
        records=int(counts.sum()),
        form=request.form,
        details={
            "stages": [
                {
                    "levels": _levels(one),
                    "published_groups": stage.counts.size,
                    "published_records": int(stage.counts.sum()),
                    "largest_deletion": largest_deletion(mechanism.noise),
                }
                for stage, one in zip(stages, request.maps, strict=True)
            ]
        },
    )


def _levels(generalization: GeneralizationMap) -> dict[str, int]:
    return {column.name: column.level for column in generalization.columns}


def _explained(request: DeletionRequest) -> dict[str, Any]:
    """What is deleted, and the levels of each stage; known beforehand, since it doesn't depend on the records."""
    noise = request.mechanism.noise
    return {
        "maps": len(request.maps),
        "selection": None,
        "expected_deletion": float(expected_deletion(noise)),
        "largest_deletion": largest_deletion(noise),
        "stages": [{"levels": _levels(one)} for one in request.maps],
    }


def _table_reading(mechanism: DeletionRelease, form: str) -> TableReading:
    shape: Literal["microdata", "counts"] = "counts" if form == "counts" else "microdata"
    return TableReading(shape=shape, rate=None, k=mechanism.k, suppresses=False, noise=None)


KIND = ReleaseKind(
    name=DeletionRequest.kind,
    model=DeletionTable,
    allows=frozenset({"suppression", "privacy", "columns"}),
    mechanisms=(DeletionRelease,),
    series=True,
    forms=True,
    unequal_rates=lambda _: False,
    request=_request,
    layout=_layout,
    count_columns=fixed_columns,
    count=count_records,
    protect=_protected,
    draws=_can_be_published,
    finish=_publication,
    explain=_explained,
    meanings={
        "stages": "maps in the chain, the finest first; what one doesn't publish goes on to the next",
        "k": "a stage publishes no group of which fewer records would be left",
        "noise": "the shape of the noise",
        "epsilon": "ε of one stage",
        "delta": "δ of one stage",
        "scale": "σ of the noise",
        "width": "m: the noise lies in 0 to 2m",
    },
    sheet=_table_reading,
    preview=lambda mechanism: mechanism,
    figures=frozenset(FIGURES),
)
