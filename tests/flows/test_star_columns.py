"""A release in which every label of a column is `*` says so, wherever it is told of, from what is published alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crowdblend.accounting.dashboard.views.certificates import told_of

HEAD = """
[release]
name = "incomes"
form = "{form}"
format = "{file_format}"
output = "out"
[data]
dataset = "people"
source = "incomes.csv"
"""
DELETION = """
[deletion]
[privacy]
epsilon = 2
delta = 1e-4
[columns.sex]
values = ["f", "m"]
level = 0
[columns.income]
interval = {{ lower = 0, upper = 100000, widths = [50000] }}
level = {level}
"""
SAMPLED = "[sampling]\nrate = 0.2\n[suppression]\nk = 10\n[privacy]\ndelta = 1e-3\n"
DRAWN = """
[selection]
epsilon = 0.5
draw = "permute-and-flip"
[columns.sex]
values = ["f", "m"]
[columns.income]
interval = {{ lower = 0, upper = 100000, widths = [50000] }}
min_level = 2
"""
NOTHING_ELSE = "Every published income is *: its level in this release has no other label."


def written(desk, text: str, **changes: str) -> Path:
    lines = [f"{'fm'[place % 2]},{5000 * (place % 7)}.0" for place in range(400)]
    (desk.folder / "incomes.csv").write_text("\n".join(["sex,income", *lines]) + "\n", encoding="utf-8")
    path = desk.folder / "incomes.toml"
    path.write_text((HEAD + text).format(**({"form": "counts", "file_format": "csv", "level": "1"} | changes)), "utf-8")
    desk.add_dataset()
    return path


@pytest.mark.parametrize(("form", "file_format"), [("counts", "csv"), ("microdata", "parquet")])
def test_an_income_that_is_not_as_declared_is_told_by_run_sheet_certificate_and_pages(
    desk, form: str, file_format: str
) -> None:
    spec = written(desk, DELETION, form=form, file_format=file_format)
    ran = desk.succeed("run", spec, "--release-id", "stars")
    assert "Every published income is *. Check, on a public file of the same format" in ran.out
    assert "at least half of all tell 1 of 2 columns or more" in ran.out
    result = desk.succeed("run", spec, "--release-id", "stars", "--json").json
    assert result["looked_up"]
    assert result["columns_at_star"] == ["income"]
    assert result["informative_records"] == result["published_records"] > 0
    content = (desk.folder / "out" / "certificate.json").read_bytes()
    published = json.loads(content)["published"]
    assert {name: published[name] for name in ("columns_at_star", "informative_records", "median_columns_told")} == {
        "columns_at_star": ["income"],
        "informative_records": published["records"],
        "median_columns_told": 1,
    }
    assert list(told_of(content)) == result["in_words"]
    desk.succeed("sheet", "out", "--output", "sheets")
    for sheet in ("stars-sheet.html", "stars-sheet.md"):
        assert "Every published income is " in (desk.folder / "sheets" / sheet).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "changes", "said"),
    [
        (DELETION, {"level": "2"}, "Every published income is *: its level in this release has no other label."),
        (SAMPLED + DRAWN, {}, NOTHING_ELSE),
        # The control: with whole_floats 5000.0 is the whole number that was meant.
        ("whole_floats = true" + DELETION, {}, "at least half of all tell 2 of 2 columns or more"),
    ],
)
def test_what_the_levels_publish_is_told_apart_from_what_was_not_read(desk, text, changes, said) -> None:
    ran = desk.succeed("run", written(desk, text, **changes))
    assert said in ran.out
    assert ("is *" in ran.out) is ("is *" in said)
    certificate = (desk.folder / "out" / "certificate.json").read_bytes()
    assert any(said in sentence for sentence in told_of(certificate))
