"""The command line `crowdblend`: commands, exit codes, and refusals as single messages."""

from __future__ import annotations

import importlib
import json
import sys

import click

from ..mechanisms.refusal import Refusal

__all__ = ["main"]

MAY_CHARGE = frozenset({"demo", "run", "serve", "series", "submit"})
COMMANDS = {
    "demo": "release_commands",
    "run": "release_commands",
    "submit": "job_commands",
    "status": "job_commands",
    "cancel": "job_commands",
    "serve": "serve_command",
    "spec": "spec_commands",
    "hierarchy": "hierarchy_commands",
    "preview": "preview_command",
    "explain": "explain_command",
    "plan": "plan_command",
    "dataset": "ledger_commands",
    "series": "series_commands",
    "ledger": "ledger_administration",
    "abandon": "release_commands",
    "verify": "release_commands",
    "sheet": "sheet_command",
    "registry": "registry_command",
    "report": "report_command",
    "key": "key_commands",
    "token": "token_commands",
    "dashboard": "dashboard_command",
}
"""Each command's name, which is also its function's, and the module that has it."""
KINDS = {1: "failed", 2: "input", 3: "accountant"}


class _Commands(click.Group):
    """Commands that are loaded when they are asked for: no command waits for what only others need."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f".{COMMANDS[cmd_name]}", __package__)
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="crowdblend")
def crowdblend() -> None:
    """Truthful microdata with a proved privacy guarantee, and an accountant that keeps its rules.

    Exit codes: 0 done; 1 failed; 2 the specification or the command is wrong, nothing was charged;
    3 refused by the accountant, nothing was read or published.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code; never shows a traceback."""
    words = sys.argv[1:] if arguments is None else arguments
    sys.exit(_exit_code(words))


def _exit_code(words: list[str]) -> int:
    try:
        result = crowdblend.main(args=words, prog_name="crowdblend", standalone_mode=False)
    except Refusal as refusal:
        return _tell(words, refusal.message, where=refusal.where, exit_code=refusal.exit_code)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        hint = f" Run '{error.ctx.command_path} --help'." if isinstance(error, click.UsageError) and error.ctx else ""
        return _tell(words, f"{error.format_message()}{hint}", where="command line", exit_code=2)
    except (KeyboardInterrupt, click.Abort):
        return _tell(words, f"Interrupted. {_left(words)}", where="", exit_code=1)
    except Exception as error:  # noqa: BLE001 - the last resort: a person must never be shown a traceback
        # PRIVACY: only the kind of the fault is told; its text could hold a value of the records.
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}" if trace else "an unknown place"
        message = f"Internal fault ({type(error).__name__} in {place}). {_left(words)}"
        return _tell(words, message, where="", exit_code=1)
    return result if isinstance(result, int) else 0


def _left(words: list[str]) -> str:
    """What a command that broke off may have left behind."""
    named = next((word for word in words if word in COMMANDS), "run")
    return "What was charged stays charged." if named in MAY_CHARGE else "Nothing was charged."


def _tell(words: list[str], message: str, *, where: str, exit_code: int) -> int:
    """Say the refusal on standard error, and as the one JSON object on standard output if asked."""
    click.echo(f"crowdblend: {message}", err=True)
    if "--json" in words:
        refusal = {"kind": KINDS[exit_code], "exit_code": exit_code, "where": where, "message": message}
        click.echo(json.dumps({"error": refusal}, ensure_ascii=False))
    return exit_code
