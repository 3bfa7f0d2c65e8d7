"""What several commands share: their options, kinds of arguments, and groups whose help has whole sentences."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path

import click

from ...accounting.deprecations import DEPRECATED
from ..release_paths import release_certificate, release_folder
from ..terminal.stages import OutputLost

WIDEST_NAME = 9
"""Characters of the longest name of a command, so that the sections of one page have one margin."""


def first_sentence(command: click.Command) -> str:
    """Return the first sentence of a command's help, on one line."""
    text = " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())
    sentence, stop, _ = text.partition(". ")
    return sentence + "." if stop else sentence


class CommandGroup(click.Group):
    """A group whose help has whole sentences, where click's own cuts them at the width of the terminal."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their first sentences."""
        self.write_section(ctx, formatter, "Commands", self.list_commands(ctx))

    def write_section(self, ctx: click.Context, formatter: click.HelpFormatter, title: str, names: list[str]) -> None:
        """Write some of the commands below a title."""
        commands = ((name, self.get_command(ctx, name)) for name in names)
        rows = [(f"{name:{WIDEST_NAME}}", first_sentence(command)) for name, command in commands if command]
        with formatter.section(title):
            formatter.write_dl(rows)


def mark_deprecated(command: click.Command, path: str) -> None:
    """Let click warn of a command, and of its options and arguments, where they are deprecated; and of those below.

    Args:
        path: the words that call the command.
    """

    def said(name: str) -> str | bool:
        found = DEPRECATED.get(f"commands: {name}")
        return found is not None and f"It goes with the next major version. Use {found.instead}."

    command.deprecated = said(path)
    for parameter in command.params:
        told = [said(f"{path} {name}") for name in parameter.opts]
        parameter.deprecated = next((text for text in told if text), False)
    for name, below in command.commands.items() if isinstance(command, click.Group) else ():
        mark_deprecated(below, f"{path} {name}")


FILE = click.Path(path_type=Path)
LEDGER = click.option("--ledger", "ledger_url", help="SQLAlchemy URL of the ledger (or CROWDBLEND_LEDGER).")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
NEW = click.option(
    "--new", is_flag=True, help="Begin another release, at its own price, though one of the same SPEC was cut off."
)


def begins_another(*, new: bool, release_id: str | None) -> bool:
    """Return whether a release may begin beside an unfinished one of its specification: asked for, or by its own id.

    Args:
        new: whether `--new` was given.
        release_id: the id that was given; None for none.

    Raises:
        click.UsageError: both were given.
    """
    if new and release_id is not None:
        raise click.UsageError("--new begins a release with a new id: leave out --new, or --release-id.")
    return new or release_id is not None


def default_publisher() -> str | None:
    """Return the publisher's name in `crowdblend.toml`, None where it has none."""
    from ...flows.paths import resolved_settings

    return resolved_settings()["publisher"].value


class ReleasePath(click.ParamType[Path]):
    """A published release, named by its folder or by the certificate in it; the command says what is missing.

    Args:
        path_of: gives the path that the command works on, of either.
    """

    name = "release"

    def __init__(self, path_of: Callable[[Path], Path]) -> None:
        self._path_of = path_of

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the certificate's path or the folder's, whichever was named."""
        del param, ctx
        return self._path_of(Path(str(value)))


RELEASE_CERTIFICATE = ReleasePath(release_certificate)
RELEASE_FOLDER = ReleasePath(release_folder)


ERROR_KINDS = {1: "failed", 2: "input", 3: "accountant"}


def print_refusal(*lines: str, where: str, exit_code: int, as_json: bool, release_id: str | None = None) -> int:
    """Print a refusal on standard error, and as the one JSON object on standard output if asked; return its code."""
    for line in lines:
        click.echo(f"crowdblend: {line}", err=True)
    if as_json:
        kind = ERROR_KINDS[exit_code]
        error = {"kind": kind, "exit_code": exit_code, "where": where, "message": " ".join(lines)}
        named = {} if release_id is None else {"release_id": release_id}
        try:
            click.echo(json.dumps({"error": error, **named}, ensure_ascii=False))
        except OutputLost as lost:  # what was refused is said above, and the exit code says it too
            click.echo(f"crowdblend: {lost}", err=True)
    return exit_code


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Serve until Ctrl-C, which is how a command ends that would stay for ever, and no failure of it."""
    with suppress(KeyboardInterrupt):
        yield


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
