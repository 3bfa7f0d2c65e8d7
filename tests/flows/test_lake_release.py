"""Releases of a real Delta Lake table: of live people alone, at a version that a retry reads again."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

VECTORS = Path(__file__).parents[1] / "vectors" / "delta"


def of_version(number: int):
    return lambda text: text.replace('separator = ";"', f'separator = ";"\nversion = {number}')


@pytest.fixture
def table(desk) -> Path:
    """The register, whose present version has green people alone; its first version is of all three colours."""
    shutil.copytree(VECTORS / "register", desk.folder / "register")
    desk.add_dataset()
    return desk.folder / "register"


def colours(answer) -> set[str]:
    assert answer.code == 0, answer.err
    return set(pq.read_table(Path(answer.json["output"]) / "data.parquet")["colour"].to_pylist())


def files_of(table: Path, version: int) -> list[Path]:
    text = (table / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
    actions = [json.loads(line) for line in text.splitlines()]
    return [table / action["add"]["path"] for action in actions if "add" in action]


def test_only_live_people_are_published_and_a_version_may_be_named(desk, table):
    present = desk("run", desk.write_spec(source="register", rate="0.5"), "--json")
    assert colours(present) == {"green"}
    first = desk.write_spec(source="register", rate="0.5", output="first", edit=of_version(0))
    assert colours(desk("run", first, "--json")) == {"blue", "green", "red"}
    none = desk("run", desk.write_spec(source="register", output="none", edit=of_version(5)), "--json")
    assert none.code == 2
    assert "there is no version 5; the last one is 4" in none.err
    assert not (desk.folder / "none").exists()


def test_a_dry_run_an_explanation_and_a_new_specification_name_the_version(desk, table):
    spec = desk.write_spec(source="register")
    assert "of version 4 of the table" in desk.succeed("run", spec, "--dry-run").out
    assert desk.succeed("run", spec, "--dry-run", "--json").json["source"]["version"] == 4
    assert "version 4 of the table" in desk.succeed("explain", spec).out
    desk.succeed("spec", "new", "--from", "register", "--output", "begun.toml")
    begun = (desk.folder / "begun.toml").read_text(encoding="utf-8")
    assert all(name in begun for name in ("colour", "age", "town"))


@pytest.mark.slow
def test_a_retry_reads_the_version_that_was_charged_and_waits_for_its_files(desk, table, cut_off):
    """Cut off after the charge; then the table moves on, a VACUUM takes the version's file, and it comes back."""
    log = table / "_delta_log"
    late = [log / f"{number:020}.json" for number in (3, 4)]
    for path in late:
        path.rename(desk.folder / path.name)
    spec = desk.write_spec(source="register", rate="0.5")

    cut_off(spec)
    charged = desk("ledger", "show", "--json").json["datasets"]
    for path in late:
        (desk.folder / path.name).rename(path)
    [file] = files_of(table, 2)
    away = desk.folder / "away"
    os.rename(file, away)
    desk.refuse("run", spec, "--release-id", "one", said="is gone")
    assert not (desk.folder / "out").exists()
    assert desk("ledger", "show", "--json").json["datasets"] == charged
    os.rename(away, file)
    assert "of version 2 of the table" in desk.succeed("run", spec, "--release-id", "one", "--dry-run").out
    answer = desk("run", spec, "--release-id", "one", "--json")
    assert colours(answer) == {"green"}
    assert desk("ledger", "show", "--json").json["datasets"] == charged
    desk.succeed("ledger", "verify")
    other = desk.write_spec(source="register", rate="0.5", edit=of_version(2))
    assert desk("run", other, "--release-id", "one").code == 3


@pytest.mark.slow
def test_a_preview_takes_no_version_of_the_own_table_for_public(desk, table):
    """Versions may have no file in common, and the files of the one that is named may be gone."""
    spec = desk.write_spec(source="register", edit=of_version(0))
    for gone in (False, True):
        if gone:
            files_of(table, 0)[0].unlink()
        desk.refuse("preview", spec, "--public", "register", said="a version of the specification's own source")
    shutil.copytree(table, desk.folder / "others")
    assert desk("preview", spec, "--public", "others").code == 0
