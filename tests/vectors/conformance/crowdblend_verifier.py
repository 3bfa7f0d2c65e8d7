"""Run as a program: this project's verifier by the protocol of the conformance cases.

python tests/vectors/conformance/crowdblend_verifier.py CASE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crowdblend.accounting.kernel.keys.signing import PublicKey
from crowdblend.accounting.kernel.ledger.database import METADATA, entry
from crowdblend.accounting.kernel.ledger.entries import entry_of_bytes
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState
from crowdblend.accounting.kernel.ledger.rules import violations
from crowdblend.accounting.keys.signing_upkeep import read_public_keys
from crowdblend.accounting.ledger.anchor_check import check_anchor
from crowdblend.accounting.ledger.verification import Link, check_links
from crowdblend.accounting.ledger.witnessed import check_witnessed, policy_of_file
from crowdblend.deploy.release_check import verify_release
from crowdblend.mechanisms.kernel.errors import Refusal
from sqlalchemy import Connection, create_engine, insert

FIELDS = {"body": str, "hash": str, "kind": str, "position": int, "previous": str}


def verdict(case: Path) -> tuple[str, ...]:
    """What doesn't hold of a case, in sentences; empty where it holds."""
    keys = read_public_keys(case / "publisher.pem")
    try:
        if (case / "release").is_dir():
            return verify_release(case / "release" / "certificate.json", trusted=keys).findings
        return _of_ledger(case, keys)
    except Refusal as refusal:
        return (refusal.what,)


def _of_ledger(case: Path, keys: tuple[PublicKey, ...]) -> tuple[str, ...]:
    try:
        stored = [_stored(line) for line in (case / "ledger.jsonl").read_bytes().splitlines(keepends=True)]
    except ValueError as error:
        return (f"{error}",)
    if not stored:
        return ("the ledger has no entry",)
    links = [
        Link(**{name: one[name] for name in ("position", "previous", "hash")}, body=one["body"].encode())
        for one in stored
    ]
    findings = [str(finding) for finding in check_links(links)]
    if findings:  # nothing follows for sure from a chain that is broken
        return tuple(findings)
    state = LedgerState()
    for one, link in zip(stored, links, strict=True):
        try:
            recorded = entry_of_bytes(link.body)
        except ValueError as error:
            return (f"entry {link.position} can't be read: {error}",)
        findings += [violation.fault for violation in violations(recorded, state)]
        try:
            state.apply(recorded, link.hash)
        except ValueError as error:
            findings.append(f"entry {link.position}: {error}")
        if one["kind"] != recorded.KIND:
            findings.append(f"entry {link.position}: the kind differs from its content")
    if not (case / "anchor.jsonl").exists():
        return tuple(findings)
    with _stored_chain(stored) as connection:
        connect = lambda: _same(connection)  # noqa: E731
        findings += check_anchor(case / "anchor.jsonl", connect=connect, trusted=keys).findings
        if (case / "witnesses").exists():
            policy = policy_of_file(case / "witnesses")
            findings += check_witnessed(case / "checkpoint", connect=connect, policy=policy, trusted=keys).findings
        return tuple(findings)


def _stored(line: bytes) -> dict[str, Any]:
    """A line of the file: one stored entry.

    Raises:
        ValueError: it has another form.
    """
    if not line.endswith(b"\n"):
        raise ValueError("the last line is incomplete")
    one = json.loads(line)
    if not isinstance(one, dict) or {name: type(value) for name, value in one.items()} != FIELDS:
        raise ValueError("a line is no stored entry")
    return one


@contextmanager
def _stored_chain(stored: list[dict[str, Any]]) -> Iterator[Connection]:
    """The chain in a database of its own, in memory, as the anchor is held against one."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        METADATA.create_all(connection)
        rows = [{name: one[name] for name in FIELDS if name != "kind"} for one in stored]
        connection.execute(insert(entry), rows)
        yield connection
    engine.dispose()


@contextmanager
def _same(connection: Connection) -> Iterator[Connection]:
    yield connection


if __name__ == "__main__":
    findings = verdict(Path(sys.argv[1]))
    print(json.dumps({"holds": not findings, "findings": findings}))
    sys.exit(1 if findings else 0)
