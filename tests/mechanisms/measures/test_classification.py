"""The classifiers: they find what is there, don't find what isn't, and agree with a solver of another kind."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import sum_counts
from crowdblend.mechanisms.measures.classification import classification, every_nth, fitted_model
from crowdblend.mechanisms.measures.counted_records import CountedRecords
from crowdblend.mechanisms.measures.utility import utility_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

LETTERS = ValueHierarchy.from_rows([(letter, "early" if letter < "d" else "late", "*") for letter in "abcdef"])


def people(rows: list[tuple[str, str]], *, level: int = 0) -> CountedRecords:
    columns = tuple(MappedColumn(name=name, hierarchy=LETTERS, level=level) for name in ("one", "two"))
    made = GeneralizationMap(columns=columns)
    codes = [LETTERS.codes_of_texts([row[place].encode() for row in rows], level) for place in (0, 1)]
    return CountedRecords(map=made, groups=sum_counts(made.keys(codes), np.ones(len(rows), dtype=np.int64)))


def test_what_one_column_decides_is_learnt_and_what_it_does_not_is_not() -> None:
    draw = np.random.default_rng(5)
    same = [(letter, letter) for letter in draw.choice(list("abcdef"), 6_000)]
    other = list(zip(draw.choice(list("abcdef"), 6_000), draw.choice(list("abcdef"), 6_000), strict=True))
    learnt = classification(people(same), people(same[:600]), target="two")
    assert learnt is not None
    assert learnt.classes == 6
    assert [round(score.accuracy, 2) for score in learnt.scores[1:]] == [1.0, 1.0, 1.0]
    assert learnt.scores[0].accuracy < 0.2
    guessed = classification(people(other), people(other[:600]), target="two")
    assert guessed is not None
    # Held out are 2,000 records; a sixth ± 5 standard deviations: false alarms below one in a million.
    assert all(abs(score.accuracy - 1 / 6) < 5 * np.sqrt(5 / 36 / 2000) for score in guessed.scores)


def test_coarsening_and_suppression_are_told_apart() -> None:
    draw = np.random.default_rng(6)
    rows = [(letter, letter) for letter in draw.choice(list("abcdef"), 6_000)]
    fine, early = people(rows), [row for row in rows[:3_000] if row[0] < "d"]
    coarse = fine.recoded(people([], level=1).map)
    kept = people(early).recoded(coarse.map)
    found = utility_of(fine, coarse, k=2, sampling_rate=Decimal("0.5"), target="two").classification
    assert found is not None
    assert [score.accuracy for score in found.scores[1:]] == [1.0, 1.0, 1.0]
    lost = classification(fine, kept, target="two")
    assert lost is not None
    assert lost.scores[2].accuracy == 1.0
    assert lost.scores[3].accuracy == pytest.approx(0.5, abs=0.05)  # the release knows the early half alone


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 40))
def test_every_nth_record_is_taken_wherever_groups_begin(counts: list[int], step: int) -> None:
    sizes = np.array(counts)
    owners = np.repeat(np.arange(sizes.size), sizes)[::step]
    assert every_nth(sizes, step).tolist() == np.bincount(owners, minlength=sizes.size).tolist()


def test_the_fit_is_the_least_loss_by_newtons_method() -> None:
    """Newton's method on dense features, written for this test, reaches the same loss to 8 digits."""
    draw = np.random.default_rng(7)
    codes = [draw.integers(0, 3, 400), draw.integers(0, 4, 400)]
    classes = (codes[0] + draw.integers(0, 2, 400)) % 3
    counts = draw.integers(1, 5, 400)
    model = fitted_model(codes, sizes=(3, 4), classes=classes, class_number=3, counts=counts)
    dense = np.hstack([np.eye(3)[codes[0]], np.eye(4)[codes[1]], np.ones((400, 1))])
    penalty = np.diag([1.0] * 7 + [0.0])

    def loss(weights: np.ndarray) -> float:
        logs = log_softmax(dense @ weights, axis=1)
        return -float((counts * logs[np.arange(400), classes]).sum()) + float((weights[:-1] ** 2).sum()) / 2

    weights = np.zeros((8, 3))
    for _ in range(30):
        chances = np.exp(log_softmax(dense @ weights, axis=1))
        gradient = dense.T @ (counts[:, None] * (chances - np.eye(3)[classes])) + penalty @ weights
        hessian = np.kron(np.eye(3), penalty)
        for one in range(3):
            for other in range(3):
                factor = counts * chances[:, one] * ((one == other) - chances[:, other])
                block = (dense * factor[:, None]).T @ dense
                hessian[one * 8 : one * 8 + 8, other * 8 : other * 8 + 8] += block
        step = np.linalg.lstsq(hessian, gradient.T.ravel(), rcond=None)[0]
        weights = weights - step.reshape(3, 8).T
    assert loss(model.weights) == pytest.approx(loss(weights), rel=1e-8)
    assert loss(model.weights * 1.05) > loss(weights) * (1 + 1e-6)  # the comparison sees a fit that is off
