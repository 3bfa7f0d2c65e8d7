"""Exhibits: what the files of a release tell besides the release, in a usual pipeline and in ours."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, kept_positions

from ..desk import Desk, Job, temporary_desk
from .exhibit import Exhibit

__all__ = ["file_exhibits"]

KEY = bytes(range(7, 39))
RATE, K = 0.3, 20
RARE = "vermilion"
SPEC = """
[release]
name = "files"
output = "unused"
[data]
dataset = "people"
source = "people.csv"
[sampling]
rate = 0.3
[suppression]
k = 20
[privacy]
delta = 1e-6
[columns.colour]
values = ["blue", "red", "vermilion"]
level = 0
[columns.age]
interval = { lower = 0, upper = 100, widths = [10] }
level = 1
"""


@dataclass(frozen=True)
class Ours:
    """The files of one of our releases, and what the ledger's auditors see."""

    files: dict[str, bytes]
    times: dict[str, float]
    ledger: str

    @property
    def table(self) -> pd.DataFrame:
        return pq.read_table(BytesIO(self.files["data.parquet"])).to_pandas()


def _records() -> tuple[list[str], int]:
    """D without t, and how many records it has: t, the last, is taken by the coins and is of a rare colour."""
    kept = kept_positions(key=KEY, chunk=ChunkIdentity(file=0, block=0), records=3_001, rate=Decimal("0.3"))
    size = int(kept[-1])
    rare = {i: f"{RARE},{80 + i % 9}" for i in range(74, size, 75)}
    return [rare.get(i, f"{('red', 'blue')[i % 2]},{20 + i % 30}") for i in range(size)], size


def _release(lines: Iterable[str]) -> Ours:
    with temporary_desk() as desk:
        desk.add_dataset("people")
        (desk.folder / "people.csv").write_text("colour,age\n" + "\n".join(lines) + "\n")
        [result] = desk.release([Job(spec=SPEC, output="out", release_id="files", key=KEY)])
        if "refused" in result:
            raise RuntimeError(result["why"])
        return _look(desk)


def _look(desk: Desk) -> Ours:
    out = desk.folder / "out"
    shown = desk.command("ledger", "export").stdout + desk.command("ledger", "show", "--json").stdout
    return Ours(
        files={path.name: path.read_bytes() for path in sorted(out.iterdir())},
        times={path.name: path.stat().st_mtime for path in sorted(out.iterdir())} | {"the folder": out.stat().st_mtime},
        ledger=shown,
    )


@dataclass(frozen=True)
class Usual:
    """A pipeline as it is often written: pandas, sample, cut, drop small groups, to_parquet, a report beside it."""

    parquet: bytes
    report: dict[str, int]
    masked: pd.DataFrame

    @classmethod
    def of(cls, lines: list[str]) -> Usual:
        """Sample with the same coins, keep the input's order and categories."""
        frame = pd.DataFrame([line.split(",") for line in lines], columns=["colour", "age"])
        frame["colour"] = frame["colour"].astype("category")
        frame["age"] = pd.cut(frame["age"].astype(int), bins=range(0, 110, 10), right=False).astype(str)
        kept = kept_positions(
            key=KEY, chunk=ChunkIdentity(file=0, block=0), records=len(frame), rate=Decimal(str(RATE))
        )
        sampled = frame.iloc[kept]
        sizes = sampled.groupby(["colour", "age"], observed=True)["age"].transform("size")
        released = sampled[sizes >= K]
        buffer = BytesIO()
        released.to_parquet(buffer)
        report = {"rows read": len(frame), "rows sampled": len(sampled), "suppressed": len(sampled) - len(released)}
        masked = sampled.astype(str)
        masked.loc[(sizes < K).to_numpy()] = "*"
        return cls(parquet=buffer.getvalue(), report=report, masked=masked)


def file_exhibits() -> list[Exhibit]:
    """Row counts, suppressed rows, input order, dictionaries, statistics, times, and a bare digest."""
    lines, size = _records()
    with_t = [*lines, f"{RARE},88"]
    usual = [Usual.of(with_t), Usual.of(lines)]
    ours = [_release(with_t), _release(lines)]
    return [
        _row_counts(usual, ours),
        _suppressed_rows(usual, ours),
        _input_order(usual, ours, size),
        _dictionaries(usual, ours),
        _statistics(usual, ours, size),
        _times(lines, ours),
        _digest(lines, ours[0]),
    ]


def _row_counts(usual: list[Usual], ours: list[Ours]) -> Exhibit:
    numbers = set(usual[0].report.values()) | set(usual[1].report.values())
    texts = [ours[0].files["certificate.json"].decode(), ours[0].ledger]
    found = [n for n in numbers if n > 99 and any(re.search(rf"(?<![\d.\w]){n}(?![\d.\w])", text) for text in texts)]
    words = ", ".join(f"{name} {count} (without: {usual[1].report[name]})" for name, count in usual[0].report.items())
    return Exhibit(
        name="row-counts",
        title="Row counts in a report beside the release",
        other_way="the pipeline's report is published with the data",
        from_other=f"{words}: who knows everybody else knows whether the person is there",
        from_ours=f"certificate and ledger say how many records are published and never how many were read, sampled or "
        f"dropped; of these numbers {len(found)} occur in them",
        other_betrays=usual[0].report != usual[1].report,
        ours_betrays=bool(found),
    )


def _suppressed_rows(usual: list[Usual], ours: list[Ours]) -> Exhibit:
    stars = [int((one.masked["colour"] == "*").sum()) for one in usual]
    same = ours[0].files["data.parquet"] == ours[1].files["data.parquet"]
    return Exhibit(
        name="suppressed-rows",
        title="Suppressed rows left in as rows of stars",
        other_way="rows of small groups are overwritten with * and published",
        from_other=f"{stars[0]} rows of stars with the person, {stars[1]} without",
        from_ours=f"under equal coins the tables with and without the person are "
        f"{'the same, byte for byte' if same else 'NOT the same'}: dropped groups leave nothing",
        other_betrays=stars[0] != stars[1],
        ours_betrays=not same,
    )


def _input_order(usual: list[Usual], ours: list[Ours], size: int) -> Exhibit:
    kept = pd.read_parquet(BytesIO(usual[0].parquet)).index
    table = ours[0].table.astype(str)
    in_order = table.equals(table.sort_values(list(table.columns), kind="stable").reset_index(drop=True))
    return Exhibit(
        name="input-order",
        title="The input's order",
        other_way="rows are written in the order in which they were read, and pandas writes their numbers too",
        from_other=f"the numbers of all {len(kept)} published rows among {size + 1}: for everyone in the file, whether "
        "they were sampled",
        from_ours=f"rows come in an order that is a function of the published values, and carry no number: sorted by "
        f"value {'in every place' if in_order else 'NOT everywhere'}, columns {', '.join(table.columns)}",
        other_betrays=bool(np.any(np.diff(kept) > 1)),
        ours_betrays=not in_order or any(name.startswith("__") for name in table.columns),
    )


def _dictionaries(usual: list[Usual], ours: list[Ours]) -> Exhibit:
    colours = list(pd.read_parquet(BytesIO(usual[0].parquet))["colour"].cat.categories)
    entries: set[str] = set()
    for one in ours:
        parquet = pq.ParquetFile(BytesIO(one.files["data.parquet"]), read_dictionary=["colour", "age"])
        for group in range(parquet.num_row_groups):
            for column in parquet.read_row_group(group).columns:
                for chunk in column.chunks:
                    entries |= set(chunk.dictionary.to_pylist())
    published = set(ours[0].table["colour"].astype(str)) | set(ours[0].table["age"].astype(str))
    hidden = sorted(entries - published)
    raw = any(RARE.encode() in content for name, content in ours[0].files.items() if name != "certificate.json")
    return Exhibit(
        name="dictionary-entries",
        title="Dictionary entries of dropped values",
        other_way="a column of categories is filtered and written",
        from_other=f"the file's categories are {', '.join(colours)}: {RARE} was dropped from the rows and is "
        f"still there",
        from_ours=f"every dictionary entry is of a published value; {len(hidden)} others were found, and {RARE} is "
        f"{'STILL' if raw else 'not'} among the table's bytes",
        other_betrays=RARE in colours,
        ours_betrays=bool(hidden) or raw,
    )


def _statistics(usual: list[Usual], ours: list[Ours], size: int) -> Exhibit:
    meta = pq.ParquetFile(BytesIO(usual[0].parquet)).metadata
    found = [meta.row_group(0).column(place) for place in range(meta.num_columns)]
    [index] = [column for column in found if column.path_in_schema == "__index_level_0__"]
    largest = int(index.statistics.max)
    table = ours[0].table.astype(str)
    beyond = []
    for one in ours:
        metadata = pq.ParquetFile(BytesIO(one.files["data.parquet"])).metadata
        for group in range(metadata.num_row_groups):
            for place in range(metadata.num_columns):
                column = metadata.row_group(group).column(place)
                values = set(table[column.path_in_schema])
                if column.statistics is not None and column.statistics.has_min_max:
                    beyond += [x for x in (column.statistics.min, column.statistics.max) if str(x) not in values]
        beyond += [] if metadata.metadata in (None, {}) else ["a note in the file's metadata"]
    return Exhibit(
        name="parquet-statistics",
        title="Parquet statistics",
        other_way="the writer adds the least and greatest value of each column, of the row numbers too",
        from_other=f"the greatest row number is {largest} of {size}: a lower bound on how many were read, "
        f"without reading "
        "a row",
        from_ours=f"all statistics are of published values, and the file has no notes; {len(beyond)} exceptions",
        other_betrays=largest > 0.9 * size,
        ours_betrays=bool(beyond),
    )


def _seconds_until_written(lines: list[str]) -> float:
    """From the beginning of the usual pipeline's work to the time that its file bears."""
    with NamedTemporaryFile(suffix=".parquet") as file:
        began = time.time()
        Path(file.name).write_bytes(Usual.of(lines).parquet)
        return Path(file.name).stat().st_mtime - began


def _times(lines: list[str], ours: list[Ours]) -> Exhibit:
    began = datetime.now(UTC)
    took = [_seconds_until_written(lines * factor) for factor in (1, 50)]
    rows = [len(lines), 50 * len(lines)]
    stamps = {stamp for one in ours for stamp in one.times.values()}
    whole_days = all(stamp % 86_400 == 0 for stamp in stamps)
    return Exhibit(
        name="file-times",
        title="Times of files",
        other_way="the file bears the time at which it was written",
        from_other=f"written {took[0] * 1000:.0f} ms after its work began with {rows[0]:,} records and "
        f"{took[1] * 1000:.0f} ms with {rows[1]:,}: the time follows the number of records",
        from_ours=f"every file and the folder bear the beginning of the day of the charge "
        f"({', '.join(sorted({datetime.fromtimestamp(stamp, UTC).isoformat() for stamp in stamps}))}), set "
        f"before a record is "
        f"read; today is {began.date()}",
        other_betrays=took[1] > took[0],
        ours_betrays=not whole_days,
    )


def _digest(lines: list[str], ours: Ours) -> Exhibit:
    guesses = {"not there": lines} | {
        f"{colour}, {age}": [*lines, f"{colour},{age}"] for colour in ("blue", "red", RARE) for age in range(100)
    }
    digests = {
        hashlib.sha256(("colour,age\n" + "\n".join(guess) + "\n").encode()).hexdigest(): name
        for name, guess in guesses.items()
    }
    bare = hashlib.sha256(("colour,age\n" + "\n".join([*lines, f"{RARE},88"]) + "\n").encode()).hexdigest()
    public = ours.files["certificate.json"].decode() + ours.ledger + json.dumps(sorted(ours.files))
    seen = set(re.findall(r"[0-9a-f]{64}", public))
    return Exhibit(
        name="bare-digest",
        title="A bare digest of the input",
        other_way="the SHA-256 of the input file is published, to show later which data were used",
        from_other=f"of {len(guesses)} guesses one has that digest: the person is “{digests[bare]}”",
        from_ours=f"of {len(seen)} digests in certificate and ledger, {len(seen & digests.keys())} are of a guess: "
        "fingerprints of inputs are keyed and stay in the private store",
        other_betrays=bare in digests,
        ours_betrays=bool(seen & digests.keys()),
    )
