"""The comparison of totals, small: on the survey that a package has, and as a page shows it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.utility import survey_weights


def test_narrow_classes_have_better_middles_and_intervals_hold() -> None:
    survey = survey_weights.young_men()
    found = dict(survey_weights.compared(survey, noise=(20.0, 20.0), draws=10))
    sums, few, more, most = found.values()
    assert list(found) == ["sums of weights", "5 classes", "10 classes", "20 classes"]
    assert few.lasting > more.lasting > most.lasting > sums.lasting
    assert all(one.held is not None and one.held > 0.95 for one in (few, more, most))
    assert more.fitted is not None
    assert more.fitted < more.error < sums.error
    line = survey_weights.lines_of({("a", 3_010): found})[2]
    assert line.startswith("| a | 3,010 | sums of weights | ")
    assert line.endswith(" | – | 0.0% | – | – |")


def test_a_larger_file_has_the_same_records_again() -> None:
    survey = survey_weights.young_men()
    larger = survey.resized(9_000)
    assert survey.resized(survey.weights.size) is survey
    assert larger.codes.shape == (8, 9_000)
    assert set(np.unique(larger.weights)) <= set(survey.weights)
    assert larger.weights.mean() == pytest.approx(survey.weights.mean(), rel=0.05)


def test_the_noise_is_that_of_a_release_with_these_columns() -> None:
    margin, pair = survey_weights.deviations(3)
    assert 0 < margin < pair
