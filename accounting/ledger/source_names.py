"""Under which data sets' names a source was released, kept privately: two names of one source are two budgets."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from .durable import create_private, private_folder
from .keystore import fingerprint_under

__all__ = ["known_names_of_source", "other_names_of_source"]


def known_names_of_source(home: Path, metadata: bytes) -> tuple[str, ...]:
    """Names of the data sets under which a source was released from this private store; nothing is written.

    Args:
        home: the private store; there may be none.
        metadata: what is known of the source from metadata alone, as `source_metadata_bytes` of the tasks.

    Returns:
        Sorted names; empty where the source is unknown, or the store can't be read. A note that is damaged still says
        that there was a release.
    """
    try:
        key = (home / "fingerprint.key").read_bytes()
        folder = home / "sources" / fingerprint_under(key, metadata)
        notes = [file for file in folder.iterdir() if not file.name.startswith(".")]
    except OSError:
        return ()
    return tuple(sorted({_noted_name(note) for note in notes}))


def other_names_of_source(home: Path, *, fingerprint: str, ledger_id: str, dataset: str) -> tuple[str, ...]:
    """Note that a source goes by this data set's name, and give the other names that it has gone by.

    It warns and never decides: a data set may well be added under a second name by right, and what can't be noted
    is not.

    PRIVACY: this stays in the private store. That two deliveries have the same fingerprint would tell in a ledger that
    nothing changed between them.

    Args:
        home: the private store.
        fingerprint: keyed fingerprint (hex) of what is known of the source from metadata alone.
        ledger_id: the ledger, 64 hexadecimal digits.
        dataset: the name in it under which the source is about to be released.

    Returns:
        Names of data sets, sorted; of another ledger's with a remark.
    """
    folder = home / "sources" / fingerprint
    own = {"ledger_id": ledger_id, "dataset": dataset}
    content = json.dumps(own, sort_keys=True).encode("utf-8")
    path = folder / hashlib.sha256(content).hexdigest()[:32]
    try:
        if not path.exists():
            private_folder(folder)
            create_private(path, content)
        noted = [json.loads(file.read_bytes()) for file in folder.iterdir() if not file.name.startswith(".")]
        return tuple(sorted(_name(one, ledger_id) for one in noted if one != own))
    except (KeyError, OSError, TypeError, ValueError):
        return ()


def _noted_name(note: Path) -> str:
    try:
        return f"'{json.loads(note.read_bytes())['dataset']}'"
    except (KeyError, OSError, TypeError, ValueError):
        return "of a damaged note"


def _name(noted: dict[str, str], ledger_id: str) -> str:
    elsewhere = "" if noted["ledger_id"] == ledger_id else " in another ledger"
    return f"'{noted['dataset']}'{elsewhere}"
