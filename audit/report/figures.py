"""The report's figure: how near each audited lower bound comes to the exact ε and to what is charged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

__all__ = ["tightness_figure"]

WIDTH, ROW, LEFT, RIGHT, TOP = 960, 26, 330, 64, 44
LONGEST_NAME = 50


def tightness_figure(claims: Sequence[dict[str, Any]]) -> Markup:
    """An SVG of one row a claim: a bar up to the bound, a tick at the exact ε, a line at the charge."""
    if not claims:
        return Markup("")
    height = TOP + ROW * len(claims) + 12
    span = WIDTH - LEFT - RIGHT
    parts = [
        f'<svg class="tightness" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="tightness-title">',
        '<title id="tightness-title">Audited lower bounds as a share of the ε that is charged</title>',
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = LEFT + span * share
        kind = "charge" if share == 1.0 else "grid"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 8}"/>')
        label = "charged" if share == 1.0 else f"{share:.0%}"
        parts.append(f'<text class="axis" x="{x:.1f}" y="{TOP - 16}" text-anchor="middle">{label}</text>')
    for place, claim in enumerate(claims):
        y = TOP + ROW * place + ROW / 2
        bound = LEFT + span * min(claim["of_claim"], 1.1)
        kind = "bad" if claim["faults"] else "flow" if claim["name"].startswith("flow") else "process"
        name = claim["name"] if len(claim["name"]) <= LONGEST_NAME else claim["name"][:LONGEST_NAME] + "…"
        words = f"{claim['mechanism']}: charged {claim['claim']:.4g}, audited at least {claim['bound']:.4g}"
        parts.append(f'<g class="{kind}"><title>{escape(words)}</title>')
        parts.append(f'<text class="name" x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<rect x="{LEFT}" y="{y - 7:.1f}" width="{max(bound - LEFT, 1.0):.1f}" height="14" rx="2" class="bar"/>'
        )
        if claim["exact"] is not None:
            x = LEFT + span * claim["exact"] / claim["claim"]
            parts.append(f'<line class="exact" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 10:.1f}" y2="{y + 10:.1f}"/>')
        parts.append(f'<text class="value" x="{WIDTH - RIGHT + 8}" y="{y + 4:.1f}">{claim["of_claim"]:.0%}</text></g>')
    parts.append("</svg>")
    return Markup("\n".join(parts))  # noqa: S704 - what comes from the parts is escaped above
