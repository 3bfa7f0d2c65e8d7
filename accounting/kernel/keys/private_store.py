"""The private store: keys, locks, stored draws and what a resumed release must find, outside every ledger."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..field_forms import require_digest, require_release_id
from .private_files import (
    DRAFT,
    create_private,
    destroy,
    destroy_draft,
    lock_file,
    private_folder,
    read_private_record,
    replace_private,
    require_usable,
    sync_folder,
)

COPY = Path("copy", "records.parquet")
DRAW_ENDING = ".draw.json"
FINGERPRINT_DOMAIN = b"crowdblend private fingerprint 1\n"
KEY_BYTES = 32
RECORD = "record.json"
LOST = "A release without its key can only be abandoned: `crowdblend abandon`."


def fingerprint_under(key: bytes, content: bytes) -> str:
    """Return the HMAC-SHA256 (hex) of private data under a store's key for fingerprints."""
    return hmac.new(key, FINGERPRINT_DOMAIN + content, hashlib.sha256).hexdigest()


@contextmanager
def _failing_release() -> Iterator[None]:
    """Turn a failure of the operating system in a store that was opened into the release's failure."""
    try:
        yield
    except OSError as error:
        raise ReleaseFailed(f"the private store can't be used ({error.strerror}).", not_done="") from None


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """Return the JSON text of a record of the store, sorted by name."""
    return json.dumps(dict(value), sort_keys=True, allow_nan=False).encode("utf-8")


def _create_once(path: Path, content: bytes, *, refusal: str) -> None:
    try:
        create_private(path, content)
    except FileExistsError:
        raise AccountantRefused(refusal, remedy="Resume it, or use another release id.") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyRef:
    """A reference to a sampling key: it can be pickled, printed and logged, since it does not hold the key.

    Args:
        path: the key's file, on a file system that its user shares.
    """

    path: Path = field(repr=False)

    @_failing_release()
    def create(self, randomness: Callable[[int], bytes]) -> KeyRef:
        """Draw the key with n ↦ n random bytes, from the operating system in production, and make it durable.

        INVARIANT: a key that is there is never replaced, so a charged release can't be given another sample.
        """
        key = randomness(KEY_BYTES)
        if len(key) != KEY_BYTES:
            raise ValueError(f"a sampling key has {KEY_BYTES} bytes, and the source gave {len(key)}")
        _create_once(self.path, key, refusal="this release has its sampling key already.")
        return self

    def exists(self) -> bool:
        """Return whether the key is there."""
        return self.path.is_file()

    def load(self) -> bytes:
        """Return the key, 32 bytes; one that is gone or damaged is never replaced, and fails the release.

        PRIVACY: whoever calls this keeps the key out of graphs, logs, parameters, messages and other files.
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

    What can't be read, written or removed in it ends in `ReleaseFailed`.

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

    @property
    def copy(self) -> Path:
        """The file of records that were copied from a database, whether or not it is there."""
        return self.path / COPY

    @_failing_release()
    def destroy_key(self) -> None:
        """Overwrite and remove the sampling keys and the copy of a database's records; a second call does nothing."""
        # Overwritten first: unlinking alone would leave the key's bytes on the disk for whoever reads the device.
        destroy(self.key.path)
        destroy(self.selection_key.path)
        self.destroy_copy()

    @_failing_release()
    def destroy_copy(self) -> None:
        """Overwrite and remove what there is of the copy of a database's records; a second call changes nothing."""
        folder = self.copy.parent
        if folder.exists():
            for path in sorted(folder.iterdir()):
                destroy(path)
            folder.rmdir()
            sync_folder(self.path)

    @_failing_release()
    def store_draw(self, draw: str, value: Mapping[str, Any]) -> None:
        """Make what was drawn at random, name → JSON value, durable before anything depends on it.

        INVARIANT: a stored draw is never replaced: a retry takes it, so that nobody draws until one pleases.
        """
        path, refusal = self.path / f"{draw}{DRAW_ENDING}", f"the {draw} of this release is drawn already."
        _create_once(path, json_bytes(value), refusal=refusal)

    @_failing_release()
    def load_draw(self, draw: str) -> dict[str, Any] | None:
        """Return what was drawn; None where this draw is not stored."""
        try:
            return read_private_record(self.path / f"{draw}{DRAW_ENDING}")
        except ValueError:
            what = f"the {draw} that was drawn for this release is damaged in the private store."
            remedy = "It is never drawn again: the release can only be abandoned."
            raise ReleaseFailed(what, remedy=remedy) from None

    @_failing_release()
    def forget_draws(self) -> None:
        """Overwrite and remove every draw of a release that was never charged, or is given up."""
        for path in sorted(self.path.glob(f"*{DRAW_ENDING}")):
            destroy(path)

    def fingerprint(self, content: bytes) -> str:
        """Return the HMAC-SHA256 (hex) under the store's own key.

        PRIVACY: a bare digest of private data would let anyone test a guess. This one is still kept in the
        private store: that it stays the same over time would tell that nothing changed.
        """
        return fingerprint_under(self.fingerprint_key, content)

    @_failing_release()
    def remember(self, facts: Mapping[str, Any]) -> None:
        """Add facts, name → JSON value, to what is remembered of the release, durably; the later of one name counts."""
        replace_private(self.path / RECORD, json_bytes(self.remembered() | dict(facts)))

    @_failing_release()
    def remembered(self) -> dict[str, Any]:
        """Return what is remembered of the release; empty where nothing is."""
        try:
            return read_private_record(self.path / RECORD) or {}
        except ValueError:
            raise ReleaseFailed("the release's private record is damaged.", remedy=LOST) from None


class PrivateStore:
    """The folder that holds what must never be in a ledger; its owner alone can look into it.

    Machines that run releases of one ledger need it shared, on a file system with locks; a cluster's workers don't.
    What can't be made, locked or used is refused with `InputRefused`.
    """

    def __init__(self, home: Path) -> None:
        """Open the store at `home`, made where there is none."""
        self.home = home.expanduser().absolute()
        with require_usable(self.home):
            private_folder(self.home)
        require_private(self.home)

    def release_folder(self, *, ledger_id: str, release_id: str) -> ReleaseFolder:
        """Return a release's folder, made where there is none; whoever changes what is in it holds it by `hold`."""
        try:
            path = path_of_release(self.home, ledger_id=ledger_id, release_id=release_id)
        except ValueError as error:
            raise InputRefused(f"{error}.", where="release id") from None
        with require_usable(path):
            private_folder(path)
            return ReleaseFolder(path=path, fingerprint_key=self._fingerprint_key())

    @contextmanager
    def hold(self, *, ledger_id: str, release_id: str) -> Iterator[ReleaseFolder]:
        """Hold a release for this process alone until the block or the process ends, however it does.

        A release that a live process holds is refused with `AccountantRefused`. The lock belongs to the open file: if
        the process is killed, one that it forked and that lives on keeps the release held; programs that it started
        do not.
        """
        folder = self.release_folder(ledger_id=ledger_id, release_id=release_id)
        with lock_file(*release_lock(folder.path)):
            with require_usable(folder.path):
                for draft in folder.path.glob(f".*{DRAFT}"):  # what a killed holder had begun to write
                    destroy_draft(draft)
            yield folder

    def hold_output(self, output: str) -> AbstractContextManager[None]:
        """Hold an output's place, its resolved path or URL, for this process alone, as `hold` does a release."""
        return lock_file(*output_lock(self.home, output))

    def _fingerprint_key(self) -> bytes:
        """Return the store's key for fingerprints, made at first use; it shapes no release."""
        path = self.home / "fingerprint.key"
        if not path.exists():
            with suppress(FileExistsError):
                create_private(path, secrets.token_bytes(KEY_BYTES))
        return path.read_bytes()


def path_of_release(home: Path, *, ledger_id: str, release_id: str) -> Path:
    """Return where a release's folder is, or would be; an id of another form raises `ValueError`."""
    require_digest(ledger_id, "ledger's id")
    require_release_id(release_id, "release id")
    return home / "releases" / ledger_id / release_id


def require_private(home: Path) -> None:
    """Refuse a private store that isn't there, or that others than its owner can look into; nothing is changed."""
    with require_usable(home):
        open_to_others = home.stat().st_mode & 0o077
    if open_to_others:
        what = "the private store can be looked into by others than its owner."
        raise InputRefused(what, where=str(home), remedy=f"Close it with: chmod 700 '{home}'")


def release_lock(folder: Path) -> tuple[Path, AccountantRefused]:
    """Return the file that is locked while a release is held, and the refusal where a live process has it."""
    what, remedy = "this release is held by a live process.", "Wait for it, or stop it and run again."
    return folder / "lock", AccountantRefused(what, where=f"release '{folder.name}'", remedy=remedy, cause="held")


def output_lock(home: Path, output: str) -> tuple[Path, InputRefused]:
    """Return the file that is locked while an output is held, and the refusal where a live process has it."""
    name = f"{hashlib.sha256(output.encode('utf-8')).hexdigest()[:32]}.lock"
    what, remedy = "another release is on its way to this output.", "Name another output, or wait for that release."
    return home / "outputs" / name, InputRefused(what, where=output, remedy=remedy, cause="held")
