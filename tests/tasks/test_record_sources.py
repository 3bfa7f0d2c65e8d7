"""The contract of record sources, which every format keeps: each record once, under its coin, with declared codes."""

from __future__ import annotations

import gzip
import importlib.util
import pickle
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyreadstat
import pytest
from crowdblend.accounting.kernel.keys.private_store import KeyRef
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.contributions import ContributionLimit
from crowdblend.mechanisms.kernel.errors import InputRefused, ReleaseFailed
from crowdblend.mechanisms.kernel.group_counts import merge_counts
from crowdblend.mechanisms.kernel.sampling import kept_positions
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.quote_states import with_quote_states
from crowdblend.tasks.inputs import source_formats
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.schema import read_names
from crowdblend.tasks.inputs.source import SourceLayout, check_metadata, manifest_bytes, plan_chunks
from crowdblend.tasks.inputs.source_formats import file_formats, table_formats
from crowdblend.tasks.kernel.counting import counted_blocks
from crowdblend.tasks.readers import csv_header, statistics_files
from crowdblend.tasks.readers.file_formats import FileFormat
from crowdblend.tasks.readers.values import RecordReading
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.counted import counted, job_of, labelled, mapped

KEY = bytes(range(32))
RATE = Decimal("0.3")
RECORDS, BLOCK = 600, 50
READING = RecordReading()
COLUMNS = {
    "sex": ValueHierarchy.from_values(["F", "M"]),
    "age": IntervalHierarchy(lower=0, upper=60, widths=(10,)),
}
PEOPLE = pa.table(
    {
        "id": pa.array([f"person {place // 3}" for place in range(RECORDS)]),
        "sex": pa.array([["F", "M", "other", None][place % 4] for place in range(RECORDS)]),
        "age": pa.array([(7 * place) % 70 for place in range(RECORDS)]),
        "note": pa.array(["SECRET"] * RECORDS),
    }
)
TRUTH = Counter(
    (sex if sex in ("F", "M") else "*", str(age) if age < 60 else ">= 60")
    for sex, age in zip(PEOPLE["sex"].to_pylist(), PEOPLE["age"].to_pylist(), strict=True)
)
Write = Callable[[Path, pa.Table], str]


def write_csv(folder: Path, people: pa.Table) -> str:
    pc_csv.write_csv(people, folder / "people.csv")
    return "people.csv"


def write_packed_csv(folder: Path, people: pa.Table, *, ending: str) -> str:
    stream = pa.BufferOutputStream()
    pc_csv.write_csv(people, stream)
    content = stream.getvalue().to_pybytes()
    packed = gzip.compress(content) if ending == ".gz" else pa.compress(content, codec="zstd", asbytes=True)
    (folder / f"people.csv{ending}").write_bytes(packed)
    return f"people.csv{ending}"


def write_parquet(folder: Path, people: pa.Table, **options: object) -> str:
    pq.write_table(people, folder / "people.parquet", row_group_size=BLOCK, **options)
    return "people.parquet"


def write_folders(folder: Path, people: pa.Table, *, kind: str) -> str:
    parts = ds.partitioning(pa.schema([("sex", pa.string())]), flavor="hive")
    options = {"existing_data_behavior": "delete_matching", "partitioning": parts}
    ds.write_dataset(people, folder / "people", format=kind, **options)
    return "people"


def write_statistics(folder: Path, people: pa.Table, *, ending: str) -> str:
    frame, path = people.to_pandas(), folder / f"people{ending}"
    if ending == ".xpt":
        pyreadstat.write_xport(frame, path)
    elif ending == ".dta":
        pyreadstat.write_dta(frame, path)
    else:
        pyreadstat.write_sav(frame, path, compress=ending == ".zsav")
    return path.name


STRANGER = Path(__file__).parents[1] / "support" / "stranger" / "acme_coins" / "arrow_files.py"


def strangers_format() -> FileFormat:
    """What another distribution adds, as it would be found by its entry point."""
    spec = importlib.util.spec_from_file_location("arrow_files", STRANGER)
    module = sys.modules["arrow_files"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ARROW


def write_arrow(folder: Path, people: pa.Table) -> str:
    with pa.ipc.new_file(folder / "people.arrow", people.schema) as file:
        file.write_table(people, max_chunksize=BLOCK)
    return "people.arrow"


def write_delta(folder: Path, people: pa.Table) -> str:
    """A table whose log says that one of its two files was replaced."""
    import json

    table = folder / "people"
    (table / "_delta_log").mkdir(parents=True, exist_ok=True)
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in people.column_names]
    for name in ("old.parquet", "new.parquet"):
        pq.write_table(people, table / name, row_group_size=BLOCK)
    add = {"path": "new.parquet", "partitionValues": {}, "size": (table / "new.parquet").stat().st_size}
    metadata = {
        "format": {"provider": "parquet"},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
    }
    old = {**add, "path": "old.parquet", "size": (table / "old.parquet").stat().st_size}
    actions = [{"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}, {"add": old}]
    commits = ([*actions], [{"remove": {"path": "old.parquet"}}, {"add": add}])
    for number, commit in enumerate(commits):
        text = "".join(json.dumps(action) + "\n" for action in commit)
        (table / "_delta_log" / f"{number:020}.json").write_text(text, encoding="utf-8")
    return "people"


SOURCES: dict[str, Write] = {
    "csv": write_csv,
    "csv.gz": partial(write_packed_csv, ending=".gz"),
    "csv.zst": partial(write_packed_csv, ending=".zst"),
    "parquet": write_parquet,
    "parquet without dictionaries": partial(write_parquet, use_dictionary=False, data_page_version="2.0"),
    "folders of csv": partial(write_folders, kind="csv"),
    "folders of parquet": partial(write_folders, kind="parquet"),
    **{ending: partial(write_statistics, ending=ending) for ending in (".sav", ".zsav", ".dta", ".xpt")},
    "delta": write_delta,
    "arrow, by another distribution": write_arrow,
}


@dataclass(frozen=True)
class Written:
    """A source of the same people.

    Args:
        base: the folder that it lies in.
        name: of the source.
        write: writes another one over it.
    """

    base: Path
    name: str
    write: Write

    @property
    def key(self) -> KeyRef:
        path = self.base / "key"
        path.write_bytes(KEY)
        return KeyRef(path=path)

    def layout(self) -> SourceLayout:
        return check_metadata(list_source(self.name, base=self.base), columns=tuple(COLUMNS), reading=READING)


@pytest.fixture(params=SOURCES)
def source(request, tmp_path, monkeypatch) -> Written:
    """Blocks are small, so that each source has several where its format has blocks."""
    monkeypatch.setattr(csv_header, "RANGE_BYTES", 2_000)
    monkeypatch.setattr(statistics_files, "BLOCK_RECORDS", BLOCK)
    added = strangers_format()
    monkeypatch.setattr(source_formats, "_added_format", lambda suffix: added if suffix in added.suffixes else None)
    write = SOURCES[request.param]
    return Written(base=tmp_path, name=write(tmp_path, PEOPLE), write=write)


def test_every_format_is_held_to_the_contract():
    suffixes = {suffix for known in file_formats() for suffix in known.suffixes}
    assert suffixes - {".tsv", ".txt", ".pq", ".sas7bdat"} == {".csv", ".parquet", ".sav", ".zsav", ".dta", ".xpt"}
    assert {known.name for known in table_formats()} == {"Delta Lake", "Iceberg", "Hudi"}


def test_each_record_counts_once_with_its_declared_labels(source):
    """A value that isn't declared, and null, have the bucket's label; a column may be read alone and in any order."""
    assert counted(source.name, source.base, COLUMNS) == TRUTH
    turned = counted(source.name, source.base, dict(reversed(COLUMNS.items())))
    assert turned == Counter({(age, sex): number for (sex, age), number in TRUTH.items()})
    assert counted(source.name, source.base, {"age": COLUMNS["age"]}).total() == RECORDS


def test_what_means_null_is_the_bucket_whatever_is_declared(source):
    found = counted(source.name, source.base, COLUMNS, null_values=("", "F", "14"))
    assert not [row for row in found if row[0] == "F" or row[1] == "14"]
    assert found.total() == RECORDS


@settings(derandomize=True, max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_grouping_and_order_of_blocks_gives_the_same_sample(source, data):
    """Each chunk travels to a worker and back; a group of chunks is lost and counted again."""
    generalization = mapped(COLUMNS)
    chunks = with_quote_states(plan_chunks(source.layout()), executor=LocalThreads(workers=1))
    job = job_of(generalization, key=source.key, rate=RATE)
    expected = labelled(counted_blocks(chunks, job=job).counts, generalization)
    order = pickle.loads(pickle.dumps(data.draw(st.permutations(chunks))))  # noqa: S301 - our own
    cuts = sorted(data.draw(st.lists(st.integers(0, len(chunks)), max_size=4)))
    groups = [tuple(order[a:b]) for a, b in zip([0, *cuts], [*cuts, len(chunks)], strict=True)]
    parts = [counted_blocks(group, job=job).counts for group in groups]
    parts[0] = counted_blocks(groups[0], job=job).counts
    assert labelled(merge_counts(parts), generalization) == expected
    assert 0 < expected.total() < RECORDS


def test_blocks_have_as_many_records_as_were_announced_and_their_own_coins(source):
    """The sample is that of a plain loop over the blocks, of which the announced numbers add up to all records."""
    layout = source.layout()
    chunks = with_quote_states(plan_chunks(layout), executor=LocalThreads(workers=1))
    assert len({chunk.identity for chunk in chunks}) == len(chunks)
    assert layout.records in (None, RECORDS)
    assert not layout.without_records
    assert sum(chunk.records or 0 for chunk in chunks) == (layout.records or 0)
    generalization = mapped(COLUMNS)
    job = job_of(generalization, key=source.key, rate=RATE)
    for chunk in chunks:
        every = counted_blocks((chunk,), job=job_of(generalization)).counts.counts.sum()
        assert chunk.records in (None, every)
        kept = kept_positions(key=KEY, chunk=chunk.identity, records=int(every), rate=RATE)
        assert counted_blocks((chunk,), job=job).counts.counts.sum() == kept.size


def test_a_person_is_the_same_in_every_block(source):
    """Three records each, of which one counts: as many as there are persons."""
    limit = ContributionLimit(unit="person", column="id", records=1)
    found = counted(source.name, source.base, COLUMNS, key=source.key, limit=limit)
    assert found.total() == RECORDS // 3


def test_the_same_records_are_read_from_a_store(source):
    store = fsspec.filesystem("memory")
    place = f"/{source.base.name}-{source.name}"
    store.put(str(source.base / source.name), f"{place}/{source.name}", recursive=True)
    assert counted(f"memory:/{place}/{source.name}", source.base, COLUMNS) == TRUTH


def test_names_tell_the_columns_and_no_record(source):
    names = [column.name for column in read_names(source.name, base=source.base).columns]
    assert sorted(names) == sorted(PEOPLE.column_names)


def test_a_column_that_is_not_there_is_refused_by_metadata_alone(source):
    with pytest.raises(InputRefused, match="income") as refused:
        counted(source.name, source.base, {"income": COLUMNS["age"]})
    assert refused.value.exit_code == 2
    assert "SECRET" not in refused.value.message


def test_a_source_that_changed_since_it_was_listed_fails_without_a_value(source):
    layout = source.layout()
    before = manifest_bytes(layout.source)
    for file in layout.source.files:
        Path(file.path).unlink()
    with pytest.raises(ReleaseFailed, match="it is gone"):
        counted_blocks(with_states(layout), job=job_of(mapped(COLUMNS)))
    source.write(source.base, PEOPLE.slice(0, 599).append_column("more", pa.array(["x"] * 599)))
    with pytest.raises(ReleaseFailed, match="was changed since it was listed") as failed:
        counted_blocks(with_states(layout), job=job_of(mapped(COLUMNS)))
    assert "SECRET" not in failed.value.message
    assert manifest_bytes(list_source(source.name, base=source.base)) != before


def with_states(layout: SourceLayout) -> tuple:
    """The chunks without a look at the files: quotes matter nowhere here."""
    chunks = plan_chunks(layout)
    fresh = csv_header.QuoteState.FRESH
    return tuple(replace(chunk, before=fresh) if isinstance(chunk, csv_header.CsvChunk) else chunk for chunk in chunks)


TELLS_ITS_END = [name for name in SOURCES if name not in ("csv", "folders of csv")]


@pytest.mark.parametrize("left", [0.0, 0.5, 0.98])
@pytest.mark.parametrize("source", TELLS_ITS_END, indirect=True)
def test_a_file_that_is_cut_off_is_never_taken_for_a_shorter_one(source, left):
    """Plain CSV has nothing that would tell."""
    file = Path(list_source(source.name, base=source.base).files[-1].path)
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * left) | 1])
    with pytest.raises((InputRefused, ReleaseFailed)) as caught:
        counted(source.name, source.base, COLUMNS)
    assert "SECRET" not in str(caught.value)
