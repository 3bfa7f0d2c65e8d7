"""What an earlier version began goes on with the record of its draw, where the specification says nothing of the draw.

That version drew by permute-and-flip where no draw was given, and recorded every draw as any private one.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from decimal import Decimal

import pytest
from crowdblend.flows import charged_request, prepare, spec
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease

RECORDED, TODAY = "epsilon-safe-release/1", "epsilon-safe-release/2"
ANY_DRAW = EpsilonSafeRelease(k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.2"), selection_rate=None)
DRAWS = {
    "permute-and-flip": "",
    "exponential": 'draw = "exponential"\n',
    "walk": "steps = 3\n",
}


def choosing(draw: str):
    def edit(text: str) -> str:
        fixed = "\n".join(line for line in text.splitlines() if not line.startswith("level"))
        return f"{fixed}\n\n[selection]\nepsilon = 0.2\n{draw}"

    return edit


@pytest.fixture
def earlier_version(monkeypatch):
    """A context in which draws are priced and recorded as an earlier version did."""
    real = spec.read_spec

    @contextmanager
    def block():
        with monkeypatch.context() as earlier:
            for module in (spec, prepare, charged_request):
                earlier.setattr(
                    module, "read_spec", lambda path, **options: real(path, **{**options, "recorded": ANY_DRAW})
                )
            yield

    return block


def charges(desk) -> dict[str, dict]:
    lines = [json.loads(line)["entry"] for line in desk.succeed("ledger", "export").out.splitlines()]
    return {entry["release_id"]: entry for entry in lines if entry["kind"].startswith("release-charged/")}


@pytest.mark.parametrize("draw", DRAWS)
def test_a_series_goes_on_with_its_recorded_draw(desk, earlier_version, draw) -> None:
    desk.add_dataset()
    asked = desk.write_spec(edit=choosing(DRAWS[draw]))
    with earlier_version():
        desk.succeed("series", "add", "monthly", asked, "--releases", "2")
    result = desk.succeed("run", asked, "--series", "monthly", "--release-id", "one", "--json").json
    assert result["mechanism"]["kind"] == RECORDED
    certificate = json.loads((desk.folder / result["certificate"]).read_text(encoding="utf-8"))
    assert certificate["map"]["selection"]["draw"] == draw
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")


@pytest.mark.parametrize("draw", DRAWS)
def test_a_release_that_was_cut_off_goes_on_with_its_recorded_draw(desk, earlier_version, cut_off, draw) -> None:
    desk.add_dataset()
    asked = desk.write_spec(edit=choosing(DRAWS[draw]))
    with earlier_version():
        cut_off(asked, stage="publish")
    desk.refuse("run", asked, said="release 'one' of this specification was begun")
    for words in (["--dry-run"], ["--json"], ["--json"]):  # the last looks a published release up
        desk.succeed("run", asked, "--release-id", "one", *words)
    assert charges(desk)["one"]["mechanism"]["kind"] == RECORDED
    assert len(charges(desk)) == 1


def test_what_is_new_is_drawn_by_the_exponential_mechanism_whatever_is_recorded_beside_it(
    desk, earlier_version, cut_off
) -> None:
    desk.add_dataset()
    asked = desk.write_spec(edit=choosing(""))
    with earlier_version():
        cut_off(asked, stage="publish")
        desk.succeed("series", "add", "earlier", asked, "--releases", "2")
    result = desk.succeed("run", asked, "--new", "--output", "two", "--json").json
    assert result["mechanism"]["kind"] == TODAY
    assert desk.succeed("series", "add", "later", asked, "--releases", "2", "--json").json["mechanism"]["kind"] == TODAY


def test_a_draw_that_is_said_is_no_other_than_the_registered_one(desk, earlier_version) -> None:
    desk.add_dataset()
    with earlier_version():
        desk.succeed("series", "add", "monthly", desk.write_spec(edit=choosing("")), "--releases", "2")
    other = desk.write_spec(edit=choosing(DRAWS["exponential"]), file="other.toml")
    assert desk("run", other, "--series", "monthly").code == 3
