"""The private store: keys, locks, stored draws and what a resumed release must find, outside every ledger.

Its files are small, complete or absent after a crash, and readable by their owner alone. The names under which a source
was released are kept privately: two names of one source are two budgets."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....mechanisms.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..entries.values import require_digest, require_release_id

__all__ = [
    "DrawStore",
    "KeyRef",
    "PrivateStore",
    "ReleaseFolder",
    "create_private",
    "destroy",
    "drafts_in",
    "fingerprint_under",
    "other_names_of_source",
    "prefect_folders",
    "private_folder",
    "read_private_record",
    "releases_with_secrets",
    "replace_private",
    "replace_secret",
    "require_not_held",
    "require_output_not_held",
    "require_private",
    "require_writable",
    "sweep",
    "sync_folder",
    "try_lock",
]

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
COPY = Path("copy", "records.parquet")
ZEROS = 1 << 20
TRIAL_BYTES = 1 << 22
"""More than what a release and Prefect's own server write into the private store at once."""


def private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for its owner alone.

    Raises:
        OSError: it can't be made.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        sync_folder(folder.parent)


def create_private(path: Path, content: bytes) -> None:
    """Create a file with its whole content, durably, where there is none.

    Raises:
        FileExistsError: there is one; it is left as it is.
        OSError: it can't be written.
    """
    with _written_draft(path, content) as draft:
        try:
            os.link(draft, path)  # unlike a rename, it fails where the name is taken
        finally:
            draft.unlink()
            sync_folder(path.parent)


def replace_private(path: Path, content: bytes) -> None:
    """Put a file with its whole content, durably, in the place of an earlier one or of none.

    Raises:
        OSError: it can't be written.
    """
    with _written_draft(path, content) as draft:
        draft.replace(path)
        sync_folder(path.parent)


def replace_secret(path: Path, content: bytes) -> None:
    """As `replace_private`, and overwrite the earlier file once the new one is in its place.

    Raises:
        OSError: it can't be written.
    """
    try:
        earlier = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        replace_private(path, content)
        return
    try:
        replace_private(path, content)
        _overwrite(earlier)
    finally:
        os.close(earlier)


def read_private_record(path: Path) -> dict[str, Any] | None:
    """Read a JSON object back; None where there is no such file.

    Raises:
        OSError: it can't be read.
        ValueError: it holds something else.
    """
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    if not isinstance(record, dict):
        raise ValueError("the file holds no record")  # noqa: TRY004 - what a file holds is a value
    return record


def destroy(path: Path) -> None:
    """Overwrite a file, then remove it, durably; a file that is not there is left so.

    PRIVACY: on copy-on-write file systems and flash storage an overwritten block may outlive its file; only
    an encrypted volume protects against someone who reads the raw device.

    Raises:
        OSError: it can't be removed.
    """
    try:
        handle = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        _overwrite(handle)
    finally:
        os.close(handle)
    path.unlink()
    sync_folder(path.parent)


def _overwrite(handle: int) -> None:
    size, written = os.fstat(handle).st_size, 0
    while written < size:
        written += os.pwrite(handle, bytes(min(ZEROS, size - written)), written)
    os.fsync(handle)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable.

    Raises:
        OSError: it can't be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _written_draft(path: Path, content: bytes) -> Iterator[Path]:
    """Write the content durably beside its place, under a name that nobody else has; it is locked while the block runs.

    INVARIANT: whoever clears the store away takes a draft that isn't locked for one that a crash has left. One that was
    cleared between its making and its lock is made anew.
    """
    while True:
        # By a random name: containers that share a store may have equal process ids.
        draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}{DRAFT}")  # no coin of a release
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        try:
            if not try_lock(handle) or not os.fstat(handle).st_nlink:
                continue
            os.fchmod(handle, PRIVATE_FILE)
            view = memoryview(content)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
            yield draft
        except BaseException:  # an interruption too: no draft of a key may stay; it is raised again
            with suppress(OSError):
                _destroy_draft(draft)
            raise
        else:
            return
        finally:
            os.close(handle)


DRAFT = ".draft"
PLACES_OF_DRAFTS = (".", "signing", "signing/public", "outputs", "cache", "sources/*", "jobs/*")
"""Folders of the store in which files are written that no lock of a release guards."""
PREFECT = "prefect-"
"""The prefix of the folder that a process has for Prefect, locked while it lives."""


def try_lock(handle: int) -> bool:
    """Lock an open file or folder for this process alone, unless another has it; whether it is locked."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def drafts_in(home: Path) -> Iterator[Path]:
    """Yield the files that somebody has begun to write, or was killed over, but for those of releases."""
    for place in PLACES_OF_DRAFTS:
        yield from sorted(home.glob(f"{place}/.*{DRAFT}"))


def prefect_folders(home: Path) -> Iterator[Path]:
    """Yield the folders that processes have for Prefect, or had before they were killed."""
    yield from sorted(path for path in home.glob(f"{PREFECT}*") if path.is_dir() and not path.is_symlink())


def sweep(home: Path) -> None:
    """Clear away what killed processes have left in a store: drafts, overwritten, and folders for Prefect.

    What can't be cleared away is left, since a process of another account may have it; `doctor` names it.

    Args:
        home: the store's folder.
    """
    for path in (*drafts_in(home), *prefect_folders(home)):
        with suppress(OSError), ExitStack() as opened:
            folder = path.is_dir()
            handle = os.open(path, (os.O_RDONLY if folder else os.O_RDWR) | os.O_CLOEXEC | os.O_NOFOLLOW)
            opened.callback(os.close, handle)
            if not try_lock(handle):
                continue
            if folder:
                shutil.rmtree(path, ignore_errors=True)
            else:
                _destroy_draft(path)


def _destroy_draft(draft: Path) -> None:
    """Destroy a draft; one with a second name is complete and in its place, and would be destroyed there."""
    if draft.stat().st_nlink > 1:
        draft.unlink()
    else:
        destroy(draft)


ENDING = ".draw.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawStore:
    """The draws in a release's private folder, which the caller holds.

    Args:
        folder: the release's folder.
    """

    folder: Path

    def store_draw(self, draw: str, value: Mapping[str, Any]) -> None:
        """Make a random draw durable, before anything depends on it.

        INVARIANT: a stored draw is never replaced: a retry takes it, so that nobody draws until one pleases.

        Args:
            draw: its name, for example "map".
            value: what was drawn, name → JSON value.

        Raises:
            AccountantRefused: this draw is stored already.
            ReleaseFailed: it can't be written.
        """
        content = json.dumps(dict(value), sort_keys=True, allow_nan=False).encode("utf-8")
        try:
            create_private(self._path(draw), content)
        except FileExistsError:
            raise AccountantRefused(
                f"the {draw} of this release is drawn already.", remedy="Resume it, or use another release id."
            ) from None
        except OSError as error:
            raise store_failed(error) from None

    def load_draw(self, draw: str) -> dict[str, Any] | None:
        """What was drawn; None where this draw is not stored.

        Raises:
            ReleaseFailed: it can't be read.
        """
        try:
            return read_private_record(self._path(draw))
        except OSError as error:
            raise store_failed(error) from None
        except ValueError:
            raise ReleaseFailed(
                f"the {draw} that was drawn for this release is damaged in the private store.",
                remedy="It is never drawn again: the release can only be abandoned.",
            ) from None

    def forget(self) -> None:
        """Overwrite and remove every draw of a release that was never charged, or is given up.

        Raises:
            ReleaseFailed: one can't be removed.
        """
        try:
            for path in sorted(self.folder.glob(f"*{ENDING}")):
                destroy(path)
        except OSError as error:
            raise store_failed(error) from None

    def _path(self, draw: str) -> Path:
        return self.folder / f"{draw}{ENDING}"


def store_failed(error: OSError) -> ReleaseFailed:
    """The refusal where the private store can't be read or written after it was opened."""
    return ReleaseFailed(f"the private store can't be used ({error.strerror}).", not_done="")


KEY_BYTES = 32
FINGERPRINT_DOMAIN = b"crowdblend private fingerprint 1\n"
LOST = "A release without its key can only be abandoned: `crowdblend abandon`."


def fingerprint_under(key: bytes, content: bytes) -> str:
    """HMAC-SHA256 (hex) of private data under a store's key for fingerprints."""
    return hmac.new(key, FINGERPRINT_DOMAIN + content, hashlib.sha256).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyRef:
    """A reference to a sampling key: it can be pickled, printed and logged, since it does not hold the key.

    Args:
        path: the key's file, on a file system that its user shares.
    """

    path: Path = field(repr=False)

    def __str__(self) -> str:
        """The reference without its place."""
        return repr(self)

    def exists(self) -> bool:
        """Whether the key is there."""
        return self.path.is_file()

    def load(self) -> bytes:
        """The key, 32 bytes.

        PRIVACY: whoever calls this keeps the key out of graphs, logs, parameters, messages and other files.

        Raises:
            ReleaseFailed: the key is gone or damaged; it is never replaced.
        """
        try:
            key = self.path.read_bytes()
        except OSError as error:
            raise ReleaseFailed(f"the sampling key can't be read ({error.strerror}).", remedy=LOST) from None
        if len(key) != KEY_BYTES:
            raise ReleaseFailed("the sampling key is damaged.", remedy=LOST)
        return key


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseFolder:
    """A release's own folder in the private store, locked by this process while it is held.

    Args:
        path: the folder.
        fingerprint_key: the store's key for fingerprints.
    """

    path: Path
    fingerprint_key: bytes = field(repr=False)

    @property
    def key(self) -> KeyRef:
        """A reference to the release's sampling key, whether or not it is there."""
        return KeyRef(path=self.path / "sampling.key")

    @property
    def selection_key(self) -> KeyRef:
        """A reference to the key of the sample that the map is chosen on, whether or not it is there."""
        return KeyRef(path=self.path / "selection.key")

    def create_key(self, randomness: Callable[[int], bytes]) -> KeyRef:
        """Draw the release's sampling key and make it durable; as `_create`."""
        return self._create(self.key, randomness)

    def create_selection_key(self, randomness: Callable[[int], bytes]) -> KeyRef:
        """Draw the key of the sample that the map is chosen on and make it durable; as `_create`."""
        return self._create(self.selection_key, randomness)

    def _create(self, reference: KeyRef, randomness: Callable[[int], bytes]) -> KeyRef:
        """Draw a key and make it durable.

        INVARIANT: a key that is there is never replaced, so a charged release can't be given another sample.

        Args:
            randomness: n to n random bytes, from the operating system in production.

        Raises:
            AccountantRefused: the release has a key.
            ReleaseFailed: the key can't be written.
            ValueError: the source gave another number of bytes.
        """
        key = randomness(KEY_BYTES)
        if len(key) != KEY_BYTES:
            raise ValueError(f"a sampling key has {KEY_BYTES} bytes, and the source gave {len(key)}")
        try:
            create_private(reference.path, key)
        except FileExistsError:
            raise AccountantRefused(
                "this release has its sampling key already.", remedy="Resume it, or use another release id."
            ) from None
        except OSError as error:
            raise store_failed(error) from None
        return reference

    @property
    def copy(self) -> Path:
        """The file of records that were copied from a database, whether or not it is there."""
        return self.path / COPY

    def destroy_key(self) -> None:
        """Overwrite and remove the sampling keys, the selection's too, and the copy of a database's records.

        A second call changes nothing.

        Raises:
            ReleaseFailed: the key or the copy can't be removed.
        """
        try:
            destroy(self.key.path)
            destroy(self.selection_key.path)
        except OSError as error:
            raise store_failed(error) from None
        self.destroy_copy()

    def destroy_copy(self) -> None:
        """Overwrite and remove the copy of a database's records, or what there is of it; a second call changes nothing.

        Raises:
            ReleaseFailed: it can't be removed.
        """
        folder = self.copy.parent
        try:
            if folder.exists():
                for path in sorted(folder.iterdir()):
                    destroy(path)
                folder.rmdir()
                sync_folder(self.path)
        except OSError as error:
            raise store_failed(error) from None

    @property
    def draws(self) -> DrawStore:
        """What was drawn at random for the release and must not be drawn again."""
        return DrawStore(folder=self.path)

    def fingerprint(self, content: bytes) -> str:
        """HMAC-SHA256 (hex) under the store's own key.

        PRIVACY: a bare digest of private data would let anyone test a guess. This one is still kept in the
        private store: that it stays the same over time would tell that nothing changed.
        """
        return fingerprint_under(self.fingerprint_key, content)

    def remember(self, facts: Mapping[str, Any]) -> None:
        """Add facts to what is remembered of the release; they are durable when this returns.

        Args:
            facts: name → JSON value; a fact of the same name is replaced.

        Raises:
            ReleaseFailed: they can't be written.
        """
        record = self.remembered() | dict(facts)
        try:
            replace_private(self._record, json.dumps(record, sort_keys=True, allow_nan=False).encode("utf-8"))
        except OSError as error:
            raise store_failed(error) from None

    def remembered(self) -> dict[str, Any]:
        """What is remembered of the release; empty where nothing is.

        Raises:
            ReleaseFailed: the record can't be read.
        """
        try:
            record = read_private_record(self._record)
        except OSError as error:
            raise store_failed(error) from None
        except ValueError:
            raise ReleaseFailed("the release's private record is damaged.", remedy=LOST) from None
        return record or {}

    @property
    def _record(self) -> Path:
        return self.path / "record.json"


class PrivateStore:
    """The folder that holds what must never be in a ledger; its owner alone can look into it.

    Machines that run releases of one ledger need it shared, on a file system with locks; a cluster's workers don't.
    """

    def __init__(self, home: Path) -> None:
        """Open the store at `home`, make it where there is none, and clear away what killed processes have left.

        Raises:
            InputRefused: it can't be made, or others than its owner can look into it.
        """
        self.home = home.expanduser().absolute()
        try:
            private_folder(self.home)
        except OSError as error:
            raise _unusable(self.home, error) from None
        require_private(self.home)
        sweep(self.home)

    def release_folder(self, *, ledger_id: str, release_id: str) -> ReleaseFolder:
        """A release's folder, made where there is none; whoever changes what is in it holds it by `hold`.

        Raises:
            InputRefused: the id has another form, or the folder can't be made.
        """
        try:
            require_digest(ledger_id, "ledger's id")
            require_release_id(release_id)
        except ValueError as error:
            raise InputRefused(f"{error}.", where="release id") from None
        path = self.home / "releases" / ledger_id / release_id
        try:
            private_folder(path)
            return ReleaseFolder(path=path, fingerprint_key=self._fingerprint_key())
        except OSError as error:
            raise _unusable(path, error) from None

    @contextmanager
    def hold(self, *, ledger_id: str, release_id: str) -> Iterator[ReleaseFolder]:
        """Hold a release for this process alone; the end of the process, however it ends, frees it.

        The lock belongs to the open file: if the process is killed, one that it forked and that lives on
        keeps the release held; programs that it started do not.

        Raises:
            InputRefused: the id has another form, or the folder can't be used.
            AccountantRefused: a live process holds the release.
        """
        folder = self.release_folder(ledger_id=ledger_id, release_id=release_id)
        try:
            # INVARIANT: the lock's file is never removed; a lock on a removed file would exclude nobody.
            handle = os.open(folder.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(folder.path, error) from None
        try:
            _lock(handle, folder.path, release_id)
            try:
                _remove_drafts(folder.path)
                yield folder
            finally:
                fcntl.flock(handle, fcntl.LOCK_UN)  # for forked copies of the open file too
        finally:
            os.close(handle)

    @contextmanager
    def hold_output(self, output: str) -> Iterator[None]:
        """Hold an output's place for this process alone, as `hold` does a release.

        Args:
            output: its resolved path or its URL.

        Raises:
            InputRefused: a live process is on its way to it, or the private store can't be used.
        """
        path = output_lock(self.home, output)
        try:
            private_folder(path.parent)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise _unusable(path, error) from None
        try:
            _lock_output(handle, output, kind=fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(handle, fcntl.LOCK_UN)
        finally:
            os.close(handle)

    def _fingerprint_key(self) -> bytes:
        """The store's key for fingerprints, made at first use; it shapes no release."""
        path = self.home / "fingerprint.key"
        if not path.exists():
            with suppress(FileExistsError):
                create_private(path, secrets.token_bytes(KEY_BYTES))
        return path.read_bytes()


def releases_with_secrets(home: Path, *, ledger_id: str) -> Iterator[str]:
    """Yield the releases of a ledger whose folder has a key, a draft or a copy of records; nothing is changed.

    Args:
        home: the store's folder.
        ledger_id: the ledger, 64 hexadecimal digits.
    """
    try:
        folders = sorted(os.scandir(home / "releases" / ledger_id), key=lambda entry: entry.name)
    except OSError:
        return
    for folder in folders:
        with suppress(OSError), os.scandir(folder.path) as entries:
            if any(entry.name.endswith((".key", DRAFT)) or entry.name == COPY.parts[0] for entry in entries):
                yield folder.name


def require_private(home: Path) -> None:
    """Refuse a private store that others can look into; nothing is made or changed.

    Args:
        home: its folder.

    Raises:
        InputRefused: others than its owner can look into it, or it isn't there.
    """
    try:
        open_to_others = home.stat().st_mode & 0o077
    except OSError as error:
        raise _unusable(home, error) from None
    if open_to_others:
        raise InputRefused(
            "the private store can be looked into by others than its owner.",
            where=str(home),
            remedy=f"Close it with: chmod 700 '{home}'",
        )


def require_writable(home: Path) -> None:
    """Refuse a private store that takes no file; the one that is tried is removed.

    Args:
        home: its folder.

    Raises:
        InputRefused: a file can't be written there, such as on a full disk.
    """
    trial = home / "trial"
    try:
        replace_private(trial, bytes(TRIAL_BYTES))
        trial.unlink()
    except OSError as error:
        raise _unusable(home, error) from None


def require_not_held(home: Path, *, ledger_id: str, release_id: str) -> None:
    """Refuse a release that a live process holds; nothing is made or changed.

    Args:
        home: the private store's folder.
        ledger_id: the ledger, 64 hexadecimal digits.
        release_id: the release; there need be none.

    Raises:
        AccountantRefused: a live process holds it.
        InputRefused: its lock can't be looked at.
    """
    path = home / "releases" / ledger_id / release_id
    try:
        handle = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        _lock(handle, path, release_id, kind=fcntl.LOCK_SH)
    finally:
        os.close(handle)


def output_lock(home: Path, output: str) -> Path:
    """The lock of an output's place, whether or not it is there. INVARIANT: as a release's, it is never removed."""
    return home / "outputs" / f"{hashlib.sha256(output.encode('utf-8')).hexdigest()[:32]}.lock"


def require_output_not_held(home: Path, output: str) -> None:
    """Refuse an output that a live process is on its way to; nothing is made or changed; arguments as of `hold_output`.

    Raises:
        InputRefused: a live process holds it, or its lock can't be looked at.
    """
    path = output_lock(home, output)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        _lock_output(handle, output, kind=fcntl.LOCK_SH)
    finally:
        os.close(handle)


def _lock_output(handle: int, output: str, *, kind: int) -> None:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputRefused(
            "another release is on its way to this output.",
            where=output,
            remedy="Name another output, or wait for that release.",
            cause="held",
        ) from None


def _remove_drafts(path: Path) -> None:
    """Destroy what a killed holder had begun to write; the caller holds the release."""
    try:
        for draft in path.glob(f".*{DRAFT}"):
            _destroy_draft(draft)
    except OSError as error:
        raise _unusable(path, error) from None


def _lock(handle: int, path: Path, release_id: str, *, kind: int = fcntl.LOCK_EX) -> None:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AccountantRefused(
            "this release is held by a live process.",
            where=f"release '{release_id}'",
            remedy="Wait for it, or stop it and run again.",
            cause="held",
        ) from None
    except OSError as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: OSError) -> InputRefused:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return InputRefused(
        f"the private store can't be used ({error.strerror}).",
        where=str(path),
        remedy="Make room on its disk." if full else "Name a folder of your own in CROWDBLEND_HOME.",
    )


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


def _name(noted: dict[str, str], ledger_id: str) -> str:
    elsewhere = "" if noted["ledger_id"] == ledger_id else " in another ledger"
    return f"'{noted['dataset']}'{elsewhere}"
