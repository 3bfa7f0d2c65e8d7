"""What a page was made of, as a mark in its form: where something else is there by then, the form isn't taken."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from .draft import Draft, StudioFolder, toml_text

FIELD = "mark"
DIGITS = 32


def columns_mark(draft: Draft, names: Iterable[str]) -> str:
    """Return the mark of a form whose fields are numbered as the file's columns are."""
    return _mark(str(draft.data.get("source", "")), *names)


def draft_mark(folder: StudioFolder, draft: Draft) -> str:
    """Return the mark of a form that charges the draft: of its text, and of the hierarchies that it may name."""
    found = ((path.name, path.read_bytes().hex()) for path in sorted((folder.folder / "hierarchies").glob("*.csv")))
    return _mark(toml_text(draft.tables), *(part for file in found for part in file))


def _mark(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGITS]
