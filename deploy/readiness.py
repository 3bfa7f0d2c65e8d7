"""Whether a release could be charged now, and what a run would begin with: budget and metadata, by looking alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click

from ..accounting.kernel.ledger.entries import ChargedPrice, FilterCharge, sorted_fields
from ..accounting.kernel.prices.registry import mechanism_record
from ..accounting.ledger.charge_request import charged_price
from ..accounting.ledger.lookup import DatasetState
from ..flows.metadata_remarks import metadata_remarks
from ..flows.paths import StatePaths, reader_of
from ..flows.prepare import layout_of_source
from ..flows.releases.release_kind import rehearsal_epsilon
from ..mechanisms.kernel.amounts import amount_shown, counted
from ..mechanisms.kernel.errors import InputRefused, Refusal
from ..mechanisms.wording import amount_left, share_shown
from ..tasks.inputs.source import SourceLayout
from ..tasks.inputs.source_formats import shown_format
from ..tasks.request import Request
from .terminal.explanation import inclusion_facts, limit_facts, limit_in_words

if TYPE_CHECKING:
    from ..flows.prepare import PreparedRelease
    from .schemas import outputs
    from .schemas.outputs import BudgetFacts, SourceFacts


NO_BUDGET: dict[str, Any] = dict.fromkeys(
    f"{name}_{part}" for name in ("epsilon", "delta") for part in ("budget", "spent", "left", "left_after")
)


def readiness(request: Request, *, state_paths: StatePaths) -> dict[str, Any]:
    """Return what the ledger and the source's metadata say of a release; what speaks against it is a `problem`.

    PRIVACY: of the source only names, CSV headers and Parquet footers are looked at; of the ledger its accounts.
    """
    budget, dataset = _budget(request, state_paths)
    return {
        "budget": budget,
        "source": _source(request),
        "rehearsal_epsilon": _rehearsal(request, dataset),
    }


def _rehearsal(request: Request, dataset: DatasetState | None) -> float | None:
    """Return the ε of a rehearsal; None where there is none, as of a data set that can be released once."""
    epsilon = rehearsal_epsilon(request)
    return None if epsilon is None or (dataset is not None and dataset.survey) else float(epsilon)


def _offer(epsilon: float | None) -> Iterator[str]:
    """Yield that a release can be rehearsed before its charge."""
    if epsilon is not None:
        yield (
            f"A rehearsal tells beforehand, for ε = {amount_shown(epsilon)}, how many values of each column become *: "
            "crowdblend run SPEC.toml --rehearse"
        )


def budget_facts(state: DatasetState, charge: ChargedPrice | None, *, taken: FilterCharge | None) -> BudgetFacts:
    """Return a data set's account and what would be left after a charge, or after what is taken of a filter budget."""
    before, registered = state.account, state.filter_budget
    if registered is not None:
        after = before if taken is None else before.charged(epsilon=taken.divergence, delta=taken.tail)
        facts = NO_BUDGET | {
            "accounting": "filter",
            "epsilon_budget": float(registered.epsilon),
            "delta_budget": float(registered.delta),
            "order": float(registered.accounting.order),
            "divergence": 0.0 if taken is None else float(taken.divergence),
            "tail": 0.0 if taken is None else float(taken.tail),
            "spent_share": float(before.spent_share),
            "spent_share_after": float(after.spent_share),
        }
        return cast("BudgetFacts", {"dataset": state.name, **facts, "problem": None})
    after = before if charge is None else before.charged(epsilon=charge.epsilon, delta=charge.delta)
    facts = {"accounting": "additive"}
    for name in ("epsilon", "delta"):
        total, spent, spent_after = (
            getattr(account, f"{name}_{part}")
            for account, part in ((before, "budget"), (before, "spent"), (after, "spent"))
        )
        facts |= {
            f"{name}_budget": float(total),
            f"{name}_spent": float(spent),
            f"{name}_left": float(total - spent),
            f"{name}_left_after": float(total - spent_after),
        }
    return cast("BudgetFacts", {"dataset": state.name, **facts, "problem": None})


def filter_charge_for(state: DatasetState, request: Request) -> FilterCharge | None:
    """Return what a release would take of a filter budget; None of an additive one, or without a divergence."""
    if state.filter_budget is None:
        return None
    from ..accounting.kernel.ledger.filter_budget import (  # numerics, for a filter budget alone
        FilterBudget,
        filter_charge,
    )

    try:
        return filter_charge(
            sorted_fields(mechanism_record(request.mechanism)),
            budget=FilterBudget.of(state.filter_budget),
            releases=request.price.releases,
            rows_per_person=request.price.rows_per_person,
        )
    except (ArithmeticError, InputRefused, ValueError):
        return None


def filter_lines(budget: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a release would take of a filter budget, in a line for people."""
    after = budget["spent_share_after"]
    yield (
        f"Filter budget of '{budget['dataset']}' for ε = {amount_shown(budget['epsilon_budget'])}, δ = "
        f"{amount_shown(budget['delta_budget'])}: {share_shown(budget['spent_share'])} is spent; this takes a "
        f"divergence of {amount_shown(budget['divergence'])} at order {budget['order']:g} and a tail of "
        f"{amount_shown(budget['tail'])}, and {share_shown(after)} would be spent."
    )


def source_facts(layout: SourceLayout, *, remarks: tuple[str, ...]) -> SourceFacts:
    """Return how many files the source has, and of which format; how many records is left out on purpose."""
    source = layout.source
    stored = (len(source.files), source.file_format.name) if source.query is None else (0, source.query.read_by.name)
    version = layout.source.version
    return {"files": stored[0], "format": stored[1], "problem": None, "version": version, "remarks": list(remarks)}


def readiness_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield what `readiness` found, in lines for people."""
    budget, source = facts["budget"], facts["source"]
    if budget.get("accounting") == "filter":
        yield from filter_lines(budget)
    elif budget["epsilon_budget"] is not None:
        yield f"Budget of '{budget['dataset']}': {_amount(budget, 'epsilon', 'ε')}; {_amount(budget, 'delta', 'δ')}."
    if budget["problem"] is not None:
        yield f"A run would be refused: {budget['problem']}"
    if source["problem"] is not None:
        yield f"A run would be refused: {source['problem']}"
    else:
        files = "1 file" if source["files"] == 1 else f"{source['files']} files" if source["files"] else "a query"
        table = "" if source["version"] is None else f", version {source['version']} of the table,"
        yield f"Source: {files} of {shown_format(source['format'])}{table} with every column that is named."
    for remark in source["remarks"]:
        yield f"Warning: {remark}"
    yield from _offer(facts.get("rehearsal_epsilon"))


def _amount(budget: Mapping[str, Any], name: str, symbol: str) -> str:
    total, spent, after = (budget[f"{name}_{part}"] for part in ("budget", "spent", "left_after"))
    left = (
        f"this would leave {amount_left(after)}" if after >= 0 else f"this is {amount_shown(-after)} more than is left"
    )
    return f"{amount_shown(spent)} of {symbol} = {amount_shown(total)} is spent, {left}"


def _budget(request: Request, state_paths: StatePaths) -> tuple[BudgetFacts, DatasetState | None]:
    """Return what the ledger says of a release, and its data set, which is None where the ledger has none."""
    state: DatasetState | None = None
    facts = cast("BudgetFacts", {"dataset": request.dataset, **NO_BUDGET, "problem": None})
    try:
        reader = reader_of(state_paths)
        state = reader.dataset(request.dataset)
        facts = budget_facts(state, charged_price(request.price), taken=filter_charge_for(state, request))
        violation = reader.check_charge(
            dataset=request.dataset, mechanism=request.mechanism, price=request.price, unit=request.unit
        )
    except Refusal as refusal:
        facts["problem"] = _sentences(refusal)
        return facts, state
    facts["problem"] = None if violation is None else _sentences(violation)
    return facts, state


def _source(request: Request) -> SourceFacts:
    try:
        request = request.on_day(datetime.now(UTC).date())
        layout = layout_of_source(request)
        return source_facts(layout, remarks=metadata_remarks(layout, request))
    except Refusal as refusal:
        return {"files": None, "format": None, "problem": _sentences(refusal), "version": None, "remarks": []}


def _sentences(refusal: Refusal) -> str:
    """Return a refusal without what was not done: nobody has tried."""
    head = f"{refusal.where}: {refusal.what}" if refusal.where else refusal.what
    return f"{head} {refusal.remedy}".strip()


def print_dry_run(found: PreparedRelease, *, as_json: bool) -> None:
    """Print what a run would begin with, on standard output."""
    from .run import two_names_warning, warn_of_metadata  # what an explanation does without

    if found.other_names:
        click.echo(two_names_warning(found.other_names, dataset=found.request.dataset), err=True)
    warn_of_metadata(found.remarks, warn=partial(click.echo, err=True))
    if as_json:
        click.echo(json.dumps(dry_run_facts(found), ensure_ascii=False))
        return
    budget: Mapping[str, Any] = _budget_after(found)
    price = found.request.price
    click.echo(f"Dry run of '{found.request.label}': {_charge_in_words(found)}.")
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
    if found.charge is not None:
        for line in _offer(_rehearsal(found.request, found.dataset)):
            click.echo(line)
    click.echo("Nothing was charged or written, and no record was read.")


def _budget_after(found: PreparedRelease) -> outputs.BudgetFacts:
    taken = None if found.charge is None else filter_charge_for(found.dataset, found.request)
    return budget_facts(found.dataset, found.charge, taken=taken)


def _charge_in_words(found: PreparedRelease) -> str:
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


def dry_run_facts(found: PreparedRelease) -> outputs.DryRun:
    """Return what `run --dry-run --json` prints."""
    request, charge = found.request, found.charge
    paper = request.paper_price
    return {
        "dry_run": True,
        "release_id": found.release_id or None,
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
        "rehearsal_epsilon": _rehearsal(request, found.dataset),
        "budget": _budget_after(found),
        "source": None if found.layout is None else source_facts(found.layout, remarks=found.remarks),
        "levels": request.levels,
        "limit": limit_facts(request),
        **inclusion_facts(request.thinning),
        "output": str(request.output),
    }
