"""Where the ledger, its anchor and the private store lie: by argument, environment, settings file or default.

`crowdblend.toml`: the settings of a working folder and of all folders below it.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_data_path

from ..accounting.given_files import read_given
from ..mechanisms.kernel.errors import InputRefused

if TYPE_CHECKING:
    from ..accounting.keys.anchor import Anchoring
    from ..accounting.ledger.reader import LedgerReader

FILE_NAME = "crowdblend.toml"
PLACES = ("ledger", "home", "anchor", "approvers")
"""Keys of the top level: where state is kept, and who may approve."""
DEFAULTS = ("scheduler", "publisher")
"""Keys of [defaults]: options that commands take from here where nothing else names them. None of them decides what is
released or what it costs, so that a file somewhere above can't change a release. None decides whose signature is
trusted, so that a folder that was sent can't vouch for itself."""
PATHS = frozenset({"home", "anchor", "approvers"})
EXTENSIONS = ("kinds",)
"""Keys of [extensions]: kinds of mechanisms of other distributions that may price and protect."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsFile:
    """A settings file that was found.

    Args:
        path: the file.
        values: what it says, paths made absolute from its folder.
        kinds: kinds of mechanisms of other distributions that are switched on.
    """

    path: Path
    values: Mapping[str, str]
    kinds: tuple[str, ...] = ()


def settings_file(folder: Path) -> SettingsFile | None:
    """Return the nearest settings file: of a folder, or of the nearest folder above it; None where there is none.

    PRIVACY: it decides which ledger is charged and where keys lie, so it must belong to the account that runs this, or
    to root, and nobody else may be able to write it.

    Raises:
        InputRefused: it can't be read or is no file, somebody else can write it, it is no TOML, or it has a key or a
            value that it can't have.
    """
    for place in (folder, *folder.parents):
        path = place / FILE_NAME
        try:
            state = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if path.is_symlink():
                raise _unreadable(path, "it is a link that leads nowhere") from None
            continue
        except OSError as error:
            raise _unreadable(path, error.strerror) from None
        if not stat.S_ISREG(state.st_mode):
            raise _unreadable(path, "it is not a regular file")
        _require_trusted(path, state)
        tables = read_toml(path, what="the settings")
        return SettingsFile(path=path, values=_values(path, tables), kinds=_kinds(path, tables))
    return None


def _unreadable(path: Path, why: str | None) -> InputRefused:
    # Whatever has this name was meant to say which ledger is charged: passed over, it would let another be charged.
    return InputRefused(f"the settings can't be read ({why}).", where=str(path))


LARGEST = 1 << 26  # bytes


def read_toml(path: Path, *, what: str) -> dict[str, Any]:
    """Read a file of TOML, as `toml_tables` reads its bytes.

    Raises:
        InputRefused: it can't be read, or as of `toml_tables`.
    """
    try:
        content = read_given(path, most=LARGEST)
    except OSError as error:
        raise InputRefused(
            f"{what} can't be read ({error.strerror}).", where=str(path), remedy="Check the path."
        ) from None
    return toml_tables(content, path, what=what)


def toml_tables(content: bytes, path: Path, *, what: str) -> dict[str, Any]:
    """Read TOML; its numbers with a point or an exponent are exact.

    Args:
        content: of the file.
        path: of the file, for messages.
        what: it is, for messages.

    Raises:
        InputRefused: it is no TOML in UTF-8, or has a number or a nesting that can't be held.
    """
    try:
        return tomllib.loads(content.decode("utf-8-sig"), parse_float=Decimal)
    except UnicodeDecodeError:
        raise InputRefused(f"{what} is not UTF-8 text.", where=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise InputRefused(f"this is not TOML: {error}.", where=str(path)) from None
    except RecursionError:
        raise InputRefused("arrays or tables in it are nested too deeply.", where=str(path)) from None
    except (ValueError, ArithmeticError):
        raise InputRefused("a number in it has too many digits, or too large an exponent.", where=str(path)) from None


def _require_trusted(path: Path, state: os.stat_result) -> None:
    # A file in a shared folder, such as /tmp, would otherwise decide which ledger is charged, and which kinds price.
    if state.st_uid not in (os.getuid(), 0):
        raise InputRefused(
            "these settings belong to another account, and they would decide which ledger is charged.",
            where=str(path),
            remedy="Work in another folder, or write a file of your own in this one.",
        )
    if state.st_mode & stat.S_IWOTH:
        raise InputRefused(
            "everybody can write these settings, and they decide which ledger is charged.",
            where=str(path),
            remedy=f"Close the file with: chmod o-w '{path}'",
        )


def _values(path: Path, tables: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings by name, each checked."""
    if "release" in tables or "data" in tables:
        raise InputRefused(
            f"a file called {FILE_NAME} has settings, and this one seems to be a release's specification.",
            where=str(path),
            remedy="Give the specification another name.",
        )
    defaults = tables.get("defaults", {})
    if not isinstance(defaults, dict):
        raise InputRefused("this must be a table.", where=f"{path}: [defaults]")
    _require_known(path, [name for name in tables if name not in ("defaults", "extensions")], PLACES, table="")
    _require_known(path, list(defaults), DEFAULTS, table="defaults")
    found = {}
    for name, value in [*((name, tables[name]) for name in PLACES if name in tables), *defaults.items()]:
        where = f"{path}: {name}" if name in PLACES else f"{path}: [defaults].{name}"
        if not isinstance(value, str) or not value or "\0" in value:
            raise InputRefused("this must be a text in quotes, not empty and without a NUL character.", where=where)
        found[name] = _from_folder(name, value, path.parent)
    return found


def _kinds(path: Path, tables: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds that [extensions] names."""
    extensions = tables.get("extensions", {})
    if not isinstance(extensions, dict):
        raise InputRefused("this must be a table.", where=f"{path}: [extensions]")
    _require_known(path, list(extensions), EXTENSIONS, table="extensions")
    kinds = extensions.get("kinds", [])
    if not isinstance(kinds, list) or not all(isinstance(name, str) and name.isidentifier() for name in kinds):
        raise InputRefused(
            'this must be a list of names in quotes, such as ["coin_flip_count"].', where=f"{path}: [extensions].kinds"
        )
    return tuple(kinds)


def _require_known(path: Path, names: list[str], known: tuple[str, ...], *, table: str) -> None:
    for name in names:
        if name in known:
            continue
        where = f"{path}: [{table}].{name}" if table else f"{path}: {name}"
        other = () if table == "extensions" else PLACES if table else DEFAULTS
        close = get_close_matches(name.lower().replace("-", "_"), known, n=1)
        remedy = f"Did you mean {close[0]}?" if close else f"There are {', '.join(known)}."
        if name in other:
            remedy = "It belongs at the top level." if table else "It belongs in [defaults]."
        raise InputRefused("there is no such key.", where=where, remedy=remedy)


def _from_folder(name: str, value: str, folder: Path) -> str:
    """Return a setting with its relative path made absolute, from the file's folder."""
    if name in PATHS:
        return str(folder / Path(value).expanduser())
    scheme, mark, rest = value.partition(":///")
    if name == "ledger" and "://" not in value:
        return f"sqlite:///{folder / Path(value).expanduser()}"
    if name == "ledger" and mark and scheme.split("+")[0] == "sqlite" and not rest.startswith("/"):
        # An SQLite URL with a relative path means the working folder to SQLAlchemy. Here it is the folder of the
        # settings file, so that every folder below uses one ledger.
        return f"{scheme}:///{folder / rest}"
    return value


_LOGGER = logging.getLogger("crowdblend.places")
PASSWORD = re.compile("(?<=//)[^/]*@")
VARIABLES = {
    "ledger": "CROWDBLEND_LEDGER",
    "home": "CROWDBLEND_HOME",
    "anchor": "CROWDBLEND_ANCHOR",
    "approvers": "CROWDBLEND_APPROVERS",
}
DEFAULT_LEDGER = "sqlite:///crowdblend-ledger.db"


@dataclass(frozen=True, kw_only=True, slots=True)
class StatePaths:
    """The places where state is kept.

    Args:
        ledger_url: SQLAlchemy URL of the ledger; may hold a password, so it is never logged.
        home: private folder (0700) of signing keys, sampling keys, jobs and unfinished releases; it belongs to the
            machine that runs releases, and a cluster's workers don't need it.
        anchor: the file that the heads of the ledger's chain are copied to; None for one below the private folder.
        approvers: PEM file of the public keys of those one of whom has to approve each release; None where nobody has.
    """

    ledger_url: str
    home: Path
    anchor: Path | None = None
    approvers: Path | None = None

    @property
    def anchoring(self) -> Anchoring:
        """Who signs the heads of the chain, and where they are copied to."""
        from ..accounting.keys.anchor import (
            Anchoring,  # with it comes the ledger, which a job's terminal doesn't need
        )

        return Anchoring(home=self.home, file=self.anchor)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a process that is started finds the same places."""
        values = {"ledger": self.ledger_url, "home": self.home, "anchor": self.anchor, "approvers": self.approvers}
        return {VARIABLES[name]: str(value) for name, value in values.items() if value is not None}

    def __repr__(self) -> str:
        """Leave the URL out: it may hold a password."""
        return f"StatePaths(home={str(self.home)!r})"


def reader_of(places: StatePaths) -> LedgerReader:
    """Open the ledger for looking, as who has the private store."""
    from ..accounting.ledger.reader import open_reader  # with it come SQL and prices, which most commands do without

    return open_reader(places.ledger_url, anchoring=places.anchoring)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting and where it comes from.

    Args:
        name: as `crowdblend.toml` calls it: ledger, home, anchor, approvers, scheduler or publisher.
        value: what it is; None where nothing is set.
        origin: "argument" (an option, or an argument from Python), the environment variable, the path of a settings
            file, or "default".
    """

    name: str
    value: str | None
    origin: str

    @property
    def shown(self) -> str:
        """Return the value without a password."""
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
        """Return the setting of this name.

        Raises:
            KeyError: there is no such setting.
        """
        for setting in self.settings:
            if setting.name == name:
                return setting
        raise KeyError(name)

    @property
    def state_paths(self) -> StatePaths:
        """Return the places where state is kept."""
        ledger, home, anchor, approvers = (self[name].value for name in PLACES)
        return StatePaths(
            ledger_url=ledger or DEFAULT_LEDGER,
            home=Path(home or "").expanduser().absolute(),
            anchor=Path(anchor).expanduser().absolute() if anchor else None,
            approvers=Path(approvers).expanduser().absolute() if approvers else None,
        )


def _default_of(name: str) -> str | None:
    if name != "home":
        return DEFAULT_LEDGER if name == "ledger" else None
    try:
        return str(user_data_path("crowdblend", appauthor=False))
    except RuntimeError:  # a service's account, with neither HOME nor a line in the list of accounts
        raise InputRefused(
            "this account has no home folder, and no other folder is named for the private store.",
            remedy="Set CROWDBLEND_HOME to a folder of this account's own.",
        ) from None


def resolved_settings(*, ledger_url: str | None = None, home: Path | None = None) -> Settings:
    """Return all settings, each from what names it first: argument, environment, `crowdblend.toml`, default.

    An empty variable is as none.

    Raises:
        InputRefused: there is a settings file that can't be used, an empty text is given as the ledger, or there is no
            folder for the private store.
    """
    if ledger_url is not None and not ledger_url.strip():
        # Such as an unset variable of a shell gives: the default would be another ledger than was meant.
        raise InputRefused(
            "the ledger's address is empty.",
            where="--ledger",
            remedy="Write sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
        )
    file = settings_file(Path.cwd())
    given = {"ledger": ledger_url, "home": None if home is None else str(home)}
    found = []
    for name in (*PLACES, *DEFAULTS):
        variable = VARIABLES.get(name, "")
        if given.get(name) is not None:
            found.append(Setting(name=name, value=given[name], origin="argument"))
        elif variable and os.environ.get(variable):
            found.append(Setting(name=name, value=os.environ[variable], origin=variable))
        elif file is not None and name in file.values:
            found.append(Setting(name=name, value=file.values[name], origin=str(file.path)))
        else:
            found.append(Setting(name=name, value=_default_of(name), origin="default"))
    return Settings(file=None if file is None else file.path, settings=tuple(found))


def resolve_paths(*, ledger_url: str | None = None, home: Path | None = None) -> StatePaths:
    """Return the places where state is kept, as `resolved_settings` finds them.

    Args:
        ledger_url: SQLAlchemy URL of the ledger; None takes CROWDBLEND_LEDGER, crowdblend.toml or an SQLite file in the
            working folder.
        home: the private store; None takes CROWDBLEND_HOME, crowdblend.toml or the user's data folder.

    Raises:
        InputRefused: as of `resolved_settings`.
    """
    found = resolved_settings(ledger_url=ledger_url, home=home)
    for name in PLACES[:2]:
        _LOGGER.debug("%s %s (%s)", name, found[name].shown, found[name].origin)
    return found.state_paths
