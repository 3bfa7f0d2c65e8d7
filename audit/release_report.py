"""Runs everything that a release is held to, on a clean checkout of one commit, and writes docs/release-report.md.

    python -m audit.release_report                     # what hasn't ended yet on this commit, then the report
    python -m audit.release_report --again fuzzing     # one check anew, and what hasn't ended yet
    python -m audit.release_report --only lint proofs  # some checks
    python -m audit.release_report --list              # all checks, and how long they take
    python -m audit.release_report --verify            # whether all results count for what is checked out

The checks and their order are in `audit/release_checks.toml`. Those that need one processor run side by side. Checkout,
logs and results lie below `build/release-report/COMMIT`. It leaves with 1 where a check isn't green: it failed, it has
skipped or expectedly failed tests, or it wasn't run.

The report that is committed counts, also on another machine. Where what is checked out differs from its commit in
`docs` alone, its commit is gone on with. On another commit, what changed since a check ran is looked up: its result
still counts where that is nothing that it reads, else it runs anew. A check reads all files but documents and those
that its `apart` names. Each row of the report names the commit on which its check ran, and `--verify` looks whether all
of them still count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from .report.words import in_short

__all__ = ["Check", "Ended", "checks", "main", "page", "stopped_by_signals"]

PROJECT = Path(__file__).resolve().parents[1]
CHECKS = Path(__file__).with_name("release_checks.toml")
FORMAT = "crowdblend-release-report/1"
GREEN, RED, INCOMPLETE, NOT_RUN = "green", "red", "incomplete", "not run"
SUMMARY = re.compile(r"^(?:=+ )?((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.MULTILINE)
COUNT = re.compile(r"(\d+) (passed|failed|error|skipped|xfailed|xpassed)")
TOLD = re.compile(r"^(?:FAILED|ERROR|XFAIL|SKIPPED) .*$", re.MULTILINE)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MOST_TOLD = 20
SECONDS_BETWEEN = 30.0
LEFT_OUT = "It was left out."
OF_THE_REPORT = (
    ":(exclude)docs",
    ":(exclude,glob)**/README.md",
    ":(exclude)CHANGELOG.md",
    ":(exclude)tests/vectors/versions",
)
"""What the commit of a report may change: documents, and what the version keeps for later ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """Something that a release is held to.

    Args:
        name: in a word or two.
        claim: what holds if it is green, in a sentence.
        command: what the shell runs in the checkout; it ends with 0 where all is well.
        minutes: how long it takes, about.
        results: the part of `audit-results` that it leaves; empty for none.
        data: variables that must be set, which name what the project doesn't ship.
        beside: whether it may run beside others: it needs one processor, and no time that it takes is judged.
        apart: patterns of files that it doesn't read, besides documents; their change leaves its result as it is.
    """

    name: str
    claim: str
    command: str
    minutes: float
    results: str = ""
    data: Sequence[str] = ()
    beside: bool = False
    apart: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """Tell how a check ended.

    Args:
        outcome: green, red, incomplete (tests were skipped or expected to fail), or not run.
        figures: what it measured, in words.
        seconds: how long it took.
        day: on which it ended.
        told: which tests failed or were skipped, or why it wasn't run; lines.
        commit: on which it was run; empty where it wasn't.
        left: its part of `audit-results`, which later checks read.
    """

    outcome: str
    figures: str = ""
    seconds: float = 0.0
    day: str = ""
    told: Sequence[str] = field(default_factory=tuple)
    commit: str = ""
    left: Mapping[str, Any] | None = None


def checks(file: Path = CHECKS) -> list[Check]:
    """Return all checks in their order.

    Raises:
        ValueError: two have one name.
    """
    found = [Check(**one) for one in tomllib.loads(file.read_text(encoding="utf-8"))["check"]]
    if len({one.name for one in found}) < len(found):
        raise ValueError(f"{file}: two checks have one name")
    return found


class Runs:
    """The runs of all checks on one commit.

    Args:
        project: a repository.
        commit: the commit that is checked out into a folder of its own.
        out: for progress.
        reported: how checks ended by the report in the project's documents, as far as that counts for this commit.
    """

    def __init__(self, project: Path, commit: str, *, out: TextIO, reported: Mapping[str, Ended] | None = None) -> None:
        self.project, self.commit, self.out, self.reported = project, commit, out, reported or {}
        self.folder = project / "build" / "release-report" / commit[:12]
        self.checkout = self.folder / "checkout"
        self._state = self.folder / "ended.json"
        self._one_writes, self._running, self._stopped = threading.Lock(), set[int](), False

    def prepare(self) -> None:
        """Check the commit out, unless that was done before."""
        if self._state.exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._tell(f"checking out {self.commit[:12]} into {self.checkout}")
        words = ["git", "clone", "--quiet", "--no-hardlinks", "--no-checkout", str(self.project), str(self.checkout)]
        subprocess.run(words, check=True)
        subprocess.run(["git", "checkout", "--quiet", "--detach", self.commit], cwd=self.checkout, check=True)
        if self.reported:  # what those checks wrote stands in later documents, and others add to it
            head = _head_of(self.project)
            subprocess.run(["git", "checkout", "--quiet", head, "--", "docs"], cwd=self.checkout, check=True)
        for one in self.reported.values():
            if one.left is not None:
                part = self._part(one.left["part"])
                part.parent.mkdir(exist_ok=True)
                part.write_text(json.dumps(one.left, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        self._write(self.reported)

    def ended(self) -> dict[str, Ended]:
        """Return how the checks that have ended on this commit did so."""
        if not self._state.exists():
            return {}
        told = json.loads(self._state.read_text(encoding="utf-8"))
        return {name: Ended(**one) for name, one in told.items()}

    def run_all(self, chosen: Sequence[tuple[str, Check]]) -> None:
        """Run checks in their order, those that may run beside others as many at once as there are processors.

        Args:
            chosen: each check with its place among all, as `3/27`.
        """
        for beside, some in groupby(chosen, key=lambda one: one[1].beside):
            pool = ThreadPoolExecutor(max_workers=(os.cpu_count() or 1) if beside else 1)
            # The longest go first of those beside others, so that no processor waits long for the last.
            in_order = sorted(some, key=lambda one: -one[1].minutes if one[1].beside else 0)
            try:
                for ended in [pool.submit(self._run_one, place, check) for place, check in in_order]:
                    while not ended.done():  # a signal that another thread takes doesn't end a wait
                        wait([ended], timeout=1)
                    ended.result()
            except BaseException:  # an interrupt too: nothing goes on without who waits for it
                self._stopped = True
                for group in tuple(self._running):
                    with suppress(ProcessLookupError):  # it has just ended by itself
                        os.killpg(group, signal.SIGTERM)
                raise
            finally:
                pool.shutdown(cancel_futures=True)

    def _run_one(self, place: str, check: Check) -> None:
        """Run a check to its end, with its output in a log and a line of progress now and then."""
        if missing := [name for name in check.data if not os.environ.get(name)]:
            ended = Ended(outcome=NOT_RUN, told=(f"{', '.join(missing)} isn't set.",))
        else:
            self._tell(f"[{place}] {check.name}, about {check.minutes:g} min: {check.command.strip()}")
            begun, before = time.monotonic(), self._written(check)
            log = self.folder / f"{check.name.replace(' ', '-')}.log"
            code = self._run(check, log, begun=begun)
            if self._stopped:
                return
            ended = self._judged(check, code, log, seconds=time.monotonic() - begun, before=before)
        with self._one_writes:
            self._write({**self.ended(), check.name: ended})
        self._tell(f"[{place}] {check.name}: {ended.outcome}{': ' if ended.figures else ''}{ended.figures}")

    def _run(self, check: Check, log: Path, *, begun: float) -> int:
        with log.open("wb") as said:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", check.command],
                cwd=self.checkout,
                env=_environment(),
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process.pid)
            if self._stopped:  # between its start and now
                os.killpg(process.pid, signal.SIGTERM)
            try:
                while True:
                    try:
                        return process.wait(timeout=SECONDS_BETWEEN)
                    except subprocess.TimeoutExpired:
                        minutes = (time.monotonic() - begun) / 60
                        self._tell(f"    {check.name}, {minutes:.1f} min: {_last_line(log)}")
            finally:
                self._running.discard(process.pid)

    def _judged(self, check: Check, code: int, log: Path, *, seconds: float, before: int) -> Ended:
        said = COLOURS.sub("", log.read_text(encoding="utf-8", errors="replace"))
        counts = dict.fromkeys(("passed", "failed", "error", "skipped", "xfailed", "xpassed"), 0)
        for summary in SUMMARY.findall(said):
            for number, what in COUNT.findall(summary.replace("errors", "error")):
                counts[what] += int(number)
        figures = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
        left = None
        if self._written(check) > before:  # not what an earlier check left, to which this one adds
            left = json.loads(self._part(check.results).read_text(encoding="utf-8"))
            figures = ", ".join(filter(None, (figures, in_short(left))))
        incomplete = counts["skipped"] + counts["xfailed"] + counts["xpassed"]
        outcome = RED if code or counts["failed"] + counts["error"] else INCOMPLETE if incomplete else GREEN
        told = [_without_places(line, self.checkout) for line in TOLD.findall(said)]
        if code and not told:
            told = [f"It ended with {code}: {_without_places(_last_line(log), self.checkout)}"]
        return Ended(
            outcome=outcome,
            figures=figures,
            seconds=round(seconds, 1),
            day=datetime.now(UTC).date().isoformat(),
            told=tuple(told[:MOST_TOLD]),
            commit=self.commit,
            left=left,
        )

    def changed_documents(self) -> list[str]:
        """Return the files below `docs` that the checks have written."""
        words = ["git", "status", "--porcelain", "--no-renames", "--untracked-files=all", "--", "docs"]
        told = subprocess.run(words, cwd=self.checkout, capture_output=True, text=True, check=True)
        return [line[3:] for line in told.stdout.splitlines() if (self.checkout / line[3:]).is_file()]

    def _written(self, check: Check) -> int:
        """Return when a check's part of the results was written, in nanoseconds; 0 where it isn't there."""
        part = self._part(check.results)
        return part.stat().st_mtime_ns if check.results and part.exists() else 0

    def _part(self, name: str) -> Path:
        return self.checkout / "audit-results" / f"{name}.json"

    def _tell(self, line: str) -> None:
        print(f"{datetime.now(UTC):%H:%M:%S} {line}", file=self.out, flush=True)

    def _write(self, ended: Mapping[str, Ended]) -> None:
        fresh = self._state.with_suffix(".new")
        fresh.write_text(json.dumps({name: asdict(one) for name, one in ended.items()}, indent=1), encoding="utf-8")
        fresh.replace(self._state)


def _environment() -> dict[str, str]:
    """The variables of a check: those of this process, without what names its own environment."""
    left = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    return {name: value for name, value in os.environ.items() if name not in left}


def _last_line(log: Path) -> str:
    lines = COLOURS.sub("", log.read_bytes()[-2000:].decode(errors="replace")).strip().splitlines()
    return lines[-1][:160] if lines else "no output yet"


def _without_places(line: str, checkout: Path) -> str:
    """A line without the folders of this machine."""
    return line.replace(f"{checkout}/", "").replace(str(Path.home()), "~")[:300]


def report_of(runs: Runs, found: Sequence[Check], *, others: Sequence[str] = ()) -> dict[str, Any]:
    """Return the report as JSON.

    Args:
        others: names of checks that were left out on purpose.
    """
    ended = runs.ended()
    rows = []
    for check in found:
        why = LEFT_OUT if check.name in others else "It hasn't been run on this commit."
        one = ended.get(check.name, Ended(outcome=NOT_RUN, told=(why,)))
        rows.append({"name": check.name, "claim": check.claim, "command": check.command.strip(), **asdict(one)})
    return {
        "format": FORMAT,
        "version": version("crowdblend"),
        "commit": runs.commit,
        "machine": f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}",
        "whole": all(row["outcome"] == GREEN for row in rows),
        "checks": rows,
    }


def page(report: Mapping[str, Any]) -> str:
    """Return the report as a page."""
    return "\n".join([*_head(report), *_table(report), *_rest(report)]) + "\n"


def _head(report: Mapping[str, Any]) -> Iterator[str]:
    rows, commit = report["checks"], report["commit"][:12]
    hours = sum(row["seconds"] for row in rows) / 3600
    late = [f"{sum(row['outcome'] == outcome for row in rows)} {outcome}" for outcome in (RED, INCOMPLETE, NOT_RUN)]
    verdict = (
        "**Whole**: every check is green."
        if report["whole"]
        else f"**Not whole**: of {len(rows)} checks {', '.join(one for one in late if one[:2] != '0 ')}."
    )
    yield "# Release report"
    yield ""
    yield f"Everything that version {report['version']} is held to, run on a clean checkout of commit `{commit}` by"
    yield f"`make release-report`. {verdict}"
    yield ""
    yield f"- The times of the checks add up to {hours:.1f} hours on {report['machine']}; some ran side by side."
    yield "- What was measured by a check that adds to the results of an earlier one, as the fuzzers do, is of both."
    yield "- A check is incomplete where tests were skipped or expected to fail."
    yield "- A result of an earlier commit counts: no file that its check reads has changed since. A check reads all"
    yield "  files but documents and those that `apart` names in `audit/release_checks.toml`."
    yield "- This page belongs to a later commit: `python -m audit.release_report --verify` looks whether all results"
    yield "  count for what is checked out."
    yield ""


def _table(report: Mapping[str, Any]) -> Iterator[str]:
    yield "| claim | command | result | measured | minutes | commit |"
    yield "|---|---|---|---|---|---|"
    for row in report["checks"]:
        lines = row["command"].splitlines()
        [first, *more] = [line for line in lines if not line.startswith("mkdir")] or lines
        command = f"`{first}`".replace("|", "\\|") + (f" and {len(more)} more" if more else "")
        result = row["outcome"] if row["outcome"] == GREEN else f"**{row['outcome']}**"
        minutes = f"{row['seconds'] / 60:.1f}" if row["seconds"] else ""
        commit = f"`{row['commit'][:12]}`" if row["commit"] else ""
        yield f"| {' | '.join((row['claim'], command, result, row['figures'], minutes, commit))} |"


def _rest(report: Mapping[str, Any]) -> Iterator[str]:
    for row in report["checks"]:
        if row["told"] and list(row["told"]) != [LEFT_OUT]:
            yield ""
            yield f"## {row['name'].capitalize()}: {row['outcome']}"
            yield ""
            yield from (f"- `{line.replace('`', chr(39))}`" for line in row["told"])


def differs_beside_documents(project: Path, *commits: str, apart: Sequence[str] = ()) -> list[str]:
    """Return the files in which two commits differ, or the work tree and one, but for documents and what versions keep.

    Args:
        project: a repository.
        commits: one or two.
        apart: patterns of further files that don't matter.

    Raises:
        subprocess.CalledProcessError: a commit isn't known here.
    """
    told = subprocess.run(
        [
            "git",
            "diff",
            "--name-only",
            *commits,
            "--",
            ".",
            *OF_THE_REPORT,
            *(f":(exclude,glob){one}" for one in apart),
        ],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.split()


def main(argv: list[str] | None = None, *, project: Path = PROJECT, out: TextIO = sys.stdout) -> int:
    """Run what hasn't ended, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=Path, default=CHECKS, help="another list of checks")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="some checks; the report says that others were left out"
    )
    parser.add_argument("--again", nargs="+", metavar="NAME", default=[], help="run these anew")
    parser.add_argument("--list", action="store_true", help="show the checks and how long they take")
    parser.add_argument("--verify", action="store_true", help="look whether all results count for what is checked out")
    asked = parser.parse_args(argv)
    found = checks(asked.checks)
    names = [check.name for check in found]
    if unknown := {*(asked.only or ()), *asked.again} - set(names):
        parser.error(f"there is no check {', '.join(sorted(unknown))}")
    if asked.list:
        for check in found:
            print(f"{check.name:24}{check.minutes:6g} min  {check.claim}", file=out)
        print(f"{sum(check.minutes for check in found) / 60:.1f} hours in all", file=out)
        return 0
    if asked.verify:
        return _verify(project, found, out=out)
    head = _head_of(project)
    commit, reported = _gone_on_with(project, head, found)
    runs = Runs(project, commit, out=out, reported=reported)
    if dirty := differs_beside_documents(project, "HEAD"):
        print(f"Not in the commit, and so not checked: {', '.join(dirty)}", file=out)
    runs.prepare()
    ended = {name for name, one in runs.ended().items() if one.outcome != NOT_RUN}
    chosen = {*(asked.only or names)} - ended | {*asked.again}
    runs.run_all([(f"{number}/{len(found)}", one) for number, one in enumerate(found, 1) if one.name in chosen])
    report = report_of(runs, found, others=[name for name in names if asked.only and name not in asked.only])
    if _head_of(project) != head:
        print("Another commit is checked out by now: nothing was written. Check this one out to go on.", file=out)
        return 1
    for name in runs.changed_documents():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(runs.checkout / name, project / name)
        print(f"written by the checks: {name}", file=out)
    docs = project / "docs"
    (docs / "release-report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (docs / "release-report.md").write_text(page(report), encoding="utf-8")
    print(f"{'whole' if report['whole'] else 'not whole'}: {docs / 'release-report.md'}", file=out)
    return 0 if report["whole"] else 1


def _gone_on_with(project: Path, head: str, found: Sequence[Check]) -> tuple[str, dict[str, Ended]]:
    """Return the commit to check, and what counts for it of the report that is there: how checks have ended."""
    file = project / "docs" / "release-report.json"
    if not file.is_file():
        return head, {}
    report = json.loads(file.read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in report["checks"]}
    counting = {check.name: rows[check.name] for check in found if _counts(project, head, check, rows.get(check.name))}
    names = Ended.__dataclass_fields__.keys()
    ended = {name: Ended(**{one: row[one] for one in names}) for name, row in counting.items()}
    return (head if _differing(project, report["commit"], head) else report["commit"]), ended


def _counts(project: Path, head: str, check: Check, row: Mapping[str, Any] | None) -> bool:
    """Tell whether a report's row is of this check, and still of the commit that is checked out."""
    if row is None or row["outcome"] == NOT_RUN or row["command"] != check.command.strip():
        return False
    return not _differing(project, row["commit"], head, apart=check.apart)


def _differing(project: Path, commit: str, *later: str, apart: Sequence[str] = ()) -> list[str]:
    """Return the files in which a commit, which may be unknown here, differs from a later one or the work tree."""
    try:
        return differs_beside_documents(project, commit, *later, apart=apart)
    except subprocess.CalledProcessError:
        return [f"{commit[:12]}, which isn't known here,"]


def _head_of(project: Path) -> str:
    """The commit that is checked out."""
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project, capture_output=True, text=True, check=True)
    return told.stdout.strip()


def _verify(project: Path, found: Sequence[Check], *, out: TextIO) -> int:
    """Tell why the report that is there isn't a whole one of what is checked out; 0 where it is."""
    report = json.loads((project / "docs" / "release-report.json").read_text(encoding="utf-8"))
    rows, faults = {row["name"]: row for row in report["checks"]}, []
    for check in found:
        row = rows.get(check.name)
        if row is None or row["command"] != check.command.strip():
            faults.append(f"{check.name}: the report has no such check")
        elif row["outcome"] != GREEN:
            faults.append(f"{check.name}: {row['outcome']}")
        else:
            differing = _differing(project, row["commit"], apart=check.apart)
            faults += [f"{check.name}: {name} differs from {row['commit'][:12]}" for name in differing]
    for fault in faults:
        print(fault, file=out)
    return 1 if faults else 0


def stopped_by_signals() -> None:
    """Let checks end with this program where it is asked to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


if __name__ == "__main__":
    stopped_by_signals()
    sys.exit(main())
