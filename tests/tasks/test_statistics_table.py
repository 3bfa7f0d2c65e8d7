"""Published tables as files of SPSS and Stata: the same rows, by labels, and nothing of the clock."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyreadstat
import pytest
from crowdblend.tasks.stages import table as published_table
from crowdblend.tasks.stages.table import (
    PublishedTable,
    TableColumn,
    figure_column,
    text_column,
    write_statistics_table,
)

READERS = {"sav": pyreadstat.read_sav, "dta": pyreadstat.read_dta}
LONG = "z" * 121


def table(*labels: str, times: list[int] | None) -> PublishedTable:
    columns = (
        text_column("sex", labels),
        TableColumn(name="town", values=pa.array(["Nîmes", "Aix", ""])),
        figure_column("count", np.array([3, -1, 1 << 40], dtype=np.int64)),
        figure_column("share", np.array([0.25, 0.5, 1.0])),
    )
    return PublishedTable(columns=columns, times=None if times is None else np.array(times, dtype=np.int64))


def read(folder: Path, name: str) -> list[tuple[object, ...]]:
    found, said = READERS[name.partition(".")[2]](folder / name, output_format="dict")
    labels = said.variable_value_labels
    columns = [[labels.get(column, {}).get(value, value) for value in values] for column, values in found.items()]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("format_", ["sav", "dta"])
@pytest.mark.parametrize("times", [None, [2, 0, 3], [0, 0, 0]], ids=str)
@pytest.mark.parametrize("labels", [("male", "*", "[0, 10)"), ("ü" * 60, "b", "b"), (LONG, LONG + "a", LONG + "b")])
def test_what_is_read_back_are_the_published_rows(tmp_path, format_, times, labels):
    name = write_statistics_table(
        table(*labels, times=times), folder=tmp_path, format_=format_, stem="data", day=date(2026, 1, 2), codes={}
    )
    assert name == f"data.{format_}"
    towns, counts, shares = ("Nîmes", "Aix", ""), (3, -1, 1 << 40), (0.25, 0.5, 1.0)
    rows = list(zip(labels, towns, counts, shares, strict=True))
    assert read(tmp_path, name) == [
        row for row, many in zip(rows, times or [1, 1, 1], strict=True) for _ in range(many)
    ]


@pytest.mark.parametrize("format_", ["sav", "dta"])
@pytest.mark.parametrize("label", ["b", LONG], ids=["coded", "text"])
def test_null_is_missing(tmp_path, format_, label):
    names = (text_column("one", [None, label, "a", None]), text_column("other", [None] * 4))
    published = PublishedTable(columns=(*names, figure_column("count", np.arange(4))), times=None)
    name = write_statistics_table(
        published, folder=tmp_path, format_=format_, stem="margins", day=date(2026, 1, 2), codes={}
    )
    rows = read(tmp_path, name)
    assert [(row[0] if isinstance(row[0], str) else None) or None for row in rows] == [None, label, "a", None]
    assert [row[1:] for row in rows] == [("", float(number)) for number in range(4)]


@pytest.mark.parametrize("format_", ["sav", "dta"])
def test_the_file_follows_from_table_and_day_alone(tmp_path, format_, monkeypatch):
    """Two files written in different minutes and time zones are the same; the day is that of the release."""
    published = table("male", "female", "*", times=[1, 2, 3])
    contents = []
    for place, zone in (("a", "UTC"), ("b", "Pacific/Kiritimati")):
        monkeypatch.setenv("TZ", zone)
        statistics_table_time()
        (tmp_path / place).mkdir()
        name = write_statistics_table(
            published, folder=tmp_path / place, format_=format_, stem="data", day=date(2019, 3, 7), codes={}
        )
        contents.append((tmp_path / place / name).read_bytes())
    assert contents[0] == contents[1]
    said = READERS[format_](tmp_path / "a" / name, metadataonly=True)[1]
    assert str(said.creation_time).startswith("2019-03-07 00:00")


def statistics_table_time() -> None:
    import time

    time.tzset()


def test_many_labels_are_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(published_table, "_MOST_LABELS", 2)
    name = write_statistics_table(
        table("a", "b", "c", times=None), folder=tmp_path, format_="sav", stem="data", day=date(2026, 1, 2), codes={}
    )
    assert pyreadstat.read_sav(tmp_path / name)[1].variable_value_labels == {}
    assert [row[0] for row in read(tmp_path, name)] == ["a", "b", "c"]


@pytest.mark.parametrize("format_", ["sav", "dta"])
@pytest.mark.parametrize(
    ("labels", "declared", "codes"),
    [
        (("10", "2", "*"), {}, {10: "10", 2: "2", 11: "*"}),  # ages and declared codes are their own numbers
        (("male", "female", "*"), {}, {1: "male", 2: "female", 3: "*"}),
        (("female", "male", "*"), {"male": 1, "female": 2}, {2: "female", 1: "male", 3: "*"}),
        (("female", "male", "*"), {"male": 1, "female": 2, "*": -9}, {2: "female", 1: "male", -9: "*"}),
        (("no", "7", "*"), {"no": 0}, {0: "no", 1: "7", 2: "*"}),  # 7 is a name here, beside declared codes
        (("9000000000", "2", "*"), {}, {1: "9000000000", 2: "2", 3: "*"}),
    ],
)
def test_codes_are_the_declared_ones_or_the_labels_own_numbers(tmp_path, format_, labels, declared, codes) -> None:
    name = write_statistics_table(
        table(*labels, times=None),
        folder=tmp_path,
        format_=format_,
        stem="data",
        day=date(2026, 1, 2),
        codes={"sex": declared},
    )
    found, said = READERS[format_](tmp_path / name, output_format="dict")
    assert said.variable_value_labels["sex"] == codes
    assert [codes[value] for value in found["sex"]] == list(labels)
