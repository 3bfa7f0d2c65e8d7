"""A run's result in a few lines: what was published, what it cost and when, and what to run next."""

from __future__ import annotations

from typing import Any

from ..accounting.ledger.published_words import published_text
from ..mechanisms.amount_format import amount_shown

__all__ = ["levels_text", "result_text"]


def levels_text(levels: dict[str, int], *, drawn: bool) -> str:
    """The level of each column: `age 2, town 1 (drawn privately)`."""
    named = ", ".join(f"{column} {level}" for column, level in levels.items())
    return f"{named} (drawn privately)" if drawn else named


def result_text(result: dict[str, Any]) -> str:
    """What `crowdblend run` says of a result that it has as `--json` prints it."""
    kind, paper, series = result["mechanism"]["kind"], result["epsilon_paper"], result["series"]
    what = published_text(kind, groups=result["published_groups"], records=result["published_records"])
    cost = f"ε = {amount_shown(result['epsilon'])}, δ = {amount_shown(result['delta'])}"
    if paper is not None:
        cost += f" (by the paper's bound ε = {amount_shown(paper)})"
    payer = f"charged to '{result['dataset']}': {cost}."
    if series is not None:
        place = f"release {series['number']} of {series['releases']} of the series '{series['name']}'"
        payer = f"{place}, charged whole to '{result['dataset']}': {cost}."
    if result["looked_up"]:
        lines = [
            f"Published before: {what}: {result['output']}",
            f"Nothing was read or charged now. When it was made: {payer}",
        ]
    else:
        lines = [f"Published {what}: {result['output']}", payer[0].upper() + payer[1:]]
    if result["levels"]:
        lines.append(f"Levels: {levels_text(result['levels'], drawn=kind.startswith('epsilon-safe-'))}.")
    lines.append(f"Release {result['release_id']}; check it with: crowdblend verify {result['certificate']}")
    return "\n".join(lines)
