"""Folders called column=value: their values are columns, coded once for a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.contributions import ContributionLimit
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.inputs.schema import read_names
from support.counted import counted as counted_at

REGIONS = ["Lyon", "a b/c%=é", None]
COLUMNS = {
    "sex": ValueHierarchy.from_values(["F", "M"]),
    "region": ValueHierarchy.from_values(["Lyon", "a b/c%=é"]),
    "year": IntervalHierarchy(lower=1_900, upper=2_100, widths=(100,)),
}
PEOPLE = pa.table(
    {
        "sex": ["F", "M", "F"] * 400,
        "region": [REGIONS[i % 3] for i in range(1_200)],
        "year": pa.array([1_990 + 10 * (i % 2) for i in range(1_200)]),
    }
)
TRUTH = Counter(
    {
        (sex, "*" if region is None else region, "[1900, 2000)" if year < 2_000 else "[2000, 2100)"): 0
        for sex, region, year in zip(*(PEOPLE[name].to_pylist() for name in COLUMNS), strict=True)
    }
)
for row in zip(*(PEOPLE[name].to_pylist() for name in COLUMNS), strict=True):
    TRUTH[row[0], "*" if row[1] is None else row[1], "[1900, 2000)" if row[2] < 2_000 else "[2000, 2100)"] += 1


def counted(source: str, base: Path, *, names=tuple(COLUMNS), **reading) -> Counter:
    return counted_at(source, base, {name: COLUMNS[name] for name in names}, levels={"year": 1}, **reading)


def refusal(source: str, base: Path, **reading) -> str:
    with pytest.raises(InputRefused) as refused:
        counted(source, base, **reading)
    return refused.value.message


@pytest.fixture(params=["parquet", "csv"])
def written(request, tmp_path) -> Path:
    """What pyarrow writes by partitions, three times nested for one of its files."""
    parts = ds.partitioning(pa.schema([("region", pa.string()), ("year", pa.int64())]), flavor="hive")
    ds.write_dataset(PEOPLE, tmp_path / "people", format=request.param, partitioning=parts)
    return tmp_path


@pytest.mark.parametrize(
    "source", ["people", "people/", "people/region=*", "people/**/part-*", "p*", "people/*/*/part*"]
)
def test_partitions_are_columns_in_each_way_of_naming_them(written, source):
    assert counted(source, written) == TRUTH
    assert counted(source, written, names=("region", "year")).total() == 1_200


def test_only_the_folders_between_the_source_and_its_files_count(written):
    lyon = counted("people/region=Lyon", written, names=("sex", "year"))
    assert lyon.total() == 400
    said = refusal("people/region=Lyon", written)
    assert "region" in said
    names = [column.name for column in read_names("people/region=Lyon", base=written).columns]
    assert names == ["sex", "year"]


def test_mixed_layouts_are_refused(written):
    [file] = list((written / "people" / "region=Lyon").rglob("year=1990/part-*"))
    for place in ("loose", "region=Lyon/loose", "year=1990/region=Lyon/turned", "region=Lyon/region=Lille/twice"):
        copy = written / "people" / place / file.name
        copy.parent.mkdir(parents=True)
        copy.write_bytes(file.read_bytes())
        assert "differ from file to file" in refusal("people", written)
        copy.unlink()
    alone = written / "twice" / "region=Lyon" / "region=Lille" / file.name
    alone.parent.mkdir(parents=True)
    alone.write_bytes(file.read_bytes())
    assert "name a column twice" in refusal("twice", written)


def test_names_that_are_no_escaped_utf_8_are_refused(written):
    for name in ("region=100%", "region=%ff", "reg%zzion=Lyon"):
        folder = written / "wrong" / name / "year=1990"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"sex": ["F"]}), folder / "a.parquet")
        assert "not followed by the two digits" in refusal("wrong", written)
        (folder / "a.parquet").unlink()


def test_a_column_that_the_files_have_too_is_refused_where_it_is_released(tmp_path):
    table, text = pa.table({"sex": ["F"], "region": ["Lille"]}), "sex,region\nF,Lille\n"
    for kind in ("parquet", "csv"):
        folder = tmp_path / kind / "region=Lyon" / "year=1990"
        folder.mkdir(parents=True)
        if kind == "csv":
            (folder / "a.csv").write_text(text, encoding="utf-8")
        else:
            pq.write_table(table, folder / "a.parquet")
        assert "in the file and in the names of its folders" in refusal(kind, tmp_path)
        assert counted(kind, tmp_path, names=("sex", "year")).total() == 1


def test_values_are_utf_8_and_missing_as_the_specification_says(tmp_path):
    folder = tmp_path / "people" / "region=a b%2Fc%25=é" / "year=+1990"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_bytes(b"sex\nF\n")
    assert counted("people", tmp_path, encoding="cp1252") == Counter({("F", "a b/c%=é", "*"): 1})
    assert counted("people", tmp_path, null_values=("", "a b/c%=é")) == Counter({("F", "*", "*"): 1})


@pytest.mark.parametrize("reading", [{}, {"trim": True, "whole_floats": True, "decimal": ","}])
def test_a_folder_whose_name_is_no_utf_8_is_unseen_and_not_a_failure_after_the_charge(tmp_path, reading):
    for region, year in (("ly\udcff", "\udcff1990"), ("Lyon", "1990")):
        folder = tmp_path / "people" / f"region={region}" / f"year={year}"
        folder.mkdir(parents=True)
        (folder / "a.csv").write_bytes(b"sex\nF\n")
    assert counted("people", tmp_path, **reading) == Counter({("F", "*", "*"): 1, ("F", "Lyon", "[1900, 2000)"): 1})


def test_a_column_that_only_folders_have_names_nobody(written):
    nobody = ContributionLimit(unit="person", column="year", records=1)
    with pytest.raises(InputRefused, match="is in no file"):
        counted_at("people", written, {"sex": COLUMNS["sex"]}, limit=nobody)
