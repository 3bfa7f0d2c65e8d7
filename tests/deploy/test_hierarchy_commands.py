"""`crowdblend hierarchy`: what is built is accepted by a release, what is wrong is told with file and line."""

from __future__ import annotations

import pytest

ARX = "Lyon;Rhône;South\r\nNice;Alpes;South\r\nLille;Nord;North\r\n"


def test_check_tells_all_at_once_and_leaves_with_2(desk) -> None:
    (desk.folder / "h.csv").write_text("Lyon;South;*\nLille;North\nLyon;South;*\nMetz;;*\n")
    (desk.folder / "gap.csv").write_text("\nLyon;South;*\n\nLyon;South;*\n")
    assert (
        "gap.csv, line 4: the value 'Lyon' is declared twice, first in line 2."
        in desk("hierarchy", "check", "gap.csv").err
    )
    answer = desk("hierarchy", "check", "h.csv")
    assert answer.code == 2
    for line in ("h.csv, line 2:", "h.csv, line 3:", "h.csv, line 4:"):
        assert line in answer.err
    found = desk("hierarchy", "check", "h.csv", "--json")
    assert found.code == 2
    assert [finding["line"] for finding in found.json["findings"]] == [2, 3, 4]
    assert found.json["ok"] is False


def test_check_against_a_domain(desk) -> None:
    (desk.folder / "domain.txt").write_text("Lyon\nMarseille\nLille\nParis\n")
    good = desk("hierarchy", "check", "towns.csv", "--domain", "domain.txt", "--json")
    assert (good.code, good.json["ok"], good.json["remarks"]) == (0, True, [])
    assert good.json["labels_per_level"] == [4, 2, 1]
    (desk.folder / "domain.txt").write_text("Lyon\nMetz\n")
    short = desk("hierarchy", "check", "towns.csv", "--domain", "domain.txt")
    assert short.code == 2
    assert "'Metz'" in short.err
    assert "3 values of the hierarchy are not in the domain" in short.err
    numbers = desk(
        "hierarchy", "build", "intervals", "--lower", "0", "--upper", "9", "--cuts", "5", "--output", "n.csv"
    )
    assert numbers.code == 0, numbers.err
    desk.succeed("hierarchy", "check", "n.csv", "--lower", "0", "--upper", "9")
    assert desk("hierarchy", "check", "n.csv", "--lower", "0", "--upper", "11").code == 2
    assert desk("hierarchy", "check", "n.csv", "--lower", "0").code == 2


def test_import_of_a_peers_file(desk) -> None:
    (desk.folder / "arx.csv").write_bytes(ARX.encode("cp1252"))
    refused = desk("hierarchy", "import", "arx.csv", "--output", "towns2.csv")
    assert refused.code == 2
    assert "line 1" in refused.err
    answer = desk.succeed("hierarchy", "import", "arx.csv", "--encoding", "cp1252", "--output", "towns2.csv")
    assert (desk.folder / "towns2.csv").read_text() == "Lyon;Rhône;South;*\nNice;Alpes;South;*\nLille;Nord;North;*\n"
    assert "merges nothing" in answer.err
    assert desk("hierarchy", "import", "arx.csv", "--output", "towns2.csv").code == 2, "it exists"
    (desk.folder / "root.csv").write_text("all,South,Lyon\nall,South,Nice\n")
    desk.succeed("hierarchy", "import", "root.csv", "--root-first", "--output", "r.csv")
    assert (desk.folder / "r.csv").read_text() == "Lyon;South;all;*\nNice;South;all;*\n"


def test_a_peers_file_with_faults_is_written_nowhere(desk) -> None:
    (desk.folder / "arx.csv").write_text("Lyon;South;*\nLille;North;*\nBron;South;**\n")
    answer = desk("hierarchy", "import", "arx.csv", "--output", "out.csv")
    assert answer.code == 2
    assert "arx.csv, line" in answer.err
    assert not (desk.folder / "out.csv").exists()


def test_every_builder_makes_a_hierarchy_that_a_specification_takes(desk) -> None:
    (desk.folder / "codes.txt").write_text("75001\n75002\n69001\n")
    (desk.folder / "outline.txt").write_text("South\n  Lyon\n  Nice\nNorth\n  Lille\n")
    (desk.folder / "codes.csv").write_text("A;\nA1;A\nA2;A\nB;\n")
    build = ("hierarchy", "build")
    days = ("--first", "2024-02-01", "--last", "2024-03-31")
    for name, words in {
        "dates": ("dates", *days, "--levels", "month,year"),
        "prefixes": ("prefixes", "codes.txt", "--keep", "3,2"),
        "tree": ("tree", "outline.txt"),
        "parents": ("parents", "codes.csv"),
        "intervals": ("intervals", "--lower", "0", "--upper", "99", "--cuts", "18,65", "--cuts", "65"),
    }.items():
        desk.succeed(*build, *words, "--output", f"{name}.csv")
        desk.succeed("hierarchy", "check", f"{name}.csv")
        spec = desk.write_spec(edit=lambda text, name=name: text.replace('"towns.csv"', f'"{name}.csv"'))
        desk.succeed("explain", spec)
        shown = desk("hierarchy", "show", f"{name}.csv", "--json")
        assert shown.json["values"] >= 3
        assert "level 0" in desk("hierarchy", "show", f"{name}.csv").out
    assert "29" in (desk.folder / "dates.csv").read_text(), "a leap day"


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ("%d.%m.%Y", "05.03.2024"),
        ("%-d.%-m.%Y", "5.3.2024"),
        ("%m/%d/%y", "03/05/24"),
        ("%Y%m%d", "20240305"),
        ("%d-%b-%Y", "05-Mar-2024"),
        ("%Y-%m-%d 00:00:00", "2024-03-05 00:00:00"),
    ],
)
def test_days_are_written_as_the_records_write_them(desk, form: str, first: str) -> None:
    build = ("hierarchy", "build", "dates", "--first", "2024-03-05", "--last", "2024-04-01", "--levels", "month,year")
    desk.succeed(*build, "--form", form, "--output", "days.csv")
    lines = (desk.folder / "days.csv").read_text().splitlines()
    assert lines[0] == f"{first};2024-03;2024;*"
    assert len(lines) == 28
    desk.succeed("hierarchy", "check", "days.csv")


@pytest.mark.parametrize(
    ("form", "word"), [("%d.%m", "alike"), ("%Y", "alike"), ("%d.%Q.%Y", "'%Q'"), ("%d %m %Y%", "'%'")]
)
def test_a_form_that_is_none_or_tells_no_day_is_refused(desk, form: str, word: str) -> None:
    build = ("hierarchy", "build", "dates", "--first", "2023-03-05", "--last", "2024-04-01")
    answer = desk(*build, "--form", form, "--output", "days.csv")
    assert answer.code == 2
    assert "--form" in answer.err
    assert word in answer.err
    assert not (desk.folder / "days.csv").exists()


def test_a_code_list_may_have_a_header_another_encoding_and_another_separator(desk) -> None:
    (desk.folder / "codes.csv").write_bytes("Code\tOber\nSüd\t\nLyon\tSüd\nNizza\tSüd\n".encode("cp1252"))
    build = ("hierarchy", "build", "parents", "codes.csv", "--output", "h.csv", "--encoding", "cp1252")
    named = desk(*build)
    assert named.code == 2
    assert "line 1" in named.err
    assert "--header" in named.err
    desk.succeed(*build, "--header", "--separator", "\\t")
    assert (desk.folder / "h.csv").read_text(encoding="utf-8") == "Lyon;Süd;*\nNizza;Süd;*\n"


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("build", "intervals", "--lower", "0", "--upper", "9", "--cuts", "x"), "whole numbers"),
        (("build", "intervals", "--lower", "0", "--upper", "9", "--cuts", "12"), "--cuts, number 1"),
        (("build", "dates", "--first", "2024-02-30", "--last", "2024-03-31"), "--first"),
        (("build", "dates", "--first", "2024-02-01", "--last", "2024-01-31"), "days"),
        (("build", "dates", "--first", "2024-02-01", "--last", "2024-03-31", "--levels", "week"), "weeks"),
        (("build", "prefixes", "towns.csv", "--keep", "1,2"), "--keep"),
        (("build", "parents", "towns.csv"), "line 1"),
    ],
)
def test_what_can_not_be_built_is_refused_with_its_place(desk, words, word: str) -> None:
    answer = desk("hierarchy", *words, "--output", "new.csv")
    assert answer.code == 2
    assert word in answer.err
    assert not (desk.folder / "new.csv").exists()


def test_nothing_is_written_into_a_release(desk) -> None:
    release = desk.folder / "release"
    (release / "below").mkdir(parents=True)
    (release / "certificate.json").write_text("{}")
    (desk.folder / "link").symlink_to(release)
    before = sorted(desk.folder.rglob("*"))
    words = ("hierarchy", "import", "towns.csv", "--output")
    for place in (
        "release/h.csv",
        "release/below/h.csv",
        "link/h.csv",
        "data.csv",
        "towns.csv",
        "none/h.csv",
        "s3://b/h.csv",
    ):
        answer = desk(*words, place)
        assert answer.code == 2, place
    assert sorted(desk.folder.rglob("*")) == before
