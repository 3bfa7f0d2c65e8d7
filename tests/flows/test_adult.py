"""EXTRA: UCI Adult with its nine hierarchies; needs the files, in the folder named by CROWDBLEND_ADULT.

The project doesn't ship these data. `make test-extra` runs this where somebody has them.
"""

from __future__ import annotations

import csv
import math
import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

pytestmark = pytest.mark.extra

LEVELS = {
    "sex": 1,
    "age": 2,
    "race": 1,
    "marital-status": 1,
    "education": 2,
    "native-country": 1,
    "workclass": 1,
    "occupation": 1,
    "salary-class": 0,
}
K, RATE, DELTA = 20, 0.1, 1e-6


@pytest.fixture
def adult() -> Path:
    return Path(os.environ["CROWDBLEND_ADULT"])


def write_spec(desk, adult: Path) -> Path:
    columns = "".join(
        f'[columns.{name}]\nhierarchy = "{adult}/adult_hierarchy_{name}.csv"\nlevel = {level}\n'
        for name, level in LEVELS.items()
    )
    path = desk.folder / "adult.toml"
    path.write_text(
        f"""
[release]
name = "adult-2026"
output = "out"
[data]
dataset = "people"
source = "{adult}/adult.csv"
separator = ";"
[sampling]
rate = {RATE}
[suppression]
k = {K}
[privacy]
delta = {DELTA}
{columns}"""
    )
    return path


def hierarchies(adult: Path) -> dict[str, dict[str, list[str]]]:
    result = {}
    for name in LEVELS:
        with (adult / f"adult_hierarchy_{name}.csv").open(newline="") as file:
            result[name] = {row[0]: row for row in csv.reader(file, delimiter=";")}
    return result


def group_sizes(adult: Path) -> Counter:
    """Every group's size, by Python's own csv reader and dictionaries: nothing of the product."""
    maps = hierarchies(adult)
    with (adult / "adult.csv").open(newline="") as file:
        return Counter(
            tuple(maps[name][row[name]][level] for name, level in LEVELS.items())
            for row in csv.DictReader(file, delimiter=";")
        )


def test_thirty_releases_of_adult(desk, adult: Path) -> None:
    """False alarm: 6e-5, the mean of 30 releases beyond 4 standard errors of its exact distribution."""
    desk.add_dataset(epsilon="100", delta="1e-3")
    spec = write_spec(desk, adult)
    maps, sizes = hierarchies(adult), group_sizes(adult)
    allowed = {name: {row[level] for row in maps[name].values()} | {"*"} for name, level in LEVELS.items()}
    published = []
    for number in range(30):
        answer = desk.succeed("run", spec, "--output", f"out-{number}", "--json")
        table = pq.read_table(Path(answer.json["output"]) / "data.parquet")
        columns = [table[name].to_pylist() for name in LEVELS]
        for name, values in zip(LEVELS, columns, strict=True):
            assert set(values) <= allowed[name]
        groups = Counter(zip(*columns, strict=True))
        assert min(groups.values()) >= K
        assert all(count <= sizes[group] for group, count in groups.items())
        assert answer.json["levels"] == LEVELS
        published.append(answer.json["published_records"])

    mean = variance = 0.0
    for size in sizes.values():
        counts = range(K, size + 1)
        chances = [float(binom.pmf(count, size, RATE)) for count in counts]
        first = sum(count * chance for count, chance in zip(counts, chances, strict=True))
        second = sum(count * count * chance for count, chance in zip(counts, chances, strict=True))
        mean += first
        variance += second - first * first
    assert abs(sum(published) / 30 - mean) < 4 * math.sqrt(variance / 30)
