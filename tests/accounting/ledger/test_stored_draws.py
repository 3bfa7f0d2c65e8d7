"""What was drawn is drawn: durable, private, never replaced, and whole after any crash of its writer."""

from __future__ import annotations

import os
import stat

import pytest
from crowdblend.accounting.keys.store_upkeep import open_private_store
from crowdblend.mechanisms.kernel.errors import AccountantRefused, ReleaseFailed

LEDGER = "a" * 64


@pytest.fixture
def folder(tmp_path):
    with open_private_store(tmp_path / "home").hold(ledger_id=LEDGER, release_id="one") as held:
        yield held


def test_a_settled_draw_comes_back_and_is_never_replaced(folder) -> None:
    assert folder.load_draw("map") is None
    folder.store_draw("map", {"levels": [1, 2]})
    with pytest.raises(AccountantRefused, match="drawn already"):
        folder.store_draw("map", {"levels": [0, 0]})
    assert folder.load_draw("map") == {"levels": [1, 2]}
    [path] = folder.path.glob("*.draw.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_damage_is_told_and_nothing_is_drawn_in_its_place(folder) -> None:
    folder.store_draw("map", {"levels": [1, 2]})
    for damage in (b"", b"[1]", b"\xff", b"{"):
        (folder.path / "map.draw.json").write_bytes(damage)
        with pytest.raises(ReleaseFailed, match="never drawn again"):
            folder.load_draw("map")
        with pytest.raises(AccountantRefused):
            folder.store_draw("map", {"levels": [1, 2]})


def test_forgotten_draws_are_gone(folder) -> None:
    for draw in ("map", "map-step-0"):
        folder.store_draw(draw, {"levels": [1]})
    folder.forget_draws()
    assert not list(folder.path.glob("*.draw.json"))
    folder.forget_draws()


def test_a_crash_between_the_two_names_of_a_file_destroys_neither(tmp_path) -> None:
    """A complete file has its draft's name too for a moment; the next holder removes that name and nothing else."""
    store = open_private_store(tmp_path / "home")
    with store.hold(ledger_id=LEDGER, release_id="one") as folder:
        folder.store_draw("map", {"levels": [1, 2]})
        folder.key.create(lambda size: b"k" * size)
        for name in ("map.draw.json", "sampling.key"):
            os.link(folder.path / name, folder.path / f".{name}.77.draft")
        (folder.path / ".record.json.77.draft").write_bytes(b"begun")
    with store.hold(ledger_id=LEDGER, release_id="one") as folder:
        assert folder.load_draw("map") == {"levels": [1, 2]}
        assert folder.key.load() == b"k" * 32
        assert not list(folder.path.glob(".*.draft"))


def test_the_two_keys_differ_and_end_together(folder) -> None:
    bytes_of = iter((b"a" * 32, b"b" * 32))
    folder.key.create(lambda size: next(bytes_of))
    folder.selection_key.create(lambda size: next(bytes_of))
    assert (folder.key.load(), folder.selection_key.load()) == (b"a" * 32, b"b" * 32)
    with pytest.raises(AccountantRefused):
        folder.selection_key.create(lambda size: b"c" * size)
    folder.destroy_key()
    assert not folder.key.exists()
    assert not folder.selection_key.exists()
