"""Fuzz tests on compiled readers that watch themselves: no byte is touched beyond a buffer, all is defined."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SWITCH = "CROWDBLEND_TEST_SANITIZERS"
HERE = Path(__file__).resolve().parent
READERS = HERE.parents[1] / "tasks" / "readers"
SOURCE = READERS / "page_decoder.c"
CSV_SOURCE = READERS / "csv_decoder.c"
GUARDED = "if (octets - octet >= 8)"
CSV_GUARDED = "if (left >= 64) {"
UNGUARDED = "if (1)"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.environ.get(SWITCH) == "off", reason=f"{SWITCH}=off: no compiler with sanitizers here"),
]


def runtime(name: str) -> str:
    """The compiler's own copy of a sanitizer's library."""
    found = subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    path = Path(found.stdout.strip())
    if not path.is_absolute():
        pytest.fail(f"gcc has no {name}; set {SWITCH}=off to leave these tests out")
    return str(path)


def built(source: Path, folder: Path, *more: str) -> Path:
    """The decoder with AddressSanitizer and UndefinedBehaviorSanitizer, every finding fatal."""
    module = folder / f"{source.stem}.abi3.so"
    flags = ["-O1", "-g", "-fPIC", "-shared", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror", f"-I{READERS}"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{sysconfig.get_path('include')}"]
    subprocess.run(["gcc", *flags, *more, str(source), "-o", str(module)], check=True)
    return module


def fuzzed(module: Path, *words: str, test: str = "test_page_fuzz.py") -> subprocess.CompletedProcess[str]:
    """A module's fuzz tests in a process of their own, every Python object in memory that the sanitizer watches."""
    environment = os.environ | {
        "LD_PRELOAD": " ".join([runtime("libasan.so"), runtime("libubsan.so"), runtime("libstdc++.so.6")]),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    asked = [sys.executable, str(HERE / "sanitizer_driver.py"), str(module), str(HERE / test)]
    return subprocess.run(
        [*asked, "-q", "-p", "no:cacheprovider", *words], check=False, capture_output=True, text=True, env=environment
    )


def test_the_fuzz_touches_nothing_beyond_its_buffers(tmp_path):
    done = fuzzed(built(SOURCE, tmp_path), "-m", "not long")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_the_sanitizer_finds_a_read_beyond_the_buffer(tmp_path):
    """Control: a decoder that reads eight bytes wherever a number begins."""
    text = SOURCE.read_text(encoding="utf-8")
    assert text.count(GUARDED) == 1
    source = tmp_path / "page_decoder.c"
    source.write_text(text.replace(GUARDED, UNGUARDED), encoding="utf-8")
    done = fuzzed(built(source, tmp_path), "-m", "not long", "-k", "any_page", "-s")
    assert done.returncode == 99
    assert "AddressSanitizer" in done.stdout + done.stderr
    assert "unpack" in done.stdout + done.stderr


ANY_CSV = ("-m", "not long and not slow", "-k", "few_bytes or numpy_says or any_bytes or known_fields or fit_its")


@pytest.mark.parametrize("flags", [[], ["-U__SSE2__"]], ids=["SSE2", "any processor"])
@pytest.mark.parametrize("test", ["test_csv_records.py", "test_csv_quotes.py"])
def test_the_reading_of_csv_touches_nothing_beyond_its_buffers(tmp_path, test, flags):
    done = fuzzed(built(CSV_SOURCE, tmp_path, *flags), *ANY_CSV, test=test)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_the_sanitizer_finds_a_block_that_is_read_past_its_end(tmp_path):
    """Control: a follower that reads 64 bytes wherever some are left."""
    text = CSV_SOURCE.read_text(encoding="utf-8")
    assert text.count(CSV_GUARDED) == 1
    source = tmp_path / "csv_decoder.c"
    source.write_text(text.replace(CSV_GUARDED, f"{UNGUARDED} {{"), encoding="utf-8")
    done = fuzzed(built(source, tmp_path), *ANY_CSV, "-s", test="test_csv_quotes.py")
    assert done.returncode == 99
    assert "AddressSanitizer" in done.stdout + done.stderr
