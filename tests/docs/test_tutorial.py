"""The tutorial is pasted into a shell, block by block, by somebody who has nothing else."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest

PAGE = "docs/tutorial.md"
DEMO, OWN, SCHEDULE, AUDITOR = (
    "## 1. The demonstration",
    "## 2. Your own CSV",
    "## 3. A schedule",
    "## 4. An auditor looks",
)
STAY = ("crowdblend serve", "crowdblend dashboard")


def test_every_block_of_the_page_is_in_a_step(blocks) -> None:
    text = (Path(__file__).resolve().parents[2] / PAGE).read_text(encoding="utf-8")
    assert text.count("```sh\n") == sum(len(blocks(PAGE, step)) for step in (DEMO, OWN, SCHEDULE, AUDITOR))


@pytest.mark.slow
def test_the_demonstration(newcomer, blocks) -> None:
    [block] = blocks(PAGE, DEMO)
    said = newcomer.paste(block.text)
    assert "Charged ε = " in said
    assert "Its signature holds for the publisher's key" in said
    assert (newcomer.folder / "demo" / "release" / "data.parquet").is_file()


@pytest.mark.slow
def test_an_own_csv_is_released_and_an_auditor_looks(newcomer, blocks) -> None:
    said = [newcomer.paste(block.text) for block in blocks(PAGE, OWN)]
    assert any("sex,age,region" in words for words in said)
    assert "signature holds" in said[-2].lower()
    assert "source='rows'" in said[-1]
    out = newcomer.folder / "out" / "survey"
    assert sorted(path.name for path in out.iterdir()) == ["certificate.json", "data.csv"]
    assert len((out / "data.csv").read_text(encoding="utf-8").splitlines()) > 100
    serve, ask = (block.text for block in blocks(PAGE, AUDITOR))
    assert serve.startswith(STAY)

    def answers() -> bool:
        try:
            with urllib.request.urlopen("http://127.0.0.1:8720/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    if answers():
        pytest.fail("something else listens at the port that the page names; end it, or the page can't be tried")
    with newcomer.staying(serve, until=answers, seconds=120):
        told = newcomer.paste(ask)
    assert "'dataset': 'survey'" in told
    assert "The ledger holds." in told


@pytest.mark.long
def test_a_schedule_runs(newcomer, blocks) -> None:
    for block in blocks(PAGE, OWN):
        newcomer.paste(block.text)
    register, serve, look = (block.text for block in blocks(PAGE, SCHEDULE))
    assert serve.startswith(STAY)
    newcomer.paste(register)
    published = newcomer.folder / "published"
    with newcomer.staying(serve, until=lambda: bool(list(published.glob("*/certificate.json"))), seconds=400):
        pass
    assert "minutes" in newcomer.paste(look)
    made = list(published.glob("*/data.csv"))
    assert 1 <= len(made) <= 2


@pytest.mark.slow
def test_the_commands_of_understanding_run(newcomer, blocks) -> None:
    for heading in ("## The guarantee", "## Why a sample serves one release"):
        [block] = blocks("docs/understanding.md", heading)
        assert "0.182989" in newcomer.paste(block.text)


@pytest.mark.long
def test_a_project_of_arx_is_released(newcomer, blocks) -> None:
    for block in blocks("docs/coming-from-arx.md", "## Step by step"):
        newcomer.paste(block.text)
    assert (newcomer.folder / "out" / "patients" / "data.csv").is_file()


@pytest.mark.slow
def test_a_wide_file_is_released_as_its_page_says(newcomer, blocks) -> None:
    [block] = blocks("docs/wide-files.md", "## Try it")
    said = newcomer.paste(block.text)
    assert "Proposed to be released: 38 columns; 2 columns stand there as a question." in said
    assert "What will be told of each column" in said
    assert "signature holds" in said.lower()
    [page] = newcomer.folder.glob("*-sheet.html")
    assert "Rows of different tables" in page.read_text(encoding="utf-8")
