"""At most M records of a person count: whatever others have, in whatever order, form and place the records come."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.kernel.keys.private_store import KeyRef
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy
from crowdblend.mechanisms.kernel.contributions import ContributionLimit
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, sample_commitment
from crowdblend.tasks.counting import person_counts as person_counting
from crowdblend.tasks.counting.executors import DaskCluster, Executor, LocalProcesses, LocalThreads, task_room
from crowdblend.tasks.counting.group_counting import count_job, group_counts
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import plan_chunks, with_person_column
from crowdblend.tasks.readers.file_formats import Chunk, chunks_of_tasks, shared_chunks
from crowdblend.tasks.readers.parquet_records import PARQUET
from crowdblend.tasks.readers.source_files import SourceFile
from crowdblend.tasks.readers.values import RecordReading
from distributed import Client, LocalCluster

KEY = bytes(range(32))
PEOPLE = 400
READING = RecordReading()
MAP = GeneralizationMap(
    columns=(
        MappedColumn(name="copy", hierarchy=IntervalHierarchy(lower=0, upper=2**20, widths=()), level=0),
        MappedColumn(name="visit", hierarchy=IntervalHierarchy(lower=0, upper=64, widths=()), level=0),
    )
)
"""The id once more, as a column that is counted: so that a test sees whose records are left."""
WIDE = GeneralizationMap(
    columns=(
        *MAP.columns,
        MappedColumn(name="pad", hierarchy=IntervalHierarchy(lower=0, upper=2**60, widths=()), level=0),
    )
)


@pytest.fixture
def key(tmp_path) -> KeyRef:
    return key_of(tmp_path, KEY)


def key_of(folder: Path, secret: bytes) -> KeyRef:
    path = folder / f"{secret.hex()}.key"
    path.write_bytes(secret)
    return KeyRef(path=path)


def visits(seed: int = 1, people: int = PEOPLE) -> pa.Table:
    """Some thousand visits: everyone has between 1 and 20, some of them equal."""
    rng = np.random.default_rng(seed)
    numbers = np.repeat(np.arange(people), rng.integers(1, 21, people))
    rng.shuffle(numbers)
    return table_of(numbers, rng.integers(0, 8, numbers.size))


def table_of(numbers, visit) -> pa.Table:
    return pa.table(
        {
            "copy": pa.array(numbers, pa.int64()),
            "person": pa.array(
                [None if number < 0 else f"p-{number:09d}-{'x' * (number % 40)}" for number in numbers], pa.string()
            ),
            "visit": pa.array(visit, pa.int64()),
            "pad": pa.array(np.asarray(visit) * 3, pa.int64()),
        }
    )


def counted(
    folder: Path,
    key: KeyRef,
    *tables: pa.Table,
    most: int,
    rate: str | None = None,
    executor: Executor | None = None,
    kind: str = "parquet",
    generalization: GeneralizationMap = MAP,
    rows: int = 500,
    reading: RecordReading = READING,
) -> Counter:
    """(person, visit) → how many of them count and are sampled."""
    folder = folder / f"in-{len(list(folder.iterdir()))}"
    folder.mkdir()
    for number, table in enumerate(tables):
        if kind == "parquet":
            pq.write_table(table, folder / f"{number}.parquet", row_group_size=rows)
        else:
            pa.csv.write_csv(table, folder / f"{number}.csv")
    limit = ContributionLimit(unit="person", column="person", records=most)
    source = list_source(str(folder), base=folder)
    layout = with_person_column(source, columns=generalization.names, reading=reading, limit=limit)
    job = count_job(
        release_id="r-1",
        sample_id=sample_commitment(key.load()),
        generalization=generalization,
        rate=None if rate is None else Decimal(rate),
        reading=reading,
        key_source=key,
        limit=limit,
    )
    groups = group_counts(plan_chunks(layout), job=job, executor=executor or LocalThreads(workers=2))
    codes = [values - 2 for values in generalization.decode(groups.keys)]
    found = Counter()
    for person, visit, count in zip(codes[0].tolist(), codes[1].tolist(), groups.counts.tolist(), strict=True):
        found[person, visit] += count
    return found


def of_table(table: pa.Table) -> Counter:
    return Counter(zip(table["copy"].to_pylist(), table["visit"].to_pylist(), strict=True))


def by_person(found: Counter) -> Counter:
    sums = Counter()
    for (person, _), count in found.items():
        sums[person] += count
    return sums


@pytest.mark.parametrize("most", [1, 3, 20])
def test_exactly_so_many_of_a_persons_own_records_count(tmp_path, key, most):
    table = visits()
    found = counted(tmp_path, key, table, most=most)
    assert found <= of_table(table)
    everyone = Counter(table["copy"].to_pylist())
    assert by_person(found) == {person: min(most, records) for person, records in everyone.items()}
    if most == 20:
        assert found == of_table(table)


@pytest.mark.parametrize("rate", [None, "0.3"])
def test_without_one_person_nothing_but_that_persons_records_differs(tmp_path, key, rate):
    """What the price of M records rests on. The person's rows stand among those of others, and shift them all."""
    table = visits()
    whole = counted(tmp_path, key, table, most=3, rate=rate)
    numbers = np.array(table["copy"])
    for person in (0, 7, 99):
        left = counted(tmp_path, key, table.filter(pa.array(numbers != person)), most=3, rate=rate)
        difference = whole - left
        assert not left - whole
        assert {owner for owner, _ in difference} <= {person}
        assert difference.total() <= 3
    more = table_of(np.full(50_000, 7), np.arange(50_000) % 64)
    crowded = counted(tmp_path, key, table, more, most=3, rate=rate)
    assert {owner for owner, _ in (crowded - whole) + (whole - crowded)} <= {7}


@pytest.mark.parametrize("rate", [None, "0.5"])
@pytest.mark.parametrize("generalization", [MAP, WIDE], ids=["one word", "two words"])
def test_order_files_row_groups_and_form_change_nothing(tmp_path, key, rate, generalization):
    table = visits()
    given = {"most": 2, "rate": rate, "generalization": generalization}
    found = counted(tmp_path, key, table, **given)
    order = np.random.default_rng(5).permutation(table.num_rows)
    shuffled = table.take(pa.array(order))
    assert counted(tmp_path, key, shuffled, **given) == found
    assert counted(tmp_path, key, shuffled.slice(0, 1000), shuffled.slice(1000), rows=37, **given) == found
    assert counted(tmp_path, key, shuffled, kind="csv", **given) == found
    encoded = table.set_column(1, "person", table["person"].combine_chunks().dictionary_encode())
    assert counted(tmp_path, key, encoded, **given) == found
    assert counted(tmp_path, key_of(tmp_path, bytes(32)), table, **given) != found


@pytest.mark.slow
def test_processes_choose_what_threads_choose(tmp_path, key):
    table = visits()
    given = {"most": 2, "rate": "0.5", "rows": 100}
    found = counted(tmp_path, key, table, **given)
    assert counted(tmp_path, key, table, executor=LocalProcesses(workers=2), **given) == found


def test_many_buckets_and_a_file_instead_of_memory_change_nothing(tmp_path, key, monkeypatch):
    table = visits()
    found = counted(tmp_path, key, table, most=2, rate="0.5")
    files = []
    monkeypatch.setattr(person_counting, "_BUCKET_RECORDS", 100)
    monkeypatch.setattr(person_counting, "_MERGED_AT_ONCE", 64)
    assert counted(tmp_path, key, table, most=2, rate="0.5") == found
    monkeypatch.setenv("CROWDBLEND_MEMORY", "1e-6")
    leave = person_counting.PersonBuckets.__exit__

    def left(buckets, *error):
        files.append(buckets._file is not None)
        leave(buckets, *error)

    monkeypatch.setattr(person_counting.PersonBuckets, "__exit__", left)
    assert counted(tmp_path, key, table, most=2, rate="0.5") == found
    assert files == [True]


def test_tasks_put_as_many_records_together_as_their_room_holds(monkeypatch):
    """Half a task's room is for eight copies of its records; the buckets have the other half of all of it."""
    for gib, threads, records in (("0.25", 2, 1 << 18), ("0.25", 8, 1 << 16), ("64", 1, 1 << 22), ("1e-6", 1, 1 << 15)):
        monkeypatch.setenv("CROWDBLEND_MEMORY", gib)
        for executor in (LocalThreads(workers=threads), LocalProcesses(workers=threads)):
            assert person_counting._records_at_once(executor, rows=4) == records
    file = SourceFile(path="p", size=1, version="", inode=None, device=None)
    chunks = [
        Chunk(file=file, read_by=PARQUET, identity=ChunkIdentity(file=0, block=block), records=1 << 17, read_bytes=1)
        for block in range(64)
    ]
    assert person_counting._bucket_bits(chunks, most=1 << 22) == 4
    assert person_counting._bucket_bits(chunks, most=1 << 17) == 6
    for records, most in ((1 << 18, 2), (1 << 15, 1), (1 << 22, 8)):
        assert max(map(len, chunks_of_tasks(chunks, records=records))) == most
    assert max(map(len, shared_chunks(chunks, workers=1, records=1 << 18))) == 2
    assert max(map(len, shared_chunks(chunks, workers=1, records=1 << 22))) == 16


def test_the_room_of_a_clusters_tasks_is_that_of_its_smallest_worker():
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, memory_limit="1GiB", processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        assert task_room(DaskCluster(client=client)) == 2**30 / 4


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_each_record_without_an_id_stands_alone(tmp_path, key, kind):
    table = pa.concat_tables([table_of([-1] * 40, [3] * 40), table_of([5] * 40, [4] * 40)])
    reading = replace(READING, null_values=("", "none"))
    found = counted(tmp_path, key, table, most=1, kind=kind, reading=reading)
    assert {visit: sum(n for (_, v), n in found.items() if v == visit) for visit in (3, 4)} == {3: 40, 4: 1}
    said = table.set_column(1, "person", pa.array(["none"] * 40 + ["q"] * 40))
    found = counted(tmp_path, key, said, most=1, kind=kind, reading=reading)
    assert {visit: sum(n for (_, v), n in found.items() if v == visit) for visit in (3, 4)} == {3: 40, 4: 1}


def test_ids_are_compared_as_the_records_are_read(tmp_path, key):
    """White space and .0 are left out where the specification says so; and only there."""
    ids = ["7", " 7", "7 ", "7.0", "7.00"]
    table = table_of(range(5), [1] * 5).set_column(1, "person", pa.array(ids))
    usual = counted(tmp_path, key, table, most=1, kind="csv")
    reading = replace(READING, trim=True, whole_floats=True)
    told = counted(tmp_path, key, table, most=1, kind="csv", reading=reading)
    assert (usual.total(), told.total()) == (5, 1)


@pytest.mark.parametrize("type_", [pa.int8(), pa.int32(), pa.int64(), pa.uint32(), pa.uint64()])
def test_integers_of_any_width_name_the_same_people(tmp_path, key, type_):
    table = table_of(np.arange(60) % 20, np.arange(60) % 8)
    ids = pa.array(np.arange(60) % 20)
    found = counted(tmp_path, key, table.set_column(1, "person", ids), most=1)
    assert counted(tmp_path, key, table.set_column(1, "person", ids.cast(type_)), most=1) == found
    assert found.total() == 20
    several = (table.slice(0, 30), ids.slice(0, 30)), (table.slice(30), ids.slice(30).cast(type_))
    assert counted(tmp_path, key, *(part.set_column(1, "person", own) for part, own in several), most=1) == found


def test_what_cannot_name_a_person_is_refused_before_a_record_is_read(tmp_path, key):
    table = table_of(range(4), [1] * 4)
    floats = table.set_column(1, "person", pa.array([1.0, float("nan"), float("nan"), 2.0]))
    with pytest.raises(InputRefused, match=r"0\.parquet: the column 'person' has the type double"):
        counted(tmp_path, key, floats, most=1)
    with pytest.raises(InputRefused, match=r"1\.parquet: .* integers here, and as texts in .*0\.parquet"):
        counted(tmp_path, key, table, table.set_column(1, "person", pa.array([1, 2, 3, 4])), most=1)
    for kind in ("parquet", "csv"):
        with pytest.raises(InputRefused, match=rf"0\.{kind}.*'person'.*Check \[data\]\.person"):
            counted(tmp_path, key, table.drop_columns("person"), most=1, kind=kind)
