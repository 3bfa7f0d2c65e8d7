"""Published certificates, found by the digest that the ledger has of them, and by nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ....mechanisms.generalization_map import told_sentences
from ....mechanisms.hierarchies.build import described_hierarchy
from ...given_files import read_given

NAME = "certificate.json"
LARGEST = 1 << 20
MOST_FILES = 20_000
SECONDS_BETWEEN = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateColumn:
    """A released column, as its certificate describes it."""

    name: str  # of the column
    level: str  # of the hierarchy that was published; of several stages one after the other
    hierarchy_sha256: str  # digest of the hierarchy


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateStage:
    """What a stage of a deletion release published, as its certificate has it."""

    groups: int  # how many
    records: int  # how many


MapOfColumns = tuple[CertificateColumn, ...]


class Certificates:
    """The certificates below the folders of published releases; without folders, none is given out.

    A request names a digest from the ledger, never a path; what is given out has that digest.
    """

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._lock = threading.Lock()
        self._looked = 0.0
        self._known: dict[Path, tuple[int, int, str]] = {}
        self._places: dict[str, Path] = {}

    def content(self, digest: str) -> bytes | None:
        """Return the certificate of this SHA-256 (hex), None where no folder has it."""
        if not self._folders:
            return None
        with self._lock:
            if digest not in self._places and time.monotonic() - self._looked > SECONDS_BETWEEN:
                self._look()
            place = self._places.get(digest)
        content = None if place is None else _read(place)
        return content if content is not None and hashlib.sha256(content).hexdigest() == digest else None

    def _look(self) -> None:
        """Hash the certificates that are new or changed since the last look."""
        found: dict[Path, tuple[int, int, str]] = {}
        for path, status in islice(self._candidates(), MOST_FILES):
            known = self._known.get(path)
            if known is not None and known[:2] == (status.st_mtime_ns, status.st_size):
                found[path] = known
            elif (content := _read(path)) is not None:
                found[path] = (status.st_mtime_ns, status.st_size, hashlib.sha256(content).hexdigest())
        self._known = found
        self._places = {digest: path for path, (_, _, digest) in found.items()}
        self._looked = time.monotonic()

    def _candidates(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Files of a certificate's name, and no links, which could lead out of the folders."""
        for path in (path for folder in self._folders for path in folder.rglob(NAME)):
            with suppress(OSError):
                if stat.S_ISREG((status := path.lstat()).st_mode):
                    yield path, status


FAULTS = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)


def columns_of(content: bytes) -> MapOfColumns:
    """Return the columns that a certificate describes; none where it can't be read."""
    try:
        certificate = json.loads(content)
        stages = certificate.get("published", {}).get("stages", [])
        return tuple(
            CertificateColumn(
                name=str(one["column"]),
                level=", ".join(str(stage["levels"][one["column"]]) for stage in stages) or str(one["level"]),
                hierarchy_sha256=str(one["hierarchy_sha256"]),
            )
            for one in certificate["map"]["columns"]
        )
    except FAULTS:
        return ()


def stages_of(content: bytes) -> tuple[CertificateStage, ...]:
    """Return what each stage published, by a certificate; none where it has no stages or can't be read."""
    try:
        stages = json.loads(content)["published"].get("stages", [])
        counts = ((int(one["published_groups"]), int(one["published_records"])) for one in stages)
        return tuple(CertificateStage(groups=groups, records=records) for groups, records in counts)
    except FAULTS:
        return ()


def told_of(content: bytes) -> tuple[str, ...]:
    """Return how much the published records tell by a certificate, in sentences; none where it doesn't say it."""
    try:
        certificate = json.loads(content)
        columns = certificate["map"]["columns"]
        described = ((one["column"], one.get("hierarchy")) for one in columns)
        return told_sentences(
            certificate["published"],
            levels={one["column"]: one["level"] for one in columns},
            hierarchies={name: None if own is None else described_hierarchy(own) for name, own in described},
        )
    except FAULTS:
        return ()


def _read(path: Path) -> bytes | None:
    """Return a file's bytes, None where it can't be read or is no certificate by its size."""
    try:
        return read_given(path, most=LARGEST)
    except OSError:
        return None
