"""Giving up a release that was charged and can't be finished."""

from __future__ import annotations

import getpass
import shutil
from datetime import UTC, datetime

from ..accounting.ledger.keystore import PrivateStore
from ..accounting.ledger.reader import open_reader
from ..mechanisms.refusal import AccountantRefused
from ..tasks.charge import give_up
from ..tasks.staging import remembered_release
from .settings import House

__all__ = ["abandon_release"]


def abandon_release(release_id: str, *, reason: str, house: House) -> bool:
    """Abandon a release that no live process holds, and destroy its key.

    Args:
        release_id: the release.
        reason: why, in one line; recorded for ever.
        house: where the ledger and the private store lie.

    Returns:
        Whether its cost was given back: only where no record was read.

    Raises:
        InputRefused: the ledger has no such release, or there is no signing key.
        AccountantRefused: the ledger is behind its anchor, or the release is held by a live process, published, or
            abandoned already.
    """
    with open_reader(house.ledger_url) as reader:
        ledger_id = reader.ledger_id
    with PrivateStore(house.home).hold(ledger_id=ledger_id, release_id=release_id) as folder:
        release = remembered_release(folder)
        if release is not None and not release.staged.folder.exists():
            raise AccountantRefused(
                f"the output of release '{release_id}' is in view.",
                where=str(release.output),
                not_done="Nothing was changed.",
                remedy="Run again with the same release id: that closes it.",
            )
        refunded = give_up(
            ledger_url=house.ledger_url,
            anchoring=house.anchoring,
            release_id=release_id,
            reason=reason,
            by=getpass.getuser(),
            today=datetime.now(UTC).date(),
            folder=folder,
        )
        if release is not None:
            shutil.rmtree(release.staged.folder)
        return refunded
