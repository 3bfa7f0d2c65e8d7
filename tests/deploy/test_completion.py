"""Completion in real shells, set up as docs/operations/command-line.md says: Tab is pressed at a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations" / "command-line.md"
LONGEST = 60.0
"""Seconds after which a shell that says nothing fails the test; nothing else hangs on the clock."""
AT_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
BEGUN = {
    "bash": (["bash", "--noprofile", "-i"], ".bashrc", "source ~/.crowdblend-complete.bash\n"),
    "zsh": (["zsh", "-i"], ".zshrc", "autoload -U compinit\ncompinit -u\nsource ~/.crowdblend-complete.zsh\n"),
    "fish": (["fish", "--interactive"], ".config/fish/config.fish", "set -g fish_greeting\n"),
}


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, words: list[str], environment: dict[str, str], folder: Path) -> None:
        self.end, own = pty.openpty()
        program = [sys.executable, "-c", AT_A_TERMINAL, *words]
        self.shell = subprocess.Popen(program, stdin=own, stdout=own, stderr=own, env=environment, cwd=folder)
        os.close(own)
        self.said = ""

    def type(self, keys: str) -> None:
        os.write(self.end, keys.encode())

    def wait(self, pattern: str) -> None:
        """Read until something was said; what is before it is forgotten."""
        until = time.monotonic() + LONGEST
        while (found := re.search(pattern, self.said)) is None:
            ready, _, _ = select.select([self.end], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"{pattern!r} was never said, but: {self.said!r}"
            self.said += os.read(self.end, 4096).decode(errors="replace")
        self.said = self.said[found.end() :]

    def close(self) -> None:
        self.shell.kill()
        self.shell.wait()
        os.close(self.end)


def setting_up(shell: str) -> str:
    """The command of the page that writes a shell's script."""
    [line] = re.findall(rf"^_CROWDBLEND_COMPLETE={shell}_source .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return str(line)


@pytest.mark.parametrize(
    "shell", [pytest.param(shell, marks=() if shell == "bash" else pytest.mark.slow) for shell in BEGUN]
)
def test_tab_completes_commands_options_and_names_of_schemas(shell: str, needs, tmp_path: Path) -> None:
    if shell != "bash":
        needs(shutil.which(shell) is not None, f"the shell {shell}", "CROWDBLEND_TEST_SHELLS")
    words, file, text = BEGUN[shell]
    (tmp_path / ".config" / "fish" / "completions").mkdir(parents=True)
    (tmp_path / file).write_text(text, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"HOME": str(tmp_path), "PATH": path, "TERM": "xterm", "LANG": "C.UTF-8", "PS1": "> "}
    subprocess.run(["bash", "-c", setting_up(shell)], env=environment, check=True, cwd=tmp_path)
    terminal = Terminal(words, environment, tmp_path)
    try:
        terminal.type("echo be''gun\r")
        terminal.wait("begun")
        terminal.type("crowdblend do\t")
        terminal.wait("doctor")
        terminal.type("--he\t")
        terminal.wait("--help")
        terminal.type("\r")
        terminal.wait("Usage: crowdblend doctor")
        terminal.type("crowdblend schema report-p\t")
        terminal.wait("report-private")
        terminal.type("\r")
        terminal.wait("urn:crowdblend:report-private:")
    finally:
        terminal.close()
