"""One ledger, one sample, several kinds of release, each in a process of its own: the sample serves one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

# The sampling key is the same in every process, as if somebody had put one release's key into another's place.
RELEASE = """
import sys
from pathlib import Path
from crowdblend.deploy.prefect_environment import QUIET
import os
os.environ.update(QUIET)
from crowdblend.deploy.running import run_release
from crowdblend.flows.settings import House
from crowdblend.mechanisms.refusal import Refusal
folder, kind, ledger = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
try:
    run_release(
        folder / f"{kind}.toml",
        house=House(ledger_url=ledger, home=folder / "home"),
        output=str(folder / f"out-{kind}"),
        scheduler=None,
        release_id=kind,
        randomness=lambda size: b"\\x07" * size,
    )
except Refusal as refusal:
    print(refusal.message)
    sys.exit(3)
"""
HEAD = """
[release]
name = "{kind}"
output = "out"
[data]
dataset = "people"
source = "people.csv"
separator = ";"
[sampling]
{sampling}
{table}
"""
COLOUR = '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevel = 0\n'
PRIVACY = "[privacy]\ndelta = 1e-6\n"
KINDS = {
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


def run_together(desk, kinds: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Run releases at the same time, each in a process of its own: how each ended and what it said."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CROWDBLEND_", "PREFECT_"))
    }
    started = {}
    for kind in kinds:
        sampling, table = KINDS[kind]
        (desk.folder / f"{kind}.toml").write_text(HEAD.format(kind=kind, sampling=sampling, table=table))
        started[kind] = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", RELEASE, str(desk.folder), kind, desk.ledger],
            cwd=desk.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
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
        ("histogram", ["microdata"]),
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
    assert desk("ledger", "verify").code == 0


def test_of_all_kinds_at_once_one_gets_the_sample(desk) -> None:
    desk.add_dataset()
    ended = run_together(desk, list(KINDS))
    assert sorted(code for code, _ in ended.values()) == [0, 3, 3, 3, 3], ended
    assert all("a sample serves one release" in said for code, said in ended.values() if code == 3)
    assert len(list(desk.folder.glob("out-*"))) == 1
    assert desk("ledger", "verify").code == 0
