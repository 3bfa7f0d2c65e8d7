"""Messy values are read as declared, each record by itself: encodings, white space, decimal commas, case."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.decimals import NumberSteps
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata
from crowdblend.tasks.readers.column_codes import ColumnCoder
from crowdblend.tasks.readers.values import Encoding, RecordReading
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counted import counted_column

AGES = IntervalHierarchy(lower=0, upper=100, widths=())
SEXES = ValueHierarchy.from_values(["Female", "Male"])


def labels(hierarchy, values: pa.Array, **reading: object) -> list[str]:
    mapped = GeneralizationMap(columns=(MappedColumn(name="x", hierarchy=hierarchy, level=0),))
    coder = ColumnCoder(column=mapped.columns[0], placement=mapped.placements[0], reading=RecordReading(**reading))
    return hierarchy.labels(coder.scaled_codes(values, None), 0)


def of_bytes(*texts: bytes) -> pa.Array:
    return pa.array(texts, type=pa.large_binary())


@pytest.mark.parametrize("encoding", [encoding for encoding in get_args(Encoding) if encoding != "utf-8"])
def test_an_encoding_has_one_byte_for_a_character_and_those_of_ascii(encoding):
    assert bytes(range(128)).decode(encoding) == bytes(range(128)).decode("ascii")
    for pair in product(range(256), repeat=2):
        assert len(bytes(pair).decode(encoding, errors="replace")) == 2


@pytest.mark.parametrize(
    ("encoding", "stored"), [("latin-1", b"K\xf6ln"), ("cp1250", b"K\xf6ln"), ("cp1251", b"\xca\xf6")]
)
def test_a_text_is_compared_by_its_characters(encoding, stored):
    towns = ValueHierarchy.from_values(["Köln", "Кц"])
    assert labels(towns, of_bytes(stored), encoding=encoding) == [stored.decode(encoding)]
    assert labels(towns, of_bytes(stored)) == ["*"]


def test_what_cannot_be_decoded_is_unseen_alone():
    assert labels(SEXES, of_bytes(b"Male", b"\x81", b"Female"), encoding="cp1252") == ["Male", "*", "Female"]


def test_trim_leaves_white_space_at_the_ends_out():
    texts = of_bytes(b" Male", b"Female\t", "\xa0Male ".encode(), b"Fe male", b"Male\xff")
    assert labels(SEXES, texts, trim=True) == ["Male", "Female", "Male", "*", "*"]
    assert labels(SEXES, texts) == ["*"] * 5
    assert labels(AGES, of_bytes(b" 30 ", b" "), trim=True) == ["30", "*"]


def test_whole_floats_are_the_whole_numbers_that_they_write():
    texts = of_bytes(b"30.0", b"30.", b"30.00", b"-0.0", b"30.5", b"030.0", b"3e1", b".0", b"30")
    assert labels(AGES, texts, whole_floats=True) == ["30", "30", "30", "0", "*", "*", "*", "*", "30"]
    assert labels(AGES, texts) == ["*"] * 8 + ["30"]
    assert labels(AGES, pa.array([30.0, 30.5])) == ["30", "*"], "as floating-point columns are read"


def test_a_decimal_comma_is_the_only_decimal_sign_then():
    texts = of_bytes(b"0,75", b"0.75", b"1.234", b"0", b"1,2,3", b"30,0")
    steps = NumberSteps(cuts=(0.5, 1.0))
    assert labels(steps, texts, decimal=",") == ["[0.5, 1.0)", "*", "*", "< 0.5", "*", ">= 1.0"]
    assert labels(AGES, texts, decimal=",", whole_floats=True) == ["*", "*", "*", "0", "*", "30"]
    assert labels(ValueHierarchy.from_values(["v1.2,3"]), of_bytes(b"v1.2,3"), decimal=",") == ["v1.2,3"]


def test_null_values_are_compared_with_what_is_meant():
    texts = of_bytes(b" -9", b"-9.0", b"-9", b"5")
    assert labels(IntervalHierarchy(lower=-20, upper=20, widths=()), texts, null_values=("-9",), trim=True,
                  whole_floats=True) == ["*", "*", "*", "5"]  # fmt: skip


def test_values_are_compared_without_regard_to_case_and_published_as_declared():
    folded = ValueHierarchy.from_values(["Female", "Male", "Straße"]).folded()
    texts = of_bytes(b"FEMALE", b"male", b"STRASSE", b"Mail", b"\xff")
    assert labels(folded, texts) == ["Female", "Male", "Straße", "*", "*"]
    assert labels(SEXES, texts)[:2] == ["*", "*"]
    assert folded.digest() != ValueHierarchy.from_values(["Female", "Male", "Straße"]).digest()


READINGS = st.builds(
    RecordReading,
    encoding=st.sampled_from(get_args(Encoding)),
    null_values=st.sampled_from([("",), ("", "-9", "NA")]),
    trim=st.booleans(),
    decimal=st.sampled_from([".", ","]),
    whole_floats=st.booleans(),
)
TEXTS = st.one_of(st.binary(max_size=6), st.sampled_from([b"30", b" 30,0", b"30.0 ", b"-9", b"-9,0", b"NA", b"a"]))


@settings(derandomize=True, max_examples=100, deadline=None)
@given(reading=READINGS, texts=st.lists(TEXTS, min_size=1, max_size=12), other=TEXTS)
def test_each_text_has_one_meaning_whatever_stands_beside_it(reading, texts, other):
    """Total, and a function of the text alone: another record changes no record's code, in short lists and long."""
    ages = IntervalHierarchy(lower=-20, upper=60, widths=())
    keys = {name: getattr(reading, name) for name in ("encoding", "null_values", "trim", "decimal", "whole_floats")}
    found = labels(ages, of_bytes(*texts), **keys)
    assert labels(ages, of_bytes(other, *texts), **keys)[1:] == found
    filler = [b"%d" % number for number in range(2000)]
    assert labels(ages, of_bytes(*filler, *texts), **keys)[2000:] == found


TOWNS = ValueHierarchy.from_values(["Köln"])


def test_a_file_in_another_encoding_is_read_with_its_header(tmp_path):
    (tmp_path / "in.csv").write_bytes("größe;x\nKöln;1\nKöln;2\n".encode("latin-1"))
    assert counted_column("in.csv", tmp_path, "größe", TOWNS, separator=";", encoding="latin-1") == {"Köln": 2}
    with pytest.raises(InputRefused, match="encoding"):
        counted_column("in.csv", tmp_path, "größe", TOWNS, separator=";")


def test_parquet_texts_are_utf_8_whatever_csv_would_be(tmp_path):
    pq.write_table(pa.table({"town": ["Köln", " Köln"]}), tmp_path / "in.parquet")
    assert counted_column("in.parquet", tmp_path, "town", TOWNS, encoding="latin-1", trim=True) == {"Köln": 2}


def test_a_byte_order_mark_and_another_encoding_contradict_each_other(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    source = list_source(str(tmp_path), base=tmp_path)
    check_metadata(source, columns=["a"], reading=RecordReading())
    with pytest.raises(InputRefused, match="byte order mark"):
        check_metadata(source, columns=["a"], reading=RecordReading(encoding="latin-1"))


def test_only_what_is_not_usual_is_part_of_what_a_charge_is_bound_to():
    assert RecordReading().canonical == {"separator": ",", "null": [""]}
    other = RecordReading(quoting="none", encoding="cp1252", trim=True, decimal=",", whole_floats=True)
    assert other.canonical == {
        "separator": ",", "null": [""], "quoting": "none", "encoding": "cp1252", "trim": True, "decimal": ",",
        "whole_floats": True,
    }  # fmt: skip
