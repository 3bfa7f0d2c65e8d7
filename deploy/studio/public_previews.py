"""Previews of the draft on public records: each a `crowdblend preview` of its own, of which one at most runs."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from ...flows.paths import StatePaths
from .draft import Draft, StudioFolder, toml_text

PAGE, FACTS = "preview.html", "facts.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicPreview:
    """What the public records foretell.

    Args:
        facts: as `preview --json` prints them; None while they are computed, or where there are none.
        refusal: why there are none, in the command line's words; empty else.
        page: the whole preview as a page; None where there is none.
    """

    facts: Mapping[str, Any] | None
    refusal: str
    page: Path | None


class PublicPreviews:
    """The previews of a studio's folder; what is computed for another draft than the last one is broken off.

    Args:
        folder: the studio's.
        state_paths: which private store tells the private records from public ones.
    """

    def __init__(self, folder: StudioFolder, state_paths: StatePaths) -> None:
        self._folder, self._state_paths = folder, state_paths
        self._running: tuple[str, subprocess.Popen[bytes]] | None = None
        self._lock = Lock()

    def of(self, draft: Draft) -> PublicPreview | None:
        """Return what is foretold of a draft; None where it names no public records."""
        public = str(draft.notes.get("public", ""))
        if not public:
            return None
        name = self._name(draft, public)
        with self._lock:
            self._end(all_but=name)
            folder, found = (None, None) if self._running is not None else self._found(name)
            if self._running is None and found is None:
                self._begin(name, draft, public)
        refusal = str((found or {}).get("error", {}).get("message", ""))
        page = None if refusal or folder is None else folder / PAGE
        return PublicPreview(facts=None if refusal else found, refusal=refusal, page=page)

    @property
    def _place(self) -> Path:
        return self._folder.folder / "previews"

    def _found(self, name: str) -> tuple[Path | None, dict[str, Any] | None]:
        """Return where a preview is and what it has printed; None where it was killed before it did."""
        for folder in self._place.glob(f"{name}-*"):
            with suppress(FileNotFoundError, ValueError):
                return folder, json.loads((folder / FACTS).read_bytes())
        return None, None

    def _name(self, draft: Draft, public: str) -> str:
        """Return a name for all that a preview depends on."""
        stamps = [(path.name, path.stat().st_mtime_ns) for path in (self._folder.folder / "hierarchies").iterdir()]
        if (path := Path(public)).is_file():
            stamps.append((public, path.stat().st_mtime_ns))
        state = repr((toml_text(draft.tables), public, sorted(stamps)))
        return hashlib.sha256(state.encode()).hexdigest()[:16]

    def _end(self, *, all_but: str) -> None:
        """Take note of a preview that has ended, and break one off that is of another draft."""
        if self._running is None:
            return
        name, process = self._running
        if name != all_but:
            process.kill()
            process.wait()
        if process.poll() is not None:
            self._running = None
            if name == all_but and self._found(name)[1] is None:  # not begun over and over again
                broken = {"error": {"message": f"The preview was broken off (exit code {process.returncode})."}}
                for folder in self._place.glob(f"{name}-*"):
                    (folder / FACTS).write_text(json.dumps(broken), encoding="utf-8")

    def _begin(self, name: str, draft: Draft, public: str) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
        # A folder of its own: what a studio that was killed had begun may still be written, to where nobody looks.
        folder = self._place / f"{name}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700, parents=True)
        self._folder.write("preview.toml", toml_text(draft.tables))
        with (folder / FACTS).open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - this interpreter and this package, and no shell is involved
                [
                    *(sys.executable, "-m", "crowdblend.deploy", "preview", str(self._folder.folder / "preview.toml")),
                    *("--public", public, "--html", str(folder / PAGE), "--json"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.DEVNULL,
                env=os.environ | self._state_paths.environment,
            )
        self._running = (name, process)
