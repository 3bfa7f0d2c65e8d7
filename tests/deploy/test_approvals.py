"""A second person's approval: a run that needs one begins with their signature over exactly its digest, or not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKeys, signed_statement
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.flows.approvals import DOMAIN
from crowdblend.flows.spec import read_spec


@pytest.fixture
def second(desk, monkeypatch) -> Callable[..., None]:
    """A second person, with a private store of their own, who approves; releases need it from now on."""
    desk.add_dataset()
    store = desk.folder / "second-home"
    monkeypatch.setenv("CROWDBLEND_HOME", str(store))
    desk.succeed("key", "rotate")
    desk.succeed("key", "export", "second.pem")
    monkeypatch.setenv("CROWDBLEND_HOME", str(desk.home))
    monkeypatch.setenv("CROWDBLEND_APPROVERS", "second.pem")

    def approve(*words: str, store=store) -> None:
        monkeypatch.setenv("CROWDBLEND_HOME", str(store))
        desk.succeed("approve", "spec.toml", "--by", "B. Second", "--yes", *words)
        monkeypatch.setenv("CROWDBLEND_HOME", str(desk.home))

    return approve


def refused(desk, *said: str, words: tuple[str, ...] = ()) -> None:
    """A run and a dry run are refused alike, and neither charges anything nor leaves a folder."""
    before = desk("ledger", "show", "--json").json["releases"]
    for more in ((), ("--dry-run",)):
        desk.refuse("run", "spec.toml", *words, *more, said=said)
    assert desk("ledger", "show", "--json").json["releases"] == before
    assert not (desk.folder / "out").exists()


def test_a_release_begins_with_an_approval_of_exactly_its_digest(desk, second) -> None:
    spec = desk.write_spec()
    refused(desk, "needs a second person's approval", "spec.toml.approval", "crowdblend approve")
    second()
    desk.succeed("run", "spec.toml", "--release-id", "approved")
    with open_reader(desk.ledger) as reader:
        charge = reader.release("approved").charge
    line = json.loads((desk.folder / "spec.toml.approval").read_text())
    assert line["spec_digest"] == charge.spec_digest == read_spec(spec, output=None).digest
    assert line["by"] == "B. Second"
    # What is charged already is looked up, whatever became of its approval.
    (desk.folder / "spec.toml.approval").unlink()
    desk.succeed("run", "spec.toml", "--release-id", "approved")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("k = 20", "k = 25"),
        lambda text: text.replace("delta = 1e-6", "delta = 2e-6"),
        lambda text: text.replace("people.csv", "other.csv"),
        lambda text: text.replace("level = 0", "level = 1", 1),
        lambda text: text.replace('"people-2026"', '"people-2027"'),
    ],
    ids=["k", "delta", "source", "level", "label"],
)
def test_whatever_is_changed_after_the_approval_makes_it_void(desk, second, change) -> None:
    spec = desk.write_spec()
    desk.write_people(2_400, file="other.csv", shift=5)
    second()
    spec.write_text(change(spec.read_text()))
    refused(desk, "of another specification, or this one was changed")


def test_a_hierarchy_changed_after_the_approval_makes_it_void(desk, second) -> None:
    desk.write_spec()
    second()
    towns = desk.folder / "towns.csv"
    towns.write_text(towns.read_text().replace("Lille;North", "Lille;South"))
    refused(desk, "of another specification, or this one was changed")


def test_nobody_approves_what_they_run(desk, second) -> None:
    """Neither with the key that signs now, nor with an earlier one, though the list of approvers has it."""
    desk.write_spec()
    second(store=desk.home)
    desk.succeed("key", "export", "own.pem")
    listed = (desk.folder / "own.pem").read_bytes() + (desk.folder / "second.pem").read_bytes()
    (desk.folder / "second.pem").write_bytes(listed)
    refused(desk, "belongs to the private store that makes the release")
    desk.succeed("key", "rotate")
    refused(desk, "belongs to the private store that makes the release")


def test_a_third_persons_approval_does_not_count(desk, second, monkeypatch) -> None:
    desk.write_spec()
    monkeypatch.setenv("CROWDBLEND_HOME", str(desk.folder / "third-home"))
    desk.succeed("key", "rotate")
    second(store=desk.folder / "third-home")
    refused(desk, "is none of those that may approve", "second.pem")


def test_an_approval_that_was_changed_or_signed_for_something_else_does_not_count(desk, second) -> None:
    spec = desk.write_spec()
    second()
    place = desk.folder / "spec.toml.approval"
    right = place.read_bytes()
    key = SigningKeys(home=desk.folder / "second-home").current()
    digest = read_spec(spec, output=None).digest
    fields = {"by": "B. Second", "day": "2026-01-01", "spec_digest": digest}
    wrong = (
        b"", b"{}", b"\xff", b"[" * 5_000, right.replace(b"Second", b"Sec0nd"), right.replace(b" ", b"  "),
        signed_statement(fields, key, domain=b"crowdblend ledger anchor 1\n"),
        signed_statement(fields | {"more": "x"}, key, domain=DOMAIN),
        signed_statement(fields | {"spec_digest": digest.upper()}, key, domain=DOMAIN),
        signed_statement(fields | {"spec_digest": 5}, key, domain=DOMAIN),
        signed_statement(fields | {"day": "yesterday"}, key, domain=DOMAIN),
        signed_statement(fields | {"by": "a\nb"}, key, domain=DOMAIN),
    )  # fmt: skip
    for content in wrong:
        place.write_bytes(content)
        desk.refuse("run", "spec.toml", "--dry-run", said="this is no approval, or something in it was changed")
    place.write_bytes(signed_statement(fields | {"spec_digest": "0" * 64}, key, domain=DOMAIN))
    desk.refuse("run", "spec.toml", "--dry-run", said="of another specification")
    place.unlink()
    place.mkdir()
    desk.refuse("run", "spec.toml", "--dry-run", said="the approval can't be read")
    place.rmdir()
    place.write_bytes(right)
    desk.succeed("run", "spec.toml", "--dry-run")
    (desk.folder / "second.pem").unlink()
    desk.refuse("run", "spec.toml", "--dry-run", said="the public key can't be read")


def test_a_rehearsal_is_approved_for_itself(desk, second) -> None:
    desk.write_spec()
    second()
    refused(desk, "of another specification", words=("--rehearse",))
    second("--rehearse")
    desk.succeed("run", "spec.toml", "--rehearse", "--dry-run")
    refused(desk, "of another specification")


def test_a_copy_elsewhere_is_approved_for_the_stewards_folder(desk, second, monkeypatch) -> None:
    desk.write_spec()
    copy = desk.folder / "at-the-second"
    copy.mkdir()
    for name in ("spec.toml", "towns.csv"):
        (copy / name).write_bytes((desk.folder / name).read_bytes())
    monkeypatch.chdir(copy)
    second("--folder", str(desk.folder), "--output", str(desk.folder / "spec.toml.approval"))
    monkeypatch.chdir(desk.folder)
    desk.succeed("run", "spec.toml", "--dry-run")


def test_without_a_terminal_an_approval_is_not_signed(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    answer = desk.refuse("approve", "spec.toml", said="approve it with --yes")
    assert read_spec(desk.folder / "spec.toml", output=None).digest in answer.out
    assert not (desk.folder / "spec.toml.approval").exists()
    desk.refuse("approve", "spec.toml", "--yes", "--by", "a\nb", said="name")


def test_what_cannot_be_approved_beforehand_is_refused_where_approvals_are_needed(desk, second) -> None:
    desk.write_spec()
    second()
    desk.refuse("series", "add", "monthly", "spec.toml", "--releases", "3", said="need an approval here")
    (desk.folder / "asked.toml").write_text("")
    desk.refuse("answer", "asked.toml", "--spec", "spec.toml", said="nobody can approve it before")
