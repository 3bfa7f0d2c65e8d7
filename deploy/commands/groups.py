"""Groups of commands, whose `--help` loads no more than it shows; options and types of values that several have."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..terminal.stages import add_verbosity

__all__ = [
    "AS_JSON",
    "FILE",
    "LEDGER",
    "RELEASE_CERTIFICATE",
    "RELEASE_FOLDER",
    "CommandGroup",
    "ExactNumber",
    "TopLevel",
    "default_publisher",
    "first_sentence",
]

WIDEST_NAME = 9
"""Characters of the longest name of a command, so that the sections of one page have one margin."""


def first_sentence(command: click.Command) -> str:
    """The first sentence of a command's help, on one line."""
    text = " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())
    sentence, stop, _ = text.partition(". ")
    return sentence + "." if stop else sentence


class CommandGroup(click.Group):
    """A group whose help has whole sentences, where click's own cuts them at the width of the terminal."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their first sentences."""
        self._write_section(ctx, formatter, "Commands", self.list_commands(ctx))

    def _write_section(self, ctx: click.Context, formatter: click.HelpFormatter, title: str, names: list[str]) -> None:
        commands = ((name, self.get_command(ctx, name)) for name in names)
        rows = [(f"{name:{WIDEST_NAME}}", first_sentence(command)) for name, command in commands if command]
        with formatter.section(title):
            formatter.write_dl(rows)


class TopLevel(CommandGroup):
    """Commands in sections, each loaded from its module when it is asked for.

    Args:
        sections: title of a section → command's name, which is also its function's → module that has it.
    """

    def __init__(self, *, sections: Mapping[str, Mapping[str, str]], **settings: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(**settings)
        self.sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the sections."""
        del ctx
        return [name for section in self.sections.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        del ctx
        for section in self.sections.values():
            if cmd_name in section:
                module = importlib.import_module(f".{section[cmd_name]}", __package__)
                command: click.Command = getattr(module, cmd_name)
                return add_verbosity(command)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a refusal names those that are spelled alike."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand:
            raise click.NoSuchCommand(args[0], possibilities=self.list_commands(ctx), ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        for title, section in self.sections.items():
            self._write_section(ctx, formatter, title, list(section))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name without loading any command."""
        names = [CompletionItem(name) for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)


CERTIFICATE = "certificate.json"
FILE = click.Path(path_type=Path)
LEDGER = click.option("--ledger", "ledger_url", help="SQLAlchemy URL of the ledger (or CROWDBLEND_LEDGER).")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")


def default_publisher() -> str | None:
    """The publisher's name in `crowdblend.toml`, None where it has none."""
    from ...flows.paths import resolved_settings

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
