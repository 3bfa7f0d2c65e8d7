"""Random draws that a release depends on, durable and private before anything follows from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...mechanisms.refusal import AccountantRefused, ReleaseFailed
from .durable import create_private, destroy, read_private_record

__all__ = ["SettledDraws", "store_failed"]

ENDING = ".draw.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledDraws:
    """The draws in a release's private folder, which the caller holds.

    Args:
        folder: the release's folder.
    """

    folder: Path

    def settle(self, draw: str, value: Mapping[str, Any]) -> None:
        """Make a random draw durable, before anything depends on it.

        INVARIANT: a settled draw is never replaced: a retry takes it, so that nobody draws until one pleases.

        Args:
            draw: its name, for example "map".
            value: what was drawn, name → JSON value.

        Raises:
            AccountantRefused: this draw is settled.
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

    def settled(self, draw: str) -> dict[str, Any] | None:
        """What was drawn; None where this draw is not settled.

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
