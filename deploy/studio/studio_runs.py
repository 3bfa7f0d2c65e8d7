"""Runs that the studio starts: each a `crowdblend run` of its own, which a studio that ends leaves running."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...flows.approvals import approval_file
from ...flows.paths import StatePaths
from ...flows.unfinished import cost_so_far
from ...mechanisms.kernel.errors import InputRefused
from .draft import NO_FILE_NAME

STAGES = ("start", "charge", "select", "count", "publish", "close")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """How far a run is.

    Args:
        release_id: of the release.
        running: whether its process lives.
        ended: stages that it has come past.
        stage: in which it is, or was when it ended.
        result: as `run --json` prints it; None where there is none.
        refusal: why there is none, in the command line's words; empty while it runs.
        cost: what the ledger says that it has cost, as a sentence.
        in_ledger: the release's stage in the ledger; None where nothing was charged.
    """

    release_id: str
    running: bool
    ended: tuple[str, ...]
    stage: str
    result: Mapping[str, Any] | None
    refusal: str
    cost: str
    in_ledger: Literal["charged", "reading", "published", "abandoned", "unknown"] | None

    @property
    def can_be_finished(self) -> bool:
        """Whether it was charged and has ended without a release."""
        return not self.running and self.in_ledger in ("charged", "reading")

    @property
    def stopping(self) -> str:
        """The key of the text on what it would cost to stop it, by what the ledger has of it."""
        return {None: "cancel_free", "charged": "cancel_reserved", "reading": "cancel_spent"}.get(
            self.in_ledger, "cancel_help"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportState:
    """How far a private report is.

    Args:
        running: whether its process lives.
        written: whether it is there.
        refusal: why it isn't, in the command line's words; empty where none was asked for.
    """

    running: bool
    written: bool
    refusal: str


class Runs:
    """The runs of a studio's folder.

    Args:
        folder: the studio's.
        state_paths: of the ledger and the private store.
    """

    def __init__(self, folder: Path, state_paths: StatePaths) -> None:
        self._folder, self._state_paths = folder, state_paths
        self._children: list[subprocess.Popen[bytes]] = []

    def folder_of(self, release_id: str) -> Path:
        """Return where a run's messages lie."""
        return self._folder / "runs" / release_id

    def spec_of(self, release_id: str) -> Path:
        """Return the specification of a run, as it was when the run began: beside the draft, since it names files."""
        return self._folder / f"{release_id}.toml"

    def begin(self, label: str, spec: str, *, approval: bytes | None = None) -> str:
        """Begin a release of a specification's text, with the approval that it has, and return its id."""
        # A name that no release can have is refused by the run; no path is made of it.
        plain = NO_FILE_NAME.sub("-", label).strip("-.")[:80] or "release"
        release_id = f"{plain}-{secrets.token_hex(6)}"
        self.folder_of(release_id).mkdir(parents=True, mode=0o700)
        self.spec_of(release_id).write_text(spec, encoding="utf-8")
        if approval is not None:
            approval_file(self.spec_of(release_id)).write_bytes(approval)
        self.start(release_id)
        return release_id

    def start(self, release_id: str) -> None:
        """Run a release, or go on with one that was cut off.

        Raises:
            InputRefused: it is running.
        """
        words = ("run", str(self.spec_of(release_id)), "--release-id", release_id, "--json")
        if not self._spawn(self.folder_of(release_id), words):
            raise InputRefused("this release is being run already.", where=release_id)

    def begin_report(self, release_id: str, release: Path) -> None:
        """Begin the private report of a release, which is a look at its records; nothing where there is one.

        PRIVACY: one look is recorded however often the form is sent, and what the command prints has no figure.
        """
        folder = self.folder_of(release_id) / "report"
        folder.mkdir(mode=0o700, exist_ok=True)
        if not self.report_file(release_id).exists():
            self._spawn(folder, ("report", "private", str(self.spec_of(release_id)), str(release)))

    def report_file(self, release_id: str) -> Path:
        """Return where the command line writes a release's private report, which the private store alone has."""
        return self._state_paths.home / "reports" / f"{release_id}.html"

    def report(self, release_id: str) -> ReportState:
        """Return how far a private report is."""
        folder = self.folder_of(release_id) / "report"
        running, written = _is_held(folder), self.report_file(release_id).exists()
        lines = _lines(folder / "stderr")
        return ReportState(
            running=running, written=written, refusal=_last(lines) if lines and not (running or written) else ""
        )

    def _spawn(self, folder: Path, words: tuple[str, ...]) -> bool:
        """Start a command of its own, whose messages and lock lie in a folder; False where the folder has one."""
        lock = (folder / "lock").open("w", encoding="ascii")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        with lock, (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            # PRIVACY: the ledger's URL, which may hold a password, goes by the environment and not by the arguments.
            child = subprocess.Popen(  # noqa: S603 - this interpreter and this package, and no shell is involved
                [sys.executable, "-m", "crowdblend.deploy", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ | self._state_paths.environment,
                pass_fds=(lock.fileno(),),  # held as long as it lives, whoever has started it
                start_new_session=True,
            )
            (folder / "pid").write_text(str(child.pid), encoding="ascii")
        self._children = [one for one in self._children if one.poll() is None] + [child]
        return True

    def cancel(self, release_id: str) -> None:
        """Ask a run to stop, as Ctrl-C does."""
        if _is_held(self.folder_of(release_id)):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int((self.folder_of(release_id) / "pid").read_text(encoding="ascii")), signal.SIGINT)

    def state(self, release_id: str) -> RunState:
        """Return how far a run is."""
        folder, running = self.folder_of(release_id), _is_held(self.folder_of(release_id))
        lines = _lines(folder / "stderr")
        stages = [line.removeprefix("crowdblend: ") for line in lines]
        passed = [stage for stage in STAGES if stage in stages] or ["start"]
        printed: dict[str, Any] = {}
        with suppress(ValueError):
            printed = json.loads("\n".join(_lines(folder / "stdout")))
        in_ledger, cost = cost_so_far(release_id, self._state_paths)
        published = "output" in printed
        refusal = "" if running or published else printed.get("error", {}).get("message", "") or _last(lines)
        return RunState(
            release_id=release_id,
            running=running,
            ended=STAGES if published else STAGES[: STAGES.index(passed[-1])],
            stage=passed[-1],
            result=printed if published else None,
            refusal=refusal,
            cost=cost,
            in_ledger=in_ledger,
        )


def _is_held(folder: Path) -> bool:
    """Return whether the process lives whose messages lie in a folder."""
    place = folder / "lock"
    if not place.exists():
        return False
    with place.open(encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


def _last(lines: list[str]) -> str:
    said = [line.removeprefix("crowdblend: ") for line in lines if line not in STAGES]
    return said[-1] if said else "The run was broken off."
