"""Private files are their owner's alone, complete or absent; a lock lives exactly as long as its process."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import secrets
import signal
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from crowdblend.accounting.given_files import read_given
from crowdblend.accounting.kernel.keys import private_files as file_access
from crowdblend.accounting.kernel.keys.private_files import create_private
from crowdblend.accounting.kernel.keys.private_store import PrivateStore, ReleaseFolder, require_private
from crowdblend.accounting.keys.store_upkeep import (
    copy_of_release,
    open_private_store,
    remembered_facts,
    require_not_held,
)
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed

LEDGER = "a" * 64

HOLDER = """
import sys, time
from pathlib import Path
from crowdblend.accounting.keys.store_upkeep import open_private_store
with open_private_store(Path(sys.argv[1])).hold(ledger_id="a" * 64, release_id="one"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def store(tmp_path) -> PrivateStore:
    return open_private_store(tmp_path / "home")


@pytest.fixture
def folder(store) -> ReleaseFolder:
    return store.release_folder(ledger_id=LEDGER, release_id="one")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_in_the_store_is_its_owners_alone(store) -> None:
    mask = os.umask(0)
    try:
        with store.hold(ledger_id=LEDGER, release_id="one") as folder:
            folder.key.create(secrets.token_bytes)
            folder.remember({"output": "/somewhere"})
            folder.fingerprint(b"manifest")
    finally:
        os.umask(mask)
    paths = [store.home, *store.home.rglob("*")]
    assert len(paths) >= 6
    for path in paths:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_a_store_that_others_can_look_into_is_refused(tmp_path) -> None:
    for open_to_others in (0o750, 0o701, 0o777):
        tmp_path.chmod(open_to_others)
        with pytest.raises(InputRefused, match="chmod 700"):
            open_private_store(tmp_path)
    tmp_path.chmod(0o700)
    open_private_store(tmp_path)
    with pytest.raises(InputRefused, match=r"/none: .*can't be used \(No such file or directory\).*CROWDBLEND_HOME"):
        require_private(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("release_id", ["", "..", ".hidden", "a/b", "a\0b", "x" * 129, "ü", "a b", "-x"])
def test_a_release_id_never_leaves_its_folder(store, release_id) -> None:
    with pytest.raises(InputRefused), store.hold(ledger_id=LEDGER, release_id=release_id):
        pass
    assert not (store.home / "releases").exists()


def test_a_key_is_what_the_source_gave_and_stays(folder) -> None:
    assert not folder.key.exists()
    key = folder.key.create(lambda count: bytes(range(count)))
    assert key.exists()
    assert key.load() == bytes(range(32))
    with pytest.raises(AccountantRefused, match="already"):
        folder.key.create(secrets.token_bytes)
    assert key.load() == bytes(range(32))
    assert [path.name for path in folder.path.iterdir()] == ["sampling.key"]


@pytest.mark.parametrize("count", [0, 31, 33])
def test_a_key_has_32_bytes(folder, count) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        folder.key.create(lambda _: bytes(count))
    assert not folder.key.exists()


def test_a_reference_to_a_key_travels_without_it(folder) -> None:
    key = folder.key.create(secrets.token_bytes)
    packed = pickle.dumps(key)
    assert key.load() not in packed
    assert pickle.loads(packed).load() == key.load()  # noqa: S301 - made one line above
    for text in (repr(key), str(key), f"{key}", repr(folder)):
        assert key.load().hex() not in text
        assert folder.fingerprint_key.hex() not in text
        assert repr(folder.fingerprint_key) not in text
    assert repr(key) == str(key) == "KeyRef()"


def test_a_destroyed_key_is_gone_and_its_bytes_were_overwritten(folder) -> None:
    key = folder.key.create(secrets.token_bytes)
    with key.path.open("rb") as still_open:
        folder.destroy_key()
        assert still_open.read() == bytes(32)
    assert not key.exists()
    folder.destroy_key()
    with pytest.raises(ReleaseFailed, match="abandon"):
        key.load()


def test_the_copy_of_a_databases_records_goes_with_the_keys_and_its_bytes_were_overwritten(store, folder) -> None:
    folder.key.create(secrets.token_bytes)
    folder.copy.parent.mkdir()
    folder.copy.write_bytes(b"records")
    begun = folder.copy.with_name("records.parquet.draft")
    begun.write_bytes(b"some records")
    assert copy_of_release(store.home, ledger_id=LEDGER, release_id="one") == folder.copy
    with folder.copy.open("rb") as whole, begun.open("rb") as part:
        folder.destroy_key()
        assert (whole.read(), part.read()) == (bytes(7), bytes(12))
    assert [path.name for path in folder.path.iterdir()] == []
    folder.destroy_copy()


@pytest.mark.parametrize("size", [5, 31, 33])
def test_a_damaged_key_is_never_used(folder, size: int) -> None:
    key = folder.key.create(secrets.token_bytes)
    key.path.write_bytes(bytes(size))
    with pytest.raises(ReleaseFailed, match="damaged"):
        key.load()


def test_what_is_remembered_is_added_to(store, folder) -> None:
    assert folder.remembered() == {}
    folder.remember({"inputs": "x", "output": "y"})
    folder.remember({"staged": {"folder": "z", "hashes": [["data.csv", "1"]]}, "output": "w"})
    assert folder.remembered() == {
        "inputs": "x",
        "output": "w",
        "staged": {"folder": "z", "hashes": [["data.csv", "1"]]},
    }
    looked = {"ledger_id": LEDGER, "release_id": "one"}
    assert remembered_facts(store.home, **looked) == folder.remembered()
    (folder.path / "record.json").write_text("[")
    with pytest.raises(ReleaseFailed, match="damaged"):
        folder.remembered()
    assert remembered_facts(store.home, **looked) == {}


@pytest.mark.parametrize("step", ["os.fsync", "os.link", "os.write", "Path.replace"])
def test_a_crash_while_writing_leaves_the_old_content_or_none(folder, monkeypatch, step) -> None:
    folder.remember({"before": True})

    def crash(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        owner, name = {"os": file_access.os, "Path": file_access.Path}[step.split(".")[0]], step.split(".")[1]
        patch.setattr(owner, name, crash)
        if step != "os.link":
            with pytest.raises(KeyboardInterrupt):
                folder.remember({"after": True})
        if step != "Path.replace":
            with pytest.raises(KeyboardInterrupt):
                folder.key.create(secrets.token_bytes)
    assert folder.remembered() == {"before": True}
    assert not folder.key.exists()
    folder.remember({"after": True})
    assert len(folder.key.create(secrets.token_bytes).load()) == 32


def test_a_fingerprint_is_the_homes_own(store, tmp_path) -> None:
    first = store.release_folder(ledger_id=LEDGER, release_id="one")
    second = open_private_store(store.home).release_folder(ledger_id=LEDGER, release_id="two")
    elsewhere = open_private_store(tmp_path / "other").release_folder(ledger_id=LEDGER, release_id="one")
    assert first.fingerprint(b"x") == second.fingerprint(b"x") != first.fingerprint(b"y")
    assert elsewhere.fingerprint(b"x") != first.fingerprint(b"x")


def test_a_release_is_held_once_at_a_time(store) -> None:
    with store.hold(ledger_id=LEDGER, release_id="one"):
        with pytest.raises(AccountantRefused, match="held by a live process"):
            store.hold(ledger_id=LEDGER, release_id="one").__enter__()
        with pytest.raises(AccountantRefused, match="held by a live process"):
            require_not_held(store.home, ledger_id=LEDGER, release_id="one")
        with store.hold(ledger_id=LEDGER, release_id="two"):
            pass
        with store.hold(ledger_id="b" * 64, release_id="one"):
            pass
    with store.hold(ledger_id=LEDGER, release_id="one"):
        pass


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_death_frees_a_lock_and_nothing_else_does(store, end) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(store.home)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AccountantRefused, match="held by a live process"):
            store.hold(ledger_id=LEDGER, release_id="one").__enter__()
        holder.send_signal(end)
        holder.wait(timeout=600)
        with store.hold(ledger_id=LEDGER, release_id="one"):
            pass
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()


def test_a_process_forked_while_a_lock_is_held_does_not_keep_it_past_its_end(store) -> None:
    wait, let_go = os.pipe()
    with store.hold(ledger_id=LEDGER, release_id="one"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child does nothing with threads
            child = os.fork()
        if child == 0:
            os.close(let_go)
            os.read(wait, 1)
            os._exit(0)
    try:
        with store.hold(ledger_id=LEDGER, release_id="one"):
            pass
    finally:
        os.close(let_go)
        os.close(wait)
        os.waitpid(child, 0)


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


def test_a_crash_between_the_two_names_of_a_file_destroys_neither(store) -> None:
    """A complete file has its draft's name too for a moment; the next holder removes that name and nothing else."""
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


FULL = "the private store can't be used (No space left on device)."


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


def test_a_given_file_is_a_regular_one_of_a_bounded_size(tmp_path) -> None:
    """A pipe, which nobody writes to, keeps nobody waiting."""
    sound, pipe = tmp_path / "file", tmp_path / "pipe"
    sound.write_bytes(b"12345")
    os.mkfifo(pipe)
    assert read_given(sound, most=5) == b"12345"
    for path, most, told in (
        (sound, 4, "more than 4 bytes"),
        (pipe, 5, "not a regular"),
        (Path("a\0b"), 5, "No such file"),
    ):
        with pytest.raises(OSError, match=told):
            read_given(path, most=most)


def test_an_output_is_held_once_at_a_time(store) -> None:
    with store.hold_output("/out"), store.hold_output("/other"):
        with pytest.raises(InputRefused, match="/out: another release is on its way to this output") as refused:
            store.hold_output("/out").__enter__()
        assert refused.value.cause == "held"
    with store.hold_output("/out"):
        pass


def test_a_draft_that_is_taken_for_a_dead_ones_before_it_is_locked_is_made_anew(tmp_path, monkeypatch) -> None:
    real, waiting = file_access.try_lock, [tmp_path]

    def other_is_faster(handle: int) -> bool:
        if waiting:
            waiting.pop()
            [draft] = tmp_path.glob(".*.draft")
            draft.unlink()
        return real(handle)

    monkeypatch.setattr(file_access, "try_lock", other_is_faster)
    create_private(tmp_path / "record", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["record"]
    assert (tmp_path / "record").read_bytes() == b"whole"
