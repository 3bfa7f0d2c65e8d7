"""CSV through whole releases: a person's record stays one, whatever its fields hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crowdblend.flows.spec import read_spec

NOTES = """
[release]
name = "notes"
output = "out"
[data]
dataset = "people"
source = "notes.csv"
[sampling]
rate = 0.1
[suppression]
k = 20
[privacy]
delta = 1e-6
[columns.sex]
values = ["F", "M"]
level = 0
"""
SUM = """
[release]
name = "{name}"
output = "{name}"
[data]
dataset = "fixed"
source = "{name}.csv"
[answer]
kind = "sum"
epsilon = 1
relation = "replacement"
column = "amount"
lower = 1000
upper = 1001
missing = 1000
"""


def test_records_of_several_lines_publish_nobody_who_is_not_there(desk) -> None:
    (desk.folder / "notes.csv").write_text("sex,note\n" + 'F,"first line\nM,second line 0"\n' * 8_000)
    (desk.folder / "notes.toml").write_text(NOTES)
    desk.add_dataset()
    done = desk.succeed("run", desk.folder / "notes.toml", "--json")
    rows = pq.read_table(Path(done.json["output"]) / "data.parquet").column("sex").to_pylist()
    assert set(rows) == {"F"}
    assert 600 < len(rows) < 1_000  # the binomial of 8,000 at 0.1 leaves this with less than 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("last", ["1000", ""])
def test_a_sum_under_replacement_counts_a_record_whose_value_is_missing(desk, last: str) -> None:
    """Noise beyond 30 has a probability below 1e-12 at ε = 1 and sensitivity 1."""
    name = f"amounts-{last or 'none'}"
    (desk.folder / f"{name}.csv").write_text(f"amount\n1000\n1000\n{last}\n")
    (desk.folder / "sum.toml").write_text(SUM.format(name=name))
    desk("dataset", "add", "fixed", "--epsilon", "10", "--delta", "0", "--relation", "replacement")
    done = desk.succeed("run", desk.folder / "sum.toml", "--json")
    [row] = pq.read_table(Path(done.json["output"]) / "data.parquet").to_pylist()
    assert abs(row["answer"] - 3_000) <= 30


def test_quoting_is_part_of_what_a_charge_is_bound_to_and_the_default_is_as_before(desk) -> None:
    path = desk.folder / "notes.toml"
    digests = []
    for quoting in ("", 'quoting = "rfc4180"\n', 'quoting = "none"\n'):
        path.write_text(NOTES.replace("[sampling]", f"{quoting}[sampling]"))
        request = read_spec(path, output=None)
        digests.append((request.digest, request.series_digest))
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[2][0]
    assert digests[0][1] != digests[2][1]


def test_another_quoting_is_refused(desk) -> None:
    (desk.folder / "notes.toml").write_text(NOTES.replace("[sampling]", 'quoting = "excel"\n[sampling]'))
    done = desk("explain", desk.folder / "notes.toml")
    assert done.code == 2
    assert "[data].quoting" in done.err
