"""The command line `crowdblend`: commands, exit codes, and refusals as single messages."""

from __future__ import annotations

import gc
import json
import sys
import traceback

import click

from ..mechanisms.errors import Refusal
from .commands.groups import TopLevel

__all__ = ["main"]

MAY_CHARGE = frozenset({"demo", "run", "serve", "series", "submit"})
SECTIONS = {
    "Begin": {
        "demo": "release",
        "doctor": "doctor",
    },
    "Plan a release": {
        "spec": "spec",
        "hierarchy": "hierarchy",
        "plan": "plan",
        "explain": "plan",
        "preview": "documents",
    },
    "Publish": {
        "run": "release",
        "submit": "jobs",
        "status": "jobs",
        "cancel": "jobs",
        "release": "release",
        "serve": "series",
        "abandon": "release",
    },
    "Budgets and what was spent": {
        "dataset": "ledger",
        "series": "series",
        "ledger": "ledger",
    },
    "Published releases": {
        "verify": "release",
        "sheet": "documents",
        "registry": "documents",
        "report": "documents",
    },
    "Keys and auditors": {
        "key": "auditors",
        "token": "auditors",
        "dashboard": "auditors",
    },
}
"""Title of a section of `--help` → command's name, which is also its function's → the module that has it."""
COMMANDS = frozenset(name for section in SECTIONS.values() for name in section)
OBJECTS_BETWEEN_COLLECTIONS = 300_000
"""What a command makes is mostly modules, which stay: the collector, at its usual 700, walks them again and again."""
KINDS = {1: "failed", 2: "input", 3: "accountant"}


@click.group(cls=TopLevel, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="crowdblend")
def crowdblend() -> None:
    """Truthful microdata with a proved privacy guarantee, and an accountant that keeps its rules.

    Exit codes: 0 done; 1 failed; 2 the specification or the command is wrong, nothing was charged;
    3 refused by the accountant, nothing was read or published.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code; never shows a traceback."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 50, 50)
    command_line = sys.argv[1:] if arguments is None else arguments
    exit_code = _exit_code(command_line)
    # Under `python -m`, CPython remembers an interruption that went through code made from text, such as a library's,
    # though it was handled, and would end by the signal instead of with the exit code; running any such code resets it.
    exec("")  # noqa: S102
    sys.exit(exit_code)


def _exit_code(command_line: list[str]) -> int:
    try:
        result = crowdblend.main(args=command_line, prog_name="crowdblend", standalone_mode=False)
    except Refusal as refusal:
        return _tell(command_line, refusal.message, where=refusal.where, exit_code=refusal.exit_code)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        return _tell_usage(command_line, error)
    except (KeyboardInterrupt, click.Abort):
        return _tell(command_line, f"Interrupted. {_left(command_line)}", where="", exit_code=1)
    except Exception as error:  # noqa: BLE001 - the last resort: a person must never be shown a traceback
        # PRIVACY: only the kind of the fault is told; its text could hold a value of the records.
        if {"-v", "--verbose"} & set(command_line):
            _show_frames(error)
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}" if trace else "an unknown place"
        message = f"Internal fault ({type(error).__name__} in {place}). {_left(command_line)}"
        return _tell(command_line, message, where="", exit_code=1)
    return result if isinstance(result, int) else 0


def _tell_usage(command_line: list[str], error: click.ClickException) -> int:
    """What is wrong with the command line; a group without a command shows its help alone."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return 2
    hint = f" Run '{error.ctx.command_path} --help'." if isinstance(error, click.UsageError) and error.ctx else ""
    return _tell(command_line, f"{error.format_message()}{hint}", where="command line", exit_code=2)


def _show_frames(error: Exception) -> None:
    """Where in the code a fault was: file, line and function of each frame, without its source line or any value."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        click.echo(f"crowdblend: {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}", err=True)


def _left(command_line: list[str]) -> str:
    """What a command that broke off may have left behind."""
    named = next((word for word in command_line if word in COMMANDS), "run")
    return "What was charged stays charged." if named in MAY_CHARGE else "Nothing was charged."


def _tell(command_line: list[str], message: str, *, where: str, exit_code: int) -> int:
    """Say the refusal on standard error, and as the one JSON object on standard output if asked."""
    click.echo(f"crowdblend: {message}", err=True)
    if "--json" in command_line:
        refusal = {"kind": KINDS[exit_code], "exit_code": exit_code, "where": where, "message": message}
        click.echo(json.dumps({"error": refusal}, ensure_ascii=False))
    return exit_code
