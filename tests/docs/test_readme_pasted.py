"""The README's commands work as they stand, in their order, with the reader's own records."""

from __future__ import annotations

import pytest

README = "README.md"
REGIONS = "Lyon;Rhône;South;*\nNice;Alpes-Maritimes;South;*\nLille;Nord;North;*\nParis;Paris;North;*\n"
STEPS = (
    "## Your first own release",
    "### The same release every month",
    "### Releases decided one after the other",
    "### Let the data choose the levels, privately",
)


@pytest.mark.long
def test_the_ways_of_the_readme(newcomer, blocks) -> None:
    towns = [line.partition(";")[0] for line in REGIONS.splitlines()]
    rows = [f"{('Female', 'Male')[i % 2]},{20 + i % 40},{towns[i % 4]}" for i in range(8_000)]
    (newcomer.folder / "people.csv").write_text("sex,age,region\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (newcomer.folder / "regions.csv").write_text(REGIONS, encoding="utf-8")
    for step in STEPS:
        for block in blocks(README, step):
            if block.language == "toml":
                name = block.text.splitlines()[0].removeprefix("# ")
                assert name.endswith(".toml")
                (newcomer.folder / name).write_text(block.text, encoding="utf-8")
            else:
                newcomer.paste(block.text)
    released = {path.parent.name for path in newcomer.folder.glob("out/*/certificate.json")}
    assert released == {"my-survey-2026", "monthly-2026-01", "my-survey-chosen"}
    told = newcomer.paste("crowdblend report private my-survey.toml out/my-survey-2026")
    assert "not for publication" in told
