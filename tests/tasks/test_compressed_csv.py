"""CSV by gzip and zstd: the same records as unpacked, and never an end where a file is cut off."""

from __future__ import annotations

import gzip
from collections import Counter
from decimal import Decimal
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from crowdblend.accounting.kernel.keys.private_store import KeyRef
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused, ReleaseFailed
from crowdblend.mechanisms.kernel.sampling import sample_commitment
from crowdblend.mechanisms.recoding import GeneralizationMap, MappedColumn
from crowdblend.tasks.counting import memory
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.group_counts import count_job, group_counts
from crowdblend.tasks.counting.memory import require_room
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.readers.source_files import open_records
from crowdblend.tasks.readers.values import RecordReading

MAP = GeneralizationMap(
    columns=(
        MappedColumn(name="sex", hierarchy=ValueHierarchy.from_values(["F", "M"]), level=0),
        MappedColumn(name="age", hierarchy=IntervalHierarchy(lower=0, upper=100, widths=(10,)), level=0),
    )
)
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


def counted(source: str, base: Path, *, key: KeyRef | None = None) -> Counter:
    layout = check_metadata(list_source(source, base=base), columns=MAP.names, reading=READING)
    job = count_job(
        release_id="r",
        sample_id=None if key is None else sample_commitment(key.load()),
        generalization=MAP,
        rate=None if key is None else Decimal("0.3"),
        reading=READING,
        key_source=key,
    )
    groups = group_counts(plan_chunks(layout), job=job, executor=LocalThreads())
    labels = [
        column.hierarchy.labels(codes, 0) for column, codes in zip(MAP.columns, MAP.decode(groups.keys), strict=True)
    ]
    return Counter(dict(zip(zip(*labels, strict=True), groups.counts.tolist(), strict=True)))


@pytest.mark.parametrize("ending", [".gz", ".zst", ".GZ"])
def test_the_same_records_are_sampled_as_of_the_unpacked_file(tmp_path, ending):
    key = KeyRef(path=tmp_path / "key")
    key.path.write_bytes(bytes(range(32)))
    plain = written(tmp_path, "")
    name = written(tmp_path, ending.lower())
    if ending != ending.lower():
        name = (tmp_path / name).rename(tmp_path / f"people.csv{ending}").name
    assert counted(name, tmp_path) == counted(plain, tmp_path)
    assert counted(name, tmp_path).total() == 90_000
    assert counted(name, tmp_path, key=key) == counted(plain, tmp_path, key=key)
    fsspec.filesystem("memory").pipe_file(f"/{tmp_path.name}/a.csv{ending}", (tmp_path / name).read_bytes())
    assert counted(f"memory://{tmp_path.name}/a.csv{ending}", tmp_path) == counted(plain, tmp_path)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_several_compressed_parts_one_after_the_other_are_one_file(tmp_path, ending):
    path = tmp_path / f"people.csv{ending}"
    half = TEXT.index(b"\n", len(TEXT) // 2)
    path.write_bytes(packed(TEXT[:half], ending) + packed(TEXT[half:], ending))
    assert counted(path.name, tmp_path).total() == 90_000


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
        counted(path.name, tmp_path)


def test_what_is_not_compressed_as_its_name_says_is_refused_before_the_charge(tmp_path):
    for ending in (".gz", ".zst"):
        (tmp_path / f"people.csv{ending}").write_bytes(TEXT)
        with pytest.raises(InputRefused, match="cannot be read"):
            counted(f"people.csv{ending}", tmp_path)


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
    wide = GeneralizationMap(
        columns=tuple(
            MappedColumn(name=name, hierarchy=IntervalHierarchy(lower=0, upper=1_000, widths=()), level=0)
            for name in ("sex", "age")
        )
    )
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
