"""Where the ledger and the private store lie, from the environment or the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_path
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["House", "house"]

DEFAULT_LEDGER = "sqlite:///crowdblend-ledger.db"


class _Environment(BaseSettings):
    """CROWDBLEND_LEDGER and CROWDBLEND_HOME."""

    model_config = SettingsConfigDict(env_prefix="CROWDBLEND_", extra="ignore")

    ledger: str = DEFAULT_LEDGER
    home: Path = Field(default_factory=lambda: user_data_path("crowdblend", appauthor=False))


@dataclass(frozen=True, kw_only=True, slots=True)
class House:
    """The two places where state is kept.

    Args:
        ledger_url: SQLAlchemy URL of the ledger; may hold a password, so it is never logged.
        home: private folder (0700) of sampling keys and unfinished releases; a cluster's machines share it.
    """

    ledger_url: str
    home: Path

    def __repr__(self) -> str:
        """Leave the URL out: it may hold a password."""
        return f"House(home={str(self.home)!r})"


def house(*, ledger_url: str | None = None, home: Path | None = None) -> House:
    """Settle both places: an argument, else the environment, else the default."""
    environment = _Environment()
    return House(ledger_url=ledger_url or environment.ledger, home=(home or environment.home).expanduser().absolute())
