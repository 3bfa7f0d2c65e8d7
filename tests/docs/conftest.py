"""A newcomer: an empty folder and home, the installed command, and pages whose blocks are pasted in their order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^( *)```(sh|toml|python)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
QUIET = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}


@dataclass(frozen=True)
class Block:
    """What a page says to paste.

    Args:
        language: "sh", "toml" or "python".
        text: without its indentation.
    """

    language: str
    text: str


def blocks_of(page: str, heading: str) -> list[Block]:
    """The blocks below a heading, up to the next heading of any depth."""
    text = (PROJECT / page).read_text(encoding="utf-8")
    section = text.partition(f"\n{heading}\n")[2]
    assert section, f"{page} has no heading {heading!r}"
    section = re.split(r"^##+ ", section, maxsplit=1, flags=re.MULTILINE)[0]
    return [Block(language, textwrap.dedent(text)) for _, language, text in BLOCK.findall(section)]


@dataclass(frozen=True)
class Newcomer:
    """Somebody with a folder, a home, and the pages."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CROWDBLEND_", "PREFECT_", "DASK_", "XDG_"))
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        return kept | QUIET | {"HOME": str(self.folder / "home"), "PATH": path}

    def paste(self, script: str) -> str:
        """Run a block as a shell that stops at the first command that fails; what it said."""
        told = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert told.returncode == 0, f"{script}\n{told.stdout}\n{told.stderr}"
        return told.stdout

    @contextmanager
    def staying(self, script: str, *, until: Callable[[], bool], seconds: float) -> Iterator[None]:
        """Run a command that stays, wait until something has happened, and press Ctrl-C at the end."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {script.strip()}"], cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + seconds
        try:
            while not until():
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < deadline, f"{script} did nothing in {seconds} seconds"
                time.sleep(0.5)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=600)


@pytest.fixture(scope="session")
def blocks() -> Callable[[str, str], list[Block]]:
    return blocks_of


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    (tmp_path / "home").mkdir()
    return Newcomer(tmp_path)
