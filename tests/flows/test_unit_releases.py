"""Releases of units: rules, price and certificate, refusals with their places, and what is told of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.analysis import load
from crowdblend.tasks.stages.synthesize import SYNTHESIZER
from support.households import COLUMNS, HEAD, region_of, write_households, write_people
from support.signed_again import sign_again
from support.stand_in_synthesizer import written

SPEC = (
    HEAD
    + """{kind}
[privacy]
delta = 1e-6
{epsilon}"""
    + COLUMNS
    + """[columns.who]
composition = {{ column = "age", from_level = 1, most = 3 }}
{levels}
[columns.children]
count_members = {{ column = "age", labels = ["[0, 18)"], cap = 2 }}
{levels}
"""
)
DELETION = {"kind": "[deletion]\n[margins]\n", "epsilon": "epsilon = 2", "levels": "level = 0"}
SAMPLE = {"kind": "[sampling]\nrate = 0.2\n[suppression]\nk = 60\n", "epsilon": "", "levels": "level = 0"}
DRAWN = SAMPLE | {"kind": SAMPLE["kind"] + "[selection]\nepsilon = 0.5\n", "levels": ""}
NOISY = {"kind": '[sampling]\nrate = 0.2\n[histogram]\nkind = "noisy"\nk = 60\nepsilon = 1\n', "epsilon": ""}
SUPPRESSED = {"kind": '[sampling]\nrate = 0.2\n[histogram]\nkind = "suppressed"\nk = 60\n', "epsilon": ""}
OUTLIER = {
    "kind": '[histogram]\nkind = "outlier-private"\nepsilon = 0.5\nhorizon = 120\nmargin = 100\n',
    "epsilon": "",
}
SYNTHETIC = {"kind": "[synthetic]\n", "epsilon": "epsilon = 2", "levels": "level = 0"}
PAIRED = DELETION | {"kind": '[deletion]\n[margins]\npairs = "auto"\n', "levels": 'levels = "auto"'}


def write_spec(desk, given: dict[str, str] = DELETION, **changed) -> Path:
    return write_households(desk, SPEC, given, **changed)


@pytest.fixture
def households(desk) -> list[list[int]]:
    desk.succeed("dataset", "add", "people", "--epsilon", "10", "--delta", "1e-3", "--unit", "household:home")
    return write_people(desk)


def test_households_are_counted_as_records_and_the_certificate_says_how_they_were_made(desk, households) -> None:
    result = desk.succeed("run", write_spec(desk, PAIRED), "--json").json
    margins = pq.read_table(Path(result["output"]) / "margins.parquet").to_pylist()
    alone = {(one["column"], one["label"]): one for one in margins if not one["second_column"]}
    for label, sizes in (("1", [1]), ("4 or more", [4])):
        true = sum(len(own) in sizes for own in households)
        # Eight standard errors: noise of two-sided geometric tails goes so far once in 10⁹ at most.
        assert abs(alone["size", label]["count"] - true) < 8 * alone["size", label]["standard_error"]
    children = sum(sum(age < 18 for age in own) >= 2 for own in households)
    assert abs(alone["children", "2 or more"]["count"] - children) < 8 * alone["size", "1"]["standard_error"]
    rows = pq.read_table(Path(result["output"]) / "data.parquet").to_pylist()
    assert {row["region"] for row in rows} <= {"N", "S", "*"}
    assert all(row["who"].startswith(("1 ", "2 ", "3 ", "*")) for row in rows)
    certificate = json.loads(Path(result["certificate"]).read_text())
    assert certificate["sampler_layout"].startswith("aes-units-household/1 ")
    assert certificate["guarantee"]["unit"] == "one household, at most one record"
    assert "which together made one record" in certificate["guarantee"]["in_words"]
    made = certificate["unit_records"]
    assert made["columns"]["size"] == {"count_members": {"cap": 4}}
    assert made["in_words"]["size"] == "number of members; 4 stands for 4 or more"
    assert set(made["members"]) == {"age", "region"}
    desk.succeed("verify", result["output"])
    assert "h17" not in json.dumps(certificate)


@pytest.mark.parametrize("tampered", ["rules", "layout", "name"])
def test_a_certificate_whose_rules_are_changed_does_not_verify(desk, households, tampered) -> None:
    result = desk.succeed("run", write_spec(desk, SAMPLE), "--json").json
    path = Path(result["certificate"])
    certificate = json.loads(path.read_text())
    if tampered == "rules":
        del certificate["unit_records"]
    elif tampered == "layout":
        certificate["sampler_layout"] = certificate["sampler_layout"].replace("units", "contributions")
    else:
        certificate["unit_records"]["in_words"] = {"other": "words"}
    sign_again(path, certificate)
    answer = desk("verify", result["output"])
    assert answer.code == 1
    assert "unit" in answer.out or "guarantee can't be read" in answer.out


def test_the_price_is_that_of_one_record_for_each_unit(desk, households) -> None:
    """The same specification of a file with one line for each household costs the same."""
    explained = desk.succeed("explain", write_spec(desk), "--json").json
    assert explained["limit"]["derived"]["children"].startswith("number of members whose age is [0, 18)")
    text = write_spec(desk).read_text()
    head, columns = text[: text.index("[unit]")], text[text.index("[deletion]") :]
    plain = columns[: columns.index("[columns.size]")] + "".join(
        f"[columns.{name}]\nvalues = [{', '.join(map(repr, map(str, range(labels))))}]\nlevel = 0\n"
        for name, labels in (("size", 4), ("children", 3), ("region", 2), ("who", 8))
    )
    (desk.folder / "plain.toml").write_text(head + plain.replace("'", '"'))
    alone = desk.succeed("explain", desk.folder / "plain.toml", "--json").json
    for amount in ("epsilon", "delta", "mechanism"):
        assert explained[amount] == alone[amount]


@pytest.mark.parametrize(
    "given",
    [SAMPLE, DRAWN, PAIRED],
    ids=["sampled", "drawn map", "chosen pairs"],
)
def test_every_kind_of_rows_can_be_of_units(desk, households, given) -> None:
    result = desk.succeed("run", write_spec(desk, given, file_format="csv"), "--json").json
    desk.succeed("verify", result["output"])
    if given is not PAIRED:
        return
    sheet = Path(desk.succeed("sheet", result["output"], "--json").json["markdown"]).read_text()
    # Of the rules alone: the largest household has four members here, and it isn't said that none has more.
    assert (
        "What caps leave out of a household, by what was declared of them alone: size doesn't tell how many more than "
        "4 there are; who names 3 members at most, those that come first in the order of the labels; children doesn't "
        "tell how many more than 2 there are."
    ) in " ".join(sheet.split())


@pytest.mark.parametrize(
    ("given", "spread"),
    [
        # Ten standard errors of a fresh sample of 1,500 at rate 0.2, scaled up by 5.
        pytest.param(NOISY, 10 * 5 * 15.5, id="noisy"),
        pytest.param(SUPPRESSED, 10 * 5 * 15.5, id="suppressed", marks=pytest.mark.slow),
        pytest.param(OUTLIER, 700, id="outlier-private", marks=pytest.mark.slow),
    ],
)
def test_histograms_are_of_households(desk, households, given, spread) -> None:
    """A table of households by region has half of them in each, whatever their size."""

    def edit(text: str) -> str:
        region = text[text.index("[columns.region]") : text.index("[columns.who]")]
        return text[: text.index("[columns.size]")] + region

    asked = {"levels": "level = 0"} | given
    result = desk.succeed("run", write_spec(desk, asked, edit=edit), "--json").json
    table = pq.read_table(Path(result["output"]) / "data.parquet").to_pylist()
    scale = 5 if "rate = 0.2" in given["kind"] else 1
    found = {"N": 0.0, "S": 0.0}
    for row in table:
        if row["region"] in found:
            found[row["region"]] += scale * row.get("count", 1)
    assert abs(found["N"] - 1_500) < spread, found
    assert abs(found["S"] - 1_500) < spread, found
    desk.succeed("verify", result["output"])


def test_a_synthetic_table_is_drawn_from_households(desk, households, monkeypatch) -> None:
    monkeypatch.setenv(SYNTHESIZER, str(written(desk.folder)))
    result = desk.succeed("run", write_spec(desk, SYNTHETIC), "--json").json
    [*_, draw] = [json.loads(line) for line in (desk.folder / "draws.jsonl").read_text().splitlines()]
    assert draw["records"] == 3_000, "each household is one record of what the library sees"
    desk.succeed("verify", result["output"])


@pytest.mark.parametrize("table", ['[points]\nkind = "suppressed"\nk = 20\ncells_per_side = 4', "reports"])
def test_points_and_local_reports_are_of_records_alone(desk, households, table) -> None:
    reports = '[reports]\nkind = "k-randomization"\nflip_probability = 0.25\nquestions = ["one", "two"]'
    given = {"kind": reports if table == "reports" else f"[sampling]\nrate = 0.2\n{table}", "epsilon": ""}
    said = f"this table and [{'reports' if table == 'reports' else 'points'}] exclude each other"
    refused = desk.refuse("run", write_spec(desk, given | {"levels": "level = 0"}))
    assert said in refused.err
    assert "[unit]" in refused.err


def in_blocks(desk, *, wide: bool, blocks: str) -> Path:
    """A specification of households in blocks, of five columns or of twenty."""
    caps = "".join(
        f'[columns.aged_{low}]\ncount_members = {{ column = "age", labels = ["[{low}, {low + 10})"], cap = 2 }}\n'
        'levels = "auto"\n'
        for low in range(0, 90, 10)
    )
    anyone = "".join(
        f'[columns.any_{low}]\nany_member = {{ column = "age", labels = ["[{low}, 100)"] }}\nlevels = "auto"\n'
        for low in range(20, 90, 10)
    )
    more = (
        caps + anyone
        if wide
        else '[columns.old]\nany_member = { column = "age", labels = ["[65, 100)"] }\nlevels = "auto"\n'
    )
    return write_spec(desk, PAIRED, edit=lambda text: text.replace("[privacy]", f"{blocks}\n[privacy]") + more)


WRITTEN = (
    '[blocks]\npinned = ["region"]\n[blocks.sizes]\ncolumns = ["size", "who"]\n'
    '[blocks.ages]\ncolumns = ["children", "old"]'
)


@pytest.mark.parametrize(
    ("wide", "blocks"),
    [
        pytest.param(False, WRITTEN, id="written"),
        pytest.param(True, "[blocks]\nnumber = 3", id="twenty columns", marks=pytest.mark.slow),
    ],
)
def test_households_are_published_in_blocks(desk, households, wide, blocks) -> None:
    result = desk.succeed("run", in_blocks(desk, wide=wide, blocks=blocks), "--json").json
    folder = Path(result["output"])
    certificate = json.loads((folder / "certificate.json").read_text())
    own = certificate["published"]["blocks"]
    assert len(own) == (3 if wide else 2)
    assert len(certificate["unit_records"]["columns"]) == (20 if wide else 5)
    for block in own:
        # A household is at most once in each block.
        assert 1_000 < block["records"] <= 3_000
    margins = pq.read_table(folder / "margins.parquet").to_pylist()
    alone = {(one["column"], one["label"]): one for one in margins if not one["second_column"]}
    asked = "any_60" if wide else "old"
    true = sum(any(age >= (60 if wide else 65) for age in ages) for ages in households)
    # Ten standard errors: two-sided geometric tails go so far once in a million at most.
    assert abs(alone[asked, "yes"]["count"] - true) < 10 * alone[asked, "yes"]["standard_error"]
    desk.succeed("verify", folder)


def test_what_does_not_go_together_is_refused_with_its_place(desk, households) -> None:
    def refused(edit, *said: str) -> None:
        answer = desk.refuse("run", write_spec(desk, edit=edit))
        for text in said:
            assert text in answer.err, answer.err

    def replaced(old: str, new: str):
        return lambda text: text.replace(old, new, 1)

    refused(replaced("cap = 4", "cap = 0"), "[columns.size.count_members].cap", "at least 1")
    refused(replaced("{ cap = 4 }", '{ column = "age", cap = 4 }'), "[columns.size].count_members", "go together")
    refused(replaced('["[0, 18)"]', '["[0, 118)"]'), "[columns.children].count_members", "no label '[0, 118)'")
    refused(replaced('["[0, 18)"]', '["young"]'), "[columns.children].count_members", "no label 'young'")
    refused(replaced('highest = "age"', 'highest = "region"'), "[columns.region].member_label", "no numbers")
    refused(
        replaced('highest = "age"', 'highest = "year"'), "[columns.region].member_label.highest", "no column 'year'"
    )
    refused(replaced('highest = "age"', 'highest = "age", lowest = "age"'), "name one of lowest and highest")
    refused(replaced("from_level = 1, most", "from_level = 9, most"), "[columns.who].composition", "level 9")
    refused(
        replaced("from_level = 1, most = 3", "from_level = 0, most = 20"), "[columns.who].composition", "coarser level"
    )
    refused(replaced("count_members = { cap = 4 }\n", ""), "[columns.size]", "exactly one rule")
    refused(replaced("[columns.size]\n", '[columns.size]\nany_member = { column = "region", labels = ["N"] }\n'), "one")
    refused(replaced("[columns.size]\n", '[columns.size]\nvalues = ["1"]\n'), "[columns.size].values", "follow from")
    refused(replaced('[unit.columns.region]\nvalues = ["N", "S"]', ""), "[columns.region]", "'region'")
    refused(
        replaced("[unit.columns.region]", '[unit.columns.town]\nvalues = ["x"]\n[unit.columns.region]'),
        "[unit.columns.town]",
        "no released column",
    )
    refused(replaced('source = "people.csv"', 'source = "people.csv"\nhousehold = "home"'), "[data].household")
    refused(replaced('source = "people.csv"', 'source = "people.csv"\nrows_per_person = 2'), "[data].rows_per_person")
    refused(replaced('by = "home"', 'by = "region"'), "[unit].by")
    for other in ('by = "nowhere"', 'by = "home"\nkind = "person"'):
        desk.refuse("run", write_spec(desk, edit=replaced('by = "home"', other)), code=3, said="household:home")
    refused(lambda text: text.replace('[unit]\nby = "home"\n', ""), "[unit]")
    no_unit = replaced(SPEC[SPEC.index("[unit]") : SPEC.index("{kind}")].format(), "")
    refused(no_unit, "there is no [unit]")
    assert desk("ledger", "show", "--json").json["releases"] == []


def test_a_column_of_members_that_is_declared_as_a_released_one_is_one_fault(desk, households) -> None:
    def refused(*edits: tuple[str, str], table: str = "age") -> str:
        def edit(text: str) -> str:
            for old, new in ((f"[unit.columns.{table}]", f"[columns.{table}]"), *edits):
                assert old in text
                text = text.replace(old, new, 1)
            return text

        said: str = desk.refuse("explain", write_spec(desk, edit=edit)).err
        return said

    alone = refused()
    assert "[columns.age]: this declares a column of the members, which [columns.children].count_members reads" in alone
    assert alone.endswith("Nothing was read, written or charged. Move it to [unit.columns.age].\n")
    leveled = refused(("[columns.age]\n", "[columns.age]\nlevel = 0\nweight = 2\n"))
    assert leveled.endswith("Move it to [unit.columns.age], without level, weight.\n")
    two = refused(("[columns.size]\n", '[columns.size]\nvalues = ["1"]\n'))
    assert "2 things are missing or wrong" in two
    assert (two.count("[columns.age]:"), two.count("[columns.size].values:")) == (1, 1)
    dates = 'dates = { from = "2000-01-01", to = "2001-01-01", levels = [] }'
    for given in ('values = ["1", "2"]', 'hierarchy = "ages.csv"', dates):
        other = refused(("interval = { lower = 0, upper = 100, widths = [20] }", given))
        assert "this declares a column of the members" in other, other
    own = '[columns.region]\nmember_label = { column = "region", highest = "age" }\nlevel = 0\n'
    assert "which [columns.where].member_label reads" in refused(
        (own, own.replace("[columns.region]", "[columns.where]")), table="region"
    )
    unnamed = write_spec(desk, edit=lambda text: text + '[columns.job]\nvalues = ["x"]\n')
    desk.refuse("explain", unnamed, said="[columns.job]: a column of units has exactly one rule")


def test_a_count_of_all_members_reads_any_of_their_columns(desk, households) -> None:
    def alone(*, declared: bool):
        def edit(text: str) -> str:
            head = text[: text.index("[columns.region]")]
            members = head[head.index("[unit.columns.age]") : head.index("[deletion]")]
            kept = members[: members.index("[unit.columns.region]")] if declared else ""
            return head.replace(members, kept)

        return edit

    desk.refuse("run", write_spec(desk, edit=alone(declared=False)), said="none is declared")
    result = desk.succeed("run", write_spec(desk, edit=alone(declared=True)), "--json").json
    rows = pq.read_table(Path(result["output"]) / "data.parquet").to_pylist()
    assert {row["size"] for row in rows} == {"1", "2", "3", "4 or more"}


def test_a_hierarchy_above_a_rules_labels_has_all_of_them(desk, households) -> None:
    def edit(text: str) -> str:
        return text.replace("count_members = { cap = 4 }", 'count_members = { cap = 4 }\nhierarchy = "sizes.csv"')

    rows = ["1,alone,*", "2,together,*", "3,together,*"]
    (desk.folder / "sizes.csv").write_text("\n".join(rows) + "\n")
    desk.refuse("run", write_spec(desk, edit=edit), said="'4 or more', which the hierarchy doesn't have")
    (desk.folder / "sizes.csv").write_text("\n".join([*rows, "4 or more,together,*"]) + "\n")
    coarse = SAMPLE | {"levels": "level = 1"}
    edited = write_spec(desk, coarse, file_format="csv", edit=edit)
    result = desk.succeed("run", edited, "--json").json
    sizes = {line.split(",")[0] for line in (Path(result["output"]) / "data.csv").read_text().splitlines()[1:]}
    assert sizes == {"alone", "together"}


def test_preview_makes_units_of_public_records_and_the_private_report_of_the_private_ones(desk, households) -> None:
    write_people(desk, file="public.csv", number=2_999)
    spec = write_spec(desk, SAMPLE)
    preview = desk.succeed("preview", spec, "--public", "public.csv", "--json").json
    assert preview["people"] == 2_999
    desk.succeed("run", spec)
    report = desk.succeed("report", "private", spec, "out", "--json").json
    assert report["measures"]["before"]["records"] == 3_000
    assert report["measures"].get("left_out") is None


def test_a_rehearsal_counts_what_units_become(desk, households) -> None:
    result = desk.succeed("run", write_spec(desk), "--rehearse", "--json").json
    rows = pq.read_table(Path(result["output"]) / "data.parquet").to_pylist()
    declared = sum(row["answer"] for row in rows if row["values"] == "declared")
    # Each of 3,000 households is counted for one column; the noise of eight cells has a standard error below 100.
    assert abs(declared - 3_000) < 1_000


def test_a_series_of_units_is_paid_once_and_keeps_its_rules(desk, households) -> None:
    spec = write_spec(desk, SAMPLE, edit=lambda text: text.replace("delta = 1e-6", "delta = 1e-4"))
    desk.succeed("series", "add", "yearly", spec, "--releases", "2")
    for output in ("first", "second"):
        result = desk.succeed("run", spec, "--series", "yearly", "--output", output, "--json").json
        desk.succeed("verify", result["output"])
    other = write_spec(desk, SAMPLE, edit=lambda text: text.replace("delta = 1e-6", "delta = 1e-4").replace("18", "16"))
    desk.refuse("run", other, "--series", "yearly", "--output", "third", code=3)


def test_persons_over_waves_are_records(desk) -> None:
    desk.succeed("dataset", "add", "people", "--epsilon", "10", "--delta", "1e-3", "--unit", "person:who")
    coins = np.random.default_rng(3)
    people, waves = np.repeat(np.arange(4_000), 2), np.tile(["2024", "2025"], 4_000)
    work = coins.choice(["yes", "no"], people.size)
    there = coins.random(people.size) < 0.9
    table = pa.table({"who": people[there], "year": waves[there], "work": work[there]})
    pq.write_table(table, desk.folder / "panel.parquet")
    path = desk.folder / "panel.toml"
    path.write_text("""
[release]
name = "panel"
format = "csv"
output = "out"
[data]
dataset = "people"
source = "panel.parquet"
[unit]
by = "who"
kind = "person"
[unit.columns.year]
values = ["2024", "2025"]
[unit.columns.work]
values = ["yes", "no"]
[deletion]
[privacy]
epsilon = 2
delta = 1e-6
[columns.path]
waves = { column = "work", wave = "year", order = ["2024", "2025"] }
level = 0
""")
    result = desk.succeed("run", path, "--json").json
    lines = (Path(result["output"]) / "data.csv").read_text().split()
    assert "yes > no" in (Path(result["output"]) / "data.csv").read_text(), lines[:3]
    assert result["published"]["records"] if "published" in result else True
    certificate = json.loads(Path(result["certificate"]).read_text())
    assert certificate["guarantee"]["unit"] == "one person, at most one record"
    desk.succeed("verify", result["output"])


WEIGHED = PAIRED | {"levels": 'levels = "auto"'}
CLASSES = """
weight = "hhw"
weight_classes = { bounds = [1, 4, 9, 16, 49] }
[unit]
by = "home"
"""


def weighed(desk, rule: str = 'weight = { highest = "age" }', *, edit=lambda text: text) -> Path:
    """A specification of households with weights, in which a rule says whose weight is a household's."""
    return write_spec(
        desk, WEIGHED, edit=lambda text: edit(text.replace('[unit]\nby = "home"\n', CLASSES + rule + "\n"))
    )


def test_a_household_weighs_what_the_named_member_does(desk) -> None:
    """The oldest of each household weighs 2 or 6, in the middle of their classes, and all others 28."""
    desk.succeed("dataset", "add", "people", "--epsilon", "10", "--delta", "1e-3", "--unit", "household:home")
    people = write_people(desk)
    own = [2 if region_of(home) == "N" else 6 for home in range(len(people))]
    lines = [
        f"h{home},{age},{region_of(home)},{own[home] if place == 0 else 28}"
        for home, ages in enumerate(people)
        for place, age in enumerate(sorted(ages, reverse=True))
        if place == 0 or age < max(ages)
    ]
    np.random.default_rng(4).shuffle(lines)
    (desk.folder / "people.csv").write_text("\n".join(["home,age,region,hhw", *lines]) + "\n")
    spec = weighed(desk)
    explained = desk.succeed("explain", spec, "--json").json
    assert explained["limit"]["derived"]["hhw"] == "hhw of the member with the highest age"
    result = desk.succeed("run", spec, "--json").json
    certificate = json.loads(Path(result["certificate"]).read_text())
    assert certificate["unit_records"]["columns"]["hhw"] == {"member_label": {"column": "hhw", "highest": "age"}}
    totals = pq.read_table(Path(result["output"]) / "totals.parquet").to_pylist()
    found = {(one["column"], one["label"]): one for one in totals}
    for label, true in ((("region", "N"), 1_500 * 2), (("region", "S"), 1_500 * 6), (("", ""), 1_500 * 8)):
        # Eight standard errors, as above; an interval has what classes leave open besides.
        assert abs(found[label]["total"] - true) < 8 * found[label]["standard_error"]
        assert found[label]["interval_low"] < found[label]["total"] < found[label]["interval_high"]
    total = load(result["output"]).count({"region": "S"}, weighted=True)
    assert abs(total.estimate - 1_500 * 6) < 8 * found["region", "S"]["standard_error"]
    assert total.lower < total.estimate < total.upper
    desk.succeed("verify", result["output"])
    desk.succeed("sheet", result["output"])


def test_a_weight_and_whose_it_is_are_named_together(desk, households) -> None:
    desk.refuse("run", weighed(desk, ""), said="[unit].weight")
    desk.refuse("run", weighed(desk, 'weight = { highest = "region" }'), said="no numbers")
    desk.refuse("run", weighed(desk, 'weight = { highest = "age", lowest = "age" }'), said="[unit].weight")
    desk.refuse("run", weighed(desk, 'weight = { highest = "year" }'), said="[unit].weight.highest")
    alone = weighed(desk, edit=lambda text: text.replace('weight = "hhw"\nweight_classes', "# weight_classes"))
    desk.refuse("run", alone, said="[data] names no weight")
    half = weighed(desk, edit=lambda text: text.replace("weight_classes =", "# weight_classes ="))
    desk.refuse("run", half, said="[data].weight_classes")
    wrong = weighed(desk, edit=lambda text: text.replace("[1, 4, 9, 16, 49]", "[1, 9, 4]"))
    desk.refuse("run", wrong, said="[data.weight_classes]")
    twice = "[unit.columns.hhw]\ninterval = { lower = 0, upper = 100, widths = [] }\n[unit.columns.age]"
    desk.refuse("run", weighed(desk, edit=lambda text: text.replace("[unit.columns.age]", twice)), said="hhw")
    assert desk("ledger", "show", "--json").json["releases"] == []


PANEL = """
[release]
name = "panel"
format = "parquet"
output = "out"
[data]
dataset = "people"
source = "panel.parquet"
[unit]
by = "who"
kind = "person"
[unit.columns.ago]
interval = { lower = 0, upper = 20, widths = [] }
[unit.columns.work]
values = ["yes", "no"]
[deletion]
[margins]
[privacy]
epsilon = 2
delta = 1e-6
[columns.path]
waves = { column = "work", wave = "ago", order = ["1", "0"] }
level = 0
[columns.waves]
count_members = { cap = 4 }
level = 0
"""


@pytest.mark.slow
def test_a_series_over_waves_moves_on_with_the_file(desk) -> None:
    """In each year a person's last two waves are published, by the same rules and at one price."""
    desk.succeed("dataset", "add", "people", "--epsilon", "10", "--delta", "1e-3", "--unit", "person:who")
    (desk.folder / "panel.toml").write_text(PANEL)
    desk.succeed("series", "add", "yearly", "panel.toml", "--releases", "2")
    people = np.arange(3_000)
    work = [np.where(people % 3 < year % 3 + 1, "yes", "no") for year in range(2023, 2026)]
    for last, output in ((2024, "first"), (2025, "second")):
        years = range(2023, last + 1)
        table = {
            "who": np.tile(people, len(years)),
            "ago": np.repeat([last - year for year in years], people.size),
            "work": np.concatenate(work[: len(years)]),
        }
        pq.write_table(pa.table(table), desk.folder / "panel.parquet")
        result = desk.succeed("run", "panel.toml", "--series", "yearly", "--output", output, "--json").json
        margins = pq.read_table(Path(result["output"]) / "margins.parquet").to_pylist()
        error = json.loads(Path(result["certificate"]).read_text())["published"]["margins"]["standard_error"]
        found = {(one["column"], one["label"]): one for one in margins}
        paths = [f"{one} > {other}" for one, other in zip(work[last - 2024], work[last - 2023], strict=True)]
        own = [("path", path, paths.count(path)) for path in set(paths)]
        for column, label, true in (*own, ("waves", str(len(years)), 3_000)):
            # Ten standard errors, as above.
            assert abs(found[column, label]["count"] - true) < 10 * error
        desk.succeed("verify", result["output"])
