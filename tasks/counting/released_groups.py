"""A published table read back into groups: labels become codes again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.group_counts import sum_counts
from ...mechanisms.measures.counted_records import CountedRecords
from ..readers.column_codes import numbers_of

COUNT = "count"
NUMBERS = {COUNT: pa.int64(), "stage": pa.int64(), "weight": pa.float64(), "survey_weight": pa.float64()}
"""The type of each column that may have numbers instead of labels."""


def read_released_table(folder: Path, *, figures: Collection[str] = (COUNT,)) -> pa.Table:
    """Return one row a published group, with the number of its records in the column `count`.

    Args:
        figures: names that, of those in `NUMBERS`, have numbers here; every other column has labels. A group is what
            has the same labels and the same numbers, but for its count.

    Raises:
        InputRefused: there is no table, or it can't be read.
    """
    numbers = NUMBERS.keys() & {COUNT, *figures}
    parquet, csv = folder / "data.parquet", folder / "data.csv"
    try:
        table = pq.read_table(parquet) if parquet.is_file() else _read_csv(csv, numbers)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputRefused(f"the published table can't be read ({type(error).__name__}).", where=str(folder)) from None
    names = [name for name in table.column_names if name != COUNT]
    plain = pa.table(
        {
            **{name: table[name].cast(NUMBERS[name] if name in numbers else pa.string()) for name in names},
            COUNT: table[COUNT].cast(pa.int64()) if COUNT in table.column_names else pa.repeat(1, table.num_rows),
        }
    )
    sums = plain.group_by(names).aggregate([(COUNT, "sum")])
    return sums.rename_columns([*names, COUNT])


def released_groups(table: pa.Table, coarsened: CountedRecords) -> CountedRecords:
    """Return the groups of a release, as keys of its map.

    Raises:
        InputRefused: the release has other columns, or labels that no record has.
    """
    names = coarsened.map.names
    if tuple(name for name in table.column_names if name != COUNT) != names:
        raise InputRefused("the release's columns are not those of the specification.", where="the published table")
    codes = []
    for place, column in enumerate(coarsened.map.columns):
        # Only labels that some record has are looked up. A level may have more labels than could be listed.
        known = coarsened.marginal(place)[0]
        code_of = dict(zip(column.hierarchy.labels(known, column.level), known.tolist(), strict=True))
        encoded = table[column.name].combine_chunks().dictionary_encode()
        labels = encoded.dictionary.to_pylist()
        if any(label not in code_of for label in labels):
            raise InputRefused(
                f"the release has labels in the column '{column.name}' that no record of the source has now.",
                where="[data].source",
                not_done="No report was written; the look stays recorded.",
                remedy="Name the records that the release was made from.",
            )
        table_of_codes = np.array([code_of[label] for label in labels], dtype=np.int64)
        codes.append(table_of_codes[numbers_of(encoded.indices.cast(pa.int64()))])
    counts = numbers_of(table[COUNT].combine_chunks().cast(pa.int64()))
    return CountedRecords(map=coarsened.map, groups=sum_counts(coarsened.map.keys(codes), counts))


def _read_csv(path: Path, numbers: Collection[str]) -> pa.Table:
    with path.open("rb") as file:
        header = pc_csv.open_csv(file).schema.names
    types = {name: NUMBERS[name] if name in numbers else pa.string() for name in header}
    return pc_csv.read_csv(path, convert_options=pc_csv.ConvertOptions(column_types=types, strings_can_be_null=False))
