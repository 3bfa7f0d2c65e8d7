"""Options and types of values that several commands have."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path

import click

__all__ = ["AS_JSON", "FILE", "LEDGER", "ExactNumber"]

FILE = click.Path(path_type=Path)
LEDGER = click.option("--ledger", "ledger_url", help="SQLAlchemy URL of the ledger (or CROWDBLEND_LEDGER).")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")


class ExactNumber(click.ParamType[Decimal]):
    """A number taken exactly as it is written."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Read the decimal, or fail with the option's name."""
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            self.fail("this is not a number", param, ctx)
        if not number.is_finite():
            self.fail("this is not a finite number", param, ctx)
        return number
