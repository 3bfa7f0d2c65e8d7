"""A certificate is given out by its digest alone, as it was published, and from the named folders alone."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest
from crowdblend.accounting.dashboard.views import certificates
from crowdblend.accounting.dashboard.views.certificates import (
    LARGEST,
    SECONDS_BETWEEN,
    Certificates,
    columns_of,
    stages_of,
)


def published(folder: Path, content: bytes) -> tuple[Path, str]:
    folder.mkdir(parents=True)
    path = folder / "certificate.json"
    path.write_bytes(content)
    return path, hashlib.sha256(content).hexdigest()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch):
    """Lets so much time pass that the folders are looked through again."""
    begun, passed = time.monotonic(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: begun + passed[0])

    def pass_time() -> None:
        passed[0] += 2 * SECONDS_BETWEEN

    return pass_time


def test_a_certificate_that_is_published_later_is_found(tmp_path, later) -> None:
    _, first = published(tmp_path / "a", b"first")
    known = Certificates((tmp_path,))
    assert known.content(first) == b"first"
    _, second = published(tmp_path / "b" / "deep", b"second")
    later()
    assert known.content(second) == b"second"
    assert known.content(first) == b"first"


def test_folders_are_not_looked_through_for_every_wrong_digest(tmp_path, later) -> None:
    known = Certificates((tmp_path,))
    assert known.content("0" * 64) is None
    _, digest = published(tmp_path / "a", b"new")
    assert known.content(digest) is None
    later()
    assert known.content(digest) == b"new"


def test_a_changed_or_removed_certificate_is_not_given_out(tmp_path) -> None:
    path, digest = published(tmp_path / "a", b"published")
    known = Certificates((tmp_path,))
    assert known.content(digest) == b"published"
    path.write_bytes(b"forgery")
    assert known.content(digest) is None
    path.unlink()
    assert known.content(digest) is None


def test_no_folder_no_certificate(tmp_path) -> None:
    _, digest = published(tmp_path / "a", b"published")
    assert Certificates(()).content(digest) is None
    assert Certificates((tmp_path / "absent",)).content(digest) is None


def test_neither_links_nor_folders_nor_endless_files_pass_for_a_certificate(tmp_path) -> None:
    outside, digest = published(tmp_path / "outside", b"elsewhere")
    inside = tmp_path / "inside"
    (inside / "link").mkdir(parents=True)
    os.symlink(outside, inside / "link" / "certificate.json")
    (inside / "folder" / "certificate.json").mkdir(parents=True)
    _, too_large = published(inside / "large", b"x" * (LARGEST + 1))
    _, largest = published(inside / "largest", b"x" * LARGEST)
    known = Certificates((inside,))
    assert known.content(digest) is None
    assert known.content(too_large) is None
    assert known.content(largest) is not None


def test_a_file_that_vanishes_while_it_is_looked_for_hides_no_other(tmp_path, monkeypatch) -> None:
    gone, lost = published(tmp_path / "a", b"gone")
    _, digest = published(tmp_path / "b", b"here")
    status = Path.lstat

    def vanishing(path: Path) -> os.stat_result:
        if path == gone:
            raise FileNotFoundError(path)
        return status(path)

    monkeypatch.setattr(Path, "lstat", vanishing)
    known = Certificates((tmp_path,))
    assert known.content(digest) == b"here"
    assert known.content(lost) is None


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"\xff", b"[]", b"[" * 100_000, b'{"map":{}}', b'{"map":{"columns":[{"column":"a"}]}}'),
        *(b'{"published":{"stages":[{}]}}', b'{"published":{"stages":7}}'),
    ],
)
def test_a_certificate_that_cant_be_read_describes_neither_columns_nor_stages(content) -> None:
    assert columns_of(content) == stages_of(content) == ()


def test_no_more_files_are_read_than_a_folder_of_releases_has(tmp_path, monkeypatch) -> None:
    digests = [published(tmp_path / name, name.encode())[1] for name in ("a", "b", "c")]
    monkeypatch.setattr(certificates, "MOST_FILES", 2)
    known = Certificates((tmp_path,))
    assert sum(known.content(digest) is not None for digest in digests) == 2
    monkeypatch.setattr(certificates, "MOST_FILES", 3)
    known = Certificates((tmp_path,))
    assert all(known.content(digest) is not None for digest in digests)


def test_columns_are_those_of_the_certificate() -> None:
    described = {"column": "age", "level": 1, "hierarchy_sha256": "a" * 64}
    found = columns_of(json.dumps({"map": {"columns": [described]}}).encode())
    assert [(one.name, one.level, one.hierarchy_sha256) for one in found] == [("age", "1", "a" * 64)]
