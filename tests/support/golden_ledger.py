"""A committed ledger with entries of every kind and releases at every stage, put into an empty database."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.kernel.ledger.entries import entry_of_bytes
from crowdblend.accounting.kernel.ledger.transactions import writing
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.keys.signing_upkeep import rotate_key
from crowdblend.accounting.ledger.creation import upgrade_tables
from crowdblend.accounting.ledger.opening import keep_write_ahead_log, open_at

GOLDEN = Path(__file__).parents[1] / "vectors" / "ledger"


def put_golden_ledger(url: str, home: Path) -> Anchoring:
    """Write its chain with all that follows from it; its keys and its anchor go into a new private store.

    Args:
        url: of an empty database, or of an SQLite file that isn't there.
        home: the private store.
    """
    keys, anchoring = SigningKeys(home=home), Anchoring(home=home, file=None)
    for seed in (b"\x2a", b"\x2b"):
        rotate_key(keys, lambda size, seed=seed: seed * size)
    bodies = (GOLDEN / "entries.jsonl").read_bytes().splitlines()
    anchor = anchoring.anchor_of(json.loads(bodies[0])["ledger_id"]).path
    anchor.parent.mkdir(mode=0o700)
    shutil.copy(GOLDEN / "anchor.jsonl", anchor)
    anchor.chmod(0o600)
    store = open_at(url, read_only=False, creating=True)
    if store.path is not None:
        store.path.touch(mode=0o600)
        keep_write_ahead_log(store)
    with writing(store, anchoring) as ledger:
        upgrade_tables(ledger.connection)
        for body in bodies:
            ledger.append(entry_of_bytes(body))
    store.close()
    return anchoring
