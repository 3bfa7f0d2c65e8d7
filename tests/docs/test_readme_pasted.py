"""The commands of the README and of the guides work as they stand, in their order, with the reader's own records."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

STEWARD, ENGINEER = "docs/guide/steward.md", "docs/guide/engineer.md"
REGIONS = "Lyon;Rhône;South;*\nNice;Alpes-Maritimes;South;*\nLille;Nord;North;*\nParis;Paris;North;*\n"
STEPS = (
    ("README.md", "## A first release"),
    (STEWARD, "## The same release every month"),
    (STEWARD, "## Releases decided one after the other"),
    (STEWARD, "## Let the data choose the levels, privately"),
    (ENGINEER, "## Clusters, schedules, object storage"),
)
STAY = "crowdblend serve"


def is_due(log: Path) -> bool:
    """Whether `serve` has come to wait for the next time of its schedule."""
    return log.exists() and "Next run at" in log.read_text(encoding="utf-8")


def test_every_block_of_the_pages_is_in_a_step(blocks) -> None:
    """Beside these steps there are the two commands of make, which this test's own environment has run."""
    root = Path(__file__).resolve().parents[2]
    text = "\n".join((root / page).read_text(encoding="utf-8") for page in ("README.md", STEWARD, ENGINEER))
    pasted = [block for page, step in STEPS for block in blocks(page, step)]
    assert len(re.findall(r"^```(?:sh|toml)$", text, re.MULTILINE)) == len(pasted) + 1
    assert sum(block.text.startswith(STAY) for block in pasted) == 1


@pytest.mark.long
def test_the_ways_of_the_readme(newcomer, blocks) -> None:
    towns = [line.partition(";")[0] for line in REGIONS.splitlines()]
    rows = [f"{('Female', 'Male')[i % 2]},{20 + i % 40},{towns[i % 4]}" for i in range(8_000)]
    (newcomer.folder / "people.csv").write_text("sex,age,region\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (newcomer.folder / "regions.csv").write_text(REGIONS, encoding="utf-8")
    for page, step in STEPS:
        for block in blocks(page, step):
            if block.language == "toml":
                name = block.text.splitlines()[0].removeprefix("# ")
                assert name.endswith(".toml")
                (newcomer.folder / name).write_text(block.text, encoding="utf-8")
            elif block.text.startswith(STAY):
                waits = f"{block.text.strip()} > serve.log 2>&1"
                with newcomer.staying(waits, until=partial(is_due, newcomer.folder / "serve.log"), seconds=400):
                    pass
            else:
                newcomer.paste(block.text)
    released = {path.parent.name for path in newcomer.folder.glob("out/*/certificate.json")}
    assert released == {"my-survey-2026", "monthly-2026-01", "monthly-2026-02", "my-survey-chosen"}
    told = newcomer.paste("crowdblend report private my-survey.toml out/my-survey-2026")
    assert "not for publication" in told
