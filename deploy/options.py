"""Options and types of values that several commands have."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path

import click

__all__ = ["AS_JSON", "FILE", "LEDGER", "ExactNumber", "default_public_key", "default_publisher"]

FILE = click.Path(path_type=Path)
LEDGER = click.option("--ledger", "ledger_url", help="SQLAlchemy URL of the ledger (or CROWDBLEND_LEDGER).")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")


def default_public_key() -> Path | None:
    """The publisher's public key that `crowdblend.toml` names, None where it names none."""
    from ..flows.settings import resolved_settings

    named = resolved_settings()["public_key"].value
    return None if named is None else Path(named)


def default_publisher() -> str | None:
    """The publisher's name in `crowdblend.toml`, None where it has none."""
    from ..flows.settings import resolved_settings

    return resolved_settings()["publisher"].value


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
