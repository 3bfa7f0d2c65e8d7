"""What a specification asks of a deletion release: its maps, margins, pairs and members, its noise and its price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ...accounting.kernel.prices.mechanism_kind import Price
from ...accounting.kernel.prices.registry import price
from ...accounting.kinds.selected_deletion_prices import choice_cost
from ...accounting.theory.planning.deletion_planning import MARGIN_SHARE, plan_deletion, plan_margins
from ...accounting.theory.planning.parts_beside import AskedMembers, calibrated
from ...mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.deletion import DeletionRelease, ExponentialDeletion, SelectedDeletion
from ...mechanisms.kinds.deletion_noise import (
    LARGEST_DELETION,
    DeletionNoise,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
)
from ...mechanisms.kinds.margins import Margin
from ...mechanisms.kinds.member_deletion import MembersDeletion
from ...mechanisms.kinds.paired_deletion import PairedDeletion
from ...mechanisms.map_selection.choice import LatticeColumn, MapChoice
from ...mechanisms.pair_model.blocks import RULE as BLOCKS_RULE
from ...mechanisms.pair_model.blocks import BlockChoice
from ...mechanisms.pair_model.chosen_levels import RULE
from ...mechanisms.pair_model.paired_plan import PairedPlan
from ...mechanisms.record_weights import weight_place
from ...tasks.request import Request
from ..block_specs import Blocks, declared_blocks
from ..columns import MOST_CELLS, automatic_levels, declared_chain, declared_choice, exponential_draws, margin_map
from ..margin_specs import MARGINS, declared_margins, margin_names
from ..spec_tables import Exact, MarginsTable, SelectionTable, SpecTable
from ..survey_weights import SURVEY_WEIGHT, released_columns
from .paired_parts import STAGES, STAGES_OF_BLOCK, pair_details, paired_plan, planned_pairs
from .release_kind import GivenSpec, require_left
from .stage_rows import levels_of

if TYPE_CHECKING:
    from ...mechanisms.unit_records import MemberTable

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


def deletion_request(given: GivenSpec) -> DeletionRequest:
    """Return the release that a specification asks for, with its noise and price.

    Raises:
        InputRefused: what it asks for doesn't go together, or has no price; with file and key.
    """
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
