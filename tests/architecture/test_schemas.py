"""The committed schemas are what the models and their docstrings give."""

from __future__ import annotations

from pathlib import Path

from crowdblend.deploy.commands.spec_commands import NAMES, schema_text, text_of_schema
from crowdblend.deploy.generate_schemas import schemas
from crowdblend.flows.spec import PAGE

PROJECT = Path(__file__).resolve().parents[2]


def test_the_files_are_what_the_models_give() -> None:
    made = dict(schemas((PROJECT / PAGE).read_text(encoding="utf-8")))
    assert sorted(made) == NAMES
    other = [name for name, schema in made.items() if schema_text(name) != text_of_schema(schema)]
    assert not other, "a form or its docstring changed: run python -m crowdblend.deploy.generate_schemas"
    assert all(schema["$id"].startswith(f"urn:crowdblend:{name}:") for name, schema in made.items())
