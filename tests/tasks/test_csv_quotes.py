"""A record is a record, however many lines its quoted fields have and wherever the file is cut."""

from __future__ import annotations

import csv
import io
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.tasks.counting import quote_states
from crowdblend.tasks.counting.executors import DaskCluster, LocalProcesses, LocalThreads
from crowdblend.tasks.counting.group_counting import count_job, group_counts
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.readers import csv_header, csv_quotes, csv_records
from crowdblend.tasks.readers.csv_quotes import Quotes, QuoteState, transition_over
from crowdblend.tasks.readers.values import RecordReading
from hypothesis import given, settings
from hypothesis import strategies as st
from support.coins import every_record

SEXES = GeneralizationMap(
    columns=(MappedColumn(name="sex", hierarchy=ValueHierarchy.from_values(["F", "M"]), level=0),)
)
READING = RecordReading()


def counted(path: Path, *, generalization=SEXES, reading=READING, executor=None) -> Counter:
    """Labels of all records of the files at a path, as a release counts them."""
    executor = executor or LocalThreads(workers=2)
    layout = check_metadata(list_source(str(path), base=path.parent), columns=generalization.names, reading=reading)
    job = count_job(
        release_id="r", sample_id=None, generalization=generalization, rate=None, reading=reading, key_source=None
    )
    groups = group_counts(plan_chunks(layout), job=job, executor=executor)
    columns = zip(generalization.columns, generalization.decode(groups.keys), strict=True)
    labels = zip(*(column.hierarchy.labels(codes, column.level) for column, codes in columns), strict=True)
    return Counter(dict(zip(labels, groups.counts.tolist(), strict=True)))


def many_lines(path: Path, *, records: int) -> None:
    path.write_bytes(b"sex,note\n" + b'F,"first line\nM,second line 0"\n' * records)


def test_a_quoted_field_of_two_lines_is_one_record_and_nobody_is_invented(tmp_path):
    path = tmp_path / "notes.csv"
    many_lines(path, records=8_000)
    assert counted(path) == {("F",): 8_000}


def test_with_quoting_none_every_line_is_a_record_and_quotes_are_characters(tmp_path):
    path = tmp_path / "lines.csv"
    path.write_bytes(b'sex,note\nF,"x\nM,y"\n"F",z\n')
    assert counted(path, reading=RecordReading(quoting="none")) == {("F",): 1, ("M",): 1, ("*",): 1}


def test_a_range_whose_quotes_were_not_followed_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "notes.csv"
    many_lines(path, records=10)
    monkeypatch.setattr(csv_header, "RANGE_BYTES", 33)
    layout = check_metadata(list_source(str(path), base=tmp_path), columns=["sex"], reading=READING)
    with pytest.raises(ReleaseFailed, match="cannot be read"):
        list(csv_records.CSV.keys([plan_chunks(layout)[1]], coders=[], key_words=1, coins=every_record))


@pytest.mark.slow
def test_processes_and_a_cluster_count_what_threads_count(tmp_path, monkeypatch):
    from distributed import Client, LocalCluster

    path = tmp_path / "notes.csv"
    many_lines(path, records=100)
    monkeypatch.setattr(csv_header, "RANGE_BYTES", 997)
    assert counted(path, executor=LocalProcesses(workers=2)) == {("F",): 100}
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        assert counted(path, executor=DaskCluster(client=client)) == {("F",): 100}


def test_every_text_of_a_few_bytes_is_followed_as_one_byte_at_a_time():
    """Exhaustive: all texts of up to five bytes, from every state, split at every place."""
    for length in range(6):
        for letters in product(b'"a,\n', repeat=length):
            text = bytes(letters)
            whole = Quotes(np.frombuffer(text, dtype=np.uint8), separator=b",")
            for begun in QuoteState:
                state, ends = begun, []
                for place in range(length):
                    if text[place : place + 1] == b"\n" and state is not QuoteState.QUOTED:
                        ends.append(place)
                    state = stepped(state, text[place : place + 1])
                assert whole.transition().after(begun) is state, text
                assert whole.record_ends(begun).tolist() == ends, text
            cut = length // 2
            parts = transition_over(text[:cut], separator=b",").then(transition_over(text[cut:], separator=b","))
            assert parts == transition_over(text, separator=b","), text


@pytest.mark.skipif(csv_quotes.csv_decoder is None, reason="installed without a compiler")
@pytest.mark.parametrize("letters", [b'"a,\n', b'aaaa"",\n', b'aaaaaaaaaaaaaaaa"', b'"'])
def test_the_compiled_follower_says_what_numpy_says(monkeypatch, letters):
    """Of texts of some words of 64 bytes, which no state crosses alike."""
    rng = np.random.default_rng(len(letters))
    lengths = [*range(1, 8), *range(60, 70), *range(126, 131), 500]
    texts = [rng.choice(np.frombuffer(letters, dtype=np.uint8), length) for length in lengths for _ in range(5)]

    def followed() -> list:
        found = []
        for text in texts:
            quotes = Quotes(text, separator=b",")
            found.append((quotes.transition(), [quotes.record_ends(state).tolist() for state in QuoteState]))
        return found

    compiled = followed()
    monkeypatch.setattr(csv_quotes, "csv_decoder", None)
    assert followed() == compiled


def stepped(state: QuoteState, byte: bytes) -> QuoteState:
    if state is QuoteState.QUOTED:
        return QuoteState.FRESH if byte == b'"' else QuoteState.QUOTED
    if byte in (b",", b"\n"):
        return QuoteState.FRESH
    return QuoteState.QUOTED if byte == b'"' and state is QuoteState.FRESH else QuoteState.PLAIN


TEXTS = st.lists(st.sampled_from(["F", "M", '"', ",", "\n", "\r\n", " ", "é", '""', "x"]), max_size=6).map("".join)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from(["F", "M", ""])), max_size=30)
THREE = GeneralizationMap(
    columns=(
        MappedColumn(name="a", hierarchy=ValueHierarchy.from_values(["F", "M", ",", '"', '""', "x,F"]), level=0),
        *SEXES.columns,
    )
)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(rows=ROWS, quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), line=st.sampled_from(["\n", "\r\n"]),
       range_bytes=st.integers(9, 200))  # fmt: skip
def test_what_pythons_csv_writes_is_read_as_it_and_pandas_read_it(tmp_path_factory, rows, quoting, line, range_bytes):
    path = tmp_path_factory.getbasetemp() / "written.csv"
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting, lineterminator=line)
    writer.writerow(["a", "b\nc", "sex"])
    writer.writerows(rows)
    path.write_bytes(text.getvalue().encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_header, "RANGE_BYTES", range_bytes)
        found = counted(path, generalization=THREE)
    known = {"F", "M", ",", '"', '""', "x,F"}
    expected = Counter((a if a in known else "*", sex or "*") for a, _, sex in rows)
    assert found == expected
    with path.open(newline="", encoding="utf-8") as file:
        assert [tuple(row) for row in csv.reader(file)][1:] == rows
    read = pd.read_csv(path, dtype=str, keep_default_na=False, lineterminator="\n" if line == "\n" else None)
    assert list(read["sex"]) == [sex for _, _, sex in rows]


@settings(derandomize=True, max_examples=150, deadline=None)
@given(body=st.lists(st.sampled_from(['"', "a", ",", "\n", '""', "F\n", '5"', 'x"y']), max_size=30).map("".join))
def test_improper_quotes_part_records_as_pythons_csv_parts_them(tmp_path_factory, body):
    """However quotes stand, records end where `csv` ends them; what cannot be split is the unseen record."""
    path = tmp_path_factory.getbasetemp() / "improper.csv"
    path.write_bytes(b"sex,note\n" + body.encode())
    with path.open(newline="", encoding="utf-8") as file:
        expected = sum(1 for row in list(csv.reader(file))[1:] if row)
    assert sum(counted(path).values()) == expected


def test_a_quote_that_is_never_closed_makes_one_record_of_the_rest_in_bounded_memory(tmp_path, monkeypatch):
    path = tmp_path / "open.csv"
    path.write_bytes(b'sex,note\nF,x\nM,"never closed\n' + b"F,y\n" * 100_000)
    monkeypatch.setattr(csv_header, "RANGE_BYTES", 50_000)
    monkeypatch.setattr(csv_records, "LINE_LIMIT", 10_000)
    monkeypatch.setattr(csv_records, "_WINDOW_BYTES", 20_000)
    assert counted(path) == {("F",): 1, ("*",): 1}


@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_with_one_column_an_empty_line_is_a_record(tmp_path, line):
    path = tmp_path / "one.csv"
    path.write_bytes(line.join(["sex", "F", "", "M", "", ""]).encode())
    assert counted(path) == {("F",): 1, ("M",): 1, ("*",): 2}


def test_with_several_columns_an_empty_line_is_none(tmp_path):
    path = tmp_path / "two.csv"
    path.write_bytes(b"sex,note\n\nF,x\r\n\r\n,\n")
    assert counted(path) == {("F",): 1, ("*",): 1}


def test_a_sample_takes_a_record_where_its_first_byte_lies(tmp_path, monkeypatch):
    """The coins of a range go to the records that begin in it, those that reach into the next one included."""
    path = tmp_path / "spanning.csv"
    path.write_bytes(b"sex,note\n" + b'F,"a\nb"\n' * 4)  # records begin at 9, 17, 25, 33
    monkeypatch.setattr(csv_header, "RANGE_BYTES", 20)
    layout = check_metadata(list_source(str(path), base=tmp_path), columns=["sex"], reading=READING)
    chunks = quote_states.with_quote_states(plan_chunks(layout), executor=LocalThreads(workers=1))
    found = [
        sum(keys.shape[1] for _, keys in csv_records.CSV.keys([chunk], coders=[], key_words=1, coins=every_record))
        for chunk in chunks_without_columns(chunks)
    ]
    assert found == [2, 2, 0]


def chunks_without_columns(chunks):
    from dataclasses import replace

    return [replace(chunk, layout=replace(chunk.layout, positions=())) for chunk in chunks]
