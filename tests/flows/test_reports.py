"""Local reports as releases: estimates near the truth, charged by replacement, from files that may hold anything."""

from __future__ import annotations

import json
import tomllib
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.kinds.local_report_prices import local_epsilon
from crowdblend.accounting.kinds.outcome_counts_prices import price_outcome_counts
from crowdblend.mechanisms.kinds.krandomization import flipped
from crowdblend.mechanisms.kinds.sketch import encode
from crowdblend.mechanisms.local_reports.design import design_of_table
from crowdblend.tasks.readers.report_files import sketch_table, vector_table

SPEC = """
[release]
name = "asked"
output = "out"
[data]
dataset = "phones"
source = "{source}"
[reports]
{reports}
"""
WORDS = 'kind = "count-mean-sketch"\nepsilon = 4\nhashes = 16\nbits = 64\nseed = "survey"'
SKETCH = WORDS + '\nvalues = ["red", "blue", "none"]'
ONE = 'kind = "k-randomization"\nflip_probability = 0.25\nquestions = ["voted"]'
TWO = ONE.replace('["voted"]', '["voted", "knows"]')
PRIVACY = "\n[privacy]\ndelta = 1e-6\n"
ANSWER = """
[release]
name = "counted"
output = "counted"
[data]
dataset = "phones"
source = "votes.parquet"
[answer]
kind = "count"
epsilon = 1
relation = "replacement"
by = ["vector"]
[columns.vector]
values = ["0", "1"]
level = 0
"""
PEOPLE = ["red"] * 2_000 + ["blue"] * 900 + ["green"] * 100


def design_of(reports: str):
    return design_of_table(tomllib.loads(reports, parse_float=Decimal))


def sketches():
    return encode(design_of(SKETCH).mechanism, PEOPLE, randomness=np.random.default_rng(5).bytes)


def vectors(reports: str, originals) -> np.ndarray:
    mechanism = design_of(reports).mechanism
    return flipped(mechanism, np.array(originals, dtype=np.uint32), randomness=np.random.default_rng(6).bytes)


@pytest.fixture
def asked(desk, prefect_server, monkeypatch):
    """A desk with a budget for replacement, on the module's one Prefect server; it asks, and gives result and rows."""
    monkeypatch.setenv("PREFECT_API_URL", prefect_server.api_url)
    desk.succeed("dataset", "add", "phones", "--relation", "replacement", "--epsilon", "30", "--delta", "1e-3")

    def ask(reports: str, source: str, *words: str, more: str = "") -> tuple[dict, list[dict]]:
        done = desk.succeed("run", write(reports, source, more=more), "--json", *words)
        return done.json, pq.read_table(Path(done.json["output"]) / "data.parquet").to_pylist()

    def write(reports: str, source: str, *, more: str = "") -> Path:
        spec = desk.folder / "asked.toml"
        spec.write_text(SPEC.format(reports=reports, source=source) + more)
        return spec

    ask.spec = write
    return ask


def guarantee(result: dict) -> dict:
    return json.loads(Path(result["certificate"]).read_text())["guarantee"]


def lines_of(made) -> list[str]:
    """Reports of a sketch as devices send them."""
    pairs = zip(made.hash_numbers, made.packed_bits, strict=True)
    return [f"{number},{bits.tobytes().hex()}" for number, bits in pairs]


def write_sketches(folder: Path) -> None:
    """The same reports in two Parquet files with several row groups, and in a CSV file."""
    made = sketches()
    (folder / "parts").mkdir()
    table = sketch_table(design_of(SKETCH).mechanism, made)
    for number in range(2):
        part = table.slice(number * 1_500, 1_500)
        pq.write_table(part, folder / "parts" / f"{number}.parquet", row_group_size=400)
    (folder / "lines.csv").write_text("\n".join(["hash,bits", *lines_of(made)]) + "\n")


def test_words_are_counted_without_trust_from_either_format(asked, desk) -> None:
    """Six standard errors of coins and collisions together: a false alarm in about 10⁸."""
    write_sketches(desk.folder)
    result, rows = asked(SKETCH, "parts")
    truth = {"red": 2_000, "blue": 900, "none": 0}
    assert [row["value"] for row in rows] == list(truth)
    for row in rows:
        collisions = 3_000 / 16**0.5 / 8
        assert abs(row["estimate"] - truth[row["value"]]) < 6 * (row["standard_error"] + collisions)
        assert row["interval_high"] - row["estimate"] == pytest.approx(1.959964 * row["standard_error"], rel=1e-6)
    again, same = asked(SKETCH, "lines.csv", "--output", "again")
    assert same == rows
    assert (result["epsilon"], result["delta"], result["mechanism"]["kind"]) == (4.0, 0.0, "count-mean-sketch/1")
    stated = guarantee(result)
    assert (stated["rule"], stated["neighbours"]) == ("local/1", "replacement")
    assert "Each report is 4-locally private" in stated["in_words"]
    assert "nobody, the collector included, need be trusted" in stated["in_words"]
    published = json.loads(Path(result["certificate"]).read_text())["published"]
    assert published == {
        "form": "estimates", "groups": 3, "records": None, "confidence": "0.95", "reports": 3_000,
        "encoding": "count-mean-sketch",
    }  # fmt: skip
    # Each release of reports is charged, though these are the same: the ledger can't know that.
    assert desk("ledger", "show", "--json").json["datasets"][0]["epsilon_spent"] == 8.0
    for one in (result, again):
        desk.succeed("verify", one["certificate"])
    desk.succeed("ledger", "verify")


def test_reports_are_not_read_from_a_published_release(asked, desk) -> None:
    (desk.folder / "old").mkdir()
    (desk.folder / "old" / "votes.csv").write_text("voted\n1\n")
    (desk.folder / "old" / "certificate.json").write_text('{"release_id":"old"}')
    spec = asked.spec(ONE + "\nleast_people = 1200", "old/*.csv", more=PRIVACY)
    desk.refuse("run", spec, said="old is a published release")


@pytest.mark.slow
def test_one_bit_is_charged_exactly_and_only_once(asked, desk) -> None:
    made = vectors(ONE, [1] * 700 + [0] * 500)
    pq.write_table(vector_table(made.astype(np.uint8)), desk.folder / "votes.parquet")
    result, rows = asked(ONE + "\nleast_people = 1200", "votes.parquet", more=PRIVACY)
    expected = price_outcome_counts(design_of(ONE).mechanism, people=1_200, delta=Decimal("1e-6"))
    assert expected.rule == "outcome-counts-exact/1"
    assert (result["epsilon"], result["delta"]) == (float(expected.epsilon), 1e-6)
    assert result["epsilon"] < 0.2 * float(local_epsilon(design_of(ONE).mechanism))
    assert [(row["voted"], abs(row["estimate"] - true) < 6 * row["standard_error"]) for row, true in
            zip(rows, (500, 700), strict=True)] == [("0", True), ("1", True)]  # fmt: skip
    words = guarantee(result)["in_words"]
    assert "exact distribution of the number of ones among 1200 people" in words
    assert "(1 − 0.25)/0.25 exactly" in words
    for reports, more in ((ONE + "\nleast_people = 1200", PRIVACY), (ONE, "")):
        refused = desk("run", asked.spec(reports, "votes.parquet", more=more), "--output", "again")
        assert refused.code == 3
        assert f"stand beside release '{result['release_id']}'" in refused.err
    (desk.folder / "count.toml").write_text(ANSWER)
    desk.refuse("run", "count.toml", code=3, said="nothing else is published of their reports")
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")


def test_outcome_counts_stand_alone_among_series_too(asked, desk) -> None:
    """Whichever series is run first, the price of the other one would be lost."""
    counted = {"reports": ONE + "\nleast_people = 1200", "source": "votes.parquet", "more": PRIVACY}
    add = ("series", "add")
    desk.succeed(*add, "plain", asked.spec(ONE, "votes.parquet"), "--releases", "1")
    desk.succeed(*add, "more", asked.spec(ONE, "votes.parquet"), "--releases", "1")
    lost = "nothing else is published of their reports, and series 'plain' has paid for a release already"
    desk.refuse(*add, "counted", asked.spec(**counted), "--releases", "1", said=lost)
    desk.succeed("dataset", "add", "watches", "--relation", "replacement", "--epsilon", "30", "--delta", "1e-3")

    def watches(spec: Path) -> Path:
        spec.write_text(spec.read_text(encoding="utf-8").replace('"phones"', '"watches"'), encoding="utf-8")
        return spec

    desk.succeed(*add, "alone", watches(asked.spec(**counted)), "--releases", "1")
    lost = lost.replace("plain", "alone")
    desk.refuse(*add, "other", watches(asked.spec(ONE, "votes.parquet")), "--releases", "1", said=lost)
    desk.refuse(*add, "twice", watches(asked.spec(**counted)), "--releases", "1", said=lost)
    desk.succeed("ledger", "verify")


@pytest.mark.slow
def test_several_bits_are_charged_by_the_shuffle_bound_where_it_holds(asked, desk) -> None:
    made = vectors(TWO, [3] * 4_000 + [2] * 1_000)
    lines = ["number;vector", *(f"{place};{vector}" for place, vector in enumerate(made.tolist()))]
    (desk.folder / "answers.csv").write_text("\r\n".join(lines) + "\r\n")
    few = asked.spec(TWO + "\nleast_people = 200", "answers.csv", more=PRIVACY)
    desk.refuse("run", few, said="nothing below the price of the reports themselves")
    spec = asked.spec(TWO + "\nleast_people = 5000", "answers.csv", more=PRIVACY)
    spec.write_text(spec.read_text().replace('source = "answers.csv"', 'source = "answers.csv"\nseparator = ";"'))
    planned, done = desk("plan", spec, "--json"), desk("run", spec, "--json")
    assert (planned.code, done.code) == (0, 0), done.err
    expected = price_outcome_counts(design_of(TWO).mechanism, people=5_000, delta=Decimal("1e-6"))
    assert expected.rule == guarantee(done.json)["rule"] == "shuffle-fmt-3.1/1"
    assert planned.json["epsilon"] == done.json["epsilon"] == float(expected.epsilon)
    assert (planned.json["cells"], planned.json["relation"]) == (4, "replacement")
    words = guarantee(done.json)["in_words"]
    for said in ("arXiv:2012.12803, Theorem 3.1", "ln(n/(16 ln(2/delta)))", "n = 5000", "Each report is 2.197"):
        assert said in words
    rows = pq.read_table(Path(done.json["output"]) / "data.parquet").to_pylist()
    assert [(row["voted"], row["knows"]) for row in rows] == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]
    for row, true in zip(rows, (0, 1_000, 0, 4_000), strict=True):
        assert abs(row["estimate"] - true) < 6 * row["standard_error"]
    desk.succeed("ledger", "verify")


def test_a_price_of_reports_never_enters_an_add_remove_budget(asked, desk) -> None:
    write_sketches(desk.folder)
    desk.add_dataset()
    spec = asked.spec(SKETCH, "lines.csv")
    spec.write_text(spec.read_text().replace('"phones"', '"people"'))
    desk.refuse("run", spec, code=3, said="the neighbouring relation replacement")
    assert not (desk.folder / "out").exists()


def table_of(numbers: list[int], bits: list[bytes], width: int) -> pa.Table:
    return pa.table({"hash": pa.array(numbers, pa.uint16()), "bits": pa.array(bits, pa.binary(width))})


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"hash;bits\n1;00\n", "does not name 'hash', 'bits'"),
        ("b.csv", b"1,47114711secret\n", "does not name"),
        ("c.parquet", b"PAR1 47114711secret", "footer"),
        ("d.parquet", pa.table({"hash": ["47114711secret"], "bits": ["47114711secret"]}), "must occur exactly once"),
        ("e.parquet", table_of([4711], [b"47114711secret"], 14), "fixed_size_binary[8]"),
        ("f.parquet", table_of([], [], 8), "0 reports"),
        ("g.txt.bz2", b"47114711secret", "compressed"),
        ("h.txt.gz", b"47114711secret", "cannot be read"),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_refused_without_a_value_and_nothing_is_charged(
    asked, desk, name, content, said
) -> None:
    place = desk.folder / name
    place.write_bytes(content) if isinstance(content, bytes) else pq.write_table(content, place)
    refused = desk.refuse("run", asked.spec(SKETCH, name), said=said)
    assert "47114711" not in refused.err + refused.out
    assert desk("ledger", "show", "--json").json["releases"] == []


@pytest.mark.slow
def test_too_few_reports_publish_nothing(asked, desk) -> None:
    """By the footers before the charge; in CSV, and for reports that can't be read, after it."""
    pq.write_table(vector_table(np.zeros(99, dtype=np.uint8)), desk.folder / "few.parquet")
    (desk.folder / "few.csv").write_text("vector\n" + "0\n" * 99 + "4711secret\n" * 901)
    table = ONE + "\nleast_people = 1000"
    refused = desk("run", asked.spec(table, "few.parquet", more=PRIVACY))
    assert (refused.code, "there are 99 reports, and the release needs 1000" in refused.err) == (2, True)
    assert desk("ledger", "show", "--json").json["releases"] == []
    failed = desk("run", asked.spec(table, "few.csv", more=PRIVACY))
    assert (failed.code, "99 reports could be read, and the release needs 1000" in failed.err) == (1, True)
    assert "4711s" not in failed.err  # of hexadecimal digits an id is made too
    assert not (desk.folder / "out").exists()
    [release] = desk("ledger", "show", "--json").json["releases"]
    assert release["stage"] == "reading"
    desk.succeed("ledger", "verify")


def test_reports_have_no_series_and_no_options_of_other_plans(asked, desk) -> None:
    spec = asked.spec(SKETCH, "parts")
    desk.refuse("series", "add", "monthly", spec, "--releases", "3", said="[reports]")
    assert desk("plan", spec, "--k", "20").code == 2
    shown = desk("plan", spec)
    assert (shown.code, "count-mean-sketch/1" in shown.out) == (0, True)
    assert not (desk.folder / "out").exists()
