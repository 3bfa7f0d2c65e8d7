"""Files of SPSS, Stata and SAS, written by pyreadstat: the same records as in CSV, by codes or by value labels."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.schema import read_names
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.readers import statistics_files
from crowdblend.tasks.readers.values import RecordReading
from support.counted import counted_column as counted

WRITERS = {".sav": pyreadstat.write_sav, ".zsav": pyreadstat.write_sav, ".dta": pyreadstat.write_dta}
ENDINGS = (".sav", ".zsav", ".dta", ".xpt")
SAV_RECORDS = 80  # where the head has their number
SEX = {1.0: "male", 2.0: "female", 9.0: "refused"}
PEOPLE = pd.DataFrame(
    {
        "sex": [1.0, 2.0, 2.0, 9.0, None, 3.0] * 20,
        "age": [10.0, 20.5, 99.0, 40.0, None, 50.0] * 20,
        "town": ["Lyon", "Nîmes", "", "Aix", "Lyon", "Lyon"] * 20,
        "born": [date(2020, 1, 2), date(1959, 12, 31), None, date(2020, 1, 2), date(1583, 1, 1), date(2020, 1, 3)] * 20,
    }
)


def written(folder: Path, ending: str, people: pd.DataFrame = PEOPLE, **options: Any) -> str:
    path = folder / f"people{ending}"
    if ending == ".xpt":
        pyreadstat.write_xport(people, path)
    else:
        more = {"compress": True} if ending == ".zsav" else {}
        WRITERS[ending](people, path, **more, **options)
    return path.name


def values(*texts: str) -> ValueHierarchy:
    return ValueHierarchy.from_values(texts)


def labelled(ending: str) -> dict[str, Any]:
    if ending == ".xpt":
        return {}
    return {"variable_value_labels": {"sex": SEX if "sav" in ending else {int(code): SEX[code] for code in SEX}}}


def people_of(ending: str) -> pd.DataFrame:
    """Stata labels whole numbers alone."""
    return PEOPLE if ending != ".dta" else PEOPLE.astype({"sex": "Int32"})


@pytest.mark.parametrize("ending", ENDINGS)
def test_codes_numbers_texts_and_dates_are_those_of_the_file(tmp_path, ending):
    name = written(tmp_path, ending, people_of(ending), **labelled(ending))
    assert counted(name, tmp_path, "sex", values("1", "2")) == {"1": 20, "2": 40, "*": 60}
    towns = {"Lyon": 60, "Nîmes": 20, "*": 40}
    assert counted(name, tmp_path, "town", values("Lyon", "Nîmes")) == towns
    ages = IntervalHierarchy(lower=0, upper=60, widths=())
    assert counted(name, tmp_path, "age", ages) == {"10": 20, "*": 40, "40": 20, "50": 20, ">= 60": 20}
    exact = DecimalIntervals.of(lower=Decimal("0.0"), upper=Decimal("60.0"), widths=[])
    assert counted(name, tmp_path, "age", exact)["[20.5, 20.6)"] == 20
    days = counted(name, tmp_path, "born", values("2020-01-02", "1959-12-31", "1583-01-01"))
    assert days == {"2020-01-02": 40, "1959-12-31": 20, "1583-01-01": 20, "*": 40}


@pytest.mark.parametrize("ending", [".sav", ".zsav", ".dta"])
def test_a_hierarchy_of_value_labels_reads_labels_and_codes_that_bear_none(tmp_path, ending):
    name = written(tmp_path, ending, people_of(ending), **labelled(ending))
    both = {"male": 20, "female": 40, "*": 60}
    assert counted(name, tmp_path, "sex", values("male", "female")) == both
    assert counted(name, tmp_path, "sex", values("male", "female", "refused", "3"))["3"] == 20
    assert counted(name, tmp_path, "sex", values("male", "female"), null_values=("2",)) == {"male": 20, "*": 100}
    rows = [("male", "m or f", "*"), ("female", "m or f", "*")]
    assert counted(name, tmp_path, "sex", ValueHierarchy.from_rows(rows)) == both
    with pytest.raises(InputRefused, match="both declared"):
        counted(name, tmp_path, "sex", values("male", "2"))


def test_codes_and_labels_that_are_others_codes_are_refused(tmp_path):
    """Children from 0 with labels from 1: the value 1 may be meant as 1 or as 2."""
    people = pd.DataFrame({"children": [0.0, 1.0, 2.0]})
    name = written(tmp_path, ".sav", people, variable_value_labels={"children": {0.0: "1", 1.0: "2", 2.0: "more"}})
    with pytest.raises(InputRefused, match="both declared"):
        counted(name, tmp_path, "children", values("1", "2"))
    same = written(tmp_path, ".zsav", people, variable_value_labels={"children": {0.0: "0", 1.0: "1", 2.0: "two"}})
    assert counted(same, tmp_path, "children", values("0", "1", "two")) == {"0": 1, "1": 1, "two": 1}
    assert counted(same, tmp_path, "children", values("0", "1", "2")) == {"0": 1, "1": 1, "2": 1}


def test_user_missing_values_of_spss_are_missing_numbers_and_values_only_where_declared(tmp_path):
    name = written(tmp_path, ".sav", missing_ranges={"age": [{"lo": 98, "hi": 99}], "sex": [9]}, **labelled(".sav"))
    ages = IntervalHierarchy(lower=0, upper=120, widths=())
    assert counted(name, tmp_path, "age", ages) == {"10": 20, "40": 20, "50": 20, "*": 60}
    assert counted(name, tmp_path, "sex", values("male", "female"))["*"] == 60
    assert counted(name, tmp_path, "sex", values("male", "refused"))["refused"] == 20


def test_missing_values_of_stata_are_missing(tmp_path):
    people = pd.DataFrame({"sex": pd.Series([1, 2, "a", "b", None], dtype=object)})
    name = written(tmp_path, ".dta", people, missing_user_values={"sex": ["a", "b"]})
    assert counted(name, tmp_path, "sex", values("1", "2", "a")) == {"1": 1, "2": 1, "*": 3}


@pytest.mark.parametrize("ending", [".xpt", ".sav"])
def test_no_records_text_decides_whether_a_file_is_taken_before_the_charge(tmp_path, ending):
    """Where the head doesn't say how many records there are, they are counted whatever bytes they hold."""
    name = "Ort" if ending == ".xpt" else "città"
    path = tmp_path / written(tmp_path, ending, PEOPLE[["town", "age"]].rename(columns={"town": name}))
    raw_bytes = bytearray(path.read_bytes())
    if ending == ".sav":
        raw_bytes[SAV_RECORDS : SAV_RECORDS + 4] = (-1).to_bytes(4, "little", signed=True)
    raw_bytes[raw_bytes.rindex(b"Aix")] = 0xFF  # no UTF-8
    path.write_bytes(raw_bytes)
    layout = check_metadata(list_source(path.name, base=tmp_path), columns=["age"], reading=RecordReading())
    assert sum(chunk.records for chunk in plan_chunks(layout)) == len(PEOPLE)


def test_a_table_that_was_saved_in_two_formats_is_refused(tmp_path):
    """As archives give them away: each person would be read twice, at the price of once."""
    for ending in (".sav", ".dta"):
        written(tmp_path, ending, people_of(ending))
    with pytest.raises(InputRefused, match="must not be read twice"):
        list_source(".", base=tmp_path)
    assert len(list_source("*.dta", base=tmp_path).files) == 1


@pytest.mark.parametrize(("stored", "called"), [(".dta", ".sav"), (".sav", ".dta"), (".xpt", ".sas7bdat")])
def test_a_file_of_another_kind_than_its_name_says_is_refused(tmp_path, stored, called):
    path = tmp_path / written(tmp_path, stored, people_of(stored))
    path = path.rename(tmp_path / f"people{called}")
    with pytest.raises(InputRefused, match="cannot be read"):
        counted(path.name, tmp_path, "sex", values("1"))


def test_columns_that_are_none_or_times_are_refused(tmp_path):
    people = pd.DataFrame({"at": pd.to_datetime(["2020-01-02 03:04:05"]), "sex": [1.0]})
    for ending in (".sav", ".dta", ".xpt"):
        name = written(tmp_path, ending, people)
        with pytest.raises(InputRefused, match="times of day"):
            counted(name, tmp_path, "at", values("1"))
        with pytest.raises(InputRefused, match="no column 'town'"):
            counted(name, tmp_path, "town", values("1"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_fewer_records_than_were_announced_are_an_error_and_no_end(tmp_path, ending):
    path = str(tmp_path / written(tmp_path, ending))
    assert len(statistics_files.read_block(path, columns=["sex"], start=100, records=20)["sex"]) == 20
    with pytest.raises(ValueError, match="other records"):
        statistics_files.read_block(path, columns=["sex"], start=100, records=21)


def test_without_pyreadstat_the_refusal_says_what_to_install(tmp_path, monkeypatch):
    name = written(tmp_path, ".sav")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(InputRefused) as caught:
        counted(name, tmp_path, "sex", values("1"))
    assert "crowdblend[statistics]" in str(caught.value.remedy)


def test_a_specification_begins_with_the_file_s_columns(tmp_path):
    name = written(tmp_path, ".sav", people_of(".sav"), **labelled(".sav"))
    columns = read_names(name, base=tmp_path).columns
    codes = [code for code, _ in next(column.labels for column in columns if column.name == "sex")]
    assert codes == sorted(codes)
    kinds = {column.name: column.kind for column in columns}
    assert kinds == {"sex": "unknown", "age": "number", "town": "text", "born": "date"}


def test_numbers_of_all_widths_keep_their_values(tmp_path):
    people = pd.DataFrame(
        {
            "small": np.array([1, 2], dtype=np.int8),
            "large": np.array([1, 2], dtype=np.int32),
            "single": np.array([0.3, 0.7], dtype=np.float32),
        }
    )
    name = "people.dta"
    people.to_stata(tmp_path / name, write_index=False)  # pyreadstat writes no single floats
    for column in ("small", "large"):
        assert counted(name, tmp_path, column, values("1", "2")) == {"1": 1, "2": 1}
    tenths = DecimalIntervals.of(lower=Decimal("0.0"), upper=Decimal("1.0"), widths=[])
    assert counted(name, tmp_path, "single", tenths) == {"[0.3, 0.4)": 1, "[0.7, 0.8)": 1}


@pytest.mark.long
def test_a_file_that_sas_wrote_has_the_records_that_r_knows_of_it(needs, tmp_path):
    """Fisher's irises, from R's package haven; the release of SAS that wrote them stands in the head."""
    asked = ["Rscript", "-e", "cat(system.file('examples/iris.sas7bdat', package = 'haven'))"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout if shutil.which("Rscript") else ""
    needs(bool(found), "R with haven (Debian: r-cran-haven)", "CROWDBLEND_TEST_SAS")
    shutil.copy(found, tmp_path / "iris.sas7bdat")
    assert b"9.0401M2" in (tmp_path / "iris.sas7bdat").read_bytes()[:400]
    write = f"write.csv(datasets::iris, '{tmp_path / 'iris.csv'}', row.names = FALSE)"
    subprocess.run(["Rscript", "-e", write], check=True, capture_output=True)
    known = pd.read_csv(tmp_path / "iris.csv")
    species = values("setosa", "versic", "virgin")  # SAS kept six letters
    assert counted("iris.sas7bdat", tmp_path, "Species", species) == Counter(known["Species"].str[:6])
    for column in ("Sepal.Length", "Sepal.Width", "Petal.Length", "Petal.Width"):
        exact = DecimalIntervals.of(lower=Decimal("0.0"), upper=Decimal("8.0"), widths=[])
        expected = Counter(f"[{value:.1f}, {value + 0.1:.1f})" for value in known[column])
        assert counted("iris.sas7bdat", tmp_path, column.replace(".", "_"), exact) == expected
