"""A published release as an object: its facts, its table, and whether it verifies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.table import Table

from ...accounting.ledger.certificate.verify import CertificateCheck, read_certificate
from ...accounting.ledger.private_store.signing import read_public_keys
from ...accounting.theory.kinds.registry import mechanism_of_record
from ...flows.releases.kind import kind_of_mechanism
from ...mechanisms.amounts import amount_shown
from ...tasks.readers.released_groups import read_released_table
from ..release_check import verify_release
from ..terminal.facts import FactTable

__all__ = ["PublishedRelease", "open_release", "verify"]


CERTIFICATE = "certificate.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRelease:
    """A release in a folder of this machine; everything that this object knows is public.

    Args:
        folder: holds the table and the certificate.
        certificate: the certificate's fields as they are written; nothing is checked yet, see `findings`.
    """

    folder: Path
    certificate: Mapping[str, Any]

    def __repr__(self) -> str:
        """The release's id and its folder's name."""
        return f"PublishedRelease(release_id={self.release_id!r}, folder={self.folder.name!r})"

    @property
    def release_id(self) -> str:
        """The release's id."""
        return str(self.certificate["release_id"])

    @property
    def dataset(self) -> str:
        """The data set that it was charged to."""
        return str(self.certificate["dataset"])

    @property
    def epsilon(self) -> Decimal:
        """ε of the guarantee; of a series, for all its releases together."""
        return Decimal(self.certificate["guarantee"]["epsilon"])

    @property
    def delta(self) -> Decimal:
        """δ of the guarantee, between 0 and 1; of a series, for all its releases together."""
        return Decimal(self.certificate["guarantee"]["delta"])

    @property
    def sampling_rate(self) -> Decimal | None:
        """β, between 0 and 1: divide a count by it to estimate how many there are; None where nothing was sampled."""
        rate = self.certificate["mechanism"].get("sampling_rate")
        return None if rate in (None, "whole") else Decimal(str(rate))

    @property
    def levels(self) -> dict[str, int]:
        """The level of each released column, 0 being the value itself; of a chain of maps that of the finest."""
        return {column["column"]: column["level"] for column in self.certificate["map"]["columns"]}

    def groups(self) -> pa.Table:
        """The groups of a microdata release: one row each, with its labels and its number of records in `count`.

        Those of a deletion release also have the `stage` that published them, where there are several, and the
        `weight` of each of their records, both as numbers.

        Raises:
            InputRefused: there is no table of groups, or it can't be read.
        """
        kind = kind_of_mechanism(mechanism_of_record(self.certificate["mechanism"]))
        return read_released_table(self.folder, figures=kind.figures or ())

    def findings(self, *, public_key: Path | None = None) -> tuple[str, ...]:
        """What does not hold of the certificate and the files, one sentence each; empty where all is well.

        Args:
            public_key: PEM file of the publisher's key, had from the publisher; without one whose key signed isn't
                checked.

        Raises:
            InputRefused: the certificate or the key can't be read.
        """
        trusted = None if public_key is None else read_public_keys(public_key)
        return verify_release(self.folder / CERTIFICATE, trusted=trusted).findings

    @property
    def facts(self) -> FactTable:
        """The release in a few lines."""
        stated, mechanism = self.certificate, self.certificate["mechanism"]
        published = stated["published"]
        rows = [
            ("data set", self.dataset),
            ("day", str(stated["day"])),
            ("mechanism", str(mechanism["kind"])),
            ("ε", amount_shown(self.epsilon)),
            ("δ", amount_shown(self.delta)),
            *((name, str(mechanism[name])) for name in ("k", "sampling_rate") if name in mechanism),
            ("levels", ", ".join(f"{name} {level}" for name, level in self.levels.items())),
            *((name, str(value)) for name, value in published.items() if not isinstance(value, list)),
            ("folder", str(self.folder)),
        ]
        return FactTable(title=f"Release {self.release_id}", headers=("", "value"), rows=tuple(rows))

    def __rich__(self) -> Table:
        """The facts for a terminal."""
        return self.facts.__rich__()

    def _repr_html_(self) -> str:
        """The facts for a notebook."""
        return self.facts._repr_html_()


def open_release(folder: Path | str) -> PublishedRelease:
    """Open a release by its folder; nothing is checked but that it has a certificate.

    Args:
        folder: holds the table and `certificate.json`.

    Raises:
        InputRefused: there is no certificate, or it can't be read.
    """
    place = Path(folder).absolute()
    return PublishedRelease(folder=place, certificate=read_certificate(place / CERTIFICATE))


def verify(place: Path | str, *, public_key: Path | str | None = None) -> CertificateCheck:
    """Check a release's certificate and its files, without ledger or private store; as `crowdblend verify`.

    Args:
        place: the release's folder, or its certificate.
        public_key: PEM file of the publisher's key, had from the publisher; without one whose key signed isn't checked.

    Returns:
        What doesn't hold, whose signature does, and what was not shown.

    Raises:
        InputRefused: the certificate or the key can't be read.
    """
    path = Path(place)
    trusted = None if public_key is None else read_public_keys(Path(public_key))
    return verify_release(path / CERTIFICATE if path.is_dir() else path, trusted=trusted)
