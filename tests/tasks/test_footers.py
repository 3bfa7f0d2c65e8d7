"""Footers that pyarrow doesn't survive are refused beforehand, and those of every writer are let through."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.readers import parquet_footer
from crowdblend.tasks.readers.file_formats import AskedColumns
from crowdblend.tasks.readers.parquet_footer import open_parquet
from crowdblend.tasks.readers.parquet_records import PARQUET

page_decoder = pytest.importorskip("crowdblend.tasks.readers.page_decoder", reason="installed without a compiler")
DAMAGED = sorted(Path(__file__).with_name("footers").glob("*.parquet"))
LOOK = """
import sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from crowdblend.tasks.readers import parquet_footer

NAMES = (
    "compression", "encodings", "data_page_offset", "dictionary_page_offset", "has_dictionary_page", "num_values",
    "path_in_schema", "physical_type", "total_compressed_size", "total_uncompressed_size",
)
if sys.argv[1] == "unguarded":
    parquet_footer.page_decoder = None
looked = 0
for path in sorted(Path(sys.argv[2]).glob("*.parquet")):
    try:
        with parquet_footer.open_parquet(str(path)) as file:
            footer = file.metadata
            for number in range(footer.num_row_groups):
                for place in range(footer.num_columns):
                    part = footer.row_group(number).column(place)
                    seen = [getattr(part, name) for name in NAMES]
                    looked += len(seen) == len(NAMES)
    except (OSError, ValueError, pa.ArrowException, UnicodeDecodeError):
        pass
print(looked)
"""


def looked_at(folder: Path, how: str = "guarded") -> subprocess.CompletedProcess[str]:
    """Open every file of a folder in another process, and look at all its columns' parts."""
    words = [sys.executable, "-c", LOOK, how, str(folder)]
    return subprocess.run(words, capture_output=True, text=True, timeout=500, check=False)


def footer_of(content: bytes) -> bytes:
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


def write(path: Path, **options: object) -> None:
    """A file with flat, nested, empty and null columns."""
    table = pa.table(
        {
            "text": ["a", None, "b"] * 40,
            "number": list(range(120)),
            "list": [[[1], []], None, [[2, 3]]] * 40,
            "struct": [{"a": 1, "b": [True]}, None, {"a": None, "b": None}] * 40,
            "null": pa.nulls(120),
            "map": pa.array([[("k", 1)], [], None] * 40, type=pa.map_(pa.string(), pa.int64())),
        }
    )
    pq.write_table(table, path, row_group_size=50, **options)


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.stem)
def test_a_footer_that_would_end_the_process_is_refused(path):
    with pytest.raises(InputRefused, match="footer cannot be read"):
        PARQUET.layout(str(path), AskedColumns(names=["letter"]))


def test_pyarrow_reads_the_bytes_that_were_checked(tmp_path, monkeypatch):
    """The file becomes another one when its footer has just been checked."""
    write(tmp_path / "in.parquet")
    real = page_decoder.sound_footer

    def changed_afterwards(footer: bytes) -> bool:
        found = real(footer)
        (tmp_path / "in.parquet").write_bytes(DAMAGED[0].read_bytes())
        return found

    monkeypatch.setattr(page_decoder, "sound_footer", changed_afterwards)
    parquet_footer._footer_of.cache_clear()
    with open_parquet(str(tmp_path / "in.parquet")) as file:
        assert file.metadata.num_rows == 120


def test_fewer_records_than_none_are_refused(tmp_path):
    """The number of a row group's records stands in its footer as a zigzag number: 50 is 0x64, and 0x63 is −50."""
    write(tmp_path / "in.parquet")
    content = (tmp_path / "in.parquet").read_bytes()
    footer = footer_of(content)
    changed = footer.replace(b"\x16\x64", b"\x16\x63")
    assert changed != footer
    (tmp_path / "in.parquet").write_bytes(content.replace(footer, changed))
    assert pq.ParquetFile(tmp_path / "in.parquet").metadata.row_group(0).num_rows == -50
    with pytest.raises(InputRefused, match="footer cannot be read"):
        PARQUET.layout(str(tmp_path / "in.parquet"), AskedColumns(names=["text"]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"version": "1.0", "store_schema": False},
        {"write_page_index": True, "write_statistics": False},
        {"sorting_columns": [pq.SortingColumn(1)], "write_page_checksum": True},
        {"bloom_filter_options": {"text": True}},
    ],
)
def test_sound_footers_are_let_through(tmp_path, options):
    try:
        write(tmp_path / "in.parquet", **options)
    except TypeError:
        pytest.fail("pyarrow has no such option any more")
    assert page_decoder.sound_footer(footer_of((tmp_path / "in.parquet").read_bytes()))


def test_encrypted_columns_are_refused(tmp_path):
    import base64

    import pyarrow.parquet.encryption as pe

    class Plain(pe.KmsClient):
        def __init__(self, given: object) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, name: str) -> bytes:
            return base64.b64encode(key)

        def unwrap_key(self, wrapped: bytes, name: str) -> bytes:
            return base64.b64decode(wrapped)

    factory = pe.CryptoFactory(Plain)
    configuration = pe.EncryptionConfiguration(footer_key="f", column_keys={"k": ["letter"]}, plaintext_footer=True)
    keys = factory.file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    pq.write_table(
        pa.table({"letter": ["a", "b"], "number": [1, 2]}), tmp_path / "in.parquet", encryption_properties=keys
    )
    with pytest.raises(InputRefused, match="footer cannot be read"):
        PARQUET.layout(str(tmp_path / "in.parquet"), AskedColumns(names=["letter"]))


def damaged(content: bytes, draws: random.Random) -> bytes:
    """The file with some bytes of its footer changed, left out or put in, and the length mended."""
    footer = bytearray(footer_of(content))
    body = content[: len(content) - 8 - len(footer)]
    for _ in range(draws.randint(1, 3)):
        at = draws.randrange(len(footer))
        match draws.randrange(4):
            case 0:
                footer[at] = draws.randrange(256)
            case 1:
                footer[at] ^= 1 << draws.randrange(8)
            case 2:
                del footer[at : at + draws.randint(1, 4)]
            case _:
                footer[at:at] = draws.randbytes(draws.randint(1, 4))
    return body + bytes(footer) + len(footer).to_bytes(4, "little") + b"PAR1"


def check(folder: Path, *, rounds: int, seed: int) -> None:
    """Whatever the guard lets through pyarrow opens or refuses in words."""
    write(folder / "sound")
    content = (folder / "sound").read_bytes()
    draws = random.Random(seed)
    for number in range(rounds):
        (folder / f"{number:05}.parquet").write_bytes(damaged(content, draws))
    assert looked_at(folder, "unguarded").returncode == -signal.SIGABRT, (
        "control: some of it must be what pyarrow throws"
    )
    done = looked_at(folder)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > rounds, "the guard lets some damage through, where it hurts nothing"


def test_what_is_let_through_does_not_end_the_process(tmp_path):
    check(tmp_path, rounds=1_500, seed=1)


@pytest.mark.long
def test_much_that_is_let_through_does_not_end_the_process(tmp_path):
    check(tmp_path, rounds=60_000, seed=2)
