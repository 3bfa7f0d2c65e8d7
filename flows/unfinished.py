"""Releases that were charged and are not finished: what they cost, what finishes them, and how they are given up."""

from __future__ import annotations

import getpass
import shlex
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, assert_never

from sqlalchemy import make_url

from ..accounting.kernel.keys.private_store import ReleaseFolder, path_of_release
from ..accounting.kernel.ledger.ledger_state import Stage
from ..accounting.keys.store_upkeep import open_private_store, require_not_held
from ..accounting.ledger.lookup import ReleaseState
from ..accounting.ledger.reader import LedgerReader
from ..mechanisms.kernel.amounts import amount_shown
from ..mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal
from ..tasks.destinations import ObjectPrefix, Output, discard, output_named
from ..tasks.kernel.publication import remembered_release, staging_folder
from ..tasks.request import Request
from ..tasks.stages.charge import give_up
from .paths import StatePaths, reader_of, resolve_paths


def cost_so_far(release_id: str, state_paths: StatePaths) -> tuple[Stage | Literal["unknown"] | None, str]:
    """Return how far the ledger has a release, None where it was never charged, and what that has cost, as a sentence.

    It refuses nothing: of a ledger that can't be read the stage is "unknown", and the sentence says so.
    """
    try:
        with reader_of(state_paths) as reader:
            state = reader.release(release_id)
    except Refusal:
        return "unknown", "What it has cost isn't known: the ledger can't be read now."
    return (None, "Nothing was charged.") if state is None else (state.stage, _cost_of(state))


def _cost_of(state: ReleaseState) -> str:
    price = state.charge.price
    amount = f"ε = {amount_shown(price.epsilon)}, δ = {amount_shown(price.delta)}"
    if state.charge.series is not None:
        amount = f"A place in the series '{state.charge.series.name}'"
    match state.stage:
        case "charged":
            return f"{amount} is reserved and nothing was read."
        case "reading":
            return f"{amount} is spent, since reading had begun."
        case "published":
            return f"{amount} is spent, and the release is published."
        case "abandoned":
            return f"{amount} was charged, and given back only if nothing was read. The release was abandoned."
        case _:
            assert_never(state.stage)


def commands_for(
    release_id: str, stage: Stage | Literal["unknown"] | None, *, finish: str, ledger: str | None = None
) -> tuple[str, ...]:
    """Return the commands that finish an open release or give it up, each with what it does; none for another release.

    Args:
        stage: how far the ledger has it, "unknown" where it can't be read.
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
    rehearse: bool = False,
) -> str:
    """Return the command line that runs or resumes a release, as a shell takes it.

    PRIVACY: a password in the ledger's URL is replaced by stars.
    """
    argv = ["crowdblend", "run", str(spec), *(["--rehearse"] if rehearse else []), "--release-id", release_id]
    for option, value in (("--series", series), ("--output", output), ("--scheduler", scheduler)):
        argv += [] if value is None else [option, value]
    return shlex.join(argv) + _ledger_option(ledger)


def _ledger_option(ledger: str | None) -> str:
    if ledger is None:
        return ""
    return f" --ledger {shlex.quote(make_url(ledger).render_as_string(hide_password=True))}"


def require_all_held(
    releases: Sequence[ReleaseState],
    request: Request,
    *,
    spec: Path,
    output: Output | None,
    reader: LedgerReader,
    state_paths: StatePaths,
) -> None:
    """Refuse to begin a release beside one of the same specification that was cut off: it would be charged again.

    A release that a live process holds is not cut off. One that was begun with another private store can only be
    finished there, and nobody here knows whether a process still holds it.

    Args:
        releases: those of the same specification that are charged and neither published nor abandoned.
    """
    unfinished = [
        state for state in releases if not _is_held(state.release_id, home=state_paths.home, ledger_id=reader.ledger_id)
    ]
    if not unfinished:
        return
    latest = unfinished[-1]
    others = ", ".join(f"'{state.release_id}'" for state in unfinished[:-1])
    ways = _ways_of(latest, request, spec=spec, output=output, reader=reader, state_paths=state_paths)
    raise InputRefused(
        f"release '{latest.release_id}' of this specification was begun on {latest.charge.day} and is not finished"
        f"{f', nor are {others}' if others else ''}. {_cost_of(latest)}",
        where=str(spec),
        not_done="Another would be charged in addition, so nothing was done.",
        remedy=" ".join([*ways, "Or begin another at its own price: add --new (from Python, new=True)."]),
        cause="unfinished-release",
    )


def _ways_of(
    state: ReleaseState,
    request: Request,
    *,
    spec: Path,
    output: Output | None,
    reader: LedgerReader,
    state_paths: StatePaths,
) -> tuple[str, ...]:
    """Return what finishes a release that was cut off, or gives it up."""
    own = {"ledger_id": reader.ledger_id, "release_id": state.release_id}
    if not path_of_release(state_paths.home, **own).exists():
        return (
            "It was begun with another private store (CROWDBLEND_HOME): finish it with that one, at no new charge, by "
            "its release id.",
        )
    folder = open_private_store(state_paths.home).release_folder(**own)
    place = folder.remembered().get("output")
    usual = output is None and place == str(request.output)
    ledger = None if resolve_paths().ledger_url == state_paths.ledger_url else state_paths.ledger_url
    series = None
    if (paid := state.charge.series) is not None:
        mixed = reader.series(paid.name).registered.mixed
        series = paid.name if mixed is None else f"{paid.name}:{mixed.part_of(paid.number)}"
    finish = run_command(
        spec,
        release_id=state.release_id,
        output=None if usual else place,
        series=series,
        ledger=ledger,
        rehearse=request.rehearsal,
    )
    finished, given_up = commands_for(state.release_id, state.stage, finish=finish, ledger=ledger)
    return finished, f"{given_up}."


def _is_held(release_id: str, *, home: Path, ledger_id: str) -> bool:
    """Return whether a live process holds a release of this private store; nothing is made or changed."""
    try:
        require_not_held(home, ledger_id=ledger_id, release_id=release_id)
    except AccountantRefused:
        return True
    return False


def abandon_release(release_id: str, *, reason: str, state_paths: StatePaths) -> bool:
    """Abandon a release that no live process holds, and destroy its key.

    Returns:
        Whether its cost was given back: only where no record was read.

    Raises:
        InputRefused: the ledger has no such release, or there is no signing key.
        AccountantRefused: the ledger is behind its anchor, or the release is held by a live process, published, or
            abandoned already.
    """
    reader = reader_of(state_paths)
    ledger_id = reader.ledger_id
    with open_private_store(state_paths.home).hold(ledger_id=ledger_id, release_id=release_id) as folder:
        state = reader.release(release_id)
        place = folder.remembered().get("output")
        staging = None
        if state is not None and place is not None:
            staging = staging_folder(output_named(place), sample_id=state.charge.sample_id, private=folder.path)
        if state is not None and state.stage == "abandoned":
            _clear(folder, staging)  # what an attempt to abandon it left undone
        release = remembered_release(folder, place_of=output_named)
        # Abandoning it would leave published files of a release that the ledger calls never published.
        if state is not None and state.stage == "reading" and release is not None and release.in_view:
            raise AccountantRefused(
                f"the output of release '{release_id}' is in view.",
                where=str(release.output),
                not_done="Nothing was changed.",
                remedy="Run again with the same release id: that closes it.",
            )
        refunded = give_up(
            ledger_url=state_paths.ledger_url,
            anchoring=state_paths.anchoring,
            release_id=release_id,
            reason=reason,
            by=getpass.getuser(),
            today=datetime.now(UTC).date(),
            folder=folder,
        )
        if release is not None and isinstance(release.output, ObjectPrefix):
            discard(release.output, release.staged.hashes)
        _clear(folder, staging)
        return refunded


def _clear(folder: ReleaseFolder, staging: Path | None) -> None:
    """Destroy an abandoned release's keys and draws and remove what it had prepared; what is gone is left so."""
    folder.destroy_key()
    folder.forget_draws()
    if staging is not None:
        shutil.rmtree(staging, ignore_errors=True)
