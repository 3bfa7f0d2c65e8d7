"""The page for evaluators names fields that certificates have, and commands that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from crowdblend.deploy.cli import crowdblend

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "sp-800-226.md"
SCHEMA = json.loads((PROJECT / "deploy" / "schemas" / "certificate.json").read_text("utf-8"))


def has_field(path: str) -> bool:
    """Whether the schema of certificates knows a field, named from the top: objects and lists of objects alike."""

    def below(schema: dict[str, Any], names: list[str]) -> bool:
        if "$ref" in schema:
            return below(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], names)
        if not names:
            return True
        options = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
        if any(below(option, names) for option in options):
            return True
        return names[0] in schema.get("properties", {}) and below(schema["properties"][names[0]], names[1:])

    return below(SCHEMA, path.split("."))


def named_fields() -> list[str]:
    """What stands on the page in code and begins with the name of a field of the certificate."""
    top = SCHEMA["$defs"]["Certificate"]["properties"]
    found = re.findall(r"`([a-z_0-9.]+)`", PAGE.read_text("utf-8"))
    return sorted({name for name in found if name.partition(".")[0] in top})


def test_every_field_that_the_page_names_is_one_of_certificates() -> None:
    assert not [name for name in named_fields() if not has_field(name)]


def test_the_page_names_the_section_that_an_evaluator_looks_for() -> None:
    wanted = {"unit", "neighbours", "epsilon", "delta", "rule", "theorem", "enforced_by", "rows_per_person", "limits"}
    assert {f"guarantee.{name}" for name in wanted} <= set(named_fields())


@pytest.mark.parametrize("name", ["guarantee.side_channels", "guarantee.unit.column", "map.selection.budget", "trust"])
def test_a_field_that_no_certificate_has_is_seen(name: str) -> None:
    assert not has_field(name)


def test_every_command_that_the_page_names_exists() -> None:
    known = crowdblend.list_commands(click.Context(crowdblend))
    named = re.findall(r"(?:`|^)crowdblend ([a-z]+) ?([a-z]*)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(named) > 5
    for name, below in named:
        assert name in known
        command = crowdblend.get_command(click.Context(crowdblend), name)
        assert not isinstance(command, click.Group) or below in command.commands
