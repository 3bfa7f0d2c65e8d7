"""The tables of a release: rows in one, or in one a block; of units perhaps one of their members; margins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DATA = "data"
"""The table of rows without its file's ending; of several the beginning of their names."""


MEMBERS = "members"
"""The table of members without its file's ending, and what of what is published tells of it."""


def table_of_block(name: str) -> str:
    """Return the name of a block's table, without its file's ending."""
    return f"{DATA}-{name}"


def row_tables(certificate: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return for each table of rows, by its name, the certificate as if its release had no other one.

    A block's has the columns and stages of the block; whoever can read a release with one table can read each block.
    """
    published, columns = certificate["published"], certificate["map"]["columns"]
    if "blocks" not in published:
        return {DATA: certificate}
    return {
        table_of_block(block["name"]): {
            **certificate,
            "map": {**certificate["map"], "columns": [one for one in columns if one["column"] in block["columns"]]},
            "published": {name: value for name, value in published.items() if name != "blocks"}
            | {name: value for name, value in block.items() if name not in ("name", "theme", "columns")},
        }
        for block in published["blocks"]
    }


def members_view(certificate: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the certificate as if its release had the table of members alone; None where there is no such table.

    Its mechanism is the release of that table by itself, so that whoever can read a deletion release can read it. What
    is published says in `most` how many members of a unit may be in it.
    """
    published, mechanism = certificate["published"].get(MEMBERS), certificate["mechanism"]
    if published is None:
        return None
    release = {
        "kind": "deletion-release/1",
        "k": mechanism["k"],
        "stages": mechanism["member_stages"],
        "noise": "gaussian",
        "scale": mechanism["member_scale"],
        "width": mechanism["member_width"],
    }
    return {
        **{name: value for name, value in certificate.items() if name != "unit_records"},
        "mechanism": release,
        "map": published["map"],
        "published": {name: value for name, value in published.items() if name != "map"},
    }


def are_margins_of_mechanism(certificate: Mapping[str, Any]) -> bool:
    """Return whether as many margins and pairs are named as are paid for, of known columns, and a file with them."""
    number, pairs = certificate["mechanism"].get("margins", 0), certificate["mechanism"].get("pairs", 0)
    files = {"margins.parquet", "margins.csv"} & set(certificate["files"])
    if not number:
        return not files and "margins" not in certificate["published"]
    known = {column["column"] for column in certificate["map"]["columns"]}
    try:
        margins = certificate["published"]["margins"]["columns"]
        chosen = [pair["columns"] for pair in certificate["published"].get("pairs", [])]
        right = len(margins) == number and len(chosen) == pairs
        return len(files) == 1 and right and all(known.issuperset(margin) for margin in (*margins, *chosen))
    except (LookupError, TypeError):
        return False
