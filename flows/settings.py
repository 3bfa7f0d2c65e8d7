"""Where the ledger, its anchor and the private store lie, from the environment or the defaults."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_data_path

if TYPE_CHECKING:
    from ..accounting.ledger.anchoring import Anchoring

__all__ = ["House", "house"]

_LOGGER = logging.getLogger("crowdblend.places")
DEFAULT_LEDGER = "sqlite:///crowdblend-ledger.db"


@dataclass(frozen=True, kw_only=True, slots=True)
class House:
    """The places where state is kept.

    Args:
        ledger_url: SQLAlchemy URL of the ledger; may hold a password, so it is never logged.
        home: private folder (0700) of signing keys, sampling keys, jobs and unfinished releases; it belongs to the
            machine that runs releases, and a cluster's workers don't need it.
        anchor: the file that the heads of the ledger's chain are copied to; None for one below the private folder.
    """

    ledger_url: str
    home: Path
    anchor: Path | None = None

    @property
    def anchoring(self) -> Anchoring:
        """Who signs the heads of the chain, and where they are copied to."""
        from ..accounting.ledger.anchoring import (
            Anchoring,  # with it comes the ledger, which a job's terminal doesn't need
        )

        return Anchoring(home=self.home, file=self.anchor)

    def __repr__(self) -> str:
        """Leave the URL out: it may hold a password."""
        return f"House(home={str(self.home)!r})"


def house(*, ledger_url: str | None = None, home: Path | None = None) -> House:
    """Settle the places: an argument, else the environment, else the default; an empty variable is as none.

    Args:
        ledger_url: SQLAlchemy URL of the ledger; None takes CROWDBLEND_LEDGER, or an SQLite file in the working folder.
        home: the private store; None takes CROWDBLEND_HOME, or the user's data folder.
    """
    own, anchor = os.environ.get("CROWDBLEND_HOME"), os.environ.get("CROWDBLEND_ANCHOR")
    store = home or (Path(own) if own else user_data_path("crowdblend", appauthor=False))
    found = House(
        ledger_url=ledger_url or os.environ.get("CROWDBLEND_LEDGER") or DEFAULT_LEDGER,
        home=store.expanduser().absolute(),
        anchor=Path(anchor).expanduser().absolute() if anchor else None,
    )
    _LOGGER.debug("ledger %s", re.sub("(?<=//)[^/]*@", "…@", found.ledger_url))
    _LOGGER.debug("private store %s", found.home)
    return found
