"""Fuzz targets for what a release is asked for with and made from: requests, hierarchies, records among them."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from crowdblend.deploy.commands.request_commands import asked_lines
from crowdblend.flows.prepare import prepare
from crowdblend.flows.request_files import Source, answering_tables, answering_text, read_request_file
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import STEERING, InputRefused, Refusal, ReleaseFailed
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.sampling import sample_commitment
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.group_counting import count_job, group_counts
from crowdblend.tasks.inputs.hierarchy_files import read_hierarchy
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.readers.values import RecordReading

from .desk import Fault, Run, plain_desk

READING = RecordReading(separator=";")

__all__ = ["KEY", "csv_records", "hierarchy", "parquet_records", "request", "specification"]


class KeyInMemory:
    """A sampling key for a count without a private store."""

    def load(self) -> bytes:
        return KEY


KEY = bytes(range(32))
MAP = GeneralizationMap(
    columns=(
        MappedColumn(name="letter", hierarchy=ValueHierarchy.from_values(["a", "b", "a;b", 'q"', "é"]), level=0),
        MappedColumn(name="number", hierarchy=IntervalHierarchy(lower=0, upper=20, widths=(5,)), level=0),
    )
)
MOST_RECORDS = 100_000


def specification(folder: Path) -> Run:
    """Everything up to the charge: refused in words, or accepted; nothing is charged, drawn or written."""
    desk = plain_desk(folder)
    files = desk.files() | {"spec.toml"}

    def run(content: bytes) -> None:
        (folder / "spec.toml").write_bytes(content)
        before = desk.head()
        with (
            contextlib.suppress(Refusal),
            prepare(folder / "spec.toml", state_paths=desk.state_paths, output=None, release_id=None) as prepared,
        ):
            if prepared.request.price.epsilon <= 0:
                raise Fault("a release for nothing")
        if set(desk.kinds(after=before)) - {"release-refused/1"}:
            raise Fault(f"the ledger grew by {desk.kinds(after=before)}")
        if desk.sampling_keys():
            raise Fault("a sampling key was drawn")
        if desk.files() - files:
            raise Fault(f"left behind: {sorted(desk.files() - files)[:3]}")

    return run


def request(folder: Path) -> Run:
    """A request is refused in words, or its specification, read from what is written, asks for what was checked."""
    plain_desk(folder)
    columns = {"town": {"hierarchy": "towns.csv", "level": 1}}
    data = {"dataset": "people", "source": "people.csv", "separator": ";", "null": ["", 'a"\\\x7f']}
    source = Source(path=folder / "spec.toml", data=data, columns=columns)

    def run(content: bytes) -> None:
        (folder / "request.toml").write_bytes(content)
        with contextlib.suppress(Refusal):
            asked = read_request_file(folder / "request.toml")
            tables, checked = answering_tables(asked, source, relation="add/remove", epsilon=None)
            (folder / "answer.toml").write_text(answering_text(asked, tables), encoding="utf-8")
            if any(STEERING.search(line) or "\n" in line for line in asked_lines(asked, checked)):
                raise Fault("a request steers the terminal")
            try:
                read = read_spec(folder / "answer.toml", output=None)
            except Refusal as refusal:
                raise Fault(f"its specification is refused: {refusal.what}") from None
            if read.digest != checked.digest or read.price.epsilon <= 0:
                raise Fault("its specification asks for something else")

    return run


def hierarchy(folder: Path) -> Run:
    """A hierarchy's file is refused in words, or is total: every value and every unseen one has a label."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "hierarchy.csv"

    def run(content: bytes) -> None:
        path.write_bytes(content)
        try:
            read = read_hierarchy(str(path))
        except InputRefused:
            return
        if read.levels < 2:
            raise Fault("a hierarchy without a level")
        for level in range(read.levels):
            codes = read.codes_of_texts([b"never declared", b"", b"\xff"], level)
            labels = read.labels(codes, level)
            if len(labels) != 3 or not all(isinstance(label, str) for label in labels):
                raise Fault("an unseen value has no label")

    return run


def _counted(path: Path, *, sampled: bool) -> tuple[GroupCounts, int | None] | None:
    """The counts of a source, and its records by its footers; None where its metadata are refused."""
    try:
        layout = check_metadata(list_source(str(path), base=path.parent), columns=MAP.names, reading=READING)
    except InputRefused:
        return None
    if (layout.records or 0) > MOST_RECORDS:  # a damaged footer may promise anything
        return None
    job = count_job(
        release_id="fuzz",
        sample_id=sample_commitment(KEY) if sampled else None,
        generalization=MAP,
        rate=Decimal("0.5") if sampled else None,
        reading=READING,
        key_source=KeyInMemory() if sampled else None,
    )
    return group_counts(plan_chunks(layout), job=job, executor=LocalThreads(workers=1)), layout.records


def csv_records(folder: Path) -> Run:
    """The parser is total: after the header every record that is not empty is one, whatever is in it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "records.csv"

    def run(content: bytes) -> None:
        path.write_bytes(content)
        counted = _counted(path, sampled=False)
        if counted is None:
            return
        expected = sum(1 for record in _records(content.removeprefix(b"\xef\xbb\xbf"))[1:] if record)
        if int(counted[0].counts.sum()) != expected:
            raise Fault(f"{counted[0].counts.sum()} records of {expected}")
        sampled = _counted(path, sampled=True)
        if sampled is None or int(sampled[0].counts.sum()) > expected:
            raise Fault("a sample larger than what it is of")

    return run


def _records(content: bytes) -> list[bytes]:
    """The records, header and empty ones included, one byte at a time: a quote opens a field at its beginning alone."""
    records, begun, fresh, quoted = [], 0, True, False
    for place, byte in enumerate(content):
        if quoted:
            quoted, fresh = byte != ord('"'), True
        elif byte == ord('"') and fresh:
            quoted = True
        elif byte == ord("\n"):
            records.append(content[begun:place].removesuffix(b"\r"))
            begun, fresh = place + 1, True
        else:
            fresh = byte == ord(";")
    return [*records, content[begun:].removesuffix(b"\r")]


def parquet_records(folder: Path) -> Run:
    """A damaged file is refused before the charge, fails in words after it, or is read whole."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "records.parquet"

    def run(content: bytes) -> None:
        path.write_bytes(content)
        for sampled in (True, False):
            try:
                counted = _counted(path, sampled=sampled)
            except ReleaseFailed:
                continue
            if counted is not None and not sampled and int(counted[0].counts.sum()) != counted[1]:
                raise Fault(f"{counted[0].counts.sum()} records of {counted[1]}")

    return run


def sound_parquet(*, records: int = 60, **writing: object) -> bytes:
    """A small sound file."""
    rng = np.random.default_rng(5)
    letters = np.array(["a", "b", "é", "zz"], dtype=object)[rng.integers(0, 4, records)]
    numbers = rng.integers(-3, 25, records)
    table = pa.table({"letter": pa.array(letters, mask=rng.random(records) < 0.2), "number": numbers, "other": numbers})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **({"row_group_size": 40, "compression": "none"} | writing))
    return bytes(sink.getvalue())
