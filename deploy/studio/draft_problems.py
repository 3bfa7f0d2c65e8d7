"""What the command line would refuse of a draft, each with the page and the field where it is mended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from ...flows.spec import read_spec, spec_faults
from ...mechanisms.kernel.errors import AccountantRefused, Refusal
from ..terminal.explanation import explanation
from .draft import Draft, StudioFolder, toml_text

Found = TypeVar("Found")

PAGE_OF_TABLE = {
    "release": "review", "privacy": "price", "sampling": "price", "suppression": "price", "deletion": "price",
    "histogram": "price", "synthetic": "price",
    "margins": "matters", "blocks": "matters", "columns": "columns",
}  # fmt: skip
PAGE_OF_DATA = {"dataset": "dataset", "person": "columns", "household": "columns", "weight": "columns"}
FIELD_OF_KEY = {  # where a field has another name than the key
    ("release", "name"): "release_name", ("release.metadata", "title"): "title_field", ("margins", "number"): "pairs",
    ("histogram", "epsilon"): "noise_epsilon", ("histogram", "kind"): "histogram_kind",
}  # fmt: skip
SHARES = ("share", "pair_share", "draw_share")
FIELD_OF_WAY = {"values": "text", "hierarchy": "text", "interval": "lower", "dates": "from"}
CHECKED_KEYS = ("hierarchy", "values", "interval", "dates", "codes", "fold_case")
FIELD_OF_ROLE = ("person", "household", "weight")
MOST_REMEMBERED = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that the command line refuses.

    Args:
        text: what, and what to do, as the command line says it.
        page: the path of the page where it is mended.
        field: that page's field; empty where it is about the page as a whole.
        place: of the key in the specification; empty where it is about something else.
    """

    text: str
    page: str
    field: str = ""
    place: str = ""

    @property
    def address(self) -> str:
        """Where it is mended."""
        return f"/{self.page}#field-{self.field}" if self.field else f"/{self.page}"


def problem_of(refusal: Refusal, *, draft: Draft, path: Path, names: tuple[str, ...]) -> Problem:
    """Return a refusal with the place where it is mended.

    Args:
        refusal: of the command line.
        draft: what it is about.
        path: of the file that was read.
        names: of the source's columns.
    """
    # Nothing was read, written or charged by looking at a page: only what is wrong and what to do is said.
    inside = refusal.where.startswith(f"{path}: ")
    place = refusal.where.removeprefix(f"{path}: ")
    head = "" if inside or not refusal.where or refusal.where == str(path) else f"{refusal.where}: "
    text = f"{head}{refusal.what} {refusal.remedy}".strip()
    if not inside:
        return _elsewhere(refusal, text, draft=draft, names=names)
    key = place.partition(", number")[0]
    for name in sorted(draft.columns, key=len, reverse=True):
        begins = (f"[columns.{name}].", f"[columns.{name}.", f"[columns.{name}]", f"[columns].{name}")
        if (begin := next((one for one in begins if key.startswith(one)), None)) is not None:
            rest = key.removeprefix(begin)
            inner = "codes" if rest.startswith("codes") else rest.rpartition("].")[2].strip("[]")
            number = _number(name, names)
            if inner == "weight":
                return Problem(text=text, place=place, page="matters", field=f"weight-{number}")
            return Problem(
                text=text, place=place, page=f"columns/{number}", field=_column_field(inner, draft.columns[name])
            )
    table, _, key = place.removeprefix("[").partition("]")
    key = key.removeprefix(".").partition(",")[0]
    table, key = (table, key) if key else (table.partition(".")[0], table.partition(".")[2])
    top = table.partition(".")[0]
    if top == "data":
        page = "matters" if "weight_classes" in (table, key, *table.split(".")) else PAGE_OF_DATA.get(key, "file")
        if key in FIELD_OF_ROLE and draft.data.get(key) in names:
            key = f"role-{_number(draft.data[key], names)}"
        return Problem(text=text, place=place, page=page, field="weight_bounds" if page == "matters" else key)
    page = "price" if top == "margins" and key in SHARES else PAGE_OF_TABLE.get(top, "review")
    return Problem(text=text, place=place, page=page, field=FIELD_OF_KEY.get((table, key), key))


def _elsewhere(refusal: Refusal, text: str, *, draft: Draft, names: tuple[str, ...]) -> Problem:
    for name, column in draft.columns.items():
        location = column.get("hierarchy")
        if isinstance(location, str) and location in refusal.where:
            return Problem(text=text, page=f"columns/{_number(name, names)}", field="text")
    if isinstance(refusal, AccountantRefused):
        return Problem(text=text, page="dataset", field="dataset")
    output = draft.tables.get("release", {}).get("output")
    if output and Path(str(output)).name in refusal.where:
        return Problem(text=text, page="review", field="output")
    return Problem(text=text, page="file", field="source")


def _column_field(key: str, column: dict[str, Any]) -> str:
    known = (
        "lower", "upper", "widths", "from", "to", "levels", "min_level", "max_level", "margin_level", "level", "codes",
        "fold_case",
    )  # fmt: skip
    if key in known:
        return "day_levels" if key == "levels" and "dates" in column else key
    way = key if key in FIELD_OF_WAY else next((way for way in FIELD_OF_WAY if way in column), "")
    return FIELD_OF_WAY.get(way, "form")


def _number(name: str, names: tuple[str, ...]) -> int:
    return names.index(name) if name in names else 0


def draft_problems(path: Path, draft: Draft, names: tuple[str, ...], *, values_alone: bool) -> list[Problem]:
    """Return what is wrong with a draft as it stands; of many columns it takes a second, and its values alone don't.

    Args:
        path: of the file that has the draft.
        draft: the same, read.
        names: of the source's columns.
        values_alone: look at each value by itself.
    """
    faults = spec_faults(path, values_alone=values_alone) if path.exists() else []
    return [problem_of(fault, draft=draft, path=path, names=names) for fault in faults]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedColumn:
    """What one column's declaration gives.

    Args:
        problems: what is refused of it.
        levels: as `explain --json` has them; empty where it is refused.
    """

    problems: tuple[Problem, ...]
    levels: tuple[dict[str, Any], ...]


def checked_column(studio: StudioFolder, draft: Draft, name: str, names: tuple[str, ...]) -> CheckedColumn:
    """Check one column by itself, as the only one of a release: of a hundred it takes no longer."""
    column = draft.columns[name]
    kept = {key: value for key, value in column.items() if key in CHECKED_KEYS}
    alone = {
        "release": {"name": "check", "output": "none"},
        "data": {"dataset": "check", "source": "none.csv"},
        "sampling": {"rate": 0.5},
        "suppression": {"k": 20},
        "privacy": {"delta": 0.1},
        "columns": {name: kept | {"level": 0}},
    }
    with studio.written(toml_text(alone)) as path:
        if faults := spec_faults(path):
            found = (problem_of(fault, draft=draft, path=path, names=names) for fault in faults)
            return CheckedColumn(problems=tuple(found), levels=())
        facts = explanation(read_spec(path, output=path.parent / "none"))
    return CheckedColumn(problems=(), levels=tuple(facts["columns"][0]["levels"]))


class Remembered(Generic[Found]):
    """Computes in the background what a page can't wait for, one at a time, and remembers the last answers."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="studio")
        self._known: dict[object, Future[Found]] = {}
        self._lock = Lock()

    def known(self, key: object) -> Found | None:
        """Return the answer where it is there already; nothing is computed for it."""
        found = self._known.get(key)
        return found.result() if found is not None and found.done() and found.exception() is None else None

    def get(self, key: object, compute: Callable[[], Found], *, wait: float) -> Found | None:
        """Return the answer; None where it isn't there within some seconds.

        Args:
            key: of all that the answer depends on.
            compute: gives it.
            wait: the seconds.
        """
        with self._lock:
            if key not in self._known:
                self._known[key] = self._pool.submit(compute)
            found = self._known[key]
            while len(self._known) > MOST_REMEMBERED:
                self._known.pop(next(iter(self._known)))
        try:
            return found.result(timeout=wait)
        except TimeoutError:
            return None
        except Exception:  # whatever broke it is raised again, and may be gone when this is asked for once more
            with self._lock:
                self._known.pop(key, None)
            raise
