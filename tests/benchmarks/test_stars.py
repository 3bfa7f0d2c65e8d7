"""What many columns tell: a walk through small invented records, and by extra the walks that the page tells of."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.utility.stars import Walk, adult, nist


def told(lines: list[str]) -> dict[str, list[float]]:
    """Of each way the numbers of its line."""
    found = {}
    for line in lines[:3]:
        _, _, way, *cells, _ = (cell.strip() for cell in line.split("|"))
        found[way] = [float(re.sub("[,%]", "", cell)) for cell in cells]
    return found


@pytest.mark.slow
def test_a_walk_counts_stars_as_nothing_and_keeps_columns(tmp_path: Path, prefect_server, monkeypatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect_server.api_url)
    draws = np.random.default_rng(3)
    names = [f"column{place}" for place in range(7)]
    rows = [",".join(row) for row in draws.choice(["a", "b", "c", "d"], (2_000, 7), p=[0.4, 0.3, 0.2, 0.1])]
    (tmp_path / "people.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    hierarchy = [["a", "ab", "*"], ["b", "ab", "*"], ["c", "cd", "*"], ["d", "cd", "*"]]
    columns = dict.fromkeys(names, hierarchy)
    walk = Walk(title="invented", file=tmp_path / "people.csv", separator=",", columns=columns, work=tmp_path)
    *lines, kept = walk.lines()
    found = told(lines)
    once, now, chosen = found["once"], found["now"], found["kept"]
    assert once[1] > 1_800 > 5 * once[3], "nearly all were published, and next to nothing was told"
    assert now[1] == now[3]
    assert chosen[3] > 3 * max(now[3], once[3])
    assert chosen[6] == chosen[5] == pytest.approx(chosen[3], rel=0.2), "the release is as it was foretold"
    assert "column" in kept


@pytest.mark.extra
def test_nists_excerpt_with_19_columns_tells_next_to_nothing_until_columns_are_left_out(tmp_path: Path) -> None:
    *lines, kept = nist(Path(os.environ["CROWDBLEND_NIST"]), tmp_path).lines()
    found = told(lines)
    assert found["once"][0] == found["now"][0] == 19
    assert found["once"][1] > 7_500
    assert found["once"][2] < 1.0
    assert found["once"][3] < 100
    assert found["once"][6] < 100
    assert found["now"][2] > 95
    assert found["kept"][6] > 5_000
    assert kept.count("[") >= 8


@pytest.mark.extra
def test_adult_keeps_more_records_with_fewer_columns(tmp_path: Path) -> None:
    *lines, _ = adult(Path(os.environ["CROWDBLEND_ADULT"]), tmp_path).lines()
    found = told(lines)
    assert found["kept"][6] > found["now"][6] > found["once"][6] / 2
