"""The studio's folder: a draft of a specification with its hierarchies, and what no specification says, on disk."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import threading
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from ...mechanisms.kernel.errors import InputRefused

Tables = dict[str, Any]

HEAD = "# Made with crowdblend studio. It is a specification like any other: crowdblend run draft.toml\n"
HEADED = ("columns", "blocks")  # tables whose own tables have a head of their own; all others are inline
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
ORDER = (
    *("release", "data", "sampling", "suppression", "deletion", "histogram", "synthetic"),
    *("margins", "blocks", "privacy", "columns"),
)
WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
DECIMAL = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
MARK = "mark"
"""The field of a form that says what its page was made of: where something else is there by then, it isn't taken."""
MARK_DIGITS = 32
NO_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass
class Draft:
    """What the steward has decided so far.

    Args:
        tables: of the specification; what was typed and is no number stands there as a text, and is refused as such.
        notes: what a specification doesn't say: the number of records, the language, what a hierarchy was built of.
    """

    tables: Tables = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> Tables:
        """Its table of the records."""
        found: Tables = self.tables.setdefault("data", {})
        return found

    @property
    def columns(self) -> Tables:
        """Its released columns."""
        found: Tables = self.tables.setdefault("columns", {})
        return found

    @property
    def kind(self) -> str:
        """Its kind, as the page of the price calls it."""
        named = next((name for name in ("synthetic", "histogram") if name in self.tables), "")
        sampled = "calibrated" if "margins" in self.tables else "sampled"
        return named or (sampled if "sampling" in self.tables else "paired")

    @property
    def paired(self) -> bool:
        """Whether the release finds its pairs of columns and its labels itself; else each column has its level."""
        return self.kind == "paired"

    @property
    def builders(self) -> dict[str, dict[str, str]]:
        """What the hierarchies of columns were built of, by column."""
        found: dict[str, dict[str, str]] = self.notes.setdefault("builders", {})
        return found

    def put(self, table: str, key: str, value: object) -> None:
        """Set a key of a table; nothing typed removes it."""
        if value in ("", None, []):
            self.tables.get(table, {}).pop(key, None)
        else:
            self.tables.setdefault(table, {})[key] = value


class StudioFolder:
    """A folder of the user's own, held by one studio at a time.

    INVARIANT: each file is replaced as a whole, so that a process that is killed leaves the old one or the new one.

    Args:
        folder: made where there is none, for its owner alone.

    Raises:
        InputRefused: it can't be made, others can look into it, or another studio holds it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().absolute()
        where = str(self.folder)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            state = self.folder.lstat()
            if not self.folder.is_dir() or self.folder.is_symlink() or state.st_uid != os.getuid():
                raise InputRefused("this is no folder of yours.", where=where, remedy="Name another with --folder.")
            if state.st_mode & 0o077:
                raise InputRefused(
                    "others may look into this folder.", where=where, remedy=f"Close it first: chmod 700 {where}"
                )
            (self.folder / "hierarchies").mkdir(mode=0o700, exist_ok=True)
            self._held = (self.folder / ".lock").open("w", encoding="ascii")
        except OSError as error:
            raise InputRefused(f"the folder can't be used ({error.strerror}).", where=where) from None
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputRefused(
                "another studio works in this folder.", where=where, remedy="Use that one, or name another --folder."
            ) from None
        self._lock = threading.Lock()

    @property
    def draft_path(self) -> Path:
        """The specification."""
        return self.folder / "draft.toml"

    def draft(self) -> Draft:
        """Return what is on disk.

        Raises:
            InputRefused: somebody has made it unreadable.
        """
        try:
            text, notes = _text(self.draft_path), _text(self.folder / "studio.json")
            tables = tomllib.loads(text, parse_float=Decimal)
            _require_tables(tables)
            return Draft(tables=tables, notes=json.loads(notes) if notes else {})
        except (OSError, ValueError) as error:
            raise InputRefused(
                f"the draft can't be read ({type(error).__name__}).",
                where=str(self.folder),
                remedy="Mend it with an editor, or move draft.toml and studio.json away.",
            ) from None

    @contextmanager
    def changing(self) -> Iterator[Draft]:
        """Give the draft to be changed, and store it unless the block is left by an error."""
        with self._lock:
            draft = self.draft()
            yield draft
            self.write("studio.json", json.dumps(draft.notes, ensure_ascii=False, indent=1) + "\n")
            self.write("draft.toml", toml_text(draft.tables))

    @contextmanager
    def written(self, text: str) -> Iterator[Path]:
        """Give a file beside the draft that has a text, for as long as the block lasts."""
        with NamedTemporaryFile("w", encoding="utf-8", dir=self.folder, prefix=".check-", suffix=".toml") as file:
            file.write(text)
            file.flush()
            yield Path(file.name)

    def write(self, name: str, text: str) -> None:
        """Replace a file as a whole."""
        place = self.folder / name
        beside = place.with_name(f".{place.name}.new")
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)


def _require_tables(tables: Tables) -> None:
    """Raise ValueError where a table or a list is something else: whatever else is wrong, a page says of its field."""
    below = [*tables.get("columns", {}).values()] if isinstance(tables.get("columns", {}), dict) else [None]
    blocks = tables.get("blocks", {})
    if isinstance(blocks, dict):
        lists = [blocks.get("pinned", []), *(one.get("columns") for one in blocks.values() if isinstance(one, dict))]
        below += [{} if isinstance(one, list) else None for one in lists]
    if not all(isinstance(table, dict) for table in (*tables.values(), *below)):
        raise ValueError("a table is none")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def file_stem(name: str, number: int) -> str:
    """Return a file's name for a column; the number keeps names apart that differ in other characters."""
    return f"{NO_FILE_NAME.sub('-', name).strip('-.')[:60] or 'column'}-{number + 1}"


def typed_number(text: str) -> int | Decimal | str | None:
    """Return the number that was typed, exactly; the text where it is none, and None where nothing was typed."""
    text = text.strip()
    if WHOLE.fullmatch(text):
        return int(text)
    return Decimal(text) if DECIMAL.fullmatch(text) else text or None


def typed_numbers(text: str) -> list[int | Decimal | str]:
    """Return numbers that were typed with commas or spaces between them."""
    found = (typed_number(part) for part in re.split(r"[,;\s]+", text))
    return [number for number in found if number is not None]


def shown(value: object) -> str:
    """Return a value as it is shown in a field: what `typed_number` and `typed_numbers` take."""
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    return "" if value is None else str(value)


def toml_lines(tables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lines of a specification, each with its place such as `data.source`; "" of an empty line."""
    for name in sorted(tables, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER)):
        table = tables[name]
        if not isinstance(table, dict) or (not table and name in HEADED):
            continue
        own = {key: value for key, value in table.items() if not (name in HEADED and isinstance(value, dict))}
        if own or name not in HEADED:
            yield name, f"[{_key(name)}]"
            yield from ((f"{name}.{key}", f"{_key(key)} = {_value(value)}") for key, value in own.items())
            yield "", ""
        for below in (key for key in table if key not in own):
            yield f"{name}.*", f"[{_key(name)}.{_key(below)}]"
            yield from ((f"{name}.*.{key}", f"{_key(key)} = {_value(value)}") for key, value in table[below].items())
            yield "", ""


def toml_text(tables: Mapping[str, Any]) -> str:
    """Return the text of a specification."""
    return "\n".join([HEAD, *(line for _, line in toml_lines(tables))])


def columns_mark(draft: Draft, names: Iterable[str]) -> str:
    """Return the mark of a form whose fields are numbered as the file's columns are."""
    return _mark(str(draft.data.get("source", "")), *names)


def draft_mark(folder: StudioFolder, draft: Draft) -> str:
    """Return the mark of a form that charges the draft: of its text, and of the hierarchies that it may name."""
    found = ((path.name, path.read_bytes().hex()) for path in sorted((folder.folder / "hierarchies").glob("*.csv")))
    return _mark(toml_text(draft.tables), *(part for file in found for part in file))


def _mark(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:MARK_DIGITS]


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            return str(value)
