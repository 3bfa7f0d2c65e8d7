"""Processes that race for one release id, one sample or the last of a budget: one publishes, the others say why."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def test_ten_processes_race_for_one_release_id(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    racers = [desk.start("run", "spec.toml", "--release-id", "the-one", "--json") for _ in range(10)]
    ends = [racer.finish() for racer in racers]
    # One that starts when the release is published already looks it up; all others are refused.
    looked_up = [json.loads(out)["looked_up"] for code, out, _ in ends if code == 0]
    assert looked_up.count(False) == 1, ends
    assert {code for code, _, _ in ends} <= {0, 3}, ends
    for code, out, err in ends:
        assert "Traceback" not in err
        if code == 3:
            assert "the-one" in err
            assert json.loads(out)["error"]["exit_code"] == 3
    shown = desk("ledger", "show", "--json").json
    [release] = shown["releases"]
    assert release["stage"] == "published"
    assert shown["datasets"][0]["epsilon_spent"] == release["epsilon"]
    desk.succeed("ledger", "verify")


@pytest.mark.slow
def test_what_was_read_is_not_refunded(desk) -> None:
    """A release that failed after its reading began can be given up, never taken back; its id stays used."""
    desk.add_dataset()
    desk.write_spec(source="people.parquet")
    people = {"colour": ["blue"] * 5_000, "age": list(range(5_000)), "town": ["Lyon"] * 5_000}
    pq.write_table(pa.table(people), desk.folder / "people.parquet")
    with (desk.folder / "people.parquet").open("r+b") as records:
        records.seek(4)
        records.write(bytes(300))  # the pages' headers; the footer, which is read before the charge, is whole
    assert desk("run", "spec.toml", "--release-id", "failed").code == 1
    desk.succeed("abandon", "failed", "--reason", "new delivery")
    [dataset] = desk("ledger", "show", "--json").json["datasets"]
    assert dataset["epsilon_spent"] > 0
    assert desk("run", "spec.toml", "--release-id", "failed").code == 3
