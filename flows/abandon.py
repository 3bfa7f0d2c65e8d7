"""Giving up a release that was charged and can't be finished."""

from __future__ import annotations

import getpass
import shutil
from datetime import UTC, datetime
from pathlib import Path

from ..accounting.ledger.private_store.keys import PrivateStore, ReleaseFolder
from ..accounting.ledger.reader import open_reader
from ..mechanisms.errors import AccountantRefused
from ..tasks.request import ObjectPrefix, output_at
from ..tasks.stages.charge import give_up
from ..tasks.stages.publish import discard, remembered_release, staging_folder
from .paths import StatePaths

__all__ = ["abandon_release"]


def abandon_release(release_id: str, *, reason: str, state_paths: StatePaths) -> bool:
    """Abandon a release that no live process holds, and destroy its key.

    Args:
        release_id: the release.
        reason: why, in one line; recorded for ever.
        state_paths: where the ledger and the private store lie.

    Returns:
        Whether its cost was given back: only where no record was read.

    Raises:
        InputRefused: the ledger has no such release, or there is no signing key.
        AccountantRefused: the ledger is behind its anchor, or the release is held by a live process, published, or
            abandoned already.
    """
    reader = open_reader(state_paths.ledger_url)
    ledger_id = reader.ledger_id
    with PrivateStore(state_paths.home).hold(ledger_id=ledger_id, release_id=release_id) as folder:
        state = reader.release(release_id)
        place = folder.remembered().get("output")
        staging = None
        if state is not None and place is not None:
            staging = staging_folder(
                output_at(place, base=Path("/")), sample_id=state.charge.sample_id, private=folder.path
            )
        if state is not None and state.stage == "abandoned":
            _clear(folder, staging)  # what an attempt to abandon it left undone
        release = remembered_release(folder)
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
    folder.draws.forget()
    if staging is not None:
        shutil.rmtree(staging, ignore_errors=True)
