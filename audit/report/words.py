"""Numbers of the report as people read them."""

from __future__ import annotations

from typing import Any

__all__ = ["figures_of", "in_short", "short"]


def short(number: float | None, digits: int = 4) -> str:
    """A number with a few significant digits; a dash for none."""
    if number is None:
        return "–"
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:.{digits}g}"


def figures_of(report: dict[str, Any]) -> dict[str, Any]:
    """What the report's head and the summary say in numbers."""
    parts = report["parts"]
    claims = parts.get("statistics", {}).get("claims", [])
    tests = parts.get("statistics", {}).get("tests", [])
    faults = parts.get("faults", {}).get("faults", [])
    exhibits = parts.get("exhibits", {}).get("exhibits", [])
    caught = [fault for fault in faults if any(one["says"] == "caught" for one in fault["detectors"])]
    own = [
        part for part in parts.values() if "processor_seconds" in part
    ]  # of `make audit`; other commands left the rest
    goals = [claim for claim in claims if claim["goal"] > 0.0]
    return {
        "claims": len(claims),
        "contradicted": sum(claim["bound"] > claim["claim"] for claim in claims),
        "draws": sum(sum(claim["draws"]) for claim in claims),
        "flows": sum(claim["name"].startswith("flow") for claim in claims),
        "goals": len(goals),
        "goals_met": sum(claim["of_exact"] >= claim["goal"] for claim in goals),
        "least_goal": min((claim["of_exact"] for claim in goals), default=None),
        "tests": len(tests),
        "smallest_p": min((test["p"] for test in tests), default=None),
        "alarm": parts.get("statistics", {}).get("false_alarm_rate"),
        "comparisons": parts.get("statistics", {}).get("comparisons"),
        "exhibits": len(exhibits),
        "betrayed": sum(exhibit["ours_betrays"] for exhibit in exhibits),
        "faults": len(faults),
        "caught": len(caught),
        "first": sum(fault["written_first"] for fault in faults),
        "first_caught": sum(fault["written_first"] for fault in caught),
        "caught_by_bench": sum(
            any(one["says"] == "caught" and one["name"].startswith("audit") for one in fault["detectors"])
            for fault in faults
        ),
        "minutes": sum(part["seconds"] for part in own) / 60.0,
        "processor_minutes": sum(part["processor_seconds"] for part in own) / 60.0,
    }


def in_short(part: dict[str, Any]) -> str | None:
    """What a part beside `make audit` has found, in one line; None of the others, which have chapters of their own."""
    match part:
        case {"part": "coverage", "packages": packages}:
            shares = ", ".join(f"{name} {package['percent']}%" for name, package in packages.items())
            return f"of lines and branches together: {shares}"
        case {"part": "mutation", "all": every, "decisive": decisive, "mutants": mutants}:
            return (
                f"{every['survived']:,} of {every['met']:,} mutants survive ({every['surviving_share']:.1%}), "
                f"{every['survived'] - every['unexplained']:,} of them explained; "
                f"of the decisive modules {decisive['survived']:,} of {decisive['met']:,} "
                f"({decisive['surviving_share']:.1%}); there are {mutants:,} mutants in all"
            )
        case {"part": "fuzz", "runs": runs, "minutes_each": minutes}:
            inputs, targets = sum(run["inputs"] for run in runs), len({run["target"] for run in runs})
            hours = sum(run["seconds"] for run in runs) / 3600
            return f"{inputs:,} inputs to {targets} targets in {minutes:g} minutes each, {hours:.1f} hours in all"
        case {"part": "leaks", "scenes": scenes, "controls": controls}:
            return f"{len(scenes)} scenes, {len(controls)} controls"
        case _:
            return None
