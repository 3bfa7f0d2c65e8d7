"""What became of the mutants that were met: shares of survivors, each with its explanation."""

from __future__ import annotations

import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from .mutants import DECISIVE, Mutant

__all__ = ["DEAD", "reported", "why_of"]

EXPLAINED = Path(__file__).with_name("explained.toml")
DEAD = ("killed", "killed at import", "too slow")
MOST_SURVIVING = 0.05


def reported(mutants: list[Mutant], outcomes: dict[str, str], *, of: list[Mutant], seed: int) -> dict[str, Any]:
    """The outcomes, and each survivor with its explanation; whatever is not surely dead counts as one.

    Args:
        mutants: those that were met.
        outcomes: name → outcome.
        of: all.
        seed: of their order.
    """
    survivors, findings = [], []
    for mutant in mutants:
        if outcomes[mutant.name] in (*DEAD, "no change"):
            continue
        (before, after), why = mutant.change(), why_of(mutant)
        survivors.append({"name": mutant.name, "before": before, "after": after, "why": why})
        if why is None:
            findings.append(f"{mutant.name}: {before!r} -> {after!r} {outcomes[mutant.name]}")
    unexplained = {survivor["name"] for survivor in survivors if survivor["why"] is None}
    surviving = {survivor["name"] for survivor in survivors}

    def share(chosen: list[Mutant]) -> dict[str, Any]:
        counted = [one for one in chosen if outcomes[one.name] not in ("no change", "killed at import")]
        return {
            "met": len(counted),
            "survived": sum(one.name in surviving for one in counted),
            "surviving_share": round(sum(one.name in surviving for one in counted) / max(1, len(counted)), 4),
            "unexplained": sum(one.name in unexplained for one in counted),
        }

    every = share(mutants)
    return {
        "part": "mutation",
        "outcome": "passed" if mutants and not findings and every["surviving_share"] < MOST_SURVIVING else "failed",
        "findings": findings,
        "seed": seed,
        "mutants": len(of),
        "places": len({(one.path, one.line, one.column) for one in of}),
        "met": len(mutants),
        "outcomes": dict(Counter(outcomes[mutant.name] for mutant in mutants)),
        "all": every,
        "decisive": share([mutant for mutant in mutants if mutant.path in DECISIVE]),
        "others": share([mutant for mutant in mutants if mutant.path not in DECISIVE]),
        "survivors": survivors,
    }


def why_of(mutant: Mutant) -> str | None:
    """Why a mutant that survives changes nothing that is promised; None where nobody looked at it."""
    return _explanations().get((str(mutant.path), *mutant.change()))


@cache
def _explanations() -> dict[tuple[str, str, str], str]:
    rows = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["mutant"]
    return {(row["path"], row["before"], row["after"]): row["why"] for row in rows}
