"""The private report as one page of HTML that needs nothing else and says on every sheet what it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from ....accounting.dashboard.templating import environment
from ....mechanisms.measures.utility import UtilityMeasures
from . import pictures

__all__ = ["MARK", "PrivateReport", "report_page"]

MARK = "NOT FOR PUBLICATION"
HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivateReport:
    """What the page tells.

    PRIVACY: exact figures of the private records. It is for the steward, and nothing of it leaves.

    Args:
        release_id: the release.
        dataset: its data set.
        released_on: day of the release's charge.
        epsilon: the release's price, as its certificate has it.
        delta: likewise.
        made_on: day of the report.
        by: who had it made.
        look: the look's place in the ledger's chain.
        measures: all of them.
    """

    release_id: str
    dataset: str
    released_on: str
    epsilon: str
    delta: str
    made_on: str
    by: str
    look: int
    measures: UtilityMeasures


def report_page(report: PrivateReport) -> str:
    """The page; nothing in it is asked from elsewhere, and no script runs."""
    style = Markup((HERE / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    return (
        _environment()
        .get_template("private.html")
        .render(report=report, measures=report.measures, mark=MARK, style=style, pictures=pictures)
    )


@cache
def _environment() -> Environment:
    return environment(HERE, percent=_percent)


def _percent(share: float) -> str:
    """As many digits as a small share needs."""
    return f"{share:.1%}" if share == 0 or share >= 0.001 else f"{100 * share:.2g}%"
