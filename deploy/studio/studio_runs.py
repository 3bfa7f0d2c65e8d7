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

    def begin(self, label: str, spec: str) -> str:
        """Begin a release of a specification's text, and return its id."""
        # A name that no release can have is refused by the run; no path is made of it.
        plain = NO_FILE_NAME.sub("-", label).strip("-.")[:80] or "release"
        release_id = f"{plain}-{secrets.token_hex(6)}"
        self.folder_of(release_id).mkdir(parents=True, mode=0o700)
        self.spec_of(release_id).write_text(spec, encoding="utf-8")
        self.start(release_id)
        return release_id

    def start(self, release_id: str) -> None:
        """Run a release, or go on with one that was cut off.

        Raises:
            InputRefused: it is running.
        """
        folder = self.folder_of(release_id)
        lock = (folder / "lock").open("w", encoding="ascii")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputRefused("this release is being run already.", where=release_id) from None
        paths = self._state_paths
        places = {"CROWDBLEND_LEDGER": paths.ledger_url, "CROWDBLEND_HOME": str(paths.home)}
        places |= {} if paths.anchor is None else {"CROWDBLEND_ANCHOR": str(paths.anchor)}
        with lock, (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            # PRIVACY: the ledger's URL, which may hold a password, goes by the environment and not by the arguments.
            child = subprocess.Popen(  # noqa: S603 - this interpreter and this package, and no shell is involved
                [
                    sys.executable,
                    *("-m", "crowdblend.deploy", "run", str(self.spec_of(release_id))),
                    *("--release-id", release_id, "--json"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ | places,
                pass_fds=(lock.fileno(),),  # held as long as it lives, whoever has started it
                start_new_session=True,
            )
            (folder / "pid").write_text(str(child.pid), encoding="ascii")
        self._children = [one for one in self._children if one.poll() is None] + [child]

    def cancel(self, release_id: str) -> None:
        """Ask a run to stop, as Ctrl-C does."""
        if self._is_running(release_id):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int((self.folder_of(release_id) / "pid").read_text(encoding="ascii")), signal.SIGINT)

    def state(self, release_id: str) -> RunState:
        """Return how far a run is."""
        folder, running = self.folder_of(release_id), self._is_running(release_id)
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

    def _is_running(self, release_id: str) -> bool:
        place = self.folder_of(release_id) / "lock"
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
