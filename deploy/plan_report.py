"""A plan for people: a small table on the terminal."""

from __future__ import annotations

from decimal import Decimal

from rich.console import Console
from rich.table import Table

from ..accounting.theory.planning import Plan
from ..mechanisms.amount_format import amount_shown

__all__ = ["plan_table", "print_plan"]


def print_plan(plan: Plan, console: Console | None = None) -> None:
    """Write the plan's table to the console (standard output where none is given)."""
    (console or Console()).print(plan_table(plan))


def plan_table(plan: Plan) -> Table:
    """The plan as a table of three columns (quantity, value, meaning), for a terminal or a notebook.

    Args:
        plan: a priced point.
    """
    table = Table(title="What this would cost" if plan.k is not None else "What the guarantee is worth")
    table.add_column("")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    many = plan.releases > 1
    together = f"all {plan.releases} releases together" if many else "the release"
    rows: list[tuple[str, str | None, str]] = [
        ("k", _text(plan.k), "groups with fewer sampled records are dropped"),
        ("sampling rate", _text(plan.sampling_rate), "probability that a record is sampled"),
        ("releases", str(plan.releases) if many else None, "each with a fresh sample"),
        ("selection ε", _text(plan.selection_epsilon), "for choosing the map privately, each time"),
        ("selection rate", _text(plan.selection_rate), "of the fresh sample that the choice is made on"),
        ("ε", _short(plan.epsilon), f"charged for {together}"),
        ("δ", _short(plan.delta), f"for {together}"),
    ]
    if plan.k is None:
        rows.append(("given at rate", _text(plan.amplify_from), "amplified by LQS Theorem 1"))
    else:
        rows += [
            ("ε, one release", _short(plan.epsilon_exact) if many else None, "exact profile, at the same δ"),
            ("ε by the paper", _short(plan.epsilon_paper) or "none", "LQS Theorem 3.9, added up"),
            ("δ at the ε asked", _short(plan.delta_exact), "exact"),
            ("δ by the paper", _short(plan.delta_paper), "at the ε asked"),
            ("least k", _text(plan.k_exact), "that keeps the ε asked at this δ"),
            ("least k by the paper", _text(plan.k_paper), "the same by LQS Theorem 3.9"),
        ]
    for name, value, meaning in rows:
        if value is not None:
            filled = plan.filled is not None and name == _NAMES.get(plan.filled)
            table.add_row(f"[bold]{name}[/bold]" if filled else name, value, meaning)
    return table


_NAMES = {"k": "k", "sampling_rate": "sampling rate", "epsilon": "ε", "delta": "δ", "releases": "releases"}


def _text(value: Decimal | int | None) -> str | None:
    return None if value is None else str(value)


def _short(value: Decimal | None) -> str | None:
    """An amount as everywhere; None where there is none."""
    return None if value is None else amount_shown(value)
