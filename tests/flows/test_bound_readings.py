"""A release reads the files that were listed before its charge; others, or changed ones, publish nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
from crowdblend.flows import release
from crowdblend.tasks.inputs import list as listing
from crowdblend.tasks.stages import count

COLOURS, TOWNS = ("blue", "green", "red"), ("Lyon", "Marseille", "Lille", "Paris")
ROWS = 1_200


def write(path: Path, *, backwards: bool) -> Path:
    """The same people in one order or the other."""
    lines = [f"{COLOURS[number % 3]};{20 + 10 * (number % 2)};{TOWNS[number % 4]}" for number in range(ROWS)]
    path.write_text("\n".join(["colour;age;town", *(lines[::-1] if backwards else lines)]) + "\n")
    return path


def exchange(one: Path, other: Path) -> None:
    """Exchange two files by renaming, of one time of last change: their inode numbers alone differ."""
    state = one.stat()
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def grow(path: Path, _: Path) -> None:
    """Make a file longer, and set its time of last change back."""
    state = path.stat()
    with path.open("ab") as file:
        file.write(b"blue;20;Lyon\n")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def cut_off(path: Path, _: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def write_again(path: Path, other: Path) -> None:
    """Write other bytes of the same length into the file."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(other.read_bytes()[:size].ljust(size))
    os.utime(path, ns=(1, 1))


def remove(path: Path, _: Path) -> None:
    path.unlink()


CHANGES = {"exchanged": exchange, "longer": grow, "cut off": cut_off, "rewritten": write_again, "removed": remove}


def noisy(text: str) -> str:
    """A specification of a histogram whose noise is stored before it is used."""
    histogram = '[histogram]\nkind = "noisy"\nepsilon = 0.5'
    return text.replace('form = "microdata"\n', "").replace("[suppression]", histogram)


@pytest.fixture
def once_reading_began(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Has something happen once, when the ledger has the release as reading, before a record is read."""

    def arrange(change: Callable[[], None]) -> None:
        real, waiting = release.begin_reading, [change]

        def begin(**given: object) -> None:
            real(**given)
            if waiting:
                waiting.pop()()

        monkeypatch.setattr(release, "begin_reading", begin)

    return arrange


@pytest.fixture
def once_all_is_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Has something happen once, when all records are counted, before anything is made of the counts."""

    def arrange(change: Callable[[], None]) -> None:
        real, waiting = count.block_counts, [change]

        def counted(*given: object, **named: object) -> object:
            counts = real(*given, **named)
            if waiting:
                waiting.pop()()
            return counts

        monkeypatch.setattr(count, "block_counts", counted)

    return arrange


def require_nothing_published(desk, told, path: Path) -> None:
    assert told.code == 1, (told.out, told.err)
    assert str(path) in told.err
    assert "was changed since it was listed" in told.err
    assert "is spent" in told.err
    assert "Nothing was published." in told.err
    assert "Put the very file back" in told.err
    assert not (desk.folder / "out").exists()
    assert not list(desk.home.rglob("staged*"))
    [charged] = desk("ledger", "show", "--json").json["releases"]
    assert charged["stage"] == "reading"


@pytest.mark.parametrize("moment", ["began", "read"])
@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_changed_after_the_charge_publishes_nothing(
    desk, once_reading_began, once_all_is_read, change, moment
) -> None:
    """What is counted already is nothing to be drawn from, and no draw of it is stored."""
    desk.add_dataset()
    first = write(desk.folder / "a.csv", backwards=False)
    other = write(desk.folder / "b.csv", backwards=True)
    arrange = once_reading_began if moment == "began" else once_all_is_read
    arrange(lambda: CHANGES[change](first, other))
    told = desk("run", desk.write_spec(source="a.csv", edit=noisy), "--release-id", "one")
    require_nothing_published(desk, told, first)
    assert not list(desk.home.rglob("*.draw.json"))
    if change == "exchanged":
        exchange(first, other)
        desk.succeed("run", desk.write_spec(source="a.csv", edit=noisy), "--release-id", "one")


def test_a_file_that_is_changed_before_the_charge_costs_nothing(desk, monkeypatch) -> None:
    desk.add_dataset()
    first = write(desk.folder / "a.csv", backwards=False)
    other = write(desk.folder / "b.csv", backwards=True)
    real = listing.list_source

    def listed(*given: object, **named: object) -> object:
        files = real(*given, **named)
        exchange(first, other)
        return files

    monkeypatch.setattr(listing, "list_source", listed)
    told = desk("run", desk.write_spec(source="a.csv"))
    assert told.code == 2
    assert "was changed since it was listed" in told.err
    assert "Nothing was read, written or charged." in told.err
    assert desk("ledger", "show", "--json").json["releases"] == []


def test_a_release_is_not_taken_up_on_other_files(desk, once_all_is_read) -> None:
    """What was listed before the charge is kept, so that a later attempt on other files is refused."""
    desk.add_dataset()
    first = write(desk.folder / "a.csv", backwards=False)
    spec = desk.write_spec(source="a.csv")
    once_all_is_read(lambda: os.utime(first, ns=(1, 1)))
    assert desk("run", spec, "--release-id", "one").code == 1
    desk.refuse("run", spec, "--release-id", "one", code=3, said="since then this changed: the input files")


@pytest.mark.parametrize("moment", ["began", "read"])
def test_an_object_that_is_written_again_publishes_nothing(desk, once_reading_began, once_all_is_read, moment) -> None:
    desk.add_dataset()
    store = fsspec.filesystem("memory")
    for name, backwards in (("/bound/a.csv", False), ("/bound/b.csv", True)):
        store.pipe_file(name, write(desk.folder / "new.csv", backwards=backwards).read_bytes())
    arrange = once_reading_began if moment == "began" else once_all_is_read
    arrange(lambda: store.pipe_file("/bound/a.csv", store.cat_file("/bound/b.csv")))
    told = desk("run", desk.write_spec(source="memory://bound/a.csv"), "--release-id", "one")
    require_nothing_published(desk, told, Path("a.csv"))
