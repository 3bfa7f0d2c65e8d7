"""The CSV parser is total, and agrees with a reader of one byte at a time for any range, window, bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, Coins, kept_positions
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.quote_states import with_quote_states
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.readers import csv_header, csv_quotes, csv_records
from crowdblend.tasks.readers.column_codes import ColumnCoder
from crowdblend.tasks.readers.csv_header import LINE_LIMIT, CsvChunk
from crowdblend.tasks.readers.csv_quotes import split_line
from crowdblend.tasks.readers.csv_records import CSV, keys_of_range
from crowdblend.tasks.readers.file_formats import AskedColumns
from crowdblend.tasks.readers.values import RecordReading
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.coins import coins_of

csv_decoder, page_decoder = csv_records.csv_decoder, csv_records.page_decoder
needs_compiler = pytest.mark.skipif(csv_decoder is None, reason="installed without a compiler")
KEY = bytes(range(32))
RATE = Decimal("0.5")
NULLS = ("", "3")
READING = RecordReading(separator=";", null_values=NULLS)
MAP = GeneralizationMap(
    columns=(
        MappedColumn(name="letter", hierarchy=ValueHierarchy.from_values(["a", "b", "a;b", 'q"', "é"]), level=0),
        MappedColumn(name="number", hierarchy=IntervalHierarchy(lower=0, upper=20, widths=(5,)), level=0),
    )
)
HEADER = b"number;other;letter\n"


def coders() -> list[ColumnCoder]:
    return [
        ColumnCoder(column=column, placement=place, reading=READING)
        for column, place in zip(MAP.columns, MAP.placements, strict=True)
    ]


def ranges_of(path: Path, *, range_bytes: int, reading: RecordReading = READING) -> tuple[CsvChunk, ...]:
    layout = CSV.layout(str(path), AskedColumns(names=MAP.names, reading=reading))
    [file] = list_source(str(path), base=path).files
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_header, "RANGE_BYTES", range_bytes)
        ranges = layout.chunks(file, 0, CSV)
    return with_quote_states(ranges, executor=LocalThreads(workers=1))


def parsed(
    path: Path,
    *,
    range_bytes: int,
    record_limit: int = LINE_LIMIT,
    window: int = 1 << 20,
    reading: RecordReading = READING,
) -> Counter:
    """What the parser makes of a file: (block, letter, number) → sampled records."""
    found: Counter = Counter()
    task_coders = coders()  # which remember the fields of the ranges before
    for chunk in ranges_of(path, range_bytes=range_bytes, reading=reading):
        coins = Coins(key=KEY, chunk=chunk.identity, rate=RATE)
        for keys in keys_of_range(
            chunk, coders=task_coders, key_words=MAP.key_words, coins=coins, record_limit=record_limit, window=window
        ):
            found.update(labelled(keys, chunk.identity.block))
    return found


def labelled(keys: np.ndarray, block: int) -> list[tuple]:
    columns = zip(MAP.columns, MAP.decode(keys), strict=True)
    return [
        (block, *labels) for labels in zip(*(c.hierarchy.labels(codes, c.level) for c, codes in columns), strict=True)
    ]


def reference(content: bytes, *, range_bytes: int, record_limit: int = LINE_LIMIT, quoting: str = "rfc4180") -> Counter:
    """The same by one byte at a time, with parsers written as state machines over single bytes."""
    records: dict[int, list[tuple]] = {}
    offset = 0
    for number, record in enumerate(records_of(content) if quoting == "rfc4180" else content.split(b"\n")):
        text = record[:-1] if record.endswith(b"\r") else record
        if number and text:
            fields = machine(text) if quoting == "rfc4180" else text.split(b";")
            unseen = len(record) > record_limit or fields is None or len(fields) != 3
            row = ("*", "*") if unseen else (letter_of(fields[2]), number_of(fields[0]))
            records.setdefault(offset // range_bytes, []).append(row)
        offset += len(record) + 1
    found: Counter = Counter()
    for block, rows in records.items():
        kept = kept_positions(key=KEY, chunk=ChunkIdentity(file=0, block=block), records=len(rows), rate=RATE)
        found.update((block, *rows[position]) for position in kept)
    return found


def records_of(content: bytes) -> list[bytes]:
    """The records, each without its line feed: a quote opens a field only at its very beginning."""
    records, begun, state = [], 0, "start"
    for place, octet in enumerate(content):
        byte = bytes([octet])
        if state == "quoted":
            state = "after" if byte == b'"' else "quoted"
        elif byte == b'"' and state in ("start", "after"):
            state = "quoted"
        elif byte == b"\n":
            records.append(content[begun:place])
            begun, state = place + 1, "start"
        else:
            state = "start" if byte == b";" else "plain"
    return [*records, content[begun:]]


def machine(text: bytes) -> list[bytes] | None:
    fields, field, state = [], bytearray(), "start"
    for octet in text:
        byte = bytes([octet])
        if state == "start" and byte == b'"':
            state = "quoted"
        elif state == "quoted":
            if byte == b'"':
                state = "after"
            else:
                field += byte
        elif state == "after" and byte == b'"':
            field += byte
            state = "quoted"
        elif byte == b";":
            fields.append(bytes(field))
            field, state = bytearray(), "start"
        elif state == "after":
            return None
        else:
            field += byte
            state = "plain"
    fields.append(bytes(field))
    return None if state == "quoted" else fields


def letter_of(field: bytes) -> str:
    known = {b"a": "a", b"b": "b", b"a;b": "a;b", b'q"': 'q"', "é".encode(): "é"}
    return known.get(field, "*")


def number_of(field: bytes) -> str:
    try:
        value = int(field.decode("ascii"))
    except ValueError:
        return "*"
    if str(value).encode() != field or field.decode() in NULLS:
        return "*"
    return "< 0" if value < 0 else ">= 20" if value >= 20 else str(value)


PIECES = [
    b"a", b"b", b"1", b"3", b"12", b"-4", b"99", b"+1", b"01", b";", b"\n", b"\r", b'"', b"\0", b"\xff",
    "é".encode(), b"1;x;a\n", b'"12";x;"b"\r\n', b'7;"a;""b";"a;b"\n', b'1;;"q"""\n', b'"1"2;;a\n',
    b"\xef\xbb\xbf", b'""', b';"', b'";', b'"\n', b'\n"', b'"1\n2";"x\r\ny";a\n', b'1;"x;""\ny""";"a;b"\r\n', b'5"\n',
]  # fmt: skip


@settings(derandomize=True, max_examples=300)
@given(
    body=st.one_of(st.binary(max_size=120), st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)),
    quoting=st.sampled_from(["rfc4180", "none"]),
    range_bytes=st.integers(1, 60),
    window=st.integers(1, 70),
    record_limit=st.integers(3, 40),
    compiled=st.booleans(),
)
@example(body=b"", quoting="rfc4180", range_bytes=7, window=7, record_limit=9, compiled=True)
@example(body=b"1;x;a", quoting="rfc4180", range_bytes=7, window=7, record_limit=9, compiled=True)
@example(body=b"1;x;a\r", quoting="rfc4180", range_bytes=7, window=7, record_limit=9, compiled=True)
@example(body=b"\n\r\n1;x;a\n\n", quoting="none", range_bytes=7, window=7, record_limit=9, compiled=True)
def test_any_bytes_ranges_and_windows_agree_with_one_byte_at_a_time(
    tmp_path_factory, body, quoting, range_bytes, window, record_limit, compiled
):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(HEADER + body)
    expected = reference(HEADER + body, range_bytes=range_bytes, record_limit=record_limit, quoting=quoting)
    reading = replace(READING, quoting=quoting)
    with pytest.MonkeyPatch.context() as patched:
        if not compiled:
            without_compiler(patched)
        found = parsed(path, range_bytes=range_bytes, window=window, record_limit=record_limit, reading=reading)
    assert found == expected


def without_compiler(patched: pytest.MonkeyPatch) -> None:
    for module in (csv_records, csv_quotes):
        patched.setattr(module, "csv_decoder", None)


@needs_compiler
@pytest.mark.parametrize("quoted", [True, False])
def test_every_record_of_a_few_bytes_has_the_codes_of_its_fields_or_is_left(quoted):
    """Exhaustive: what is added is what splitting a record alone finds, and what has no quote is never left."""
    texts = [bytes(letters) for length in range(4) for letters in product(b'"a;', repeat=length)]
    known = {text: place + 1 for place, text in enumerate(texts)}
    index = page_decoder.entry_index(known)
    for record in (bytes(letters) for length in range(7) for letters in product(b'"a;', repeat=length)):
        for fields in (1, 2, 3):
            sums = np.zeros((fields, 1), dtype=np.int64)
            columns = [(field, index, sums[field]) for field in range(fields)]
            text = b"a;" + record + b"a"
            ends = arrays(2 + len(record))
            left = csv_decoder.add_known_fields(text, arrays(2), ends, ord(";"), quoted, fields, columns)
            split = split_line(record, b";") if quoted else record.split(b";")
            right = split is not None and len(split) == fields and all(field in known for field in split)
            if left == b"\0":
                assert right, record
                assert sums[:, 0].tolist() == [known[field] for field in split], record
            else:
                assert left == b"\1"
                assert not sums.any()
                assert not right or (quoted and b'"' in record), record


def arrays(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


@needs_compiler
@pytest.mark.parametrize(
    ("starts", "ends", "fields", "positions"),
    [
        (arrays(0), arrays(6), 1, [0]),  # beyond the text
        (arrays(-1), arrays(2), 1, [0]),
        (arrays(3), arrays(2), 1, [0]),
        (arrays(0, 1), arrays(2), 1, [0]),
        (arrays(0), arrays(5), 0, []),
        (arrays(0), arrays(5), 2, [2]),
        (arrays(0), arrays(5), 2, [-1]),
        (arrays(0), arrays(5), 2, [1, 1]),
    ],
)
def test_what_does_not_fit_its_buffers_is_refused(starts, ends, fields, positions):
    index = page_decoder.entry_index({b"a": 1})
    columns = [(position, index, np.zeros(1, dtype=np.int64)) for position in positions]
    with pytest.raises(ValueError, match=r"lies outside|do not fit"):
        csv_decoder.add_known_fields(b"a;b;c", starts, ends, ord(";"), True, fields, columns)
    with pytest.raises(ValueError, match="do not fit"):
        csv_decoder.add_known_fields(b"a", arrays(0), arrays(1), 59, True, 1, [(0, index[:-40], arrays(0))])


def everything(path: Path) -> list[tuple]:
    """Labels of all records of a file, in the order of the file, at a rate just below one."""
    planned = plan_chunks(check_metadata(list_source(str(path), base=path), columns=MAP.names, reading=READING))
    chunks = with_quote_states(planned, executor=LocalThreads(workers=1))
    found: list[tuple] = []
    for chunk in chunks:
        for _, keys in CSV.keys([chunk], coders=coders(), key_words=MAP.key_words, coins=coins_of(KEY, ALL)):
            found.extend(row[1:] for row in labelled(keys, 0))
    return found


ALL = Decimal(1) - Decimal("1e-19")


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"5;;a", ("a", "5")),
        (b'"5";"x;""y";"a;b"', ("a;b", "5")),
        (b'5;;"q"""', ('q"', "5")),
        (b'5;;q"', ('q"', "5")),
        ("5;;é".encode(), ("é", "5")),
        (b"5;\xff;a", ("a", "5")),
        (b"5;;\xe9", ("*", "5")),
        (b"5;;a\0", ("*", "5")),
        (b"5\r;;a", ("a", "*")),
        (b"05;;a", ("a", "*")),
        (b"-7;;b", ("b", "< 0")),
        (b"9" * 5000 + b";;b", ("b", ">= 20")),
        (b";;", ("*", "*")),
        (b"3;;a", ("a", "*")),
        (b"5;a", ("*", "*")),
        (b"5;;a;", ("*", "*")),
        (b'5;"x"y;a', ("*", "*")),
        (b"5;" + b"x" * LINE_LIMIT + b";a", ("*", "*")),
        (b"5;" + b"x" * (LINE_LIMIT - 5) + b";a", ("a", "5")),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_bad_line_changes_its_own_record_alone(tmp_path, line, row):
    path = tmp_path / "one.csv"
    path.write_bytes(HEADER + b"1;;a\n" + line + b"\r\n2;;b\n")
    assert sorted(everything(path)) == sorted([("a", "1"), row, ("b", "2")])


def test_a_file_without_records_is_empty_and_a_last_line_needs_no_break(tmp_path):
    path = tmp_path / "few.csv"
    for body, rows in ((b"", 0), (b"\n\r\n\n", 0), (b"1;;a", 1), (b"\r\n1;;a\r", 1)):
        path.write_bytes(HEADER + body)
        assert everything(path) == [("a", "1")] * rows
