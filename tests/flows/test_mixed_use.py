"""One ledger, releases of several kinds in processes of their own: a sample serves one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

# Kinds with a sample have one key in every process, as if somebody had put one release's key into another's place.
RELEASE = """
import sys
from pathlib import Path
from crowdblend.deploy.run import run_release
from crowdblend.flows.paths import StatePaths
from crowdblend.mechanisms.kernel.errors import AccountantRefused
folder, kind, ledger, key = Path(sys.argv[1]), sys.argv[2], sys.argv[3], bytes.fromhex(sys.argv[4])
try:
    run_release(
        folder / f"{kind}.toml",
        state_paths=StatePaths(ledger_url=ledger, home=folder / "home"),
        output=str(folder / f"out-{kind}"),
        scheduler=None,
        release_id=kind,
        randomness=lambda size: key * size,
    )
except AccountantRefused as refusal:
    print(refusal.message)
    sys.exit(3)
"""
HEAD = """
[release]
name = "{kind}"
output = "out"
[data]
dataset = "people"
{table}
"""
SAMPLED = 'source = "people.csv"\nseparator = ";"\n[sampling]\n{sampling}\n{table}'

COLOUR = '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevel = 0\n'
PRIVACY = "[privacy]\ndelta = 1e-6\n"
SAMPLES = {
    "microdata": ("rate = 0.1", f"[suppression]\nk = 20\n{PRIVACY}{COLOUR}"),
    "histogram": ("rate = 0.1", f'[histogram]\nkind = "suppressed"\nk = 20\n{PRIVACY}{COLOUR}'),
    "unequal": (
        'column = "secret"\nrates = [0.09, 0.1]',
        f'[histogram]\nkind = "suppressed"\nk = 20\n{PRIVACY}{COLOUR}',
    ),
    "points": (
        "rate = 0.1",
        f'[points]\nkind = "noisy"\nk = 20\nepsilon = 1\ncells_per_side = 4\n{PRIVACY}'
        "[columns.age]\nbounds = { lower = 0, upper = 100 }\n",
    ),
    "answer": ("rate = 0.1", '[answer]\nkind = "count"\ncolumn = "age"\nepsilon = 0.5\n'),
}
KINDS = {kind: SAMPLED.format(sampling=rate, table=table) for kind, (rate, table) in SAMPLES.items()}


def run_together(desk, kinds: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Run releases at the same time, each in a process of its own: how each ended and what it said."""
    started = {}
    for kind in kinds:
        (desk.folder / f"{kind}.toml").write_text(HEAD.format(kind=kind, table=KINDS[kind]))
        words = str(desk.folder), kind, desk.ledger, "07"
        started[kind] = desk.start(*words, script=RELEASE)
    ended = {}
    for kind, process in started.items():
        said, error = process.communicate(timeout=300)
        assert process.returncode in (0, 3), error
        ended[kind] = (process.returncode, said)
    return ended


@pytest.mark.parametrize(
    ("first", "others"),
    [
        ("microdata", ["histogram"]),
        pytest.param("histogram", ["microdata"], marks=pytest.mark.slow),
        pytest.param("microdata", ["points", "answer"], marks=pytest.mark.long),
        pytest.param("points", ["histogram", "unequal"], marks=pytest.mark.long),
        pytest.param("answer", ["microdata", "points"], marks=pytest.mark.long),
        pytest.param("unequal", ["microdata", "histogram"], marks=pytest.mark.long),
    ],
)
def test_a_sample_that_served_one_process_serves_no_other(desk, first, others) -> None:
    desk.add_dataset()
    assert run_together(desk, [first])[first] == (0, "")
    for kind, (code, said) in run_together(desk, others).items():
        assert code == 3
        assert f"its sample was used by release '{first}', and a sample serves one release" in said
        assert not (desk.folder / f"out-{kind}").exists()
    shown = desk("ledger", "show", "--json").json
    [release] = shown["releases"]
    assert shown["datasets"][0]["epsilon_spent"] == release["epsilon"]
    desk.succeed("ledger", "verify")


@pytest.mark.slow
def test_of_all_kinds_at_once_one_gets_the_sample(desk) -> None:
    desk.add_dataset()
    ended = run_together(desk, list(SAMPLES))
    assert sorted(code for code, _ in ended.values()) == [0, 3, 3, 3, 3], ended
    assert all("a sample serves one release" in said for code, said in ended.values() if code == 3), ended
    assert len(list(desk.folder.glob("out-*"))) == 1
    desk.succeed("ledger", "verify")
