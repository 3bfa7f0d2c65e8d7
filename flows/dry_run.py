"""A release gone through up to its charge, by looking alone: what would be charged, or the refusal that would come."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..accounting.ledger.charge import charged_price
from ..accounting.ledger.entries.kinds import ChargedPrice
from ..accounting.ledger.private_store.inspection import copy_of_release, known_names_of_source, remembered_facts
from ..accounting.ledger.private_store.keys import require_not_held, require_private
from ..accounting.ledger.queries import DatasetState
from ..accounting.ledger.reader import ReleaseState, open_reader
from ..mechanisms.amounts import amount_shown
from ..tasks.inputs.list import SourceLayout, source_metadata_bytes
from ..tasks.request import Output, Request
from .paths import StatePaths
from .prepare import (
    check_output,
    check_release_id,
    layout_of_source,
    metadata_remarks,
    release_violation,
    request_of_series,
    require_apart,
    series_and_part,
)
from .spec import read_spec

__all__ = ["DryRun", "dry_run"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """What a run would begin with.

    Args:
        release_id: the id that was asked for; None where the run would be given a new one.
        request: what is asked for.
        state: what the ledger knows of this id; None where it is new.
        series: the series that has paid for it, None for a release that pays for itself.
        dataset: whose budget pays, with its account now.
        charge: what would be charged now; None where it is paid already, by itself or by its series.
        layout: the files of the records with their headers; None where the release is published already.
        other_names: names of data sets under which the same source was released before; for a warning alone.
        remarks: what seems wrong by the source's metadata; for a warning alone.
    """

    release_id: str | None
    request: Request
    state: ReleaseState | None
    series: str | None
    dataset: DatasetState
    charge: ChargedPrice | None
    layout: SourceLayout | None
    other_names: tuple[str, ...]
    remarks: tuple[str, ...]

    def __repr__(self) -> str:
        """What would be charged, in short."""
        amounts = (0, 0) if self.charge is None else (self.charge.epsilon, self.charge.delta)
        epsilon, delta = map(amount_shown, amounts)
        return f"DryRun(dataset={self.dataset.name!r}, epsilon_charged={epsilon}, delta_charged={delta})"


def dry_run(
    spec: Path, *, state_paths: StatePaths, output: Output | None, release_id: str | None, series: str | None = None
) -> DryRun:
    """Do what `prepare.prepared_release` does, in its order, but write nothing: no lock, no folder, no entry.

    A refusal is not recorded in the ledger either, since nobody tried to charge anything.

    Args:
        spec: the specification's file.
        state_paths: where the ledger and the private store lie.
        output: the release's place, instead of the specification's.
        release_id: id to run, resume or look up; None for a new release.
        series: the series whose next release this is, None for a release that pays for itself.

    Raises:
        InputRefused: as `prepared_release`.
        AccountantRefused: as `prepared_release`.
    """
    check_release_id(release_id)
    series, part = series_and_part(series)
    ad_hoc = read_spec(spec, output=output) if series is None else None
    reader = open_reader(state_paths.ledger_url)
    if state_paths.home.exists():
        require_private(state_paths.home)
    keys = state_paths.anchoring.keys
    keys.current()
    reader.require_anchored(state_paths.anchoring)
    request = ad_hoc or request_of_series(spec, output=output, series=reader.series(str(series)), part=part)
    require_apart(request)
    state = None
    if release_id is not None:
        require_not_held(state_paths.home, ledger_id=reader.ledger_id, release_id=release_id)
        state = reader.release(release_id)
    if (violation := release_violation(reader, request, state=state, series=series)) is not None:
        raise violation.refusal
    layout = None
    other_names: tuple[str, ...] = ()
    if state is None or state.stage != "published":
        charged = copy = None
        if state is not None:
            charged = remembered_facts(state_paths.home, ledger_id=reader.ledger_id, release_id=state.release_id)
            copy = copy_of_release(state_paths.home, ledger_id=reader.ledger_id, release_id=state.release_id)
        layout = layout_of_source(request, charged=charged, copy=copy)
        check_output(request.output, own=None if state is None else release_id, keys=keys)
        names = known_names_of_source(state_paths.home, source_metadata_bytes(layout))
        other_names = tuple(name for name in names if name != f"'{request.dataset}'")
    paid = state is not None or series is not None
    return DryRun(
        release_id=release_id,
        request=request,
        state=state,
        series=series,
        dataset=reader.dataset(request.dataset),
        charge=None if paid else charged_price(request.price),
        layout=layout,
        other_names=other_names,
        remarks=() if layout is None else metadata_remarks(layout, request),
    )
