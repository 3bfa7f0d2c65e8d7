"""What the terminal says of a result, a hierarchy's faults and tokens, in whole sentences with the right nouns."""

from __future__ import annotations

import pytest
from crowdblend.deploy.cli import main
from crowdblend.deploy.run import result_text

RESULT = {
    "release_id": "r-1",
    "looked_up": False,
    "dataset": "people",
    "series": None,
    "mechanism": {"kind": "strongly-safe-release/1"},
    "epsilon": 0.18298860992,
    "delta": 1e-06,
    "epsilon_paper": 0.291941281812,
    "levels": {"age": 2, "town": 1},
    "published_groups": 48,
    "published_records": 1983,
    "output": "out",
    "certificate": "out/certificate.json",
}


def test_a_new_result() -> None:
    assert result_text(RESULT) == (
        "Published 1,983 records in 48 groups: out\n"
        "Charged to 'people': ε = 0.182989, δ = 1e-6 (by the paper's bound ε = 0.291942).\n"
        "Levels: age 2, town 1.\n"
        "Release r-1; check it with: crowdblend verify out/certificate.json"
    )


SERIES = {"name": "monthly", "number": 2, "releases": 12}
PAID = {"order": 37.0, "divergence": 0.0117481, "tail": 5.5e-9, "share": 0.0546706}
STAGES = [
    {"levels": {"age": level}, "published_groups": 3, "published_records": 1500 + level, "largest_deletion": 78}
    for level in (0, 2)
]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"looked_up": True}, "Published before: 1,983 records in 48 groups: out\nNothing was read or charged now."),
        ({"looked_up": True, "output_in_place": False}, "out. It isn't there any more as it was published"),
        ({"looked_up": True, "output_in_place": None}, "out. Whether it is still there can't be looked at now"),
        ({"series": SERIES}, "Release 2 of 12 of the series 'monthly', charged whole to 'people': ε = "),
        ({"filter_charge": PAID}, "Charged to the filter budget of 'people', 5.47 % of it. What this guarantees by"),
        ({"series": SERIES, "filter_charge": PAID}, "charged whole to the filter budget of 'people', 5.47 % of it."),
        ({"mechanism": {"kind": "epsilon-safe-release/1"}}, "Levels: age 2, town 1 (drawn privately).\n"),
        ({"stages": STAGES}, "groups; levels age 0.\nStage 2: 1,502 records in 3 groups; levels age 2.\n"),
        ({"stages": STAGES[:1]}, "Levels: age 2, town 1.\n"),
    ],
)
def test_a_result_says_what_it_is(changes, said) -> None:
    assert said in result_text(RESULT | changes)


def refused(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(words))
    return int(left.value.code or 0)


def test_a_token_has_one_last_day(tmp_path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROWDBLEND_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CROWDBLEND_LEDGER", raising=False)
    assert refused("dataset", "add", "people", "--epsilon", "1", "--delta", "1e-7") == 0
    assert capsys.readouterr().out == "Data set 'people' has the budget ε = 1, δ = 1e-7.\n"
    assert refused("token", "add", "ada", "--expires", "90d") == 0
    [last] = {word.rstrip(":") for word in capsys.readouterr().err.split() if word.startswith("20")}
    assert refused("token", "list") == 0
    assert f"until {last} " in capsys.readouterr().out
