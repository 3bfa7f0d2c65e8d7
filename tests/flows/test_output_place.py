"""An output among the records, or records inside of the output, is refused by the names alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from crowdblend.flows.output_place import require_apart
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.destinations import output_at

APART = [
    ("people.csv", "out"),
    ("data", "out"),
    ("data", "data-out"),
    ("data/*.csv", "data/out"),
    ("people-*.csv", "people-out"),
    ("s3://bucket/people", "out"),
    ("data", "s3://bucket/out"),
    ("s3://bucket/data", "s3://bucket/data-out"),
    ("../people.csv", "out"),
    ("loop", "out"),
    ("people.csv", "loop"),
    ("people.csv", "loop/out"),
    ("file://{base}/people.csv", "out"),
    ("data/*.csv", "linked"),
    ("data/*/people.csv", "data/../out"),
    ("data/2026-*/people.csv", "data/out"),
    ("data/*/people.csv", "data/out"),
    ("file://data", "s3://bucket/data/out"),
]
INSIDE = [
    ("data", "data"),
    ("data", "data/out"),
    ("data", "data/2026/out"),
    ("data/**/*.csv", "data/2026/out"),
    ("data/*/data.csv", "data/out"),
    ("link", "data/out"),
    ("data/*", "data/out"),
    ("data/*/p*.csv", "data/out"),
    ("data/*/margins.parquet", "data/out"),
    ("data/*/data.sav", "data/out"),
    ("data/*/members.csv", "data/out"),
    ("data/*/data-town.parquet", "data/out"),
    ("data/*/rows/data.csv", "data/out"),
    ("file://{base}/data", "data/out"),
    ("file://{base}/data/*/data.csv", "data/out"),
    ("local://{base}/data/*/data.csv", "file://{base}/data/out"),
    ("file://data", "data/out"),
    ("link/*/data.csv", "data/out"),
    ("data/*/data.csv", "link/out"),
    ("data/../data/*/data.csv", "data/out"),
    ("data/*/data.csv", "data/../data/out"),
    ("data/*/data.csv", "other/../data/out"),
    ("s3://bucket/data", "s3://bucket/data/out"),
    ("s3://bucket/data/*.csv", "s3://bucket/data/out"),
]
AROUND = [
    ("out/people.csv", "out"),
    ("out/a/b/*.csv", "out/a"),
    ("file://{base}/out/people.csv", "out"),
    ("data/*/../out/data.csv", "data/out"),
    ("data/people.csv", "link"),
    ("link/*.csv", "data"),
    ("s3://bucket/out/data", "s3://bucket/out"),
]


def place(folder: Path, source: str, output: str) -> None:
    (folder / "data").mkdir()
    (folder / "link").symlink_to(folder / "data")
    (folder / "linked").symlink_to(folder / "elsewhere")
    (folder / "loop").symlink_to("loop")
    source, output = source.format(base=folder), output.format(base=folder)
    require_apart(SimpleNamespace(source=source, base=folder, output=output_at(output, base=folder)))


@pytest.mark.parametrize(("source", "output"), APART)
def test_apart(tmp_path: Path, source: str, output: str) -> None:
    place(tmp_path, source, output)


@pytest.mark.parametrize(("source", "output"), INSIDE)
def test_an_output_among_the_records(tmp_path: Path, source: str, output: str) -> None:
    with pytest.raises(InputRefused, match="lies among the records"):
        place(tmp_path, source, output)


@pytest.mark.parametrize(("source", "output"), AROUND)
def test_records_inside_of_the_output(tmp_path: Path, source: str, output: str) -> None:
    with pytest.raises(InputRefused, match="records lie inside of the output"):
        place(tmp_path, source, output)
