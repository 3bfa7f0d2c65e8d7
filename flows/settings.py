"""Where the ledger, its anchor and the private store lie, from the environment or the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_data_path
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

if TYPE_CHECKING:
    from ..accounting.ledger.anchoring import Anchoring

__all__ = ["House", "house"]

DEFAULT_LEDGER = "sqlite:///crowdblend-ledger.db"


class _Environment(BaseSettings):
    """CROWDBLEND_LEDGER, CROWDBLEND_HOME and CROWDBLEND_ANCHOR."""

    model_config = SettingsConfigDict(env_prefix="CROWDBLEND_", extra="ignore")

    ledger: str = DEFAULT_LEDGER
    home: Path = Field(default_factory=lambda: user_data_path("crowdblend", appauthor=False))
    anchor: Path | None = None


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
    environment = _Environment()
    anchor = environment.anchor
    return House(
        ledger_url=ledger_url or environment.ledger,
        home=(home or environment.home).expanduser().absolute(),
        anchor=None if anchor is None or anchor == Path() else anchor.expanduser().absolute(),
    )
