"""A release is verified with openssl, jq and coreutils alone, where nothing of crowdblend is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "verify-a-release" / "verify-release.sh"
CASES = ROOT / "tests" / "vectors" / "conformance" / "certificate"
JUDGED = (
    "bytes-",
    "domain-",
    "file-",
    "folder-file-",
    "format-",
    "key-",
    "signature-",
    "unsigned-",
    "algorithm-",
    "sound",
)
JUDGED += ("dataset-empty", "epsilon-a-number", "epsilon-negative", "epsilon-with-", "release-id-", "guarantee-missing")
JUDGED += ("files-a-list", "files-digest-", "files-missing", "files-none", "files-outside")
"""Cases that the script must judge: of signature, bytes, files, and of what it prints."""
PROGRAMS = ("openssl", "jq", "sha256sum", "basenc", "cmp", "find")


@pytest.fixture
def programs(needs) -> None:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    needs(not missing, f"{', '.join(missing)} (Debian: openssl, jq, coreutils)", "CROWDBLEND_TEST_OPENSSL")


@pytest.fixture
def published(desk, programs) -> tuple[Path, Path]:
    """A release's folder and the publisher's public key."""
    people = desk.write_people(2_000)
    people.write_text(people.read_text(encoding="utf-8").replace("town", "île", 1), encoding="utf-8")
    desk.add_dataset()
    desk.write_spec(edit=lambda text: text.replace("[columns.town]", '[columns."île"]'))
    answer = desk.succeed("run", "spec.toml", "--release-id", "r-1", "--json")
    desk.succeed("key", "export", "publisher.pem")
    return Path(answer.json["output"]), desk.folder / "publisher.pem"


def checked(
    folder: Path | str, key: Path, *, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The script, with no Python and nothing else of this environment in reach."""
    settings = {"PATH": "/usr/bin:/bin"} | environment
    return subprocess.run(
        [SCRIPT, folder, key], cwd=cwd, env=settings, capture_output=True, text=True, check=False, timeout=60
    )


def edited(name: str, edit: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(edit((folder / name).read_bytes()))


def with_another_before(content: bytes) -> bytes:
    """The certificate after a document that says a lower ε, in the form that jq writes."""
    document = json.loads(content)
    document |= {"format": "x", "signature": "s", "guarantee": {**document["guarantee"], "epsilon": "0.01"}}
    del document["files"]
    return (json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode() + content


def with_value_moved(content: bytes) -> bytes:
    *lines, last, end, close = content.decode().splitlines()
    assert last.startswith('    "value": ')
    place = next(place for place, line in enumerate(lines) if line.startswith('    "algorithm": '))
    lines = [*lines[: place + 1], f"{last},", *lines[place + 1 : -1], lines[-1].removesuffix(",")]
    return "\n".join([*lines, end, close, ""]).encode()


def linked(name: str) -> Callable[[Path], object]:
    """A link to the same bytes outside of the folder in a file's place."""

    def put(folder: Path) -> None:
        outside = folder.with_name(f"{folder.name}, outside, {name}")
        (folder / name).rename(outside)
        (folder / name).symlink_to(outside)

    return put


def as_pipe(name: str) -> Callable[[Path], object]:
    def put(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return put


def entries(folder: Path) -> dict[str, tuple[int, bytes]]:
    """What lies in a folder: of each entry its type and its bytes."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


FORGERIES: dict[str, Callable[[Path], object]] = {
    "another parameter": edited("certificate.json", lambda text: text.replace(b'"k": 20', b'"k": 30')),
    "another release": edited("certificate.json", lambda text: text.replace(b'"r-1"', b'"r-2"')),
    "another form": edited("certificate.json", lambda text: text.replace(b'"k": 20', b'"k":  20')),
    "a key twice": edited("certificate.json", lambda text: text.replace(b"{\n", b'{\n  "dataset": "other",\n', 1)),
    "another format": edited("certificate.json", lambda text: text.replace(b"certificate/5", b"certificate/4")),
    "no signature": edited("certificate.json", lambda text: text.replace(b'"value": "', b'"value": "x')),
    "another document before": edited("certificate.json", with_another_before),
    "another document after": edited("certificate.json", lambda text: text + b"{}\n"),
    "the value in another place": edited("certificate.json", with_value_moved),
    "a line feed after the value": edited("certificate.json", lambda text: text.replace(b'"\n  }\n}', b'\\n"\n  }\n}')),
    "another table": edited("data.parquet", lambda content: content + b"\0"),
    "no table": lambda folder: (folder / "data.parquet").unlink(),
    "one more file": lambda folder: (folder / "more.csv").write_text("a\n"),
    "one more file with a line feed": lambda folder: (folder / "more\nf data.parquet").write_text("a\n"),
    "one more folder": lambda folder: (folder / "more").mkdir(),
    "one more link": lambda folder: (folder / "more").symlink_to("/"),
    "a link to the table": linked("data.parquet"),
    "a link to the certificate": linked("certificate.json"),
    "a pipe in the table's place": as_pipe("data.parquet"),
    "a pipe in the certificate's place": as_pipe("certificate.json"),
    "no certificate": lambda folder: (folder / "certificate.json").unlink(),
}


@pytest.mark.slow
def test_it_holds_as_published_and_no_forgery_does(desk, published, tmp_path: Path) -> None:
    folder, key = published
    held = checked(folder, key)
    assert held.returncode == 0, held.stderr
    assert held.stdout.startswith("holds: release r-1 of 'people', with (ε, δ) = (")
    for what, forge in FORGERIES.items():
        forged = tmp_path / "forged" / what
        shutil.copytree(folder, forged)
        before = entries(forged)
        forge(forged)
        assert entries(forged) != before, what
        refused = checked(forged, key)
        assert refused.returncode == 1, what
        assert "does not hold" in refused.stderr, what
    desk.succeed("key", "rotate")
    desk.succeed("key", "export", "other.pem")
    assert "this key did not sign" in checked(folder, desk.folder / "other.pem").stderr


@pytest.mark.slow
def test_it_judges_the_conformance_cases(programs) -> None:
    cases = [case for case in sorted(CASES.iterdir()) if case.name.startswith(JUDGED)]
    cases.remove(CASES / "sound-key-before")  # the second key of its file: the script reads the first
    assert len(cases) > 70
    holds = {case.name: json.loads((case / "case.json").read_bytes())["holds"] for case in cases}
    codes = {case.name: checked(case / "release", case / "publisher.pem").returncode for case in cases}
    assert codes == {name: 0 if held else 1 for name, held in holds.items()}


@pytest.mark.slow
def test_it_reads_the_folder_that_is_named(programs, tmp_path: Path) -> None:
    """Neither `CDPATH` nor a name like an option leads elsewhere; a folder that can't be read is none that holds."""
    case, other = CASES / "sound", tmp_path / "other"
    for folder in (tmp_path / "out", tmp_path / "-out", other / "out"):
        shutil.copytree(case / "release", folder)
    (tmp_path / "out" / "data.csv").write_text("sex,count\n")
    key = case / "publisher.pem"
    assert checked("-out", key, cwd=tmp_path).returncode == 0
    assert checked("out", key, cwd=tmp_path, CDPATH=str(other)).returncode == 1
    (tmp_path / "link").symlink_to("other/out")
    assert checked("link", key, cwd=tmp_path).returncode == 0
    if os.geteuid():  # nothing is closed to root
        closed = other / "out" / "closed"
        closed.mkdir(mode=0)
        assert checked(other / "out", key).returncode == 1
        closed.rmdir()
