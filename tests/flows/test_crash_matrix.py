"""A release killed before and after each of its own steps: one charge, one sample, and the same output at last.

The steps are not listed here. A run that is not killed tells them (`crash_driver.py`), each is then a place to be
killed at, and the run shows that no two changes of the desk's folder lie between two neighbouring places.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from crowdblend.accounting.certificate.verify import check_certificate
from crowdblend.mechanisms.kernel.sampling import sample_commitment

# What the first attempt draws as its sample and its map, and when it runs; and what any later attempt would draw.
FIRST = {"key": b"\x11" * 32, "draw": 0, "day": date(2026, 3, 4)}
LATER = {"key": b"\x22" * 32, "draw": 1, "day": date(2026, 3, 9)}
KINDS = {"open", "os.link", "os.rename", "os.mkdir", "os.remove", "write", "fsync", "INSERT", "commit", "end"}
CHANGES_NOTHING = {"fsync", "fdatasync", "os.utime", "fcntl.flock", "shutil.rmtree", "INSERT", "UPDATE", "commit"}
SLOW = pytest.mark.slow
EACH_WAY_TO_PAY = pytest.mark.parametrize("scene", ["sqlite", pytest.param("sqlite-series", marks=SLOW)], indirect=True)
EACH_DRAW = pytest.mark.parametrize(
    "scene", ["sqlite-drawn", "sqlite-noisy", pytest.param("sqlite-deletion", marks=pytest.mark.long)], indirect=True
)
DELETION_ON_SQLITE = pytest.mark.parametrize("scene", ["sqlite-deletion"], indirect=True)


@dataclass(frozen=True)
class Undisturbed:
    """What an attempt that nobody kills does and leaves."""

    steps: list
    state: Any
    result: dict

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, *_ in self.steps]


def undisturbed(scene: Any, attempt: dict, **changes: Any) -> Undisturbed:
    scene.restore("fresh")
    ended = scene.job("run", **attempt, **changes)
    assert ended["refused"] is None, ended["refused"]
    return Undisturbed(steps=ended["steps"], state=scene.look(), result=ended["result"])


@dataclass(frozen=True)
class Matrix:
    """One scene, and what its release does where nobody kills it."""

    scene: Any
    by_first: Undisturbed
    by_later: Undisturbed
    by_both: Undisturbed
    broken: str | None = None

    @classmethod
    def of(cls, scene: Any) -> Matrix:
        """What the first draws, what the later draws, and what the later draws for the sample of the first."""
        both = FIRST | {"draw": LATER["draw"]}
        first, later, mixed = (undisturbed(scene, attempt) for attempt in (FIRST, LATER, both))
        return cls(scene=scene, by_first=first, by_later=later, by_both=mixed)

    def killed(self, place: int, **changes: Any) -> Iterator[str]:
        """Kill the first attempt there; then nothing may be wrong already."""
        self.scene.restore("fresh")
        ended = self.scene.job("run", **FIRST, kill_before=place, broken=self.broken)
        if ended["code"] != -signal.SIGKILL:
            yield "the attempt was not killed"
        if self.broken is None and [kind for kind, *_ in ended["steps"]] != self.by_first.kinds[: place + 1]:
            yield "the attempt had other steps than the one that nobody killed"
        yield from self.standing(self.scene.look())

    def standing(self, state: Any) -> Iterator[str]:
        """What is wrong of a state in which an attempt may leave a release."""
        yield from (f"the ledger does not hold: {finding}" for finding in state.findings)
        if state.output and state.release is None:
            yield "an output without its charge"
        # The trial of the place, before the charge, holds nothing of an output.
        staged = any(name.startswith(".out.") and "-trial" not in name for name in state.beside)
        if state.stage in (None, "charged") and (state.output or staged):
            yield "bytes of an output before its reading is recorded"
        if state.stage in (None, "charged") and stored_draw(state):
            yield "something is drawn before its reading is recorded"
        if self.scene.drawn and (state.output or staged) and not stored_draw(state):
            yield "bytes of an output before its draw is stored"
        price = self.by_first.state.spent
        if state.spent != (self.scene.paid_before if state.release is None else price):
            yield f"{state.spent} is spent, and one release costs {price}"
        if state.stage in ("charged", "reading") and not self.keys_of(state) <= set(state.private.values()):
            yield "the key of a charged sample is lost"

    def keys_of(self, state: Any) -> set[bytes]:
        keys = {sample_commitment(key): key for attempt in (FIRST, LATER) for key in drawn_keys(attempt)}
        return {keys[sample] for _, sample in state.release.charge.samples}

    def resumed(self, before: Any) -> Iterator[str]:
        """Run it again to its end: what must be there then, and nothing else."""
        ended = self.scene.job("run", **LATER, broken=self.broken)
        if ended["refused"] is not None:
            yield f"it can't be resumed: {ended['refused']}"
            return
        after = self.scene.look()
        model = self.by_first if stored_draw(before) or not self.scene.drawn else self.by_both
        model = self.by_later if before.release is None else model
        if before.stage != "published" and ended["result"] != model.result:
            yield "the resumed release tells another result"
        if after.output != model.state.output:
            yield "the resumed release has another output"
        if after.stage != "published" or after.release.charge.sample_id != model.state.release.charge.sample_id:
            yield "the release is not published with the sample that was charged"
        yield from self.closed(after)
        yield from self.standing(after)
        yield from check_certificate(self.scene.folder / "out" / "certificate.json")

    def closed(self, state: Any) -> Iterator[str]:
        """What may not outlive a release."""
        if {*drawn_keys(FIRST), *drawn_keys(LATER)} & set(state.private.values()):
            yield "a sampling key outlives its release"
        others = {name for name in state.private.keys() - self.by_first.state.private.keys() if "releases/" in name}
        if others:
            yield f"left in the private store: {sorted(Path(name).name for name in others)}"
        if state.beside:
            yield f"left beside the output: {sorted(state.beside)}"

    def changed(self, before: Any) -> Iterator[str]:
        """Run it again with anything changed: refused, and without harm to the release."""
        folder = self.scene.folder
        for what, changes in (("spec", {}), ("inputs", {}), ("version", {"version": "99"})):
            if before.release is None or (before.stage == "published" and what != "spec"):
                continue  # a new release, or a stored result for which nothing is read
            if what == "inputs" and any(b'"published":' in bytes(stored) for stored in before.private.values()):
                continue  # its bytes are staged, and are published whatever the inputs have become
            kept = {name: (folder / name) for name in ("spec.toml", "people.csv")}
            for path in kept.values():
                path.rename(path.with_suffix(".kept"))
            self.scene.write_spec(k="25" if what == "spec" else "20")
            if what == "inputs":
                self.scene.desk.write_people(2_401)
            else:
                os.link(folder / "people.kept", folder / "people.csv")
            ended = self.scene.job("run", **LATER, broken=self.broken, **changes)
            for path in kept.values():
                path.with_suffix(".kept").replace(path)
            (folder / "people.kept").unlink(missing_ok=True)
            if ended["refused"] is None or ended["refused"][0] != "AccountantRefused":
                yield f"a retry after a change of {what} is not refused: {ended['refused']}"
            after = self.scene.look()
            if harmed(before, after):
                yield f"a refused change of {what} changed the release"
            yield from self.standing(after)

    def abandoned(self, before: Any) -> Iterator[str]:
        """Give it up: refunded only if nothing was read, never once its output is in view."""
        ended = self.scene.job("abandon", **LATER, broken=self.broken)
        after = self.scene.look()
        refusal = None if ended["refused"] is None else ended["refused"][0]
        if before.release is None or before.stage == "published" or before.output:
            expected = "InputRefused" if before.release is None else "AccountantRefused"
            if refusal != expected or harmed(before, after):
                yield f"abandoned, although there is nothing to abandon ({refusal})"
            return
        if refusal is not None:
            yield f"it can't be abandoned: {ended['refused']}"
            return
        yield from self.given_up(before, after, refunded=ended["result"])
        again = self.scene.job("run", **LATER, broken=self.broken)
        if again["refused"] is None or again["refused"][0] != "AccountantRefused" or self.scene.look().output:
            yield "an abandoned release can be run again"

    def given_up(self, before: Any, after: Any, *, refunded: bool) -> Iterator[str]:
        """What is wrong of an abandoned release."""
        yield from (f"the ledger does not hold: {finding}" for finding in after.findings)
        if refunded != (before.stage == "charged"):
            yield f"abandoned at stage {before.stage}, refunded: {refunded}"
        if after.stage != "abandoned" or after.spent != (self.scene.paid_before if refunded else before.spent):
            yield f"abandoned with {after.spent} spent at stage {after.stage}"
        if after.output:
            yield "an abandoned release has an output"
        if stored_draw(after):
            yield "an abandoned release keeps its draw"
        yield from self.closed(after)

    def examined(self, place: int) -> Iterator[str]:
        """Everything that goes wrong when the first attempt is killed there."""
        yield from self.killed(place)
        self.scene.keep("killed")
        try:
            before = self.scene.look()
            yield from self.abandoned(before)
            self.scene.restore("killed")
            yield from self.changed(before)
            yield from self.resumed(before)
        finally:
            self.scene.forget("killed")

    def faults(self, places: list[int]) -> list[str]:
        found = []
        for place in places:
            kind, where, *_ = self.by_first.steps[place]
            found += [f"killed before step {place} ({kind} {where}): {fault}" for fault in self.examined(place)]
        return found


def drawn_keys(attempt: dict) -> tuple[bytes, bytes]:
    """The keys that an attempt draws: of its sample, and of the sample that its map is chosen on."""
    return attempt["key"], hashlib.sha256(attempt["key"]).digest()


def stored_draw(state: Any) -> bool:
    return any(name.endswith(".draw.json") for name in state.private)


def harmed(before: Any, after: Any) -> bool:
    """Whether a refused attempt changed anything that the release still needs."""
    needed = before.private.items() if before.stage in ("charged", "reading") else ()
    lost = [name for name, content in needed if "draft" not in name and not kept(name, content, after)]
    return bool(lost) or (before.release, before.spent, before.output) != (after.release, after.spent, after.output)


def kept(name: str, content: bytes, after: Any) -> bool:
    """Whether a private file is what it was; the anchor grows by the entry that records the refusal."""
    now = after.private.get(name, b"")
    return now.startswith(content) if name.startswith("anchors/") else now == content


def unseen_changes(steps: list) -> list[str]:
    """Changes that lie between two steps and that the first of them does not explain."""
    found = []
    for (kind, where, *_), (*_, changed, _) in pairwise(steps):
        # A rename onto a name that was taken changes what both names stand for.
        most = 0 if kind in CHANGES_NOTHING else 2 if kind == "os.rename" else 1
        if changed > most:
            found.append(f"{changed} changes after {kind} {where}")
    return found


def after_first_commit(steps: list) -> int:
    return [kind for kind, *_ in steps].index("commit") + 1


def first_in_view(steps: list) -> int:
    return [in_view for *_, in_view in steps].index(True)


def before_it_is_stored(steps: list) -> int:
    """A place at which an output is written and its remembering is not yet done."""
    return next(place for place, (kind, where, *_) in enumerate(steps) if "data.parquet" in where) + 4


def after_the_draw(steps: list) -> int:
    """The first place at which the draw is stored."""
    return [where.endswith(".draw.json") for _, where, *_ in steps if where].index(True) + 1


@pytest.mark.slow
def test_the_places_to_be_killed_at_are_the_releases_own(scene: Any) -> None:
    """Every change lies between two neighbouring places."""
    seen = undisturbed(scene, FIRST)
    assert set(seen.kinds) >= KINDS
    assert sum(kind == "INSERT" for kind in seen.kinds) >= 3
    assert sum(kind == "commit" for kind in seen.kinds) == 3
    touched = {(kind, Path(where.split()[-1]).name) for kind, where, *_ in seen.steps if where}
    assert touched >= {("os.link", "sampling.key"), ("os.remove", "sampling.key"), ("os.rename", "out")}
    if scene.variant in ("noisy", "deletion"):
        assert ("os.link", "noise.draw.json") in touched
    if scene.variant == "drawn":
        assert touched >= {("os.link", "selection.key"), ("os.link", "map.draw.json"), ("os.remove", "selection.key")}
    assert unseen_changes(seen.steps) == []
    assert undisturbed(scene, LATER).kinds == seen.kinds


@EACH_WAY_TO_PAY
def test_killed_at_some_of_its_steps_a_release_is_charged_once_and_ends_the_same(scene: Any) -> None:
    matrix = Matrix.of(scene)
    commits = [place for place, kind in enumerate(matrix.by_first.kinds) if kind == "commit"]
    places = {commit + 1 for commit in commits} | {first_in_view(matrix.by_first.steps)}
    assert matrix.faults(sorted(places)) == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_killed_at_any_step_a_release_is_charged_once_and_ends_the_same(scene: Any, part: int) -> None:
    matrix = Matrix.of(scene)
    places = list(range(len(matrix.by_first.steps)))[part::4]
    faults = matrix.faults(places)
    print(f"{type(scene.ledgers).__name__}: {len(places)} of {len(matrix.by_first.steps)} places")
    assert faults == [], "\n".join(faults)


@pytest.mark.parametrize(
    ("scene", "broken", "place", "fault"),
    [
        ("sqlite", "charge_last", first_in_view, "an output without its charge"),
        pytest.param("sqlite", "redraw", after_first_commit, "the resumed release has another output", marks=SLOW),
        pytest.param("sqlite", "keep_key", after_first_commit, "a sampling key outlives its release", marks=SLOW),
        pytest.param(
            "sqlite-drawn",
            "store_late",
            before_it_is_stored,
            "bytes of an output before its draw is stored",
            marks=SLOW,
        ),
    ],
    indirect=["scene"],
)
def test_a_broken_release_is_caught(scene: Any, broken: str, place: Callable[[list], int], fault: str) -> None:
    """The control of the matrix: the same examination of releases that break what it is for."""
    steps, sound = undisturbed(scene, FIRST, broken=broken).steps, undisturbed(scene, FIRST)
    matrix = Matrix(scene=scene, by_first=sound, by_later=sound, by_both=sound, broken=broken)
    found = list(matrix.examined(place(steps)))
    assert any(fault in each for each in found), found


@pytest.mark.slow
@DELETION_ON_SQLITE
def test_killed_once_its_draw_is_stored_a_deletion_release_never_draws_again(scene: Any) -> None:
    matrix = Matrix.of(scene)
    assert matrix.by_first.state.output != matrix.by_both.state.output
    faults = matrix.faults([after_the_draw(matrix.by_first.steps)])
    assert faults == [], "\n".join(faults)


@pytest.mark.slow
@EACH_DRAW
def test_killed_around_its_draw_a_release_draws_once_and_ends_the_same(scene: Any) -> None:
    """What was drawn and not stored gave nothing away and may be drawn anew; what is stored stays."""
    matrix = Matrix.of(scene)
    assert matrix.by_first.state.output != matrix.by_both.state.output
    stored = after_the_draw(matrix.by_first.steps)
    faults = matrix.faults([stored - 3, stored, stored + 2, first_in_view(matrix.by_first.steps)])
    assert faults == [], "\n".join(faults)


@pytest.mark.long
def test_killed_at_any_step_abandoning_can_be_done_again(scene: Any) -> None:
    """From each stage at which a release can be abandoned; refunded once or not at all, and nothing is left."""
    matrix = Matrix.of(scene)
    steps, faults, places = matrix.by_first.steps, [], 0
    for start in (after_first_commit(steps), first_in_view(steps) - 3, first_in_view(steps) - 1):
        assert list(matrix.killed(start)) == []
        before = scene.look()
        scene.keep("stage")
        count = len(scene.job("abandon", **LATER)["steps"]) + 1
        places += count
        for place in range(count):
            scene.restore("stage")
            scene.job("abandon", **LATER, kill_before=place)
            between = scene.look()
            again = scene.job("abandon", **LATER)
            after = scene.look()
            found = list(matrix.given_up(before, after, refunded=before.stage == "charged"))
            if between.stage != "abandoned" and again["refused"] is not None:
                found.append(f"it can't be abandoned: {again['refused']}")
            faults += [f"abandoned from step {start}, killed before step {place}: {fault}" for fault in found]
        scene.forget("stage")
    print(f"{type(scene.ledgers).__name__}: {places} places")
    assert faults == [], "\n".join(faults)
