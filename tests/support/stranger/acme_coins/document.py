"""A document: one line about a published release."""

from __future__ import annotations

from crowdblend.deploy.documents.document_registry import Document, VerifiedRelease

POSTCARD = Document(
    about=VerifiedRelease,
    texts=lambda release: {
        "-postcard.txt": f"{release.certificate['name']}: ε = {release.certificate['guarantee']['epsilon']}\n"
    },
)
