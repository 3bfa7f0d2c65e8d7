"""Writes the Delta Lake tables of this folder, and what deltalake itself reads of each of their versions.

The library is 128 MB, so the tests read what it wrote once: `uv run --with deltalake==1.6.6 --with 'pyarrow<27'
tests/vectors/delta/write.py` writes the tables anew, with other file names and the same records.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

HERE = Path(__file__).parent
COLOURS = ("blue", "green", "red")
TOWNS = ("Lyon", "Lille", "a b/c%=é", None)


def people(records: int, towns: tuple[str | None, ...]) -> pa.Table:
    return pa.table(
        {
            "colour": [COLOURS[i % 3] for i in range(records)],
            "age": pa.array([20 + 10 * (i % 2) for i in range(records)], pa.int32()),
            "town": pa.array([towns[i % len(towns)] for i in range(records)], pa.string()),
        }
    )


def main() -> None:
    for name in ("register", "towns"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    register, towns = str(HERE / "register"), str(HERE / "towns")
    write_deltalake(register, people(1_200, TOWNS[:2]))
    DeltaTable(register).delete("colour = 'red'")
    DeltaTable(register).update(predicate="colour = 'blue'", updates={"colour": "'green'"})
    DeltaTable(register).create_checkpoint()
    write_deltalake(register, people(60, TOWNS[:2]), mode="append")
    DeltaTable(register).delete("colour <> 'green'")
    write_deltalake(towns, people(240, TOWNS), partition_by=["town", "age"])
    DeltaTable(towns).delete("town = 'Lille' AND age = 30")
    DeltaTable(towns).update(predicate="colour = 'red'", updates={"colour": "'blue'"})
    read = {}
    for name in ("register", "towns"):
        last = DeltaTable(str(HERE / name)).version()
        for version in range(last + 1):
            table = DeltaTable(str(HERE / name), version=version).to_pyarrow_table()
            rows = zip(*(table[column].to_pylist() for column in ("colour", "age", "town")), strict=True)
            counted = Counter(rows).items()
            read[f"{name} {version}"] = sorted([[*map(str, row), count] for row, count in counted])
    (HERE / "read_by_deltalake.json").write_text(
        json.dumps(read, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
