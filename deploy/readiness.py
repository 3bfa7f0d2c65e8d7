"""Whether a release could be charged now: its data set's budget and its source's metadata, by looking alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..accounting.ledger.charge import charged_price
from ..accounting.ledger.entries.codec import sorted_fields
from ..accounting.ledger.entries.kinds import ChargedPrice, FilterCharge
from ..accounting.ledger.queries import DatasetState
from ..accounting.ledger.reader import open_reader
from ..accounting.theory.kinds.registry import mechanism_record
from ..flows.paths import StatePaths
from ..flows.prepare import layout_of_source, metadata_remarks
from ..mechanisms.amounts import amount_shown, share_shown
from ..mechanisms.errors import InputRefused, Refusal
from ..tasks.inputs.list import SourceLayout
from ..tasks.request import Request

if TYPE_CHECKING:
    from .schemas.outputs import BudgetFacts, SourceFacts

__all__ = ["budget_facts", "filter_charge_for", "filter_lines", "readiness", "readiness_lines", "source_facts"]

FORMATS = {"csv": "CSV", "parquet": "Parquet", "postgresql": "PostgreSQL"}


def readiness(request: Request, *, state_paths: StatePaths) -> dict[str, Any]:
    """What the ledger and the source's metadata say of a release; what speaks against it is a sentence in `problem`.

    PRIVACY: of the source only names, CSV headers and Parquet footers are looked at; of the ledger its accounts.

    Args:
        request: what is asked for.
        state_paths: where the ledger lies; there need be none.
    """
    return {"budget": _budget(request, state_paths), "source": _source(request)}


def budget_facts(state: DatasetState, charge: ChargedPrice | None, *, taken: FilterCharge | None) -> BudgetFacts:
    """A data set's account and what would be left of it after a charge.

    Args:
        state: the data set.
        charge: what would be charged; None for nothing.
        taken: what that takes of a filter budget; None for nothing, or of an additive one.
    """
    before, registered = state.account, state.filter_budget
    if registered is not None:
        after = before if taken is None else before.charged(epsilon=taken.divergence, delta=taken.tail)
        return {
            "dataset": state.name,
            "accounting": "filter",
            "epsilon_budget": float(registered.epsilon),
            "epsilon_spent": None,
            "epsilon_left": None,
            "epsilon_left_after": None,
            "delta_budget": float(registered.delta),
            "delta_spent": None,
            "delta_left": None,
            "delta_left_after": None,
            "order": float(registered.accounting.order),
            "divergence": 0.0 if taken is None else float(taken.divergence),
            "tail": 0.0 if taken is None else float(taken.tail),
            "spent_share": float(before.spent_share),
            "spent_share_after": float(after.spent_share),
            "problem": None,
        }
    after = before if charge is None else before.charged(epsilon=charge.epsilon, delta=charge.delta)
    return {
        "dataset": state.name,
        "accounting": "additive",
        "epsilon_budget": float(before.epsilon_budget),
        "epsilon_spent": float(before.epsilon_spent),
        "epsilon_left": float(before.epsilon_budget - before.epsilon_spent),
        "epsilon_left_after": float(after.epsilon_budget - after.epsilon_spent),
        "delta_budget": float(before.delta_budget),
        "delta_spent": float(before.delta_spent),
        "delta_left": float(before.delta_budget - before.delta_spent),
        "delta_left_after": float(after.delta_budget - after.delta_spent),
        "problem": None,
    }


def filter_charge_for(state: DatasetState, request: Request) -> FilterCharge | None:
    """What a release would take of a filter budget; None of an additive one, or where it has no divergence."""
    if state.filter_budget is None:
        return None
    from ..accounting.ledger.filter_budget import FilterBudget, filter_charge  # numerics, for a filter budget alone

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
    """What a release would take of a filter budget, in a line for people."""
    after = budget["spent_share_after"]
    yield (
        f"Filter budget of '{budget['dataset']}' for ε = {amount_shown(budget['epsilon_budget'])}, δ = "
        f"{amount_shown(budget['delta_budget'])}: {share_shown(budget['spent_share'])} is spent; this takes a "
        f"divergence of {amount_shown(budget['divergence'])} at order {budget['order']:g} and a tail of "
        f"{amount_shown(budget['tail'])}, and {share_shown(after)} would be spent."
    )


def source_facts(layout: SourceLayout, *, remarks: tuple[str, ...]) -> SourceFacts:
    """How many files the source has, and of which format; how many records is left out on purpose.

    Args:
        layout: its files with their headers or footers.
        remarks: what seems wrong by them, in sentences.
    """
    source = layout.source
    stored = (len(source.files), source.record_format.value) if source.query is None else (0, "postgresql")
    version = layout.source.version
    return {"files": stored[0], "format": stored[1], "problem": None, "version": version, "remarks": list(remarks)}


def readiness_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """What `readiness` found, in lines for people."""
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
        yield f"Source: {files} of {FORMATS[source['format']]}{table} with every column that is named."
    for remark in source["remarks"]:
        yield f"Warning: {remark}"


def _amount(budget: Mapping[str, Any], name: str, symbol: str) -> str:
    total, spent, after = (budget[f"{name}_{part}"] for part in ("budget", "spent", "left_after"))
    left = f"this would leave {after:.6g}" if after >= 0 else f"this is {-after:.6g} more than is left"
    return f"{spent:.6g} of {symbol} = {total:.6g} is spent, {left}"


def _budget(request: Request, state_paths: StatePaths) -> BudgetFacts:
    facts: BudgetFacts = {
        "dataset": request.dataset,
        "epsilon_budget": None,
        "epsilon_spent": None,
        "epsilon_left": None,
        "epsilon_left_after": None,
        "delta_budget": None,
        "delta_spent": None,
        "delta_left": None,
        "delta_left_after": None,
        "problem": None,
    }
    try:
        reader = open_reader(state_paths.ledger_url)
        state = reader.dataset(request.dataset)
        facts = budget_facts(state, charged_price(request.price), taken=filter_charge_for(state, request))
        violation = reader.check_charge(dataset=request.dataset, mechanism=request.mechanism, price=request.price)
    except Refusal as refusal:
        facts["problem"] = _sentences(refusal)
        return facts
    facts["problem"] = None if violation is None else _sentences(violation.refusal)
    return facts


def _source(request: Request) -> SourceFacts:
    try:
        layout = layout_of_source(request)
        return source_facts(layout, remarks=metadata_remarks(layout, request))
    except Refusal as refusal:
        return {"files": None, "format": None, "problem": _sentences(refusal), "version": None, "remarks": []}


def _sentences(refusal: Refusal) -> str:
    """A refusal without what was not done: nobody has tried."""
    head = f"{refusal.where}: {refusal.what}" if refusal.where else refusal.what
    return f"{head} {refusal.remedy}".strip()
