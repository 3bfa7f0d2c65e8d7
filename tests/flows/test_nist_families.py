"""Families of NIST's excerpt as units: how far they can be put together, and releases held against the survey itself.

The excerpt has no ids of households. Members of a family agree in the columns of their dwelling and family, so that
groups of records that agree there, of exactly as many records as each says that its family has (NPF), are taken for
families. Where two families agree in all of them, or the excerpt lacks a member, the group has another size and is left
out. So these are families of a survey's records, put together for this test, and not those of the survey.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crowdblend.analysis import load

SHARED = ("PUMA", "NPF", "NOC", "HOUSING_TYPE", "OWN_RENT", "POVPIP", "WGTP")
SPEC = """
[release]
name = "families"
output = "out"
[data]
dataset = "families"
source = "families.csv"
weight = "WGTP"
weight_classes = { bounds = [1, 20, 40, 60, 80, 120, 200, 400] }
[unit]
by = "family"
weight = { highest = "AGEP" }
[unit.columns.AGEP]
interval = { lower = 0, upper = 100, widths = [20, 40] }
[unit.columns.OWN_RENT]
values = ["1", "2"]
[unit.columns.NPF]
values = ["2", "3", "4", "5", "6", "7", "8", "9"]
[unit.columns.DVET]
values = ["1", "2", "3", "4", "5", "6"]
[deletion]
[margins]
pairs = [["members", "NPF"], ["OWN_RENT", "children"]]
[privacy]
epsilon = 1
delta = 1e-6
[columns.members]
count_members = { cap = 6 }
levels = [0, 1]
[columns.NPF]
member_label = { column = "NPF", highest = "AGEP" }
levels = [0, 1]
[columns.children]
count_members = { column = "AGEP", labels = ["[0, 18)"], cap = 3 }
levels = [0, 1]
[columns.OWN_RENT]
member_label = { column = "OWN_RENT", highest = "AGEP" }
levels = [0, 1]
[columns.veteran]
any_member = { column = "DVET", labels = ["1", "2", "3", "4", "5", "6"] }
levels = [0, 1]
"""


def families(file: Path) -> tuple[list[list[dict[str, str]]], int]:
    """The families that can be put together, and how many groups of records there are in all."""
    together = defaultdict(list)
    with file.open(encoding="utf-8") as stored:
        for record in csv.DictReader(stored):
            if record["NPF"] != "N":
                together[tuple(record[name] for name in SHARED)].append(record)
    return [own for own in together.values() if len(own) == int(own[0]["NPF"])], len(together)


@pytest.mark.extra
def test_families_of_the_excerpt_are_as_large_as_the_survey_says(desk) -> None:
    found, groups = families(Path(os.environ["CROWDBLEND_NIST"]) / "ma2019.csv")
    assert (len(found), groups, sum(map(len, found))) == (1_484, 1_789, 4_569)
    names = ("AGEP", "OWN_RENT", "NPF", "DVET", "WGTP")
    lines = [
        f"{number},{','.join(record[name] for name in names)}" for number, own in enumerate(found) for record in own
    ]
    lines = lines[::2] + lines[1::2]  # members aren't beside each other
    (desk.folder / "families.csv").write_text("\n".join([f"family,{','.join(names)}", *lines]) + "\n")
    (desk.folder / "families.toml").write_text(SPEC)
    desk.succeed("dataset", "add", "families", "--epsilon", "4", "--delta", "1e-5", "--unit", "household:family")
    result = desk.succeed("run", "families.toml", "--json").json
    desk.succeed("verify", result["output"])
    release = load(result["output"])

    def near(figure, true: int) -> None:
        # Five half-widths of 95% are about ten standard errors.
        assert abs(figure.estimate - true) <= 5 * (figure.upper - figure.lower) / 2, (figure, true)

    for size in range(2, 6):
        # What is counted of the records, and what the survey wrote into each of them.
        both = sum(own[0]["NPF"] == str(size) for own in found)
        near(release.count({"members": str(size), "NPF": str(size)}), both)
        near(release.count({"members": str(size), "NPF": str(size + 1)}), 0)
    for owned in "12":
        own = [one for one in found if one[0]["OWN_RENT"] == owned]
        none = sum(not any(int(record["AGEP"]) < 18 for record in one) for one in own)
        near(release.count({"OWN_RENT": owned, "children": "0"}), none)
        near(release.count({"OWN_RENT": owned}), len(own))
    near(release.count({"veteran": "yes"}), sum(any(r["DVET"] in "123456" for r in own) for own in found))
    weights = sum(min(max(int(own[0]["WGTP"]), 1), 400) for own in found)
    total = pq.read_table(Path(result["output"]) / "totals.parquet").to_pylist()[0]
    slack = 10 * total["standard_error"]
    assert total["interval_low"] - slack < weights < total["interval_high"] + slack
