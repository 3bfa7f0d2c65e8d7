"""A data set's unit: whose presence all its releases hide, in series of parts, filter budgets and certificates."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.accounting.certificate.write_certificate import DOMAIN, certificate_bytes, signed_bytes
from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.ledger.ledger_writer import dataset_entry, open_writer
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.flows.paths import StatePaths
from crowdblend.mechanisms.kinds.mixed_series import series_of_parts
from crowdblend.tasks.request import digest_of_mixed

ANSWER = """
[release]
name = "asked"
[data]
dataset = "people"
source = "people.csv"
separator = ";"
{limit}
[answer]
kind = "count"
epsilon = 0.5
by = ["colour"]
[columns.colour]
values = ["blue", "green", "red"]
level = 0
"""
HOUSEHOLD, PERSON = 'household = "home"', 'person = "who"'


def write_homes(desk, *, people: int = 300) -> None:
    colours = ("blue", "green", "red")
    lines = ["colour;who;home", *(f"{colours[i % 3]};p{i};h{i // 5}" for i in range(people))]
    (desk.folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def asked(desk, limit: str, *, name: str, edit=lambda text: text) -> Path:
    path = desk.folder / f"{name}.toml"
    path.write_text(edit(ANSWER.format(limit=limit)), encoding="utf-8")
    return path


def add(desk, *more: str, unit: str | None = None, epsilon: str = "10", delta: str = "1e-3") -> None:
    of_unit = () if unit is None else ("--unit", unit)
    desk.succeed("dataset", "add", "people", "--epsilon", epsilon, "--delta", delta, *of_unit, *more)


def certificate_of(result: dict) -> dict:
    return json.loads(Path(result["certificate"]).read_text(encoding="utf-8"))


def spent(desk) -> float:
    [row] = desk.succeed("dataset", "list", "--json").json["datasets"]
    return row["epsilon_spent"]


def test_a_series_of_parts_pays_for_releases_of_its_data_sets_unit_alone(desk) -> None:
    write_homes(desk)
    add(desk, unit="household:home")
    parts = ("--part", "2 x epsilon=0.5", "--dataset", "people", "--delta", "1e-6")
    desk.succeed("series", "add", "mix", *parts)
    before = spent(desk)
    first = desk.succeed("run", asked(desk, HOUSEHOLD, name="homes"), "--series", "mix", "--output", "one", "--json")
    assert "any one household" in certificate_of(first.json)["guarantee"]["in_words"]
    for limit, name in (("", "nobody"), (PERSON, "persons"), ('household = "who"', "other")):
        answer = desk("run", asked(desk, limit, name=name), "--series", "mix", "--output", name)
        assert answer.code == 3, answer.err
        assert "'household:home'" in answer.err
        assert 'household = "home"' in answer.err
        assert not (desk.folder / name).exists()
    assert spent(desk) == before
    desk.succeed("run", asked(desk, HOUSEHOLD, name="homes"), "--series", "mix", "--output", "two")
    desk.succeed("ledger", "verify")


@pytest.mark.parametrize(
    ("unit", "good", "bad"),
    [
        (None, "", (PERSON, HOUSEHOLD)),
        ("person:who", PERSON, ("", HOUSEHOLD, 'person = "home"')),
    ],
)
def test_a_release_of_another_unit_is_refused_before_anything_is_charged(desk, unit, good, bad) -> None:
    write_homes(desk)
    add(desk, unit=unit)
    [row] = desk.succeed("dataset", "list", "--json").json["datasets"]
    assert row["unit"] == (unit or "record")
    for number, limit in enumerate(bad):
        spec = asked(desk, limit, name=f"bad-{number}")
        for command in (("run", spec, "--output", "never"), ("run", spec, "--dry-run", "--output", "never")):
            desk.refuse(*command, code=3, said=f"'{unit or 'record'}'")
        assert "unit of all its releases" in desk.succeed("explain", spec, "--json").json["budget"]["problem"]
    assert spent(desk) == 0
    desk.succeed("run", asked(desk, good, name="good"), "--output", "good")


@pytest.mark.parametrize(
    ("unit", "limit", "said"),
    [
        (None, "", "for one person, at most one record"),
        (
            "household:home",
            HOUSEHOLD,
            "for one household, at most one record, told by the column 'home' in all of them",
        ),
    ],
)
def test_a_filter_budget_says_for_which_unit_it_holds(desk, unit, limit, said) -> None:
    write_homes(desk)
    expected = ("--accounting", "filter", "--expect", "24 x epsilon=0.05")
    add(desk, *expected, unit=unit, epsilon="2", delta="1e-6")
    spec = asked(desk, limit, name="asked", edit=lambda text: text.replace("epsilon = 0.5", "epsilon = 0.05"))
    result = desk.succeed("run", spec, "--output", "one", "--json").json
    words = certificate_of(result)["filter_budget"]["in_words"]
    assert said in words
    place = Path(result["certificate"])
    assert not [one for one in unchecked(desk, place) if "unit" in one]
    certificate = certificate_of(result)
    older = words.replace(f" {said}", "")
    sign_anew(desk, place, certificate | {"filter_budget": certificate["filter_budget"] | {"in_words": older}})
    [remark] = [one for one in unchecked(desk, place) if "unit" in one]
    assert "hold for a unit that all of them hide" in remark


def unchecked(desk, place: Path) -> list[str]:
    answer = desk.succeed("verify", place, "--json").json
    assert answer["ok"]
    return answer["unchecked"]


def sign_anew(desk, place: Path, certificate: dict) -> None:
    """What an earlier version would have written, under the publisher's signature."""
    value = SigningKeys(home=desk.home).current().sign(domain=DOMAIN, message=signed_bytes(certificate))
    certificate["signature"] |= {"value": value.hex()}
    place.write_bytes(certificate_bytes(certificate))


@pytest.mark.parametrize("first", ["", HOUSEHOLD], ids=["nobody", "household"])
def test_a_series_of_parts_of_an_earlier_version_goes_on_with_the_unit_that_it_began_with(desk, first) -> None:
    write_homes(desk)
    add(desk)
    budget = {"epsilon": Decimal(9), "delta": Decimal("1e-3"), "relation": "add/remove", "survey_rate": None}
    paths = StatePaths(ledger_url=desk.ledger, home=desk.home)
    with open_writer(desk.ledger, anchoring=paths.anchoring) as writer:
        writer.add_dataset(dataset_entry(name="older", **budget, rows_per_person=1, by="steward", day=date(2026, 1, 1)))
    desk.succeed("series", "add", "mix", "--part", "3 x epsilon=0.5", "--dataset", "older", "--delta", "1e-6")
    mixed = series_of_parts(["3 x epsilon=0.5"])
    with open_reader(desk.ledger) as reader:
        registered = reader.series("mix").registered.spec_digest
    assert registered == digest_of_mixed(mixed, dataset="older", delta=Decimal("1e-6"), unit=None)

    def run(limit: str, name: str):
        spec = asked(desk, limit, name=name, edit=lambda text: text.replace('"people"', '"older"'))
        return desk("run", spec, "--series", "mix", "--output", name)

    assert run(first, "one").code == 0
    for limit in {"", HOUSEHOLD, PERSON} - {first}:
        answer = run(limit, "other")
        assert answer.code == 3, answer.err
        assert "unit of all its releases" in answer.err
    assert run(first, "two").code == 0
    desk.succeed("ledger", "verify")


HISTOGRAM = """
[histogram]
kind = "suppressed"
k = 20
[sampling]
rate = 0.5
[privacy]
delta = 1e-3
[columns.colour]
"""


@pytest.mark.parametrize(("unit", "limit"), [("person:who", PERSON), ("household:home", HOUSEHOLD)])
def test_nothing_is_said_of_crowd_blending_where_a_column_limits_records(desk, unit, limit) -> None:
    write_homes(desk)

    def histogram(text: str) -> str:
        return text[: text.index("[answer]")] + HISTOGRAM + text[text.index("values") :]

    desk.succeed("dataset", "add", "people", "--epsilon", "100", "--delta", "0.1", "--unit", unit)
    spec = asked(desk, limit, name="limited", edit=histogram)
    limited = desk.succeed("run", spec, "--output", "limited", "--json").json
    certificate = certificate_of(limited)
    assert "crowd-blending" not in json.dumps(certificate)
    words = f"{certificate['guarantee']['in_words']} It is (20, 0)-crowd-blending."
    place = Path(limited["certificate"])
    sign_anew(desk, place, certificate | {"guarantee": certificate["guarantee"] | {"in_words": words}})
    assert any("its sentence on crowd-blending" in one for one in unchecked(desk, place))
    desk.succeed("dataset", "add", "believed", "--epsilon", "100", "--delta", "0.1")
    plain = asked(desk, "", name="plain", edit=lambda text: histogram(text).replace('"people"', '"believed"'))
    result = desk.succeed("run", plain, "--output", "plain", "--json").json
    assert "(20, 0)-crowd-blending" in certificate_of(result)["guarantee"]["in_words"]
