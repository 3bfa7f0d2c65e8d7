"""The tables of rows of a release: one, or one a block; and of units perhaps one of their members."""

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

    Its mechanism is the release of that table by itself, so that whoever can read a deletion release can read it.
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
        "published": {name: value for name, value in published.items() if name not in ("map", "most")},
    }
