"""Adding up reports over files: the sums of one pass in memory, however cut; bad files are refused by their footers."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.kernel.errors import InputRefused, ReleaseFailed
from crowdblend.mechanisms.kinds.krandomization import KRandomization, outcome_counts
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch, encode, summed
from crowdblend.mechanisms.local_reports.estimates import estimated_counts, standard_error
from crowdblend.tasks.counting import report_counts
from crowdblend.tasks.counting.executors import LocalProcesses, LocalThreads
from crowdblend.tasks.counting.report_counts import check_report_files, outcome_totals, sketch_totals
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.readers import csv_header
from crowdblend.tasks.readers.report_files import ReportGroup, sketch_table, vector_table
from crowdblend.tasks.readers.values import RecordReading

READING = RecordReading(separator=";")

SKETCH = CountMeanSketch(epsilon=Decimal(4), hashes=8, bits=64, seed=b"reports")
FLIPS = KRandomization(bits=10, flip_probability=Decimal("0.2"))
PEOPLE = [f"value {i % 7 * (i % 3)}" for i in range(3000)]


@pytest.fixture
def reports():
    return encode(SKETCH, PEOPLE, randomness=np.random.default_rng(11).bytes)


def written(folder, table, files=3, row_group=170):
    folder.mkdir()
    size = -(-table.num_rows // files)
    for number in range(files):
        part = table.slice(number * size, size)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=row_group)
    return list_source(".", base=folder)


@pytest.mark.slow
@pytest.mark.parametrize("executor", [LocalThreads(), LocalProcesses(workers=2)])
def test_sketches_add_up_however_they_are_cut(tmp_path, monkeypatch, reports, executor):
    whole = summed(SKETCH, reports)
    for cut, (files, row_group, task) in enumerate([(1, 5000, 1 << 20), (3, 170, 1 << 20), (11, 40, 500)]):
        monkeypatch.setattr(report_counts, "_TASK_BYTES", task)
        source = written(tmp_path / str(cut), sketch_table(SKETCH, reports), files, row_group)
        groups = check_report_files(source, collection=SKETCH)
        assert sum(group.reports for group in groups) == len(PEOPLE)
        found = sketch_totals(groups, sketch=SKETCH, executor=executor)
        assert (found.ones == whole.ones).all()
        assert (found.reports == whole.reports).all()
        if isinstance(executor, LocalProcesses):
            break


def test_vectors_add_up_however_they_are_cut(tmp_path):
    vectors = np.random.default_rng(2).integers(0, 1 << 10, 5000)
    for kind in (np.uint16, np.uint32):
        source = written(tmp_path / kind.__name__, vector_table(vectors.astype(kind)))
        groups = check_report_files(source, collection=FLIPS)
        found = outcome_totals(groups, mechanism=FLIPS, executor=LocalThreads())
        assert (found == outcome_counts(FLIPS, vectors.astype(np.uint16))).all()


@pytest.mark.parametrize("range_bytes", [37, 1_000, 1 << 20])
def test_lines_add_up_however_they_are_cut(tmp_path, monkeypatch, reports, range_bytes):
    monkeypatch.setattr(csv_header, "RANGE_BYTES", range_bytes)
    some = 60 if range_bytes == 37 else len(PEOPLE)
    pairs = list(zip(reports.hash_numbers, reports.packed_bits, strict=True))[:some]
    lines = [f"{bits.tobytes().hex().upper()};x;{number}" for number, bits in pairs]
    (tmp_path / "a.csv").write_text("\n".join(["bits;other;hash", *lines[: some // 2]]) + "\n")
    (tmp_path / "b.csv").write_text("\r\n".join(["bits;other;hash", *lines[some // 2 :]]))
    tasks = check_report_files(list_source("*.csv", base=tmp_path), collection=SKETCH, reading=READING)
    found = sketch_totals(tasks, sketch=SKETCH, executor=LocalThreads())
    kept = type(reports)(hash_numbers=reports.hash_numbers[:some], packed_bits=reports.packed_bits[:some])
    assert (found.ones == summed(SKETCH, kept).ones).all()
    assert found.reports.sum() == some
    vectors = np.random.default_rng(3).integers(0, 1 << 11, some)  # half of them with a bit too many
    (tmp_path / "c.txt").write_text("\n".join(["vector", *map(str, vectors)]))
    tasks = check_report_files(list_source("c.txt", base=tmp_path), collection=FLIPS)
    counted = outcome_totals(tasks, mechanism=FLIPS, executor=LocalThreads())
    assert (counted == outcome_counts(FLIPS, vectors[vectors < 1 << 10].astype(np.uint32))).all()


def test_long_reports_are_read_from_lines(tmp_path):
    wide = CountMeanSketch(epsilon=Decimal(4), hashes=2, bits=1 << 15, seed=b"wide")
    made = encode(wide, ["a"] * 5, randomness=np.random.default_rng(1).bytes)
    lines = [
        f"{number},{bits.tobytes().hex()}" for number, bits in zip(made.hash_numbers, made.packed_bits, strict=True)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["hash,bits", *lines, lines[0][:-1], lines[0] + "0"]))
    tasks = check_report_files(list_source("a.csv", base=tmp_path), collection=wide)
    assert (sketch_totals(tasks, sketch=wide, executor=LocalThreads()).ones == summed(wide, made).ones).all()


def test_estimates_of_files_are_near_the_truth(tmp_path, reports):
    source = written(tmp_path / "r", sketch_table(SKETCH, reports))
    sums = sketch_totals(check_report_files(source, collection=SKETCH), sketch=SKETCH, executor=LocalThreads())
    found = estimated_counts(SKETCH, sums, ["value 0", "value 12"])
    truth = [PEOPLE.count("value 0"), PEOPLE.count("value 12")]
    # Six standard errors of the coins, and the collisions of eight hash functions on 64 bits.
    margin = 6 * standard_error(SKETCH, reports=len(PEOPLE)) + 6 * len(PEOPLE) / 8**1.5
    assert np.abs(found - truth).max() < margin


def test_a_report_with_a_missing_field_is_passed_over_alone(tmp_path, reports):
    table = sketch_table(SKETCH, reports)
    gone = np.zeros(len(PEOPLE), dtype=bool)
    gone[[0, 77, 2999]] = True
    columns = {
        name: pa.array(table[name].to_pylist(), type=table.schema.field(name).type, mask=gone) for name in ("hash",)
    }
    holed = pa.table({"hash": columns["hash"], "bits": table["bits"]})
    groups = check_report_files(written(tmp_path / "r", holed), collection=SKETCH)
    found = sketch_totals(groups, sketch=SKETCH, executor=LocalThreads())
    kept = type(reports)(hash_numbers=reports.hash_numbers[~gone], packed_bits=reports.packed_bits[~gone])
    assert (found.ones == summed(SKETCH, kept).ones).all()
    vectors = pa.table({"vector": pa.array([1, None, 3, 3], type=pa.uint16())})
    groups = check_report_files(written(tmp_path / "v", vectors, files=1), collection=FLIPS)
    assert outcome_totals(groups, mechanism=FLIPS, executor=LocalThreads())[:4].tolist() == [0, 1, 0, 2]


def test_no_reports_at_all(tmp_path):
    source = written(tmp_path / "v", vector_table(np.empty(0, dtype=np.uint16)), files=1)
    groups = check_report_files(source, collection=FLIPS)
    assert groups == ()
    assert outcome_totals(groups, mechanism=FLIPS, executor=LocalThreads()).sum() == 0
    assert sketch_totals((), sketch=SKETCH, executor=LocalThreads()).ones.shape == (8, 64)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"vector": pa.array([1.5])}),
        pa.table({"other": pa.array([1], type=pa.uint16())}),
        pa.table({"hash": pa.array([1], type=pa.uint16()), "bits": pa.array([b"x" * 16], type=pa.binary(16))}),
    ],
)
def test_other_columns_are_refused_by_the_footer(tmp_path, table):
    source = written(tmp_path / "r", table, files=1)
    for collection in (SKETCH, FLIPS):
        with pytest.raises(InputRefused, match="must occur exactly once"):
            check_report_files(source, collection=collection)


def test_files_without_a_footer_or_header_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("hash\n1\n")
    with pytest.raises(InputRefused, match="does not name 'vector'"):
        check_report_files(list_source("a.csv", base=tmp_path), collection=FLIPS)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no footer")
    with pytest.raises(InputRefused, match="footer"):
        check_report_files(list_source("b.parquet", base=tmp_path), collection=FLIPS)


def test_a_page_that_cannot_be_read_fails_without_a_value(tmp_path):
    source = written(tmp_path / "v", vector_table(np.arange(1000, dtype=np.uint16)), files=1)
    groups = check_report_files(source, collection=FLIPS)
    path = tmp_path / "v" / "part-0.parquet"
    damaged, listed = bytearray(path.read_bytes()), path.stat()
    damaged[4:60] = bytes(56)
    path.write_bytes(damaged)
    with pytest.raises(ReleaseFailed, match="was changed since it was listed"):
        outcome_totals(groups, mechanism=FLIPS, executor=LocalThreads())
    os.utime(path, ns=(listed.st_atime_ns, listed.st_mtime_ns))
    with pytest.raises(ReleaseFailed, match="cannot be read"):
        outcome_totals(groups, mechanism=FLIPS, executor=LocalThreads())
    gone = replace(source.files[0], path=str(tmp_path / "none.parquet"))
    missing = ReportGroup(file=gone, blocks=(0,), reports=1)
    with pytest.raises(ReleaseFailed, match="it is gone"):
        outcome_totals([missing], mechanism=FLIPS, executor=LocalThreads())
