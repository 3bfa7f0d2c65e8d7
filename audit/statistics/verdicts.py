"""The part "statistics": every claim against what its draws show, and tests across groups, at one false-alarm rate."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ..sources import bench_digest
from .cases import Case
from .cases_of_flows import SIZES, flow_cases
from .confidence import ALARM, epsilon_lower
from .draws import Audited, all_cases, audit, shown_progress
from .empty_data import same_for_empty_data
from .uniformity import TESTS_OF_A_FLOW, goodness, uniformity
from .whole_flow import FLOWS, run_flows

__all__ = ["statistics"]


def statistics(results: Path, *, scale: float, processes: int, only: str = "") -> dict[str, Any]:
    """Run all audits and judge them.

    Args:
        results: folder of the state and of the part's result.
        scale: all draws are multiplied by it; 1 for the stated goals.
        processes: how many draw at the same time.
        only: a part of the names of the cases to run; flows are left out then unless it names them.
    """
    began = time.monotonic()
    state, sources = results / "state", bench_digest()
    flows = {name: case for name, case in flow_cases(scale).items() if only in name}
    twins = {flow.twin for flow in FLOWS if flow.name in flows}
    cases = [
        case
        for name, case in all_cases(scale).items()
        if name in twins or (only in name and not name.startswith("flow-twin"))
    ]
    with shown_progress() as progress:
        found = {
            audited.case.name: audited
            for audited in audit(
                cases, folder=state, sources=sources, scale=scale, processes=processes, progress=progress
            )
        }
    sampled = [flow for flow in FLOWS if flow.name in flows and flow.binomial]
    comparisons = (
        sum(not name.startswith("flow-twin") for name in found)
        + len(flows)
        + TESTS_OF_A_FLOW * len(sampled)
        + 2 * sum(one.case.exact_outcomes is not None for one in found.values())
    )
    alarm = ALARM / comparisons
    goals = scale >= 1.0
    judged = [
        _judged(audited, alarm, goals=goals)
        for audited in found.values()
        if not audited.case.name.startswith("flow-twin")
    ]
    tests = {
        f"{one.case.name}: outcomes {words} the record follow the exact distribution": goodness(
            one.counts[side], one.case.exact_outcomes(one.pair, side)
        )
        for one in found.values()
        if one.case.exact_outcomes is not None
        for side, words in enumerate(("with", "without"))
    }
    sizes = {flow.name: SIZES[flow.twin][found[flow.twin].pair] for flow in FLOWS if flow.name in flows}
    findings = []
    if flows:
        Console(stderr=True).print("releases through the whole flow")
        try:
            for runs in run_flows(sizes, flows, folder=state, sources=sources, scale=scale):
                twin = found[runs.flow.twin]
                counts = np.bincount(runs.outcomes[0]), np.bincount(runs.outcomes[1])
                audited = Audited(case=flows[runs.flow.name], pair=twin.pair, event=twin.event, counts=counts)
                judged.append(_judged(audited, alarm, goals=goals, twin=twin.case) | {"runs": runs.flow.runs})
                if runs.flow.binomial:
                    tests |= uniformity(runs)
            if not only:
                findings += same_for_empty_data()
        except RuntimeError as error:  # a release was refused or failed
            findings.append(f"the whole flow: {error}")
    findings += [f"{one['name']}: {words}" for one in judged for words in one["faults"]]
    findings += [f"{name}: p = {p:.3g}, below {alarm:.3g}" for name, p in tests.items() if p < alarm]
    return {
        "part": "statistics",
        "outcome": "failed" if findings else "passed",
        "seconds": round(time.monotonic() - began, 1),
        "claims": judged,
        "tests": [{"name": name, "p": p} for name, p in tests.items()],
        "findings": findings,
        "false_alarm_rate": ALARM,
        "comparisons": comparisons,
        "scale": scale,
        "sources": sources,
    }


def _judged(audited: Audited, alarm: float, *, goals: bool, twin: Case | None = None) -> dict[str, Any]:
    case, event = audited.case, audited.event
    hits = [event.hits(counts) for counts in audited.counts]
    draws = [int(counts.sum()) for counts in audited.counts]
    bound = epsilon_lower(
        hits[event.likelier],
        draws[event.likelier],
        hits[1 - event.likelier],
        draws[1 - event.likelier],
        delta=case.delta,
        alarm=alarm,
    )
    faults = []
    if bound > case.claim:
        faults.append(f"the claim ε = {case.claim:.6g} is contradicted: at least {bound:.6g}")
    if case.exact is not None and bound > case.exact * (1.0 + 1e-9):
        faults.append(f"the exact profile's ε = {case.exact:.6g} is contradicted: at least {bound:.6g}")
    tightness = None if case.exact is None else bound / case.exact
    if goals and tightness is not None and tightness < case.goal:
        faults.append(f"the bound reaches {tightness:.1%} of the exact ε, less than {case.goal:.0%}")
    return {
        "name": case.name,
        "mechanism": case.mechanism,
        "rule": case.rule,
        "delta": case.delta,
        "claim": case.claim,
        "exact": case.exact,
        "bound": bound,
        "of_exact": tightness,
        "of_claim": bound / case.claim,
        "neighbours": (twin or case).pairs[audited.pair].name,
        "pairs_tried": len((twin or case).pairs),
        "direction": "adding" if event.likelier == 0 else "removing",
        "event": _event_words(event.outcomes),
        "hits": hits,
        "draws": draws,
        "coins": case.coins,
        "goal": case.goal,
        "faults": faults,
    }


def _event_words(outcomes: tuple[int, ...]) -> str:
    """The event in a few words: ranges of the outcomes' numbers."""
    ranges: list[list[int]] = []
    for outcome in outcomes:
        if ranges and outcome == ranges[-1][1] + 1:
            ranges[-1][1] = outcome
        else:
            ranges.append([outcome, outcome])
    words = [str(low) if low == high else f"{low}–{high}" for low, high in ranges[:4]]
    return "outcomes " + ", ".join(words) + (f" and {len(ranges) - 4} more ranges" if len(ranges) > 4 else "")
