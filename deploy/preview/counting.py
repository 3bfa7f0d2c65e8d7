"""Where a crowd comes from: public or synthetic records, or the table of a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ...accounting.ledger.certificate import read_certificate, verify_certificate
from ...accounting.theory.price import mechanism_of_record
from ...flows.releases.kind import TableReading, Untold
from ...flows.releases.registry import kind_of_mechanism
from ...mechanisms.hierarchy import Hierarchy
from ...mechanisms.lattice import Levels
from ...mechanisms.map_choice import MapChoice
from ...mechanisms.recoding import GeneralizationMap, MappedColumn
from ...mechanisms.refusal import InputRefused, ReleaseFailed
from ...tasks.chunks import plan_chunks
from ...tasks.count import count_job, group_counts
from ...tasks.executors import LocalThreads
from ...tasks.request import Request
from ...tasks.source import check_metadata, list_source
from .crowd import Crowd
from .innocence import require_public

__all__ = ["crowd_of_records", "crowd_of_release"]

MOST_LABELS = 5_000_000
NOT_DONE = "Nothing was previewed."


def crowd_of_records(
    request: Request, source: str, *, separator: str | None, population: int | None, home: Path
) -> Crowd:
    """Count public or synthetic records.

    Args:
        request: the specification whose release is foretold.
        source: file, folder, glob or URL of the records, seen from the working folder.
        separator: of CSV; None is the specification's.
        population: how many people the private records are of, where that is public; None takes these for as many.
        home: the private store, which knows what was released.

    Raises:
        InputRefused: the records are private by what metadata tell, or can't be read, or there are none.
    """
    reading = request.reading if separator is None else replace(request.reading, separator=separator)
    names, hierarchies, base = _columns(request)
    layout = check_metadata(list_source(source, base=Path.cwd()), columns=names, reading=reading)
    remark = require_public(layout, request, home=home)
    mapped = _map(names, hierarchies, base)
    job = count_job(
        release_id="preview",
        sample_id=None,
        generalization=mapped,
        rate=None,
        reading=reading,
        key_source=None,
    )
    try:
        counts = group_counts(plan_chunks(layout), job=job, executor=LocalThreads())
    except ReleaseFailed as failed:
        raise InputRefused(failed.what, where=failed.where, not_done=NOT_DONE) from None
    records = int(counts.counts.sum())
    if records == 0:
        raise InputRefused("there are no records.", where=source, not_done=NOT_DONE)
    scale = 1.0 if population is None else population / records
    remarks = [remark] if remark else []
    if scale > 1.0:
        remarks.append(
            f"Each record stands for {scale:.3g} people. Combinations that these records happen not to have are "
            "missing, so more will be suppressed than is foretold here."
        )
    return Crowd(
        names=names,
        hierarchies=hierarchies,
        base=base,
        codes=tuple(mapped.decode(counts.keys)),
        counts=counts.counts,
        scale=scale,
        told=f"{records:,} public or synthetic records ({source})",
        remarks=tuple(remarks),
    )


def crowd_of_release(request: Request, folder: Path) -> Crowd:
    """Take the groups of a release that was published, a noisy histogram's too, at its levels.

    Args:
        request: the specification whose release is foretold.
        folder: the release.

    Raises:
        InputRefused: it is of answers, has other columns or hierarchies, or publishes nothing.
        ReleaseFailed: its certificate does not verify.
    """
    path = folder / "certificate.json"
    check = verify_certificate(path, trusted=None)
    if check.findings:
        raise ReleaseFailed(
            f"the certificate does not verify: {check.findings[0]}.", where=str(path), not_done=NOT_DONE
        )
    certificate = read_certificate(path)
    mechanism = mechanism_of_record(certificate["mechanism"])
    reading = kind_of_mechanism(mechanism).sheet(mechanism, certificate["published"]["form"])
    if isinstance(reading, Untold):
        raise InputRefused(f"nothing is foretold from {reading.named()}.", where=str(folder), not_done=NOT_DONE)
    if reading.shape == "answers":
        raise InputRefused("answers have no groups to look at.", where=str(folder), not_done=NOT_DONE)
    names, hierarchies, finest = _columns(request)
    base = _levels_of_release(names, hierarchies, certificate, folder)
    table = _table(folder, names)
    mapped = _map(names, hierarchies, base)
    codes = [_codes(table.column(name), column, folder) for name, column in zip(names, mapped.columns, strict=True)]
    counts = np.maximum(table.column("count").to_numpy(), 0).astype(np.int64)
    if not counts.sum():
        raise InputRefused("this release publishes no record.", where=str(folder), not_done=NOT_DONE)
    scale = 1.0 if reading.rate is None else 1.0 / float(reading.rate)
    return Crowd(
        names=names,
        hierarchies=hierarchies,
        base=base,
        codes=tuple(codes),
        counts=counts,
        scale=scale,
        told=f"the release {certificate['release_id']} ({certificate['name']}), {counts.sum():,} records as published",
        remarks=tuple(_remarks(reading, finest=finest, base=base)),
    )


def _remarks(reading: TableReading, *, finest: Levels, base: Levels) -> list[str]:
    told = []
    if reading.noise is not None:
        told.append("Its counts have noise; those below 0 were taken for 0.")
    else:
        told.append(
            "What that release suppressed is missing here, so more will be suppressed than is foretold, above all at "
            "its own levels."
        )
    if any(published > wanted for published, wanted in zip(base, finest, strict=True)):
        told.append("Levels finer than that release's can't be foretold from it.")
    return told


def _columns(request: Request) -> tuple[tuple[str, ...], tuple[Hierarchy, ...], Levels]:
    """Names, hierarchies, and the finest levels that are asked about."""
    recoding = request.recoding
    hierarchies = tuple(column.hierarchy for column in recoding.columns)
    finest = recoding.lattice.finest if isinstance(recoding, MapChoice) else tuple(0 for _ in hierarchies)
    return recoding.names, hierarchies, finest


def _map(names: tuple[str, ...], hierarchies: tuple[Hierarchy, ...], levels: Levels) -> GeneralizationMap:
    return GeneralizationMap(
        columns=tuple(
            MappedColumn(name=name, hierarchy=hierarchy, level=level)
            for name, hierarchy, level in zip(names, hierarchies, levels, strict=True)
        )
    )


def _levels_of_release(
    names: tuple[str, ...], hierarchies: tuple[Hierarchy, ...], certificate: Mapping[str, Any], folder: Path
) -> Levels:
    published = {column["column"]: column for column in certificate["map"]["columns"]}
    levels = []
    for name, hierarchy in zip(names, hierarchies, strict=True):
        column = published.get(name)
        if column is None:
            raise InputRefused(f"that release has no column {name!r}.", where=str(folder), not_done=NOT_DONE)
        if column["hierarchy_sha256"] != hierarchy.digest():
            raise InputRefused(
                f"the column {name!r} has another hierarchy there, so its labels mean something else.",
                where=str(folder),
                not_done=NOT_DONE,
            )
        levels.append(int(column["level"]))
    return tuple(levels)


def _table(folder: Path, names: tuple[str, ...]) -> pa.Table:
    """Each published group of some columns with its count."""
    try:
        if (folder / "data.parquet").exists():
            table = pq.read_table(folder / "data.parquet")
        else:
            table = pa.csv.read_csv(
                folder / "data.csv",
                convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
    except (OSError, pa.ArrowException) as error:
        raise InputRefused(f"its table can't be read ({type(error).__name__}).", where=str(folder)) from None
    if "count" not in table.column_names:
        table = table.append_column("count", pa.array(np.ones(table.num_rows, dtype=np.int64)))
    columns = [table.column(name).cast(pa.string()).combine_chunks() for name in names]
    plain = pa.table([*columns, table.column("count").cast(pa.int64())], names=[*names, "count"])
    return plain.group_by(list(names)).aggregate([("count", "sum")]).rename_columns([*names, "count"])


def _codes(labels: pa.ChunkedArray, column: MappedColumn, folder: Path) -> np.ndarray[Any, np.dtype[np.int64]]:
    if column.size > MOST_LABELS:
        raise InputRefused(f"the column {column.name!r} has more than {MOST_LABELS} labels.", where=str(folder))
    known = column.hierarchy.labels(np.arange(column.size, dtype=np.int64), column.level)
    code_of = {label: code for code, label in enumerate(known)}
    try:
        return np.array([code_of[label] for label in labels.to_pylist()], dtype=np.int64)
    except KeyError:
        raise InputRefused(
            f"the column {column.name!r} has labels that are not of its hierarchy.", where=str(folder)
        ) from None
