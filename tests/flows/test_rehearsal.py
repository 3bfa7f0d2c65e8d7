"""A rehearsal tells, for a small price, how many values of each column become `*`, and hides a record as it says."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from crowdblend.flows.releases.release_kind import release_kind
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.kernel.group_counts import sum_counts
from crowdblend.mechanisms.kinds.answers import noise_of

SPEC = """
[release]
name = "incomes"
format = "csv"
output = "out"
[data]
dataset = "people"
source = "incomes.csv"
{data}
[deletion]
[privacy]
epsilon = 1
delta = 1e-6
[columns.sex]
values = ["f", "m"]
level = 0
[columns.income]
interval = {{ lower = 0, upper = 100000, widths = [50000] }}
level = 1
"""


def written(desk, *, rows: int = 6_000, data: str = "") -> Path:
    lines = [f"{'fm'[place % 2] if place % 4 else 'x'},{5000 * (place % 7)}.0,{place}" for place in range(rows)]
    (desk.folder / "incomes.csv").write_text("\n".join(["sex,income,id", *lines]) + "\n", encoding="utf-8")
    path = desk.folder / "incomes.toml"
    path.write_text(SPEC.format(data=data), encoding="utf-8")
    return path


def test_it_is_charged_as_an_answer_and_tells_each_column(desk) -> None:
    spec = written(desk)
    desk.add_dataset(epsilon="1.05")
    offered = desk.succeed("run", spec, "--dry-run").out
    assert "A rehearsal tells beforehand, for ε = 0.05, how many values of each column become *" in offered
    assert "A rehearsal tells beforehand, for ε = 0.05" in desk.succeed("explain", spec).out
    dry = desk.succeed("run", spec, "--rehearse", "--dry-run", "--json").json
    assert (dry["charge"], dry["rehearsal_epsilon"]) == ({"epsilon": 0.05, "delta": 0.0}, None)
    result = desk.succeed("run", spec, "--rehearse", "--release-id", "first", "--json").json
    assert result["mechanism"] == {
        "kind": "count-answer/1", "epsilon": "0.05", "relation": "add/remove", "groups": 4, "sampling_rate": "whole"
    }  # fmt: skip
    assert (result["epsilon"], result["delta"]) == (0.05, 0.0)
    found = {one["column"]: one for one in result["rehearsal"]}
    assert found["income"]["share"] == pytest.approx(1.0, abs=0.1)
    assert found["sex"]["share"] == pytest.approx(0.25, abs=0.15)
    assert found["sex"]["low"] < found["sex"]["share"] < found["sex"]["high"]
    text = desk.succeed("run", spec, "--rehearse", "--release-id", "first").out
    assert "income: about " in text
    assert "of the values become * at the finest level" in text
    assert text.count("whole_floats = true in [data]") == 1, "how income is read; of sex too few become * to ask"
    assert (desk.folder / "out-rehearsal" / "data.csv").read_text().startswith("column,values,answer,interval_low")
    desk.succeed("verify", "out-rehearsal")
    desk.succeed("sheet", "out-rehearsal", "--output", "sheets")
    desk.refuse("run", spec, "--release-id", "first", code=3)
    desk.succeed("run", spec)
    assert desk("run", spec, "--rehearse", "--output", "again").code == 3, "the budget is spent to the last"


def test_of_a_person_with_several_records_it_costs_the_same_and_counts_with_more_noise(desk) -> None:
    spec = written(desk, data='person = "id"\nrows_per_person = 2')
    request = read_spec(spec, output=None, rehearse=True)
    whole = read_spec(spec, output=None)
    assert request.mechanism.epsilon * 2 <= whole.price.epsilon / 20
    assert float(request.price.epsilon) == pytest.approx(float(whole.price.epsilon) / 20, rel=0.01)
    assert (request.price.rows_per_person, request.limit) == (2, whole.limit)


def test_what_has_no_rows_of_labels_is_refused(desk) -> None:
    spec = written(desk)
    desk.refuse("run", spec, "--rehearse", "--series", "monthly", said="charged for itself")
    answer = '[answer]\nkind = "count"\nepsilon = 1\nby = ["sex", "income"]\n'
    text = spec.read_text(encoding="utf-8").replace("[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n", answer)
    spec.write_text(text, encoding="utf-8")
    desk.add_dataset()
    desk.refuse("run", spec, "--rehearse", said="there is nothing to rehearse here")


def test_of_a_survey_nothing_is_rehearsed_since_it_has_one_release(desk) -> None:
    spec = written(desk)
    assert "A rehearsal tells beforehand" in desk.succeed("explain", spec).out, "nothing is known of the data set yet"
    desk.succeed("dataset", "add", "people", "--survey-rate", "0.2", "--epsilon", "9", "--delta", "0.1")
    assert "A rehearsal tells" not in desk.succeed("explain", spec).out + desk.succeed("run", spec, "--dry-run").out
    for words in (("explain", spec), ("run", spec, "--dry-run")):
        assert desk.succeed(*words, "--json").json["rehearsal_epsilon"] is None
    entries = desk.entries()
    for more in ((), ("--dry-run",), ("--release-id", "first")):
        said = ("--rehearse: data set 'people' is itself a sample", "a rehearsal would be that release", "Leave it out")
        assert "Nothing was read, written or charged." in desk.refuse("run", spec, "--rehearse", *more, said=said).err
    assert desk.entries() == entries
    assert not (desk.folder / "out-rehearsal").exists()
    desk.succeed("run", spec)
    desk.refuse("run", spec, "--rehearse", code=3, said="can be released once, and has been")


def tallies(request, records: list[tuple[int, int]], coins: tuple[int, ...]) -> tuple[int, ...]:
    """What a rehearsal counts of records, given as whether each column has `*`, where each has a coin."""
    codes = [np.array([0 if record[place] else 1 for record in records]) for place in range(2)]
    counts = sum_counts(request.recoding.keys(codes), np.ones(len(records), dtype=np.int64))
    stream = iter(coins)

    def randomness(size: int) -> bytes:
        return b"".join(int(next(stream)).to_bytes(8, "little") for _ in range(size // 8))

    tally = release_kind("answer").protection(request, None).tally(counts, randomness=randomness)
    return tuple(tally.records.tolist())


def distribution(request, records: list[tuple[int, int]]) -> Counter[tuple[int, ...]]:
    """The exact law of the tally over all coins, in shares."""
    law: Counter[tuple[int, ...]] = Counter()
    for coins in product((0, 1), repeat=len(records)):
        law[tallies(request, records, coins)] += Fraction(1, 2 ** len(records))
    return law


def test_one_record_more_moves_one_count_by_one_and_costs_epsilon_by_enumeration(desk) -> None:
    """Over all coins and all outcomes of a window: no outcome is e^ε times as likely with a record as without it."""
    request = read_spec(written(desk), output=None, rehearse=True)
    epsilon = float(request.mechanism.epsilon)
    alpha = math.exp(-1.0 / float(noise_of(request.mechanism).scale))
    assert alpha >= math.exp(-epsilon) * (1 - 1e-12)
    records = [(0, 1), (1, 1), (0, 0)]
    window = list(product(range(-1, 4), repeat=4))

    def likely(law: Counter[tuple[int, ...]], outcome: tuple[int, ...]) -> float:
        return sum(
            float(share) * math.prod(alpha ** abs(o - c) for o, c in zip(outcome, tally, strict=True))
            for tally, share in law.items()
        )

    for more in product((0, 1), repeat=2):
        without, with_it = distribution(request, records), distribution(request, [*records, more])
        assert all(sum(tally) == 3 for tally in without)
        ratios = [likely(with_it, outcome) / likely(without, outcome) for outcome in window]
        assert max(*ratios, *(1 / ratio for ratio in ratios)) <= math.exp(epsilon) * (1 + 1e-9)
        assert max(*ratios, *(1 / ratio for ratio in ratios)) > math.exp(0.3 * epsilon), (
            "the control: the record counts"
        )
