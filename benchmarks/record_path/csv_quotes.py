"""What following quotes costs: CSV files counted with `quoting = "rfc4180"` and, in turn, with `"none"`, as ratios.

Of each file the same groups are counted on this machine's threads, a sampled one at the usual rate and all records.
The file `plain` has no quote, `every` has quotes around every text, `lines` has a quoted field of two lines in every
record (of which `"none"` makes two, so its answer is another one).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.sampling import sample_commitment
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.group_counting import count_job, group_counts
from crowdblend.tasks.counting.quote_states import with_quote_states
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import SourceLayout, check_metadata, plan_chunks
from crowdblend.tasks.readers.values import Quoting, RecordReading

__all__ = ["main"]

KEY = bytes(range(32))
TOWNS = [f"town {number:03d}" for number in range(200)]
MAP = GeneralizationMap(
    columns=(
        MappedColumn(name="town", hierarchy=ValueHierarchy.from_values(TOWNS), level=0),
        MappedColumn(name="age", hierarchy=IntervalHierarchy(lower=0, upper=120, widths=(10,)), level=1),
    )
)
FORMS = {"plain": "{town},{age},some address {number}\n", "every": '"{town}",{age},"some address {number}"\n'}
FORMS["lines"] = '{town},{age},"some address\n{number}"\n'


class _Key:
    """The benchmark's sampling key."""

    def load(self) -> bytes:
        """The key."""
        return KEY


def write_records(path: Path, *, form: str, megabytes: int) -> int:
    """Write a file of about so many megabytes; its number of records."""
    block = "".join(
        form.format(town=TOWNS[number * 7 % 200], age=number * 13 % 100, number=number % 977)
        for number in range(20_000)
    ).encode()
    times = max(1, megabytes * 1_000_000 // len(block))
    with path.open("wb") as file:
        file.write(b"town,age,address\n")
        for _ in range(times):
            file.write(block)
    return times * 20_000


def seconds(layout: SourceLayout, *, reading: RecordReading, rate: Decimal | None, workers: int) -> tuple[float, float]:
    """Wall and processor seconds of one counting."""
    job = count_job(
        release_id="benchmark",
        sample_id=None if rate is None else sample_commitment(KEY),
        generalization=MAP,
        rate=rate,
        reading=reading,
        key_source=None if rate is None else _Key(),
    )
    begun, used = time.perf_counter(), time.process_time()
    group_counts(plan_chunks(layout), job=job, executor=LocalThreads(workers=workers))
    return time.perf_counter() - begun, time.process_time() - used


def compared(path: Path, *, rate: Decimal | None, rounds: int, workers: int) -> Iterator[tuple[float, ...]]:
    """For each round: processor seconds with "none" and with "rfc4180", their ratio, the ratio of the wall's."""
    quotings: tuple[Quoting, Quoting] = ("none", "rfc4180")
    readings = [RecordReading(quoting=quoting) for quoting in quotings]
    source = list_source(str(path), base=path.parent)
    layouts = [check_metadata(source, columns=MAP.names, reading=reading) for reading in readings]
    for number in range(rounds + 1):
        pair = [
            seconds(layout, reading=reading, rate=rate, workers=workers)
            for layout, reading in zip(layouts, readings, strict=True)
        ]
        if number:  # the first warms the file's pages and the imports
            (wall, used), (other_wall, other_used) = pair
            yield used, other_used, other_used / used, other_wall / wall


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args(argv)
    print("| file | records | counted | none, CPU s | rfc4180, CPU s | CPU ratio | wall ratio | states alone, CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="csv-quotes-") as folder:
        for name, form in FORMS.items():
            path = Path(folder) / f"{name}.csv"
            records = write_records(path, form=form, megabytes=arguments.megabytes)
            layout = check_metadata(list_source(str(path), base=Path()), columns=[], reading=RecordReading())
            begun = time.process_time()
            with_quote_states(plan_chunks(layout), executor=LocalThreads(workers=arguments.workers))
            states = time.process_time() - begun
            for rate in (Decimal("0.1"), None):
                rows = list(compared(path, rate=rate, rounds=arguments.rounds, workers=arguments.workers))
                medians = np.array([statistics.median(column) for column in zip(*rows, strict=True)])
                shown = " | ".join(f"{figure:.2f}" for figure in [*medians, states])
                print(f"| {name} | {records:,} | {'all' if rate is None else f'sample of {rate}'} | {shown} |")
            path.unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
