"""Where the ledger, its anchor and the private store lie: by argument, environment, settings file or default."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_data_path

from .settings_file import DEFAULTS, PLACES, settings_file

if TYPE_CHECKING:
    from ..accounting.ledger.anchoring import Anchoring

__all__ = ["House", "Setting", "Settings", "house", "resolved_settings"]

_LOGGER = logging.getLogger("crowdblend.places")
PASSWORD = re.compile("(?<=//)[^/]*@")
VARIABLES = {"ledger": "CROWDBLEND_LEDGER", "home": "CROWDBLEND_HOME", "anchor": "CROWDBLEND_ANCHOR"}
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting and where it comes from.

    Args:
        name: as `crowdblend.toml` calls it: ledger, home, anchor, scheduler or publisher.
        value: what it is; None where nothing is set.
        origin: "argument" (an option, or an argument from Python), the environment variable, the path of a settings
            file, or "default".
    """

    name: str
    value: str | None
    origin: str

    @property
    def shown(self) -> str:
        """The value without a password."""
        return "" if self.value is None else PASSWORD.sub("…@", self.value)

    def __repr__(self) -> str:
        """Leave a password out."""
        return f"Setting(name={self.name!r}, value={self.shown!r}, origin={self.origin!r})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """All settings of a command, resolved.

    Args:
        file: the settings file that was read, None where there is none.
        settings: each setting with its origin, in the order of `crowdblend.toml`.
    """

    file: Path | None
    settings: tuple[Setting, ...]

    def __getitem__(self, name: str) -> Setting:
        """The setting of this name.

        Raises:
            KeyError: there is no such setting.
        """
        for setting in self.settings:
            if setting.name == name:
                return setting
        raise KeyError(name)

    @property
    def house(self) -> House:
        """The places where state is kept."""
        ledger, home, anchor = (self[name].value for name in PLACES)
        return House(
            ledger_url=ledger or DEFAULT_LEDGER,
            home=Path(home or "").expanduser().absolute(),
            anchor=Path(anchor).expanduser().absolute() if anchor else None,
        )


def resolved_settings(*, ledger_url: str | None = None, home: Path | None = None) -> Settings:
    """All settings, each from the first that names it: an argument, the environment, `crowdblend.toml`, the default.

    An empty variable is as none.

    Args:
        ledger_url: SQLAlchemy URL of the ledger, as an option gives it.
        home: the private store, as an argument gives it.

    Raises:
        InputRefused: there is a settings file that can't be used.
    """
    file = settings_file(Path.cwd())
    given = {"ledger": ledger_url, "home": None if home is None else str(home)}
    defaults = {"ledger": DEFAULT_LEDGER, "home": str(user_data_path("crowdblend", appauthor=False))}
    found = []
    for name in (*PLACES, *DEFAULTS):
        variable = VARIABLES.get(name, "")
        if given.get(name):
            found.append(Setting(name=name, value=given[name], origin="argument"))
        elif variable and os.environ.get(variable):
            found.append(Setting(name=name, value=os.environ[variable], origin=variable))
        elif file is not None and name in file.values:
            found.append(Setting(name=name, value=file.values[name], origin=str(file.path)))
        else:
            found.append(Setting(name=name, value=defaults.get(name), origin="default"))
    return Settings(file=None if file is None else file.path, settings=tuple(found))


def house(*, ledger_url: str | None = None, home: Path | None = None) -> House:
    """The places where state is kept, as `resolved_settings` finds them.

    Args:
        ledger_url: SQLAlchemy URL of the ledger; None takes CROWDBLEND_LEDGER, crowdblend.toml or an SQLite file in the
            working folder.
        home: the private store; None takes CROWDBLEND_HOME, crowdblend.toml or the user's data folder.

    Raises:
        InputRefused: there is a settings file that can't be used.
    """
    found = resolved_settings(ledger_url=ledger_url, home=home)
    for name in PLACES[:2]:
        _LOGGER.debug("%s %s (%s)", name, found[name].shown, found[name].origin)
    return found.house
