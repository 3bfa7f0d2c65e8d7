"""The benchmark of the scores runs, small: its data are the same each time, its figures there, its sample a sample."""

from __future__ import annotations

import json

import pytest


@pytest.mark.slow
def test_the_benchmark_runs_small(benchmark, tmp_path):
    def run(folder, *words):
        return json.loads(
            benchmark("record_path.lattice_scoring", "--rows", "20000", "--data", folder, "--json", *words)
        )

    first = run(tmp_path / "a")
    assert (first["records"], first["maps"]) == (20_000, 2304)
    assert 0 < first["cells"] < 20_000
    assert min(first["counting"], first["scoring"], first["drawing"], first["megabytes"]) > 0
    assert run(tmp_path / "b")["cells"] == first["cells"]
    contents = [path.read_bytes() for folder in ("a", "b") for path in (tmp_path / folder).iterdir()]
    assert len(contents) == 2
    assert contents[0] == contents[1]
    sampled = run(tmp_path / "a", "--full", "--sample", "0.1")
    assert sampled["maps"] == 3600
    assert 1600 < sampled["records"] < 2400
