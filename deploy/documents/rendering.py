"""Templates made into documents; a page carries its style and its pictures."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ...mechanisms.amount_format import amount_shown
from .pictures import line_picture, share_picture

__all__ = ["cell", "digits_up", "page", "plain_text"]

HERE = Path(__file__).parent


def page(template: str, **context: object) -> str:
    """A page as HTML that asks for nothing from elsewhere and runs no script.

    Args:
        template: its file.
        context: what the template names; every text is escaped.
    """
    style = Markup((HERE / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - the package's own file
    return _environment(html=True).get_template(template).render(style=style, **context)


def plain_text(template: str, **context: object) -> str:
    """A document as Markdown; arguments as of `page`, but nothing is escaped."""
    return _environment(html=False).get_template(template).render(**context)


@cache
def _environment(*, html: bool) -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=html,  # noqa: S701 - Markdown is no HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals.update(share_picture=share_picture, line_picture=line_picture)
    made.filters["grouped"] = grouped
    made.filters["percent"] = percent
    made.filters["digits"] = digits
    made.filters["digits_up"] = digits_up
    made.filters["amount"] = lambda amount: amount_shown(Decimal(str(amount)))
    made.filters["cell"] = cell
    return made


def grouped(number: float) -> str:
    """A rounded number with thin spaces between its thousands."""
    return f"{number:,.0f}".replace(",", "\u202f")


def percent(share: float) -> str:
    """A share in percent; only nothing is 0 %, and only all is 100 %."""
    shown = f"{100 * share:.1f}"
    if shown == "0.0" and share > 0:
        return "< 0.1\u202f%"
    if shown == "100.0" and share < 1:
        return "> 99.9\u202f%"
    return f"{shown}\u202f%"


def digits(number: float) -> str:
    """Four significant digits."""
    return f"{number:.4g}"


def digits_up(number: float) -> str:
    """Four significant digits, rounded up: a price is never shown as less than it is."""
    raised = Context(prec=4, rounding=ROUND_CEILING).create_decimal(Decimal(repr(number)))
    return f"{float(raised):.4g}"


def cell(text: str) -> str:
    """A text as it stands in a cell of a Markdown table."""
    marked = "".join(f"\\{mark}" if mark in "|*_`[]<>#" else mark for mark in text)
    return " ".join(marked.split())
