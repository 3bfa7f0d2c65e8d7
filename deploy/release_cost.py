"""What a release has cost so far by the ledger, and the commands that finish it or give it up."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ..flows.paths import StatePaths
from ..mechanisms.amounts import amount_shown

if TYPE_CHECKING:
    from ..accounting.ledger.queries import Stage

__all__ = ["commands_for", "cost_so_far", "run_command"]


def cost_so_far(release_id: str, state_paths: StatePaths) -> tuple[Stage | None, str]:
    """How far the ledger has a release, None where it was never charged, and what that has cost, as a sentence.

    Args:
        release_id: the release.
        state_paths: where the ledger lies.
    """
    from ..accounting.ledger.reader import open_reader  # with it comes the ledger, which a command's help doesn't need

    with open_reader(state_paths.ledger_url) as reader:
        state = reader.release(release_id)
    if state is None:
        return None, "Nothing was charged."
    price = state.charge.price
    amount = f"ε = {amount_shown(price.epsilon)}, δ = {amount_shown(price.delta)}"
    if state.charge.series is not None:
        amount = f"A place in the series '{state.charge.series.name}'"
    match state.stage:
        case "charged":
            return state.stage, f"{amount} is reserved and nothing was read."
        case "reading":
            return state.stage, f"{amount} is spent, since reading had begun."
        case "published":
            return state.stage, f"{amount} is spent, and the release is published."
        case _:
            return (
                state.stage,
                f"{amount} was charged, and given back only if nothing was read. The release was abandoned.",
            )


def commands_for(release_id: str, stage: Stage | None, *, finish: str, ledger: str | None = None) -> tuple[str, ...]:
    """The commands that finish an open release or give it up, each with what it does; none for another release.

    Args:
        release_id: the release.
        stage: how far the ledger has it.
        finish: the command that finishes it.
        ledger: the ledger's URL where it was given as an option.
    """
    if stage not in ("charged", "reading"):
        return ()
    kept = "what it reserved is free again" if stage == "charged" else "its cost stays spent"
    give_up = f"crowdblend abandon {release_id} --reason TEXT{_ledger_option(ledger)}"
    return (f"Finish it at no new charge: {finish}", f"Or give it up ({kept}): {give_up}")


def run_command(
    spec: Path,
    *,
    release_id: str,
    output: str | None = None,
    scheduler: str | None = None,
    series: str | None = None,
    ledger: str | None = None,
) -> str:
    """The command line that runs or resumes a release, as a shell takes it.

    PRIVACY: a password in the ledger's URL is replaced by stars.

    Args:
        spec: the specification's file.
        release_id: the release.
        output: its place, where one was given as an option.
        scheduler: the scheduler's address, where one was given.
        series: the series that pays for it, if any.
        ledger: the ledger's URL where it was given as an option.
    """
    argv = ["crowdblend", "run", str(spec), "--release-id", release_id]
    for option, value in (("--series", series), ("--output", output), ("--scheduler", scheduler)):
        argv += [] if value is None else [option, value]
    return shlex.join(argv) + _ledger_option(ledger)


def _ledger_option(ledger: str | None) -> str:
    if ledger is None:
        return ""
    from sqlalchemy import make_url

    return f" --ledger {shlex.quote(make_url(ledger).render_as_string(hide_password=True))}"
