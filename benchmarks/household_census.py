"""A generated census of households: types of households by region within their intervals, and what a run takes.

    python -m benchmarks.household_census --draws 20 --large --write
    python -m benchmarks.household_census --memory --write
    python -m benchmarks.household_census --members --write

Each census has people in households of realistic composition: alone, couples, families with children, single parents,
three generations, shared flats and institutions with up to two hundred people. Records are Parquet files in which a
household's members are far apart. Each draw is a run of the command's flow, in a process of its own.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from crowdblend.accounting.kernel.prices.registry import mechanism_of_record
from crowdblend.accounting.theory.planning.parts_beside import price_tables
from crowdblend.analysis import LoadedRelease, load

from .deletion_path import measured_run, peak_kib
from .generated_pages import machine, write_between
from .whole_run import Place

__all__ = ["main"]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "mechanisms" / "units.md"
BY = "benchmarks/household_census.py"
OF_MEMORY, OF_MEMBERS = f"{BY}, memory", f"{BY}, members"
MOST = 5
"""Members of a household in the table of members."""
LARGE = 4_000_000
LIMITS = (None, "1", "0.25")
"""GiB that CROWDBLEND_MEMORY says; None where it says nothing."""
WORKERS, OF_WORKER = 2, "1GiB"
REGIONS = ("North", "East", "South", "West")
SPEC = """
[release]
name = "households"
output = "out"
[data]
dataset = "census"
source = "census/*.parquet"
[unit]
by = "home"
[unit.columns.age]
interval = {{ lower = 0, upper = 100, widths = [5, 20] }}
[unit.columns.region]
values = ["North", "East", "South", "West"]
[deletion]
[margins]
pairs = {pairs}
[privacy]
epsilon = 1
delta = 1e-7
[columns.region]
member_label = {{ column = "region", highest = "age" }}
{levels}
[columns.adults]
count_members = {{ column = "age", labels = ["[18, 65)"], cap = 4 }}
{levels}
[columns.children]
count_members = {{ column = "age", labels = ["[0, 18)"], cap = 3 }}
{levels}
[columns.pensioners]
count_members = {{ column = "age", labels = ["[65, 100)"], cap = 2 }}
{levels}
"""
NAMED = {
    "pairs": '[["region", "adults"], ["region", "children"], ["region", "pensioners"], ["adults", "children"]]',
    "levels": "levels = [0, 1]",
}
COUNTED = ("adults", "children", "pensioners")
CAPS = {"adults": 4, "children": 3, "pensioners": 2}


def ages_of(kinds: np.ndarray, coins: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the ages of each household's members: by its kind a few adults, children or pensioners."""
    for kind in kinds.tolist():
        adults, children, pensioners = (
            (1, 0, 0),
            (0, 0, 1),
            (2, 0, 0),
            (0, 0, 2),
            (2, 1 + coins.binomial(3, 0.4), 0),
            (1, 1 + coins.binomial(2, 0.4), 0),
            (2, coins.integers(0, 4), 1),
            (coins.integers(3, 7), 0, 0),
            (coins.integers(0, 40), coins.integers(0, 10), coins.integers(0, 150)),
        )[kind]
        yield np.concatenate(
            (
                coins.integers(18, 65, adults),
                coins.integers(0, 18, children),
                coins.integers(65, 98, pensioners + (adults + children + pensioners == 0)),
            )
        )


SHARES = (0.23, 0.14, 0.2, 0.11, 0.2, 0.06, 0.03, 0.0295, 0.0005)


def written(folder: Path, homes: int, *, files: int = 8) -> dict[str, np.ndarray]:
    """Write a census, and return the truth of each household: its region's number and its counts, cut at the caps."""
    coins = np.random.default_rng(homes)
    ages = list(ages_of(coins.choice(len(SHARES), homes, p=SHARES), coins))
    sizes = np.array([own.size for own in ages])
    every, home = np.concatenate(ages), np.repeat(np.arange(homes), sizes)
    regions = coins.integers(0, len(REGIONS), homes)
    starts = np.cumsum(sizes) - sizes
    truth = {"region": regions}
    for name, (low, high) in zip(COUNTED, ((18, 65), (0, 18), (65, 100)), strict=True):
        inside = ((every >= low) & (every < high)).astype(np.int64)
        truth[name] = np.minimum(np.add.reduceat(inside, starts), CAPS[name])
    order = coins.permutation(every.size)
    (folder / "census").mkdir()
    for place, own in enumerate(np.array_split(order, files)):
        table = pa.table(
            {
                "home": home[own],
                "age": every[own].astype(np.int16),
                "region": pa.DictionaryArray.from_arrays(regions[home[own]].astype(np.int8), list(REGIONS)),
            }
        )
        pq.write_table(table, folder / "census" / f"{place}.parquet", row_group_size=1 << 17)
    return truth | {"records": np.array([every.size])}


def labels_of(name: str) -> list[str]:
    cap = CAPS[name]
    return [*map(str, range(cap)), f"{cap} or more"]


def held(release: LoadedRelease, truth: dict[str, np.ndarray]) -> Iterator[tuple[bool, float]]:
    """Yield of each cell of the tables by region whether its interval holds, and its half-width as a share."""
    for name in COUNTED:
        for code, region in enumerate(REGIONS):
            for number, label in enumerate(labels_of(name)):
                true = int(np.sum((truth["region"] == code) & (truth[name] == number)))
                figure = release.count({"region": region, name: label})
                if figure.lower is None or figure.upper is None:
                    raise ValueError("a counted pair has an interval")
                yield figure.lower <= true <= figure.upper, (figure.upper - figure.lower) / 2 / max(true, 1)


def measured(folder: Path, truth: dict[str, np.ndarray], *, draws: int) -> str:
    """Return a row of the table: some releases of one census."""
    place = Place(folder=folder)
    unit = ("--unit", "household:home")
    place.measure("dataset", "add", "census", "--epsilon", "1000", "--delta", "0.1", *unit)
    (folder / "spec.toml").write_text(SPEC.format(**NAMED), encoding="utf-8")
    found, costs = list[tuple[bool, float]](), list[dict[str, float]]()
    for draw in range(draws):
        answer, cost = measured_run(place, "spec.toml", "--output", f"out-{draw}")
        costs.append(cost)
        found += held(load(answer["output"]), truth)
    cells = [f"{truth['region'].size:,}", f"{truth['records'][0]:,}", f"{len(found):,}"]
    cells += [f"{np.mean([own for own, _ in found]):.1%}", f"{np.median([width for _, width in found]):.2%}"]
    cells += [f"{statistics.median(cost['all'] for cost in costs):.1f}", f"{max(cost['MiB'] for cost in costs):.0f}"]
    return f"| {' | '.join(cells)} |"


def memory_table(homes: int) -> Iterator[str]:
    """Yield a table of what one run takes of memory: on threads with and without a limit, and on a local cluster."""
    yield "| on | records | CROWDBLEND_MEMORY | seconds | processor seconds | MiB |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given)
        records = written(folder, homes)["records"][0]
        place = Place(folder=folder)
        place.measure("dataset", "add", "census", "--epsilon", "1000", "--delta", "0.1", "--unit", "household:home")
        (folder / "spec.toml").write_text(SPEC.format(**NAMED), encoding="utf-8")
        for number, limit in enumerate(LIMITS):
            own = place if limit is None else replace(place, extra=place.extra | {"CROWDBLEND_MEMORY": limit})
            _, cost = measured_run(own, "spec.toml", "--output", f"out-{number}")
            said = "not set" if limit is None else f"{limit} GiB"
            taken = f"{cost['all']:.0f} | {cost['processor']:.0f} | {cost['MiB']:.0f}"
            yield f"| threads of one process | {records:,} | {said} | {taken} |"
        seconds, largest = on_workers(place)
        yield f"| each of {WORKERS} workers of {OF_WORKER} | {records:,} | – | {seconds:.0f} | – | {largest:.0f} |"


def members_table(draws: int) -> Iterator[str]:
    """Yield a table of releases with a table of members: what they publish and cost, beside two charges."""
    yield (
        "| households | members | may be in the table | published | counts by age and region, median error | "
        "ε of both | of two charges | ratio | seconds |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    members = f"[unit.members]\nmost = {MOST}\ncolumns = {{ age = [1, 2], region = [0, 0] }}\n[deletion]"
    for homes in (40_000, 400_000):
        with tempfile.TemporaryDirectory() as given:
            folder = Path(given)
            written(folder, homes)
            true, people = taken_members(folder)
            place = Place(folder=folder)
            place.measure("dataset", "add", "census", "--epsilon", "1000", "--delta", "0.1", "--unit", "household:home")
            spec = SPEC.format(**NAMED).replace("[deletion]", members)
            (folder / "spec.toml").write_text(spec, encoding="utf-8")
            errors, published, seconds = list[float](), list[int](), list[float]()
            for draw in range(draws):
                answer, cost = measured_run(place, "spec.toml", "--output", f"out-{draw}")
                loaded = load(answer["output"]).members
                if loaded is None:
                    raise ValueError("a release with a table of members has one")
                found = {cell: loaded.count({"age": cell[0], "region": cell[1]}).estimate for cell in true}
                errors += [abs(found[cell] / count - 1) for cell, count in true.items()]
                published.append(answer["members"]["records"])
                seconds.append(cost["all"])
        delta = Decimal(repr(answer["delta"]))
        units, alone = price_tables(mechanism_of_record(answer["mechanism"]), delta=delta / 2)
        two = float(units.epsilon + alone.epsilon)
        cells = [f"{homes:,}", f"{people:,}", f"{sum(true.values()):,}", f"{statistics.median(published):,.0f}"]
        cells += [f"{statistics.median(errors):.2%}", f"{answer['epsilon']:.3f}", f"{two:.3f}"]
        cells += [f"{answer['epsilon'] / two:.2f}", f"{statistics.median(seconds):.1f}"]
        yield f"| {' | '.join(cells)} |"


def taken_members(folder: Path) -> tuple[dict[tuple[str, str], int], int]:
    """Return by age and region how many members may be in the table, and how many people there are."""
    table = pq.read_table(folder / "census")
    home, age = table["home"].to_numpy(), table["age"].to_numpy().astype(np.int64)
    order = np.lexsort((age // 5, home))
    _, starts, sizes = np.unique(home[order], return_index=True, return_counts=True)
    regions = np.array(table["region"].to_pylist())[order]
    found = dict.fromkeys(product((f"[{low}, {low + 20})" for low in range(0, 100, 20)), REGIONS), 0)
    for place in range(MOST):
        rank = np.where(sizes > MOST, (2 * place + 1) * sizes // (2 * MOST), place)
        at = (starts + rank)[rank < sizes]
        for low, region in zip((age[order][at] // 20 * 20).tolist(), regions[at].tolist(), strict=True):
            found[f"[{low}, {low + 20})", region] += 1
    return found, age.size


def on_workers(place: Place) -> tuple[float, float]:
    """Return the seconds of a run on workers of a local cluster, and at most how many MiB one of them took."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=WORKERS,
        threads_per_worker=1,
        memory_limit=OF_WORKER,
        dashboard_address=None,
        local_directory=str(place.folder / "workers"),
    ) as cluster:
        _, cost = measured_run(place, "spec.toml", "--output", "out-workers", "--scheduler", cluster.scheduler_address)
        # The nannies start the workers' processes, whose numbers they know.
        peaks = [peak_kib(nanny.pid) / 1024 for nanny in cluster.workers.values()]
    return cost["all"], max(peaks)


def main() -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description="A generated census of households.")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--large", action="store_true", help="also ten million records")
    parser.add_argument("--memory", action="store_true", help="only what ten million records take of memory")
    parser.add_argument("--members", action="store_true", help="only releases with a table of members")
    parser.add_argument("--homes", type=int, default=LARGE, help="of that: households")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    options = parser.parse_args()
    if options.memory or options.members:
        lines = []
        for line in memory_table(options.homes) if options.memory else members_table(options.draws):
            lines.append(line)
            print(line, flush=True)
        if options.write:
            write_between(PAGE, [*lines, "", f"{machine()}."], by=OF_MEMORY if options.memory else OF_MEMBERS)
        return
    lines = [
        "| households | records | cells by region | intervals that hold | half-width, median | seconds | MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for homes, draws in (
        (40_000, options.draws),
        (400_000, options.draws),
        *([(LARGE, 1)] if options.large else []),
    ):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            truth = written(folder, homes)
            lines.append(measured(folder, truth, draws=draws))
        print(lines[-1], flush=True)
    if options.write:
        write_between(PAGE, [*lines, "", f"{machine()}."], by=BY)


if __name__ == "__main__":
    main()
