"""Every document by its name, each loaded when it is asked for; how one about a release is made and written.

A document is a `Document`: it says what it is about, and gives the texts of its files. It writes nothing itself, so
that all documents lie where no release would be picked up. One about a published release is made by `write_document`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ...accounting.certificate.verify import certified_mechanism, read_certificate
from ...accounting.certificate.write_certificate import has_own_rates
from ...accounting.extensions import load
from ...accounting.keys.signing_upkeep import read_public_keys
from ...flows.releases.release_kind import WITHOUT_DOCUMENTS, NoDocument, TableReading, kind_of_mechanism
from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.kernel.mechanism import Mechanism
from ..release_check import verify_release
from ..release_paths import make_folder_elsewhere, release_certificate, require_elsewhere, write_new

DOCUMENTS = {
    "sheet": "crowdblend.deploy.documents.sheet.render_sheet:SHEET",
    "registry": "crowdblend.deploy.documents.registry_entry:REGISTRY_ENTRY",
    "preview": "crowdblend.deploy.documents.preview.render_preview:PREVIEW_PAGE",
    "private-report": "crowdblend.deploy.documents.private_report:REPORT_PAGE",
}
"""Name of a document → its `module:object`, as an entry point has it."""

NOT_DONE = "No document was made."
Subject = TypeVar("Subject")


@dataclass(frozen=True, kw_only=True, slots=True)
class Document(Generic[Subject]):
    """What a document implements.

    Args:
        about: class of what it is about: `VerifiedRelease` where a published release is all that it needs.
        texts: object of that class → the end of each file's name, such as `-sheet.html`, with the file's whole text.
    """

    about: type[Subject]
    texts: Callable[[Subject], Mapping[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifiedRelease:
    """A published release whose certificate and files hold.

    PRIVACY: it was read from the release's folder alone, so that a document about it has public facts only.

    Args:
        folder: the release's.
        certificate: the certificate's fields.
        statements: what the publisher says besides, by the name of each statement, such as `publisher`.
    """

    folder: Path
    certificate: Mapping[str, Any]
    statements: Mapping[str, str] = field(default_factory=dict)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that the certificate names."""
        return certified_mechanism(self.certificate)

    def table_reading(self) -> TableReading | NoDocument:
        """Return how the table is to be read; or why no document tells of it."""
        if has_own_rates(self.certificate["sampler_layout"]):
            return WITHOUT_DOCUMENTS
        return kind_of_mechanism(self.mechanism).sheet(self.mechanism, self.certificate["published"]["form"])


def file_stem(certificate: Mapping[str, Any]) -> str:
    """Return what the names of a release's documents begin with: its id as files can have it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", certificate["release_id"])


def load_document(name: str) -> Document[Any]:
    """Return the document of a name, ours or one that another distribution adds.

    Raises:
        InputRefused: there is none, or what a distribution adds is no document.
    """
    if name not in DOCUMENTS:
        added = load("documents", name)
        if isinstance(added, Document):
            return added
        raise InputRefused(f"there is no document '{name}', only {', '.join(DOCUMENTS)}.", where="document")
    module, _, attribute = DOCUMENTS[name].partition(":")
    document: Document[Any] = getattr(importlib.import_module(module), attribute)
    return document


def verified_release(
    release: Path, *, public_key: Path | None = None, statements: Mapping[str, str] | None = None
) -> VerifiedRelease:
    """Verify a release and read its certificate; neither ledger, private store nor records are opened.

    Args:
        release: its folder, or its certificate.
        public_key: PEM file of the publisher's public key; None checks the signature by the key that it names.
        statements: what the publisher says besides.

    Raises:
        InputRefused: the certificate or the key can't be read.
        ReleaseFailed: the release does not verify.
    """
    path = release_certificate(release)
    check = verify_release(path, trusted=None if public_key is None else read_public_keys(public_key))
    if check.findings:
        raise ReleaseFailed(
            f"the certificate does not verify: {check.findings[0]}.",
            where=str(path),
            not_done=NOT_DONE,
            remedy="Run `crowdblend verify` on it.",
        )
    return VerifiedRelease(folder=path.parent, certificate=read_certificate(path), statements=dict(statements or {}))


def write_document(name: str, release: VerifiedRelease, *, output: Path) -> tuple[Path, ...]:
    """Write a document about a published release.

    Args:
        name: of the document.
        release: the release.
        output: folder for the files; it is made where there is none.

    Returns:
        The new files, whose names begin with the release's id.

    Raises:
        InputRefused: there is no such document of this release, or nothing may be written there.
    """
    document = load_document(name)
    if document.about is not VerifiedRelease:
        raise InputRefused(f"the document '{name}' is not about a published release alone.", where="document")
    texts = {output / f"{file_stem(release.certificate)}{end}": text for end, text in document.texts(release).items()}
    make_folder_elsewhere(output)
    for path in texts:
        require_elsewhere(path)
    for path, text in texts.items():
        write_new(path, text)
    return tuple(texts)
