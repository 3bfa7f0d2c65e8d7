"""A published table as a file of SPSS or Stata: integer codes with the published labels as their value labels."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..readers.column_codes import numbers_of
from ..request import AlsoFormat
from .table import PublishedTable, TableColumn

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_statistics_table"]

_MOST_LABELS = 30_000
_LABEL_BYTES = 120
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SAV_TIME, _DTA_TIME = 92, b"<timestamp>\x11"
_HEAD = 400


def write_statistics_table(table: PublishedTable, *, folder: Path, format_: AlsoFormat, stem: str, day: date) -> str:
    """Write `data.sav` or `data.dta`, or a file of another stem, into a folder and return the file's name.

    A column of labels has codes from 1 on, in the labels' order, and the labels as their value labels; one with labels
    that are too long or too many for that has texts. All rows are in memory at once.

    PRIVACY: the file is a function of the published table and the day; no clock is in it.

    Args:
        table: what is published.
        folder: an existing folder.
        format_: of the file.
        stem: its name without the ending.
        day: of the release, which the file's head tells.

    Raises:
        OSError: the folder can't be written.
    """
    import pandas as pd
    import pyreadstat

    name = f"{stem}.{format_}"
    columns: dict[str, Any] = {}
    labels: dict[str, dict[int | float, str]] = {}
    for column in table.columns:
        columns[column.name] = _repeated(_values(column, labels), table)
    write = pyreadstat.write_sav if format_ == "sav" else pyreadstat.write_dta
    write(_frame(pd, columns), folder / name, variable_value_labels=labels)
    _set_day(folder / name, format_, day)
    return name


def _frame(pandas: Any, columns: dict[str, Any]) -> pd.DataFrame:  # noqa: ANN401 - the module, which loads slowly
    frame: pd.DataFrame = pandas.DataFrame(columns)
    return frame


def _values(column: TableColumn, labels: dict[str, dict[int | float, str]]) -> NDArray[Any]:
    """A column's distinct values; the value labels of its codes, where it has some, are added to others'."""
    values = column.values
    if pa.types.is_dictionary(values.type):
        entries = [column.shown(entry) for entry in values.dictionary.to_pylist()]
        places = numbers_of(values.indices)
        if len(entries) <= _MOST_LABELS and all(0 < len(entry.encode()) <= _LABEL_BYTES for entry in entries):
            labels[column.name] = dict(enumerate(entries, start=1))
            codes: NDArray[Any] = places.astype(np.int32) + np.int32(1)
            return codes
        texts: NDArray[Any] = np.array(entries, dtype=object)[places]
        return texts
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return numbers_of(values).astype(np.float64)
    return np.array(column.texts, dtype=object)


def _repeated(values: NDArray[Any], table: PublishedTable) -> NDArray[Any]:
    return values if table.times is None else np.repeat(values, table.times)


def _set_day(path: Path, format_: AlsoFormat, day: date) -> None:
    """Put the release's day, at midnight, where the head has the time at which the file was written."""
    month = _MONTHS[day.month - 1]
    with path.open("r+b") as file:
        head = file.read(_HEAD)
        if format_ == "sav":
            start, said = _SAV_TIME, f"{day.day:02} {month} {day.year % 100:02}00:00:00"
        else:
            start, said = head.index(_DTA_TIME) + len(_DTA_TIME), f"{day.day:02} {month} {day.year} 00:00"
        file.seek(start)
        file.write(said.encode("ascii"))
