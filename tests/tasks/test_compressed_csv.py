"""CSV by gzip and zstd: the same records as unpacked, and never an end where a file is cut off."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from crowdblend.accounting.kernel.keys.private_store import KeyRef
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused, ReleaseFailed
from crowdblend.tasks.counting import memory
from crowdblend.tasks.counting.memory import require_room
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata
from crowdblend.tasks.readers.source_files import open_records
from crowdblend.tasks.readers.values import RecordReading
from support.counted import counted, mapped

COLUMNS = {
    "sex": ValueHierarchy.from_values(["F", "M"]),
    "age": IntervalHierarchy(lower=0, upper=100, widths=(10,)),
}
TEXT = ("sex,age,note\n" + "".join(f'{"FM"[i % 2]},{i % 90},"a\n{i}"\n' for i in range(90_000))).encode()
READING = RecordReading()


def packed(content: bytes, ending: str) -> bytes:
    if ending == ".gz":
        return gzip.compress(content)
    if ending == ".zst":
        return pa.compress(content, codec="zstd", asbytes=True)
    return content


def written(folder: Path, ending: str, content: bytes = TEXT) -> str:
    path = folder / f"people.csv{ending}"
    path.write_bytes(packed(content, ending))
    return path.name


@pytest.mark.parametrize("ending", [".gz", ".zst", ".GZ"])
def test_the_same_records_are_sampled_as_of_the_unpacked_file(tmp_path, ending):
    key, rate = KeyRef(path=tmp_path / "key"), Decimal("0.3")
    key.path.write_bytes(bytes(range(32)))
    plain, name = written(tmp_path, ""), written(tmp_path, ending.lower())
    name = (tmp_path / name).rename(tmp_path / f"people.csv{ending}").name
    every = counted(name, tmp_path, COLUMNS)
    assert every == counted(plain, tmp_path, COLUMNS)
    assert every.total() == 90_000
    sample = counted(name, tmp_path, COLUMNS, key=key, rate=rate)
    assert sample == counted(plain, tmp_path, COLUMNS, key=key, rate=rate)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_several_compressed_parts_one_after_the_other_are_one_file(tmp_path, ending):
    path = tmp_path / f"people.csv{ending}"
    half = TEXT.index(b"\n", len(TEXT) // 2)
    path.write_bytes(packed(TEXT[:half], ending) + packed(TEXT[half:], ending))
    assert counted(path.name, tmp_path, COLUMNS).total() == 90_000


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("damage", ["cut off", "cut in the middle", "bytes behind", "changed"])
def test_a_damaged_file_fails_and_is_never_taken_for_a_shorter_one(tmp_path, ending, damage):
    path = tmp_path / written(tmp_path, ending)
    raw_bytes = path.read_bytes()
    middle = len(raw_bytes) // 2
    path.write_bytes(
        {
            "cut off": raw_bytes[:-1],
            "cut in the middle": raw_bytes[:middle],
            "bytes behind": raw_bytes + b"F,1,x\n",
            "changed": raw_bytes[:middle]
            + bytes(byte ^ 255 for byte in raw_bytes[middle : middle + 40])
            + raw_bytes[middle + 40 :],
        }[damage]
    )
    with pytest.raises((InputRefused, ReleaseFailed), match="cannot be read"):  # the first if its header is damaged
        counted(path.name, tmp_path, COLUMNS)


def test_what_is_not_compressed_as_its_name_says_is_refused_before_the_charge(tmp_path):
    for ending in (".gz", ".zst"):
        (tmp_path / f"people.csv{ending}").write_bytes(TEXT)
        with pytest.raises(InputRefused, match="cannot be read"):
            counted(f"people.csv{ending}", tmp_path, COLUMNS)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("one", "other"), [("", ".gz"), (".gz", ".zst"), ("", ".ZST")])
def test_a_file_beside_its_unpacked_copy_is_refused(tmp_path, one, other, stored):
    """Each person would be read twice, at the price of once."""
    source, base = ("in", tmp_path) if not stored else (f"memory://{tmp_path.name}", tmp_path)
    for ending in (one, other):
        content = packed(TEXT, ending.lower())
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"people.csv{ending}").write_bytes(content)
        fsspec.filesystem("memory").pipe_file(f"/{tmp_path.name}/people.csv{ending}", content)
    with pytest.raises(InputRefused, match="must not be read twice"):
        list_source(source, base=base)
    assert len(list_source(f"{source}/*{other}", base=base).files) == 1


def test_memory_does_not_follow_from_the_compressed_size(tmp_path, monkeypatch):
    """Of how many records there are nothing is known, so only the declared labels bound the groups."""
    monkeypatch.setenv("CROWDBLEND_MEMORY", "0.001")
    monkeypatch.setattr(memory, "_FEW_GROUPS", 100)
    wide = mapped(dict.fromkeys(("sex", "age"), IntervalHierarchy(lower=0, upper=1_000, widths=())))
    for ending, refused in ((".gz", True), ("", False)):
        source = list_source(written(tmp_path, ending, b"sex,age\n1,2\n"), base=tmp_path)
        layout = check_metadata(source, columns=wide.names, reading=READING)
        if refused:
            with pytest.raises(InputRefused, match="distinct groups"):
                require_room(layout, maps=[wide])
        else:
            require_room(layout, maps=[wide])


def test_only_what_lies_ahead_can_be_sought(tmp_path):
    with open_records(str(tmp_path / written(tmp_path, ".gz"))) as file:
        file.seek(2_000_000)
        assert file.read(10) == TEXT[2_000_000:2_000_010][:10]
        assert file.tell() == min(2_000_010, len(TEXT))
        with pytest.raises(OSError):  # noqa: PT011 - a kind of it that each reader of records catches
            file.seek(0)
