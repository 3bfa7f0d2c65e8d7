"""The input's files: every one once, in a lasting order, refused by metadata alone where they do not fit."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity
from crowdblend.tasks.destinations import output_at
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, manifest_bytes, plan_chunks
from crowdblend.tasks.readers.csv_header import LINE_LIMIT, RANGE_BYTES, CsvChunk
from crowdblend.tasks.readers.csv_records import CSV
from crowdblend.tasks.readers.file_formats import Chunk, group_chunks, shared_chunks
from crowdblend.tasks.readers.parquet_records import PARQUET
from crowdblend.tasks.readers.source_files import SourceFile, open_input
from crowdblend.tasks.readers.values import RecordReading

READING = RecordReading(separator=";")

SECRET = b"SECRET-VALUE"


def put(folder, *names: str, content: bytes = b"a;b\n1;2\n") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def names(source) -> list[str]:
    return [os.path.basename(file.path) for file in source.files]


def test_files_folders_and_patterns_are_listed_in_order(tmp_path):
    put(tmp_path, "in/b.csv", "in/a.CSV", "in/deep/c.txt", "in/.hidden.csv", "in/_log/x.csv", "in/_SUCCESS")
    listed = list_source("in", base=tmp_path)
    assert names(listed) == ["a.CSV", "b.csv", "c.txt"]
    assert listed.file_format == CSV
    assert [file.size for file in listed.files] == [8, 8, 8]
    assert names(list_source("in/b.csv", base=tmp_path)) == ["b.csv"]
    assert names(list_source("in/*.csv", base=tmp_path)) == ["b.csv"]
    assert names(list_source("in/**/*.txt", base=tmp_path)) == ["c.txt"]
    assert list_source(str(tmp_path / "in"), base=tmp_path / "elsewhere") == listed
    assert list_source(f"file://{tmp_path}/in", base=tmp_path) == listed


@pytest.mark.parametrize("name", ["people.csv", "people.xlsx"])
@pytest.mark.parametrize("protocol", ["ftp", "sftp", "https", "s3"])
def test_a_url_with_a_password_is_refused_and_not_repeated(tmp_path, protocol, name):
    url = f"{protocol}://anna:Zan@zibar7@store.example/in/{name}"
    for look in (
        lambda: list_source(url, base=tmp_path),
        lambda: output_at(url, base=tmp_path),
        lambda: open_input(url),
    ):
        with pytest.raises(InputRefused, match="holds a password") as refused:
            look()
        assert "zibar7" not in f"{refused.value.where} {refused.value.message}"
    assert str(output_at("sftp://anna@store.example:22/out", base=tmp_path)) == "sftp://anna@store.example:22/out"
    assert str(output_at("s3://bucket/a:b@c", base=tmp_path)) == "s3://bucket/a:b@c"


def test_a_url_is_listed_as_a_folder_is():
    for name in ("b.csv", "deep/a.csv", "_temporary/x.csv"):
        with fsspec.open(f"memory://listing/{name}", "wb") as file:
            file.write(b"a;b\n")
    assert names(list_source("memory://listing", base=None)) == ["b.csv", "a.csv"]
    assert names(list_source("memory://listing/*.csv", base=None)) == ["b.csv"]
    single = list_source("memory://listing/b.csv", base=None)
    assert names(single) == ["b.csv"]
    check_metadata(single, columns=["b"], reading=READING)


def test_a_file_listed_twice_is_refused_also_by_link(tmp_path):
    put(tmp_path, "one/a.csv", "two/a.csv", "three/a.csv")
    (tmp_path / "one/b.csv").symlink_to(tmp_path / "one/a.csv")
    os.link(tmp_path / "two/a.csv", tmp_path / "two/b.csv")
    (tmp_path / "three/deep").mkdir()
    (tmp_path / "three/deep/loop").symlink_to(tmp_path / "three")
    for source in ("one", "two", "one/*", "two/?.csv"):
        with pytest.raises(InputRefused, match="same file"):
            list_source(source, base=tmp_path)
    with pytest.raises(InputRefused, match="reached twice"):
        list_source("three", base=tmp_path)


@pytest.mark.parametrize(
    ("files", "source", "what"),
    [
        ([], "none.csv", "cannot be found"),
        ([], "none/*.csv", "no file of records"),
        (["in/_x.csv"], "in", "no file of records"),
        (["in/a.csv", "in/b.parquet"], "in", "one format"),
        (["in/a.csv", "in/README.md"], "in", "ends in none"),
        (["a.xlsx"], "a.xlsx", "spreadsheet"),
        (["a.csv.bz2"], "a.csv.bz2", "compressed"),
        (["a.parquet.gz"], "a.parquet.gz", "compressed"),
        (["in/a.csv", "in/b.csv.ZIP"], "in", "compressed"),
        ([], "nosuchprotocol://x/a.csv", "cannot be reached"),
        ([], "memory://nothing/a.csv", "cannot be reached"),
        ([], "simplecache::memory://x/a.csv", "chained"),
    ],
)
def test_sources_that_cannot_be_taken_are_refused(tmp_path, files, source, what):
    put(tmp_path, *files)
    with pytest.raises(InputRefused, match=what):
        list_source(source, base=tmp_path)


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputRefused, match="regular"):
        list_source("pipe.csv", base=tmp_path)


def test_the_manifest_changes_with_every_change(tmp_path):
    put(tmp_path, "in/a.csv", "in/b.csv")
    before = manifest_bytes(list_source("in", base=tmp_path))
    assert manifest_bytes(list_source("in", base=tmp_path)) == before
    os.utime(tmp_path / "in/a.csv", ns=(1, 1))
    touched = manifest_bytes(list_source("in", base=tmp_path))
    put(tmp_path, "in/a.csv", content=b"a;b\n1;23\n")
    grown = manifest_bytes(list_source("in", base=tmp_path))
    assert len({before, touched, grown}) == 3


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the file is empty"),
        (b"a;b\r" + SECRET + b";2\r", "carriage return alone"),
        (b"a;b\r" + SECRET + b';"2\n3"\r', "carriage return alone"),
        (b"a\0;\0b\0\n" + SECRET, "UTF-16"),
        (b'"a;b' + b"x" * LINE_LIMIT, "quote in it not close"),
        (b"\n" + SECRET, "no header"),
        (b"  \r\n" + SECRET, "no header"),
        (SECRET + b";2\n3;4\n", "does not name 'a', 'b'"),
        (b"a;c\n" + SECRET, "does not name 'b'"),
        (b"a,b\n" + SECRET + b",2\n", "separator ','"),
        (b"a\tb\n" + SECRET, "separator '.t'"),
        (SECRET + b"\n", "one field only"),
        (b"a;b;a\n" + SECRET, "names the column 'a' 2 times"),
        (b'"a;b\n' + SECRET, "quotes"),
        (b"a;b;\xff" + SECRET + b"\n", "not UTF-8"),
        ("a;b\n1;2\n".encode("utf-16"), "UTF-16"),
        (b"x" * (LINE_LIMIT + 5), "longer than"),
    ],
)
def test_csv_headers_that_do_not_fit_are_refused_without_a_value(tmp_path, content, what):
    put(tmp_path, "in.csv", content=content)
    with pytest.raises(InputRefused, match=what) as refusal:
        check_metadata(list_source("in.csv", base=tmp_path), columns=["a", "b"], reading=READING)
    assert "in.csv" in refusal.value.where
    assert SECRET.decode() not in refusal.value.message


@pytest.mark.parametrize("separator", ["", ";;", '"', "\n", "\r", "\0", "é"])
def test_a_separator_that_cannot_part_fields_is_refused(tmp_path, separator):
    put(tmp_path, "in.csv")
    with pytest.raises(InputRefused, match="one ASCII character"):
        check_metadata(list_source("in.csv", base=tmp_path), columns=["a"], reading=RecordReading(separator=separator))


def test_the_header_says_where_columns_stand_file_by_file(tmp_path):
    put(tmp_path, "in/a.csv", content=b"\xef\xbb\xbfx;a;b\r\n1;2;3\n")
    put(tmp_path, "in/b.csv", content=b'"b";"a"')
    one, two = check_metadata(list_source("in", base=tmp_path), columns=["a", "b"], reading=READING).layouts
    assert (one.first_record, one.fields, one.positions) == (10, 3, (1, 2))
    assert (two.first_record, two.fields, two.positions) == (7, 2, (1, 0))


def test_a_column_missing_in_one_file_names_that_file(tmp_path):
    put(tmp_path, "in/a.csv")
    put(tmp_path, "in/b.csv", content=b"a;x\n")
    with pytest.raises(InputRefused, match="'b'") as refusal:
        check_metadata(list_source("in", base=tmp_path), columns=["a", "b"], reading=READING)
    assert "b.csv" in refusal.value.where


TEXT = pa.array(["x"])
FITTING = {
    "text": TEXT,
    "large": TEXT.cast(pa.large_string()),
    "dictionary": TEXT.dictionary_encode(),
    "integer": pa.array([1], type=pa.int16()),
    "unsigned": pa.array([1], type=pa.uint64()),
    "float": pa.array([1.5]),
    "boolean": pa.array([True]),
    "date": pa.array([datetime.date(2026, 1, 2)]),
    "decimal": pa.array([Decimal(3)], type=pa.decimal128(9, 0)),
    "places": pa.array([Decimal("3.5")]),
    "null": pa.nulls(1),
}
FITTING["time"] = pa.array([datetime.datetime(2026, 1, 2)])  # noqa: DTZ001 - a type, not a time
UNFIT = {
    "list": pa.array([["x"]]),
    "struct": pa.array([{"x": "y"}]),
    "binary": pa.array([b"x"]),
    "time with a zone": pa.array([datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)]),
}


@pytest.mark.parametrize("kind", [*FITTING, *UNFIT])
def test_parquet_types_map_or_are_refused_with_the_column(tmp_path, kind):
    pq.write_table(pa.table({"a": TEXT, "b": (FITTING | UNFIT)[kind]}), tmp_path / "in.parquet")
    listed = list_source("in.parquet", base=tmp_path)
    if kind in FITTING:
        check_metadata(listed, columns=["a", "b"], reading=READING)
        return
    check_metadata(listed, columns=["a"], reading=READING)
    with pytest.raises(InputRefused, match="'b' has the type"):
        check_metadata(listed, columns=["a", "b"], reading=READING)


def test_a_dictionary_that_the_reader_cannot_decode_is_refused_before_the_charge(tmp_path):
    table = pa.table({"a": TEXT, "b": TEXT.dictionary_encode()})
    encoding = {"a": "PLAIN", "b": "DELTA_BYTE_ARRAY"}
    pq.write_table(table, tmp_path / "in.parquet", use_dictionary=False, column_encoding=encoding)
    listed = list_source("in.parquet", base=tmp_path)
    check_metadata(listed, columns=["a"], reading=READING)
    with pytest.raises(InputRefused, match="'b' is declared a dictionary"):
        check_metadata(listed, columns=["b"], reading=READING)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1 no Parquet at all PAR1", b"\0" * 100])
def test_a_broken_footer_is_refused(tmp_path, content):
    put(tmp_path, "in.parquet", content=content)
    with pytest.raises(InputRefused, match="footer") as refusal:
        check_metadata(list_source("in.parquet", base=tmp_path), columns=["a"], reading=READING)
    assert refusal.value.where.endswith("in.parquet")


def test_a_cut_file_and_missing_or_doubled_columns_are_refused(tmp_path):
    pq.write_table(pa.table({"a": TEXT}), tmp_path / "in.parquet")
    listed = list_source("in.parquet", base=tmp_path)
    with pytest.raises(InputRefused, match="no column 'b'"):
        check_metadata(listed, columns=["a", "b"], reading=READING)
    pq.write_table(pa.Table.from_arrays([TEXT, TEXT], names=["a", "a"]), tmp_path / "two.parquet")
    with pytest.raises(InputRefused, match="2 times"):
        check_metadata(list_source("two.parquet", base=tmp_path), columns=["a"], reading=READING)
    whole = (tmp_path / "in.parquet").read_bytes()
    put(tmp_path, "cut.parquet", content=whole[:-9])
    with pytest.raises(InputRefused, match="footer"):
        check_metadata(list_source("cut.parquet", base=tmp_path), columns=["a"], reading=READING)


def test_chunks_are_row_groups_and_groups_of_them_are_tasks(tmp_path):
    table = pa.table({"a": pa.array(["x", "y"] * 50)})
    for name in ("in/a.parquet", "in/b.parquet"):
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / name, row_group_size=30)
    chunks = plan_chunks(check_metadata(list_source("in", base=tmp_path), columns=["a"], reading=READING))
    assert [(c.identity.file, c.identity.block, c.records) for c in chunks] == [
        (file, block, records) for file in (0, 1) for block, records in enumerate((30, 30, 30, 10))
    ]
    assert [len(group) for group in group_chunks(chunks, task_records=65)] == [2, 2, 2, 2]
    assert [len(group) for group in group_chunks(chunks, task_records=1)] == [1] * 8
    assert [len(group) for group in group_chunks(chunks)] == [8]
    assert [len(group) for group in group_chunks(chunks, task_bytes=1)] == [1] * 8
    assert group_chunks([]) == []


def test_csv_ranges_are_of_a_fixed_size(tmp_path):
    path = tmp_path / "in.csv"
    put(tmp_path, "in.csv")
    os.truncate(path, 2 * RANGE_BYTES + 5)
    chunks = plan_chunks(check_metadata(list_source("in.csv", base=tmp_path), columns=["a"], reading=READING))
    assert [(c.start, c.stop, c.identity.block) for c in chunks if isinstance(c, CsvChunk)] == [
        (4, RANGE_BYTES, 0),
        (RANGE_BYTES, 2 * RANGE_BYTES, 1),
        (2 * RANGE_BYTES, 2 * RANGE_BYTES + 5, 2),
    ]
    assert len(group_chunks(chunks)) == 3
    put(tmp_path, "empty.csv", content=b"a;b\n")
    empty = plan_chunks(check_metadata(list_source("empty.csv", base=tmp_path), columns=["a"], reading=READING))
    assert empty == ()


def test_processes_share_larger_tasks_but_all_have_some():
    file = SourceFile(path="p", size=1, version="", inode=None, device=None)
    chunks = [
        Chunk(file=file, read_by=PARQUET, identity=ChunkIdentity(file=0, block=block), records=1 << 20, read_bytes=1)
        for block in range(64)
    ]
    for workers, tasks in ((1, 16), (2, 16), (4, 16), (8, 32), (16, 64), (100, 64)):
        groups = shared_chunks(chunks, workers=workers)
        assert len(groups) == tasks
        assert [chunk for group in groups for chunk in group] == chunks
    assert len(shared_chunks(chunks[:3], workers=2)) == 3
    assert shared_chunks([], workers=2) == []
