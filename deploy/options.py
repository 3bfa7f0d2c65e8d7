"""Options and types of values that several commands have."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path

import click

__all__ = [
    "AS_JSON",
    "FILE",
    "LEDGER",
    "RELEASE_CERTIFICATE",
    "RELEASE_FOLDER",
    "ExactNumber",
    "default_publisher",
]

CERTIFICATE = "certificate.json"
FILE = click.Path(path_type=Path)
LEDGER = click.option("--ledger", "ledger_url", help="SQLAlchemy URL of the ledger (or CROWDBLEND_LEDGER).")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")


def default_publisher() -> str | None:
    """The publisher's name in `crowdblend.toml`, None where it has none."""
    from ..flows.settings import resolved_settings

    return resolved_settings()["publisher"].value


class ReleasePath(click.ParamType[Path]):
    """A published release, named by its folder or by the certificate in it.

    Args:
        of_certificate: whether the command works on the certificate; else on the folder.
    """

    name = "release"

    def __init__(self, *, of_certificate: bool) -> None:
        self._of_certificate = of_certificate

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The certificate's path or the folder's, whichever was named; the command says what is missing."""
        del param, ctx
        path = Path(str(value))
        if self._of_certificate:
            return path / CERTIFICATE if path.is_dir() else path
        return path if path.is_dir() or path.name != CERTIFICATE else path.parent


RELEASE_CERTIFICATE = ReleasePath(of_certificate=True)
RELEASE_FOLDER = ReleasePath(of_certificate=False)


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
