"""A plan for people: a small table on the terminal, and a picture of the frontier and the ε–δ curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ...accounting.descriptions.description_registry import description_of
from ...accounting.kernel.prices.arithmetic import float_up
from ...accounting.kernel.prices.privacy_profile import exp_up, log_profile
from ...accounting.kernel.prices.registry import mechanism_record
from ...accounting.kinds.composition.paper_bound import delta_paper, least_epsilon_of_paper
from ...accounting.theory.planning.inversion import Target, frontier
from ...accounting.theory.planning.planner import Plan
from ...mechanisms.kernel.amounts import amount_shown, counted
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.wording import amount_left, share_left_shown, share_shown
from .stages import console as own_console

if TYPE_CHECKING:
    from ...accounting.theory.planning.deletion_planning import DeletionPlan


def print_plan(plan: Plan, console: Console | None = None) -> None:
    """Write the plan's table to the console (standard output where none is given)."""
    (console or own_console()).print(plan_table(plan))


def plan_table(plan: Plan) -> Table:
    """Return the plan as a table of three columns (quantity, value, meaning), for a terminal or a notebook.

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


def deletion_facts(plan: DeletionPlan) -> dict[str, Any]:
    """Return the plan of a deletion release as `schemas.outputs.DeletionPlan` says it stands in JSON."""
    record = mechanism_record(plan.mechanism)
    of_mechanism = description_of(plan.mechanism).deletion
    deleted = None if of_mechanism is None else of_mechanism(plan.mechanism)
    margins = 0 if deleted is None else deleted.margins
    return {
        "mechanism": record,
        "noise": record["noise"],
        "parameter": Decimal(str(record.get("scale", record.get("epsilon")))),
        "expected_deletion": plan.expected_deletion,
        "largest_deletion": plan.largest_deletion,
        "stages": plan.mechanism.stages,
        "margins": margins,
        "margin_error": math.sqrt(deleted.margin_variance) if deleted is not None and margins else None,
        **({"blocks": record["blocks"]} if "blocks" in record else {}),
        **({"pairs": record["pairs"], "pair_scale": Decimal(str(record["pair_scale"]))} if "pairs" in record else {}),
        "releases": plan.price.releases,
        "epsilon": plan.price.epsilon,
        "delta": plan.price.delta,
        "rule": plan.price.rule,
    }


def print_deletion(plan: DeletionPlan, console: Console | None = None) -> None:
    """Write the plan of a deletion release to the console (standard output where none is given)."""
    facts = deletion_facts(plan)
    many = plan.price.releases > 1
    table = Table("", "value", "meaning", title="What would be deleted")
    beside: tuple[tuple[str, str | None, str], ...] = ()
    if facts["margins"]:
        error = f"± {facts['margin_error']:.1f}"
        beside = (
            ("margins", str(facts["margins"]), "noisy counts by one column or two, beside the rows"),
            ("their noise", error, "standard error of each of their counts, in records"),
        )
    if "blocks" in facts:
        beside = (*beside, ("blocks", str(facts["blocks"]), "tables of rows, each with so many stages"))
    if "pairs" in facts:
        beside = (
            *beside,
            ("pairs", str(facts["pairs"]), "chosen privately and counted, one after the other"),
            ("their noise", f"± {facts['pair_scale']}", "standard error of each of their counts, in records"),
        )
    for name, value, meaning in (
        ("noise", str(facts["noise"]), "the shape that deletes least at this price, of those tried"),
        ("parameter", _short(facts["parameter"]), "σ" if facts["noise"] == "gaussian" else "ε of one stage"),
        ("expected", f"{plan.expected_deletion:.1f}", "records that a group loses at a stage"),
        ("at most", str(plan.largest_deletion), "records that a group loses at a stage"),
        ("stages", str(plan.mechanism.stages), "what one does not publish goes on to the next"),
        *beside,
        ("releases", str(plan.price.releases), "with parameters fixed beforehand"),
        ("ε", _short(plan.price.epsilon), "charged for all releases together" if many else "charged"),
        ("δ", _short(plan.price.delta), "over all releases" if many else "of the release"),
    ):
        table.add_row(name, value, meaning)
    (console or own_console()).print(table)


def print_forecast(facts: Mapping[str, Any], console: Console | None = None) -> None:
    """Print how long a budget lasts: what `forecast_facts` gives, with the data set's name."""
    console = console or own_console()
    left = f"ε = {amount_left(facts['epsilon_left'])}, δ = {amount_left(facts['delta_left'])}"
    filtered = facts["accounting"] == "filter"
    if filtered:
        left = f"{share_left_shown(facts['share_left'])} of its filter budget"
    table = Table(title=f"How long '{facts['dataset']}' lasts: {left} are left")
    for name in ("calendar", "paid"):
        table.add_column(name)
    for name in ("releases", "lasts", "ε in all"):
        table.add_column(name, justify="right")
    for calendar in facts["calendars"]:
        first = f"{calendar['calendar']} of k={calendar['k']}, rate={calendar['sampling_rate']}"
        for way in calendar["ways"]:
            many = f"{'over ' if way['most'] else ''}{way['releases']:,}"
            table.add_row(first, way["way"], many, way["lasts"], _short(way["epsilon"]) or "")
            first = ""
        table.add_section()
    console.print(table)
    for way in facts["calendars"][0]["ways"]:
        if way["share_each"] is not None:
            share = share_shown(way["share_each"])
            console.print(
                f"Filter: what is charged here. Each release takes {share} of the budget; k, rate and maps may follow "
                "from what was published. The others are what the same share of an additive budget would carry."
            )
        if way["epsilon_each"] is not None:
            each = f"ε = {amount_shown(way['epsilon_each'])}, δ = {amount_shown(way['delta_each'])}"
            console.print(f"One by one: each is charged {each}; k, rate and maps may follow from what was published.")
    console.print("A series is paid whole when it is registered, and its k and rate are fixed then.")
    base, *others = facts["changes"]
    changes = Table(title="About so many releases fit with another k or rate")
    for name in ("k", "rate", *base["releases"]):
        changes.add_column(name, justify="right")
    for one in (base, *others):
        changes.add_row(str(one["k"]), str(one["sampling_rate"]), *(f"{many:,}" for many in one["releases"].values()))
    console.print(changes)
    if facts["calendars"][0]["ways"][0]["limited_by"] == "tails":
        console.print(
            "Of the filter budget the tails are used up first: they were sized with the budget, for the releases that "
            "were expected then."
        )
    console.print("Nothing was charged.")


def _text(value: Decimal | int | None) -> str | None:
    return None if value is None else str(value)


def _short(value: Decimal | None) -> str | None:
    """Return an amount as everywhere; None where there is none."""
    return None if value is None else amount_shown(value)


_FRONTIER_RATES = ("0.001", "0.003", "0.01", "0.03", "0.05", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8")


def draw_plan(plan: Plan, path: Path) -> None:
    """Draw the frontier (least k for each rate) and one release's ε–δ curve into a file; its ending names the format.

    Raises:
        InputRefused: there is nothing to draw, matplotlib is not installed, or the file can't be written.
    """
    if plan.k is None:
        raise InputRefused("an amplified guarantee has no frontier to draw.", where="--plot")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as fault:
        raise InputRefused(
            "drawing needs matplotlib, which is not installed.",
            where="--plot",
            remedy="Install crowdblend with its extra 'plot'.",
        ) from fault
    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    target = Target(
        epsilon=plan.epsilon,
        delta=plan.delta,
        releases=plan.releases,
        selection_epsilon=plan.selection_epsilon,
        selection_rate=plan.selection_rate,
    )
    points = frontier(target, sampling_rates=[Decimal(rate) for rate in _FRONTIER_RATES])
    for name, ks, style in (
        ("charged", [point.k_exact for point in points], "o-"),
        ("paper's bound", [point.k_paper for point in points], "s--"),
    ):
        known = [(float(point.sampling_rate), k) for point, k in zip(points, ks, strict=True) if k is not None]
        if known:
            left.plot([rate for rate, _ in known], [k for _, k in known], style, label=name)
    left.plot([float(plan.sampling_rate)], [plan.k], "k*", markersize=12, label="this plan")
    left.set(xlabel="sampling rate β", ylabel="least k", xscale="log", yscale="log")
    left.set_title(
        f"ε = {amount_shown(plan.epsilon)}, δ = {amount_shown(plan.delta)}, {counted(plan.releases, 'release')}"
    )
    left.legend()
    rate = float_up(plan.sampling_rate)
    farthest = max(2.0 * float(plan.epsilon_exact or plan.epsilon), 1.5 * least_epsilon_of_paper(rate), 1e-6)
    epsilons = np.linspace(0.0, farthest, 400)
    right.plot(epsilons, np.exp(log_profile(k=plan.k, sampling_rate=rate, epsilons=epsilons)), label="exact profile")
    proved = epsilons[epsilons >= least_epsilon_of_paper(rate)]
    if proved.size:
        bounds = [max(delta_paper(k=plan.k, sampling_rate=rate, epsilon=float(e)), exp_up(-700.0)) for e in proved]
        right.plot(proved, bounds, "--", label="paper's bound")
    right.axhline(max(float(plan.delta), math.ulp(0.0)), color="grey", linewidth=0.8)
    right.set(xlabel="ε", ylabel="δ", yscale="log")
    right.set_title(f"one release, k = {plan.k}, β = {plan.sampling_rate}")
    right.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as fault:
        raise InputRefused(f"the picture can't be written: {fault}.", where=f"--plot {path}") from fault
