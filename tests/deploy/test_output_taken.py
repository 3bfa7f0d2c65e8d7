"""An output that could never be published is refused before the charge, by a run and by a dry run alike."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest


def in_release(desk) -> str:
    desk.succeed("run", desk.write_spec(), "--output", "first")
    return "first/below/again"


def behind_link(desk) -> str:
    in_release(desk)
    (desk.folder / "link").symlink_to(desk.folder / "first")
    return "link/again"


IMPOSSIBLE = {
    "a name whose staging folder's name is too long": lambda desk: "n" * 230,
    "a path that is too long within the staging folder": lambda desk: "/".join(["d" * 200] * 20)[
        : 4060 - len(str(desk.folder))
    ],
    "a name that isn't UTF-8": lambda desk: os.fsdecode(b"out-\xff"),
    "a name with a zero": lambda desk: "out\0",
    "a store that ends with its process": lambda desk: "memory://out",
    "a store that only reads": lambda desk: "https://example.org/out",
    "inside of a published release": in_release,
    "inside of one behind a link": behind_link,
    "inside of the private store": lambda desk: "home/releases/out",
}


@pytest.mark.parametrize("output", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_it_is_refused_before_the_charge(desk, output) -> None:
    desk.add_dataset()
    place = output(desk)
    spec, charged = desk.write_spec(), desk.releases()
    before = sorted(path for path in desk.folder.rglob("*") if "home" not in path.parts)
    for dry in (("--dry-run",), ()):
        answer = desk("run", spec, "--output", place, *dry, "--json")
        assert answer.code == 2, answer.err
        assert answer.json["error"]["message"].isprintable()
        assert "Nothing was read, written or charged." in answer.err
    assert desk.releases() == charged
    after = sorted(path for path in desk.folder.rglob("*") if "home" not in path.parts)
    assert [path for path in after if path not in before and path.suffix not in (".db-wal", ".db-shm")] == []


def test_of_eight_runs_to_one_output_one_is_charged(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    running = [desk.start("run", "spec.toml", "--release-id", f"r{number}") for number in range(8)]
    ends = [process.finish() for process in running]
    assert sorted(code for code, _, _ in ends) == [0, *[2] * 7], ends
    assert [row["stage"] for row in desk.releases()] == ["published"]
    desk.succeed("verify", "out")


def test_a_dry_run_tells_of_an_output_that_another_release_is_on_its_way_to(desk, rig) -> None:
    rig.write_records(desk.folder / "many", 2_000_000)
    desk.add_dataset()
    desk.write_spec(source="many")
    first = desk.start("run", "spec.toml", "--release-id", "first")
    rig.await_stage(desk.folder / "ledger.db", "first", "reading")
    first.send_signal(signal.SIGSTOP)  # it holds its place and can't be done meanwhile, however slow this machine is
    dry = desk("run", "spec.toml", "--dry-run", "--new")
    first.kill()
    first.finish()
    assert (dry.code, "on its way to this output" in dry.err) == (2, True), dry.err
    assert desk("run", "spec.toml", "--dry-run", "--new").code == 0, "the lock outlives its holder"


def test_folders_above_an_output_are_made_for_the_trial_and_removed(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    desk.succeed("run", spec, "--output", "a/b/out", "--dry-run")
    assert not (desk.folder / "a").exists()
    desk.succeed("run", spec, "--output", "a/b/out")
    assert sorted(os.listdir(desk.folder / "a" / "b")) == ["out"]
    assert Path(desk.folder / "a" / "b" / "out" / "certificate.json").is_file()
