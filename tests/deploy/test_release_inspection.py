"""Releases are listed and shown with what is public of them; any release has a status."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from crowdblend.accounting.keys.store_upkeep import is_held, open_private_store, remembered_facts

SELECTION = '[selection]\nepsilon = 0.5\non = "whole"\n'


@pytest.fixture
def published(desk):
    """One release with a drawn map, r-1; its result."""
    desk.write_people(6_000)
    desk.add_dataset()

    def with_drawn_levels(text: str) -> str:
        lines = [line for line in text.splitlines() if not line.startswith("level")]
        return "\n".join(lines) + f"\n\n{SELECTION}"

    desk.write_spec(edit=with_drawn_levels)
    answer = desk.succeed("run", "spec.toml", "--release-id", "r-1", "--json")
    return answer.json


def test_a_release_is_listed_shown_and_looked_up(desk, published) -> None:
    levels = ", ".join(f"{column} {level}" for column, level in published["levels"].items())
    listed = desk("release", "list").out
    assert f"{levels} (drawn privately)" in listed
    assert str(desk.folder / "out") in listed

    [row] = desk("release", "list", "--dataset", "people", "--json").json["releases"]
    assert (row["levels"], row["levels_drawn"], row["output"]) == (published["levels"], True, published["output"])
    assert desk("release", "list", "--dataset", "others", "--json").json["releases"] == []

    shown = desk("release", "show", "r-1", "--groups", "2", "--json").json
    assert len(shown["largest_groups"]) == 2
    counts = [group["count"] for group in shown["largest_groups"]]
    assert counts == sorted(counts, reverse=True)
    assert "2 largest groups, of" in desk("release", "show", "r-1", "--groups", "2").out

    again = desk.succeed("run", "spec.toml", "--release-id", "r-1")
    assert "Published before: " in again.out
    assert "Nothing was read or charged now." in again.out
    assert f"Levels: {levels} (drawn privately)." in again.out
    assert desk("run", "spec.toml", "--release-id", "r-1", "--json").json["looked_up"] is True

    told = desk("status", "r-1", "--json").json
    assert (told["state"], told["exit_code"]) == ("published", None)

    # Every command takes the folder or the certificate.
    folder = published["output"]
    for named in (folder, f"{folder}/certificate.json"):
        desk.succeed("verify", named)
        assert desk("registry", named).out.startswith("tier:") or "epsilon" in desk("registry", named).out
    for number, named in enumerate((folder, f"{folder}/certificate.json")):
        made = desk.succeed("sheet", named, "--output", f"sheets/{number}", "--json")
        assert Path(made.json["html"]).is_file()
    refused = desk("sheet", folder, "--output", f"{folder}/sheets")
    assert refused.code == 2
    assert "holds its table and its certificate and nothing else" in refused.err
    assert not Path(folder, "sheets").exists()
    proof = ("ledger", "prove", "--entry", "0", "--output")
    for words in (("registry", folder, "--output"), ("key", "export"), proof):
        refused = desk(*words, f"{folder}/more")
        assert refused.code == 2
        assert "holds its table and its certificate and nothing else" in refused.err
    desk.succeed("verify", folder)

    # A table that is not the published one is not shown.
    [table] = Path(published["output"]).glob("data.*")
    table.write_bytes(table.read_bytes() + b"\0")
    changed = desk("release", "show", "r-1")
    assert changed.code == 0
    assert "No groups are shown" in changed.out
    assert desk("release", "show", "r-1", "--json").json["largest_groups"] is None


def test_a_release_that_nobody_knows_is_refused(desk) -> None:
    desk.add_dataset()
    for words in (("release", "show", "r-9"), ("status", "r-9")):
        answer = desk(*words)
        assert answer.code == 2
        assert "release 'r-9'" in answer.err
        assert "`crowdblend release list`" in answer.err
    assert desk("release", "list").out == "There are none.\n"


def test_who_holds_a_release_is_seen_without_trying_its_lock(tmp_path: Path) -> None:
    ledger_id = secrets.token_hex(32)
    store = open_private_store(tmp_path / "home")

    def held() -> bool | None:
        return is_held(tmp_path / "home", ledger_id=ledger_id, release_id="r-1")

    assert held() is False
    with store.hold(ledger_id=ledger_id, release_id="r-1") as folder:
        assert held() is True
        folder.remember({"published": {"output": "/out"}})
    assert held() is False
    assert remembered_facts(tmp_path / "home", ledger_id=ledger_id, release_id="r-1")["published"] == {"output": "/out"}
    assert remembered_facts(tmp_path / "home", ledger_id=ledger_id, release_id="r-2") == {}
    assert not (tmp_path / "home" / "releases" / ledger_id / "r-2").exists()
