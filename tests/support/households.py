"""Households as units of a release: their specification's beginning, and people to make them of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

HEAD = """
[release]
name = "households"
format = "{file_format}"
output = "out"
verify_page = true
[data]
dataset = "people"
source = "people.csv"
[unit]
by = "home"
[unit.columns.age]
interval = {{ lower = 0, upper = 100, widths = [20] }}
[unit.columns.region]
values = ["N", "S"]
"""
COLUMNS = """
[columns.size]
count_members = {{ cap = 4 }}
{levels}
[columns.region]
member_label = {{ column = "region", highest = "age" }}
{levels}
"""


def write_people(desk, *, file: str = "people.csv", number: int = 3_000, crowd: int = 0) -> list[list[int]]:
    """Write households of one to four people and perhaps one of a crowd, in no order; returns their members' ages."""
    coins = np.random.default_rng(2)
    ages = [coins.integers(0, 90, coins.integers(1, 5)).tolist() for _ in range(number)]
    if crowd:
        ages.append([5] * crowd)
    lines = [f"h{home},{age},{region_of(home)}" for home, own in enumerate(ages) for age in own]
    coins.shuffle(lines)
    (desk.folder / file).write_text("\n".join(["home,age,region", *lines]) + "\n")
    return ages


def region_of(home: int) -> str:
    """Return where a household lives."""
    return "NS"[home % 2]


def write_households(
    desk, text: str, given: Mapping[str, str], *, file_format: str = "parquet", edit: Callable[[str], str] = str
) -> Path:
    """Write a specification with what is given in its places."""
    path: Path = desk.folder / "households.toml"
    path.write_text(edit(text.format(file_format=file_format, **given)))
    return path
