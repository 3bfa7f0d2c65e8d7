"""How much the command line says: `-q` leaves progress out, `-v` adds where things lie."""

from __future__ import annotations

import logging
import sys

import click

__all__ = ["add_verbosity", "is_quiet"]

_QUIET = "crowdblend.quiet"
_LOGGER = logging.getLogger("crowdblend")


def is_quiet() -> bool:
    """Whether the running command was asked to leave progress out; outside of the command line it was not."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def add_verbosity(command: click.Command) -> click.Command:
    """Give a command, and all commands below it, the options -v and -q; once, however often it is asked for."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_verbosity(below)
    elif all(parameter.name != "quiet" for parameter in command.params):
        command.params += [
            click.Option(
                ["-v", "--verbose"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_be_verbose,
                help="Also say where the ledger and the private store lie, and where in the code a fault was.",
            ),
            click.Option(
                ["-q", "--quiet"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_be_quiet,
                help="No progress; results, warnings and refusals only.",
            ),
        ]
    return command


def _be_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value:
        ctx.meta[_QUIET] = True


def _be_verbose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """PRIVACY: what is logged below `crowdblend` is places and versions, never a value of the records."""
    del ctx, param
    if value and not _LOGGER.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("crowdblend: %(message)s"))
        _LOGGER.addHandler(handler)
        _LOGGER.setLevel(logging.DEBUG)
        _LOGGER.propagate = False
