"""A researcher's request and the steward's answer: what is asked, what it costs, and what is refused of both."""

from __future__ import annotations

import csv
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from crowdblend.analysis import load_answer
from crowdblend.flows.request_files import LARGEST_REQUEST

SPEC = """
[release]
name = "pay"
output = "out"
[data]
dataset = "people"
source = "pay.csv"
separator = ";"
null = ["", "none"]
[deletion]
[privacy]
epsilon = 1
delta = 1e-6
[margins]
pairs = [["age", "town"]]
[columns.age]
interval = { lower = 15, upper = 85, widths = [5, 10] }
level = 1
[columns.town]
hierarchy = "towns.csv"
level = 1
[columns.sex]
values = ["f", "m"]
level = 0
"""
WHO = ("--epsilon", "1", "--asked-by", "J. Doe, a university", "--purpose", "a paper on pay")
TOWNS = ("Lyon", "Marseille", "Lille", "Paris")


@pytest.fixture
def office(desk):
    """A desk with a data set, its specification, and a published release of it."""
    rows = [f"{15 + i % 70};{TOWNS[i % 4]};{'fm'[i % 2]};{1_000 + 10 * (i % 70)}" for i in range(2_800)]
    (desk.folder / "pay.csv").write_text("age;town;sex;pay\n" + "\n".join(rows) + "\n")
    (desk.folder / "spec.toml").write_text(SPEC)
    desk.add_dataset(epsilon="20", delta="1e-4")
    desk.succeed("run", "spec.toml")
    return desk


def ask(desk, *words: str, file: str = "asked.toml") -> Path:
    desk.succeed("request", file, *words, *WHO)
    return desk.folder / file


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "data.csv").open() as file:
        return list(csv.DictReader(file))


def spent(desk) -> float:
    [data_set] = desk.succeed("dataset", "list", "--json").json["datasets"]
    return float(data_set["epsilon_spent"])


def names(desk) -> set[str]:
    """What lies in the steward's folder, but for the ledger's own files."""
    return {path.name for path in desk.folder.iterdir() if not path.name.startswith("ledger.db")}


def test_a_count_is_asked_for_by_the_labels_of_a_release_and_answered(office) -> None:
    asked = ask(office, "--count", "--by", "town", "--by", "sex", "--about", "out")
    before = spent(office)
    done = office.succeed("answer", asked, "--spec", "spec.toml", "--yes", "--json")
    assert spent(office) == pytest.approx(before + 1)
    assert "J. Doe, a university" in done.err
    assert "9 groups by town (level 1) and sex (level 0)" in done.err
    folder = Path(done.json["output"])
    found = {(row["town"], row["sex"]): float(row["answer"]) for row in rows_of(folder)}
    # Lyon and Lille have odd places, Marseille and Paris even ones; Pr[any of 9 is beyond 40] < 1e-15.
    assert abs(found["South", "f"] - 700) < 40
    assert abs(found["North", "m"] - 700) < 40
    assert abs(found["South", "*"]) < 40
    certificate = json.loads((folder / "certificate.json").read_text())
    assert certificate["published"]["request"] in done.err
    office.succeed("verify", folder)
    assert len(load_answer(folder, request=asked).table()) == 9
    table = folder / "data.csv"
    table.write_text(table.read_text().replace("North", "South", 1))
    office.refuse("verify", folder, code=1)


def test_a_mean_with_bounds_of_its_own(office) -> None:
    words = ("--mean", "pay", "--bounds", "pay", "0", "2000", "--least-records", "1000", "--dataset", "people")
    asked = ask(office, *words, "--by", "sex", "--label", "sex=f", "--label", "sex=m")
    shown = office.succeed("answer", asked, "--spec", "spec.toml", "--yes", "--output", "means")
    assert "the mean of pay, of numbers from 0 to 2,000" in shown.out
    found = {row["sex"]: float(row["answer"]) for row in rows_of(office.folder / "means")}
    # Noise of scale 2; Pr[beyond 80] < 1e-17.
    assert abs(found["f"] - 1_340) < 80
    assert abs(found["m"] - 1_350) < 80


def test_a_regression_is_asked_for_and_computed_from_the_answer(office) -> None:
    formula = "pay ~ age + sex[m]"
    words = ("--regression", formula, "--bounds", "pay", "0", "2000", "--about", "out")
    asked = ask(office, *words)
    office.succeed("answer", asked, "--spec", "spec.toml", "--yes", "--output", "sums", "--epsilon", "10")
    found = load_answer("sums", request=asked).regression(formula).set_index("term")
    # pay is 850 + 10 age exactly; the noise has standard errors below 1 here, and 30 of them are not exceeded.
    for term, true in {"(constant)": 850, "age": 10, "sex[m]": 0}.items():
        assert abs(found.loc[term, "estimate"] - true) < 30 * found.loc[term, "standard_error"]
    assert found.loc["age", "standard_error"] < 1
    other = ask(office, *words, file="other.toml")
    with pytest.raises(Exception, match="another request"):
        load_answer("sums", request=other)


def test_a_price_that_does_not_fit_is_refused_and_nothing_is_written(office) -> None:
    asked = ask(office, "--count", "--by", "sex", "--about", "out", "--anyway")
    before, there = spent(office), names(office)
    office.refuse("answer", asked, "--spec", "spec.toml", "--yes", "--epsilon", "30", code=3, said="past the budget")
    assert (spent(office), names(office)) == (before, there)


def test_a_dry_run_shows_the_price_and_leaves_nothing(office) -> None:
    asked = ask(office, "--count", "--by", "sex", "--about", "out", "--anyway")
    before, there, entries = spent(office), names(office), office.entries()
    shown = office.succeed("answer", asked, "--spec", "spec.toml", "--dry-run")
    assert "a run would charge ε = 1, δ = 0 to 'people'" in shown.out
    assert "Its noise moves a figure by at most 3" in shown.out
    told = office.succeed("answer", asked, "--spec", "spec.toml", "--dry-run", "--json").json
    assert (told["dry_run"], told["charge"]["epsilon"]) == (True, 1.0)
    assert (spent(office), names(office), office.entries()) == (before, there, entries)


def test_without_a_terminal_an_approval_must_be_given(office) -> None:
    asked = ask(office, "--count", "--by", "sex", "--about", "out", "--anyway")
    there, entries = names(office), office.entries()
    office.refuse("answer", asked, "--spec", "spec.toml", said="approve it with --yes")
    assert (names(office), office.entries()) == (there, entries)


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "code"), [("n", 2), ("", 2), ("y", 0)])
def test_the_steward_is_asked_on_a_terminal(office, typed: str, code: int) -> None:
    asked = ask(office, "--count", "--by", "sex", "--about", "out", "--anyway")
    entries, ours, theirs = office.entries(), *pty.openpty()
    os.write(ours, f"{typed}\n".encode())
    command = [sys.executable, "-m", "crowdblend.deploy", "answer", asked.name, "--spec", "spec.toml"]
    environment = os.environ | office.settings | {"PREFECT_API_URL": office.prefect()}
    given = {"stdin": theirs, "env": environment, "cwd": office.folder}
    ended = subprocess.run(command, check=False, capture_output=True, text=True, **given)
    assert ended.returncode == code, ended.stderr
    assert "Charge it, and answer? [y/N]" in ended.stderr
    assert (office.entries() > entries) is (code == 0)
    assert any(name.startswith("answer-") for name in names(office)) is (code == 0)


def test_the_same_request_twice_costs_twice_and_says_so_before(office) -> None:
    asked = ask(office, "--count", "--by", "sex", "--about", "out", "--anyway")
    before = spent(office)
    first = office.succeed("answer", asked, "--spec", "spec.toml", "--yes", "--json", "--output", "first")
    again = office.succeed("answer", asked, "--spec", "spec.toml", "--dry-run")
    assert f"answered before, by '{first.json['release_id']}'" in again.out
    office.succeed("answer", asked, "--spec", "spec.toml", "--yes", "--output", "second")
    assert spent(office) == pytest.approx(before + 2)


KILLED = """
import os, signal, sys
from crowdblend.deploy import cli
from crowdblend.tasks.stages import count
count.block_counts = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
cli.main(sys.argv[1:])
"""


def test_an_answer_that_was_cut_off_is_named_and_finished_at_no_new_charge(office) -> None:
    asked = ask(office, "--count", "--by", "sex", "--about", "out", "--anyway")
    before = spent(office)
    ended = office.start("answer", asked.name, "--spec", "spec.toml", "--yes", script=KILLED)
    assert ended.finish()[0] == -signal.SIGKILL
    assert spent(office) == pytest.approx(before + 1)
    told = office.refuse("answer", asked.name, "--spec", "spec.toml", "--yes", said="Finish it at no new charge")
    command = told.err.partition("Finish it at no new charge: crowdblend ")[2].split(" Or ")[0].split()
    assert command[0] == "run"
    office.succeed(*command)
    assert spent(office) == pytest.approx(before + 1)
    assert [row["stage"] for row in office.releases()] == ["published"] * 2


SOUND = """
[request]
format = "crowdblend-request/1"
name = "asked"
asked_by = "J. Doe"
purpose = "a paper"
dataset = "people"
[answer]
kind = "mean"
column = "pay"
lower = 0
upper = 2000
least_records = 100
by = ["sex"]
epsilon = 1
[columns.sex]
values = ["f", "m"]
level = 0
"""
DIGEST = f'hierarchy_sha256 = "{"0" * 64}"'
MISTAKES: dict[str, tuple[str, str, str]] = {
    "no TOML": ("[request]", "[request", "asked.toml: this is not TOML"),
    "nested without end": ("lower = 0", f"lower = {'[' * 3000}", "nested too deeply"),
    "a number of many digits": ("lower = 0", f"lower = {'9' * 5000}", "too many digits"),
    "no name": ('name = "asked"\n', "", "asked.toml: [request].name: this is required and missing"),
    "a name that leads elsewhere": ('"asked"', '"../../etc/cron"', "[request].name: this text must have the form"),
    "another format": ("request/1", "request/2", "[request].format: this must be 'crowdblend-request/1'"),
    "a line break": ('"J. Doe"', '"J. Doe\\nApproved: yes"', "[request].asked_by: a text has printable"),
    "an escape sequence": ('"a paper"', '"a \\u001b[2Jpaper"', "[request].purpose: a text has printable"),
    "a long text": ('"a paper"', f'"{"a" * 3000}"', "[request].purpose: this text must have at most 2000"),
    "a table too much": ("[answer]", '[data]\nsource = "/etc/passwd"\n[answer]', "[data]: there is no such key"),
    "a key of the steward": ("epsilon = 1", 'epsilon = 1\nrelation = "add/remove"', "[answer].relation: there is no"),
    "a confidence": ("epsilon = 1", "epsilon = 1\nconfidence = 0.1", "[answer].confidence: there is no such key"),
    "a digest of its own": ("epsilon = 1", f'epsilon = 1\nrequest = "{"0" * 64}"', "[answer].request: there is no"),
    "a file": ('values = ["f", "m"]', 'hierarchy = "/etc/passwd"', "[columns.sex].hierarchy: there is no such key"),
    "an unknown kind": ('"mean"', '"median"', "[answer].kind: this must be 'count', 'sum', 'mean' or 'moments'"),
    "no epsilon": ("epsilon = 1\n", "", "[answer].epsilon: this is required and missing"),
    "an epsilon of 0": ("epsilon = 1", "epsilon = 0", "[answer].epsilon: this must be more than 0"),
    "an epsilon without end": ("epsilon = 1", "epsilon = inf", "[answer].epsilon: this must be a finite number"),
    "an epsilon as a text": ("epsilon = 1", 'epsilon = "1"', "[answer].epsilon: this must be a number"),
    "bounds beyond all numbers": ("upper = 2000", "upper = 2000000000000", "[answer].upper: this must be at most"),
    "bounds upside down": ("upper = 2000", "upper = -1", "[answer]: bounds must satisfy"),
    "no bound": ("lower = 0\n", "", "[answer].lower: this is required and missing"),
    "no least number": ("least_records = 100\n", "", "[answer].least_records: this is required and missing"),
    "a group without labels": ('by = ["sex"]', 'by = ["sex", "town"]', "[answer].by: 'town' can't be grouped by"),
    "a group twice": ('by = ["sex"]', 'by = ["sex", "sex"]', "[answer].by: 'sex' can't be grouped by"),
    "labels that nobody asks for": ('by = ["sex"]\n', "", "[columns.sex]: this column is declared"),
    "no labels": ('values = ["f", "m"]', "values = []", "[columns.sex].values: this must have at least 1"),
    "a label twice": ('["f", "m"]', '["f", "f"]', "[columns.sex]"),
    "labels in two ways": ('["f", "m"]', '["f"]\ninterval = { lower = 0, upper = 9, widths = [] }', "exactly one of"),
    "no level": ("level = 0\n", "", "[columns.sex].level: this is required and missing"),
    "a level too high": ("level = 0", "level = 9", "[columns.sex].level: level 9 does not exist"),
    "a column called as a figure": ("columns.sex", "columns.answer", "[answer].by: 'sex' can't be grouped by"),
    "more cells than are answered": (
        'values = ["f", "m"]', "interval = { lower = 0, upper = 9000000, widths = [] }", "combinations of labels",
    ),
    "labels by an unknown digest": (
        'values = ["f", "m"]', DIGEST, "[columns.sex].hierarchy_sha256: the labels that",
    ),
    "labels that the steward hasn't": (
        '[columns.sex]\nvalues = ["f", "m"]', "[columns.x]\n" + DIGEST, "spec.toml doesn't declare",
    ),
    "labels by digest and by value": (
        'values = ["f", "m"]', 'values = ["f"]\n' + DIGEST, "[columns.sex].values: hierarchy_sha256",
    ),
    "another data set": ('"people"', '"others"', "[request].dataset: the request asks of the data set 'others'"),
}  # fmt: skip


def test_each_mistake_of_a_request_is_told_with_its_place_and_nothing_is_charged(office) -> None:
    asked = office.folder / "asked.toml"
    asked.write_text(SOUND)
    office.succeed("answer", asked, "--spec", "spec.toml", "--dry-run")
    there, entries, wrong = names(office), office.entries(), {}
    for mistake, (old, new, said) in MISTAKES.items():
        assert SOUND.count(old) == 1 or old in ('"people"',), mistake
        asked.write_text(SOUND.replace(old, new))
        told = office("answer", asked, "--spec", "spec.toml", "--yes")
        if told.code != 2 or said not in told.err or "\x1b" in told.err:
            wrong[mistake] = (told.code, told.err)
    assert wrong == {}
    assert (names(office), office.entries()) == (there, entries)


def test_a_request_that_is_no_small_file_is_refused(office) -> None:
    asked = office.folder / "asked.toml"
    asked.write_text(SOUND + "#" * LARGEST_REQUEST)
    office.refuse("answer", asked, "--spec", "spec.toml", said="the request can't be read (it has more than 262,144")
    office.refuse("answer", office.folder, "--spec", "spec.toml", said="the request can't be read")
    office.refuse("answer", "nothing.toml", "--spec", "spec.toml", said="the request can't be read")
    os.mkfifo(office.folder / "pipe.toml")
    office.refuse("answer", "pipe.toml", "--spec", "spec.toml", said="the request can't be read")
    asked.write_bytes(SOUND.encode() + b"\xff")
    office.refuse("answer", asked, "--spec", "spec.toml", said="the request is not UTF-8")


ASKED_WRONGLY = {
    ("--count", "--by", "tow"): "Did you mean 'town'?",
    ("--count", "--by", "height"): "the release has no column 'height'",
    (
        "--count",
        "--by",
        "town",
    ): "the release answers this already, from what it has counted. Nothing was written. In Pyth",
    ("--count", "--by", "town", "--by", "age"): 'release.table("town", "age")',
    ("--count",): "release.count()",
    ("--mean", "age", "--by", "town", "--least-records", "5"): 'release.mean("age", by="town")',
    ("--regression", "age ~ C(town)"): 'release.regression("age ~ C(town)")',
    ("--count", "--by", "sex", "--by", "town", "--level", "town", "7"): "have levels 0 to 2, not 7",
    ("--sum", "town"): "column 'town' has labels, and no bounds of whole numbers",
    ("--sum", "age"): "times the counts of",
    ("--sum", "pay"): "If the data set has it: give its bounds: --bounds pay LOWER UPPER",
    ("--sum", "age", "--bounds", "pay", "0", "9"): "--bounds: column 'pay' is not asked for",
    ("--sum", "age", "--bounds", "age", "9", "0", "--by", "sex", "--by", "town"): "[answer]: bounds must satisfy",
    ("--regression", "age ~ sex[w]"): "column 'sex' has no label 'w' at this level",
    ("--count", "--by", "sex", "--label", "sex=woman"): "--label: column 'sex' has no value 'woman'. Nothing was",
    ("--regression", "age ~ log(age)"): "sums of products have numbers as they are",
    ("--regression", "age ~ sex[m] + C(age)"): "is taken both by its numbers and by its labels",
    ("--regression", "age"): "no formula of a regression",
    ("--regression", "C(sex) ~ age"): "the response 'sex' is no number",
    ("--regression", "age ~ sex[m]", "--by", "town"): "A regression has no groups",
    ("--mean", "age", "--by", "sex"): "--least-records goes with --mean",
    ("--count", "--sum", "age"): "Ask for one of",
    ("--count", "--by", "sex", "--by", "town", "--label", "sex"): "A label is given as COLUMN=LABEL",
    ("--count", "--by", "sex", "--by", "town", "--dataset", "others"): "--dataset names 'others'",
}


def test_what_is_asked_wrongly_is_told_at_once(office) -> None:
    wrong = {}
    for words, said in ASKED_WRONGLY.items():
        told = office("request", "new.toml", *words, "--about", "out", *WHO)
        if told.code != 2 or said not in told.err:
            wrong[words] = (told.code, told.err)
    assert wrong == {}
    assert "new.toml" not in names(office)
    office.refuse("request", "new.toml", "--count", "--by", "sex", *WHO, said="which data set is asked of isn't known")
    office.refuse("request", "new.toml", "--count", *WHO, "--dataset", "d", said="a count of all records is read from")
    office.refuse("request", "new.toml", "--count", "--by", "sex", *WHO, "--dataset", "d", said="nothing is known of")
    ask(office, "--count", "--by", "sex", "--by", "town", "--about", "out")
    again = ("--count", "--by", "sex", "--by", "town", "--about", "out")
    office.refuse("request", "asked.toml", *again, *WHO, said="this exists already")


HOUSEHOLDS = """
[release]
name = "homes"
output = "homes"
[data]
dataset = "census"
source = "homes.csv"
[unit]
by = "home"
[unit.columns.age]
interval = { lower = 0, upper = 100, widths = [20] }
[unit.columns.region]
values = ["N", "S"]
[deletion]
[margins]
[privacy]
epsilon = 2
delta = 1e-6
[columns.members]
count_members = { cap = 3 }
level = 0
[columns.children]
count_members = { column = "age", labels = ["[0, 18)"], cap = 2 }
level = 0
[columns.region]
member_label = { column = "region", highest = "age" }
level = 0
"""


def test_households_are_counted_by_derived_columns_and_nothing_else_is_answered_of_them(desk) -> None:
    desk.succeed("dataset", "add", "census", "--epsilon", "20", "--delta", "1e-3", "--unit", "household:home")
    # 600 in the north with one child, 400 in the south with none, of three and of two members.
    lines = [f"{home},{age},N" for home in range(600) for age in (40, 38, 7)]
    lines += [f"{home},{age},S" for home in range(600, 1_000) for age in (70, 66)]
    (desk.folder / "homes.csv").write_text("home,age,region\n" + "\n".join(lines) + "\n")
    (desk.folder / "homes.toml").write_text(HOUSEHOLDS)
    desk.succeed("run", "homes.toml")
    asked = ask(desk, "--count", "--by", "children", "--by", "region", "--about", "homes")
    done = desk.succeed("answer", asked, "--spec", "homes.toml", "--yes", "--json")
    assert "how many households there are; in each of 12 groups by children" in done.err
    assert spent(desk) == pytest.approx(3, rel=1e-2), "the price of one record for each household"
    folder = Path(done.json["output"])
    found = {(row["children"], row["region"]): float(row["answer"]) for row in rows_of(folder)}
    # Two-sided geometric noise at ε = 1 goes beyond 30 once in 10¹² draws.
    assert abs(found["1", "N"] - 600) < 30
    assert abs(found["0", "S"] - 400) < 30
    assert abs(found["2 or more", "S"]) < 30
    certificate = json.loads((folder / "certificate.json").read_text())
    assert certificate["guarantee"]["unit"] == "one household, at most one record"
    assert set(certificate["unit_records"]["columns"]) == {"children", "region"}
    desk.succeed("verify", folder)
    assert len(load_answer(folder, request=asked).table()) == 12

    whole = ask(
        desk, "--count", "--by", "members", "--level", "members", "2", "--about", "homes", "--anyway", file="whole.toml"
    )
    done = desk.succeed("answer", whole, "--spec", "homes.toml", "--yes", "--json")
    [row] = rows_of(Path(done.json["output"]))
    assert abs(float(row["answer"]) - 1_000) < 30

    for words in (("--count",), ("--sum", "members", "--bounds", "members", "0", "3")):
        desk.refuse("request", "none.toml", *words, "--about", "homes", *WHO, said="counts by group are answered alone")
    own = ask(desk, "--count", "--by", "age", "--label", "age=7", "--dataset", "census", file="own.toml")
    desk.refuse("answer", own, "--spec", "homes.toml", "--yes", said="derived from their members'")
    text = asked.read_text().replace('kind = "count"\nby = ["children", "region"]', 'kind = "moments"')
    (desk.folder / "sums.toml").write_text(text)
    desk.refuse("answer", "sums.toml", "--spec", "homes.toml", "--yes", said="[answer].kind")
    answering = next(desk.folder.glob("answer-*.toml"))
    replaced = answering.read_text().replace('relation = "add/remove"', 'relation = "replacement"')
    (desk.folder / "replaced.toml").write_text(replaced)
    desk.refuse("run", "replaced.toml", said="[answer].relation")
    assert spent(desk) == pytest.approx(4, rel=1e-2)
