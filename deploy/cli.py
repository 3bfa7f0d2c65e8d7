"""The command line `crowdblend`: its registered commands, exit codes, refusals as messages.

A group's `--help` loads no more than it shows."""

from __future__ import annotations

import gc
import logging
import os
import sys
import traceback

import click
from click.shell_completion import CompletionItem

from ..accounting.deprecations import DEPRECATED, one_line_warnings
from ..mechanisms.kernel.errors import InputRefused, Refusal
from .commands.command_registry import COMMANDS, LOOKS, MAY_CHARGE, load_command, sections
from .commands.options import CommandGroup, mark_deprecated, print_refusal
from .terminal.stages import OutputLost, add_verbosity, escaped_streams


class TopLevel(CommandGroup):
    """The registered commands in their sections, each loaded from its module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the sections."""
        del ctx
        return [name for section in sections().values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        del ctx
        command = load_command(cmd_name)
        if command is None:
            return None
        if DEPRECATED:
            mark_deprecated(command, f"crowdblend {cmd_name}")
        return add_verbosity(command)

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
        for title, section in sections().items():
            self.write_section(ctx, formatter, title, list(section))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name without loading any command."""
        names = [CompletionItem(name) for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)


OBJECTS_BETWEEN_COLLECTIONS = 300_000
"""What a command makes is mostly modules, which stay: the collector, at its usual 700, walks them again and again."""


@click.group(cls=TopLevel, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="crowdblend")
@click.pass_context
def crowdblend(context: click.Context) -> None:
    """Truthful microdata with a proved privacy guarantee, and an accountant that keeps its rules.

    Exit codes: 0 done; 1 failed; 2 the specification or the command is wrong, nothing was charged;
    3 refused by the accountant, nothing was read or published.
    """
    if context.invoked_subcommand != "doctor":  # which says what is wrong with the settings by itself
        from ..flows.configured_kinds import switch_on_configured_kinds

        switch_on_configured_kinds()


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code; never shows a traceback."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 50, 50)
    # Prices multiply small matrices, over which several threads wait longer than one computes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # It logs what befalls a connection while it is closed, an interruption too, with its frames; and raises it as well.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    command_line = sys.argv[1:] if arguments is None else arguments
    if DEPRECATED:
        one_line_warnings("crowdblend")
    with escaped_streams():
        exit_code = _exit_code(command_line)
    # Under `python -m`, CPython remembers an interruption that went through code made from text, such as a library's,
    # though it was handled, and would end by the signal instead of with the exit code; running any such code resets it.
    exec("")  # noqa: S102
    sys.exit(exit_code)


def _require_locks(command_line: list[str]) -> None:
    """Refuse to work where a private store can be neither locked nor closed to others; the version is said anywhere."""
    if sys.platform == "win32" and command_line != ["--version"]:
        raise InputRefused(
            "On Windows the private store can't be locked, nor closed to others by its mode.",
            remedy="Run crowdblend on Linux or macOS; on Windows, in the Windows Subsystem for Linux.",
        )


def _leave_no_core_file() -> None:
    """Have this process, and those that it starts, leave no core file: it would hold keys and persons' ids."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _exit_code(command_line: list[str]) -> int:
    as_json = "--json" in command_line
    try:
        _require_locks(command_line)
        _leave_no_core_file()
        result = crowdblend.main(args=command_line, prog_name="crowdblend", standalone_mode=False)
        sys.stdout.flush()
    except Refusal as refusal:
        if isinstance(refusal.__context__, Exception) and not isinstance(refusal.__context__, Refusal):
            _show_frames(command_line, refusal.__context__)
        return print_refusal(refusal.message, where=refusal.where, exit_code=refusal.exit_code, as_json=as_json)
    except OutputLost as lost:
        fault, as_json = f"{lost} What was done stays done{_way_to_look(command_line)}.", False
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.NoArgsIsHelpError as help_page:  # a group without a command
        click.echo(help_page.format_message(), err=True)
        return 2
    except click.ClickException as error:
        hint = f" Run '{error.ctx.command_path} --help'." if isinstance(error, click.UsageError) and error.ctx else ""
        return print_refusal(f"{error.format_message()}{hint}", where="command line", exit_code=2, as_json=as_json)
    except (KeyboardInterrupt, click.Abort):
        fault = f"Interrupted. {_charge_notice(command_line)}"
    except Exception as error:  # noqa: BLE001 - the last resort: a person must never be shown a traceback
        # PRIVACY: only the kind of the fault is reported; its text could hold a value of the records.
        _show_frames(command_line, error)
        last_frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {last_frame.name}, line {last_frame.lineno}"
        fault = f"Internal fault ({place}). {_charge_notice(command_line)}"
    else:
        return result if isinstance(result, int) else 0
    return print_refusal(fault, where="", exit_code=1, as_json=as_json)


def _show_frames(command_line: list[str], error: Exception) -> None:
    """Print where in the code a fault was, if asked: file, line and function of each frame, no source and no value."""
    if not {"-v", "--verbose"} & set(command_line):
        return
    for frame, line in traceback.walk_tb(error.__traceback__):
        click.echo(f"crowdblend: {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}", err=True)


def _charge_notice(command_line: list[str]) -> str:
    """Return what a command that broke off may have left behind, as a sentence."""
    named = _named(command_line) or "run"
    return "What was charged stays charged." if named in MAY_CHARGE else "Nothing was charged."


def _way_to_look(command_line: list[str]) -> str:
    """Return how to see what a command has done, as the rest of a sentence; nothing of one that changes nothing."""
    look = LOOKS.get(_named(command_line) or "")
    return "" if look is None else f": see {look}"


def _named(command_line: list[str]) -> str | None:
    return next((word for word in command_line if word in COMMANDS), None)
