"""What is kept of a verification is read back as it was, or refused."""

from __future__ import annotations

import pytest
from crowdblend.accounting.ledger.chain import check
from crowdblend.accounting.ledger.chain.anchor import line_of_head
from crowdblend.accounting.ledger.chain.check import Reached, keep_verification, read_verification
from crowdblend.accounting.ledger.chain.hashing import Head
from crowdblend.accounting.ledger.private_store.keys import replace_private
from crowdblend.accounting.ledger.private_store.signing import SigningKey, canonical_bytes
from crowdblend.mechanisms.errors import InputRefused, ReleaseFailed

KEY = SigningKey(seed=bytes(32))
HEAD = Head(ledger_id="1" * 64, position=3, hash="3" * 64)
REACHED = Reached(head=HEAD, root="5" * 64, tables={table.name: "7" * 64 for table in check.TABLES})
LINE = line_of_head(HEAD, KEY)


def test_what_is_kept_is_read_back(tmp_path) -> None:
    path = tmp_path / "kept.json"
    assert read_verification(path, trusted=()) is None
    keep_verification(path, REACHED, line=LINE, version="1")
    kept = read_verification(path, trusted=(KEY.public,))
    assert (kept.reached, kept.anchored.key, kept.version) == (REACHED, KEY.public, "1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"root": 5}, "a field is missing, or holds something else"),
        ({"root": "5" * 63}, "state's root"),
        ({"tables": {"entry": "7" * 64}}, "it names other tables"),
    ],
)
def test_a_field_of_another_form_is_refused_though_the_digest_fits(tmp_path, change, said) -> None:
    fields = {"format": check.KEPT, "anchored": LINE.decode().strip(), "root": REACHED.root, "version": "1"}
    fields |= {"tables": dict(REACHED.tables)} | change
    path = tmp_path / "kept.json"
    replace_private(path, canonical_bytes({**fields, "digest": check._digest_of(fields)}) + b"\n")
    with pytest.raises(InputRefused, match=said):
        read_verification(path, trusted=())


def test_where_there_is_no_file_to_be_read_or_written_that_is_said(tmp_path) -> None:
    with pytest.raises(InputRefused, match="can't be read"):
        read_verification(tmp_path, trusted=())
    with pytest.raises(ReleaseFailed, match="was verified, and that can't be kept"):
        keep_verification(tmp_path / "missing" / "kept.json", REACHED, line=LINE, version="1")
