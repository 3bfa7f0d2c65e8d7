"""Completed copies of a release: files of as many records as there were, drawn from all that is published.

A copy isn't the records. Its rows are published rows whose labels are filled in, and drawn ones in the place of those
that were deleted or not sampled. Each copy has noise of its own on every count, of the size that the release's has, so
that the spread between copies tells what the noise leaves open (Rubin 1987).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ..accounting.given_files import looking_at
from ..mechanisms.generalization_map import MappedColumn
from ..mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.pair_model.model import PairModel, merged_table
from .combined_counts import Amounts, Codes, CombinedCounts
from .conditions import Mask, edges_of, labels_of
from .figures import Figure, Frames
from .label_tree import LabelTree, boxes, pair_model
from .published_tables import PublishedTables, RowGroups, RowTable

if TYPE_CHECKING:
    import pandas as pd

    from .figures import DataFrame

COPY = "completed_copy"
"""The column that says of each row that it is completed, and the number of its copy."""
CopyFormat = Literal["parquet", "csv", "sav", "dta"]
_FORMATS = ("parquet", "csv", "sav", "dta")
_CANDIDATES = 4
"""For each record that isn't published, so many are drawn, of which weights choose one."""
_ROUNDS = 20
NOTHING_WRITTEN = "Nothing was written."


class _Coins:
    """Uniform numbers and normal ones that follow from a text; published figures alone are drawn with them."""

    def __init__(self, *parts: object) -> None:
        self._seed = "/".join(map(str, parts)).encode()
        self._drawn = 0

    def uniform(self, number: int) -> Amounts:
        """Return numbers between 0 and 1."""
        self._drawn += 1
        raw = hashlib.shake_256(self._seed + self._drawn.to_bytes(8, "big")).digest(8 * number)
        return (np.frombuffer(raw, dtype=">u8").astype(np.float64) + 0.5) / 2.0**64

    def normal(self, shape: tuple[int, ...]) -> Amounts:
        """Return normal deviates."""
        from scipy.special import ndtri  # SciPy loads slowly

        deviates: Amounts = ndtri(np.clip(self.uniform(math.prod(shape)), 1e-16, 1.0 - 1e-16)).reshape(shape)
        return deviates


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CompletedCopies:
    """Completed copies of a release, made one at a time.

    Args:
        published: the release.
        copies: how many.
        seed: whoever gives the same draws the same copies.
        frames: what they are given as, "pandas" or "polars".
    """

    published: PublishedTables
    copies: int
    seed: str
    frames: Frames

    def __len__(self) -> int:
        """Return how many there are."""
        return self.copies

    def __iter__(self) -> Iterator[DataFrame]:
        """Yield each copy as a frame; its column `completed_copy` has the copy's number, from 1."""
        for number in range(1, self.copies + 1):
            yield frame_of_columns(self._columns(number), self.frames)

    def write(self, folder: Path | str, *, format: CopyFormat = "parquet") -> tuple[Path, ...]:
        """Write each copy into a folder, as `completed-01.parquet` and so on, and return the files.

        Args:
            folder: there is one, and none of the files in it.
            format: "parquet", "csv", "sav" of SPSS or "dta" of Stata.

        Raises:
            InputRefused: another format, a release's folder, or a file that is there.
        """
        place = Path(folder)
        if format not in _FORMATS:
            raise InputRefused(f"copies are written as {', '.join(_FORMATS)}.", not_done=NOTHING_WRITTEN)
        with looking_at(place, "the folder", not_done=NOTHING_WRITTEN):
            taken = (place / "certificate.json").exists() or not place.is_dir()
        if taken:
            raise InputRefused(
                "completed copies are written into a folder that is there and isn't a release's.",
                where=str(place),
                not_done=NOTHING_WRITTEN,
                remedy="Make another folder for them.",
            )
        digits = max(2, len(str(self.copies)))
        names = [place / f"completed-{number:0{digits}}.{format}" for number in range(1, self.copies + 1)]
        if there := next((name for name in names if name.exists()), None):
            raise InputRefused("this exists already.", where=str(there), not_done=NOTHING_WRITTEN)
        for number, name in enumerate(names, start=1):
            frame = cast("pd.DataFrame", frame_of_columns(self._columns(number), "pandas"))
            _write(frame, name, format)
        return tuple(names)

    def _columns(self, number: int) -> dict[str, Any]:
        coins = _Coins("crowdblend completed copy 1", self.seed, number)
        codes = completed_codes(self.published, coins.uniform, coins.normal)
        size = next(iter(codes.values())).size
        values: dict[str, Any] = {COPY: np.full(size, number)}
        for place in sorted(codes):
            column = self.published.columns[place]
            values[column.name] = _values(column, codes[place], coins.uniform)
        return values


def frame_of_columns(columns: Mapping[str, Any], frames: Frames) -> DataFrame:
    """Return columns as a frame of pandas or Polars."""
    if frames == "polars":
        import polars

        return polars.DataFrame(dict(columns))
    import pandas

    frame: DataFrame = pandas.DataFrame(columns)
    return frame


def completed_codes(
    published: PublishedTables, uniform: Callable[[int], Amounts], normal: Callable[[tuple[int, ...]], Amounts]
) -> dict[int, Codes]:
    """Draw one copy: per column's place the finest label of each record.

    Published rows are all in it, each with finest labels within its own. The records that are missing to the number of
    all are drawn by the rows' weights, or of any labels by the model. Of several candidates for each record weights
    choose one. They are fitted so that all records together have the counts of margins and counted pairs that this copy
    drew: rows of coarse labels are those that finer stages left over, which no single row tells.

    Args:
        published: the release.
        uniform: n → n numbers between 0 and 1.
        normal: a shape → normal deviates.
    """
    drawn = _with_noise(published, normal)
    combined = CombinedCounts(drawn.margins, deviation=drawn.margin_deviation, pairs=drawn.pairs)
    model = pair_model(drawn, combined)
    tree = LabelTree.of_model(model)
    table = max(published.rows, key=lambda one: sum(float(stage.counts.sum()) for stage in one.stages))
    parts = [part for stage in table.stages for part in _parts_of(stage, table, published)]
    there = [np.repeat(np.arange(part.counts.size), part.counts * _CANDIDATES) for part in parts]
    known = sum(own.size for own in there) // _CANDIDATES
    missing = max(round(combined.records) - known, 0)
    spare = np.concatenate([np.zeros(0), *(part.left for part in parts)])
    # Half of the others come of groups that are there, half of any labels: some groups have no row at all.
    half = missing * _CANDIDATES // 2 if spare.sum() > 0 else 0
    chosen = _systematic(spare, half, uniform) if half else np.zeros(0, dtype=np.int64)
    begins = np.cumsum([0, *(part.counts.size for part in parts)])
    candidates = [_drawn_of(tree, part.masks, own, uniform) for part, own in zip(parts, there, strict=True)]
    for part, begin, end in zip(parts, begins, begins[1:], strict=False):
        own = chosen[(chosen >= begin) & (chosen < end)] - begin
        candidates.append(_drawn_of(tree, part.masks, own, uniform))
    free = {0: np.ones((1, published.columns[0].size), dtype=np.bool_)}
    anywhere = np.zeros(missing * _CANDIDATES - half, dtype=np.int64)
    candidates.append(_drawn_of(tree, free, anywhere, uniform))
    codes = {place: np.concatenate([own[place] for own in candidates]) for place in sorted(tree.shares)}
    weights = _fitted_weights(codes, drawn, model, known=known, missing=missing)
    # Of a published row's candidates one by their weights; of the others' so many as are missing.
    reached = np.cumsum(weights[: known * _CANDIDATES].reshape(known, _CANDIDATES), axis=1)
    one = (reached <= (uniform(known) * reached[:, -1])[:, None]).sum(axis=1)
    taken = np.arange(known) * _CANDIDATES + np.minimum(one, _CANDIDATES - 1)
    if missing:
        # In the order of their labels, so that each label is taken as often as its weights say but for one.
        order = known * _CANDIDATES + np.lexsort([own[known * _CANDIDATES :] for own in codes.values()])
        taken = np.concatenate([taken, order[_systematic(weights[order], missing, uniform)]])
    return {place: own[taken] for place, own in codes.items()}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Part:
    """Some groups of a stage: their published records, how many more they stand for, and the labels within theirs."""

    counts: Codes
    left: Amounts
    masks: Mapping[int, Mask]


def _parts_of(stage: RowGroups, table: RowTable, published: PublishedTables) -> Iterator[_Part]:
    for some, masks in boxes(stage, table, published):
        left = np.maximum(stage.mass[some] - stage.counts[some], 0.0)
        yield _Part(counts=stage.counts[some].astype(np.int64), left=left, masks=masks)


def _with_noise(published: PublishedTables, normal: Callable[[tuple[int, ...]], Amounts]) -> PublishedTables:
    """Return the release with as much noise again: what the records' counts may have been, given the noisy ones."""
    return replace(
        published,
        margins=tuple(own + published.margin_deviation * normal(own.shape) for own in published.margins),
        pairs=tuple(
            replace(pair, counts=pair.counts + pair.deviation * normal(pair.counts.shape)) for pair in published.pairs
        ),
    )


def _drawn_of(
    tree: LabelTree, masks: Mapping[int, Any], groups: Codes, uniform: Callable[[int], Amounts]
) -> dict[int, Codes]:
    """Draw finest labels for records of some groups, some records at a time."""
    parts = []
    for begin in range(0, max(groups.size, 1), 1 << 14):
        own = groups[begin : begin + (1 << 14)]
        parts.append(tree.drawn({place: mask[own] for place, mask in masks.items()}, uniform))
    return {place: np.concatenate([part[place] for part in parts]) for place in tree.shares}


def _systematic(weights: Amounts, number: int, uniform: Callable[[int], Amounts]) -> Codes:
    """Return so many places, each as often as its weight says but for one."""
    reached = np.cumsum(weights)
    at = (np.arange(number) + uniform(1)[0]) * (reached[-1] / number)
    places: Codes = np.minimum(np.searchsorted(reached, at, side="right"), weights.size - 1)
    return places


def _fitted_weights(
    codes: Mapping[int, Codes], drawn: PublishedTables, model: PairModel, *, known: int, missing: int
) -> Amounts:
    """Return weights of candidates by which all records together have the counts that were drawn.

    The candidates of a published row, which come first, have 1 together, those of the others the number of the missing.
    """
    targets: list[tuple[Codes, Amounts]] = []
    for pair in sorted(drawn.pairs, key=lambda one: one.counts.size):
        if set(pair.columns) <= codes.keys():
            first, second = (labels[codes[place]] for place, labels in zip(pair.columns, pair.labels, strict=True))
            shape = pair.counts.shape
            asked = merged_table(model.tables[pair.columns], pair.labels, shape=shape).reshape(-1)
            targets.append((first * shape[1] + second, asked))
    targets += [(own, model.margins[place]) for place, own in codes.items()]
    weights: Amounts = np.full(next(iter(codes.values())).size, 1.0 / _CANDIDATES)
    rows = weights[: known * _CANDIDATES].reshape(known, _CANDIDATES)
    for _ in range(_ROUNDS):
        for at, asked in targets:
            have = np.bincount(at, weights=weights, minlength=asked.size)
            weights *= np.clip(np.divide(asked, have, out=np.ones(asked.size), where=have > 1e-9), 1e-3, 1e3)[at]
        rows /= np.maximum(rows.sum(axis=1, keepdims=True), 1e-300)
        if missing:
            weights[rows.size :] *= missing / max(weights[rows.size :].sum(), 1e-300)
    return weights


def _values(column: MappedColumn, codes: Codes, uniform: Callable[[int], Amounts]) -> Any:  # noqa: ANN401
    """Return values within labels: numbers of intervals, others their labels; what has none is missing.

    A column has numbers if all values that were declared are numbers: N, for not applicable, isn't a missing number.
    """
    labels = labels_of(column, column.level)
    try:
        edges = edges_of(column, column.level)
    except InputRefused:
        edges = None
    if edges is None or (isinstance(column.hierarchy, ValueHierarchy) and not edges.known[1:].all()):
        texts = np.array([None, *labels[1:]] if len(labels) > 1 else labels, dtype=object)
        return texts[codes]
    lower, upper = edges.lower[codes], edges.upper[codes]
    part = uniform(codes.size)
    if isinstance(column.hierarchy, IntervalHierarchy):
        return lower + np.floor(part * (upper - lower + 1.0))
    return lower + part * (upper - lower)


def _write(frame: pd.DataFrame, name: Path, format_: CopyFormat) -> None:
    if format_ == "parquet":
        frame.to_parquet(name, index=False)
    elif format_ == "csv":
        frame.to_csv(name, index=False)
    else:
        try:
            import pyreadstat
        except ImportError:
            raise InputRefused(
                "files of SPSS and Stata need pyreadstat.",
                where=str(name),
                not_done=NOTHING_WRITTEN,
                remedy='Install it, as by pip install "crowdblend[statistics]".',
            ) from None
        write = pyreadstat.write_sav if format_ == "sav" else pyreadstat.write_dta
        note = "Completed copy, drawn from what a release publishes; no record of a person"
        write(frame, name, file_label=note)


def rubin(estimates: Sequence[float], variances: Sequence[float] | None = None, *, error: float = 0.05) -> Figure:
    """Combine what copies give by Rubin's rules.

    Args:
        estimates: of each copy.
        variances: of each estimate within its copy, as if it were the records; None for figures of the records.
        error: of the interval.

    Raises:
        InputRefused: there are fewer than two copies.
    """
    from scipy.special import stdtrit  # SciPy loads slowly

    own = np.array(estimates, dtype=np.float64)
    if own.size < 2:
        raise InputRefused("Rubin's rules need two copies or more.", not_done="Nothing was combined.")
    inside = 0.0 if variances is None else float(np.mean(variances))
    between = (1.0 + 1.0 / own.size) * float(own.var(ddof=1))
    whole = inside + between
    if not whole > 0:
        return Figure(estimate=float(own.mean()), lower=None, upper=None, source="copies", note="copies don't differ")
    freedom = (own.size - 1) * (whole / between) ** 2 if between > 0 else math.inf
    width = float(stdtrit(min(freedom, 1e9), 1.0 - error / 2.0)) * math.sqrt(whole)
    middle = float(own.mean())
    note = "as far as the copies' model holds"
    return Figure(estimate=middle, lower=middle - width, upper=middle + width, source="copies", note=note)
