"""Versions of real lake tables: exactly the live records are counted, and what isn't understood is refused."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.inputs.delta_log import FEATURES
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.schema import read_names
from crowdblend.tasks.inputs.source import check_metadata, manifest_bytes
from crowdblend.tasks.readers.values import RecordReading
from support.counted import counted as counted_at

VECTORS = Path(__file__).parents[1] / "vectors" / "delta"
WRITTEN = json.loads((VECTORS / "read_by_deltalake.json").read_text(encoding="utf-8"))
COLUMNS = {
    "colour": ValueHierarchy.from_values(["blue", "green", "red"]),
    "age": IntervalHierarchy(lower=0, upper=100, widths=(10,)),
    "town": ValueHierarchy.from_values(["Lyon", "Lille", "a b/c%=é"]),
}


def counted(source: str, base: Path, *, names=tuple(COLUMNS), **options) -> Counter:
    return counted_at(source, base, {name: COLUMNS[name] for name in names}, **options)


def refusal(source: str, base: Path, *, version: int | None = None) -> str:
    with pytest.raises(InputRefused) as refused:
        check_metadata(list_source(source, base=base, version=version), columns=tuple(COLUMNS), reading=RecordReading())
    assert refused.value.exit_code == 2
    assert "Nothing was read" in refused.value.message
    return refused.value.message


def labelled(rows) -> Counter:
    """What deltalake read, with the label that null has."""
    return Counter({(colour, age, "*" if town == "None" else town): count for colour, age, town, count in rows})


@pytest.fixture
def delta(tmp_path) -> Path:
    for name in ("register", "towns"):
        shutil.copytree(VECTORS / name, tmp_path / name)
    return tmp_path


def last_version(table: Path) -> int:
    return max(int(path.stem) for path in (table / "_delta_log").glob("*[0-9].json"))


def commit(table: Path, *actions: dict) -> None:
    """One more version of a table."""
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (table / "_delta_log" / f"{last_version(table) + 1:020}.json").write_text(text, encoding="utf-8")


def actions_of(table: Path, kind: str) -> list[dict]:
    logs = sorted((table / "_delta_log").glob("*[0-9].json"))
    actions = [json.loads(line) for path in logs for line in path.read_text(encoding="utf-8").splitlines()]
    return [action[kind] for action in actions if kind in action]


@pytest.mark.parametrize("written", WRITTEN)
def test_every_version_has_the_records_that_deltalake_reads_of_it(written):
    name, version = written.split()
    assert counted(name, VECTORS, version=int(version)) == labelled(WRITTEN[written])


@pytest.mark.parametrize("name", ["register", "towns"])
def test_the_last_version_is_read_where_none_is_named_and_from_a_store(name, tmp_path):
    last = f"{name} {last_version(VECTORS / name)}"
    assert counted(f"{name}/", VECTORS) == labelled(WRITTEN[last])
    store = fsspec.filesystem("memory")
    store.put(str(VECTORS / name), f"/{tmp_path.name}/{name}", recursive=True)
    assert counted(f"memory://{tmp_path.name}/{name}", Path()) == labelled(WRITTEN[last])
    before = list_source(f"memory://{tmp_path.name}/{name}", base=Path(), version=0)
    store.rm(before.files[0].path.removeprefix("memory://"))
    assert "is gone" in refusal(f"memory://{tmp_path.name}/{name}", Path(), version=0)


def test_a_version_without_its_first_commits_is_read_from_the_checkpoint(delta):
    log = delta / "register" / "_delta_log"
    for number in (0, 1):
        (log / f"{number:020}.json").unlink()
    assert counted("register", delta) == labelled(WRITTEN["register 4"])
    assert counted("register", delta, version=2) == labelled(WRITTEN["register 2"])
    assert "needs the log's version 0, which is gone" in refusal("register", delta, version=1)
    (log / f"{3:020}.json").unlink()
    assert "needs the log's version 3, which is gone" in refusal("register", delta)
    (log / f"{2:020}.checkpoint.parquet").write_bytes(b"PAR1")
    assert "the checkpoint cannot be read" in refusal("register", delta, version=2)


def test_a_version_that_does_not_exist_and_one_of_plain_files_are_refused(delta):
    assert "there is no version 5; the last one is 4" in refusal("register", delta, version=5)
    pq.write_table(pa.table({"colour": ["red"], "age": [1], "town": ["Lyon"]}), delta / "a.parquet")
    assert "has versions, and the source is none" in refusal("a.parquet", delta, version=1)
    (delta / "empty" / "_delta_log").mkdir(parents=True)
    assert "neither a version nor a checkpoint" in refusal("empty", delta)


def test_a_file_that_a_vacuum_removed_is_told_and_read_again_when_it_is_back(delta):
    listed = list_source("register", base=delta, version=0)
    [file] = listed.files
    away = delta / "away"
    os.rename(file.path, away)
    said = refusal("register", delta, version=0)
    assert "is gone" in said
    assert counted("register", delta) == labelled(WRITTEN["register 4"])
    away.rename(file.path)
    assert manifest_bytes(list_source("register", base=delta, version=0)) == manifest_bytes(listed)
    with Path(file.path).open("ab") as grown:
        grown.write(b"\0")
    assert "doesn't have the size" in refusal("register", delta, version=0)


def test_a_manifest_tells_versions_and_partitions_apart(delta):
    def manifest(version):
        return json.loads(manifest_bytes(list_source("towns", base=delta, version=version)))

    assert manifest(0)["table"] == ["Delta Lake", 0]
    assert manifest(1)["table"] == ["Delta Lake", 1]
    assert any(["town", None] in file for file in manifest(0)["files"])
    pq.write_table(pa.table({"age": [1]}), delta / "plain.parquet")
    assert "table" not in json.loads(manifest_bytes(list_source("plain.parquet", base=delta)))


PATHS = {
    "../outside.parquet": "isn't below the table's folder",
    "a/%2E%2E/%2e%2e/outside.parquet": "isn't below the table's folder",
    "%2Foutside.parquet": "isn't below the table's folder",
    "/outside.parquet": "isn't below the table's folder",
    "./a.parquet": "isn't below the table's folder",
    "file:///outside.parquet": "by a URL",
    "s3://elsewhere/a.parquet": "by a URL",
    "a%zz.parquet": "not followed by the two digits",
    "a%ff.parquet": "not followed by the two digits",
    "linked/a.parquet": "a link leads out",
    "": "isn't below the table's folder",
}


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_leave_the_folder_are_refused(delta, path):
    table = delta / "register"
    (delta / "elsewhere").mkdir()
    (table / "linked").symlink_to(delta / "elsewhere")
    shutil.copy(next(table.glob("*.parquet")), delta / "elsewhere" / "a.parquet")
    shutil.copy(next(table.glob("*.parquet")), delta / "outside.parquet")
    size = (delta / "outside.parquet").stat().st_size
    commit(table, {"add": {"path": path, "partitionValues": {}, "size": size}})
    assert PATHS[path] in refusal("register", delta)


VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}
NOT_UNDERSTOOD = {
    "a feature of readers": [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v2Checkpoint"]}}
    ],
    "a later protocol": [{"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}],
    "a protocol without number": [{"protocol": {}}],
    "an unknown action": [{"sidecar": {"path": "x"}}],
    "two actions in one line": [{"txn": {}, "remove": {"path": "x"}}],
    "no object": [{"add": ["x"]}],
    "no path": [{"add": {"partitionValues": {}, "size": 1}}],
    "no size": [{"add": {"path": "x", "partitionValues": {}}}],
    "other partitions": [{"add": {"path": "x", "partitionValues": {"town": "Lyon"}, "size": 1}}],
    "a partition's number": [{"add": {"path": "x", "partitionValues": {"town": 1}, "size": 1}}],
    "partitions in a list": [{"add": {"path": "x", "partitionValues": [1], "size": 1}}],
    "a path of half a character": [{"add": {"path": "\ud800", "partitionValues": {}, "size": 1}}],
    "features that are no names": [{"protocol": {"minReaderVersion": 3, "readerFeatures": [{}]}}],
    "added and removed": [{"add": {"path": "x", "partitionValues": {}, "size": 1}}, {"remove": {"path": "x"}}],
    "added twice": [
        {"add": {"path": "x y", "partitionValues": {}, "size": 1}},
        {"add": {"path": "x%20y", "partitionValues": {}, "size": 1}},
    ],
}


@pytest.mark.parametrize("what", NOT_UNDERSTOOD)
def test_what_is_not_understood_is_refused(delta, what):
    commit(delta / "register", *NOT_UNDERSTOOD[what])
    assert "be determined" in refusal("register", delta)
    assert counted("register", delta, version=4) == labelled(WRITTEN["register 4"])


METADATA = {
    "column mapping": (lambda kept: kept["configuration"].update({"delta.columnMapping.mode": "name"}), "mapped"),
    "another format": (lambda kept: kept.update(format={"provider": "orc", "options": {}}), "not Parquet"),
    "no schema": (lambda kept: kept.update(schemaString="[]"), "schema is not understood"),
    "a schema without names": (lambda kept: kept.update(schemaString='{"fields": [{}]}'), "schema is not understood"),
    "settings in a list": (lambda kept: kept.update(configuration=[1]), "be determined"),
    "a format by its name": (lambda kept: kept.update(format="parquet"), "be determined"),
    "partitioned by no name": (lambda kept: kept.update(partitionColumns=[{}]), "be determined"),
    "partitioned by a part": (lambda kept: kept.update(partitionColumns=["town.name"]), "by a part of one"),
    "a column twice": (
        lambda kept: kept.update(
            schemaString=json.dumps(
                {"fields": [{"name": "colour", "type": "string"}, {"name": "colour", "type": "string"}]}
            )
        ),
        "two columns of one name",
    ),
    "another column": (
        lambda kept: kept.update(schemaString=json.dumps({"fields": [{"name": "colour", "type": "string"}]})),
        "there is no column 'age'",
    ),
}


@pytest.mark.parametrize("what", METADATA)
def test_schemas_and_column_mapping_are_refused(delta, what):
    change, said = METADATA[what]
    [metadata] = actions_of(delta / "register", "metaData")
    change(metadata)
    commit(delta / "register", {"metaData": metadata})
    assert said in refusal("register", delta)


def test_a_column_that_files_were_written_without_is_refused(delta):
    [metadata] = actions_of(delta / "register", "metaData")
    schema = json.loads(metadata["schemaString"])
    schema["fields"].append({"name": "income", "type": "long", "nullable": True, "metadata": {}})
    commit(delta / "register", {"metaData": metadata | {"schemaString": json.dumps(schema)}})
    with pytest.raises(InputRefused, match=r"no column 'income'.*lack it"):
        check_metadata(list_source("register", base=delta), columns=["income"], reading=RecordReading())


def test_deletion_vectors_are_refused_with_the_reason_until_their_files_are_rewritten(delta):
    """A DELETE that writes vectors replaces a file by itself with a vector; a purge replaces that by a new file."""
    table = delta / "register"
    [file] = list_source("register", base=delta, version=2).files
    name, size = Path(file.path).name, file.size
    old = {"path": name, "partitionValues": {}, "size": size}
    features = ["deletionVectors", "columnMapping"]
    commit(table, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}})
    assert counted("register", delta) == labelled(WRITTEN["register 4"])
    commit(table, {"remove": {"path": name}}, {"add": old | {"deletionVector": VECTOR}})
    said = refusal("register", delta)
    assert "deletion vectors" in said
    assert "PURGE" in said
    shutil.copy(file.path, table / "rewritten.parquet")
    commit(table, {"remove": old | {"deletionVector": VECTOR}}, {"add": old | {"path": "rewritten.parquet"}})
    assert counted("register", delta) == labelled(WRITTEN["register 4"])
    assert "deletionVectors" in FEATURES


@pytest.mark.parametrize("line", ["[]", "{", '{"add": 1}', "null", '{"a": ' * 5_000])
def test_a_damaged_log_is_refused(delta, line):
    (delta / "register" / "_delta_log" / f"{5:020}.json").write_text(line + "\n", encoding="utf-8")
    assert "be determined" in refusal("register", delta)


def test_partition_columns_alone_and_of_types_that_have_no_text(delta):
    assert counted("towns", delta, names=("town",)).total() == counted("towns", delta).total()
    assert counted("towns", delta, names=("town", "age"), null_values=("", "Lyon"))["Lyon", "20"] == 0
    [metadata] = actions_of(delta / "towns", "metaData")
    schema = metadata["schemaString"].replace('"type":"integer"', '"type":"timestamp"')
    assert schema != metadata["schemaString"]
    commit(delta / "towns", {"metaData": metadata | {"schemaString": schema}})
    assert "partitioned by the column 'age'" in refusal("towns", delta)
    kinds = {column.name: column.kind for column in read_names("towns", base=delta).columns}
    assert kinds == {"colour": "text", "town": "text", "age": "unmapped"}


def test_two_tables_in_one_folder_and_a_table_in_another_are_refused(delta):
    metadata = delta / "register" / "metadata"
    metadata.mkdir()
    (metadata / "v1.metadata.json").write_text("{}", encoding="utf-8")
    assert "of Delta Lake and of Iceberg at once" in refusal("register", delta)
    shutil.move(delta / "towns", delta / "register" / "towns")
    assert "belongs to a table" in refusal("register/towns", delta)


# Iceberg


@pytest.fixture
def iceberg(tmp_path):
    """A table of Iceberg's own library: 1,200 records, of which red ones were deleted and blue ones are green now."""
    from pyiceberg.catalog.sql import SqlCatalog

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYICEBERG_HOME", str(tmp_path))
        catalog = SqlCatalog("tests", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("n")
    colours = pa.array(["blue", "green", "red"] * 400)
    people = pa.table({"colour": colours, "age": pa.array([20, 30] * 600), "town": ["Lyon"] * 1_200})
    table = catalog.create_table("n.people", schema=people.schema)
    table.append(people)
    table.delete("colour = 'red'")
    blue = people.filter(pa.compute.equal(colours, "blue"))
    table.overwrite(blue.set_column(0, "colour", pa.array(["green"] * 400)), overwrite_filter="colour = 'blue'")
    yield table
    catalog.engine.dispose()


GREEN = Counter({("green", "20", "Lyon"): 400, ("green", "30", "Lyon"): 400})


def test_a_snapshot_has_the_records_that_pyiceberg_reads_of_it(iceberg, tmp_path):
    first, *_, last = (snapshot.snapshot_id for snapshot in iceberg.metadata.snapshots)
    assert counted(iceberg.metadata_location, tmp_path) == GREEN
    assert counted("lake/n/people", tmp_path, version=last) == GREEN
    assert counted("lake/n/people", tmp_path, version=first).total() == 1_200
    assert list_source(iceberg.metadata_location, base=tmp_path).version == last
    for snapshot in iceberg.metadata.snapshots:
        rows = iceberg.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        read = Counter(zip(*(map(str, rows[name].to_pylist()) for name in COLUMNS), strict=True))
        assert counted("lake/n/people", tmp_path, version=snapshot.snapshot_id) == read
    names = [column.name for column in read_names(iceberg.metadata_location, base=tmp_path).columns]
    assert names == list(COLUMNS)


def test_what_is_current_is_never_guessed(iceberg, tmp_path):
    assert "only its catalog knows" in refusal("lake/n/people", tmp_path)
    assert "there is no snapshot 7" in refusal("lake/n/people", tmp_path, version=7)
    assert "there is no snapshot 7" in refusal(iceberg.metadata_location, tmp_path, version=7)
    assert "belongs to a table of Iceberg" in refusal("lake/n/people/data", tmp_path)
    folder = tmp_path / "lake" / "n" / "people" / "metadata"
    shutil.copy(iceberg.metadata_location.removeprefix("file://"), folder / "v9.metadata.json")
    (folder / "version-hint.text").write_text("9", encoding="ascii")
    assert counted("lake/n/people", tmp_path) == GREEN
    (folder / "version-hint.text").write_text("../9", encoding="ascii")
    assert "only its catalog knows" in refusal("lake/n/people", tmp_path)


@pytest.mark.parametrize("next_name", ["v3.metadata.json", "v3.gz.metadata.json"])
def test_a_hint_that_stayed_behind_does_not_bring_deleted_people_back(iceberg, tmp_path, next_name):
    folder = tmp_path / "lake" / "n" / "people" / "metadata"
    created, filled, *_, last = sorted(folder.glob("*.metadata.json"))
    shutil.copy(created, folder / "v1.metadata.json")
    shutil.copy(filled, folder / "v2.metadata.json")
    (folder / "version-hint.text").write_text("2", encoding="ascii")
    assert counted("lake/n/people", tmp_path).total() == 1_200
    shutil.copy(last, folder / next_name)
    if next_name == "v3.metadata.json":
        assert counted("lake/n/people", tmp_path) == GREEN
    else:
        assert "it is compressed" in refusal("lake/n/people", tmp_path)


@pytest.mark.parametrize("warehouse", ["file://{folder}/twice", "memory:///{name}"])
def test_a_file_that_a_snapshot_names_twice_is_refused_on_this_machine_and_in_a_store(tmp_path, monkeypatch, warehouse):
    from fsspec.implementations.memory import MemoryFileSystem
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io import fsspec as table_files

    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setitem(table_files.SCHEME_TO_FS, "memory", lambda _: MemoryFileSystem())
    place = warehouse.format(folder=tmp_path, name=tmp_path.name)
    catalog = SqlCatalog(
        "twice", uri="sqlite:///:memory:", warehouse=place, **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    )
    catalog.create_namespace("n")
    people = pa.table({"colour": ["green"] * 400, "age": pa.array([20] * 400), "town": ["Lyon"] * 400})
    table = catalog.create_table("n.people", schema=people.schema)
    table.append(people)
    assert counted(table.metadata_location, tmp_path).total() == 400
    [task] = table.scan().plan_files()
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(task.file)
    assert "a record must not be read twice" in refusal(table.metadata_location, tmp_path)
    catalog.engine.dispose()


def test_a_table_that_was_copied_or_whose_manifests_are_damaged_is_refused(iceberg, tmp_path):
    [snapshot] = [one for one in iceberg.metadata.snapshots if one == iceberg.current_snapshot()]
    shutil.copytree(tmp_path / "lake", tmp_path / "copied")
    said = refusal("copied/n/people", tmp_path, version=snapshot.snapshot_id)
    assert "lies elsewhere" in said
    Path(snapshot.manifest_list.removeprefix("file://")).write_bytes(b"Obj\x01damaged")
    assert "metadata or manifests cannot be read" in refusal(iceberg.metadata_location, tmp_path)
    Path(iceberg.metadata_location.removeprefix("file://")).write_text("{}", encoding="ascii")
    assert "metadata or manifests cannot be read" in refusal(iceberg.metadata_location, tmp_path)


def test_columns_that_were_renamed_dropped_or_added_are_refused(iceberg, tmp_path):
    from pyiceberg.types import LongType, StringType

    with iceberg.update_schema() as update:
        update.rename_column("town", "place")
        update.add_column("income", LongType())
    assert "there is no column 'town' in version" in refusal(iceberg.metadata_location, tmp_path)
    assert counted(iceberg.metadata_location, tmp_path, version=iceberg.current_snapshot().snapshot_id) == GREEN
    iceberg.append(pa.table({"colour": ["red"], "age": pa.array([20]), "place": ["Lyon"], "income": pa.array([1])}))
    assert "there is no column 'town' in version" in refusal(iceberg.metadata_location, tmp_path)
    listed = list_source(iceberg.metadata_location, base=tmp_path)
    for column in ("place", "income"):
        with pytest.raises(InputRefused, match="there is no column"):
            check_metadata(listed, columns=[column], reading=RecordReading())
    with iceberg.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("colour")
    with iceberg.update_schema() as update:
        update.add_column("colour", StringType())
    iceberg.append(pa.table({"colour": ["red"], "age": pa.array([20]), "place": ["Lyon"], "income": pa.array([1])}))
    with pytest.raises(InputRefused, match="is another one in this file"):
        check_metadata(
            list_source(iceberg.metadata_location, base=tmp_path), columns=["colour"], reading=RecordReading()
        )


@pytest.mark.parametrize("content", ["POSITION_DELETES", "EQUALITY_DELETES", "DATA"])
def test_merge_on_read_is_refused_with_the_reason(iceberg, tmp_path, content):
    """Deletes as other engines write them: a manifest of deletes in the list, whatever its files are called."""
    from pyiceberg.manifest import (
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestWriterV2,
        read_manifest_list,
        write_manifest_list,
    )
    from pyiceberg.typedef import Record

    class DeleteManifest(ManifestWriterV2):
        def content(self):
            return ManifestContent.DELETES

        @property
        def _meta(self):
            return {**super()._meta, "content": "deletes"}

    snapshot = iceberg.current_snapshot()
    folder = tmp_path / "lake" / "n" / "people"
    deletes = folder / "data" / "deletes.parquet"
    data = next(iceberg.scan().plan_files().__iter__()).file.file_path
    pq.write_table(pa.table({"file_path": [data], "pos": pa.array([0])}), deletes)
    entry = DataFile.from_args(
        content=DataFileContent[content],
        file_path=f"file://{deletes}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=deletes.stat().st_size,
    )
    output = iceberg.io.new_output(f"file://{folder}/metadata/deletes.avro")
    schema = iceberg.schema()
    with DeleteManifest(iceberg.spec(), schema, output, snapshot.snapshot_id, "deflate") as writer:
        writer.add_entry(
            ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot.snapshot_id, data_file=entry)
        )
    manifests = [*read_manifest_list(iceberg.io.new_input(snapshot.manifest_list)), writer.to_manifest_file()]
    with write_manifest_list(
        2,
        iceberg.io.new_output(snapshot.manifest_list),
        snapshot.snapshot_id,
        snapshot.parent_snapshot_id,
        snapshot.sequence_number,
        "deflate",
    ) as listed:
        listed.add_manifests(manifests)
    assert "merge-on-read" in refusal(iceberg.metadata_location, tmp_path)


def test_without_pyiceberg_the_refusal_says_what_to_install(iceberg, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    assert "pip install 'crowdblend[iceberg]'" in refusal(iceberg.metadata_location, tmp_path)
