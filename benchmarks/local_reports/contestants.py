"""Who adds up local reports in `local_reports.py`: this project on Dask, and loops as one would write them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from crowdblend.mechanisms.kinds.krandomization import KRandomization
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch, hash_positions
from crowdblend.mechanisms.local_reports.estimates import estimated_counts, estimated_distribution, standard_error
from crowdblend.mechanisms.local_reports.estimates import standard_errors as vector_errors
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.report_counts import check_report_files, outcome_totals, sketch_totals
from crowdblend.tasks.inputs.list import list_source

SKETCH = CountMeanSketch(epsilon=Decimal(4), hashes=256, bits=1024, seed=b"benchmark")
FLIPS = KRandomization(bits=16, flip_probability=Decimal("0.1"))


def batches(folder: Path, limit: int) -> Iterator[pa.RecordBatch]:
    """The first reports of a folder."""
    for path in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=65_536):
            yield batch.slice(0, limit)
            limit -= min(limit, batch.num_rows)
        if not limit:
            return


def ours_sketch(folder: Path, limit: int) -> dict[str, float]:
    """This project's sums and one estimate."""
    del limit  # all of them
    groups = check_report_files(list_source(".", base=folder), collection=SKETCH)
    sums = sketch_totals(groups, sketch=SKETCH, executor=LocalThreads(workers=2))
    reports = int(sums.reports.sum())
    return {
        "reports": reports,
        "estimate": float(estimated_counts(SKETCH, sums, ["value 0"])[0]),
        "standard_error": standard_error(SKETCH, reports=reports),
    }


def sketch_estimate(ones: np.ndarray, reports: int) -> dict[str, float]:
    """The same estimator, from a table of sums."""
    c, m = SKETCH.correction, SKETCH.bits
    found = ones[np.arange(SKETCH.hashes), hash_positions(SKETCH, "value 0")].sum()
    estimate = (c * found + (0.5 - 0.5 * c - 1 / m) * reports) * m / (m - 1)
    return {"reports": reports, "estimate": float(estimate)}


def loop_sketch(folder: Path, limit: int) -> dict[str, float]:
    """The same estimator as one would write it first: a row of sums for each report."""
    ones = np.zeros((SKETCH.hashes, SKETCH.bits), dtype=np.int64)
    reports = 0
    for batch in batches(folder, limit):
        for number, row in zip(batch["hash"].to_pylist(), batch["bits"].to_pylist(), strict=True):
            ones[number] += np.unpackbits(np.frombuffer(row, dtype=np.uint8))
            reports += 1
    return sketch_estimate(ones, reports)


def whole_batches_sketch(folder: Path, limit: int) -> dict[str, float]:
    """The same with NumPy on a batch at a time: the bits of each hash function's reports are summed together."""
    ones = np.zeros((SKETCH.hashes, SKETCH.bits), dtype=np.int64)
    reports = 0
    for batch in batches(folder, limit):
        numbers = batch["hash"].to_numpy()
        start = batch["bits"].offset * SKETCH.bits // 8
        packed = np.frombuffer(batch["bits"].buffers()[1], dtype=np.uint8)[start:][: len(numbers) * SKETCH.bits // 8]
        bits = np.unpackbits(packed.reshape(len(numbers), -1), axis=1)
        for number in np.unique(numbers):
            ones[number] += bits[numbers == number].sum(axis=0, dtype=np.int64)
        reports += len(numbers)
    return sketch_estimate(ones, reports)


def ours_vectors(folder: Path, limit: int) -> dict[str, float]:
    """This project's counts, estimates and standard errors of all 65,536 vectors."""
    del limit  # all of them
    groups = check_report_files(list_source(".", base=folder), collection=FLIPS)
    outcomes = outcome_totals(groups, mechanism=FLIPS, executor=LocalThreads(workers=2))
    estimates, errors = estimated_distribution(FLIPS, outcomes), vector_errors(FLIPS, outcomes)
    return {
        "reports": int(outcomes.sum()),
        "estimate": float(estimates[0]),
        "standard_error": float(errors[0]),
    }


def vector_estimate(counts: dict[int, int]) -> dict[str, float]:
    """The inverse for the vector 0, as a sum over all vectors that were reported."""
    q = float(FLIPS.real_flip_probability)
    same, other = (1 - q) / (1 - 2 * q), -q / (1 - 2 * q)
    estimate = sum(
        count * same ** (16 - vector.bit_count()) * other ** vector.bit_count() for vector, count in counts.items()
    )
    return {"reports": sum(counts.values()), "estimate": estimate}


def loop_vectors(folder: Path, limit: int) -> dict[str, float]:
    """The same estimator with a dictionary of counts, one report at a time."""
    counts: dict[int, int] = {}
    for batch in batches(folder, limit):
        for vector in batch["vector"].to_pylist():
            counts[vector] = counts.get(vector, 0) + 1
    return vector_estimate(counts)


def whole_batches_vectors(folder: Path, limit: int) -> dict[str, float]:
    """The same with NumPy on a batch at a time."""
    counts = np.zeros(2**FLIPS.bits, dtype=np.int64)
    for batch in batches(folder, limit):
        counts += np.bincount(batch["vector"].to_numpy(), minlength=len(counts))
    return vector_estimate(dict(enumerate(counts.tolist())))


STAGES = {
    "ours-sketch": ours_sketch,
    "loop-sketch": loop_sketch,
    "batches-sketch": whole_batches_sketch,
    "ours-vectors": ours_vectors,
    "loop-vectors": loop_vectors,
    "batches-vectors": whole_batches_vectors,
}
