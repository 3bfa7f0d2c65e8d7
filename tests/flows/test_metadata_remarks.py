"""What a steward is told before the charge, from headers and schemas alone."""

from __future__ import annotations

import datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.flows.metadata_remarks import metadata_remarks
from crowdblend.flows.prepare import layout_of_source
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.kernel.errors import InputRefused

SPEC = """
[release]
name = "r"
output = "out"
[data]
dataset = "people"
source = "{source}"
{data}
[sampling]
rate = 0.1
[suppression]
k = 20
[privacy]
delta = 1e-6
"""
SEX = '[columns.sex]\nvalues = ["Female", "Male"]\nlevel = 0\n'
BORN = '[columns.sex]\ndates = { from = "1900-01-01", to = "2010-12-31", levels = ["year"] }\nlevel = 1\n'
AGE = "[columns.age]\ninterval = { lower = 0, upper = 100, widths = [10] }\nlevel = 1\n"


@pytest.fixture
def told(tmp_path):
    """The remarks on a source under a specification with some columns and keys of [data]."""

    def tell(source: str, columns: str, data: str = "") -> tuple[str, ...]:
        (tmp_path / "spec.toml").write_text(SPEC.format(source=source, data=data) + columns)
        request = read_spec(tmp_path / "spec.toml", output=None)
        return metadata_remarks(layout_of_source(request), request)

    return tell


def test_a_header_that_looks_like_a_record_is_told_and_not_quoted(told, tmp_path) -> None:
    (tmp_path / "in.csv").write_text("4711,30\n4712,31\n")
    [remark] = told("in.csv", "[columns.30]\ninterval = { lower = 0, upper = 100, widths = [] }\nlevel = 0\n")
    assert "Is the first line a record?" in remark
    assert "4711" not in remark
    (tmp_path / "in.csv").write_text("id,30\n4712,31\n")
    assert told("in.csv", "[columns.30]\ninterval = { lower = 0, upper = 100, widths = [] }\nlevel = 0\n") == ()
    (tmp_path / "in.csv").write_text("4711,30\n4712,31\n")
    with pytest.raises(InputRefused, match="seems to be a record") as refusal:
        told("in.csv", SEX)
    assert "4711" not in refusal.value.message


def test_a_header_in_utf_8_under_another_encoding_is_told(told, tmp_path) -> None:
    (tmp_path / "in.csv").write_text("sex,größe\nMale,1\n", encoding="utf-8")
    [remark] = told("in.csv", SEX, 'encoding = "cp1252"')
    assert "bytes are UTF-8" in remark
    (tmp_path / "in.csv").write_text("sex,größe\nMale,1\n", encoding="cp1252")
    assert told("in.csv", SEX, 'encoding = "cp1252"') == ()


DAY = datetime.date(2020, 1, 1)


@pytest.mark.parametrize(
    ("values", "column", "impossible"),
    [
        (pa.array([True]), SEX, True),
        (pa.array([1]), SEX, True),
        (pa.array([1.5]), SEX, True),
        (pa.array([DAY]), SEX, True),
        (pa.nulls(1), SEX, True),
        (pa.array(["x"]), SEX, False),
        (pa.array(["x"]).dictionary_encode(), SEX, False),
        (pa.array([True]), SEX.replace('"Male"', '"true"'), False),
        (pa.array([1]), SEX.replace('"Male"', '"1"'), False),
        (pa.array([DAY]), SEX.replace('"Male"', '"2021-01-01"'), False),
        (pa.array([DAY]), AGE.replace("age", "sex"), True),
        (pa.array([1.0]), AGE.replace("age", "sex"), False),
        (pa.array(["1"]), AGE.replace("age", "sex"), False),
        (pa.array([1]), BORN, True),
        (pa.array([0], type=pa.timestamp("us")), BORN, False),
        (pa.array([0], type=pa.date32()), BORN, False),
    ],
)
def test_a_column_whose_type_has_no_declared_value_is_told(told, tmp_path, values, column, impossible) -> None:
    pq.write_table(pa.table({"sex": values}), tmp_path / "in.parquet")
    remarks = told("in.parquet", column)
    assert len(remarks) == impossible
    assert all("'sex'" in remark and "all would be `*`" in remark for remark in remarks)


@pytest.mark.parametrize(
    ("column", "data", "where"),
    [
        (SEX.replace("Female", " F"), "trim = true", "[columns.sex]"),
        (SEX.replace("Female", "3.0"), "whole_floats = true", "[columns.sex]"),
        (SEX.replace("Female", "3.5"), 'decimal = ","', "[columns.sex]"),
        (AGE + "fold_case = true\n", "", "[columns.age].fold_case"),
        (SEX.replace("Female", "male") + "fold_case = true\n", "", "[columns.sex]"),
    ],
)
def test_declared_values_that_no_record_can_have_are_refused(told, tmp_path, column, data, where) -> None:
    (tmp_path / "in.csv").write_text("sex,age\nMale,1\n")
    with pytest.raises(InputRefused) as refusal:
        told("in.csv", column, data)
    assert where in refusal.value.where


TOWN = "[columns.town]\nvalues = {values}\nlevel = 0\n"


def write_towns(file, *towns: str) -> None:
    """A file of Stata with codes that its writer gave by sorting the values that occur."""
    people = pd.DataFrame({"town": pd.Categorical(towns), "age": [30] * len(towns)})
    people.to_stata(file, write_index=False)


def test_declared_codes_of_a_column_with_value_labels_are_told_by_the_head_alone(told, tmp_path) -> None:
    write_towns(tmp_path / "in.dta", *["Berlin"] * 5, *["Paris"] * 3)
    codes = TOWN.format(values='["0", "1", "2"]')
    [remark] = told("in.dta", codes)
    assert "'town' has value labels, and its codes are declared" in remark
    assert "declare the labels" in remark
    assert "Berlin" not in remark
    for none in (TOWN.format(values='["Berlin", "Paris"]'), TOWN.format(values='["7"]'), AGE):
        assert told("in.dta", none) == ()
    write_towns(tmp_path / "in.dta", *["Paris"] * 7, "Berlin")
    assert told("in.dta", codes) == (remark,)


def test_the_warning_of_declared_codes_comes_from_every_command_before_the_charge(desk) -> None:
    write_towns(desk.folder / "in.dta", *["Berlin"] * 5, *["Paris"] * 3)
    spec = desk.folder / "spec.toml"
    spec.write_text(SPEC.format(source="in.dta", data="") + TOWN.format(values='["0", "1"]'))
    desk.add_dataset()
    for words in (("run", spec, "--dry-run"), ("explain", spec), ("run", spec)):
        answer = desk.succeed(*words)
        assert "its codes are declared" in answer.out.replace("\n", " ") + answer.err, words


def test_the_warning_stands_on_standard_error_before_the_charge(desk) -> None:
    (desk.folder / "in.csv").write_text("471147114711,30\n471247124712,31\n")
    spec = desk.folder / "spec.toml"
    spec.write_text(
        SPEC.format(source="in.csv", data="")
        + "[columns.30]\ninterval = { lower = 0, upper = 100, widths = [] }\nlevel = 0\n"
    )
    desk.add_dataset()
    done = desk.succeed("run", spec, "--dry-run")
    assert "warning" in done.err
    assert "Is the first line a record?" in done.err
    assert "471147114711" not in done.err + done.out


def test_a_source_without_records_is_told_and_released_all_the_same(desk) -> None:
    """A refusal would tell, by a release that there isn't, of a table of one record from which the one is missing."""
    desk.add_dataset()
    desk.write_spec(source="in")
    (desk.folder / "in").mkdir()
    header = "colour;age;town"
    for name, text in (("a.csv", header), ("b.csv", f"{header}\n")):
        (desk.folder / "in" / name).write_text(text)
    dry = desk.succeed("run", "spec.toml", "--dry-run")
    assert "no record follows the header" in dry.err
    told = desk.succeed("run", "spec.toml", "--json")
    assert "no record follows the header, and a release is charged all the same" in told.err
    assert told.json["published_records"] == 0
    code, _, err = desk.start("submit", "spec.toml", "--output", "job").finish()
    assert code == 0, err
    assert "warning: " in err
    assert "no record follows the header, and a release is charged all the same" in err
    assert [stage for stage in ("charge", "count", "publish", "close") if f"crowdblend: {stage}\n" not in err] == []
    (desk.folder / "in" / "b.csv").write_text(f"{header}\nred;30;Lyon\n")
    one = desk.succeed("run", "spec.toml", "--json", "--output", "one")
    assert "no record" not in one.err
    assert one.json["published_records"] == 0


def test_a_parquet_file_without_rows_is_told(told, tmp_path) -> None:
    none = pa.table({"sex": pa.array([], type=pa.string())})
    pq.write_table(none, tmp_path / "in.parquet")
    [remark] = told("in.parquet", SEX)
    assert "no record follows the header" in remark
