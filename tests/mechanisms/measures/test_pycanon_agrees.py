"""The measures of classes agree with pycanon, an independent implementation, in an environment of its own."""

from __future__ import annotations

import csv
import json
import subprocess
import venv
from pathlib import Path

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import count_keys
from crowdblend.mechanisms.kinds.microdata import suppress
from crowdblend.mechanisms.measures.counted_records import CountedRecords
from crowdblend.mechanisms.measures.risk import (
    average_class_size,
    discernibility,
    normalised_class_size,
    reidentification_risk,
)

PYCANON = "pycanon==1.3.6"  # pins an old pandas, so it can't stand beside ours
DRIVER = Path(__file__).with_name("pycanon_driver.py")
DIGITS = 1e-12
TOWNS = ValueHierarchy.from_rows([(f"town{n}", f"region{n % 4}", "*") for n in range(12)])
AGES = IntervalHierarchy(lower=0, upper=100, widths=(5, 25))


@pytest.fixture(scope="module")
def pycanon(tmp_path_factory) -> Path:
    """The Python of an environment with pycanon alone."""
    folder = tmp_path_factory.mktemp("pycanon")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", PYCANON], check=True, timeout=500)
    return python


def people(level: tuple[int, int]) -> CountedRecords:
    draw = np.random.default_rng(11)
    towns, ages = draw.zipf(1.6, 3_000) % 12, np.clip(draw.normal(45, 18, 3_000), 0, 99).astype(np.int64)
    made = GeneralizationMap(
        columns=(
            MappedColumn(name="town", hierarchy=TOWNS, level=level[0]),
            MappedColumn(name="age", hierarchy=AGES, level=level[1]),
        )
    )
    codes = [
        TOWNS.codes_of_texts([f"town{n}".encode() for n in towns], level[0]),
        AGES.codes_of_integers(ages, level[1]),
    ]
    return CountedRecords(map=made, groups=count_keys(made.keys(codes), cells=made.cells))


def write(table: CountedRecords, path: Path) -> None:
    labels = [
        column.hierarchy.labels(codes, column.level)
        for column, codes in zip(table.map.columns, table.codes(), strict=True)
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table.map.names)
        for row in zip(table.class_sizes.tolist(), *labels, strict=True):
            writer.writerows([row[1:]] * row[0])


@pytest.mark.extra
def test_pycanon_agrees_to_twelve_digits(pycanon: Path, tmp_path: Path) -> None:
    before = people((0, 0))
    coarse = before.recoded(people((1, 1)).map)
    released = CountedRecords(map=coarse.map, groups=suppress(coarse.groups.keys, coarse.groups.counts, 20))
    write(before, tmp_path / "before.csv")
    write(released, tmp_path / "after.csv")
    run = subprocess.run(
        [pycanon, DRIVER, tmp_path / "before.csv", tmp_path / "after.csv"],
        check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    told = json.loads(run.stdout)
    for name, table in (("before", before), ("after", released)):
        sizes, theirs = table.class_sizes, told[name]
        risk = reidentification_risk(sizes, sizes, threshold=0.2)
        assert (theirs["classes"], theirs["least"], theirs["k"]) == (sizes.size, sizes.min(), sizes.min())
        assert average_class_size(sizes) == pytest.approx(theirs["average"], rel=DIGITS)
        assert normalised_class_size(sizes, k=int(sizes.min())) == pytest.approx(theirs["normalised"], rel=DIGITS)
        assert risk.prosecutor_highest == pytest.approx(theirs["highest_risk"], rel=DIGITS)
        assert float((1 / sizes).mean()) == pytest.approx(theirs["average_risk_of_a_class"], rel=DIGITS)
        # Ours is an average over records, theirs over classes: the same only where classes are of one size.
        assert risk.prosecutor_average != pytest.approx(theirs["average_risk_of_a_class"], rel=1e-3)
    suppressed = before.records - released.records
    assert suppressed > 0
    assert discernibility(released.class_sizes, suppressed=suppressed) == told["discernibility"]
    assert discernibility(released.class_sizes, suppressed=suppressed - 1) != told["discernibility"]
