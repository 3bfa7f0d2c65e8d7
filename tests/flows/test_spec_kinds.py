"""Each kind of release knows its tables, and refuses every other one: all pairs of tables."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from crowdblend.flows.spec import read_spec
from crowdblend.flows.spec_kinds import KINDS, TABLES
from crowdblend.flows.spec_tables import SpecTables
from crowdblend.mechanisms.refusal import InputRefused

PAGE = Path(__file__).resolve().parents[2] / "docs" / "specification.md"
BASE = '[release]\nname = "a"\noutput = "out"\n[data]\ndataset = "people"\nsource = "people.csv"\n'
TEXTS = {
    "sampling": "[sampling]\nrate = 0.1\n",
    "suppression": "[suppression]\nk = 20\n",
    "privacy": "[privacy]\ndelta = 1e-6\n",
    "selection": "[selection]\nepsilon = 0.1\n",
    "histogram": '[histogram]\nkind = "suppressed"\nk = 20\n',
    "points": '[points]\nkind = "suppressed"\nk = 20\ncells_per_side = 4\n',
    "answer": '[answer]\nkind = "count"\nepsilon = 0.5\n',
    "reports": '[reports]\nkind = "k-randomization"\nflip_probability = 0.25\nvalues = ["red", "blue"]\n',
    "columns": '[columns.sex]\nvalues = ["F", "M"]\n',
    "cluster": '[cluster]\naddress = "tcp://scheduler:8786"\n',
}
TOGETHER = {
    "microdata": {"sampling", "suppression", "privacy", "selection", "columns", "cluster"},
    "histogram": {"sampling", "privacy", "columns", "cluster"},
    "points": {"sampling", "privacy", "columns", "cluster"},
    "answer": {"sampling", "columns", "cluster"},
    "reports": {"privacy", "cluster"},
}


def refusal_of(tmp_path: Path, *tables: str) -> str:
    """What is said of a specification with these tables; empty where they go together and nothing else is wrong."""
    path = tmp_path / "spec.toml"
    path.write_text(BASE + "".join(TEXTS[name] for name in tables), encoding="utf-8")
    try:
        read_spec(path, output=None)
    except InputRefused as refused:
        return refused.message
    return ""


def go_together(*tables: str) -> bool:
    kinds = [name for name in tables if name in KINDS]
    if len(kinds) > 1:
        return False
    kind = kinds[0] if kinds else "microdata"
    return all(name in TOGETHER[kind] for name in tables if name != kind)


@pytest.mark.parametrize(("first", "second"), [*combinations(TEXTS, 2)])
def test_two_tables_go_together_or_are_refused(tmp_path, first, second) -> None:
    for tables in ((first, second), (second, first)):
        said = refusal_of(tmp_path, *tables)
        assert ("exclude each other" in said) is not go_together(*tables), said
        if not go_together(*tables):
            assert any(f"spec.toml: [{name}]" in said for name in tables)


@pytest.mark.parametrize("kind", TABLES)
def test_a_whole_specification_with_one_foreign_table_is_refused(tmp_path, kind) -> None:
    whole = {
        "microdata": ("sampling", "suppression", "privacy", "columns"),
        "histogram": ("histogram", "sampling", "privacy", "columns"),
        "points": ("points", "sampling", "privacy", "columns"),
        "answer": ("answer", "sampling", "columns"),
        "reports": ("reports",),
    }[kind]
    assert "exclude each other" not in refusal_of(tmp_path, *whole)
    own = set() if kind == "microdata" else {kind}
    for foreign in TEXTS.keys() - TOGETHER[kind] - own - (set(KINDS) if kind == "microdata" else set()):
        assert "exclude each other" in refusal_of(tmp_path, *whole, foreign)


def test_every_table_is_decided_upon_and_stands_on_the_page() -> None:
    assert set(SpecTables.model_fields) == set(TEXTS) | {"release", "data"} == set().union(*TABLES.values())
    lines = dict(re.findall(r"^- (\w+): (`\[.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    shown = {kind: set(re.findall(r"`\[(\w+)\]`", text)) for kind, text in lines.items()}
    assert shown == {kind: set(tables) - {"release", "data", "cluster"} for kind, tables in TABLES.items()}


def test_an_empty_table_is_a_table(tmp_path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(BASE + TEXTS["reports"] + "[columns]\n", encoding="utf-8")
    with pytest.raises(InputRefused, match=r"\[columns\]: this table and \[reports\] exclude each other"):
        read_spec(path, output=None)
