"""A run's result and a dry run's findings in a few lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ...accounting.theory.kinds.registry import mechanism_record
from ...flows.dry_run import DryRun
from ...mechanisms.amounts import amount_left, amount_shown, counted
from ...mechanisms.recoding import GeneralizationMap
from ..readiness import budget_facts, filter_charge_for, filter_lines, source_facts
from ..run import two_names_warning, warn_of_metadata
from .explanation import inclusion_facts, limit_facts, limit_in_words

if TYPE_CHECKING:
    from ..schemas import outputs

__all__ = ["tell_dry_run"]


def tell_dry_run(found: DryRun, *, as_json: bool) -> None:
    """Say what a run would begin with, on standard output.

    Args:
        found: what was found.
        as_json: one JSON object instead of lines.
    """
    if found.other_names:
        click.echo(two_names_warning(found.other_names, dataset=found.request.dataset), err=True)
    warn_of_metadata(found.remarks)
    if as_json:
        click.echo(json.dumps(_record(found), ensure_ascii=False))
        return
    budget: Mapping[str, Any] = _budget(found)
    price = found.request.price
    click.echo(f"Dry run of '{found.request.label}': {_charge(found)}.")
    click.echo(
        f"Its guarantee: ε = {amount_shown(price.epsilon)}, δ = {amount_shown(price.delta)}"
        f"{'' if price.releases == 1 else f', for all {price.releases} releases of the series'}."
    )
    if found.request.limit is not None:
        click.echo(f"It hides {limit_in_words(found.request.limit)}.")
    if budget["accounting"] == "filter":
        for line in filter_lines(budget):
            click.echo(line)
    else:
        click.echo(
            f"Left of the budget of '{found.dataset.name}' afterwards: ε = "
            f"{amount_left(budget['epsilon_left_after'])} of {amount_shown(budget['epsilon_budget'])}, δ = "
            f"{amount_left(budget['delta_left_after'])} of {amount_shown(budget['delta_budget'])}."
        )
    if found.layout is not None:
        source = found.layout.source
        table = "" if source.version is None else f" of version {source.version} of the table"
        read = f"{counted(len(source.files), 'file')}{table}" if source.query is None else source.query.where
        click.echo(f"It would read {read} and write {found.request.output}.")
    click.echo("Nothing was charged or written, and no record was read.")


def _budget(found: DryRun) -> outputs.BudgetFacts:
    taken = None if found.charge is None else filter_charge_for(found.dataset, found.request)
    return budget_facts(found.dataset, found.charge, taken=taken)


def _charge(found: DryRun) -> str:
    if found.charge is not None and found.dataset.filter_budget is not None:
        return f"a run would be charged to the filter budget of '{found.dataset.name}'"
    if found.charge is not None:
        cost = f"ε = {amount_shown(found.charge.epsilon)}, δ = {amount_shown(found.charge.delta)}"
        return f"a run would charge {cost} to '{found.dataset.name}'"
    if found.state is not None and found.state.stage == "published":
        return f"release '{found.release_id}' is published already, and a run would show its result and charge nothing"
    if found.state is not None:
        return f"release '{found.release_id}' is charged already, and a run would finish it and charge nothing"
    return f"the series '{found.series}' has paid, and a run would charge nothing"


def _record(found: DryRun) -> outputs.DryRun:
    request, charge = found.request, found.charge
    recoding, paper = request.recoding, request.paper_price
    return {
        "dry_run": True,
        "release_id": found.release_id,
        "stage": None if found.state is None else found.state.stage,
        "dataset": request.dataset,
        "series": found.series,
        "mechanism": mechanism_record(request.mechanism),
        "epsilon": float(request.price.epsilon),
        "delta": float(request.price.delta),
        "epsilon_paper": None if paper is None else float(paper.epsilon),
        "charge": {
            "epsilon": 0.0 if charge is None else float(charge.epsilon),
            "delta": 0.0 if charge is None else float(charge.delta),
        },
        "budget": _budget(found),
        "source": None if found.layout is None else source_facts(found.layout, remarks=found.remarks),
        "levels": {column.name: column.level for column in recoding.columns}
        if isinstance(recoding, GeneralizationMap)
        else None,
        "limit": limit_facts(request.limit),
        **inclusion_facts(request.thinning),
        "output": str(request.output),
    }
