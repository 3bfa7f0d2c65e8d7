"""How long the exact scores of a whole lattice of maps take, and how much memory, from the files to the draw.

    python -m benchmarks.record_path.lattice_scoring                    10 million generated records, 2,304 maps
    python -m benchmarks.record_path.lattice_scoring --full             the same with every age and area: 3,600 maps
    python -m benchmarks.record_path.lattice_scoring --full --sample 0.1    on a fresh sample
    python -m benchmarks.record_path.lattice_scoring --adult FOLDER [--times 100]    UCI Adult, 12,960 maps, repeated

Data are generated from a seed into --data (kept there), and are not part of the time. Figures called "measured
elsewhere" are quoted constants of another machine with two processors, for orientation; no command here
reproduces them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from crowdblend.accounting.kernel.keys.private_store import KeyRef
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.sampling import sample_commitment
from crowdblend.mechanisms.map_selection.choice import Lattice, LatticeColumn, draw_map, group_threshold
from crowdblend.mechanisms.map_selection.rollup import scores
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.group_counting import count_job, group_counts
from crowdblend.tasks.inputs.hierarchy_files import read_hierarchy
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.readers.values import RecordReading
from numpy.typing import NDArray

__all__ = ["Measured", "census_lattice", "generate", "measure"]

SEED = 20_260_402
BLOCK = 1_000_000
K, RATE, SELECTION_EPSILON = 20, Decimal("0.1"), Decimal("0.1")
_SLOTS = 1 << 16

DOMAINS = {
    "area": (3000, 300, 60, 12),
    "age": (100, 20, 10, 4),
    "occupation": (25, 6),
    "education": (16, 5),
    "sex": (2,),
    "marital": (6,),
    "race": (7,),
    "income": (8,),
    "citizen": (3,),
}
"""Per column the number of labels of each level below `*`; a value's frequency falls with its place."""
_SKEW = {"area": 0.9, "occupation": 1.1, "education": 1.2, "marital": 1.0, "race": 2.2, "income": 0.8, "citizen": 3.0}

ELSEWHERE = {
    "adult": "ARX 3.9.2, a search of 100 of these maps: 0.75 s and 0.4 GB; on 100 times the records 22.7 s and 2.1 GB",
    "census": "a prototype of this roll-up, 2,304 maps over 3.7 million cells of 10 million records: 0.8 s + 3.5 s",
}
ADULT_COLUMNS = (
    "sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation", "salary-class",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One run.

    Args:
        records: records counted.
        maps: candidates, all scored.
        cells: groups of the finest map.
        counting: seconds for the pass over the records.
        scoring: seconds for the scores.
        drawing: seconds for one draw.
        processor: processor seconds of all three, over all threads; less disturbed by other work than the others.
        megabytes: the process's peak of resident memory.
    """

    records: int
    maps: int
    cells: int
    counting: float
    scoring: float
    drawing: float
    processor: float
    megabytes: int


def _tree(name: str, sizes: tuple[int, ...]) -> ValueHierarchy:
    rows = []
    for value in range(sizes[0]):
        row, place, size = [_text(name, value)], value, sizes[0]
        for level, coarser in enumerate(sizes[1:], start=1):
            place, size = place * coarser // size, coarser
            row.append(f"{name} {level}/{place}")
        rows.append([*row, "*"])
    return ValueHierarchy.from_rows(rows)


def _text(name: str, value: int) -> str:
    return f"{name} {value:04d}"


def census_lattice(*, full: bool) -> Lattice:
    """Without `full`, areas and ages are published in groups at least: 2,304 maps; with it 3,600."""
    columns: list[LatticeColumn] = []
    for name, sizes in DOMAINS.items():
        tree = _tree(name, sizes)
        finest = 0 if full or name not in ("area", "age") else 1
        coarsest = 0 if name == "citizen" else tree.levels - 1
        columns.append(
            LatticeColumn(name=name, hierarchy=tree, min_level=finest, max_level=coarsest, weight=Decimal(1))
        )
    return Lattice(columns=tuple(columns))


def generate(folder: Path, *, rows: int, seed: int = SEED) -> Path:
    """Write the records as one Parquet file, or find them there; the same arguments give the same records.

    Occupation, education, marital status and income follow age or each other in part; the rest is independent.
    """
    target = folder / f"census-lattice-{rows}-{seed}.parquet"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([(name, pa.string()) for name in DOMAINS])
    partial = target.with_suffix(".partial")
    with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for start in range(0, rows, BLOCK):
            codes = _block(np.random.default_rng([seed, start]), min(BLOCK, rows - start))
            arrays = [
                pa.DictionaryArray.from_arrays(
                    pa.array(codes[name].astype(np.int32)), pa.array([_text(name, value) for value in range(sizes[0])])
                )
                for name, sizes in DOMAINS.items()
            ]
            writer.write_table(pa.table(arrays, names=list(DOMAINS)).cast(schema))
    partial.rename(target)
    return target


def _block(rng: np.random.Generator, size: int) -> dict[str, NDArray[np.int64]]:
    drawn = {name: _slots(name)[rng.integers(0, _SLOTS, size)] for name in _SKEW}
    age = np.minimum(rng.gamma(4.0, 10.0, size), 99.0).astype(np.int64)
    education = np.where(rng.random(size) < 0.5, np.minimum(age // 6, 15), drawn["education"])
    return {
        "area": drawn["area"],
        "age": age,
        "occupation": np.where(rng.random(size) < 0.5, education * 25 // 16, drawn["occupation"]),
        "education": education,
        "sex": rng.integers(0, 2, size),
        "marital": np.where(rng.random(size) < 0.8, np.minimum(age // 17, 5), drawn["marital"]),
        "race": drawn["race"],
        "income": np.where(rng.random(size) < 0.8, education // 2, drawn["income"]),
        "citizen": drawn["citizen"],
    }


def _slots(name: str) -> NDArray[np.int64]:
    """Which value each of 2**16 equally likely numbers stands for."""
    values = DOMAINS[name][0]
    weights = 1.0 / (1.0 + np.random.default_rng(values).permutation(values)) ** _SKEW[name]
    bounds = np.round(np.cumsum(weights) / weights.sum() * _SLOTS).astype(np.int64)
    return np.repeat(np.arange(values), np.diff(bounds, prepend=0))


def adult_parquet(folder: Path, target: Path, *, times: int) -> Path:
    """UCI Adult as Parquet, its records repeated."""
    text = pa.csv.ConvertOptions(column_types=dict.fromkeys(ADULT_COLUMNS, pa.string()))
    table = pa.csv.read_csv(
        folder / "adult.csv", parse_options=pa.csv.ParseOptions(delimiter=";"), convert_options=text
    )
    path = target / f"adult-{times}.parquet"
    pq.write_table(pa.concat_tables([table] * times), path, compression="zstd")
    return path


def adult_lattice(folder: Path) -> Lattice:
    """All levels of the nine columns: 12,960 maps."""
    trees = {name: read_hierarchy(str(folder / f"adult_hierarchy_{name}.csv")) for name in ADULT_COLUMNS}
    return Lattice(
        columns=tuple(
            LatticeColumn(name=name, hierarchy=tree, min_level=0, max_level=tree.levels - 1, weight=Decimal(1))
            for name, tree in trees.items()
        )
    )


def measure(source: Path, lattice: Lattice, *, sample: Decimal | None, threads: int) -> Measured:
    """Count, score and draw once."""
    with tempfile.TemporaryDirectory() as store:
        key = os.urandom(32)
        place = Path(store) / "sampling.key"
        place.write_bytes(key)
        begun, used = time.perf_counter(), time.process_time()
        layout = check_metadata(
            list_source(str(source), base=source.parent), columns=lattice.names, reading=RecordReading(separator=";")
        )
        job = count_job(
            release_id="benchmark",
            sample_id=None if sample is None else sample_commitment(key),
            generalization=lattice.map_of(lattice.finest),
            rate=sample,
            reading=RecordReading(),
            key_source=None if sample is None else KeyRef(path=place),
        )
        counts = group_counts(plan_chunks(layout), job=job, executor=LocalThreads(workers=threads))
    counted = time.perf_counter()
    found = scores(counts, lattice=lattice, threshold=group_threshold(K, RATE, sample), threads=threads)
    scored = time.perf_counter()
    draw_map(found, epsilon=SELECTION_EPSILON, rule="permute-and-flip")
    drawn = time.perf_counter()
    return Measured(
        records=int(counts.counts.sum()),
        maps=lattice.size,
        cells=counts.counts.size,
        counting=counted - begun,
        scoring=scored - counted,
        drawing=drawn - scored,
        processor=time.process_time() - used,
        megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    )


def main() -> None:
    """Print one run, beside what was measured elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--full", action="store_true", help="every age and area: 3,600 maps")
    parser.add_argument("--sample", type=Decimal, help="rate of a fresh sample; without it the whole data")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--adult", type=Path, help="folder of UCI Adult and its hierarchies")
    parser.add_argument("--times", type=int, default=1, help="how often Adult's records are repeated")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "crowdblend-benchmarks")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    if arguments.adult is not None:
        lattice = adult_lattice(arguments.adult)
        source = adult_parquet(arguments.adult, arguments.data, times=arguments.times)
        elsewhere = ELSEWHERE["adult"]
    else:
        lattice = census_lattice(full=arguments.full)
        source = generate(arguments.data, rows=arguments.rows)
        elsewhere = ELSEWHERE["census"]
    run = measure(source, lattice, sample=arguments.sample, threads=arguments.threads)
    if arguments.json:
        json.dump({name: getattr(run, name) for name in run.__slots__}, sys.stdout)
        return
    print(f"{run.records} records counted, {run.cells} cells, {run.maps} maps, {arguments.threads} threads")
    together = run.counting + run.scoring + run.drawing
    print(f"counting {run.counting:.2f} s, scoring {run.scoring:.2f} s, drawing {run.drawing:.2f} s; together", end=" ")
    print(f"{together:.2f} s ({run.processor:.2f} processor seconds), at most {run.megabytes} MB")
    print(f"measured elsewhere: {elsewhere}")


if __name__ == "__main__":
    main()
