"""Templates made into documents; a page carries its style and its pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from ...accounting.charts import dot, line, line_chart, linear_axis, share_bar
from ...accounting.templating import environment
from ...mechanisms.kernel.errors import visible

HERE = Path(__file__).parent


def page(template: str, *, style: str = "style.css", **context: object) -> str:
    """Return a page as HTML that asks for nothing from elsewhere and runs no script.

    Args:
        template: its file.
        style: file of the style sheet that the page carries.
        context: what the template names; every text is escaped.
    """
    sheet = Markup((HERE / style).read_text(encoding="utf-8"))  # noqa: S704 - the package's own file
    return visible(_environment(html=True).get_template(template).render(style=sheet, **context))


def plain_text(template: str, **context: object) -> str:
    """Return a document as Markdown; arguments as of `page`, but nothing is escaped."""
    return visible(_environment(html=False).get_template(template).render(**context))


def macro_text(template: str, macro: str, *arguments: object) -> str:
    """Return what a macro of a plain template makes of its arguments."""
    return str(getattr(_environment(html=False).get_template(template).module, macro)(*arguments))


@cache
def _environment(*, html: bool) -> Environment:
    made = environment(HERE / "templates", escaped=html)
    made.filters.update({one.__name__: one for one in FILTERS})
    made.globals.update(lost_bar=lost_bar, line_picture=line_picture)
    return made


def lost_bar(share: float, *, label: str) -> Markup:
    """Return a bar whose hatched part, 0 to 1, is lost; the label stands for it where it isn't seen."""
    return share_bar(share, label=label, style="gone", hatched=True)


def line_picture(points: Sequence[tuple[float, float, bool]], *, across: str, up: str, key: str, title: str) -> Markup:
    """Return a line through points, with a dot on the one that is the specification's.

    Args:
        points: across, up, and whether it is the specification's, as one of them is; ascending across.
        across: name of the quantity across.
        up: name of the quantity upward.
        key: a word of its own on the page.
        title: what the picture is.
    """
    x = linear_axis(0.0, points[-1][0], name=across, across=True)
    y = linear_axis(0.0, max(1e-9, *(value for _, value, _ in points)), name=up, across=False)
    parts = [
        line([(at, value) for at, value, _ in points], x=x, y=y, style="charged"),
        *(dot(at, value, x=x, y=y, radius=3, style="point") for at, value, _ in points),
        *(dot(at, value, x=x, y=y, radius=6, style="dot") for at, value, own in points if own),
    ]
    first, last = points[0], points[-1]
    chosen = next((at, value) for at, value, own in points if own)
    said = (
        f"{up} goes from {first[1]:.4g} at {first[0]:g} to {last[1]:.4g} at {last[0]:g}. "
        f"The large dot is the specification's: {chosen[1]:.4g} at {chosen[0]:g}."
    )
    return line_chart(parts, x=x, y=y, legends=(), key=key, title=title, description=said)


def percent(share: float) -> str:
    """Return a share in percent; only nothing is 0 %, and only all is 100 %."""
    shown = f"{100 * share:.1f}"
    if shown == "0.0" and share > 0:
        return "< 0.1\u202f%"
    if shown == "100.0" and share < 1:
        return "> 99.9\u202f%"
    return f"{shown}\u202f%"


def fine_percent(share: float) -> str:
    """Return a share in percent with as many digits as a small one needs."""
    return f"{share:.1%}" if share == 0 or share >= 0.001 else f"{100 * share:.2g}%"


def digits(number: float) -> str:
    """Four significant digits."""
    return f"{number:.4g}"


def digits_up(number: float) -> str:
    """Four significant digits, rounded up: a price is never shown as less than it is."""
    raised = Context(prec=4, rounding=ROUND_CEILING).create_decimal(Decimal(repr(number)))
    return f"{float(raised):.4g}"


def exact(amount: str) -> str:
    """Return an exact decimal as a number of YAML that has all its digits."""
    shown = format(Decimal(amount), "f")
    return shown if "." in shown else f"{shown}.0"


def yaml(text: object) -> str:
    """Return a text as YAML has it in one line."""
    from yaml import safe_dump  # of one document alone

    return str(safe_dump(str(text), default_style='"', allow_unicode=True, width=math.inf)).strip()


def cell(text: str) -> str:
    """Return a text as it stands in a cell of a Markdown table."""
    marked = "".join(f"\\{mark}" if mark in "|*_`[]<>#" else mark for mark in text)
    return " ".join(marked.split())


def literal(text: str) -> str:
    """Return a text as Python and R write it."""
    return json.dumps(text, ensure_ascii=False)


def literals(texts: Iterable[str], form: str = "{}") -> str:
    """Texts as Python and R write them, each within a form, with commas between."""
    return ", ".join(form.format(literal(text)) for text in texts)


def sql_text(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


FILTERS = (percent, fine_percent, digits, digits_up, cell, exact, yaml, literal, literals, sql_text)
