"""Releases of synthetic tables: charged before the draw, drawn once, and said to be synthetic.

What draws stands in for `opendp[mbi]`, which the tests' environment can't have; the tests marked `extra` use the
library itself, by the Python that CROWDBLEND_SYNTHESIZER names.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.theory.planning.synthetic_planning import largest_rho
from crowdblend.flows.releases.release_kind import release_kind
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused, ReleaseFailed
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kinds.synthetic_table import SyntheticTable
from crowdblend.tasks.stages.synthesize import SYNTHESIZER, rehearse, require_synthesizer, synthetic_rows
from crowdblend.tasks.stages.synthesizer import cause
from support.stand_in_synthesizer import written

LIBRARY = os.environ.get(SYNTHESIZER)
SPEC = """
[release]
name = "a"
output = "out"
[data]
dataset = "people"
source = "people.csv"
separator = ";"
[synthetic]
[privacy]
epsilon = 1
delta = 1e-6
[columns.colour]
values = ["blue", "green", "red"]
level = 0
[columns.age]
interval = { lower = 0, upper = 100, widths = [10, 50] }
level = 1
"""


@pytest.fixture
def spec(desk) -> Path:
    path = desk.folder / "spec.toml"
    path.write_text(SPEC)
    return path


BUDGET = "the synthesizer failed (OpenDPException: its own queries add up to more than the rho that it was given)"


def draws(desk) -> list[dict]:
    noted = desk.folder / "draws.jsonl"
    return [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []


@pytest.mark.slow
def test_a_draw_is_charged_first_and_what_is_published_says_that_it_is_synthetic(desk, spec, monkeypatch) -> None:
    desk.add_dataset()
    monkeypatch.setenv(SYNTHESIZER, str(written(desk.folder, way="fails later")))
    failed = desk.refuse("run", spec, "--release-id", "one", code=1, said=BUDGET)
    assert "the value" not in failed.err
    [entry] = desk("ledger", "show", "--json").json["releases"]
    assert (entry["stage"], [one["records"] for one in draws(desk)]) == ("reading", [1_000, 2_400])
    monkeypatch.setenv(SYNTHESIZER, str(written(desk.folder)))
    # Drawing until nothing fails would publish another law than is priced.
    desk.refuse("run", spec, "--release-id", "one", code=1, said="an earlier attempt failed while it drew")
    desk.succeed("abandon", "one", "--reason", "its draw failed")
    desk.succeed("run", spec, "--release-id", "two")
    out = desk.folder / "out"
    certificate = json.loads((out / "certificate.json").read_bytes())
    published = certificate["published"]
    assert (published["form"], published["synthesizer"]) == ("synthetic", "MST of opendp 0.16.0, with mbi 1.1.0")
    assert "none is a record of a person" in certificate["guarantee"]["in_words"]
    assert pq.read_table(out / "data.parquet").num_rows == published["records"]
    charged = Decimal(certificate["mechanism"]["rho"])
    for asked in draws(desk):
        assert [name for name in asked["variables"] if "CROWDBLEND" in name] == []
        assert charged * Decimal("0.99999") < Decimal(asked["rho"]) < charged
    entries = desk("ledger", "show", "--json").json["releases"]
    assert {entry["release_id"]: entry["stage"] for entry in entries} == {"one": "abandoned", "two": "published"}
    assert desk("verify", out).code == desk("ledger", "verify").code == 0
    desk.succeed("sheet", out, "--output", desk.folder / "sheets")
    pages = [path for path in (desk.folder / "sheets").iterdir() if path.suffix in (".md", ".html")]
    assert pages
    for sheet in pages:
        assert "No row is a person" in sheet.read_text(), sheet


@pytest.mark.slow
def test_what_fails_on_made_up_records_is_refused_before_a_charge(desk, spec, monkeypatch) -> None:
    desk.add_dataset()
    monkeypatch.setenv(SYNTHESIZER, str(written(desk.folder, way="fails")))
    answer = desk("run", spec)
    assert (answer.code, BUDGET in answer.err, "on made-up records" in answer.err) == (2, True, True), answer.err
    assert "the value" not in answer.err
    assert [one["records"] for one in draws(desk)] == [1_000]
    assert desk("ledger", "show", "--json").json["releases"] == []


def test_what_is_told_of_an_error_is_its_type_and_a_known_cause() -> None:
    assert cause(ValueError("the value Jane")) == "ValueError"
    assert cause(RuntimeError("insufficient budget for query: 0.0007 > 0.0006")) == "RuntimeError budget"
    assert cause(MemoryError("Jane")) == "MemoryError memory"
    assert cause(ModuleNotFoundError("No module named 'pandas'")) == "ModuleNotFoundError library"


@pytest.mark.slow
def test_a_table_is_charged_to_a_filter(desk, spec, monkeypatch) -> None:
    monkeypatch.setenv(SYNTHESIZER, str(written(desk.folder)))
    words = ("--epsilon", "4", "--delta", "1e-5", "--accounting", "filter", "--expect", "24 x epsilon=0.1")
    desk.succeed("dataset", "add", "others", *words)
    spec.write_text(SPEC.replace('"people"', '"others"'))
    desk.succeed("run", spec, "--output", "other")
    desk.succeed("verify", desk.folder / "other")
    assert '"rule": "renyi-filter/2"' in desk.succeed("ledger", "export").out
    desk.succeed("ledger", "verify")


def test_an_answer_that_is_no_table_of_this_map_is_not_taken(spec, tmp_path, monkeypatch) -> None:
    recoding = read_spec(spec, output=None).recoding
    counts = GroupCounts(np.array([[0, 5]]), np.array([4, 9]))

    def drawn(way: str) -> GroupCounts:
        monkeypatch.setenv(SYNTHESIZER, str(written(tmp_path, way=way)))
        mechanism = SyntheticTable(method="mst", rho=Decimal(1))
        return synthetic_rows(counts, layout=recoding, mechanism=mechanism)[1]

    assert recoding.holds(drawn("rows").keys)
    with pytest.raises(ReleaseFailed, match="another form"):
        drawn("beyond")


MISSING = {
    "": "lacks what synthetic tables are made with: mbi==1.1.0",  # this Python, which has opendp alone
    "/no/such/python": "can't be asked for its libraries (FileNotFoundError)",
    "/bin/true": "can't be asked for its libraries (JSONDecodeError)",
}


@pytest.mark.parametrize("python", MISSING)
def test_what_is_missing_is_refused(monkeypatch, python) -> None:
    monkeypatch.setenv(SYNTHESIZER, python)
    with pytest.raises(InputRefused) as refused:
        require_synthesizer()
    assert MISSING[python] in refused.value.message


@pytest.mark.slow
def test_what_is_missing_is_refused_before_a_charge(desk, spec, monkeypatch) -> None:
    desk.add_dataset()
    monkeypatch.setenv(SYNTHESIZER, "")
    for words in (("run",), ("run", "--dry-run")):
        desk.refuse(*words, spec, said=MISSING[""])
    assert "A run would be refused" in desk("explain", spec).out
    assert desk("ledger", "show", "--json").json["releases"] == []


def test_stored_rows_are_rows_of_this_map_or_refused(spec) -> None:
    request = read_spec(spec, output=None)
    protection = release_kind("synthetic").protection(request, None)
    head, cells = [0, 16, 0, 1, 1, 0], request.recoding.cells
    assert protection.fits([*head, 0, cells - 1, 3, 1])
    for wrong in (
        [],
        head,
        [*head, 1],
        [*head, cells, 1],
        [*head, -1, 1],
        [*head, 1, 0],
        [-1, *head[1:], 1, 1],
        [*head, 1 << 64, 1],
    ):
        assert not protection.fits(wrong)


@pytest.mark.extra
@pytest.mark.parametrize("method", ["mst", "aim"])
def test_the_library_keeps_what_records_have_in_common(spec, monkeypatch, method) -> None:
    """With much to spend the model has each pair's share: columns, codes and numbers are in their places."""
    assert LIBRARY is not None, f"{SYNTHESIZER} must name a Python with opendp[mbi]"
    monkeypatch.setenv(SYNTHESIZER, LIBRARY)
    require_synthesizer()
    recoding = read_spec(spec, output=None).recoding
    keys = np.array([[0, 15, 30, recoding.cells - 1]])
    counts = GroupCounts(keys, np.array([2_000, 1_000, 500, 500]))
    used, rows = synthetic_rows(counts, layout=recoding, mechanism=SyntheticTable(method=method, rho=Decimal(9)))
    assert used[:2] == (0, 16)
    shares = dict(zip(rows.keys[0].tolist(), (rows.counts / rows.counts.sum()).tolist(), strict=True))
    assert [shares.get(key, 0.0) for key in keys[0].tolist()] == pytest.approx([0.5, 0.25, 0.125, 0.125], abs=0.04)


@pytest.mark.extra
def test_the_library_publishes_a_table(desk, spec, monkeypatch) -> None:
    assert LIBRARY is not None, f"{SYNTHESIZER} must name a Python with opendp[mbi]"
    monkeypatch.setenv(SYNTHESIZER, LIBRARY)
    desk.add_dataset()
    desk.succeed("run", spec)
    table = pq.read_table(desk.folder / "out" / "data.parquet")
    assert (table.column_names, 2_200 < table.num_rows < 2_600) == (["colour", "age"], True)
    assert desk("verify", desk.folder / "out").code == 0


@pytest.mark.extra
def test_the_librarys_shares_of_many_columns_add_up(monkeypatch) -> None:
    """Of 19 columns its shares of ρ added up, rounded up, to more than ρ: "insufficient budget for query"."""
    assert LIBRARY is not None, f"{SYNTHESIZER} must name a Python with opendp[mbi]"
    monkeypatch.setenv(SYNTHESIZER, LIBRARY)
    labels = ValueHierarchy.from_values(["a", "b"])
    columns = tuple(MappedColumn(name=f"c{place}", hierarchy=labels, level=0) for place in range(19))
    mechanism = SyntheticTable(method="mst", rho=largest_rho(Decimal(1), delta=Decimal("1e-6")))
    rehearse(layout=GeneralizationMap(columns=columns), mechanism=mechanism)
