"""A private store whose disk or files fail: each step says so in words, and what was there before stays."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.keys.private_store import PrivateStore, ReleaseFolder
from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.keys.signing_upkeep import create_where_none, rotate_key
from crowdblend.accounting.keys.store_upkeep import open_private_store, require_not_held
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed

LEDGER = "a" * 64
FULL = "the private store can't be used (No space left on device)."


@pytest.fixture
def store(tmp_path) -> PrivateStore:
    return open_private_store(tmp_path / "home")


@pytest.fixture
def folder(store) -> ReleaseFolder:
    return store.release_folder(ledger_id=LEDGER, release_id="one")


@pytest.fixture
def keys(tmp_path) -> SigningKeys:
    made = SigningKeys(home=tmp_path / "home")
    create_where_none(made, os.urandom)
    return made


@pytest.fixture
def full_disk(monkeypatch) -> Callable[[], None]:
    """From its call on the operating system makes nothing durable."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: monkeypatch.setattr(os, "fsync", fail)


@pytest.mark.parametrize(
    "step",
    [
        lambda folder: folder.selection_key.create(secrets.token_bytes),
        lambda folder: folder.remember({"after": True}),
        lambda folder: folder.store_draw("other", {"levels": [2]}),
        lambda folder: folder.forget_draws(),
        lambda folder: folder.destroy_key(),
    ],
    ids=["a key", "a fact", "a draw", "forgetting", "a key's end"],
)
def test_a_full_disk_ends_a_release_and_keeps_what_is_there(folder, full_disk, monkeypatch, step) -> None:
    key = folder.key.create(lambda size: b"k" * size)
    folder.remember({"before": True})
    folder.store_draw("map", {"levels": [1]})
    full_disk()
    with pytest.raises(ReleaseFailed) as failed:
        step(folder)
    assert str(failed.value) == FULL
    monkeypatch.undo()
    assert key.exists()
    assert not folder.selection_key.exists()
    assert folder.remembered() == {"before": True}
    assert (folder.path / "map.draw.json").exists()
    assert folder.load_draw("other") is None


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("record.json", lambda folder: folder.remembered()),
        ("map.draw.json", lambda folder: folder.load_draw("map")),
        ("map.draw.json", lambda folder: folder.forget_draws()),
        ("sampling.key", lambda folder: folder.destroy_key()),
        ("copy/records.parquet", lambda folder: folder.destroy_key()),
    ],
)
def test_a_folder_in_a_files_place_is_told(folder, name, step) -> None:
    (folder.path / name).mkdir(parents=True)
    with pytest.raises(ReleaseFailed) as failed:
        step(folder)
    assert str(failed.value) == "the private store can't be used (Is a directory)."


def test_a_release_whose_folder_can_not_be_made_is_refused(store) -> None:
    (store.home / "releases").write_text("x")
    with pytest.raises(InputRefused, match=r"releases/.*can't be used \(.*CROWDBLEND_HOME"):
        store.release_folder(ledger_id=LEDGER, release_id="one")
    with pytest.raises(InputRefused, match=r"releases/.*can't be used \(Not a directory\).*CROWDBLEND_HOME"):
        require_not_held(store.home, ledger_id=LEDGER, release_id="one")


@pytest.mark.parametrize("name", ["lock", ".sampling.key.77.draft"])
def test_a_release_that_can_not_be_held_is_refused(store, folder, name) -> None:
    (folder.path / name).mkdir()
    with pytest.raises(InputRefused, match=r"/one: the private store can't be used \(Is a directory\)"):
        store.hold(ledger_id=LEDGER, release_id="one").__enter__()
    (folder.path / name).rmdir()
    with store.hold(ledger_id=LEDGER, release_id="one"):
        pass


def test_without_locks_nothing_is_held(store, monkeypatch) -> None:
    """A file system that knows none must not let two processes hold one release."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", no_locks)
        with pytest.raises(InputRefused, match=r"can't be used \(No locks available\).*Nothing was read"):
            store.hold(ledger_id=LEDGER, release_id="one").__enter__()
    with store.hold(ledger_id=LEDGER, release_id="one"):
        pass


def test_a_damaged_signing_key_signs_nothing_and_is_replaced_on_purpose(keys) -> None:
    earlier = keys.current().public
    path = keys.home / "signing" / "current.key"
    for damage in (b"", b"x" * 31, b"x" * 33):
        path.write_bytes(damage)
        for attempt in (keys.current, lambda: create_where_none(keys, os.urandom)):
            with pytest.raises(InputRefused, match=r"current.key: the signing key is damaged.*key rotate"):
                attempt()
        assert path.read_bytes() == damage
        assert keys.public_keys() == (earlier,)
    fresh = rotate_key(keys, os.urandom)
    assert keys.current().public == fresh
    assert set(keys.public_keys()) == {earlier, fresh}


def test_a_damaged_public_key_is_not_passed_over(keys) -> None:
    """Else what it once signed would be taken for somebody else's."""
    [listed] = (keys.home / "signing" / "public").glob("*.pub")
    listed.write_bytes(b"x")
    with pytest.raises(InputRefused, match=r"signing/public: a listed public key is damaged"):
        keys.public_keys()


def test_signing_keys_that_can_not_be_read_are_told(keys) -> None:
    path = keys.home / "signing" / "current.key"
    path.unlink()
    path.mkdir()
    for attempt in (keys.current, keys.public_keys, lambda: rotate_key(keys, os.urandom)):
        with pytest.raises(InputRefused, match=r"the signing keys can't be used \(Is a directory\).*CROWDBLEND_HOME"):
            attempt()


def test_a_key_that_can_not_be_made_durable_is_not_made(tmp_path, full_disk, monkeypatch) -> None:
    keys = SigningKeys(home=open_private_store(tmp_path / "home").home)
    (keys.home / "signing" / "public").mkdir(parents=True)
    full_disk()
    with pytest.raises(InputRefused, match=r"the signing keys can't be used \(No space left on device\)"):
        create_where_none(keys, os.urandom)
    with pytest.raises(InputRefused, match=r"the signing keys can't be used \(No space left on device\)"):
        rotate_key(keys, os.urandom)
    monkeypatch.undo()
    assert not (keys.home / "signing" / "current.key").exists()


def test_a_first_key_may_be_made_by_a_rotation(tmp_path) -> None:
    keys = SigningKeys(home=tmp_path / "home")
    made = rotate_key(keys, os.urandom)
    assert keys.public_keys() == (made,)
    assert create_where_none(keys, os.urandom) == made


def test_a_lost_list_of_public_keys_is_begun_anew(keys, full_disk) -> None:
    """Such as after a copy of the key alone was brought back."""
    public = keys.current().public
    shutil.rmtree(keys.home / "signing" / "public")
    assert create_where_none(keys, os.urandom) == public
    assert [path.read_bytes() for path in (keys.home / "signing" / "public").iterdir()] == [public.raw]
    shutil.rmtree(keys.home / "signing" / "public")
    full_disk()
    with pytest.raises(InputRefused, match=r"the signing keys can't be used \(No space left on device\)"):
        create_where_none(keys, os.urandom)


def test_a_key_that_another_process_made_meanwhile_is_never_replaced(folder, monkeypatch) -> None:
    """The other one was first by the smallest margin: between the look and the making of the name."""
    link = os.link

    def late(source: Path, target: Path) -> None:
        target.write_bytes(b"o" * 32)
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(AccountantRefused, match="has its sampling key already"):
        folder.key.create(lambda size: b"k" * size)
    assert folder.key.load() == b"o" * 32
    assert [path.name for path in folder.path.iterdir()] == ["sampling.key"]
