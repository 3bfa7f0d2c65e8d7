"""The pass for the scores: all records at the finest candidate levels, or a fresh sample of them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.kernel.keys.private_store import KeyRef
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.sampling import sample_commitment
from crowdblend.mechanisms.map_selection.choice import Lattice, LatticeColumn
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.group_counting import count_job, group_counts
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.readers.values import RecordReading

RECORDS = 5000
TOWNS = ValueHierarchy.from_rows([("a", "x", "*"), ("b", "x", "*"), ("c", "y", "*")])
LATTICE = Lattice(
    columns=(
        LatticeColumn(name="town", hierarchy=TOWNS, min_level=1, max_level=2, weight=Decimal(1)),
        LatticeColumn(
            name="age",
            hierarchy=IntervalHierarchy(lower=0, upper=100, widths=(5, 20)),
            min_level=0,
            max_level=2,
            weight=Decimal(1),
        ),
    ),
    candidates=((1, 1), (2, 2)),
)


def records() -> pa.Table:
    rng = np.random.default_rng(7)
    towns = np.array(["a", "b", "c", "unseen"])[rng.integers(0, 4, RECORDS)]
    return pa.table({"age": rng.integers(-5, 110, RECORDS), "town": pa.array(towns)})


@pytest.fixture(params=["parquet", "csv"])
def chunks(request, tmp_path):
    path = tmp_path / f"people.{request.param}"
    if request.param == "parquet":
        pq.write_table(records(), path, row_group_size=700)
    else:
        pa.csv.write_csv(records(), path)
    return plan_chunks(
        check_metadata(list_source(str(path), base=tmp_path), columns=LATTICE.names, reading=RecordReading())
    )


def as_counter(counts) -> Counter:
    map_ = LATTICE.map_of(LATTICE.finest)
    codes = map_.decode(counts.keys)
    labels = [column.hierarchy.labels(found, column.level) for column, found in zip(map_.columns, codes, strict=True)]
    return Counter(dict(zip(zip(*labels, strict=True), counts.counts.tolist(), strict=True)))


def by_hand() -> Counter:
    """Nothing of the product."""
    table = records()

    def five_years(age: int) -> str:
        if not 0 <= age < 100:
            return "< 0" if age < 0 else ">= 100"
        return f"[{age // 5 * 5}, {age // 5 * 5 + 5})"

    towns = [{"a": "x", "b": "x", "c": "y"}.get(town, "*") for town in table["town"].to_pylist()]
    return Counter(zip(towns, map(five_years, table["age"].to_pylist()), strict=True))


def test_all_records_are_counted_at_the_finest_candidate_levels(chunks):
    assert LATTICE.finest == (1, 1)
    job = count_job(
        release_id="r",
        sample_id=None,
        generalization=LATTICE.map_of(LATTICE.finest),
        rate=None,
        reading=RecordReading(),
        key_source=None,
    )
    assert as_counter(group_counts(chunks, job=job, executor=LocalThreads(workers=2))) == by_hand()


def test_a_fresh_sample_is_a_sample_by_its_own_key(chunks, tmp_path):
    counted = []
    for secret in (bytes(32), bytes(range(32))):
        place = tmp_path / secret.hex()[-4:]
        place.write_bytes(secret)
        job = count_job(
            release_id="r",
            sample_id=sample_commitment(secret),
            generalization=LATTICE.map_of(LATTICE.finest),
            rate=Decimal("0.3"),
            reading=RecordReading(),
            key_source=KeyRef(path=place),
        )
        counted.append(as_counter(group_counts(chunks, job=job, executor=LocalThreads(workers=2))))
    assert counted[0] != counted[1]
    for sampled in counted:
        assert sampled <= by_hand()
        assert 0.25 * RECORDS < sampled.total() < 0.35 * RECORDS
