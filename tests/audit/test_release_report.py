"""The release report: every check on one commit, nothing that isn't green passed over, and what it was made of."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest

from audit.mutation.run import LOOKING_ON, TEST_FOLDERS
from audit.release_report import CHECKS, Check, Runs, checks, main, page, report_of
from benchmarks.generated_pages import Generated, Sources, generated

PROJECT = Path(__file__).resolve().parents[2]
REPORT = PROJECT / "docs" / "release-report.json"
IDENTITY = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
LIST = """
[[check]]
name = "first"
claim = "One is written."
command = "echo 1 >> {tries} && echo made > docs/made.md"
minutes = 1

[[check]]
name = "tests"
claim = "Tests pass."
command = "{python} -m pytest -q -ra -p no:cacheprovider tests_of_it.py"
minutes = 1

[[check]]
name = "other data"
claim = "It needs what isn't there."
command = "true"
data = ["CROWDBLEND_NOT_SET"]
minutes = 1
"""
TESTS = "import pytest\n\ndef test_one():\n    pass\n"
SKIPPED = TESTS + "\ndef test_two():\n    pytest.skip('no server here')\n"
EXPECTED = TESTS + "\n@pytest.mark.xfail\ndef test_two():\n    assert False\n"
FAILED = TESTS + "\ndef test_two():\n    assert False\n"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a list of checks, and tests that one of them runs."""
    folder = tmp_path / "repository"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "README.md").write_text("# Documents\n", encoding="utf-8")
    text = LIST.format(tries=tmp_path / "tries", python=sys.executable)
    (folder / "checks.toml").write_text(text, encoding="utf-8")
    (folder / ".gitignore").write_text("build/\n__pycache__/\n", encoding="utf-8")
    git(folder, "init", "--quiet")
    commit(folder, TESTS)
    return folder


def commit(folder: Path, tests: str) -> str:
    (folder / "tests_of_it.py").write_text(tests, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "Tests")
    return git(folder, "rev-parse", "HEAD")


def run(folder: Path, *words: str) -> tuple[int, dict, str]:
    """Exit code, the report, and what was said."""
    out = io.StringIO()
    code = main(["--checks", str(folder / "checks.toml"), *words], project=folder, out=out)
    return code, json.loads((folder / "docs" / "release-report.json").read_text(encoding="utf-8")), out.getvalue()


def outcomes(report: dict) -> dict[str, str]:
    return {row["name"]: row["outcome"] for row in report["checks"]}


def test_it_is_whole_where_all_is_green_and_goes_on_where_it_stopped(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = repository.parent / "tries"
    head = git(repository, "rev-parse", "HEAD")
    code, report, said = run(repository)
    assert (code, report["whole"], report["commit"]) == (1, False, head)
    assert outcomes(report) == {"first": "green", "tests": "green", "other data": "not run"}
    assert "checking out" in said.splitlines()[0]
    assert "written by the checks: docs/made.md" in said
    assert (repository / "docs" / "made.md").read_text(encoding="utf-8") == "made\n"
    text = (repository / "docs" / "release-report.md").read_text(encoding="utf-8")
    assert text == page(report)
    assert "**Not whole**: of 3 checks 1 not run." in text
    assert "CROWDBLEND_NOT_SET isn't set." in text

    monkeypatch.setenv("CROWDBLEND_NOT_SET", "something")
    code, report, said = run(repository)
    assert (code, report["whole"]) == (0, True)
    assert report["checks"][1]["figures"] == "1 passed"
    assert tries.read_text(encoding="utf-8") == "1\n"
    run(repository, "--again", "first")
    assert tries.read_text(encoding="utf-8") == "1\n1\n"

    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "-m", "The report")
    out = io.StringIO()
    words = ["--checks", str(repository / "checks.toml"), "--verify"]
    assert main(words, project=repository, out=out) == 0
    for name in ("README.md", "CHANGELOG.md", "parts/README.md", "docs/more.md"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("a document\n", encoding="utf-8")
    commit(repository, TESTS)
    assert main(words, project=repository, out=out) == 0
    commit(repository, TESTS + "# changed\n")
    assert main(words, project=repository, out=out) == 1
    assert out.getvalue() == "".join(
        f"{name}: tests_of_it.py differs from {head[:12]}\n" for name in ("first", "tests", "other data")
    )
    _, report, _ = run(repository)
    assert report["commit"] != head
    assert tries.read_text(encoding="utf-8") == "1\n1\n1\n"


def test_a_result_counts_on_a_later_commit_where_nothing_that_its_check_reads_has_changed(repository: Path) -> None:
    tries, out = repository.parent / "tries", io.StringIO()
    words = ["--checks", str(repository / "checks.toml"), "--verify"]
    text = (repository / "checks.toml").read_text(encoding="utf-8")
    text = text.replace('docs/made.md"\n', 'docs/made.md"\napart = ["tests_*.py", "parts/**"]\n')
    text = text.replace('data = ["CROWDBLEND_NOT_SET"]\n', "")
    (repository / "checks.toml").write_text(text, encoding="utf-8")
    first = commit(repository, TESTS)
    run(repository)
    second = commit(repository, TESTS + "# changed\n")  # and the report
    _, report, _ = run(repository)
    assert [row["commit"] for row in report["checks"]] == [first, second, second]
    assert f"| `{first[:12]}` |\n" in page(report)

    (repository / "parts" / "of").mkdir(parents=True)
    (repository / "parts" / "of" / "it.txt").write_text("something\n", encoding="utf-8")
    commit(repository, TESTS + "# changed\n")
    assert main(words, project=repository, out=out) == 1
    told = [f"{name}: parts/of/it.txt differs from {second[:12]}\n" for name in ("tests", "other data")]
    assert out.getvalue() == "".join(told)
    assert tries.read_text(encoding="utf-8") == "1\n"
    (repository / "else.txt").write_text("something\n", encoding="utf-8")
    commit(repository, TESTS)
    run(repository)
    assert tries.read_text(encoding="utf-8") == "1\n1\n"


def test_a_result_of_another_command_doesnt_count(repository: Path) -> None:
    run(repository)
    text = (repository / "checks.toml").read_text(encoding="utf-8")
    (repository / "checks.toml").write_text(text.replace("echo 1", "echo 2"), encoding="utf-8")
    out = io.StringIO()
    main(["--checks", str(repository / "checks.toml"), "--verify"], project=repository, out=out)
    assert "first: the report has no such check" in out.getvalue()
    git(repository, "commit", "--quiet", "-a", "-m", "Another command, and the report")
    run(repository)
    assert (repository.parent / "tries").read_text(encoding="utf-8") == "1\n2\n"


def test_what_a_check_leaves_for_others_is_there_on_another_machine(repository: Path) -> None:
    left = {"part": "coverage", "outcome": "passed", "seconds": 1, "findings": []}
    found = repository.parent / "found.json"
    found.write_text(json.dumps(left), encoding="utf-8")
    text = (repository / "checks.toml").read_text(encoding="utf-8")
    makes = f'docs/made.md && mkdir -p audit-results && cp {found} audit-results/coverage.json"\nresults = "coverage"\n'
    (repository / "checks.toml").write_text(text.replace('docs/made.md"\n', makes), encoding="utf-8")
    with (repository / ".gitignore").open("a", encoding="utf-8") as ignored:
        ignored.write("audit-results/\n")
    commit(repository, TESTS)
    _, report, _ = run(repository, "--only", "first")
    assert report["checks"][0]["left"] == left
    commit(repository, TESTS)
    elsewhere = repository.parent / "elsewhere"
    git(repository.parent, "clone", "--quiet", str(repository), str(elsewhere))
    run(elsewhere)
    [part] = elsewhere.glob("build/release-report/*/checkout/audit-results/coverage.json")
    assert json.loads(part.read_text(encoding="utf-8")) == left


def test_a_check_adds_to_what_an_earlier_one_left(repository: Path) -> None:
    first = {"part": "coverage", "outcome": "passed", "seconds": 1, "findings": []}
    (repository.parent / "found.json").write_text(json.dumps(first), encoding="utf-8")
    part, found = "audit-results/coverage.json", repository.parent / "found.json"
    (repository / "checks.toml").write_text(
        dedent(f"""
            [[check]]
            name = "first"
            claim = "It leaves something."
            command = "mkdir -p audit-results && cp {found} {part}"
            results = "coverage"
            minutes = 1

            [[check]]
            name = "second"
            claim = "It adds to it."
            command = "sed -i s/1/2/ {part}"
            results = "coverage"
            minutes = 1

            [[check]]
            name = "third"
            claim = "It fails before it leaves anything."
            command = "false"
            results = "coverage"
            minutes = 1
            """),
        encoding="utf-8",
    )
    commit(repository, TESTS)
    _, report, _ = run(repository)
    assert [row["left"] for row in report["checks"]] == [first, first | {"seconds": 2}, None]


def test_another_machine_goes_on_with_the_commit_of_the_report(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = repository.parent / "tries"
    head = git(repository, "rev-parse", "HEAD")
    run(repository)
    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "-m", "The report so far")
    elsewhere = repository.parent / "elsewhere"
    git(repository.parent, "clone", "--quiet", str(repository), str(elsewhere))
    monkeypatch.setenv("CROWDBLEND_NOT_SET", "something")
    code, report, _ = run(elsewhere)
    assert (code, report["whole"], report["commit"]) == (0, True, head)
    assert tries.read_text(encoding="utf-8") == "1\n", "what had ended was not run again"
    assert (elsewhere / "docs" / "made.md").read_text(encoding="utf-8") == "made\n"


BESIDE = """
[[check]]
name = "one"
claim = "It waits for the other."
command = "touch {folder}/one; until [ -e {folder}/two ]; do sleep 0.1; done"
minutes = 1
beside = true

[[check]]
name = "two"
claim = "It waits for the other too."
command = "touch {folder}/two; until [ -e {folder}/one ]; do sleep 0.1; done"
minutes = 1
beside = true

[[check]]
name = "alone"
claim = "The others have ended."
command = "test -e {folder}/one -a -e {folder}/two"
minutes = 1
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="with one processor none runs beside another")
def test_checks_that_need_one_processor_run_side_by_side(repository: Path) -> None:
    text = BESIDE.format(folder=repository.parent)
    (repository / "checks.toml").write_text(text, encoding="utf-8")
    commit(repository, TESTS)
    code, report, _ = run(repository)
    assert (code, outcomes(report)) == (0, dict.fromkeys(("one", "two", "alone"), "green"))


@pytest.mark.parametrize(
    ("tests", "outcome", "figures", "told"),
    [
        (SKIPPED, "incomplete", "1 passed, 1 skipped", "no server here"),
        (EXPECTED, "incomplete", "1 passed, 1 xfailed", "XFAIL"),
        (FAILED, "red", "1 passed, 1 failed", "FAILED tests_of_it.py::test_two"),
        ("import nothing_of_this_name\n", "red", "1 error", "ERROR tests_of_it.py"),
    ],
)
def test_what_isnt_green_is_shown_and_ends_with_1(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tests: str, outcome: str, figures: str, told: str
) -> None:
    monkeypatch.setenv("CROWDBLEND_NOT_SET", "something")
    commit(repository, tests)
    code, report, _ = run(repository)
    row = report["checks"][1]
    assert (code, report["whole"]) == (1, False)
    assert (row["outcome"], row["figures"]) == (outcome, figures)
    assert told in "\n".join(row["told"])
    assert str(repository) not in json.dumps(report) + page(report)
    assert f"**{outcome}**" in page(report)


def test_what_is_left_out_on_purpose_is_not_run(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDBLEND_NOT_SET", "something")
    code, report, _ = run(repository, "--only", "tests")
    assert code == 1
    assert outcomes(report) == {"first": "not run", "tests": "green", "other data": "not run"}
    assert report["checks"][0]["told"] == ["It was left out."]
    with pytest.raises(SystemExit):
        run(repository, "--only", "something else")


def test_what_isnt_committed_is_not_checked_and_said(repository: Path) -> None:
    (repository / "tests_of_it.py").write_text(FAILED, encoding="utf-8")
    _, report, said = run(repository)
    assert outcomes(report)["tests"] == "green"
    assert "Not in the commit, and so not checked: tests_of_it.py" in said


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("taken_by", ["main", "another"])
def test_an_interrupted_check_leaves_no_process_and_is_run_again(
    repository: Path, by: signal.Signals, taken_by: str
) -> None:
    """A signal that another thread takes doesn't wake the one that waits: the check would end, and be recorded."""
    mark = repository.parent / "begun"
    text = LIST.format(tries=repository.parent / "tries", python=sys.executable)
    text = text.replace("{", "{{").replace('command = "true"', f"command = 'echo $$ > {mark} && sleep 90'")
    text = text.replace('data = ["CROWDBLEND_NOT_SET"]\n', "")
    (repository / "checks.toml").write_text(text, encoding="utf-8")
    commit(repository, TESTS)
    program = f"""
import signal, sys, threading, time
from pathlib import Path
from audit.release_report import main, stopped_by_signals

def take():
    mark = Path({str(mark)!r})
    while not mark.exists() or not mark.read_text().strip():
        time.sleep(0.05)
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), {int(by)})

stopped_by_signals()
if {taken_by == "another"}:
    threading.Thread(target=take, daemon=True).start()
main(["--checks", "checks.toml"], project=Path({str(repository)!r}))
"""
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    with subprocess.Popen([sys.executable, "-c", program], cwd=repository, env=environment) as process:
        while not mark.exists() or not mark.read_text(encoding="utf-8").strip():
            assert process.poll() is None
            time.sleep(0.05)
        child = int(mark.read_text(encoding="utf-8"))
        if taken_by == "main":
            process.send_signal(by)
        process.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    ended = Runs(repository, git(repository, "rev-parse", "HEAD"), out=io.StringIO()).ended()
    assert ended.keys() == {"first", "tests"}


def test_the_checks_name_commands_that_exist() -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    found = checks()
    assert len(found) > 20
    for check in found:
        for line in check.command.splitlines():
            words = line.split()
            for before, after in pairwise(words):
                if before == "make" and after != "-C":
                    assert f"\n{after}:" in makefile or after == ".venv/.ready", line
                if before == "-m" and after.startswith(("benchmarks.", "audit.")):
                    path = PROJECT / after.replace(".", "/")
                    assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), line
        assert check.claim.endswith("."), check.name


def test_a_page_can_be_written_of_every_check() -> None:
    runs = Runs(PROJECT, 40 * "a", out=io.StringIO())
    report = report_of(runs, checks())
    assert not report["whole"]
    assert all(f"| {check.claim} | `" in page(report) for check in checks())
    assert page(report).count("| **not run** |") == len(checks())


def test_every_generated_section_page_and_picture_is_made_by_a_check() -> None:
    commands = "\n".join(f"{check.command} " for check in checks())
    for one in generated():
        program = one.command.partition(" --")[0]
        made = f"{program} " in commands or f"{program}\n" in commands
        assert made, f"{one.name}: no check runs {program}; add it to audit/release_checks.toml"
        if one.by and one.command.startswith("python"):
            [line] = [line for line in commands.splitlines() if f"{program} " in line and named(one.page, line)][:1]
            assert "--write" in line


def named(page: str, line: str) -> bool:
    """Whether a command writes into a page; a program that is given no page knows its own."""
    return "--write docs/" not in line or page in line


def test_long_tests_of_every_folder_are_run() -> None:
    words = {word for check in checks() if check.name.startswith("long tests") for word in check.command.split()}
    folders = {f"tests/{path.relative_to(PROJECT / 'tests').parts[0]}" for path in PROJECT.glob("tests/*/**/test_*.py")}
    assert folders - {"tests/_pkg"} == {word for word in words if word.startswith("tests/")}
    assert not list(PROJECT.glob("tests/test_*.py"))


@pytest.mark.parametrize("check", [check for check in checks() if check.apart], ids=lambda check: check.name)
def test_no_check_imports_what_it_is_said_not_to_read(check: Check) -> None:
    for one in check.apart:
        assert any(PROJECT.glob(one)), f"no file is {one}"
    roots = [f"{program}{end}" for program in programs_of(check) for end in ("", ".__main__", ".command")]
    roots += [name.removesuffix(".py").replace("/", ".") for name in files_of_tests(check)]
    assert roots
    files = Sources().files(Generated(page="", command="", roots=tuple(roots)))
    names = [path.relative_to(PROJECT).as_posix() for path in files]
    assert not [name for name in names for one in check.apart if fnmatch(name, one.replace("**", "*"))]


def programs_of(check: Check) -> set[str]:
    """Modules of this project's tools that a check runs, by itself or by a target of the Makefile."""
    return set(re.findall(r"-m ((?:audit|benchmarks)\b[\w.]*)", told_to_run(check)))


def files_of_tests(check: Check) -> list[str]:
    """Files of the tests that mutants meet, or of the long tests in the folders that a check's command names."""
    if check.name == "mutation":
        return [LOOKING_ON, *(name for folder in TEST_FOLDERS for name in python_files(folder))]
    folders = re.findall(r"(?<!=)\btests/[\w/.]+", told_to_run(check) if "pytest" in told_to_run(check) else "")
    names = [name for folder in folders for name in python_files(folder)]
    return [name for name in names if re.search(rb"mark[.]long", (PROJECT / name).read_bytes())]


def python_files(place: str) -> list[str]:
    """Return the Python files of a folder, or the one file, without asking Git: tests run outside a checkout too."""
    paths = sorted((PROJECT / place).rglob("*.py")) if (PROJECT / place).is_dir() else [PROJECT / place]
    return [path.relative_to(PROJECT).as_posix() for path in paths]


def told_to_run(check: Check) -> str:
    """A check's command, and the recipes of the targets that it makes."""
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    recipes = dict(re.findall(r"^([\w-]+):.*\n((?:\t.*\n(?: {4}.*\n)*)+)", makefile, re.MULTILINE))
    return "\n".join([check.command, *(recipes[one] for one in re.findall(r"make ([a-z][\w-]+)", check.command))])


def test_two_checks_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "checks.toml").write_text(2 * CHECKS.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(ValueError, match="two checks have one name"):
        checks(tmp_path / "checks.toml")


def test_every_place_that_names_the_version_names_this_one() -> None:
    number = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    places = {
        "r/crowdblend/DESCRIPTION": (r"^Version: (\S+)$", 1),
        "r/crowdblend/NEWS.md": (r"\A# crowdblend (\S+)$", 1),
        "deploy/kubernetes/crowdblend.yaml": (r"image: crowdblend:(\S+)$", 5),
        "tests/vectors/surface.json": (r'^ "version": "(.+)",$', 1),
    }
    for file, (pattern, times) in places.items():
        found = re.findall(pattern, (PROJECT / file).read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert found == times * [number], file


def test_the_page_is_that_of_the_recorded_report() -> None:
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    assert REPORT.with_suffix(".md").read_text(encoding="utf-8") == page(report)
    assert report["whole"] == all(row["outcome"] == "green" for row in report["checks"])
