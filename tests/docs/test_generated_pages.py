"""What programs have written into docs says what it was made of, and nobody has changed it by hand."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import generated_pages
from benchmarks.generated_pages import (
    FORMAT,
    RECORD,
    Generated,
    Sources,
    content_of,
    generated,
    main,
    module_of,
    recorded,
    told,
    write_between,
)

PROJECT = Path(__file__).resolve().parents[2]
NAMED = {one.name: one for one in generated()}
SOURCES = Sources()
PAGE = """\
# Page

<!-- begin of benchmarks/program.py -->
old
<!-- end of benchmarks/program.py -->

More.
"""


def test_everything_that_was_generated_is_recorded_and_nothing_else() -> None:
    assert json.loads((PROJECT / RECORD).read_text(encoding="utf-8"))["format"] == FORMAT
    assert recorded().keys() == NAMED.keys()
    begun = re.compile(r"^<!-- begin of (.+) -->\n(?!<!-- end of)", re.MULTILINE)  # and not empty yet
    for page in (PROJECT / "docs").rglob("*.md"):
        name = page.relative_to(PROJECT).as_posix()
        marked = set(begun.findall(page.read_text(encoding="utf-8")))
        assert marked == {one.by for one in NAMED.values() if one.page == name} - {""}


@pytest.mark.parametrize("name", NAMED)
def test_a_generated_section_is_as_its_program_wrote_it_and_tells_of_what(name: str) -> None:
    one, entry = NAMED[name], recorded()[name]
    digest = hashlib.sha256(content_of(one)).hexdigest()
    assert digest == entry["content"], f"{name} was changed by hand, or not recorded: make it again by {one.command}"
    assert re.fullmatch(r"[0-9a-f]{64}", entry["sources"])
    assert SOURCES.files(one), "it follows from no file"
    if one.page.endswith(".md"):
        lines = {told(entry, stale=stale) for stale in (True, False)}
        text = (PROJECT / one.page).read_text(encoding="utf-8")
        after = text.partition(f"<!-- end of {one.by} -->\n")[2] if one.by else text.rstrip().rpartition("\n\n")[2]
        assert after.lstrip("\n").partition("\n")[0] in lines


PROGRAM = '''"""A program."""

from crowdblend.mechanisms import rule


def figure() -> int:
    """Return a figure."""
    return rule.FIGURE
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project with a page that has one generated section."""
    for name, text in {
        "benchmarks/program.py": PROGRAM,
        "mechanisms/rule.py": "FIGURE = 3\n",
        "mechanisms/other.py": "FIGURE = 4\n",
        "docs/page.md": PAGE,
        RECORD: json.dumps({"format": FORMAT, "generated": {}}),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(generated_pages, "PROJECT", tmp_path)
    monkeypatch.setattr(generated_pages, "WHOLE", ())
    for function in (generated, content_of, recorded, generated_pages.keep, generated_pages.out_of_date):
        monkeypatch.setattr(function, "__defaults__", (tmp_path,))
    monkeypatch.setattr(Sources.__init__, "__defaults__", (tmp_path,))
    return tmp_path


def test_a_section_is_stale_where_what_it_follows_from_has_changed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = project / "docs" / "page.md"
    write_between(page, ["| 3 |"], by="benchmarks/program.py")
    line = "Made by `python -m benchmarks.program` of uncommitted sources, "
    begun = "# Page\n\n<!-- begin of benchmarks/program.py -->\n| 3 |\n<!-- end of benchmarks/program.py -->\n\n"
    assert re.fullmatch(re.escape(begun + line) + r"\d{4}-\d\d-\d\d\.\n\nMore\.\n", page.read_text(encoding="utf-8"))
    assert main(["--check"]) == 0

    for file, text in (
        ("mechanisms/rule.py", '"""What a figure is."""\n\n# A comment.\nFIGURE = 3\n'),
        ("mechanisms/other.py", "FIGURE = 5\n"),
    ):
        (project / file).write_text(text, encoding="utf-8")
        assert main(["--check"]) == 0

    (project / "mechanisms" / "rule.py").write_text("FIGURE = 6\n", encoding="utf-8")
    before = page.read_text(encoding="utf-8")
    assert main(["--check"]) == 1
    assert page.read_text(encoding="utf-8") == before
    assert "0 of 1" in capsys.readouterr().out
    assert main([]) == 0
    assert page.read_text(encoding="utf-8").count("**its sources have changed since**") == 1
    assert main([]) == 0
    assert page.read_text(encoding="utf-8").count("Made by") == 1

    copy = project / "copy"
    shutil.copytree(project / "docs", copy / "docs")
    (project / "mechanisms" / "rule.py").write_text("FIGURE = 3\n", encoding="utf-8")
    assert main(["--pages", str(copy)]) == 0
    assert "changed since" in page.read_text(encoding="utf-8")
    assert "changed since" not in (copy / "docs" / "page.md").read_text(encoding="utf-8")


def test_what_was_made_of_an_earlier_commit_is_recorded_with_it(project: Path) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
        done = subprocess.run(["git", *identity, *words], cwd=project, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    page, rule = project / "docs" / "page.md", project / "mechanisms" / "rule.py"
    git("init", "--quiet")
    git("add", "-A")
    git("commit", "--quiet", "-m", "One")
    first = git("rev-parse", "--short=12", "HEAD")
    rule.write_text("FIGURE = 6\n", encoding="utf-8")
    name = "docs/page.md: benchmarks/program.py"
    assert main(["--made", name]) == 0
    assert "of uncommitted sources, " in page.read_text(encoding="utf-8")
    git("commit", "--quiet", "-am", "Two")
    assert main(["--made", name]) == 0
    assert f"of commit `{git('rev-parse', '--short=12', 'HEAD')}`, " in page.read_text(encoding="utf-8")
    assert main(["--check"]) == 0
    assert main(["--made", name, "--of", first]) == 0
    assert f"of commit `{first}`, " in page.read_text(encoding="utf-8")
    assert main(["--check"]) == 1


def test_a_program_that_runs_commands_follows_from_all_of_them() -> None:
    names = {path.relative_to(PROJECT).as_posix() for path in SOURCES.files(NAMED["docs/paper/README.md"])}
    assert "accounting/kernel/prices/privacy_profile.py" in names
    assert "deploy/cli.py" not in names
    whole = NAMED["docs/benchmarks/whole-run.md: benchmarks/whole_run.py"]
    names = {path.relative_to(PROJECT).as_posix() for path in SOURCES.files(whole)}
    assert {"deploy/cli.py", "deploy/commands/release_commands.py", "benchmarks/record_path/census_data.py"} <= names
    assert "benchmarks/generated_pages.py" not in names


@pytest.mark.parametrize(
    ("by", "module"),
    [
        ("benchmarks/utility/stars.py", "benchmarks.utility.stars"),
        ("benchmarks/analysis_coverage.py, copies", "benchmarks.analysis_coverage"),
        ("benchmarks.record_path.plan", "benchmarks.record_path.plan"),
        ("python -m benchmarks.ledger.scale", "benchmarks.ledger.scale"),
    ],
)
def test_marks_name_a_module(by: str, module: str) -> None:
    assert module_of(by) == module
    assert SOURCES.files(Generated(page="", by=by, command="", roots=(module,)))
