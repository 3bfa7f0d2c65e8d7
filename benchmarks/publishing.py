"""Publishing a table of many rows beside pyarrow's own writers, which are given the same rows in memory.

Ours goes from the published groups to the file's last byte: it repeats the rows and shows them as texts. pyarrow's
Parquet writer gets dictionaries of texts, its CSV writer texts. Processor time, the least of some rounds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .generated_pages import machine
from .record_path.census_data import COLUMNS, SEED

__all__ = ["main", "measure"]

GROUPS = 100_000


def measure(rows: int, *, folder: Path, rounds: int = 3) -> dict[str, tuple[float, float]]:
    """Per file format, processor seconds of ours and of pyarrow's writer.

    Args:
        rows: about so many are published, in `GROUPS` groups of very different sizes.
        folder: for the files.
        rounds: of which the quickest counts.

    Raises:
        ValueError: both files of a format don't hold the same rows.
    """
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq
    from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
    from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
    from crowdblend.tasks.stages.table import ROWS_AT_ONCE, count_table, write_table

    columns = [
        (column.name, [(str(value), label, "*") for value, label in zip(column.values, column.labels, strict=True)])
        for column in COLUMNS
    ]
    generalization = GeneralizationMap(
        columns=tuple(
            MappedColumn(name=name, hierarchy=ValueHierarchy.from_rows(lines), level=1) for name, lines in columns
        )
    )
    rng = np.random.default_rng(SEED)
    keys = np.sort(rng.choice(generalization.cells, size=GROUPS, replace=False)).reshape(1, -1)
    sizes = 1 + rng.pareto(1.2, GROUPS)
    counts = np.maximum(1, (sizes / sizes.sum() * rows).astype(np.int64))
    table = count_table(keys, counts, generalization=generalization, form="microdata")
    coded = pa.concat_tables(list(table.blocks(ROWS_AT_ONCE))).combine_chunks()
    texts = coded.cast(pa.schema([pa.field(field.name, field.type.value_type) for field in coded.schema]))
    peers = {
        "parquet": lambda place: pq.write_table(coded, place, compression="zstd", store_schema=False),
        "csv": lambda place: pc.write_csv(texts, place),
    }
    found = {}
    for form, peer in peers.items():
        own, other = folder / f"data.{form}", folder / f"peer.{form}"
        ours = _least(lambda form=form: write_table(table, folder=folder, file_format=form), rounds)
        found[form] = ours, _least(lambda peer=peer, other=other: peer(other), rounds)
        read = pq.read_table if form == "parquet" else pc.read_csv
        if not read(own).equals(read(other)):
            raise ValueError(f"the two files of {form} differ")
    return found


def _least(work: Callable[[], object], rounds: int) -> float:
    """Processor seconds of the quickest round."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def main(argv: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    asked = parser.parse_args(argv)
    print(f"About {asked.rows:,} rows in {GROUPS:,} groups; {machine()}.\n")
    print("| | ours, processor s | pyarrow's writer | its time over ours |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="publishing-") as folder:
        for form, (ours, peer) in measure(asked.rows, folder=Path(folder)).items():
            print(f"| {form} | {ours:.2f} | {peer:.2f} | {peer / ours:.2f} |")


if __name__ == "__main__":
    main()
