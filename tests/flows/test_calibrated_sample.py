"""Noisy margins beside a sampled release: counts of all records, rows of a sample, weights that fit both."""

from __future__ import annotations

from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from crowdblend.accounting.certificate.verify import read_certificate
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.analysis import load
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.kinds.calibrated_sample import CalibratedSample

from .test_margins import cells_of_pair, labelled, people, rows_of, true_counts
from .test_margins import spec_of as spec_of_deletion

__all__ = ["people"]

SPEC = """
[release]
name = "sampled"
form = "{form}"
format = "{file_format}"
output = "{output}"
{more}
[data]
dataset = "people"
source = "people.csv"
{data}
[sampling]
{sampling}
{suppression}
[privacy]
{privacy}
[margins]
{margins}
[columns.sex]
values = ["f", "m", "x"]
level = 0
[columns.age]
interval = {{ lower = 0, upper = 90, widths = [10, 30] }}
level = 1
"""
USUAL = {
    "form": "microdata",
    "file_format": "parquet",
    "output": "out",
    "more": "",
    "data": "",
    "sampling": "rate = 0.2",
    "suppression": "",
    "privacy": "epsilon = 1\ndelta = 1e-6",
    "margins": "",
}


def spec_of(desk, **changes: str) -> Path:
    path = desk.folder / "sampled.toml"
    path.write_text(SPEC.format(**USUAL | changes), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("form", "file_format"), [("microdata", "parquet"), pytest.param("counts", "csv", marks=pytest.mark.slow)]
)
def test_margins_count_all_records_and_rows_are_of_a_sample(desk, people, form, file_format) -> None:
    spec = spec_of(desk, form=form, file_format=file_format, margins='pairs = [["age", "sex"]]')
    result = desk.succeed("run", spec, "--json").json
    mechanism, facts = read_spec(spec, output=None).mechanism, result["margins"]
    assert isinstance(mechanism, CalibratedSample)
    charged = price(mechanism, delta=Decimal("1e-6")).epsilon
    assert float(charged) == result["epsilon"] <= 1
    cheaper = CalibratedSample(
        k=mechanism.k - 1,
        sampling_rate=mechanism.sampling_rate,
        margins=3,
        margin_scale=mechanism.margin_scale,
        margin_width=mechanism.margin_width,
    )
    assert mechanism.k == 1 or price(cheaper, delta=Decimal("1e-6")).epsilon > 1, "k is the least that fits"
    assert result["sample_id"] is None

    folder = Path(result["output"])
    cells = rows_of(folder, "margins")
    wanted = cells_of_pair(file_format)
    names = ("column", "label", "second_column", "second_label")
    assert [tuple(row[name] for name in names) for row in cells] == wanted
    true = true_counts(people, file_format)
    noise = [int(row["count"]) - true[cell] for row, cell in zip(cells, wanted, strict=True)]
    assert max(map(abs, noise)) <= mechanism.margin_width
    assert len(set(noise)) > 10, "each cell has a draw of its own"
    assert {float(row["standard_error"]) for row in cells} == {facts["standard_error"]}
    fitted = np.array([float(row["fitted"]) for row in cells])
    assert fitted[16:].reshape(4, 12).sum(axis=0) == pytest.approx(fitted[4:16], abs=0.1)

    published: Counter = Counter()
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows_of(folder, "data"):
        records = int(row.get("count", 1))
        published[row["sex"], row["age"]] += records
        for column in ("sex", "age"):
            sums[column, row[column]] += float(row["weight"]) * records
    for (sex, age), records in published.items():
        size = true["sex", sex, "age", age]
        # A sampled count is within 6 of its deviations but for 2e-9.
        assert mechanism.k <= records <= size
        assert abs(records - 0.2 * size) <= 6 * (0.16 * size) ** 0.5, (sex, age)
    assert sum(published.values()) == result["published_records"]
    assert sum(weight for (column, _), weight in sums.items() if column == "sex") == pytest.approx(facts["records"])
    assert abs(facts["records"] - 4_000) < 6 * facts["standard_error"] * 2, "the margin of 4 cells weighs most"

    certificate = read_certificate(Path(result["certificate"]))
    assert certificate["published"]["margins"] == facts
    assert certificate["mechanism"]["kind"] == "calibrated-sample-release/1"
    assert facts["columns"] == [["sex"], ["age"], ["sex", "age"]]
    assert float(charged) < facts["epsilon_alone"] + facts["rows_epsilon_alone"]
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")
    assert "margins alone" in desk.succeed("explain", spec).out
    desk.succeed("sheet", folder)


def test_a_total_is_the_least_margin(desk, people) -> None:
    del people
    result = desk.succeed("run", spec_of(desk, margins="columns = false"), "--json").json
    [cell] = rows_of(Path(result["output"]), "margins")
    assert (cell["column"], cell["label"], cell["second_column"], cell["second_label"]) == (None,) * 4
    assert result["margins"]["columns"] == [[]]
    assert abs(cell["count"] - 4_000) <= 6 * cell["standard_error"]
    rows = rows_of(Path(result["output"]), "data")
    assert sum(row["weight"] for row in rows) == pytest.approx(cell["count"])
    assert [row["weight"] for row in rows] == pytest.approx([rows[0]["weight"]] * len(rows))
    desk.succeed("verify", result["certificate"])
    desk.succeed("sheet", result["output"])


@pytest.mark.slow
def test_the_sheet_tells_of_margins_or_of_the_total_and_the_kit_has_its_bounds(desk, people) -> None:
    del people
    by_column = desk.succeed("run", spec_of(desk, more="[release.metadata]"), "--json").json
    desk.succeed("sheet", by_column["output"], "--output", desk.folder / "one")
    text = read_sheet(desk, "one")
    assert "raked to the noisy counts" in text
    assert "margins.parquet has noisy counts of all records" in text
    described = "".join(path.read_text(encoding="utf-8") for path in (Path(by_column["output"]) / "metadata").glob("*"))
    assert "1 divided by the sampling rate, raked to the margins" in described

    total = desk.succeed("run", spec_of(desk, output="total", margins="columns = false"), "--json").json
    assert total["margins"]["cells"] == 1
    desk.succeed("sheet", total["output"], "--output", desk.folder / "two")
    assert "at most N, by its noise, less the others that are surely there" in read_sheet(desk, "two")
    sizes = Counter(sex for sex, _ in labelled(people_of(desk)))
    figures = {row["sex"]: row for row in load(total["output"]).table("sex").to_dict("records")}
    for sex in ("f", "m"):
        # The bounds hold but for 1 in 40 each; with a tenth of the people besides, always.
        assert figures[sex]["lower"] - 400 <= sizes[sex] <= figures[sex]["upper"] + 400, sex
        assert figures[sex]["upper"] - figures[sex]["lower"] < 4_000, sex


def people_of(desk) -> list[tuple[str, str]]:
    lines = (desk.folder / "people.csv").read_text(encoding="utf-8").splitlines()[1:]
    return [tuple(line.split(",")) for line in lines]


def read_sheet(desk, name: str) -> str:
    [path] = (desk.folder / name).glob("*.md")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"margins": "columns = false\npairs = [['age', 'sex']]"}, "[margins].pairs: without columns"),
        ({"margins": 'pairs = "auto"'}, "[margins].pairs: pairs are chosen beside a deletion release alone"),
        ({"margins": "number = 3"}, "[margins].number: this goes with pairs that are chosen"),
        (
            {"sampling": 'column = "rate"\nrates = [0.1, 0.2]'},
            "[sampling].column: margins have a price beside a sample",
        ),
        ({"sampling": "", "suppression": "[suppression]\nk = 20"}, "[sampling].rate: this is required"),
        ({"privacy": "delta = 1e-6"}, "[privacy].epsilon: this is required"),
        ({"data": "rows_per_person = 2", "suppression": "[suppression]\nk = 20"}, "[data].rows_per_person: margins"),
        ({"suppression": "[suppression]\nk = 2"}, "with k = 2 at sampling rate 0.2"),
        ({"suppression": "[suppression]\nk = 9", "privacy": "epsilon = 0.3\ndelta = 1e-6"}, "more than the ε = 0.3"),
        ({"margins": "[selection]\nepsilon = 0.1"}, "[margins]: margins are counted by levels that are known"),
    ],
)
def test_what_does_not_go_with_margins_beside_a_sample_is_refused(desk, people, changes, words) -> None:
    del people
    answer = desk("explain", spec_of(desk, **changes))
    assert (answer.code, words in answer.err) == (2, True), answer.err


@pytest.mark.slow
def test_a_preview_and_a_private_report_tell_of_its_rows(desk, people) -> None:
    del people
    spec = spec_of(desk)
    result = desk.succeed("run", spec, "--json").json
    told = desk.succeed("preview", spec, "--release", result["output"], "--json").json
    assert told["k"] == read_spec(spec, output=None).mechanism.k
    report = desk.succeed("report", "private", spec, result["output"], "--attacks", "--by", "an analyst", "--json").json
    assert report["measures"]["before"]["records"] == 4_000


def test_a_deletion_release_may_count_all_records_alone(desk, people) -> None:
    """Its sheet bounds a label from above by the total less the other records."""
    del people
    result = desk.succeed("run", spec_of_deletion(desk, margins="columns = false"), "--json").json
    [cell] = rows_of(Path(result["output"]), "margins")
    assert (cell["column"], cell["label"]) == (None, None)
    assert result["margins"]["columns"] == [[]]
    assert abs(cell["count"] - 4_000) <= 6 * result["margins"]["standard_error"]
    weights = sum(row["weight"] for row in rows_of(Path(result["output"]), "data"))
    assert weights == pytest.approx(cell["count"])
    desk.succeed("verify", result["certificate"])
    desk.succeed("sheet", result["output"], "--output", desk.folder / "sheet")
    assert "less the others that are surely there" in read_sheet(desk, "sheet")
    rows = rows_of(Path(result["output"]), "data")
    there = sum(int(row.get("count", 1)) for row in rows if row["sex"] == "f")
    figure = load(result["output"]).count({"sex": "f"})
    true = sum(sex == "f" for sex, _ in labelled(people_of(desk)))
    assert there <= figure.lower
    # Each bound holds but for 1 in 40; with a tenth of the people besides, always.
    assert figure.lower - 400 <= true <= figure.upper + 400


def test_a_part_of_epsilon_is_the_share_that_follows_beside_a_sample(desk) -> None:
    shared, parted = (
        read_spec(spec_of(desk, margins=margins, privacy="epsilon = 2\ndelta = 1e-6"), output=None)
        for margins in ("share = 0.3", "epsilon = 0.6")
    )
    assert (parted.mechanism, parted.price, parted.digest) == (shared.mechanism, shared.price, shared.digest)
