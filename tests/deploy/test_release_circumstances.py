"""Private looks, several records of a person, two names of one source: what the command line says of each."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml


def certificate_of(answer) -> dict:
    assert answer.code == 0, answer.err
    return json.loads(Path(answer.json["certificate"]).read_text(encoding="utf-8"))


def refusals(desk) -> list[tuple[str, str | None]]:
    lines = [json.loads(line)["entry"] for line in desk("ledger", "export").out.splitlines()]
    return [(entry["cause"], entry["release_id"]) for entry in lines if entry["kind"] == "release-refused/1"]


@pytest.mark.slow
def test_certificates_after_a_private_look_say_so_and_a_resumed_one_says_what_it_said(desk, monkeypatch) -> None:
    from crowdblend.flows import release

    desk.add_dataset()
    desk.write_spec()
    publish = release.publish

    def cut_off(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(release, "publish", cut_off)
    assert desk("run", "spec.toml", "--release-id", "one").code == 1
    monkeypatch.setattr(release, "publish", publish)
    desk.succeed("dataset", "looked", "people", "--what", "a report of what a release would lose", "--by", "an analyst")
    before = certificate_of(desk("run", "spec.toml", "--release-id", "one", "--json"))
    assert before["private_looks"] == {"count": 0, "last_day": None}
    spec = desk.write_spec(name="second", output="second")
    answer = desk("run", spec, "--json")
    after = certificate_of(answer)
    assert after["private_looks"]["count"] == 1
    assert "private inspection" in after["guarantee"]["limits"]
    assert "analyst" not in json.dumps(after)
    assert "lose" not in json.dumps(after)
    assert "private_looks" not in answer.json
    [look] = desk("ledger", "show", "--json").json["private_looks"]
    assert (look["dataset"], look["by"]) == ("people", "an analyst")
    assert "Private looks" in desk("ledger", "show").out
    desk.succeed("ledger", "verify")
    desk.succeed("verify", answer.json["certificate"])
    assert desk("dataset", "looked", "nobody", "--what", "x").code == 2


@pytest.mark.slow
def test_a_release_is_priced_for_as_many_records_of_a_person_as_its_data_set_was_added_with(desk) -> None:
    budget = ("--epsilon", "10", "--delta", "1e-3")
    assert desk("dataset", "add", "people", *budget, "--rows-per-person", "0").code == 2
    desk.succeed("dataset", "add", "people", *budget, "--rows-per-person", "3")
    (desk.folder / "people.csv").rename(desk.folder / "kept.csv")  # a look at the source would be exit 2
    refused = desk("run", desk.write_spec(), "--release-id", "for-one", "--json")
    assert refused.code == 3
    assert "at most 3 records of a person" in refused.json["error"]["message"]
    assert "rows_per_person = 3" in refused.json["error"]["message"]
    assert refusals(desk) == [("rows-per-person", "for-one")]
    (desk.folder / "kept.csv").rename(desk.folder / "people.csv")

    def for_three(text: str) -> str:
        return text.replace("[data]", "[data]\nrows_per_person = 3")

    answer = desk("run", desk.write_spec(edit=for_three), "--json")
    certificate = certificate_of(answer)
    assert certificate["guarantee"]["unit"] == "one person, at most 3 records"
    assert answer.json["epsilon"] == pytest.approx(0.641, abs=1e-3)
    assert answer.json["epsilon_paper"] is None
    desk.succeed("verify", answer.json["certificate"])
    desk.succeed("ledger", "verify")
    [dataset] = desk("dataset", "list", "--json").json["datasets"]
    assert dataset["rows_per_person"] == 3
    series = desk("series", "add", "monthly", desk.write_spec(edit=for_three), "--releases", "3", "--json")
    assert series.json["rule"] == "even-group-privacy/1+series-game/1"
    without_k = desk.write_spec(edit=lambda text: for_three(text).replace("k = 20", "").replace("[suppression]", ""))
    assert "both k and rate" in desk("run", without_k).err


@pytest.mark.slow
def test_a_source_that_goes_by_two_names_is_warned_of_and_released(desk) -> None:
    desk.add_dataset()
    desk.succeed("dataset", "add", "folk", "--epsilon", "10", "--delta", "1e-3")
    first = desk.succeed("run", desk.write_spec(), "--json")
    assert "warning" not in first.err
    again = desk("run", desk.write_spec(output="again"), "--json")
    assert "warning" not in again.err
    copy = desk.folder / "copy"
    copy.mkdir()
    (desk.folder / "people.csv").rename(copy / "people.csv")

    def as_folk(text: str) -> str:
        return text.replace('dataset = "people"', 'dataset = "folk"')

    other = desk.succeed("run", desk.write_spec(output="other", source="copy/people.csv", edit=as_folk), "--json")
    assert "released before as data set 'people'" in other.err
    assert "warning" not in other.out
    desk.write_people(2_401)
    different = desk("run", desk.write_spec(output="different", edit=as_folk), "--json")
    assert different.code == 0
    assert "warning" not in different.err
    noted = [path for path in (desk.home / "sources").rglob("*") if path.is_file()]
    assert len(noted) == 3
    assert all(path.stat().st_mode & 0o077 == 0 for path in noted)
    ledger = (desk.folder / "ledger.db").read_bytes()
    assert not any(path.parent.name.encode() in ledger for path in noted)


def test_refusals_of_a_look_are_kept_as_evidence_with_the_source_unopened(desk) -> None:
    desk.add_dataset(epsilon="0.2")
    spec = desk.write_spec()
    desk.succeed("run", spec, "--release-id", "one")
    (desk.folder / "people.csv").unlink()  # it would be exit 2 if the source were looked for
    answer = desk("run", desk.write_spec(output="two"), "--release-id", "two", "--json")
    assert answer.code == 3
    assert "past the budget 0.2" in answer.json["error"]["message"]
    assert desk("run", desk.write_spec(k="25"), "--release-id", "one").code == 3
    assert desk("run", desk.write_spec(), "--series", "none").code == 2
    assert refusals(desk) == [("over-budget", "two"), ("other-specification", "one")]
    assert desk("run", desk.write_spec()).code == 3
    assert refusals(desk)[-1][0] == "over-budget"
    unknown = desk.write_spec(edit=lambda text: text.replace('dataset = "people"', 'dataset = "nobody"'))
    assert desk("run", unknown).code == 2  # the command is wrong: nobody's budget was asked
    assert len(refusals(desk)) == 3
    desk.succeed("ledger", "verify")
    assert not (desk.folder / "two").exists()


@pytest.mark.slow
def test_a_refusal_that_cannot_be_recorded_is_a_refusal_and_says_so(desk, postgresql_server, monkeypatch) -> None:
    from sqlalchemy import create_engine, make_url, text
    from sqlalchemy.pool import NullPool

    name = f"look_{os.getpid()}"
    administrator = create_engine(postgresql_server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    url = make_url(postgresql_server).set(database=name).render_as_string(hide_password=False)
    monkeypatch.setenv("CROWDBLEND_LEDGER", url)
    desk.add_dataset(epsilon="0.01")
    desk.write_spec()
    recorded = desk("run", "spec.toml", "--json")
    assert (recorded.code, len(refusals(desk))) == (3, 1)
    assert "could not be recorded" not in recorded.err
    with administrator.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    answer = desk("run", "spec.toml", "--json")
    assert answer.code == 3
    message = answer.json["error"]["message"]
    assert "past the budget 0.01" in message
    assert "Nothing was read or published. This refusal could not be recorded" in message
    assert len(refusals(desk)) == 1
    with administrator.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name}"))


def certificate_of_path(desk) -> str:
    answer = desk.succeed("run", desk.write_spec(), "--json")
    return answer.json["certificate"]


@pytest.mark.slow
def test_a_registry_entry_is_written_from_a_certificate_that_verifies(desk) -> None:
    desk.add_dataset()
    certificate = certificate_of_path(desk)
    shown = desk.succeed("registry", certificate, "--curator", "An office")
    entry = yaml.safe_load(shown.out)
    assert entry["deployment"]["basic"]["data_curators"][0]["data_curator_name"] == "An office"
    assert entry["deployment"]["basic"]["intended_use"].startswith("FILL IN")
    written = desk("registry", certificate, "--curator", "An office", "--output", "entry.yaml")
    assert written.code == 0
    assert yaml.safe_load((desk.folder / "entry.yaml").read_text(encoding="utf-8")) == entry
    assert "of its texts begin with FILL IN" in written.out
    assert desk("registry", certificate, "--output", "entry.yaml").code == 2  # it is there
    table = Path(certificate).with_name("data.parquet")
    table.write_bytes(table.read_bytes() + b"x")
    refused = desk("registry", certificate, "--output", "other.yaml")
    assert refused.code == 1
    assert "does not verify" in refused.err
    assert not (desk.folder / "other.yaml").exists()


def test_a_command_that_breaks_off_says_what_it_may_have_left(desk, monkeypatch) -> None:
    from crowdblend.deploy import cli

    def broken(words: list[str]) -> str:
        def invoke(**_: object) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(cli.crowdblend, "main", invoke)
            answer = desk(*words)
        assert answer.code == 1
        return answer.err

    for words in (["plan", "--k", "20"], ["verify", "run"], ["ledger", "show"], ["dataset", "list"]):
        assert "Nothing was charged." in broken(words)
    for words in (["run", "plan"], ["series", "add", "x", "y"], ["demo"]):
        assert "What was charged stays charged." in broken(words)
