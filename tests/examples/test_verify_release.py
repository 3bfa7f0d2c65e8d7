"""A release is verified with openssl, jq and coreutils alone, where nothing of crowdblend is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "verify-a-release" / "verify-release.sh"
PROGRAMS = ("openssl", "jq", "sha256sum", "basenc", "cmp", "find")


@pytest.fixture
def published(desk, needs) -> tuple[Path, Path]:
    """A release's folder and the publisher's public key."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    needs(not missing, f"{', '.join(missing)} (Debian: openssl, jq, coreutils)", "CROWDBLEND_TEST_OPENSSL")
    people = desk.write_people(2_000)
    people.write_text(people.read_text(encoding="utf-8").replace("town", "île", 1), encoding="utf-8")
    desk.add_dataset()
    desk.write_spec(edit=lambda text: text.replace("[columns.town]", '[columns."île"]'))
    answer = desk.succeed("run", "spec.toml", "--release-id", "r-1", "--json")
    desk.succeed("key", "export", "publisher.pem")
    return Path(answer.json["output"]), desk.folder / "publisher.pem"


def checked(folder: Path, key: Path) -> subprocess.CompletedProcess[str]:
    """The script, with no Python and nothing else of this environment in reach."""
    environment = {"PATH": "/usr/bin:/bin"}
    return subprocess.run([SCRIPT, folder, key], env=environment, capture_output=True, text=True, check=False)


def edited(name: str, edit: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(edit((folder / name).read_bytes()))


FORGERIES: dict[str, Callable[[Path], object]] = {
    "another parameter": edited("certificate.json", lambda text: text.replace(b'"k": 20', b'"k": 30')),
    "another release": edited("certificate.json", lambda text: text.replace(b'"r-1"', b'"r-2"')),
    "another form": edited("certificate.json", lambda text: text.replace(b'"k": 20', b'"k":  20')),
    "a key twice": edited("certificate.json", lambda text: text.replace(b"{\n", b'{\n  "dataset": "other",\n', 1)),
    "another format": edited("certificate.json", lambda text: text.replace(b"certificate/5", b"certificate/4")),
    "no signature": edited("certificate.json", lambda text: text.replace(b'"value": "', b'"value": "x')),
    "another table": edited("data.parquet", lambda content: content + b"\0"),
    "no table": lambda folder: (folder / "data.parquet").unlink(),
    "one more file": lambda folder: (folder / "more.csv").write_text("a\n"),
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
        before = {path.name: path.read_bytes() for path in forged.iterdir()}
        forge(forged)
        assert {path.name: path.read_bytes() for path in forged.iterdir()} != before, what
        refused = checked(forged, key)
        assert refused.returncode == 1, what
        assert "does not hold" in refused.stderr, what
    desk.succeed("key", "rotate")
    desk.succeed("key", "export", "other.pem")
    assert "this key did not sign" in checked(folder, desk.folder / "other.pem").stderr
