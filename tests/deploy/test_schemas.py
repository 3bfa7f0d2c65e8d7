"""What commands print, releases certify and the ledger exports is valid by the schemas; where these are found."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from crowdblend.accounting.kernel.ledger.entries import ENTRY_TYPES
from crowdblend.deploy.cli import crowdblend
from crowdblend.deploy.commands.spec_commands import DOCUMENTS, NAMES, schema_text, text_of_schema
from crowdblend.deploy.generate_schemas import schemas
from crowdblend.flows.spec import PAGE
from support.schemas import require_valid, require_valid_certificate, schema_of_command, validator

PROJECT = Path(__file__).resolve().parents[2]
VECTORS = PROJECT / "tests" / "vectors"
MADE = dict(schemas((PROJECT / PAGE).read_text(encoding="utf-8")))


def names_of_printing(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[str]:
    """The words of each command that has --json, joined."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from names_of_printing(command, (*above, name))
        elif any("--json" in parameter.opts for parameter in command.params):
            yield "-".join((*above, name))


def test_there_is_one_for_each_command_that_prints_json_and_no_other() -> None:
    printing = set(names_of_printing(crowdblend))
    assert printing | set(DOCUMENTS) == set(NAMES) == set(MADE)
    assert schema_of_command(("release", "list", "--json")) == "release-list"
    assert schema_of_command(("run", "spec.toml", "--json")) == "run"


def test_the_command_prints_a_schema_and_lists_all(desk) -> None:
    for name in ("specification", "run"):
        assert desk.succeed("schema", name).out == text_of_schema(MADE[name])
    assert desk.succeed("spec", "schema").out == text_of_schema(MADE["specification"])
    listed = desk.succeed("schema").out.splitlines()
    assert [line.split()[0] for line in listed] == NAMES
    refused = desk("schema", "runn")
    assert refused.code == 2
    assert "'run'" in refused.err


def test_every_kind_of_entry_is_in_the_export_s_schema() -> None:
    stated = {
        one["properties"]["kind"]["const"]
        for one in MADE["ledger-export"]["$defs"].values()
        if "kind" in one["properties"]
    }
    assert stated == ENTRY_TYPES.keys()


def test_the_entries_of_the_vectors_and_of_the_golden_ledger_are_valid() -> None:
    vectors = json.loads((VECTORS / "releases.json").read_text(encoding="utf-8"))
    for line in vectors["ledger"]:
        require_valid("ledger-export", line)
    golden = [json.loads(line) for line in (VECTORS / "ledger" / "entries.jsonl").read_text().splitlines()]
    assert {one["kind"] for one in golden} == ENTRY_TYPES.keys()
    for position, entry in enumerate(golden):
        require_valid("ledger-export", {"position": position, "hash": "0" * 64, "entry": entry})


def test_the_conformance_cases_that_hold_are_valid() -> None:
    found = {"certificate": 0, "ledger": 0}
    for case in sorted((VECTORS / "conformance").glob("*/*/case.json")):
        if not json.loads(case.read_bytes())["holds"]:
            continue
        certificate, chain = case.parent / "release" / "certificate.json", case.parent / "ledger.jsonl"
        found["certificate" if certificate.is_file() else "ledger"] += 1
        require_valid_certificate(str(certificate))
        for line in map(json.loads, chain.read_bytes().splitlines() if chain.is_file() else ()):
            entry = json.loads(line["body"])
            require_valid("ledger-export", {"position": line["position"], "hash": line["hash"], "entry": entry})
    assert min(found.values()) > 1, found


def test_the_results_of_the_vectors_are_valid() -> None:
    vectors = json.loads((VECTORS / "releases.json").read_text(encoding="utf-8"))
    left_out = {"output": "out", "certificate": "out/certificate.json", "timings": {}}
    for made in vectors["releases"].values():
        require_valid("run", made["result"] | left_out)
    for plan in vectors["plans"].values():
        require_valid("plan", plan)
    require_valid("dataset-list", {"datasets": [without_estimate(one) for one in vectors["datasets"]]})


def without_estimate(row: dict) -> dict:
    return {name: value for name, value in row.items() if name != "epsilon_estimate"}


def test_a_key_or_a_value_that_a_schema_doesn_t_know_is_seen() -> None:
    vectors = json.loads((VECTORS / "releases.json").read_text(encoding="utf-8"))
    plan = next(iter(vectors["plans"].values()))
    for wrong in (plan | {"more": 1}, plan | {"k": "20"}, {name: plan[name] for name in plan if name != "k"}):
        with pytest.raises(AssertionError, match=r"crowdblend schema plan"):
            require_valid("plan", wrong)
    entry = vectors["ledger"][0]
    for wrong in ({"kind": "ledger-created/9"}, {"more": 1}, {"ledger_id": 1}):
        with pytest.raises(AssertionError):
            require_valid("ledger-export", entry | {"entry": entry["entry"] | wrong})


def test_what_the_steward_s_commands_print_is_valid(desk) -> None:
    """Each answer is held against its schema by the desk itself; here are those that no other test asks for."""
    desk.add_dataset()
    spec = desk.write_spec()
    for words in (
        ("dataset", "list"),
        ("series", "add", "monthly", spec, "--releases", "3"),
        ("series", "list"),
        ("token", "add", "auditor", "--expires", "9d"),
        ("token", "list"),
        ("key", "show"),
        ("ledger", "show"),
        ("ledger", "verify"),
        ("ledger", "migrate"),
        ("release", "list"),
        ("hierarchy", "check", "towns.csv"),
        ("hierarchy", "show", "towns.csv"),
        ("explain", spec),
        ("run", spec, "--dry-run"),
        ("plan", "--k", "20", "--rate", "0.1", "--delta", "1e-6"),
        ("plan", "--mechanism", "deletion", "--epsilon", "1", "--delta", "1e-6"),
    ):
        assert desk.succeed(*words, "--json").json
    assert desk("status", "none", "--json").json["error"]["kind"] == "input"
    desk.succeed("ledger", "export")


def test_a_new_specification_names_the_schema_that_lies_beside_it(desk) -> None:
    (desk.folder / "specs").mkdir()
    desk.succeed("spec", "new", "--from", "people.csv", "--columns", "colour", "--output", "specs/people.toml")
    [named, *_] = (desk.folder / "specs" / "people.toml").read_text(encoding="utf-8").splitlines()
    assert named == "#:schema ./crowdblend-specification-1.json"
    beside = desk.folder / "specs" / named.removeprefix("#:schema ./")
    assert beside.read_text(encoding="utf-8") == schema_text("specification")
    spec = tomllib.loads((desk.folder / "specs" / "people.toml").read_text(encoding="utf-8"))
    faults = {fault.json_path for fault in validator("specification").iter_errors(spec)}
    assert faults == {"$.columns.colour.level"}, "what is marked FILL IN"
    beside.write_text("{}")
    again = desk.succeed("spec", "new", "--from", "people.csv", "--output", "specs/other.toml")
    assert "crowdblend schema specification >" in again.err
    assert beside.read_text() == "{}", "what is there is never replaced"


def test_an_editor_s_program_finds_the_schema_by_the_line_and_holds_the_file_against_it(desk) -> None:
    """Taplo is what editors run for TOML; nothing but the two files is there."""
    desk.succeed("spec", "new", "--from", "people.csv", "--columns", "colour")
    spec = desk.folder / "people.toml"
    complete = spec.read_text(encoding="utf-8").replace('level = "FILL IN"', "level = 0", 1)
    for text, faults in (
        (complete, ()),
        (complete.replace("separator", "seperator"), ("'seperator' was unexpected",)),
        (complete.replace("rate = 0.1", "rate = 1.5"), ("1.5 is greater than or equal to the maximum of 1",)),
    ):
        spec.write_text(text, encoding="utf-8")
        told = subprocess.run(
            [Path(sys.executable).with_name("taplo"), "lint", spec], capture_output=True, text=True, check=False
        )
        assert (told.returncode == 0) is (not faults), told.stderr
        assert all(fault in told.stderr for fault in faults)
