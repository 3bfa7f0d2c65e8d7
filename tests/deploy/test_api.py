"""The public Python names: typed, shown richly, and the same as the command line's."""

from __future__ import annotations

import doctest
import importlib
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from crowdblend.deploy import api
from crowdblend.mechanisms.kernel.errors import InputRefused

WITH_EXAMPLES = ("api", "python.releases", "terminal.tables")


def test_release_open_ledger_and_report_from_python(desk) -> None:
    desk.prefect()
    desk.add_dataset()
    desk.write_spec()
    explained = api.explain("spec.toml")
    assert "town" in explained._repr_html_()
    published = api.release("spec.toml", release_id="one")
    assert published.epsilon == Decimal(str(explained.facts["epsilon"]))
    assert published.sampling_rate == Decimal("0.1")
    assert published.levels == {"colour": 0, "age": 1, "town": 1}
    assert published.findings() == ()
    desk.succeed("key", "export", "key.pem")
    assert published.findings(public_key=Path("key.pem")) == ()
    groups = published.groups()
    assert groups.column_names == ["colour", "age", "town", "count"]
    assert sum(groups["count"].to_pylist()) == published.certificate["published"]["records"]
    assert api.release("spec.toml", release_id="one") == published == api.open_release("out")
    view = api.ledger()
    assert view.findings == ()
    assert "people" in view._repr_html_()
    made = api.private_report("spec.toml", published)
    assert made.measures.before.records == 2_400
    assert "2400" not in repr(made) + made._repr_html_()
    assert "2,400" not in repr(made)
    assert len(desk("ledger", "show", "--json").json["private_looks"]) == 1
    with pytest.raises(InputRefused, match="object store"):
        api.release("spec.toml", output="s3://bucket/place")
    with pytest.raises(api.AccountantRefused):
        api.release(desk.write_spec(k="25"), release_id="one")


@pytest.mark.parametrize("file_format", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_groups_of_a_deletion_release_have_their_stage_and_weight_as_numbers(desk, file_format) -> None:
    desk.add_dataset()

    def deleting(text: str) -> str:
        for level, levels in (("level = 0", "levels = [0, 1]"), ("level = 1", "levels = [0, 1]")):
            text = text.replace(level, levels)
        return text.replace("[sampling]\nrate = 0.1", "[deletion]").replace("delta =", "epsilon = 1\ndelta =")

    desk.write_spec(edit=deleting, k="1", file_format=file_format)
    published = api.release("spec.toml")
    groups = published.groups()
    assert groups.column_names == ["colour", "age", "town", "stage", "weight", "count"]
    assert [str(groups.schema.field(name).type) for name in ("town", "stage", "weight", "count")] == [
        "string", "int64", "double", "int64",
    ]  # fmt: skip
    assert set(groups["stage"].to_pylist()) == {1, 2}
    assert sum(groups["count"].to_pylist()) == published.certificate["published"]["records"]
    assert groups.num_rows == published.certificate["published"]["groups"]


def test_numbers_are_taken_as_they_are_written() -> None:
    exactly = api.plan(k=20, sampling_rate=Decimal("0.1"), delta=Decimal("0.000001"))
    assert api.plan(k=20, sampling_rate="0.1", delta="1e-6") == exactly
    assert api.plan(k=20, sampling_rate=0.1, delta=1e-6) == exactly
    assert api.plan(k=20, sampling_rate=np.float64(0.1), delta=np.float64(1e-6)) == exactly
    assert exactly.sampling_rate == Decimal("0.1")
    for wrong in ("a tenth", float("nan"), float("inf"), "nan", True):
        with pytest.raises(InputRefused, match="no number"):
            api.plan(k=20, sampling_rate=wrong, delta="1e-6")


def test_the_life_of_a_data_set_from_python(desk) -> None:
    added = api.add_dataset("people", epsilon=2, delta=1e-5)
    assert (added.name, added.account.epsilon_budget, added.account.delta_budget) == (
        "people",
        Decimal(2),
        Decimal("0.00001"),
    )
    with pytest.raises(InputRefused, match="can only be raised"):
        api.raise_budget("people", epsilon=1, delta=1e-5, reason="less")
    assert api.raise_budget("people", epsilon=3, delta=1e-5, reason="by law").account.epsilon_budget == 3
    spec = desk.write_spec()
    monthly = api.add_series("monthly", spec, releases=2)
    assert (monthly.remaining, monthly.registered.dataset) == (2, "people")
    assert [repr(one) for one in api.series()] == ["SeriesState(series='monthly', taken=0, releases=2)"]
    with pytest.raises(InputRefused, match="at least 1"):
        api.add_series("none", spec, releases=0)
    planned = api.dry_run(spec)
    assert planned.charge is not None
    assert planned.charge.epsilon == planned.request.price.epsilon
    assert api.dry_run(spec, series="monthly").charge is None
    api.record_look("people", what="a table of towns")
    assert len(desk("ledger", "show", "--json").json["private_looks"]) == 1
    with pytest.raises(InputRefused, match="no such"):
        api.abandon("nobody", reason="a test")
    assert api.ledger().findings == ()


def test_a_ledger_that_was_set_back_is_found_from_python_as_by_the_command_line(desk) -> None:
    desk.add_dataset()
    earlier = {file: file.read_bytes() for file in desk.folder.glob("ledger.db*")}
    api.record_look("people", what="a table of towns")
    for file in desk.folder.glob("ledger.db*"):
        file.unlink()
    for file, content in earlier.items():
        file.write_bytes(content)
    [finding] = api.ledger().findings
    assert "an older copy was restored" in finding
    assert desk("ledger", "verify", "--json").json["findings"] == [finding]


def test_hierarchies_from_python_are_those_of_the_command_line(desk) -> None:
    rows = api.outline_rows(["South", "  Lyon", "  Nice", "North", "  Lille"])
    made = api.write_hierarchy(rows, "regions.csv")
    assert made.digest() == api.read_hierarchy("regions.csv").digest()
    assert api.check_hierarchy("regions.csv", domain=["Lyon", "Lille", "Nice"]).findings == ()
    assert "'Metz'" in api.check_hierarchy("regions.csv", domain=["Lyon", "Metz"]).findings[0]
    with pytest.raises(InputRefused, match="exists already"):
        api.write_hierarchy(rows, "regions.csv")
    with pytest.raises(InputRefused, match="row 2"):
        api.write_hierarchy([("Lyon", "*"), ("Lyon", "*")], "twice.csv")
    Path("arx.csv").write_bytes("value;land\nLyon;Rhône\nLille;Nord\n".encode("cp1252"))
    imported = api.import_hierarchy("arx.csv", "new.csv", encoding="cp1252", header=True)
    assert imported.levels == 3
    desk.succeed("hierarchy", "check", "new.csv")
    Path("bad.csv").write_text("Lyon;South\nNice;South\nLyon;North\n")
    with pytest.raises(InputRefused, match=r"bad\.csv, line"):
        api.import_hierarchy("bad.csv", "never.csv")
    assert not Path("never.csv").exists()


def test_what_is_shown_keeps_texts_as_texts() -> None:
    table = api.FactTable(title="a <b>", headers=("<i>",), rows=(("<script>",),))
    shown = table._repr_html_()
    assert not any(tag in shown for tag in ("<b>", "<i>", "<script>"))
    assert table.__rich__().row_count == 1


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"crowdblend.deploy.{name}"))
    assert found.attempted > 0
    assert found.failed == 0
