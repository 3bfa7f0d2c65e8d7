"""Hierarchies of other tools are read as they are, and what is wrong with them is told with its line."""

from __future__ import annotations

import pytest
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.inputs.hierarchy_files import hierarchy_text, read_hierarchy, read_lines, read_peer_rows

ROWS = (("Lyon", "South", "*"), ("Nice", "South", "*"), ("Lille", "North", "*"))


@pytest.mark.parametrize("mark", [";", ",", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_any_usual_separator_is_found(tmp_path, mark: str, end: str) -> None:
    path = tmp_path / "towns.csv"
    path.write_bytes("".join(mark.join(row) + end for row in ROWS).encode())
    assert read_peer_rows(path).rows == ROWS
    assert read_peer_rows(path).separator == mark


def test_labels_may_hold_the_other_separator(tmp_path) -> None:
    path = tmp_path / "ages.csv"
    path.write_text("0;[0, 5);*\n7;[5, 10);*\n")
    assert read_peer_rows(path).rows[0] == ("0", "[0, 5)", "*")
    path.write_text('"a;b",x,*\n"c",x,*\n')
    assert read_peer_rows(path).rows[0] == ("a;b", "x", "*")


def test_lines_are_counted_as_a_person_counts_them(tmp_path) -> None:
    path = tmp_path / "towns.csv"
    path.write_text("value;region;all\n\nLyon;South;*\n\nNice;South\n")
    read = read_peer_rows(path, header=True)
    assert read.lines == (3, 5)
    assert read.where(path, 1).endswith("towns.csv, line 5")


def test_other_encodings_are_named(tmp_path) -> None:
    path = tmp_path / "towns.csv"
    path.write_bytes("a;b\nNîmes;South\n".encode("cp1252"))
    with pytest.raises(InputRefused, match=r"line 2: .*UTF-8") as refused:
        read_peer_rows(path)
    assert "cp1252" in refused.value.remedy
    assert read_peer_rows(path, encoding="cp1252").rows[1] == ("Nîmes", "South")
    path.write_bytes("Nîmes;South\n".encode("utf-16"))
    with pytest.raises(InputRefused) as refused:
        read_peer_rows(path)
    assert "utf-16" in refused.value.remedy
    assert read_peer_rows(path, encoding="utf-16").rows == (("Nîmes", "South"),)
    path.write_bytes("Nîmes;South\n".encode("utf-8-sig"))
    assert read_peer_rows(path).rows == (("Nîmes", "South"),)
    with pytest.raises(InputRefused, match="no encoding"):
        read_lines(path, encoding="klingon")


@pytest.mark.parametrize(
    ("text", "match"),
    [("", "empty"), ("\n\n", "empty"), ("a\nb\n", "single column"), ('a;b\nc;"d\n', "line 2: the quotes")],
)
def test_what_is_no_table_is_refused(tmp_path, text: str, match: str) -> None:
    path = tmp_path / "towns.csv"
    path.write_text(text)
    with pytest.raises(InputRefused, match=match):
        read_peer_rows(path)
    with pytest.raises(InputRefused, match="can't be read"):
        read_peer_rows(tmp_path / "none.csv")


def test_what_is_written_reads_back_as_a_release_reads_it(tmp_path) -> None:
    odd = [('a;b"c', "x, y", "*"), (" d ", "x, y", "*"), ("é", "é", "*")]
    path = tmp_path / "odd.csv"
    path.write_text(hierarchy_text(odd), encoding="utf-8", newline="")
    assert sorted(map(tuple, read_hierarchy(str(path)).rows())) == sorted(odd)
