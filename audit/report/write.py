"""Gathers what the parts have left into one report: JSON, a page to read, and the summary in docs/."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from benchmarks.generated_pages import record

from .figures import tightness_figure
from .words import figures_of, in_short, short

__all__ = ["EXPECTED", "FORMAT", "gathered", "write_report"]

FORMAT = "crowdblend-audit/1"
EXPECTED = {
    "statistics": "Statistical audits",
    "exhibits": "Exhibits",
    "faults": "Planted faults",
    "fuzz": "Fuzzing",
    "leaks": "Leak scan and comparison of neighbouring runs",
    "coverage": "Coverage",
    "mutation": "Mutation testing",
}
"""The parts of the bench: the name of each one's file, and its name for people."""


def gathered(results: Path) -> dict[str, Any]:
    """Everything that lies in the folder of results, and what is missing.

    A part is a file `PART.json` with at least `part`, `outcome` ("passed" or "failed"), `seconds` and `findings`.
    """
    parts = {}
    for path in sorted(results.glob("*.json")):
        part = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(part, dict) and {"part", "outcome", "seconds", "findings"} <= part.keys():
            said = in_short(part)
            parts[part["part"]] = part if said is None else {"summary": said} | part
    failed = sorted(name for name, part in parts.items() if part["outcome"] != "passed")
    sources = {part["audited_sources"] for part in parts.values() if "audited_sources" in part}
    return {
        "format": FORMAT,
        "unnamed": [name for name, part in parts.items() if "audited_sources" not in part],
        "version": version("crowdblend"),
        "day": datetime.now(UTC).date().isoformat(),
        "audited_sources": sorted(sources),
        "outcome": "failed" if failed or len(sources) != 1 else "passed",
        "failed": failed,
        "missing": [name for name in EXPECTED if name not in parts],
        "seconds": round(sum(part["seconds"] for part in parts.values()), 1),
        "parts": dict(sorted(parts.items(), key=lambda item: _place(item[0]))),
    }


def _place(name: str) -> tuple[int, str]:
    known = list(EXPECTED)
    return (known.index(name) if name in known else len(known), name)


def write_report(results: Path, pages: Path) -> bool:
    """Write audit/report.json, audit/report.html and audit.md; whether every part that is there has passed.

    Args:
        results: folder of the parts' results.
        pages: the folder of the documents.
    """
    report = gathered(results)
    folder = pages / "audit"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(enabled_extensions=("html.jinja",), default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"short": short}
    words = {
        "report": report,
        "names": EXPECTED,
        "figures": figures_of(report),
        "tightness": tightness_figure(report["parts"].get("statistics", {}).get("claims", [])),
    }
    page = templates.get_template("report.html.jinja").render(words)
    (folder / "report.html").write_text(page.rstrip() + "\n", encoding="utf-8")
    summary = templates.get_template("summary.md.jinja").render(words)
    (pages / "audit.md").write_text(summary.rstrip() + "\n", encoding="utf-8")
    record(pages / "audit.md")
    print(f"{report['outcome']}: {folder / 'report.html'}, {pages / 'audit.md'}")
    if report["missing"]:
        print(f"  without: {', '.join(report['missing'])}")
    if len(report["audited_sources"]) > 1:
        print("  the parts have audited different sources: run them again")
    return bool(report["outcome"] == "passed")
