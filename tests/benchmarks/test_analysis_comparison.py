"""Published analyses beside the records, small: the bundled file, releases and the histogram, without synthesizers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.analysis_asked import Answer, Records
from benchmarks.analysis_comparison import noisy_histogram
from benchmarks.analysis_files import Study, census
from benchmarks.analysis_pictures import Shown, write_pictures


@pytest.fixture(scope="module")
def study() -> Study:
    return census()


@pytest.mark.slow
def test_the_program_answers_every_figure_of_the_bundled_file(benchmark, tmp_path) -> None:
    said = benchmark("analysis_comparison", "--work", tmp_path, "--draws", 2, "--synthesizers")
    assert sum(line.startswith("| of ") and "no answer" not in line for line in said.splitlines()) == 4
    overview = said[said.index("| analysis |") :].splitlines()
    assert len(overview) == 6
    [shares] = [line for line in overview if "college graduates by division" in line]
    for cell in shares.strip("| ").split("|")[1:]:
        error, _, held = cell.strip().partition("%, ")
        assert float(error) < 40, "one error of twenty standard errors or more"
        assert held.endswith("%")
    assert [*tmp_path.glob("census-*.jsonl")]


def test_records_answer_as_textbooks_do(study) -> None:
    """The wage equation by NumPy's least squares; synthetic records that are the true ones give about the same."""
    [wages, pay, *_] = study.analyses
    numbers = study.records.numbers
    design = np.column_stack([np.ones(29_501), numbers["schooling"], numbers["experience"], numbers["experience"] ** 2])
    true, _, _, _ = np.linalg.lstsq(design, numbers["log_pay"], rcond=None)
    found = [asked.of_records(study.records) for asked in wages.asked]
    assert [one.estimate for one in found] == pytest.approx(true[1:].tolist(), rel=1e-6)
    assert all(one.lower < one.estimate < one.upper for one in found)
    coded = Records.of_codes(study.columns, study.codes, np.ones(29_501, dtype=np.int64))
    for asked in [*wages.asked, *pay.asked]:
        assert asked.of_records(coded).estimate == pytest.approx(asked.of_records(study.records).estimate, rel=0.1)


def test_the_histogram_is_near_the_records_and_its_noise_is_what_it_says(study) -> None:
    release = noisy_histogram(study, np.random.default_rng(1))
    counted = release.counts.counted({1: np.arange(11) == 5}, {})
    assert counted is not None
    one, every = counted
    combined = release.counts.combined
    error = combined.covariance(one, one) ** 0.5
    cells = np.prod([column.size for column in release.columns])
    variance = 2.0 * np.exp(-1.0) / (1.0 - np.exp(-1.0)) ** 2
    assert combined.covariance(every, every) == pytest.approx(variance * cells)
    assert abs(combined.value(every) - 29_501) < 6 * combined.covariance(every, every) ** 0.5
    true = study.records.of({"schooling": release.labels("schooling")[5]}).sum()
    assert abs(combined.value(one) - true) < 6 * error


def test_pictures_have_the_same_bytes_for_the_same_numbers(tmp_path) -> None:
    answers = {"chosen pairs": Answer(estimate=1.0, lower=0.5, upper=1.5), "MST": Answer(estimate=1.2), "AIM": None}
    panels = [Shown(title="pay", figure=str(number), truth=1.1, answers=answers) for number in range(4)]
    for name in ("one.svg", "other.svg"):
        write_pictures(tmp_path / name, panels, title="pictures")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


def test_the_time_of_an_import_is_told_beside_numpys(benchmark) -> None:
    said = benchmark("analysis_import", "--rounds", 1)
    assert "| NumPy |" in said
    assert "| `crowdblend.analysis` |" in said
