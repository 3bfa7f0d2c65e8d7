"""Which program made each generated section, page and picture of `docs`, of which commit, and whether it is stale.

`docs/generated.json` has for each the digest of the sources that it follows from: of the program and of all that it
imports of this project, without comments and docstrings. Below each stands a line with the commit that it was made of,
and whether its sources have changed since:

    python -m benchmarks.generated_pages            writes these lines anew, and tells what is out of date
    python -m benchmarks.generated_pages --check    tells it too, leaves with 1 where anything is, and writes nothing
    python -m benchmarks.generated_pages --pages build/docs-pages    writes the lines into a copy of the pages
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Generated", "Sources", "generated", "machine", "main", "record", "told", "write_between"]

PROJECT = Path(__file__).resolve().parents[1]
RECORD = "docs/generated.json"
FORMAT = "crowdblend-generated/1"
PACKAGES = ("accounting", "analysis", "deploy", "flows", "mechanisms", "tasks")
OTHERS = ("audit", "benchmarks", "tests")
COMMAND_LINE = "crowdblend.deploy.cli"
"""What a program depends on that runs commands in processes of their own, which no import shows."""
MARK = re.compile(
    r"^<!-- begin of (?P<by>.+) -->\n(?P<content>.*?)^<!-- end of (?P=by) -->\n", re.DOTALL | re.MULTILINE
)
LINE = re.compile(r"^\n?Made by `[^`\n]+` of (?:commit `\w+`|uncommitted sources)[^\n]*\n", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Generated:
    """Something that a program has written.

    Args:
        page: its file below the project, or a pattern of pictures' names.
        by: the section's program, as its marks name it; empty for a whole page and for pictures.
        command: makes it again.
        roots: modules that it follows from.
        files: patterns of other files that it follows from, below the project.
    """

    page: str
    by: str = ""
    command: str
    roots: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in the record."""
        return f"{self.page}: {self.by}" if self.by else self.page


SCREENS = ("accounting/dashboard/**/*", "deploy/documents/**/*")
WHOLE = (
    Generated(page="docs/audit.md", command="make audit", roots=("audit.command", "audit.report.write")),
    Generated(
        page="docs/benchmarks/record-path.md", command="make record-path", roots=("benchmarks.record_path.__main__",)
    ),
    Generated(
        page="docs/benchmarks/local-reports.md",
        command="python -m benchmarks.local_reports --page",
        roots=("benchmarks.local_reports.__main__",),
    ),
    Generated(page="docs/paper/README.md", command="make paper", roots=("benchmarks.paper.reproduce",)),
    Generated(
        page="docs/mechanisms/*.svg",
        command="python -m benchmarks.mechanism_pictures",
        roots=("benchmarks.mechanism_pictures",),
    ),
    Generated(page="docs/dashboard/*.png", command="make screenshots", roots=(), files=("accounting/dashboard/**/*",)),
    Generated(page="docs/documents/*.png", command="make screenshots", roots=(), files=("deploy/documents/**/*",)),
    Generated(
        page="docs/private-report/*.png",
        command="make screenshots",
        roots=("crowdblend.deploy.documents.private_report",),
        files=("deploy/documents/templates/*", "deploy/documents/*.css"),
    ),
    Generated(page="docs/studio/*.png", command="make screenshots", roots=(), files=("deploy/studio/**/*",)),
)
"""Whole pages and pictures."""
LONG = dict.fromkeys(("docs/attacks.md", "docs/choosing.md", "docs/utility.md"), "make utility")
"""Pages whose sections another command makes than their program alone."""


def generated(project: Path = PROJECT) -> list[Generated]:
    """Return everything in `docs` that a program has written: sections by their marks, pages and pictures."""
    found = list(WHOLE)
    for page in sorted((project / "docs").rglob("*.md")):
        for mark in MARK.finditer(page.read_text(encoding="utf-8")):
            if not mark["content"].strip():  # nothing was written yet
                continue
            module = module_of(mark["by"])
            name = page.relative_to(project).as_posix()
            command = LONG.get(name, f"python -m {module}")
            found.append(Generated(page=name, by=mark["by"], command=command, roots=(module,)))
    return found


def module_of(by: str) -> str:
    """Return the module of a program that marks name: by its file, its module, or the command that runs it."""
    named = by.partition(",")[0].removeprefix("python -m ")
    return named.removesuffix(".py").replace("/", ".")


class Sources:
    """The project's modules, and what follows from which of them.

    Args:
        project: folder of the sources.
    """

    def __init__(self, project: Path = PROJECT) -> None:
        self.project = project
        self._imported = cache(self._imports)
        self._said = cache(self._code)

    def digest(self, one: Generated) -> str:
        """Return the digest of the files that something follows from, by their names and what they say."""
        whole = hashlib.sha256()
        for path in self.files(one):
            content = self._said(path) if path.suffix == ".py" else path.read_bytes()
            whole.update(f"{path.relative_to(self.project).as_posix()}\n{len(content)}\n".encode() + content)
        return whole.hexdigest()

    def files(self, one: Generated) -> list[Path]:
        """Return the files that something follows from: modules with all that they import, and others by pattern."""
        left = [path for path in map(self._file, one.roots) if path is not None]
        found: set[Path] = set()
        while left:
            path = left.pop()
            if path not in found:
                found.add(path)
                left += self._imported(path)
        others = {path for pattern in one.files for path in self.project.glob(pattern) if path.is_file()}
        return sorted(path for path in found | others if "__pycache__" not in path.parts)

    def _file(self, module: str) -> Path | None:
        parts = module.split(".")
        if parts[0] == "crowdblend":
            parts = parts[1:]
        if not parts or parts[0] not in PACKAGES + OTHERS:
            return None
        path = self.project.joinpath(*parts)
        known = (path.with_suffix(".py"), path / "__init__.py")
        # Who writes the lines decides no figure.
        return next((file for file in known if file.is_file() and file.name != Path(__file__).name), None)

    def _imports(self, path: Path) -> list[Path]:
        parts = list(path.relative_to(self.project).with_suffix("").parts)
        own = [*(["crowdblend"] if parts[0] in PACKAGES else []), *parts]
        found: set[str] = set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = own[: len(own) - node.level] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # Commands and kinds are loaded by names; programs of the benchmarks run commands in processes.
                if node.value == COMMAND_LINE.removesuffix(".cli"):
                    found.add(COMMAND_LINE)
                elif re.fullmatch(r"crowdblend(\.\w+)+(:\w+)?", node.value):
                    found.add(node.value.partition(":")[0])
                found |= set(re.findall(r"(?:import|from) (crowdblend(?:\.\w+)+)", node.value))  # code as a text
        files = map(self._file, found)
        return [file for file in files if file is not None]

    def _code(self, path: Path) -> bytes:
        """Return a module without docstrings, comments and empty lines."""
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
                first = node.body[0]
                if ast.get_docstring(node, clean=False) is not None and first.end_lineno is not None:
                    lines[first.lineno - 1 : first.end_lineno] = [""] * (first.end_lineno - first.lineno + 1)
        return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#")).encode()


def content_of(one: Generated, project: Path = PROJECT) -> bytes:
    """Return what is there of something that was generated, without the line that tells its commit."""
    if one.page.endswith(".md"):
        text = (project / one.page).read_text(encoding="utf-8")
        if one.by:
            text = next(mark["content"] for mark in MARK.finditer(text) if mark["by"] == one.by)
        return LINE.sub("", text).strip().encode()
    return b"".join(path.read_bytes() for path in sorted(project.glob(one.page)))


def recorded(project: Path = PROJECT) -> dict[str, dict[str, Any]]:
    """Return what is recorded of everything generated, by its name."""
    found: dict[str, dict[str, Any]] = json.loads((project / RECORD).read_text(encoding="utf-8"))["generated"]
    return found


def keep(found: Mapping[str, Mapping[str, Any]], project: Path = PROJECT) -> None:
    """Write the record."""
    whole = {"format": FORMAT, "generated": dict(sorted(found.items()))}
    (project / RECORD).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


@contextmanager
def _alone() -> Iterator[None]:
    """Let other programs that write pages wait, since they read and write the same files."""
    with (PROJECT / RECORD).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def record(page: Path, *, by: str = "", of: str | None = None) -> None:
    """Record that something was made just now, and write the line below it; outside of the project do nothing.

    Args:
        page: its file, or the pattern of its pictures.
        by: of a section: the program that its marks name.
        of: the commit that it was made of, where that isn't the one that is checked out.

    Raises:
        subprocess.CalledProcessError: the repository has no such commit.
    """
    with _alone():
        _record(page, by=by, of=of)


def _record(page: Path, *, by: str = "", of: str | None = None) -> None:
    if not page.resolve().is_relative_to(PROJECT / "docs"):
        return
    name = page.resolve().relative_to(PROJECT).as_posix()
    one = next(one for one in generated() if (one.page, one.by) == (name, by))
    sources = Sources()
    digest, stale = sources.digest(one), False
    if of is None:
        status = _git("status", "--porcelain", "--", *(str(path) for path in sources.files(one)))
        commit, day = _git("rev-parse", "--short=12", "HEAD"), datetime.now(UTC).date().isoformat()
        commit = None if status else commit
    else:
        commit, _, day = str(_git("log", "-1", "--format=%h %cs", "--abbrev=12", of, "--")).partition(" ")
        then = _digest_at(commit, one)
        digest, stale = then, digest != then
    entry = {
        "command": one.command,
        "commit": commit,
        "day": day,
        "sources": digest,
        "content": hashlib.sha256(content_of(one)).hexdigest(),
    }
    keep(recorded() | {one.name: entry})
    write_line(one, told(entry, stale=stale), PROJECT)


def _digest_at(commit: str, one: Generated) -> str:
    """Return the digest of the sources of an earlier commit."""
    packed = subprocess.run(["git", "archive", commit], cwd=PROJECT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="crowdblend-sources-") as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as files:
            files.extractall(folder, filter="data")
        return Sources(Path(folder)).digest(one)


def _git(*words: str) -> str | None:
    """Return what git says of the project, None where there is no repository."""
    done = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def told(entry: Mapping[str, Any], *, stale: bool) -> str:
    """Return the line below something generated: by what, of which commit, and whether it is out of date."""
    commit = "uncommitted sources" if entry["commit"] is None else f"commit `{entry['commit']}`"
    later = "; **its sources have changed since**" if stale else ""
    return f"Made by `{entry['command']}` of {commit}, {entry['day']}{later}."


def write_line(one: Generated, line: str, project: Path) -> None:
    """Write the line below a section or at the end of a page; pictures have none."""
    if not one.page.endswith(".md"):
        return
    page = project / one.page
    text = page.read_text(encoding="utf-8")
    if one.by:
        mark = next(mark for mark in MARK.finditer(text) if mark["by"] == one.by)
        before, after = text[: mark.end()], text[mark.end() :]
        known = LINE.match(after)
        text = f"{before}\n{line}\n{after[known.end() :] if known else after}"
    else:
        text = f"{LINE.sub('', text).rstrip()}\n\n{line}\n"
    page.write_text(text, encoding="utf-8")


def out_of_date(project: Path = PROJECT) -> Iterator[tuple[Generated, dict[str, Any], bool]]:
    """Yield everything generated, its entry, and whether its sources have changed since it was made."""
    sources, entries = Sources(project), recorded(project)
    for one in generated(project):
        entry = entries[one.name]
        yield one, entry, sources.digest(one) != entry["sources"]


def machine() -> str:
    """The machine, and how busy it was: who else computes makes wall times longer."""
    return f"{os.cpu_count()} processors ({platform.machine()}), load average {os.getloadavg()[0]:.1f}"


def write_between(file: Path, lines: Sequence[str], *, by: str) -> None:
    """Put lines between the two marks of a page that name a program, and record what they were made of."""
    with _alone():
        marks = f"<!-- begin of {by} -->", f"<!-- end of {by} -->"
        before, begin, rest = file.read_text(encoding="utf-8").partition(marks[0])
        _, end, after = rest.partition(marks[1])
        if not end:
            raise ValueError(f"{file} has no place for the table: {' … '.join(marks)}")
        file.write_text("\n".join([f"{before}{begin}", *lines, f"{end}{after}"]), encoding="utf-8")
        _record(file, by=by)


def main(argv: list[str] | None = None) -> int:
    """Tell what is out of date, and write the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; leave with 1 where anything is out of date"
    )
    parser.add_argument("--pages", type=Path, default=PROJECT, help="folder with a copy of docs, for the lines")
    parser.add_argument("--made", metavar="NAME", help="record that what has this name in the record was made just now")
    parser.add_argument("--of", metavar="COMMIT", help="with --made: the commit that it was made of")
    asked = parser.parse_args(argv)
    if asked.of and _git("rev-parse", "--verify", f"{asked.of}^{{commit}}") is None:
        parser.error(f"there is no commit {asked.of}")
    if asked.made:
        page, _, by = asked.made.partition(": ")
        record(PROJECT / page, by=by, of=asked.of)
        return 0
    found = list(out_of_date())
    for one, entry, stale in found:
        if not asked.check:
            write_line(one, told(entry, stale=stale), asked.pages)
        if stale:
            print(f"{one.name}: {told(entry, stale=stale)}")
    late = sum(stale for *_, stale in found)
    print(
        f"{len(found) - late} of {len(found)} generated sections, pages and pictures are of the sources that are here"
    )
    return 1 if asked.check and late else 0


if __name__ == "__main__":
    raise SystemExit(main())
