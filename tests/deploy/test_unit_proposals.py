"""`crowdblend spec new --unit`: a release of households, or of persons over waves, that runs as it is proposed."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

WORK = ("none", "work", "school")


def write_households(folder: Path, name: str, *, number: int, seed: int) -> list[dict[str, list]]:
    """Households of one to five members whose records lie in no order; returns the columns of each."""
    coins = np.random.default_rng(seed)
    homes, lines = [], []
    for home in range(number):
        ages = sorted(coins.integers(0, 90, coins.integers(1, 6)).tolist(), reverse=True)
        own = {
            "age": ages,
            "sex": coins.choice(["f", "m"], len(ages)).tolist(),
            "region": [coins.choice(["N", "S"])] * len(ages),
            "work": coins.choice(WORK, len(ages)).tolist(),
            "ill": coins.choice(["yes", "no"], len(ages), p=[0.1, 0.9]).tolist(),
            "income": coins.integers(0, 90_000, len(ages)).tolist(),
            "hhwgt": [coins.integers(20, 200)] * len(ages),
        }
        homes.append(own)
        for line, member in enumerate(zip(*own.values(), strict=True)):
            lines.append(f"{seed}-{home},{line + 1},{','.join(map(str, member))},{seed}.{home}.{line}@example.org")
    coins.shuffle(lines)
    head = "household_id,line,age,sex,region,work,ill,income,hhwgt,email"
    (folder / name).write_text("\n".join([head, *lines]) + "\n")
    return homes


PROPOSED = ("spec", "new", "--from", "homes.csv", "--records", "3000", "--unit", "household_id")


def answered(text: str) -> str:
    """The file with each single # removed, and what is to be filled in written."""
    text = re.sub(r"(?m)^# ", "", text)
    text = text.replace('bounds = ["FILL IN"]', "bounds = [20, 50, 100, 200]").replace('"FILL IN"', '"a", "b"')
    return re.sub(r"\[unit\.columns\.email\]\n.*", "", text)  # no column is derived from it


def test_households_are_proposed_by_names_alone_and_run_as_they_are(desk) -> None:
    texts = []
    for seed in (1, 2):
        write_households(desk.folder, "homes.csv", number=40, seed=seed)
        answer = desk.succeed(*PROPOSED, "--output", f"{seed}.toml")
        texts.append((desk.folder / f"{seed}.toml").read_text())
    assert texts[0] == texts[1], "nothing follows from the records"
    assert "--unit household:household_id" in answer.out
    tables = tomllib.loads(texts[0])
    assert tables["unit"]["by"] == "household_id"
    assert set(tables["unit"]["columns"]) == {"line", "age"}
    assert {name: next(iter(own)) for name, own in tables["columns"].items()} == {
        "members": "count_members",
        "children": "count_members",
        "adults": "count_members",
        "pensioners": "count_members",
        "composition": "composition",
        "age_of_first": "member_label",
    }
    assert tables["columns"]["pensioners"]["count_members"]["labels"] == ["[65, 100)", ">= 100"]
    desk.succeed("dataset", "add", "homes", "--epsilon", "9", "--delta", "1e-3", "--unit", "household:household_id")
    dry = desk.succeed("run", "1.toml", "--dry-run", "--json").json
    assert 0.9 < dry["epsilon"] <= 1
    (desk.folder / "all.toml").write_text(answered(texts[0]))
    explained = desk.succeed("explain", "all.toml", "--json").json
    assert {column["column"] for column in explained["columns"]} >= {"sex_of_first", "region", "income_of_first"}
    assert explained["limit"]["derived"]["hhwgt"] == "hhwgt of the member with the lowest line"


def test_households_with_public_records_are_published_as_they_are_proposed(desk) -> None:
    homes = write_households(desk.folder, "homes.csv", number=3_000, seed=1)
    write_households(desk.folder, "earlier.csv", number=500, seed=2)
    answer = desk.succeed(*PROPOSED, "--public", "earlier.csv")
    assert "FILL IN" not in re.sub("(?m)^#.*$", "", (desk.folder / "homes.toml").read_text())
    assert "Proposed to be released: 13 columns; 3 columns stand there as a question." in answer.out
    desk.succeed("dataset", "add", "homes", "--epsilon", "9", "--delta", "1e-3", "--unit", "household:household_id")
    result = desk.succeed("run", "homes.toml", "--json").json
    margins = pq.read_table(Path(result["output"]) / "margins.parquet").to_pylist()
    found = {(one["column"], one["label"]): one for one in margins if not one["second_column"]}
    for column, label, true in (
        ("children", "0", [not any(age < 18 for age in own["age"]) for own in homes]),
        ("sex_of_first", "f", [own["sex"][0] == "f" for own in homes]),
        ("any_ill", "yes", ["yes" in own["ill"] for own in homes]),
        ("region", "N", [own["region"][0] == "N" for own in homes]),
    ):
        one = found[column, label]
        # Ten standard errors: two-sided geometric tails go so far once in a million at most.
        assert abs(one["count"] - sum(true)) < 10 * one["standard_error"], column
    certificate = json.loads(Path(result["certificate"]).read_text())
    assert certificate["published"]["records"] > 1_000
    assert "email" not in json.dumps(certificate)
    desk.succeed("verify", result["output"])


@pytest.mark.parametrize("waves", [3, 7])
def test_persons_over_waves_are_proposed_with_what_follows_what(desk, waves) -> None:
    for name, seed in (("panel", 1), ("earlier", 2)):
        coins = np.random.default_rng(seed)
        people, years = np.repeat(np.arange(2_000), waves), np.tile(np.arange(2019, 2019 + waves), 2_000)
        table = {
            "pid": people + 10_000 * seed,
            "year": years,
            "sex": np.repeat(coins.choice(["f", "m"], 2_000), waves),
            "work": coins.choice(WORK, people.size),
            "income": coins.integers(0, 90_000, people.size),
        }
        pq.write_table(pa.table(table), desk.folder / f"{name}.parquet")
    words = ("--from", "panel.parquet", "--public", "earlier.parquet", "--records", "2000", "--unit", "pid")
    desk.succeed("spec", "new", *words)
    tables = tomllib.loads((desk.folder / "panel.toml").read_text())
    assert tables["unit"]["kind"] == "person"
    assert tables["unit"]["columns"]["year"] == {"interval": {"lower": 2019, "upper": 2019 + waves, "widths": []}}
    order = [str(year) for year in range(2019, 2019 + waves)]
    assert tables["columns"]["work_path"]["waves"]["order"] == order[-4:]
    ends = {"work_at_first"} if waves == 3 else {"work_at_first", "work_at_last"}
    own = {"waves", "sex_at_first", *ends, "work_path", "income_at_first", "income_at_last"}
    assert set(tables["columns"]) == own
    desk.succeed("dataset", "add", "panel", "--epsilon", "9", "--delta", "1e-3", "--unit", "person:pid")
    desk.succeed("run", "panel.toml", "--dry-run")


def test_a_unit_that_is_not_there_or_not_sized_is_refused(desk) -> None:
    write_households(desk.folder, "homes.csv", number=5, seed=1)
    desk.refuse("spec", "new", "--from", "homes.csv", "--unit", "household_id", said="--records")
    for given in ("home", "household:home", "town:region"):
        desk.refuse(*PROPOSED[:-1], given, said="there is no column")
    desk.succeed(*PROPOSED[:-1], "person:household_id", "--output", "persons.toml")
    assert tomllib.loads((desk.folder / "persons.toml").read_text())["unit"]["kind"] == "person"
    assert not (desk.folder / "homes.toml").exists()
    desk.succeed("spec", "new", "--from", "homes.csv", "--output", "records.toml")
    assert "spec new --unit household:household_id" in (desk.folder / "records.toml").read_text()
