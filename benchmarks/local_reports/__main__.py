"""Times the adding-up of local reports: this project on Dask, plain NumPy loops, and pure-ldp at a size it can do.

Each measurement is a process of its own; memory is its peak. The reports are made first, with a fixed key.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from crowdblend.mechanisms.kinds.krandomization import flipped
from crowdblend.mechanisms.kinds.sketch import encode
from crowdblend.tasks.readers.report_files import sketch_table, vector_table
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from ..generated_pages import record
from .contestants import FLIPS, SKETCH, STAGES

REPORTS_A_FILE = 250_000
VECTORS_A_FILE = 5_000_000
PROJECT = Path(__file__).resolve().parents[2]
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


def a_tenth(folder: Path) -> Path:
    """A folder with the first tenth of the files, to see whether memory grows with the reports."""
    small = folder.with_name(f"{folder.name}-tenth")
    if not small.is_dir():
        small.mkdir()
        files = sorted(folder.glob("*.parquet"))
        for path in files[: -(-len(files) // 10)]:
            os.link(path, small / path.name)
    return small


def measured(stage: str, folder: Path, limit: int) -> dict[str, float]:
    """Run one stage in a process of its own; seconds are its whole run, imports too."""
    begun = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.local_reports",
            "--stage",
            stage,
            "--work",
            folder.absolute(),
            "--loop",
            str(limit),
        ],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {"seconds": time.perf_counter() - begun, **json.loads(done.stdout)}


def peak_mb() -> float:
    """This process's largest resident memory; `getrusage` would count the parent's at the time of the fork too."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def staged(stage: str, folder: Path, limit: int) -> None:
    """The process of one stage: prints its result and its peak memory."""
    begun = time.perf_counter()
    result = STAGES[stage](folder, limit)
    working = time.perf_counter() - begun
    print(json.dumps({**result, "working": working, "peak_mb": peak_mb()}))


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
        line("the same, the first tenth of the files", results["tenth-sketch"]),
        line("count mean sketch: a NumPy loop, whole batches", results["batches-sketch"]),
        line("count mean sketch: a NumPy loop, report by report", results["loop-sketch"]),
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
        line("the same, the first tenth of the files", results["tenth-vectors"]),
        line("K-randomization: a NumPy loop, whole batches", results["batches-vectors"]),
        line("K-randomization: a Python loop, report by report", results["loop-vectors"]),
    ]
    table = "\n".join(rows)
    sketch, vectors = results["ours-sketch"], results["ours-vectors"]
    return f"""\
# Adding up local reports

<!-- Written by `python -m benchmarks.local_reports --page`. -->

Reports of a count mean sketch have {SKETCH.bits:,} bits and {SKETCH.hashes} hash functions (ε = {SKETCH.epsilon}); \
K-randomized vectors have {FLIPS.bits} bits (q = {FLIPS.flip_probability}). Parquet, uncompressed, on a local disk, \
reading included, on {os.cpu_count()} processors ({platform.machine()}).

| | reports | whole process, s | without imports, s | ns a report | peak memory, MB |
| --- | ---: | ---: | ---: | ---: | ---: |
{table}

Loops have one thread. Those that take one report at a time are measured on fewer reports. The rows of a tenth tell \
whether memory grows with the reports. {note}

The sketch's estimate of one value was {sketch["estimate"]:,.0f} with a standard error of at most \
{sketch["standard_error"]:,.0f} by its coins; the estimate of the vector 0 was {vectors["estimate"]:,.0f} with a \
standard error of {vectors["standard_error"]:,.0f}.
"""


def main() -> None:
    """Make reports, measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sketches", type=int, default=10_000_000, help="reports of a sketch")
    parser.add_argument("--vectors", type=int, default=100_000_000, help="K-randomized vectors")
    parser.add_argument("--loop", type=int, default=1_000_000, help="reports of either kind, one at a time")
    parser.add_argument("--peer", type=int, default=20_000, help="reports for pure-ldp")
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has pure-ldp")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(PROJECT)}")
    parser.add_argument("--stage", choices=sorted(STAGES), help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help="a folder for the reports, which is kept and used again")
    arguments = parser.parse_args()
    if arguments.stage:
        staged(arguments.stage, arguments.work, arguments.loop)
        return
    work = arguments.work or Path(tempfile.mkdtemp(prefix="crowdblend-reports-"))
    try:
        results = {}
        for kind, make, count in (
            ("sketch", make_sketches, arguments.sketches),
            ("vectors", make_vectors, arguments.vectors),
        ):
            folder = work / f"{kind}-{count}"
            if not folder.is_dir():
                folder.mkdir(parents=True)
                make(folder, count)
            results[f"ours-{kind}"] = measured(f"ours-{kind}", folder, count)
            results[f"tenth-{kind}"] = measured(f"ours-{kind}", a_tenth(folder), count)
            results[f"batches-{kind}"] = measured(f"batches-{kind}", folder, count)
            results[f"loop-{kind}"] = measured(f"loop-{kind}", folder, arguments.loop)
        text = page(results, peer(arguments.peer_python, arguments.peer))
    finally:
        if arguments.work is None:
            shutil.rmtree(work)
    if arguments.page:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
        record(PAGE)
    print(text)


if __name__ == "__main__":
    main()
