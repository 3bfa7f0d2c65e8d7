"""Partial counts as partitions of Dask dataframes, with the blocks that they were counted from, and their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...mechanisms.kernel.group_counts import GroupCounts
from ..kernel.counting import marked, naming_kinds_only, unmarked
from .executors import SPLIT_EVERY, merged_frame

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd


def frame_of_counts(groups: GroupCounts) -> pd.DataFrame:
    """Return partial counts as a partition of a Dask dataframe: columns key0 … and count, all int64."""
    import pandas as pd  # its import takes longer than counting a few million records

    columns = {f"key{word}": values for word, values in enumerate(groups.keys)}
    return pd.DataFrame({**columns, "count": groups.counts})


def counts_of_frame(frame: pd.DataFrame) -> GroupCounts:
    """Return the inverse of `frame_of_counts`; where frames were put together, groups may repeat."""
    key_words = [frame[name].to_numpy(dtype=np.int64) for name in frame.columns if name != "count"]
    return GroupCounts(np.array(key_words, dtype=np.int64), frame["count"].to_numpy(dtype=np.int64))


def merged_counts(partial: dd.DataFrame, *, split_every: int = SPLIT_EVERY) -> dd.DataFrame:
    """Add up partial counts in a tree; one partition, groups ascending."""
    return merged_frame(partial, _merged, split_every=split_every)


@naming_kinds_only
def _merged(frame: pd.DataFrame) -> pd.DataFrame:
    return frame_of_counts(marked(unmarked(counts_of_frame(frame))))
