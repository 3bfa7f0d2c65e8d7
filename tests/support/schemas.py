"""What commands print and write, held against the schemas that are published of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from crowdblend.deploy.commands.spec_commands import NAMES, schema_text
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

__all__ = ["require_valid", "require_valid_answer", "require_valid_certificate", "schema_of_command"]

MOST_LINES = 100


@cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads(schema_text(name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def require_valid(name: str, document: object) -> None:
    """Fail where a document has a key or a value that its schema doesn't know."""
    fault = best_match(validator(name).iter_errors(document))
    assert fault is None, (
        f"{fault.json_path} is not as crowdblend schema {name} says: {fault.message}\nIf it is meant, change the "
        "form in deploy/schemas/outputs.py or documents.py and run python -m crowdblend.deploy.generate_schemas"
    )


def schema_of_command(words: Sequence[object]) -> str | None:
    """The schema of what a command prints with --json; None where it prints none."""
    if "--json" not in words:
        return None
    named = [str(word) for word in words]
    return next((name for name in ("-".join(named[:2]), *named[:1]) if name in NAMES), None)


def require_valid_answer(words: Sequence[object], out: str) -> None:
    """Hold against its schema what a command printed with --json, a certificate that it wrote, or an export."""
    if list(words[:2]) == ["ledger", "export"]:
        lines = json.loads(out)["entries"] if "--json" in words else [json.loads(one) for one in out.splitlines()]
        for line in lines[:MOST_LINES]:
            require_valid("ledger-export", line)
        return
    name = schema_of_command(words)
    if name is None or not out.strip():
        return
    document = json.loads(out, parse_constant=not_json)
    require_valid(name, document)
    if isinstance(document.get("certificate"), str):
        require_valid_certificate(document["certificate"])


def require_valid_certificate(place: str) -> None:
    """Hold a certificate against its schema, where it lies on this machine."""
    if Path(place).is_file():
        require_valid("certificate", json.loads(Path(place).read_bytes()))


def not_json(constant: str) -> None:
    raise AssertionError(f"{constant} is no number of JSON")
