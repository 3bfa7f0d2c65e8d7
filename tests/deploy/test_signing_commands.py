"""Signing keys, certificates and anchors from the command line: what is refused, and that it cost nothing."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from crowdblend.accounting.keys.store_upkeep import open_private_store
from crowdblend.accounting.ledger.reader import open_reader


def ledger_id(desk) -> str:
    with open_reader(desk.ledger) as reader:
        return reader.ledger_id


def backup(desk, target: Path) -> None:
    with closing(sqlite3.connect(desk.folder / "ledger.db")) as one, closing(sqlite3.connect(target)) as two:
        one.backup(two)


def restore(desk, source: Path) -> None:
    for path in desk.folder.glob("ledger.db*"):
        path.unlink()
    shutil.copy(source, desk.folder / "ledger.db")


def test_run_never_makes_a_signing_key(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    before = desk("ledger", "show", "--json").json
    shutil.move(desk.home / "signing", desk.folder / "elsewhere")
    answer = desk("run", "spec.toml")
    assert answer.code == 2
    assert "no signing key" in answer.err
    assert "crowdblend key rotate" in answer.err
    assert desk("ledger", "show", "--json").json == before
    assert not (desk.home / "signing").exists()
    assert not (desk.folder / "out").exists()


def test_a_ledger_behind_its_anchor_is_refused_before_a_key_is_destroyed(desk) -> None:
    """An older copy has forgotten a release that was charged; its orphan key must outlive the attempt."""
    desk.add_dataset()
    desk.write_spec()
    backup(desk, desk.folder / "older.db")
    desk.succeed("dataset", "add", "others", "--epsilon", "1", "--delta", "0")
    restore(desk, desk.folder / "older.db")
    with open_private_store(desk.home).hold(ledger_id=ledger_id(desk), release_id="the-one") as folder:
        folder.key.create(lambda size: b"\x05" * size)
    answer = desk("run", "spec.toml", "--release-id", "the-one", "--json")
    assert answer.code == 3
    assert "anchor vouches for entry 2" in answer.json["error"]["message"]
    assert folder.key.load() == b"\x05" * 32
    assert desk("abandon", "the-one", "--reason", "a test").code == 3
    assert folder.key.exists()
    assert not (desk.folder / "out").exists()
    [anchor] = (desk.home / "anchors").iterdir()
    for words in ((), ("--anchor", anchor)):
        found = desk("ledger", "verify", *words, "--json")
        assert found.code == 1
        assert "older copy" in found.json["findings"][0]
    anchor.rename(desk.folder / "anchor.jsonl")
    assert desk("ledger", "verify").code == 0  # the control


def test_the_stage_that_charges_holds_the_ledger_against_its_anchor_itself(desk) -> None:
    """The same between the checks and the charge: the anchor is asked before the key is destroyed."""
    from datetime import date

    import pytest
    from crowdblend.flows.paths import StatePaths
    from crowdblend.flows.spec import read_spec
    from crowdblend.mechanisms.kernel.errors import AccountantRefused
    from crowdblend.tasks.destinations import output_named
    from crowdblend.tasks.kernel.gate import Gate, Plan
    from crowdblend.tasks.stages.charge import charge_of, open_writer, reserve

    desk.add_dataset()
    backup(desk, desk.folder / "older.db")
    desk.succeed("dataset", "add", "others", "--epsilon", "1", "--delta", "0")
    state_paths = StatePaths(ledger_url=desk.ledger, home=desk.home)
    with (
        open_private_store(desk.home).hold(ledger_id=ledger_id(desk), release_id="the-one") as folder,
        open_reader(desk.ledger) as reader,
        open_writer(desk.ledger, anchoring=state_paths.anchoring) as writer,
    ):
        restore(desk, desk.folder / "older.db")
        folder.key.create(lambda size: b"\x05" * size)
        request = read_spec(desk.write_spec(), output=None)
        known = {"release_id": "the-one", "series": None, "epsilon_paper": None, "code_version": "0"}
        day = date(2026, 3, 4)
        plan = Plan(
            entry=charge_of(request, day=day, **known),
            rows_per_person=1,
            unit=request.unit,
            part=None,
            digest=request.digest,
            inputs=b"",
            output=request.output,
            software="",
            facts={},
        )
        own = {"ledger": writer, "folder": folder, "randomness": lambda size: b"\x06" * size}
        gate = Gate(plan, place_of=output_named, **own)
        with pytest.raises(AccountantRefused, match="anchor"):
            reserve.fn(gate=gate, writer=writer, reader=reader, state=None, today=day)
        assert folder.key.load() == b"\x05" * 32


def test_a_release_verifies_with_the_exported_key_and_after_rotation(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    certificate = desk("run", "spec.toml", "--json").json["certificate"]
    desk.succeed("key", "export", "old.pem")
    assert desk("key", "export", "old.pem").code == 2
    desk.succeed("key", "rotate")
    desk.succeed("key", "export", "new.pem")
    desk.succeed("key", "export", "all.pem", "--all")
    shown = desk("key", "show", "--json").json
    assert len(shown["keys"]) == 2
    assert shown["keys"][0]["key_id"] == shown["current"]
    shutil.move(Path(certificate).parent, desk.folder / "copy")
    [anchor] = (desk.home / "anchors").iterdir()
    shutil.copy(anchor, desk.folder / "anchor.jsonl")
    for public_key, code in (("old.pem", 0), ("new.pem", 1), ("all.pem", 0), ("missing.pem", 2), ("spec.toml", 2)):
        assert desk("verify", "copy/certificate.json", "--public-key", public_key).code == code, public_key
    for public_key, code in (("old.pem", 0), ("new.pem", 1), ("all.pem", 0)):
        words = ("ledger", "verify", "--anchor", "anchor.jsonl", "--public-key", public_key)
        assert desk(*words).code == code, public_key
    shutil.rmtree(desk.home)
    (desk.folder / "ledger.db").unlink()
    answer = desk("verify", "copy/certificate.json", "--public-key", "old.pem", "--json")
    assert answer.json["ok"] is True
    assert answer.json["unchecked"] == []
    assert "Not shown: whose key" in desk("verify", "copy/certificate.json").out
    assert not desk.home.exists()
    table = desk.folder / "copy" / "data.parquet"
    table.write_bytes(table.read_bytes() + b"x")
    answer = desk("verify", "copy/certificate.json", "--json")
    assert answer.code == 1
    assert answer.json["findings"] == ["data.parquet is not the file that was certified"]
    assert desk("verify", "copy/none.json").code == 2


def test_the_anchor_may_lie_elsewhere(desk, monkeypatch) -> None:
    monkeypatch.setenv("CROWDBLEND_ANCHOR", str(desk.folder / "far" / "anchor.jsonl"))
    desk.add_dataset()
    assert not (desk.home / "anchors").exists()
    lines = (desk.folder / "far" / "anchor.jsonl").read_text().splitlines()
    assert [json.loads(line)["position"] for line in lines] == [0, 1]
    other = f"sqlite:///{desk.folder / 'other.db'}"
    assert desk("ledger", "init", "--ledger", other).code == 2  # one anchor, one ledger
    assert not (desk.folder / "other.db").exists()
    monkeypatch.delenv("CROWDBLEND_ANCHOR")
    assert desk("dataset", "add", "others", "--epsilon", "1", "--delta", "0").code == 3
    desk.succeed("ledger", "anchor")
    desk.succeed("dataset", "add", "others", "--epsilon", "1", "--delta", "0")


def test_ledger_verify_says_what_it_could_not_check(desk) -> None:
    desk.add_dataset()
    answer = desk("ledger", "verify", "--json")
    assert answer.code == 0
    assert answer.json["unchecked"] == [
        "an anchor that was cut back together with the ledger: keep a copy where the ledger's writers can't.",
        "a ledger that was written anew together with its private store: that takes witnesses, and none are named.",
    ]
    [anchor] = (desk.home / "anchors").iterdir()
    lines = anchor.read_bytes().splitlines(keepends=True)
    anchor.write_bytes(b"".join(lines[:-1]) + lines[-1].replace(b'"position":1', b'"position":9'))
    damaged = desk("ledger", "verify", "--json")
    assert damaged.code == 1
    assert any("line 2 of the anchor" in what for what in damaged.json["findings"])
    anchor.unlink()
    alone = desk("ledger", "verify", "--json")
    assert alone.code == 0
    assert "--anchor FILE" in alone.json["unchecked"][0]
    assert desk("ledger", "verify", "--anchor", "none.jsonl").code == 2
    assert desk("ledger", "verify", "--public-key", "none.pem").code == 2
