"""Hierarchy files: what is read, and what is refused with its line."""

from __future__ import annotations

import fsspec
import pytest
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.inputs.hierarchy_files import read_hierarchy


def written(tmp_path, content: bytes) -> str:
    path = tmp_path / "levels.csv"
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    "content",
    [
        b"a;x;*\nb;x;*\nc;y;*\n",
        b"a,x,*\nb,x,*\nc,y,*",
        b"\xef\xbb\xbfa;x;*\r\nb;x;*\r\nc;y;*\r\n",
        b'"a";"x";"*"\n"b";x;*\nc;"y";*\n',
        b"c;y;*\nb;x;*\na;x;*\n",
    ],
)
def test_both_separators_line_ends_marks_and_quotes_give_the_same_hierarchy(tmp_path, content):
    hierarchy = read_hierarchy(written(tmp_path, content))
    assert hierarchy.rows() == [["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"]]


def test_the_other_separator_may_stand_in_labels(tmp_path):
    hierarchy = read_hierarchy(written(tmp_path, "a,b;x;*\né;x, y, z;*\n".encode()))
    assert hierarchy.rows() == [["a,b", "x", "*"], ["é", "x, y, z", "*"]]
    intervals = read_hierarchy(written(tmp_path, b"1;[0, 5);*\n7;[5, 10);*\n"))
    assert intervals.rows() == [["1", "[0, 5)", "*"], ["7", "[5, 10)", "*"]]
    quoted = read_hierarchy(written(tmp_path, b'"a;1",x\n"b;1","y ""z"""\n'))
    assert quoted.rows() == [["a;1", "x"], ["b;1", 'y "z"']]


def test_the_last_level_need_not_be_a_star(tmp_path):
    assert read_hierarchy(written(tmp_path, b"a;x\nb;y\n")).size(1) == 3


def test_it_is_read_through_a_url_too():
    with fsspec.open("memory://hierarchies/levels.csv", "wb") as file:
        file.write(b"a;*\nb;*\n")
    assert read_hierarchy("memory://hierarchies/levels.csv").levels == 2


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (b"", "levels.csv", "empty"),
        (b"\xef\xbb\xbf", "levels.csv", "empty"),
        (b"a\nb\n", "line 1", "single column"),
        (b"a;x;*\nb;;*\n", "line 2", "level 1 is empty"),
        (b"a;x;*\nb;x\n", "line 2", "gap"),
        (b"a;x;*\nb;x;*;*\n", "line 2", "gap"),
        (b"a;x;*\n\nb;x;*\n", "line 2", "empty"),
        (b"a;x;*\nb;x;*\n\n", "line 3", "empty"),
        (b"a;x;*\nb;x;*\na;x;*\n", "line 3", "twice"),
        (b"a;x;1;*\nb;x;2;*\n", "line 2", "equal labels must stay equal"),
        (b"a;x;*\nb;\xff;*\n", "line 2", "not UTF-8"),
        (b'a;x;*\n"b;x;*\n', "line 2", "quotes"),
        (b"a;b,c\nd;e,f\n", "levels.csv", "both"),
        ("a;*\nb;*\n".encode("utf-16"), "line 1", "UTF-8"),
    ],
)
def test_what_is_wrong_is_refused_with_file_and_line(tmp_path, content, where, what):
    with pytest.raises(InputRefused, match=what) as refusal:
        read_hierarchy(written(tmp_path, content))
    assert refusal.value.where.endswith(where)
    assert "levels.csv" in refusal.value.where


def test_what_is_missing_or_unreachable_is_refused(tmp_path):
    for location in (
        str(tmp_path / "none.csv"),
        str(tmp_path),
        "nosuchprotocol://x/y.csv",
        "memory://none.csv",
    ):
        with pytest.raises(InputRefused, match="cannot be read") as refusal:
            read_hierarchy(location)
        assert refusal.value.where == location
