"""A ledger file whose bytes are damaged is refused in words, whatever SQLite says of it."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("words", [("ledger", "verify"), ("ledger", "show"), ("dataset", "add", "b", "--epsilon", "1")])
def test_a_schema_that_is_no_text_is_refused(desk, words) -> None:
    desk.succeed("dataset", "add", "a", "--epsilon", "1", "--delta", "1e-5")
    path = desk.folder / "ledger.db"
    sound = path.read_bytes()
    assert b"CREATE TRIGGER" in sound
    path.write_bytes(sound.replace(b"CREATE TRIGGER", b"CREATE " + 7 * b"\xff"))
    if words[0] == "dataset":
        words = (*words, "--delta", "1e-5")
    answer = desk(*words)
    assert answer.code != 0
    assert "Internal fault" not in answer.err + answer.out
    assert "Traceback" not in answer.err + answer.out
    assert "ledger" in answer.err
