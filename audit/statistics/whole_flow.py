"""Audits through the whole flow: real releases of many independent groups of the worst size, read from their files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..desk import Desk, Job, temporary_desk
from .cases import Case
from .cases_of_deletion import STAGED, kept_back, staged_outcomes
from .cases_of_noise import SUM_WIDTH, placed

__all__ = ["FLOWS", "Flow", "FlowRuns", "run_flows"]

Counts = NDArray[np.int64]
HEAD = """
[release]
name = "audit"
{form}format = "csv"
output = "unused"
[data]
dataset = "audit"
source = "{source}"
"""
SAFE = (
    '[sampling]\nrate = {rate}\n[suppression]\nk = {k}\n[privacy]\ndelta = {delta}\n[columns.value]\nvalues = ["a"]\n'
)
LEVEL = "level = 0\n"
PLACES = "[columns.place]\ninterval = {{ lower = 0, upper = {places}, widths = [10] }}\n"
FIXED = SAFE + LEVEL + PLACES + LEVEL
CHOSEN = SAFE + PLACES + 'max_level = 0\n[selection]\nepsilon = 1\non = "whole"\n'
SUPPRESSED = (
    '[sampling]\nrate = {rate}\n[histogram]\nkind = "suppressed"\nk = {k}\n[privacy]\ndelta = {delta}\n'
    + PLACES
    + LEVEL
)
NOISY = SUPPRESSED.replace('"suppressed"', '"noisy"\nepsilon = 0.5')
OUTLIER = (
    '[histogram]\nkind = "outlier-private"\nepsilon = 0.5\nhorizon = 60\nmargin = 20\n[privacy]\ndelta = {delta}\n'
    + PLACES
    + LEVEL
)
COUNT = '[answer]\nkind = "count"\nepsilon = 0.8\nby = ["place"]\n' + PLACES + LEVEL
SUM = COUNT.replace('"count"', '"sum"\ncolumn = "amount"\nlower = -30\nupper = 100\nmissing = 0')
POINTS = (
    '[sampling]\nrate = {rate}\n[points]\nkind = "suppressed"\nk = {k}\ncells_per_side = {places}\n'
    "[privacy]\ndelta = {delta}\n[columns.place]\nbounds = {{ lower = 0, upper = {places} }}\n"
)
SIBLINGS = tuple(f"sibling-{number}" for number in range(kept_back(STAGED)))
DELETION = (
    f'[deletion]\nshape = "optimal"\nepsilon = {STAGED.noise.epsilon}\ndelta = {STAGED.noise.delta}\n'
    f"[suppression]\nk = {STAGED.k}\n[privacy]\nepsilon = 1\ndelta = {{delta}}\n"
    f"[columns.value]\nvalues = {json.dumps(['a', *SIBLINGS])}\nlevels = [0, 1]\n" + PLACES + "levels = [0, 0]\n"
)


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One kind of release.

    Args:
        name: of the case.
        twin: the case whose scouting draws choose group size and event.
        spec: its tables but for the head; with {rate}, {k}, {delta}, {places}.
        parquet: whether the records lie in several Parquet files; else in one CSV file.
        groups: independent groups of either size in a run.
        runs: releases.
        k: threshold; 0 where there is none.
        rate: sampling rate; 0 where every record is read.
        published: the column of what is published of a place; empty where rows are counted.
        width: so many published values are one outcome; 0 where counts are the outcomes, which are never negative.
        siblings: whether each place has more groups, of `STAGED.k` − 1 records, that its second stage takes up.
    """

    name: str
    twin: str
    spec: str
    parquet: bool
    groups: int
    runs: int
    k: int = 0
    rate: float = 0.0
    published: str = "count"
    width: int = 0
    siblings: bool = False

    @property
    def binomial(self) -> bool:
        """Whether what is published of a group is a suppressed binomial count, whatever other groups have."""
        return self.width == 0 and self.spec not in (CHOSEN, DELETION)


_ON_A_SAMPLE: dict[str, Any] = {"k": 5, "rate": 0.2}
FLOWS = (
    Flow(
        name="flow-safe-csv",
        twin="flow-twin-safe",
        spec=FIXED,
        parquet=False,
        groups=250_000,
        runs=2,
        **_ON_A_SAMPLE,
    ),
    Flow(
        name="flow-safe-parquet",
        twin="flow-twin-tight",
        spec=FIXED,
        parquet=True,
        groups=250_000,
        runs=8,
        **_ON_A_SAMPLE,
    ),
    Flow(
        name="flow-epsilon-safe",
        twin="flow-twin-safe",
        spec=CHOSEN,
        parquet=True,
        groups=100_000,
        runs=1,
        **_ON_A_SAMPLE,
    ),
    Flow(
        name="flow-histogram",
        twin="flow-twin-safe",
        spec=SUPPRESSED,
        parquet=True,
        groups=250_000,
        runs=2,
        **_ON_A_SAMPLE,
    ),
    Flow(
        name="flow-noisy",
        twin="flow-twin-noisy",
        spec=NOISY,
        parquet=True,
        groups=150_000,
        runs=2,
        width=1,
        **_ON_A_SAMPLE,
    ),
    Flow(
        name="flow-outlier-private",
        twin="flow-twin-outlier",
        spec=OUTLIER,
        parquet=True,
        groups=25_000,
        runs=2,
        width=1,
    ),
    Flow(
        name="flow-points",
        twin="flow-twin-safe",
        spec=POINTS,
        parquet=True,
        groups=250_000,
        runs=2,
        published="",
        **_ON_A_SAMPLE,
    ),
    Flow(
        name="flow-count",
        twin="flow-twin-count",
        spec=COUNT,
        parquet=False,
        groups=200_000,
        runs=2,
        published="answer",
        width=1,
    ),
    Flow(
        name="flow-sum",
        twin="flow-twin-sum",
        spec=SUM,
        parquet=False,
        groups=200_000,
        runs=2,
        published="answer",
        width=SUM_WIDTH,
    ),
    Flow(
        name="flow-deletion",
        twin="flow-twin-deletion",
        spec=DELETION,
        parquet=True,
        groups=25_000,
        runs=4,
        siblings=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class FlowRuns:
    """What the runs of one flow gave.

    Args:
        flow: which.
        size: records of the larger groups; the smaller ones have one less.
        outcomes: published outcome of every group by neighbour, runs one after the other.
    """

    flow: Flow
    size: int
    outcomes: tuple[Counts, Counts]


def _write_records(desk: Desk, flow: Flow, size: int, groups: int) -> str:
    """`size` records in every even place and one less in every odd one; the records of a group lie far apart.

    The place's number modulo 3 says of which kind its records are: identical, of unseen values, of missing values.
    Amounts are 100 everywhere.
    """
    places = np.arange(2 * groups)
    tables = []
    for record in range(size):
        present = places[(places % 2 == 0) | (record < size - 1)]
        kind = present // 2 % 3
        values = np.where(kind == 0, "a", np.where(kind == 1, f"unseen-{record}", ""))
        amounts = np.full(present.size, 100)
        tables.append(pa.table({"place": present, "value": pa.array(values), "amount": amounts}))
    if flow.siblings:
        each = np.repeat(places, len(SIBLINGS) * (STAGED.k - 1))
        labels = np.tile(np.repeat(SIBLINGS, STAGED.k - 1), places.size)
        tables.append(pa.table({"place": each, "value": pa.array(labels), "amount": np.full(each.size, 100)}))
    if not flow.parquet:
        pacsv.write_csv(pa.concat_tables(tables), desk.folder / "people.csv")
        return "people.csv"
    folder = desk.folder / "people"
    folder.mkdir(exist_ok=True)
    whole = pa.concat_tables(tables)
    each = -(-whole.num_rows // 3)
    for number in range(3):
        part = whole.slice(number * each, each)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=300_000)
    return "people"


def _spec(flow: Flow, *, source: str, delta: float, groups: int) -> str:
    form = 'form = "counts"\n' if flow.spec in (FIXED, CHOSEN, DELETION) else ""
    tables = flow.spec.format(rate=flow.rate, k=flow.k, delta=delta, places=2 * groups)
    return HEAD.format(form=form, source=source) + tables


def _outcomes(table: Path, flow: Flow, size: int, groups: int) -> Counts:
    """What was published of each place; 0 where nothing was."""
    read = pacsv.read_csv(table, convert_options=pacsv.ConvertOptions(column_types={"place": pa.string()}))
    labels = read["place"].to_pylist()
    whole = np.zeros(2 * groups, dtype=np.int64)
    if not flow.published:  # a point lies in the middle of its cell
        return whole + np.bincount([int(float(label)) for label in labels], minlength=whole.size)
    known = np.array([label.isdigit() for label in labels])
    places = np.array([int(label) for label in labels if label.isdigit()], dtype=np.int64)
    inside = places < 2 * groups
    figures = read[flow.published].to_numpy()[known][inside].astype(np.int64)
    if flow.siblings:
        stages = read["stage"].to_numpy()[known][inside]
        shown = np.zeros((STAGED.stages, whole.size), dtype=np.int64)
        np.add.at(shown, (stages - 1, places[inside]), figures)
        first = size - shown[0]
        return staged_outcomes([first, first + len(SIBLINGS) * (STAGED.k - 1) - shown[1]])
    np.add.at(whole, places[inside], figures)
    return placed(whole, flow.width) if flow.width else whole


def run_flows(
    sizes: dict[str, int], cases: dict[str, Case], *, folder: Path, sources: str, scale: float
) -> Iterator[FlowRuns]:
    """Run every flow, or take what an earlier, interrupted run of the same sources has kept.

    Args:
        sizes: the worst group size of each flow.
        cases: the flows' cases, by name.
        folder: where the outcomes are kept.
        sources: digest of what is audited.
        scale: groups are multiplied by it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for flow in (flow for flow in FLOWS if flow.name in sizes):
        size, groups = sizes[flow.name], max(600, round(flow.groups * scale))
        kept = folder / f"{flow.name}.npz"
        about = json.dumps([sources, size, groups, flow.runs])
        if not kept.exists() or str(np.load(kept)["about"]) != about:
            runs = np.array(_run(flow, size=size, delta=cases[flow.name].delta, groups=groups))
            with kept.with_suffix(".new").open("wb") as file:
                np.savez_compressed(file, about=np.array(about), runs=runs)
            os.replace(kept.with_suffix(".new"), kept)
        outcomes = np.load(kept)["runs"]
        yield FlowRuns(flow=flow, size=size, outcomes=(outcomes[:, 0::2].ravel(), outcomes[:, 1::2].ravel()))


def _run(flow: Flow, *, size: int, delta: float, groups: int) -> list[Counts]:
    with temporary_desk() as desk:
        desk.add_dataset("audit")
        source = _write_records(desk, flow, size, groups)
        spec = _spec(flow, source=source, delta=delta or 1e-3, groups=groups)
        jobs = [Job(spec=spec, output=f"out-{run}", release_id=f"{flow.name}-{run}") for run in range(flow.runs)]
        for result in desk.release(jobs):
            if "refused" in result:
                raise RuntimeError(result["why"])
        return [_outcomes(desk.folder / job.output / "data.csv", flow, size, groups) for job in jobs]
