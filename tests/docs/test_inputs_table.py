"""The table of all inputs names what the code reads, no more and no less, with its extras and keys."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from crowdblend.flows.spec import keys_of, spec_model
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source_formats import file_formats
from crowdblend.tasks.readers.source_files import COMPRESSIONS

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "starting-from-a-file.md").read_text(encoding="utf-8")
# Header, and a row for each kind of input.
ROWS = [line.strip("| ").split(" | ") for line in PAGE.partition("\n## A ")[0].splitlines() if line.startswith("| ")]
EVERYWHERE = {"dataset", "source", "trim", "null", "person", "household", "rows_per_person"}


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def test_every_key_of_data_is_in_the_table_or_for_all() -> None:
    keys = {key.name for key in keys_of(spec_model()) if key.table == "data"}
    assert set().union(*(quoted(row[3]) for row in ROWS[1:])) | EVERYWHERE == keys


def test_the_extras_are_the_projects() -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set().union(*(quoted(row[2]) for row in ROWS[1:]))
    assert named == {"statistics", "iceberg", "database"}
    assert named < set(extras)


def test_the_endings_are_those_that_are_read(tmp_path: Path) -> None:
    named = {ending for row in ROWS[1:] for ending in quoted(row[1]) if ending.startswith(".")}
    assert named == {suffix for known in file_formats() for suffix in known.suffixes} | {*COMPRESSIONS}
    packed = {f"{ending}{more}" for more in COMPRESSIONS for ending in quoted(ROWS[1][1])}
    for ending in (named - set(COMPRESSIONS)) | packed:
        (tmp_path / f"people{ending}").write_text("a,b\n1,2\n")
        assert len(list_source(f"people{ending}", base=tmp_path).files) == 1, ending


@pytest.mark.parametrize("ending", [".xlsx", ".ods", ".rds", ".sqlite", ".csv.bz2", ".parquet.gz", ".sav.zst", ".json"])
def test_what_is_not_in_the_table_is_refused_by_its_name(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"people{ending}").write_text("a,b\n1,2\n")
    with pytest.raises(InputRefused) as caught:
        list_source(f"people{ending}", base=tmp_path)
    assert caught.value.remedy
