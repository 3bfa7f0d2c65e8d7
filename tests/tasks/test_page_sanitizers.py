"""The fuzz tests on a decoder that watches itself: no byte is touched beyond a buffer, nothing undefined is done."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SWITCH = "CROWDBLEND_TEST_SANITIZERS"
HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "tasks" / "readers" / "page_decoder.c"
GUARDED = "if (octets - octet >= 8)"
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


def built(source: Path, folder: Path) -> Path:
    """The decoder with AddressSanitizer and UndefinedBehaviorSanitizer, every finding fatal."""
    module = folder / "page_decoder.abi3.so"
    flags = ["-O1", "-g", "-fPIC", "-shared", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{sysconfig.get_path('include')}"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(module)], check=True)
    return module


def fuzzed(module: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The fuzz tests in a process of their own, every Python object in memory that the sanitizer watches."""
    environment = os.environ | {
        "LD_PRELOAD": " ".join([runtime("libasan.so"), runtime("libubsan.so"), runtime("libstdc++.so.6")]),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    test = str(HERE / "test_page_fuzz.py")
    asked = [sys.executable, str(HERE / "sanitizer_driver.py"), str(module), test, "-q", "-p", "no:cacheprovider"]
    return subprocess.run([*asked, *words], check=False, capture_output=True, text=True, env=environment)


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
