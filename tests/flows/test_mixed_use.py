"""One ledger, releases of several kinds in processes of their own: a sample serves one, some counts stand alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.parquet as pq
import pytest
from crowdblend.tasks.readers.report_files import vector_table

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
VOTES = 'source = "votes.parquet"\n'
BIT = '[reports]\nkind = "k-randomization"\nflip_probability = 0.25\nquestions = ["voted"]\n'
REPORTS = {
    "estimates": f"{VOTES}{BIT}",
    "counts": f"{VOTES}{BIT}least_people = 1200\n{PRIVACY}",
    "by-vote": f'{VOTES}[answer]\nkind = "count"\nepsilon = 0.5\nrelation = "replacement"\nby = ["vector"]\n'
    '[columns.vector]\nvalues = ["0", "1"]\nlevel = 0\n',
}
KINDS = REPORTS | {kind: SAMPLED.format(sampling=rate, table=table) for kind, (rate, table) in SAMPLES.items()}


def run_together(desk, kinds: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Run releases at the same time, each in a process of its own: how each ended and what it said."""
    started = {}
    own_keys = {kind: f"{number:02x}" for number, kind in enumerate(REPORTS, start=8)}
    for kind in kinds:
        (desk.folder / f"{kind}.toml").write_text(HEAD.format(kind=kind, table=KINDS[kind]))
        words = str(desk.folder), kind, desk.ledger, own_keys.get(kind, "07")
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


@pytest.fixture
def voters(desk):
    """A desk with the reports of 1,200 people about one question, whose budget is for replacement."""
    vectors = np.random.default_rng(8).integers(0, 2, size=1_200).astype(np.uint8)
    pq.write_table(vector_table(vectors), desk.folder / "votes.parquet")
    desk.succeed("dataset", "add", "people", "--relation", "replacement", "--epsilon", "10", "--delta", "1e-3")
    return desk


@pytest.mark.slow
def test_counts_of_reports_are_published_alone_whoever_comes_first(voters) -> None:
    ended = run_together(voters, list(REPORTS))
    done = {kind for kind, (code, _) in ended.items() if code == 0}
    assert done in ({"counts"}, {"estimates", "by-vote"}), ended
    assert {path.name for path in voters.folder.glob("out-*")} == {f"out-{kind}" for kind in done}
    assert voters("ledger", "verify").code == 0
