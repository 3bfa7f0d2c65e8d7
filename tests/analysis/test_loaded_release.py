"""The researcher's kit on real releases of each kind: it verifies, counts near the records, and says what it can't."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from crowdblend.accounting.certificate.verify import read_certificate
from crowdblend.analysis import Figure, load, load_answer, loaded_answer
from crowdblend.mechanisms.kernel.errors import InputRefused

CASES = Path(__file__).resolve().parents[1] / "vectors" / "conformance" / "certificate"

HEAD = """
[release]
name = "researched"
form = "{form}"
format = "{file_format}"
output = "out"
[data]
dataset = "people"
source = "people.csv"
[privacy]
{privacy}
"""
COLUMNS = """
[columns.sex]
values = ["f", "m"]
{sex}
[columns.age]
interval = {{ lower = 0, upper = 90, widths = [10, 30] }}
{age}
[columns.town]
values = ["x", "y", "z"]
{town}
"""
PAIRED = '[deletion]\n[margins]\npairs = "auto"\n'
CHAIN = {"sex": "levels = [0, 0]", "age": "levels = [1, 2]", "town": "levels = [0, 1]"}
LEVELS = {"sex": "level = 0", "age": "level = 2", "town": "level = 0"}
AUTO = dict.fromkeys(LEVELS, 'levels = "auto"')
SAMPLE = "[sampling]\nrate = 0.3\n"
EXACT = "epsilon = 1\ndelta = 1e-6"


def released(desk, tables: str, levels: dict[str, str], privacy: str = EXACT, **changes: str) -> Path:
    path = desk.folder / "researched.toml"
    given = {"form": "microdata", "file_format": "parquet", "privacy": privacy} | changes
    path.write_text(HEAD.format(**given) + tables + COLUMNS.format(**levels))
    return Path(desk.succeed("run", path, "--json").json["output"])


@pytest.fixture
def people(desk) -> dict[str, np.ndarray]:
    """6,000 records: the town follows from the age, but for a tenth."""
    coins = np.random.default_rng(4)
    ages = coins.integers(0, 90, 6_000)
    towns = np.where(coins.random(6_000) < 0.1, coins.integers(0, 3, 6_000), ages // 30)
    columns = {"sex": coins.choice(["f", "m"], 6_000), "age": ages, "town": np.array(["x", "y", "z"])[towns]}
    lines = [",".join(map(str, record)) for record in zip(*columns.values(), strict=True)]
    (desk.folder / "people.csv").write_text("\n".join(["sex,age,town", *lines]) + "\n")
    desk.add_dataset(epsilon=20)
    return columns


def require_near(figure: Figure, true: float, *, times: float = 3.0) -> None:
    """The truth is within three half-widths of the estimate: intervals of 95% miss so far once in 10⁸."""
    assert figure.lower is not None
    assert figure.upper is not None
    assert figure.lower <= figure.estimate <= figure.upper
    half = max(figure.upper - figure.estimate, figure.estimate - figure.lower, 1e-9)
    assert abs(figure.estimate - true) <= times * half, (figure, true)


def require_within(figure: Figure, true: float) -> None:
    """The truth is no farther outside of the interval than the interval is wide: as rare as in `require_near`."""
    assert figure.lower is not None
    assert figure.upper is not None
    width = figure.upper - figure.lower
    assert figure.lower - width <= true <= figure.upper + width, (figure, true)


def test_a_release_with_chosen_pairs_answers_by_margins_and_pairs_and_rows(desk, people) -> None:
    folder = released(desk, PAIRED, AUTO)
    release = load(folder)
    female, young, north = people["sex"] == "f", people["age"] < 30, people["town"] == "x"
    assert release.labels("town") == ["*", "x", "y", "z"]
    require_near(release.count(), 6_000)
    require_near(release.count({"sex": "f"}), female.sum())
    by_pair = release.count({"town": "x", "age": range(30)})
    require_near(by_pair, (young & north).sum())
    assert by_pair.source == "pairs"
    assert release.count({"town": "x"}).source == "margins"
    require_near(release.share({"town": "x"}, of={"age": range(30)}), (young & north).sum() / young.sum())
    require_near(release.mean("age"), people["age"].mean())
    require_near(release.quantile("age"), float(np.median(people["age"])), times=20)
    by_town = release.mean("age", by="town")
    assert by_town["town"].tolist() == ["x", "y", "z"]
    for row in by_town.to_dict("records"):
        assert row["lower"] <= people["age"][people["town"] == row["town"]].mean() + 3
    table = release.table("age", "town")
    assert {*table.columns} == {"age", "town", "estimate", "lower", "upper", "source", "note"}
    assert (table["lower"] >= 0).all()
    by_all = release.count({"sex": "f", "town": "x", "age": range(30)})
    assert by_all.source == "rows"
    require_within(by_all, (female & young & north).sum())
    assert isinstance(load(folder, frames="polars").table("sex"), pl.DataFrame)
    with pytest.raises(InputRefused, match="finer"):
        release.count({"age": "between"})
    with pytest.raises(InputRefused, match="no column 'income'"):
        release.count({"income": 3})
    with pytest.raises(InputRefused, match="no numbers"):
        release.mean("town")
    with pytest.raises(InputRefused, match="a condition names columns"):
        release.count("town")


def test_what_does_not_verify_is_refused(desk, people) -> None:
    folder = released(desk, PAIRED, AUTO)
    own, other = desk.folder / "own.pem", desk.folder / "other.pem"
    desk.succeed("key", "export", own)
    desk.succeed("key", "rotate")
    desk.succeed("key", "export", other)
    assert load(folder, public_key=own).count().source == "margins"
    with pytest.raises(InputRefused, match="none of those that were given"):
        load(folder, public_key=other)
    table = folder / "margins.parquet"
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(InputRefused, match="does not verify"):
        load(folder)


@pytest.mark.parametrize(
    ("tables", "levels", "file_format"),
    [
        ("[deletion]\n[margins]\n", CHAIN, "csv"),
        ('[deletion]\n[margins]\npairs = [["age", "town"]]\n', CHAIN, "parquet"),
        (SAMPLE + "[margins]\n", LEVELS, "csv"),
    ],
)
def test_margins_of_all_kinds_answer_counts_by_a_column(desk, people, tables, levels, file_format) -> None:
    release = load(released(desk, tables, levels, file_format=file_format))
    require_near(release.count({"sex": "f"}), (people["sex"] == "f").sum())
    require_near(release.count({"age": range(60, 90)}), (people["age"] >= 60).sum())
    both = release.count({"age": range(60, 90), "town": "z"})
    true = ((people["age"] >= 60) & (people["town"] == "z")).sum()
    require_within(both, true)
    assert both.source == ("pairs" if "pairs" in tables else "rows")
    require_within(release.mean("age"), people["age"].mean())


@pytest.mark.parametrize(
    ("tables", "levels", "privacy", "form"),
    [
        ("[deletion]\n", CHAIN, EXACT, "counts"),
        (SAMPLE + "[suppression]\nk = 20\n", LEVELS, "delta = 1e-3", "microdata"),
        (SAMPLE + "[margins]\ncolumns = false\n", LEVELS, EXACT, "microdata"),
        (SAMPLE + '[histogram]\nkind = "noisy"\nk = 20\nepsilon = 1\n', LEVELS, "delta = 1e-3", None),
        (SAMPLE + '[histogram]\nkind = "suppressed"\nk = 20\n', LEVELS, "delta = 1e-3", None),
    ],
)
def test_releases_without_margins_have_the_sheets_bounds(desk, people, tables, levels, privacy, form) -> None:
    given = {"form": form} if form else {}
    path = desk.folder / "researched.toml"
    head = HEAD if form else HEAD.replace('form = "{form}"\n', "")
    path.write_text(head.format(file_format="csv", privacy=privacy, **given) + tables + COLUMNS.format(**levels))
    release = load(Path(desk.succeed("run", path, "--json").json["output"]))
    for where, true in (({"sex": "f"}, (people["sex"] == "f").sum()), ({"age": range(30)}, (people["age"] < 30).sum())):
        figure = release.count(where)
        require_within(figure, true)
        assert math.isfinite(figure.estimate)
    mean = release.mean("age", by="sex")
    assert mean["lower"].isna().all()
    assert (mean["source"] == "rows").all()


def test_a_release_in_blocks_answers_of_each_table_and_of_two_by_the_model(desk, people) -> None:
    blocks = '[blocks.one]\ncolumns = ["sex", "age"]\n[blocks.two]\ncolumns = ["age", "town"]\n'
    release = load(released(desk, PAIRED.replace('"auto"', '"auto"\nnumber = 1') + blocks, AUTO))
    assert [table.columns for table in release.published.rows] == [(0, 1), (1, 2)]
    require_near(release.count({"town": "x"}), (people["town"] == "x").sum())
    for where in (
        {"sex": "f", "age": range(30)},
        {"sex": "f", "town": "x"},
        {"sex": "f", "town": "x", "age": range(30)},
    ):
        true = np.ones(6_000, dtype=bool)
        for name, asked in where.items():
            true &= np.isin(people[name], list(asked) if isinstance(asked, range) else [asked])
        figure = release.count(where)
        require_within(figure, true.sum())
        assert abs(figure.estimate - true.sum()) < 600
    assert set(next(iter(release.complete(1))).columns) == {"completed_copy", "sex", "age", "town"}


def test_survey_weights_are_a_column_of_classes(desk, people) -> None:
    lines = (desk.folder / "people.csv").read_text().splitlines()
    coins = np.random.default_rng(5)
    weights = coins.integers(1, 50, 6_000)
    rows = [f"{line},{weight}" for line, weight in zip(lines[1:], weights, strict=True)]
    (desk.folder / "people.csv").write_text("\n".join([f"{lines[0]},base", *rows]) + "\n")
    data = 'source = "people.csv"\nweight = "base"\nweight_classes = { bounds = [1, 10, 20, 50] }'
    path = desk.folder / "researched.toml"
    head = HEAD.replace('source = "people.csv"', data).replace(
        "{ bounds = [1, 10, 20, 50] }", "{{ bounds = [1, 10, 20, 50] }}"
    )
    given = {"form": "microdata", "file_format": "parquet", "privacy": EXACT}
    path.write_text(head.format(**given) + PAIRED + COLUMNS.format(**AUTO))
    release = load(Path(desk.succeed("run", path, "--json").json["output"]))
    require_near(release.count({"base": ">= 20"}), (weights >= 20).sum())
    assert len(release.published.pairs) >= 3, "each column was counted together with the classes"
    require_near(release.count({"town": "x"}, weighted=True), weights[people["town"] == "x"].sum())
    require_near(release.share({"town": "x"}, weighted=True), weights[people["town"] == "x"].sum() / weights.sum())
    require_near(release.mean("age", weighted=True), np.average(people["age"], weights=weights))


def test_columns_may_have_the_names_of_figures(desk, people) -> None:
    lines = (desk.folder / "people.csv").read_text().splitlines()
    (desk.folder / "people.csv").write_text("\n".join(["weight,age,stage", *lines[1:]]) + "\n")
    path = desk.folder / "researched.toml"
    columns = (
        COLUMNS.format(**LEVELS).replace("[columns.sex]", "[columns.weight]").replace("columns.town", "columns.stage")
    )
    head = HEAD.format(form="microdata", file_format="csv", privacy="delta = 1e-3")
    path.write_text(head + SAMPLE + "[suppression]\nk = 20\n" + columns)
    release = load(Path(desk.succeed("run", path, "--json").json["output"]))
    figure = release.count({"weight": "f", "stage": "x"})
    true = ((people["sex"] == "f") & (people["town"] == "x")).sum()
    require_within(figure, true)


def test_tables_without_labels_of_records_are_refused(desk, people, monkeypatch) -> None:
    path = desk.folder / "answer.toml"
    path.write_text(
        '[release]\nname = "answered"\nformat = "csv"\noutput = "out"\n'
        '[data]\ndataset = "people"\nsource = "people.csv"\n'
        '[answer]\nkind = "count"\nepsilon = 0.5\nby = ["sex"]\n[columns.sex]\nvalues = ["f", "m"]\nlevel = 0\n'
    )
    folder = Path(desk.succeed("run", path, "--json").json["output"])
    with pytest.raises(InputRefused, match="answers"):
        load(folder)
    assert load_answer(folder).table()["sex"].tolist() == ["*", "f", "m"]
    table = folder / "data.csv"
    table.write_text(table.read_text().replace("\nf,", "\nq,").replace('\n"f",', '\n"q",'))
    signed = (folder, read_certificate(folder / "certificate.json"))  # as if the publisher had signed this table
    monkeypatch.setattr(loaded_answer, "verified_certificate", lambda *_, **__: signed)
    with pytest.raises(InputRefused, match=r"column 'sex' of data\.csv has labels that its hierarchy doesn't have"):
        load_answer(folder)


@pytest.mark.parametrize(
    ("case", "said"),
    [("files-margins-unpaid", "margins are not those"), ("label-unknown", "tables are not those"), ("sound", None)],
)
def test_what_a_publisher_signs_falsely_of_tables_is_refused(case: str, said: str | None) -> None:
    folder = CASES / case / "release"
    with nullcontext() if said is None else pytest.raises(InputRefused, match=said):
        load(folder, public_key=CASES / case / "publisher.pem")


@pytest.mark.parametrize("name", ["nowhere", "y" * 300])
def test_a_release_that_can_not_be_looked_at_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputRefused, match="the certificate can't be read") as refused:
        load(tmp_path / name)
    assert refused.value.where == str(tmp_path / name)


def test_the_kit_loads_neither_ledger_nor_cluster() -> None:
    program = "import json, sys, crowdblend.analysis; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    heavy = {"prefect", "dask", "distributed", "sqlalchemy", "matplotlib", "pandas", "pyarrow", "scipy", "pydantic"}
    assert "numpy" in loaded
    assert loaded.isdisjoint(heavy)
    own = {name for name in json.loads(done.stdout) if name.startswith("crowdblend.")}
    assert not [name for name in own if ".ledger" in name or ".flows" in name or ".deploy" in name]
