"""The stage that copies a database's records into the release's private folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ...accounting.kernel.keys.private_store import ReleaseFolder
from ...accounting.kernel.ledger.ledger_state import Receipt
from ...mechanisms.kernel.errors import ReleaseFailed
from ..inputs.database import copy_records
from ..request import Request
from .stage import stage


@stage("copy")
def copied_records(*, request: Request, receipt: Receipt, folder: ReleaseFolder) -> Path:
    """The copy's file in the release's private folder, made where no attempt has completed it.

    INVARIANT: nothing is counted before the keyed hash of the copy is durable, and later attempts read what has this
    hash, or nothing. A copy that was cut off has decided nothing and is made anew.

    Args:
        request: what is asked for, of a database.
        receipt: proof that the release is paid for.
        folder: its folder in the private store.

    Raises:
        ReleaseFailed: the records can't be copied, or the copy is gone or another one.
    """
    if request.query is None:
        raise TypeError("files are read where they are")
    del receipt
    known = folder.remembered().get("copy")
    if known is None:
        folder.destroy_copy()
        names = [column.name for column in request.source_columns]
        names += [] if request.limit is None else [request.limit.column]
        copy_records(request.query, columns=names, path=folder.copy)
        folder.remember({"copy": folder.fingerprint(_digest(folder.copy))})
    elif known != folder.fingerprint(_digest(folder.copy)):
        raise _lost("was changed")
    return folder.copy


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise _lost(f"can't be read ({error.strerror})") from None


def _lost(what: str) -> ReleaseFailed:
    return ReleaseFailed(
        f"the private copy of the database's records {what}.",
        remedy="They are never read again for this release, which can only be abandoned: `crowdblend abandon`.",
    )
