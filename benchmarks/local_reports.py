"""Times the adding-up of local reports: this project on Dask, a plain NumPy loop, and pure-ldp at a size it can do.

Each measurement is a process of its own; memory is its peak. The reports are made first, with a fixed key.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from crowdblend.mechanisms.count_sketch import CountMeanSketch, encode, estimated_counts, hash_positions, standard_error
from crowdblend.mechanisms.krandomization import KRandomization, estimated_distribution, flipped
from crowdblend.mechanisms.krandomization import standard_errors as vector_errors
from crowdblend.tasks.executors import LocalThreads
from crowdblend.tasks.report_counts import outcome_totals, sketch_totals
from crowdblend.tasks.report_files import check_report_files, sketch_table, vector_table
from crowdblend.tasks.source import list_source
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

SKETCH = CountMeanSketch(epsilon=Decimal(4), hashes=256, bits=1024, seed=b"benchmark")
FLIPS = KRandomization(bits=16, flip_probability=Decimal("0.1"))
REPORTS_A_FILE = 250_000
VECTORS_A_FILE = 5_000_000
PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "benchmarks" / "local-reports.md"


def keystream(number: int):
    """Reproducible bytes for the n-th file."""
    cipher = Cipher(algorithms.ChaCha20(bytes(32), number.to_bytes(16, "little")), mode=None).encryptor()
    return lambda count: cipher.update(bytes(count))


def people(number: int, count: int) -> np.ndarray:
    """Everybody's true value, a number with few common and many rare ones, for the n-th file."""
    words = np.frombuffer(keystream(10**6 + number)(4 * count), dtype="<u4")
    return np.minimum(np.floor(-np.log((words + 0.5) / 2**32) * 5), 99).astype(np.int64)


def make_sketches(folder: Path, reports: int) -> None:
    """Write report files of a sketch."""
    texts = np.array([f"value {number}" for number in range(100)])
    for number, start in enumerate(range(0, reports, REPORTS_A_FILE)):
        count = min(REPORTS_A_FILE, reports - start)
        made = encode(SKETCH, texts[people(number, count)].tolist(), randomness=keystream(number))
        pq.write_table(
            sketch_table(SKETCH, made), folder / f"{number:05}.parquet", row_group_size=62_500, compression="none",
            use_dictionary=False,
        )  # fmt: skip


def make_vectors(folder: Path, reports: int) -> None:
    """Write report files of K-randomized vectors."""
    for number, start in enumerate(range(0, reports, VECTORS_A_FILE)):
        count = min(VECTORS_A_FILE, reports - start)
        originals = (people(number, count) * 641 % 65_536).astype(np.uint32)
        vectors = flipped(FLIPS, originals, randomness=keystream(number)).astype(np.uint16)
        pq.write_table(
            vector_table(vectors), folder / f"{number:05}.parquet", row_group_size=1_000_000, compression="none",
            use_dictionary=False,
        )  # fmt: skip


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


def loop_sketch(folder: Path, limit: int) -> dict[str, float]:
    """The same estimator as one would write it first: a row of sums for each report."""
    ones = np.zeros((SKETCH.hashes, SKETCH.bits), dtype=np.int64)
    reports = 0
    for batch in batches(folder, limit):
        for number, row in zip(batch["hash"].to_pylist(), batch["bits"].to_pylist(), strict=True):
            ones[number] += np.unpackbits(np.frombuffer(row, dtype=np.uint8))
            reports += 1
    c, m = SKETCH.correction, SKETCH.bits
    found = ones[np.arange(SKETCH.hashes), hash_positions(SKETCH, "value 0")].sum()
    estimate = (c * found + (0.5 - 0.5 * c - 1 / m) * reports) * m / (m - 1)
    return {"reports": reports, "estimate": float(estimate)}


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


def loop_vectors(folder: Path, limit: int) -> dict[str, float]:
    """The same with a dictionary of counts, and the inverse as a sum over all vectors."""
    counts: dict[int, int] = {}
    for batch in batches(folder, limit):
        for vector in batch["vector"].to_pylist():
            counts[vector] = counts.get(vector, 0) + 1
    q = float(FLIPS.real_flip_probability)
    same, other = (1 - q) / (1 - 2 * q), -q / (1 - 2 * q)
    estimate = sum(
        count * same ** (16 - vector.bit_count()) * other ** vector.bit_count() for vector, count in counts.items()
    )
    return {"reports": sum(counts.values()), "estimate": estimate}


STAGES = {
    "ours-sketch": ours_sketch,
    "loop-sketch": loop_sketch,
    "ours-vectors": ours_vectors,
    "loop-vectors": loop_vectors,
}


def measured(stage: str, folder: Path, limit: int) -> dict[str, float]:
    """Run one stage in a process of its own; seconds are its whole run, imports too."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--stage", stage, "--work", folder, "--loop", str(limit)],
        capture_output=True,
        text=True,
        check=True,
    )
    return {"seconds": time.perf_counter() - begun, **json.loads(done.stdout)}


def staged(stage: str, folder: Path, limit: int) -> None:
    """The process of one stage: prints its result and its peak memory."""
    begun = time.perf_counter()
    result = STAGES[stage](folder, limit)
    working = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**result, "working": working, "peak_mb": peak}))


def peer(python: str, reports: int) -> dict[str, object]:
    """What pure-ldp does with its own reports of the same shape."""
    command = [
        python, Path(__file__).with_name("pure_ldp_peer.py"), "--reports", str(reports),
        "--hashes", str(SKETCH.hashes), "--bits", str(SKETCH.bits), "--epsilon", str(SKETCH.epsilon),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def line(name: str, result: dict[str, float]) -> str:
    """One row of the table."""
    working = result.get("working", result["seconds"])
    whole = f"{result['seconds']:,.1f}" if "working" in result else "–"
    memory = f"{result['peak_mb']:,.0f}" if "peak_mb" in result else "–"
    return (
        f"| {name} | {result['reports']:,.0f} | {whole} | {working:,.1f} | "
        f"{working / result['reports'] * 1e9:,.0f} | {memory} |"
    )


def page(results: dict[str, dict[str, float]], pure: dict[str, object]) -> str:
    """The results in words, for docs/benchmarks."""
    rows = [
        line("count mean sketch: this project, 2 threads", results["ours-sketch"]),
        line("count mean sketch: a NumPy loop", results["loop-sketch"]),
    ]
    if "missing" in pure:
        note = f"pure-ldp was not measured ({pure['missing']})."
    else:
        rows.append(line("count mean sketch: pure-ldp 1.2.0 (summing alone)", pure))  # type: ignore[arg-type]
        note = (
            "pure-ldp keeps its reports as Python objects in memory, so that it is measured on fewer; it needs "
            "numpy < 2 and xxhash < 4, hence an environment of its own (`--peer-python`)."
        )
    rows += [
        line("K-randomization: this project, 2 threads", results["ours-vectors"]),
        line("K-randomization: a Python loop", results["loop-vectors"]),
    ]
    table = "\n".join(rows)
    sketch, vectors = results["ours-sketch"], results["ours-vectors"]
    return f"""\
# Adding up local reports

<!-- Written by `python benchmarks/local_reports.py --page`. -->

Reports of a count mean sketch have {SKETCH.bits:,} bits and {SKETCH.hashes} hash functions (ε = {SKETCH.epsilon}); \
K-randomized vectors have {FLIPS.bits} bits (q = {FLIPS.flip_probability}). Parquet, uncompressed, on a local disk, \
reading included, on {os.cpu_count()} processors ({platform.machine()}).

| | reports | whole process, s | without imports, s | ns a report | peak memory, MB |
| --- | ---: | ---: | ---: | ---: | ---: |
{table}

The loops are measured on fewer reports where they would take too long. {note}

The sketch's estimate of one value was {sketch["estimate"]:,.0f} with a standard error of at most \
{sketch["standard_error"]:,.0f} by its coins; the estimate of the vector 0 was {vectors["estimate"]:,.0f} with a \
standard error of {vectors["standard_error"]:,.0f}.
"""


def main() -> None:
    """Make reports, measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sketches", type=int, default=10_000_000, help="reports of a sketch")
    parser.add_argument("--vectors", type=int, default=100_000_000, help="K-randomized vectors")
    parser.add_argument("--loop", type=int, default=1_000_000, help="reports of either kind for the loops")
    parser.add_argument("--peer", type=int, default=20_000, help="reports for pure-ldp")
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has pure-ldp")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(PROJECT)}")
    parser.add_argument("--stage", choices=sorted(STAGES), help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help="a folder for the reports, which is kept and used again")
    wanted = parser.parse_args()
    if wanted.stage:
        staged(wanted.stage, wanted.work, wanted.loop)
        return
    work = wanted.work or Path(tempfile.mkdtemp(prefix="crowdblend-reports-"))
    try:
        results = {}
        for kind, make, count in (
            ("sketch", make_sketches, wanted.sketches),
            ("vectors", make_vectors, wanted.vectors),
        ):
            folder = work / f"{kind}-{count}"
            if not folder.is_dir():
                folder.mkdir(parents=True)
                make(folder, count)
            for who in ("ours", "loop"):
                results[f"{who}-{kind}"] = measured(f"{who}-{kind}", folder, wanted.loop)
        text = page(results, peer(wanted.peer_python, wanted.peer))
    finally:
        if wanted.work is None:
            shutil.rmtree(work)
    if wanted.page:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
