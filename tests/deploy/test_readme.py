"""The specifications of the README and of the steward's guide are real ones: each is explained, and runs."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGES = (PROJECT / "README.md", PROJECT / "docs" / "guide" / "steward.md")
REGIONS = "Lyon;Rhône;South;*\nNice;Alpes-Maritimes;South;*\nLille;Nord;North;*\nParis;Paris;North;*\n"


def specifications() -> dict[str, str]:
    """Each TOML block of the pages by the file name in its first line."""
    found = {}
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for block in re.findall(r"^( *)```toml\n(.*?)^ *```", pages, re.DOTALL | re.MULTILINE):
        text = textwrap.dedent(block[1])
        found[text.splitlines()[0].removeprefix("# ")] = text
    return found


@pytest.mark.parametrize("name", ["my-survey.toml", pytest.param("chosen.toml", marks=pytest.mark.slow)])
def test_a_specification_of_the_pages_runs(desk, name: str) -> None:
    (desk.folder / name).write_text(specifications()[name], encoding="utf-8")
    (desk.folder / "regions.csv").write_text(REGIONS, encoding="utf-8")
    towns = [line.partition(";")[0] for line in REGIONS.splitlines()]
    rows = [f"{('Female', 'Male')[i % 2]},{20 + i % 40},{towns[i % 4]}" for i in range(8_000)]
    (desk.folder / "people.csv").write_text("sex,age,region\n" + "\n".join(rows) + "\n", encoding="utf-8")
    explained = desk.succeed("explain", name, "--json")
    desk.succeed("dataset", "add", "my-survey", "--epsilon", "1", "--delta", "1e-5")
    answer = desk.succeed("run", name, "--json")
    result = answer.json
    assert result["epsilon"] == explained.json["epsilon"]
    assert result["published_records"] > 0
    for column in explained.json["columns"]:
        assert column["min_level"] <= result["levels"][column["column"]] <= column["max_level"]
    desk.succeed("verify", result["certificate"])
