"""Lake tables: their folder's files are not their records, so none is read that is named by itself or from above."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from typing import ClassVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.inputs.list import list_source
from fsspec.implementations.memory import MemoryFileSystem

FORMATS = {"delta": "Delta Lake", "iceberg": "Iceberg", "old-iceberg": "Iceberg", "hudi": "Hudi"}


def write_delta_table(folder) -> None:
    """A table as Delta Lake's protocol lays it out, after a DELETE and an UPDATE: two files, of which one is the table.

    The people 0 to 9 were deleted and 3990 to 3999 updated; the first version's file is still there (no VACUUM yet).
    """
    (folder / "_delta_log").mkdir(parents=True)
    columns = [("id", "long"), ("sex", "string")]
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    first = pa.table({"id": range(4000), "sex": ["F", "M"] * 2000})
    second = pa.table({"id": range(10, 4000), "sex": ["F", "M"] * 1990 + ["M"] * 10})
    adds = []
    for name, table in (("part-00000-first.parquet", first), ("part-00000-second.parquet", second)):
        pq.write_table(table, folder / name)
        size = (folder / name).stat().st_size
        adds.append(
            {"add": {"path": name, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}}
        )
    schema = json.dumps({"type": "struct", "fields": fields})
    versions = [
        [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {
                "metaData": {
                    "id": "00000000-0000-4000-8000-000000000000",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": schema,
                    "partitionColumns": [],
                    "configuration": {},
                }
            },
            adds[0],
        ],
        [{"remove": {"path": "part-00000-first.parquet", "deletionTimestamp": 0, "dataChange": True}}, adds[1]],
    ]
    for number, actions in enumerate(versions):
        text = "".join(json.dumps(action) + "\n" for action in actions)
        (folder / "_delta_log" / f"{number:020}.json").write_text(text)


def write_table(kind: str, folder) -> None:
    """A table's folder as its format's specification lays it out, with one file of records in a partition."""
    if kind == "delta":
        write_delta_table(folder)
    marks = {
        "iceberg": ["metadata/00000-6c8f.metadata.json", "metadata/snap-1-1-6c8f.avro"],
        "old-iceberg": ["metadata/v1.metadata.json.gz", "metadata/version-hint.text"],
        "hudi": [".hoodie/hoodie.properties", "data/y=1/.hoodie_partition_metadata"],
    }
    for name in marks.get(kind, []):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
    records = folder / "data" / "y=1" / "a.parquet"
    records.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"sex": ["F"]}), records)


def refusal(source: str, base=None) -> str:
    with pytest.raises(InputRefused) as refused:
        list_source(source, base=base)
    assert refused.value.exit_code == 2
    assert "Nothing was read" in refused.value.message
    return refused.value.message


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "source",
    [
        "lake",
        ".",
        "lake/people/data",
        "lake/people/data/y=1",
        "lake/people/data/y=1/a.parquet",
        "lake/people/data/*/a.parquet",
        "lake/*/data/y=1/*.parquet",
        "lake/**/*.parquet",
        "lake/p*",
        "linked",
        "linked.parquet",
        "lake/people/../people/data/y=1/a.parquet",
    ],
)
def test_a_table_is_refused_from_above_within_and_below(tmp_path, kind, source):
    write_table(kind, tmp_path / "lake" / "people")
    (tmp_path / "linked").symlink_to(tmp_path / "lake" / "people" / "data" / "y=1")
    (tmp_path / "linked.parquet").symlink_to(tmp_path / "lake" / "people" / "data" / "y=1" / "a.parquet")
    said = refusal(source, tmp_path)
    assert f"belongs to a table of {FORMATS[kind]}" in said
    assert refusal(f"file://{tmp_path}/{source}", tmp_path).count(FORMATS[kind]) == 2


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "source",
    [
        "",
        "people/data",
        "people/data/y=1/a.parquet",
        "people/data/*/a.parquet",
        "*/data/y=1/*.parquet",
        "**/*.parquet",
        "people/data/y=1/*.parquet",
    ],
)
def test_a_table_in_an_object_store_is_refused_from_above_within_and_below(tmp_path, kind, source):
    write_table(kind, tmp_path / "people")
    store = fsspec.filesystem("memory")
    root = f"/lake-{tmp_path.name}"
    store.put(str(tmp_path / "people"), f"{root}/people", recursive=True)
    for name in ("people/data/y=2/a.parquet", "plain/data/y=1/a.parquet"):
        store.pipe_file(f"{root}/{name}", (tmp_path / "people/data/y=1/a.parquet").read_bytes())
    assert f"belongs to a table of {FORMATS[kind]}" in refusal(f"memory:/{root}/{source}")


@pytest.mark.slow
@pytest.mark.parametrize("source", ["lake/people", "lake/people/", "linked"])
def test_a_table_of_hudi_and_one_with_empty_metadata_are_refused_themselves(tmp_path, source):
    (tmp_path / "linked").symlink_to(tmp_path / "lake" / "people")
    write_table("hudi", tmp_path / "lake" / "people")
    assert "belongs to a table of Hudi" in refusal(source, tmp_path)
    shutil.rmtree(tmp_path / "lake")
    for kind in ("iceberg", "old-iceberg"):
        write_table(kind, tmp_path / "lake" / "people")
        assert "only its catalog knows" in refusal(source, tmp_path)


def test_deleted_people_lie_in_the_folder_and_are_not_read(tmp_path, desk):
    """The whole command: files of a table whose people were deleted can't be named, and nothing is charged."""
    write_delta_table(tmp_path / "register")
    assert len({*pq.read_table(tmp_path / "register", columns=["id"])["id"].to_pylist()}) == 4000
    desk.add_dataset()
    before = desk("ledger", "show", "--json").json
    for source in ("register/*.parquet", "register/part-00000-second.parquet"):
        answer = desk("run", desk.write_spec(source=source), "--json")
        assert answer.code == 2, answer
        assert "belongs to a table of Delta Lake (it has _delta_log)" in answer.err
        assert len(answer.err.strip().splitlines()) == 1
    assert desk("ledger", "show", "--json").json == before
    begun = desk("spec", "new", "--from", "register/part-00000-second.parquet", "--output", "begun.toml")
    assert begun.code == 2
    assert "Delta Lake" in begun.err
    preview = desk("preview", desk.write_spec(), "--public", "register/*.parquet", "--json")
    assert preview.code == 2
    assert "Delta Lake" in preview.err
    assert not (tmp_path / "out").exists()


def test_what_only_looks_like_a_table_is_read(tmp_path):
    """The controls: a folder called metadata without Iceberg's files, a file of that name, an unread table beside."""
    for name in ("in/metadata/a.csv", "in/b.csv", "flat/a.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a;b\n1;2\n")
    (tmp_path / "flat" / "metadata").write_text("")
    write_table("delta", tmp_path / "in" / "_archive")
    assert len(list_source("in", base=tmp_path).files) == 2
    assert len(list_source("flat/*.csv", base=tmp_path).files) == 1
    store = fsspec.filesystem("memory")
    store.put(str(tmp_path), f"/plain-{tmp_path.name}", recursive=True)
    write_table("delta", tmp_path / "beside")
    store.put(str(tmp_path / "beside"), f"/plain-{tmp_path.name}/beside", recursive=True)
    assert len(list_source(f"memory://plain-{tmp_path.name}/in", base=None).files) == 2
    assert len(list_source(f"memory://plain-{tmp_path.name}/*/b.csv", base=None).files) == 1
    assert "Delta Lake" in refusal(f"memory://plain-{tmp_path.name}")


class CountingStore(MemoryFileSystem):
    """A store that counts what it is asked, and forbids looking at what begins with a prefix."""

    asked: ClassVar[Counter] = Counter()
    forbidden = "nothing"

    def info(self, path, **options):
        self.asked["info"] += 1
        if self.forbidden in path:
            raise PermissionError("403")
        return super().info(path, **options)

    def ls(self, path, detail=True, **options):
        self.asked["ls"] += 1
        return super().ls(path, detail=detail, **options)

    def find(self, path, **options):
        self.asked["find"] += 1
        return super().find(path, **options)


@pytest.fixture
def counting():
    fsspec.register_implementation("memory", CountingStore, clobber=True)
    yield CountingStore()
    CountingStore.forbidden = "nothing"
    fsspec.register_implementation("memory", MemoryFileSystem, clobber=True)


def questions(source: str) -> int:
    CountingStore.asked.clear()
    list_source(source, base=None)
    return CountingStore.asked["info"]


def test_a_store_is_asked_as_often_for_many_files_as_for_few(tmp_path, counting):
    for size in (2, 300):
        for number in range(size):
            counting.pipe_file(f"/{tmp_path.name}/{size}/y={number}/a.csv", b"a;b\n")
    for pattern in ("", "/*/a.csv", "/**/a.csv"):
        few, many = (questions(f"memory://{tmp_path.name}/{size}{pattern}") for size in (2, 300))
        assert few == many < 30


def test_what_cannot_be_looked_at_is_refused(tmp_path, counting):
    counting.pipe_file(f"/{tmp_path.name}/in/a.csv", b"a;b\n")
    CountingStore.forbidden = f"/{tmp_path.name}/_delta_log"
    assert "cannot be seen (PermissionError)" in refusal(f"memory://{tmp_path.name}/in/a.csv")


@pytest.mark.parametrize("source", ["in/a.csv", "in", "in/*.csv"])
def test_a_folder_above_that_cannot_be_listed_is_refused(tmp_path, source):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a;b\n1;2\n")
    loop = tmp_path / "metadata"
    loop.symlink_to(loop)  # as a folder without rights, for an account that has them all
    assert "cannot be seen (Too many levels of symbolic links)" in refusal(source, tmp_path)
    os.unlink(loop)
    assert len(list_source(source, base=tmp_path).files) == 1


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    assert "NUL" in refusal("people\0.csv", tmp_path)
