"""Fuzz targets for what auditors and stewards check: ledger files, entries, certificates, anchors, public keys."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from crowdblend.accounting.certificate.write_certificate import (
    DOMAIN,
    certificate_bytes,
    signed_bytes,
    write_certificate,
)
from crowdblend.accounting.kernel.keys.signing import canonical_bytes
from crowdblend.accounting.kernel.ledger.entries import (
    ReleaseCharged,
    bytes_of_entry,
    entry_of_bytes,
    link_hash,
    sorted_fields,
)
from crowdblend.accounting.kernel.prices.registry import mechanism_record, paper_price, price
from crowdblend.accounting.keys.anchor import DOMAIN as ANCHOR_DOMAIN
from crowdblend.accounting.keys.signing_upkeep import pem_of, read_public_keys
from crowdblend.accounting.ledger.charge_request import charged_price
from crowdblend.accounting.ledger.lookup import DatasetContext
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.flows.prepare import prepare
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused, Refusal
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

from .desk import DAY, Desk, Fault, Run, furnished_desk, said

__all__ = ["anchor", "certificate", "entry", "ledger_file", "public_keys", "sound_certificate"]

SPEC = """
[release]
name = "x"
output = "out"
[data]
dataset = "census"
source = "people.csv"
[sampling]
rate = 0.1
[suppression]
k = 20
[privacy]
delta = 1e-6
[columns.colour]
values = ["red"]
level = 0
"""


def edited(base: bytes, script: bytes) -> bytes:
    """Bytes changed by a script: places (3 bytes), lengths and new bytes one after the other; the first byte may cut.

    A whole database would drown a fuzzer's changes; a script of some bytes is what it can work with.
    """
    content = bytearray(base)
    if script[:1] == b"\xff" and len(script) >= 4:
        del content[int.from_bytes(script[1:4], "big") % len(content) :]
        script = script[4:]
    while len(script) >= 5 and content:
        at, size = int.from_bytes(script[:3], "big") % len(content), 1 + script[3] % 16
        new = script[4 : 4 + size]
        content[at : at + len(new)] = new
        script = script[4 + size :]
    return bytes(content)


def _links(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT position, previous, hash, body FROM entry ORDER BY position").fetchall()


def _look_everywhere(desk: Desk) -> bool:
    """Ask a ledger all that can be asked of it; whether it is said to hold."""
    code, _ = said(desk, "ledger", "verify", "--json")
    said(desk, "ledger", "show")
    said(desk, "ledger", "show", "--all", "--json")
    said(desk, "ledger", "export")
    said(desk, "dataset", "list")
    said(desk, "series", "list")
    said(desk, "token", "list")
    with (
        contextlib.suppress(Refusal),
        prepare(desk.folder / "spec.toml", state_paths=desk.state_paths, output=None, release_id=None),
    ):
        pass
    return code == 0


def _desk(folder: Path) -> Desk:
    desk = furnished_desk(folder)
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    (folder / "people.csv").write_text("colour\nred\n", encoding="utf-8")
    return desk


def ledger_file(folder: Path) -> Run:
    """A damaged SQLite file is told of in words; what is said to hold has the entries that were written."""
    desk = _desk(folder)
    sound, links = desk.ledger.read_bytes(), _links(desk.ledger)
    keep = folder / "kept-home"
    shutil.copytree(desk.home, keep)

    def run(script: bytes) -> None:
        for beside in folder.glob("ledger.db*"):
            beside.unlink()
        shutil.rmtree(desk.home)
        shutil.copytree(keep, desk.home)
        desk.ledger.write_bytes(edited(sound, script))
        if _look_everywhere(desk):
            held = _links(desk.ledger)
            if held[: len(links)] != links[: len(held)]:
                raise Fault("a changed chain is said to hold")
            if len(held) < len(links):
                raise Fault("a shorter chain is said to hold together with the tables that follow from it")

    return run


def entry(folder: Path) -> Run:
    """Any bytes as an entry: read back as they were or refused, alone and in a chain whose hashes all fit."""
    desk = _desk(folder)
    sound = desk.ledger.read_bytes()
    links = _links(desk.ledger)

    def run(content: bytes) -> None:
        place, body = content[0] % (len(links) + 1) if content else 0, content[1:]
        try:
            read = entry_of_bytes(body)
        except ValueError:
            read = None
        if read is not None and bytes_of_entry(read) != body:
            raise Fault("an entry has two forms")
        for beside in folder.glob("ledger.db*"):
            beside.unlink()
        desk.ledger.write_bytes(sound)
        _forge(desk.ledger, [link[3] for link in links], place, body)
        said(desk, "ledger", "verify", "--json")
        said(desk, "ledger", "show", "--all")
        said(desk, "ledger", "export")

    return run


def _forge(path: Path, bodies: list[Any], place: int, body: bytes) -> None:
    """Put a body into the chain, past the guards, and compute every hash from there on."""
    try:
        text: Any = body.decode("utf-8")
    except UnicodeDecodeError:
        text = body
    bodies = [*bodies[:place], text, *bodies[place + 1 :]]
    with closing(sqlite3.connect(path)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        previous = connection.execute("SELECT previous FROM entry WHERE position = 0").fetchone()[0]
        for position, one in enumerate(bodies):
            raw_bytes = one if isinstance(one, bytes) else one.encode()
            own = link_hash(previous=previous, position=position, body=raw_bytes)
            row = (position, previous, own, one)
            if position >= place:
                connection.execute("DELETE FROM entry WHERE position = ?", row[:1])
                with contextlib.suppress(sqlite3.IntegrityError):  # the tables refuse some forms by themselves
                    connection.execute("INSERT INTO entry (position, previous, hash, body) VALUES (?,?,?,?)", row)
            previous = own
        connection.commit()


def sound_certificate(desk: Desk) -> bytes:
    """A certificate as a release writes it, with its table beside it."""
    mechanism = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
    sex = ValueHierarchy.from_values(["Female", "Male"])
    generalization = GeneralizationMap(columns=(MappedColumn(name="sex", hierarchy=sex, level=0),))
    paper = paper_price(mechanism, delta=Decimal("1e-6"))
    charge = ReleaseCharged(
        release_id="one",
        label="census",
        dataset="census",
        sample_id="1" * 64,
        mechanism=sorted_fields(mechanism_record(mechanism)),
        price=charged_price(price(mechanism, delta=Decimal("1e-6"))),
        epsilon_paper=None if paper is None else paper.epsilon,
        spec_digest="a" * 64,
        map_digest=generalization.digest(),
        code_version="0.1.0",
        sampler_layout="chacha20-byte-first/1",
        day=DAY,
        series=None,
    )
    folder = desk.folder / "release"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "data.csv").write_text("sex,count\nFemale,21\nMale,34\n", encoding="utf-8")
    write_certificate(
        folder,
        charge=charge,
        context=DatasetContext(rows_per_person=1, look_days=(date(2026, 3, 2),)),
        position=2,
        chain_hash="f" * 64,
        generalization=generalization,
        choice=None,
        published={"form": "counts", "groups": 2, "records": 55},
        code_sources="c" * 64,
        key=desk.anchoring.keys.current(),
    )
    return (folder / "certificate.json").read_bytes()


def certificate(folder: Path) -> Run:
    """Any bytes as a certificate: told of in words; only the bytes that were written verify with the key.

    After a first byte "S" the rest is signed by the publisher's own key, to reach what lies behind the signature.
    """
    desk = furnished_desk(folder)
    sound = sound_certificate(desk)
    path = folder / "release" / "certificate.json"
    key = folder / "key.pem"
    key.write_bytes(pem_of(desk.anchoring.keys.current().public))

    def run(content: bytes) -> None:
        signed = content[:1] == b"S"
        path.write_bytes(_signed(content[1:], desk) if signed else content)
        code, _ = said(desk, "verify", path, "--public-key", key, "--json")
        if code == 0 and not signed and content != sound:
            raise Fault("another certificate verifies")
        said(desk, "verify", path)
        said(desk, "registry", path)

    return run


def _signed(content: bytes, desk: Desk) -> bytes:
    """A JSON object with a good signature; as it is where it can't be signed."""
    key = desk.anchoring.keys.current()
    try:
        document = json.loads(content)
        document["signature"] = {
            "algorithm": "Ed25519",
            "key_id": key.public.key_id,
            "public_key": key.public.raw.hex(),
        }
        value = key.sign(domain=DOMAIN, message=signed_bytes(document))
        document["signature"]["value"] = value.hex()
        return certificate_bytes(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return content


def anchor(folder: Path) -> Run:
    """Any bytes as an anchor: told of in words, whether an auditor holds it or the release itself depends on it.

    After a first byte "S" each line is the fields of a head, and gets the steward's own signature.
    """
    desk = _desk(folder)
    with open_reader(desk.url) as reader:
        own = desk.anchoring.anchor_of(reader.ledger_id).path
    copy, links = folder / "copy.jsonl", _links(desk.ledger)

    def run(content: bytes) -> None:
        lines = b"".join(_head(line, desk) for line in content[1:].splitlines()) if content[:1] == b"S" else content
        copy.write_bytes(lines)
        code, _ = said(desk, "ledger", "verify", "--anchor", copy, "--json")
        hashes = {link[0]: link[2] for link in links}
        if code == 0 and (
            heads := [json.loads(line) for line in lines.splitlines(keepends=True) if line[-1:] == b"\n"]
        ):
            wrong = [head for head in heads if hashes.get(head["position"]) != head["hash"]]
            if wrong:
                raise Fault("the ledger is said to continue an anchor of another chain")
        kept = own.read_bytes()
        own.write_bytes(lines)
        with (
            contextlib.suppress(Refusal),
            prepare(folder / "spec.toml", state_paths=desk.state_paths, output=None, release_id=None),
        ):
            pass
        own.write_bytes(kept)
        if len(_links(desk.ledger)) != len(links):
            raise Fault("the ledger grew")

    return run


def _head(line: bytes, desk: Desk) -> bytes:
    key = desk.anchoring.keys.current()
    try:
        fields = json.loads(line)
        fields |= {"key_id": key.public.key_id, "public_key": key.public.raw.hex()}
        signature = key.sign(domain=ANCHOR_DOMAIN, message=canonical_bytes(fields)).hex()
        return canonical_bytes(fields | {"signature": signature}) + b"\n"
    except (ValueError, TypeError, RecursionError):
        return line + b"\n"


def public_keys(folder: Path) -> Run:
    """Any bytes as a file of public keys: at least one key, or refused."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "keys.pem"

    def run(content: bytes) -> None:
        path.write_bytes(content)
        with contextlib.suppress(InputRefused):
            if not read_public_keys(path):
                raise Fault("no key is no refusal")

    return run
