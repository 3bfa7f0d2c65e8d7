"""The private store is kept in order: signing keys are replaced, and what killed processes left is destroyed."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.keys import private_files as file_access
from crowdblend.accounting.kernel.keys.signing import SEED_BYTES, SigningKeys
from crowdblend.accounting.keys import store_upkeep as inspection
from crowdblend.accounting.keys.signing_upkeep import create_where_none, pem_of, read_public_keys, rotate_key
from crowdblend.accounting.keys.store_upkeep import is_held, open_private_store, require_not_held
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy import prefect_environment as environment
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused


def seed(number: int) -> Callable[[int], bytes]:
    return lambda size: bytes([number]) * size


def forked(work: Callable[[], None]) -> int:
    """A process that does some work, and its end; its number."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    return child


def killed(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at(function: str, work: Callable[[], None]) -> None:
    """Have a process of its own do some work, and be killed where it would call a method of a path."""

    def begin() -> None:
        setattr(Path, function, killed)
        work()

    assert os.WTERMSIG(os.waitpid(forked(begin), 0)[1]) == signal.SIGKILL


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A file that is open while it loses its name."""
    handle = os.open(path, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def drafts(home: Path) -> list[Path]:
    return sorted(home.rglob(".*.draft"))


def test_the_draft_of_a_signing_key_is_overwritten(tmp_path) -> None:
    home = tmp_path / "home"
    signing = SigningKeys(home=home)
    create_where_none(signing, seed(1))
    killed_at("replace", lambda: rotate_key(signing, seed(2)))
    [draft] = drafts(home)
    with opened(draft) as handle:
        assert os.pread(handle, SEED_BYTES, 0) == bytes([2]) * SEED_BYTES
        open_private_store(home)
        assert os.pread(handle, SEED_BYTES, 0) == bytes(SEED_BYTES)
    assert drafts(home) == []
    assert signing.current().seed == bytes([1]) * SEED_BYTES


def test_a_second_name_of_a_signing_key_is_removed_before_the_key_becomes_an_old_one(tmp_path) -> None:
    home = tmp_path / "home"
    signing = SigningKeys(home=home)
    open_private_store(home)
    killed_at("unlink", lambda: create_where_none(signing, seed(1)))
    [draft] = drafts(home)
    assert draft.stat().st_nlink == 2
    open_private_store(home)
    assert drafts(home) == []
    assert signing.current().seed == bytes([1]) * SEED_BYTES


@pytest.mark.parametrize("place", ["reports", "anchors"])
def test_the_draft_of_a_private_report_or_a_checkpoint_is_overwritten(tmp_path, place: str) -> None:
    home = tmp_path / "home"
    open_private_store(home)
    file_access.private_folder(home / place)
    killed_at("replace", lambda: file_access.replace_private(home / place / "one", b"exact figures"))
    [draft] = drafts(home)
    with opened(draft) as handle:
        open_private_store(home)
        assert os.pread(handle, 13, 0) == bytes(13)
    assert drafts(home) == []


def test_rotation_overwrites_the_earlier_private_key(tmp_path) -> None:
    signing = SigningKeys(home=tmp_path / "home")
    create_where_none(signing, seed(1))
    with opened(tmp_path / "home" / "signing" / "current.key") as earlier:
        rotate_key(signing, seed(2))
        assert os.pread(earlier, SEED_BYTES, 0) == bytes(SEED_BYTES)
    assert signing.current().seed == bytes([2]) * SEED_BYTES


def test_the_draft_of_a_live_process_is_left_alone(tmp_path, monkeypatch) -> None:
    """Another process opens the store while this one is about to put a file into its place."""
    home = tmp_path / "home"
    open_private_store(home)
    real = Path.replace

    def other_opens(draft: Path, target: Path) -> Path:
        os.waitpid(forked(lambda: open_private_store(home)), 0)
        return real(draft, target)

    monkeypatch.setattr(Path, "replace", other_opens)
    file_access.replace_private(home / "record", b"whole")
    assert (home / "record").read_bytes() == b"whole"


def test_the_folder_for_prefect_of_a_killed_process_is_removed_and_a_live_ones_is_not(tmp_path, monkeypatch) -> None:
    home = tmp_path / "home"
    open_private_store(home)
    monkeypatch.delenv("PREFECT_HOME", raising=False)

    def make_one(leave: Callable[[], None]) -> None:
        os.environ.pop("PREFECT_HOME", None)
        environment.configure_prefect_home(home, whatever_is_there=True)
        leave()

    read, write = os.pipe()
    live = forked(lambda: make_one(lambda: (os.write(write, b"made"), signal.pause())))
    assert os.read(read, 4) == b"made"
    os.waitpid(forked(lambda: make_one(killed)), 0)
    folders = set(home.glob("prefect-*"))
    assert len(folders) == 2
    open_private_store(home)
    [left] = home.glob("prefect-*")
    os.kill(live, signal.SIGKILL)
    os.waitpid(live, 0)
    assert left in folders
    open_private_store(home)
    assert not list(home.glob("prefect-*"))


def test_keys_of_releases_that_need_none_are_destroyed_by_the_next_run(desk) -> None:
    """One was killed between its publication and the end of its key, one before it was charged."""
    desk.add_dataset()
    spec = desk.write_spec()
    desk.succeed("run", spec, "--release-id", "closed")
    with open_reader(desk.ledger) as reader:
        ledger_id = reader.ledger_id
    store, made = open_private_store(desk.home), []
    for name in ("closed", "never-charged", "held"):
        folder = store.release_folder(ledger_id=ledger_id, release_id=name)
        made.append(folder.key.create(os.urandom).path)
    told = desk("doctor")
    assert told.code == 1
    assert "release closed, which is published" in told.out
    assert "release never-charged, which was never charged" in told.out
    with store.hold(ledger_id=ledger_id, release_id="held"), opened(made[0]) as handle:
        desk.succeed("run", desk.write_spec(output="second"), "--release-id", "second")
        assert os.pread(handle, 32, 0) == bytes(32)
        assert [path.exists() for path in made] == [False, False, True]
    assert not list((desk.home / "releases" / ledger_id / "second").glob("*.key"))


def test_keys_of_an_open_release_are_kept(desk, monkeypatch) -> None:
    from crowdblend.flows import release
    from crowdblend.mechanisms.kernel.errors import ReleaseFailed

    def fail(**_: object) -> None:
        raise ReleaseFailed("the lights went out.")

    desk.add_dataset()
    spec = desk.write_spec()
    with monkeypatch.context() as dark:
        dark.setattr(release, "write_output", fail)
        assert desk("run", spec, "--release-id", "open").code == 1
    [key] = desk.home.rglob("sampling.key")
    desk.succeed("run", desk.write_spec(output="second"), "--new")
    assert key.exists()
    assert desk("doctor").code == 0
    desk.succeed("run", desk.write_spec(), "--release-id", "open")


def test_doctor_names_drafts_folders_and_core_files(desk) -> None:
    desk.add_dataset()
    draft, folder, core = (
        desk.home / "signing" / ".current.key.77.draft",
        desk.home / "prefect-x",
        desk.folder / "core.7",
    )
    draft.write_bytes(b"begun")
    folder.mkdir()
    shutil.copyfile("/proc/self/exe", core)
    (desk.folder / "core.txt").write_text("the core of a matter")
    told = desk("doctor")
    assert told.code == 1
    for path in (draft, folder, core):
        assert str(path) in told.out
    assert "core.txt" not in told.out
    core.unlink()
    open_private_store(desk.home)
    assert desk("doctor").code == 0


@pytest.fixture
def core_limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


def test_a_command_leaves_no_core_file(desk, core_limit) -> None:
    desk.add_dataset()
    assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0


@pytest.fixture
def keys(tmp_path) -> SigningKeys:
    made = SigningKeys(home=tmp_path / "keys")
    create_where_none(made, os.urandom)
    return made


@pytest.fixture
def full_disk(monkeypatch) -> Callable[[], None]:
    """From its call on the operating system makes nothing durable."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: monkeypatch.setattr(os, "fsync", fail)


def test_public_keys_travel_in_pem(keys, tmp_path) -> None:
    rotate_key(keys, os.urandom)
    file = tmp_path / "keys.pem"
    file.write_bytes(b"".join(pem_of(key) for key in keys.public_keys()))
    assert read_public_keys(file) == keys.public_keys()
    for content in (b"", b"x", keys.current().seed, b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"):
        file.write_bytes(content)
        with pytest.raises(InputRefused, match="Ed25519"):
            read_public_keys(file)
    with pytest.raises(InputRefused, match="can't be read"):
        read_public_keys(tmp_path / "none.pem")


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


def test_a_crash_in_a_rotation_leaves_a_key_that_is_listed(keys, monkeypatch) -> None:
    from crowdblend.accounting.keys import signing_upkeep as signing

    before = keys.current()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(signing, "replace_secret", crash)
        with pytest.raises(KeyboardInterrupt):
            rotate_key(keys, os.urandom)
    assert keys.current() == before
    assert keys.public_keys()[0] == before.public
    assert rotate_key(keys, os.urandom) in keys.public_keys()


def test_who_only_looks_sees_that_a_release_is_held_and_says_where_it_can_not_be_told(tmp_path, monkeypatch) -> None:
    store = open_private_store(tmp_path / "home")
    place = {"ledger_id": "a" * 64, "release_id": "one"}
    assert is_held(store.home, **place) is False
    with store.hold(**place):
        assert is_held(store.home, **place) is True
        with pytest.raises(AccountantRefused, match="release 'one': this release is held by a live process"):
            require_not_held(store.home, **place)
        monkeypatch.setattr(inspection, "LOCKS", store.home / "none")
        assert is_held(store.home, **place) is None
    require_not_held(store.home, **place)
    require_not_held(store.home, ledger_id="a" * 64, release_id="two")
