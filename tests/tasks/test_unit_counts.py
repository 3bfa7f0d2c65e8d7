"""All records of a unit make one, whatever others have, in whatever order, form and place the records come."""

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
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.mechanisms.kernel.sampling import sample_commitment
from crowdblend.mechanisms.unit_records import CountMembers, MemberLabel, Members, MemberTable, UnitRecords, UnitRule
from crowdblend.tasks.counting import person_counts as person_counting
from crowdblend.tasks.counting.executors import Executor, LocalProcesses, LocalThreads
from crowdblend.tasks.counting.group_counting import count_job, counting_of, group_counts
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import plan_chunks, with_person_column
from crowdblend.tasks.readers.values import RecordReading

NUMBER = MappedColumn(name="number", hierarchy=IntervalHierarchy(lower=0, upper=2**20, widths=()), level=0)
AGE = MappedColumn(name="age", hierarchy=IntervalHierarchy(lower=0, upper=100, widths=(20,)), level=0)
RULE = UnitRule(
    members=(NUMBER, AGE),
    derived={
        "home": MemberLabel(column=NUMBER, by=NUMBER, highest=False),
        "size": CountMembers(column=None, labels=(), cap=5_000),
        "oldest": MemberLabel(column=AGE, by=AGE, highest=True),
    },
)
MAP = GeneralizationMap(
    columns=tuple(MappedColumn(name=name, hierarchy=rule.hierarchy, level=0) for name, rule in RULE.derived.items())
)
"""The household's number is released too, so that a test sees whose record is there."""
HOMES = 300


@pytest.fixture
def key(tmp_path) -> KeyRef:
    path = tmp_path / "one.key"
    path.write_bytes(bytes(range(32)))
    return KeyRef(path=path)


def table_of(numbers, ages) -> pa.Table:
    return pa.table(
        {
            "number": pa.array(numbers, pa.int64()),
            "age": pa.array(ages, pa.int64()),
            "home": pa.array([f"h{number}" for number in numbers], pa.string()),
        }
    )


def people(seed: int = 3) -> pa.Table:
    """Households of one to seven members, one after another in no order."""
    coins = np.random.default_rng(seed)
    numbers = np.repeat(np.arange(HOMES), coins.integers(1, 8, HOMES))
    coins.shuffle(numbers)
    return table_of(numbers, coins.integers(0, 100, numbers.size))


def truth(*tables: pa.Table) -> Counter:
    """One record for each household: its number, its size, its greatest age."""
    ages: dict[int, list[int]] = {}
    for table in tables:
        for number, age in zip(table["number"].to_pylist(), table["age"].to_pylist(), strict=True):
            ages.setdefault(number, []).append(age)
    return Counter({(number, str(len(own)), str(max(own))): 1 for number, own in ages.items()})


def counted(
    folder: Path,
    key: KeyRef,
    *tables: pa.Table,
    rate: str | None = None,
    executor: Executor | None = None,
    kind: str = "parquet",
    rows: int = 100,
    rule: UnitRule = RULE,
) -> Counter:
    """(household, size, oldest) → how many of them count and are sampled."""
    folder = folder / f"in-{len(list(folder.iterdir()))}"
    folder.mkdir()
    for number, table in enumerate(tables):
        if kind == "parquet":
            pq.write_table(table, folder / f"{number}.parquet", row_group_size=rows)
        else:
            pa.csv.write_csv(table, folder / f"{number}.csv")
    limit = ContributionLimit(unit="household", column="home", records=1, together=True)
    layout = with_person_column(
        list_source(str(folder), base=folder), columns=("number", "age"), reading=RecordReading(), limit=limit
    )
    job = count_job(
        release_id="r-1",
        sample_id=sample_commitment(key.load()),
        generalization=MAP,
        rate=None if rate is None else Decimal(rate),
        reading=RecordReading(),
        key_source=key,
        limit=limit,
        unit_rule=rule,
    )
    groups = group_counts(plan_chunks(layout), job=job, executor=executor or LocalThreads(workers=2))
    names = [
        column.hierarchy.labels(codes, 0) for column, codes in zip(MAP.columns, MAP.decode(groups.keys), strict=True)
    ]
    found = Counter()
    for home, size, oldest, count in zip(*names, groups.counts.tolist(), strict=True):
        found[int(home) if home.isdigit() else home, size, oldest] += count
    return found


def test_each_household_makes_one_record_of_all_its_members(tmp_path, key):
    table = people()
    assert counted(tmp_path, key, table) == truth(table)
    sampled = counted(tmp_path, key, table, rate="0.3")
    assert sampled <= truth(table)
    # 300 coins of 0.3: outside of these bounds once in 10¹³; the key is fixed, so that it never varies.
    assert 40 < sampled.total() < 150


@pytest.mark.parametrize("rate", [None, "0.3"])
def test_without_a_household_of_any_size_its_one_record_is_missing_and_nothing_else(tmp_path, key, rate):
    """What the price of one record rests on. The household's rows stand among those of others, and shift them all."""
    table = people()
    for more in (0, 1, 5, 4_000):
        crowded = pa.concat_tables([table, table_of(np.full(more, 7), np.arange(more) % 100)])
        whole = counted(tmp_path, key, crowded, rate=rate)
        left = counted(tmp_path, key, crowded.filter(pa.array(np.array(crowded["number"]) != 7)), rate=rate)
        assert not left - whole
        assert {home for home, _, _ in whole - left} <= {7}
        assert (whole - left).total() == 1 if rate is None else (whole - left).total() <= 1


def test_order_files_row_groups_and_form_change_nothing(tmp_path, key):
    table = people()
    found = counted(tmp_path, key, table, rate="0.5")
    shuffled = table.take(pa.array(np.random.default_rng(5).permutation(table.num_rows)))
    assert counted(tmp_path, key, shuffled, rate="0.5") == found
    assert counted(tmp_path, key, shuffled.slice(0, 400), shuffled.slice(400), rows=37, rate="0.5") == found
    assert counted(tmp_path, key, shuffled, kind="csv", rate="0.5") == found


@pytest.mark.slow
def test_processes_make_what_threads_make(tmp_path, key):
    table = people()
    found = counted(tmp_path, key, table, rate="0.5")
    assert counted(tmp_path, key, table, rate="0.5", executor=LocalProcesses(workers=2)) == found


def test_many_buckets_and_a_file_instead_of_memory_change_nothing(tmp_path, key, monkeypatch):
    table = people()
    found = counted(tmp_path, key, table, rate="0.5")
    monkeypatch.setattr(person_counting, "_BUCKET_RECORDS", 100)
    monkeypatch.setattr(person_counting, "_MERGED_AT_ONCE", 64)
    monkeypatch.setenv("CROWDBLEND_MEMORY", "1e-6")
    assert counted(tmp_path, key, table, rate="0.5") == found


def test_records_without_an_id_are_households_of_one(tmp_path, key):
    numbers, ages = np.arange(4), np.array([1, 2, 2, 3])
    table = table_of(numbers, ages).set_column(2, "home", pa.array([None, "", "h", None], pa.string()))
    assert counted(tmp_path, key, table) == truth(table)


# --- with the members' codes in a unit's key ------------------------------------------------------------------------

TABLE = MemberTable(maps=(GeneralizationMap(columns=(replace(AGE, level=1),)),), most=3)


def keys_with_members(
    folder: Path,
    key: KeyRef,
    table: pa.Table,
    *,
    executor: Executor | None = None,
    kind: str = "parquet",
    rows: int = 100,
) -> tuple[list, list]:
    """The keys of units that have their members' codes, and how many have each."""
    folder = folder / f"in-{len(list(folder.iterdir()))}"
    folder.mkdir()
    if kind == "parquet":
        pq.write_table(table, folder / "all.parquet", row_group_size=rows)
    else:
        pa.csv.write_csv(table, folder / "all.csv")
    limit = ContributionLimit(unit="household", column="home", records=1, together=True)
    layout = with_person_column(
        list_source(str(folder), base=folder), columns=("number", "age"), reading=RecordReading(), limit=limit
    )
    given = {"reading": RecordReading(), "rate": None, "limit": limit, "unit_rule": replace(RULE, table=TABLE)}
    counting = counting_of(MAP, **given, with_members=True)
    job = count_job(
        release_id="r-1", sample_id=sample_commitment(key.load()), generalization=MAP, key_source=key, **given
    )
    job = replace(job, layout=counting.layout, units=counting.units)
    groups = group_counts(plan_chunks(layout), job=job, executor=executor or LocalThreads(workers=2))
    return groups.keys.tolist(), groups.counts.tolist()


def test_order_form_and_spilling_change_no_members(tmp_path, key, monkeypatch):
    table = people()
    found = keys_with_members(tmp_path, key, table)
    assert sum(found[1]) == HOMES
    shuffled = table.take(pa.array(np.random.default_rng(5).permutation(table.num_rows)))
    assert keys_with_members(tmp_path, key, shuffled, rows=37) == found
    assert keys_with_members(tmp_path, key, shuffled, kind="csv") == found
    monkeypatch.setattr(person_counting, "_BUCKET_RECORDS", 100)
    monkeypatch.setattr(person_counting, "_MERGED_AT_ONCE", 64)
    monkeypatch.setenv("CROWDBLEND_MEMORY", "1e-6")
    assert keys_with_members(tmp_path, key, shuffled) == found


@pytest.mark.slow
def test_processes_find_the_members_that_threads_find(tmp_path, key):
    table = people()
    found = keys_with_members(tmp_path, key, table)
    assert keys_with_members(tmp_path, key, table, executor=LocalProcesses(workers=2)) == found


@pytest.mark.parametrize("more", [0, 1, 5, 4_000])
def test_without_a_household_of_any_size_one_key_with_its_members_is_missing(tmp_path, key, more):
    table = people()
    crowded = pa.concat_tables([table, table_of(np.full(more, 7), np.arange(more) % 100)])
    whole, left = (
        Counter(dict(zip(zip(*keys, strict=True), counts, strict=True)))
        for keys, counts in (
            keys_with_members(tmp_path, key, some)
            for some in (crowded, crowded.filter(pa.array(np.array(crowded["number"]) != 7)))
        )
    )
    assert not left - whole
    assert (whole - left).total() == 1


class _OfNeighbours(CountMembers):
    """A rule that counts another unit's members too."""

    def codes(self, members: Members) -> np.ndarray:
        return np.roll(super().codes(members), 1)


def test_a_rule_that_looks_at_another_household_is_found(tmp_path, key):
    """The test of removed households can fail."""
    rule = UnitRule(
        members=RULE.members, derived={**RULE.derived, "size": _OfNeighbours(column=None, labels=(), cap=5_000)}
    )
    table = people()
    whole = counted(tmp_path, key, table, rule=rule)
    left = counted(tmp_path, key, table.filter(pa.array(np.array(table["number"]) != 7)), rule=rule)
    assert left - whole


def test_a_rule_that_makes_two_records_of_a_household_is_refused(tmp_path, key, monkeypatch):
    made = UnitRecords.unit_keys
    monkeypatch.setattr(UnitRecords, "unit_keys", lambda *given: np.repeat(made(*given), 2, axis=1))
    with pytest.raises(ReleaseFailed, match="another number of records"):
        counted(tmp_path, key, people())


def test_units_go_together_with_the_limit_that_says_so(key):
    given = {
        "release_id": "r-1",
        "sample_id": sample_commitment(key.load()),
        "generalization": MAP,
        "rate": None,
        "reading": RecordReading(),
        "key_source": key,
    }
    one = ContributionLimit(unit="household", column="home", records=1)
    with pytest.raises(ValueError, match="limit says so"):
        count_job(**given, limit=one, unit_rule=RULE)
    with pytest.raises(ValueError, match="limit says so"):
        count_job(**given, limit=ContributionLimit(unit="household", column="home", records=1, together=True))
    with pytest.raises(ValueError, match="exactly one"):
        ContributionLimit(unit="household", column="home", records=2, together=True)
