"""Prefect's own folder, set before Prefect is imported: it makes one in the user's home, which may not be there."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from ..mechanisms.errors import InputRefused

__all__ = ["own_folder", "settle_prefect_home"]

HOME = "PREFECT_HOME"
_made: list[str] = []


def own_folder() -> str | None:
    """The folder that `settle_prefect_home` has made in this process; None where somebody else's is used."""
    return _made[-1] if _made else None


def settle_prefect_home(private_home: Path, *, whatever_is_there: bool = False) -> None:
    """See to a folder for Prefect, before anything imports it; call it again as often as you like.

    A folder that PREFECT_HOME names is used, and so is the user's own one (~/.prefect) where it is there already: it
    may say how a server is reached. Else Prefect has a folder in the private store, which goes with this process. So
    a user without a home folder, or with one that can't be written, is no fault, and nothing is made in a home folder.

    Args:
        private_home: the private store's folder (0700).
        whatever_is_there: whether the user's own folder is left aside, for a server of this process's own.

    Raises:
        InputRefused: the folder that PREFECT_HOME names, or the private store, can't be made.
    """
    if HOME in os.environ:
        _make(Path(os.environ[HOME]), where=HOME)
    elif whatever_is_there or not _users_own():
        _make(private_home, where=str(private_home))
        folder = tempfile.mkdtemp(prefix="prefect-", dir=private_home)
        os.environ[HOME] = folder
        _made.append(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _users_own() -> bool:
    """Whether the user has a folder of Prefect's that can be read."""
    try:
        return os.access(Path("~/.prefect").expanduser(), os.R_OK | os.X_OK)
    except RuntimeError:  # a user that nobody knows
        return False


def _make(folder: Path, *, where: str) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputRefused(
            f"the folder {folder} can't be made for Prefect's own files ({error.strerror}).",
            where=where,
            remedy="Name another one in PREFECT_HOME.",
        ) from None
