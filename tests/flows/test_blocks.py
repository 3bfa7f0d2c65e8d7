"""Releases in blocks, several tables of rows under one charge: from `explain` to `verify`; what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.certificate import write_certificate
from crowdblend.accounting.certificate.verify import read_certificate
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.deploy import release_check
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.kinds.paired_deletion import BlockedDeletion

HEAD = """
[release]
name = "wide"
form = "{form}"
format = "{file_format}"
output = "out"
{metadata}
[data]
dataset = "people"
source = "people.csv"
[deletion]
[privacy]
epsilon = 1
delta = 1e-6
[margins]
pairs = "auto"
{blocks}
"""
COLUMN = """
[columns.{name}]
values = ["a", "b", "c"]
levels = {levels}
"""
SEX = """
[columns.sex]
values = ["f", "m"]
levels = {levels}
"""
LEFT, RIGHT = ("work", "income", "hours"), ("health", "sight", "sleep")
WRITTEN = """
[blocks]
pinned = ["sex"]
[blocks.work]
theme = "Work and income"
columns = ["work", "income", "hours"]
[blocks.health]
columns = ["health", "sight", "sleep"]
"""
FOUND = '[blocks]\nnumber = 2\npinned = ["sex"]\n'
FREE, FIXED = '"auto"', "[0, 1]"


def spec_of(desk, blocks: str, *, levels: str = FREE, **changes: str) -> Path:
    path = desk.folder / "wide.toml"
    given = {"form": "microdata", "file_format": "parquet", "metadata": "", "blocks": blocks}
    names = [name for both in zip(LEFT, RIGHT, strict=True) for name in both]
    columns = "".join(COLUMN.format(name=name, levels=levels) for name in names) + SEX.format(levels=levels)
    path.write_text(HEAD.format(**given | changes) + columns)
    return path


@pytest.fixture
def people(desk) -> dict[str, np.ndarray]:
    """6,000 records: three columns follow one another but for a quarter, and three others do."""
    coins = np.random.default_rng(4)

    def theme(names: tuple[str, ...]) -> dict[str, np.ndarray]:
        hidden = coins.integers(0, 3, 6_000)
        return {
            name: np.array(["a", "b", "c"])[np.where(coins.random(6_000) < 0.25, coins.integers(0, 3, 6_000), hidden)]
            for name in names
        }

    columns = {"sex": coins.choice(["f", "m"], 6_000), **theme(LEFT), **theme(RIGHT)}
    lines = [",".join(record) for record in zip(*columns.values(), strict=True)]
    (desk.folder / "people.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")
    desk.add_dataset(epsilon=20)
    return columns


def test_columns_that_belong_together_are_found_and_each_block_is_near_the_records(desk, people) -> None:
    spec = spec_of(desk, FOUND)
    explained = desk.succeed("explain", spec, "--json").json
    mechanism = read_spec(spec, output=None).mechanism
    assert isinstance(mechanism, BlockedDeletion)
    assert explained["mechanism"] == mechanism_record(mechanism)
    result = desk.succeed("run", spec, "--json").json
    assert result["epsilon"] <= 1
    folder = Path(result["output"])
    assert sorted(path.name for path in folder.iterdir()) == [
        "certificate.json",
        "data-1.parquet",
        "data-2.parquet",
        "margins.parquet",
    ]
    blocks = result["blocks"]
    assert [{*block["columns"]} for block in blocks] == [{*LEFT, "sex"}, {*RIGHT, "sex"}]
    assert "stages" not in result
    assert result["published_records"] == sum(block["records"] for block in blocks)
    sexes = []
    for number, block in enumerate(blocks, start=1):
        rows = pq.read_table(folder / f"data-{number}.parquet").to_pandas()
        assert {*rows.columns} == {*block["columns"], "stage", "weight"}
        assert len(rows) == block["records"] > 3_000
        assert rows["weight"].sum() == pytest.approx(6_000, rel=0.03)
        names = [name for name in block["columns"] if name != "sex"]
        alike = rows[rows[names].eq("a").all(axis=1)]["weight"].sum()
        exact = int(np.all([people[name] == "a" for name in names], axis=0).sum())
        assert alike == pytest.approx(exact, rel=0.25), "three columns of one row tell more than pairs"
        sexes.append(rows.groupby("sex")["weight"].sum().to_dict())
    for label, people_of_label in sexes[0].items():
        assert sexes[1][label] == pytest.approx(people_of_label, rel=1e-3), "tables agree by what they share"
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")
    [charge] = [row for row in desk.succeed("dataset", "list", "--json").json["datasets"] if row["dataset"] == "people"]
    assert charge["epsilon_spent"] == result["epsilon"], "all blocks are under one charge"


def test_blocks_that_do_not_follow_from_the_counts_are_found(desk, people) -> None:
    result = desk.succeed("run", spec_of(desk, FOUND), "--json").json
    path = Path(result["certificate"])
    certificate = read_certificate(path)

    def findings(changed: dict) -> list[str]:
        return list(release_check._label_findings(changed, changed["map"]["columns"], path.parent))

    assert findings(certificate) == []
    changes = {
        "its levels are not those that follow": lambda one: one["blocks"][0]["stages"][0]["levels"].update(work=1),
        "its blocks are not those that follow": lambda one: one["chosen_blocks"].update(pinned=[]),
        "its levels can't be computed again": lambda one: one["chosen_blocks"].update(rule="blocks/0"),
        "its stages are not those": lambda one: one["blocks"].pop(),
        "its stages are not those of": lambda one: one["blocks"][0]["columns"].append(one["blocks"][0]["columns"][0]),
    }
    for said, change in changes.items():
        changed = json.loads(json.dumps(certificate))
        change(changed["published"])
        assert any(finding.startswith(said) for finding in findings(changed)), said
    swapped = [(path.parent / f"data-{number}.parquet").read_bytes() for number in (2, 1)]
    for number, content in enumerate(swapped, start=1):
        (path.parent / f"data-{number}.parquet").write_bytes(content)
    assert findings(certificate) == [f"data-{number}.parquet lacks a column of its block" for number in (1, 2)]
    (path.parent / "data-2.parquet").unlink()
    assert "data-2.parquet can't be read as a table" in findings(certificate)


@pytest.mark.slow
def test_a_choice_that_can_not_be_computed_again_is_named(desk, people, monkeypatch) -> None:
    monkeypatch.setattr(write_certificate, "MOST_CARRIED", 1)
    result = desk.succeed("run", spec_of(desk, FOUND), "--json").json
    told = desk.succeed("verify", result["certificate"], "--json").json
    assert any("whether levels and blocks are those that follow" in one for one in told["unchecked"])


@pytest.mark.slow
@pytest.mark.parametrize(("form", "file_format", "levels"), [("counts", "csv", FIXED), ("microdata", "parquet", FREE)])
def test_written_blocks_are_published_under_their_names(desk, people, form, file_format, levels) -> None:
    described = {"form": form, "file_format": file_format, "metadata": '[release.metadata]\ntitle = "T"'}
    result = desk.succeed("run", spec_of(desk, WRITTEN, levels=levels, **described), "--json").json
    folder = Path(result["output"])
    assert {path.stem for path in folder.iterdir() if path.suffix == f".{file_format}"} == {
        "data-work",
        "data-health",
        "margins",
    }
    assert [block.get("theme") for block in result["blocks"]] == ["Work and income", None]
    desk.succeed("verify", result["certificate"])
    dictionary = (folder / "metadata" / "data-dictionary.md").read_text()
    assert "A figure that the mechanism publishes" not in dictionary
    assert all(f"data-{name}.{file_format}" in dictionary for name in ("work", "health"))
    shown = desk.succeed("release", "show", result["release_id"]).out
    assert result["release_id"] in shown


@pytest.mark.slow
def test_the_page_reads_the_tables_of_all_blocks(browser, desk, people) -> None:
    spec = spec_of(desk, FOUND)
    spec.write_text(spec.read_text().replace('output = "out"', 'output = "out"\nverify_page = true'))
    result = desk.succeed("run", spec, "--json").json
    desk.succeed("key", "export", "publisher.pem")

    def told(folder: Path) -> str:
        page = browser.new_page()
        page.goto((folder / "verify.html").as_uri())
        page.get_by_label("Choose the folder").set_input_files(folder)
        page.get_by_label("Choose the key").set_input_files(desk.folder / "publisher.pem")
        page.locator("#answer .verdict").wait_for()
        answer: str = page.locator("#answer").inner_text()
        page.close()
        return answer

    whole = told(Path(result["output"]))
    assert "What was checked holds, but not all was checked." in whole, "it computes no price of composed noises"
    assert f"{result['published_records']} rows; all labels" in whole.replace(",", "").replace("\u202f", "")
    (Path(result["output"]) / "data-2.parquet").unlink()
    assert "does not hold" in told(Path(result["output"]))


REFUSED = {
    "no pairs": ("", {"margins": True}, "[blocks]: blocks go by pairs"),
    "unknown": ('[blocks.a]\ncolumns = ["town"]\n', {}, "[blocks.a].columns: 'town' is not a released column"),
    "twice": ('[blocks.a]\ncolumns = ["sex", "sex"]\n', {}, "[blocks.a].columns: 'sex' stands there twice"),
    "left out": ('[blocks.a]\ncolumns = ["sex"]\n', {}, "[blocks]: the column 'work' is released and stands in no"),
    "number": (WRITTEN.replace("pinned", "number = 2\npinned"), {}, "[blocks].number: the blocks are written"),
    "too many": ("[blocks]\nnumber = 8\n", {}, "[blocks].number: 8 blocks can't be made of 7 columns"),
    "name": (WRITTEN.replace(".work]", ".Work]"), {}, "[blocks.Work]: a block's name is part of a file's name"),
    "same": (WRITTEN + '[blocks.again]\ncolumns = ["health", "sight", "sleep"]\n', {}, "[blocks]: two blocks have"),
    "key": (WRITTEN.replace("theme", "title"), {}, "[blocks.work].title: there is no such key"),
    "type": ("[blocks]\nfoo = 3\n", {}, "[blocks].foo: this must be a table"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_blocks_that_can_not_be_are_refused(desk, fault) -> None:
    blocks, changes, said = REFUSED[fault]
    spec = spec_of(desk, blocks or FOUND)
    if changes:
        spec.write_text(spec.read_text().replace('pairs = "auto"', "").replace(FREE, "[0]"))
    desk.refuse("explain", spec, said=said)
