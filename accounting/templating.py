"""The one environment in which pages and documents are made from their templates."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..mechanisms.kernel.amounts import amount_shown
from ..mechanisms.wording import grouped


def environment(folder: Path, *, escaped: bool = True, **filters: Callable[..., str]) -> Environment:
    """An environment in which a name that nobody gave is an error, and every text is escaped unless it is no HTML.

    Args:
        folder: of the templates.
        escaped: whether texts are escaped as HTML takes them.
        filters: the pages' own, beside `grouped` and `amount`.
    """
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=escaped,  # noqa: S701 - Markdown is no HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(grouped=grouped, amount=lambda amount: amount_shown(Decimal(str(amount))), **filters)
    return made
