"""Synthetic points as releases: within their stated error, noise of the formula, repeated by a retry, refused."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, kept_positions

KEY = bytes(range(9, 41))
SPEC = """
[release]
name = "points"
output = "out"
[data]
dataset = "people"
source = "{source}"
[sampling]
rate = {rate}
[points]
{points}
[privacy]
delta = 1e-6
{columns}
"""
X = "[columns.x]\nbounds = { lower = -1, upper = 3 }\n"
Y = "[columns.y]\nbounds = { lower = 0, upper = 0.5, missing = 0.25 }\n"
NOISY = 'kind = "noisy"\nk = 20\nepsilon = 0.5\ncells_per_side = {cells}'
SUPPRESSED = 'kind = "suppressed"\nk = 20\ncells_per_side = {cells}'


def spec_of(desk, points: str, *, columns: str = X + Y, source: str = "places.parquet", rate: str = "0.2") -> Path:
    path = desk.folder / "points.toml"
    path.write_text(SPEC.format(points=points, columns=columns, source=source, rate=rate))
    return path


def write_places(desk, *, people: int = 20_000) -> np.ndarray:
    """Places in the unit square as they count after scaling; some are beyond the bounds or missing."""
    draws = np.random.default_rng(31)
    unit = draws.beta([2, 3], [4, 2], (people, 2))
    x, y = unit[:, 0] * 4 - 1, unit[:, 1] / 2
    x[::50] = 99.0
    unit[::50, 0] = 1.0
    y[7::50] = np.nan
    unit[7::50, 1] = 0.5
    pq.write_table(pa.table({"x": x, "y": y}), desk.folder / "places.parquet", row_group_size=people)
    return unit


def scaled(folder: Path) -> np.ndarray:
    table = pq.read_table(folder / "data.parquet")
    return np.column_stack([(table["x"].to_numpy() + 1) / 4, table["y"].to_numpy() * 2])


FUNCTIONS = {
    "first coordinate": (lambda p: p[:, 0], 1.0, 1.0),
    "distance to a corner": (lambda p: np.linalg.norm(p, axis=1), 1.0, np.sqrt(2)),
    "waves": (lambda p: np.sin(6 * p[:, 0]) / 6 + np.cos(4 * p[:, 1]) / 8, np.sqrt(1.25), 0.55),
}


@pytest.mark.slow
@pytest.mark.parametrize("points", [NOISY, SUPPRESSED], ids=["noisy", "suppressed"])
def test_points_are_within_the_error_that_their_certificate_states(desk, points) -> None:
    """The bound holds for the noisy ones with the stated confidence, which is 0.999999 here: the false-alarm rate."""
    unit = write_places(desk)
    desk.add_dataset()
    spec = spec_of(desk, points.format(cells=8) + "\nconfidence = 0.999999")
    result = desk.release(spec, coins=lambda size: KEY[:size])
    chunk = ChunkIdentity(file=0, block=0)
    sample = unit[kept_positions(key=KEY, chunk=chunk, records=len(unit), rate=Decimal("0.2"))]
    found = scaled(Path(result["output"]))
    assert len(found) == result["published_records"]
    stated = json.loads(Path(result["certificate"]).read_text())["published"]
    assert stated["bounds"] == "x from -1 to 3, y from 0 to 0.5"
    radius, share = float(stated["radius"]), float(stated["moved_share"])
    assert radius == pytest.approx(np.sqrt(2) / 16, abs=1e-6)
    assert share < 0.5
    assert f"w({stated['radius']}) + {stated['moved_share']}*(sup f - inf f)" in stated["error_bound"]
    for name, (function, constant, oscillation) in FUNCTIONS.items():
        error = abs(function(sample).mean() - function(found).mean())
        assert error <= constant * radius + oscillation * share, name
    # The control: points that are mirrored, as if bounds had been swapped, are beyond it.
    mean = abs(sample[:, 1].mean() - (1 - found[:, 1]).mean())
    assert mean > (radius + share if points is NOISY else radius)
    moved = np.bincount((np.minimum((sample * 8).astype(int), 7) @ [8, 1]), minlength=64)
    shown = np.bincount((np.minimum((found * 8).astype(int), 7) @ [8, 1]), minlength=64)
    real = 0.5 * np.abs(moved / moved.sum() - shown / shown.sum()).sum()
    assert 0 < real <= share, "the share that moved is what is bounded"
