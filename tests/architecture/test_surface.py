"""What is promised stays: the surface beside the recorded one, and names that will go warn once."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from crowdblend.accounting import deprecations
from crowdblend.accounting.deprecations import DEPRECATED, DeprecatedName, Deprecation, warn_once
from support.surface import FORMAT, RECORDED, compared, may_go, parent_of, promise_of, surface

PAGE = Path(__file__).resolve().parents[2] / "docs" / "stability.md"
RECORD = json.loads(RECORDED.read_text(encoding="utf-8"))
KEEP = "Keep it, or deprecate it first (docs/stability.md)."
TAKE = "Record it: python tests/support/surface.py"


def test_the_surface_is_the_recorded_one() -> None:
    assert RECORD["format"] == FORMAT
    found = compared(RECORD["surface"], surface(), gone=may_go(RECORD))
    assert not found.broken, "\n  ".join(["This breaks what was promised:", *found.broken, KEEP])
    assert not found.added, "\n  ".join(["The surface has grown:", *found.added, TAKE])


def test_every_deprecated_name_is_one_of_the_surface() -> None:
    names = {f"{section}: {name}" for section, found in RECORD["surface"].items() for name in found}
    assert DEPRECATED.keys() <= names
    assert RECORD["deprecated"] == {
        name: {"since": one.since, "instead": one.instead} for name, one in DEPRECATED.items()
    }


@pytest.mark.parametrize(
    ("section", "name", "now"),
    [
        ("commands", "crowdblend run --output", None),
        ("commands", "crowdblend run --output", "optional | integer"),
        ("commands", "crowdblend run --output", "file"),
        ("commands", "crowdblend run --must", "text"),
        ("exit codes", "AccountantRefused", "1"),
        ("specification", "specification.suppression.k", None),
        ("specification", "specification.data.mode", "string"),
        ("settings", "CROWDBLEND_LEDGER", None),
        ("printed", "run", "version 2 | object"),
        ("printed", "run.epsilon", None),
        ("printed", "run.epsilon", "number | null"),
        ("printed", "run.epsilon", "optional | number"),
        ("formats", "certificate crowdblend-certificate/5", None),
        ("formats", "entry release-charged/1", None),
        ("Python", "crowdblend.analysis.load", None),
        ("Python", "crowdblend.deploy.api.release(release_id)", "by place"),
        ("R", "cb_glm(family)", "required"),
    ],
)
def test_what_breaks_somebody_is_told_and_not_recorded(section: str, name: str, now: str | None) -> None:
    changed = copy.deepcopy(RECORD["surface"])
    if now is None:
        del changed[section][name]
    else:
        changed[section][name] = now
    found = compared(RECORD["surface"], changed, gone=set())
    assert [line.startswith(f"{section}: {name}: ") for line in found.broken] == [True]
    assert not compared(changed, changed, gone=set()).broken


@pytest.mark.parametrize(
    ("section", "name", "now"),
    [
        ("commands", "crowdblend run --also", "optional | text"),
        ("commands", "crowdblend again", "optional"),
        ("commands", "crowdblend again SPEC", "file"),
        ("specification", "specification.suppression.k", "integer | string"),
        ("specification", "specification.data.mode", "optional | string"),
        ("printed", "run.also", "number"),
        ("printed", "run.epsilon_paper", "number"),
        ("formats", "certificate crowdblend-certificate/6", "verified"),
    ],
)
def test_an_addition_is_told_and_can_be_recorded(section: str, name: str, now: str) -> None:
    changed = copy.deepcopy(RECORD["surface"])
    changed[section][name] = now
    if name == "crowdblend again SPEC":
        changed[section]["crowdblend again"] = "optional"
    found = compared(RECORD["surface"], changed, gone=set())
    assert found.broken == ()
    assert f"{section}: {name}: {now}" in " ".join(found.added)


def test_a_deprecated_name_may_go_with_the_next_major_version_and_takes_with_it_what_is_below() -> None:
    now = copy.deepcopy(RECORD["surface"])
    gone = [name for name in now["commands"] if name.startswith("crowdblend plan")]
    for name in gone:
        del now["commands"][name]
    assert len(compared(RECORD["surface"], now, gone=set()).broken) == len(gone) > 10
    assert compared(RECORD["surface"], now, gone={"commands: crowdblend plan"}).broken == ()
    assert promise_of("0.1.0") < promise_of("0.2") < promise_of("1.0.0") == promise_of("1.9") < promise_of("2.0")
    told = {"deprecated": {"commands: crowdblend plan": {"since": "0.1", "instead": "crowdblend explain"}}}
    assert may_go(told) == (set() if promise_of(RECORD["version"]) == (0, 1) else {"commands: crowdblend plan"})


@pytest.mark.parametrize(
    ("name", "parent"),
    [
        ("crowdblend run --output", "crowdblend run"),
        ("specification.data.source", "specification.data"),
        ("crowdblend.deploy.api.release(output)", "crowdblend.deploy.api.release"),
        ("cb_glm(family)", "cb_glm"),
    ],
)
def test_a_name_stands_below_another(name: str, parent: str) -> None:
    assert parent_of(name) == parent


@pytest.fixture
def deprecated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecations, "_told", set())
    for name in ("specification: specification.columns.*.level", "Python: crowdblend.analysis.load"):
        monkeypatch.setitem(DEPRECATED, name, Deprecation(since="1.1", instead="something else"))


def test_a_deprecated_name_warns_once(deprecated: None) -> None:
    with pytest.warns(DeprecatedName, match=r"^crowdblend\.analysis\.load is deprecated since 1\.1 and goes"):
        warn_once("Python: crowdblend.analysis.load")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_once("Python: crowdblend.analysis.load")
        warn_once("Python: crowdblend.analysis.rubin")


PROGRAM = """
import sys
from crowdblend.accounting.deprecations import DEPRECATED, Deprecation
for name in sys.argv[1].split(";"):
    DEPRECATED[name] = Deprecation(since="1.1", instead="its successor")
from crowdblend.deploy.cli import main
main(sys.argv[2:])
"""


def said(names: str, *words: str, folder: Path) -> tuple[str, str]:
    """What a command writes to its two streams where some names are deprecated."""
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, names, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    return told.stdout, told.stderr


SPEC = """
[release]
name = "survey"
output = "out"
[data]
dataset = "survey"
source = "people.csv"
[sampling]
rate = 0.1
[suppression]
k = 20
[privacy]
delta = 1e-6
[columns.sex]
values = ["Female", "Male"]
level = 0
[columns.region]
values = ["North", "South"]
level = 0
"""


def test_the_command_line_warns_once_of_each_deprecated_key_option_and_command(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    words = ("explain", "spec.toml", "--json")
    out, told = said("specification: specification.columns.*.level", *words, folder=tmp_path)
    line = "crowdblend: specification.columns.*.level is deprecated since 1.1 and goes with the next major version."
    assert told == f"{line} Use its successor.\n"
    assert json.loads(out)["columns"]
    other = "specification: specification.columns.*.interval;specification: specification.points.number"
    assert said(other, *words, folder=tmp_path)[1] == ""

    _, told = said("commands: crowdblend explain --json", *words, folder=tmp_path)
    assert told.count("deprecated") == 1
    assert "Use its successor." in told
    assert said("commands: crowdblend run --json", *words, folder=tmp_path)[1] == ""
    _, told = said("commands: crowdblend explain", *words, folder=tmp_path)
    assert told.count("deprecated") == 1
    assert "DEPRECATED" in said("commands: crowdblend explain", "explain", "--help", folder=tmp_path)[0].upper()


def test_the_page_says_what_the_record_has() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for section in RECORD["surface"]:
        assert f"| {section} |" in page
