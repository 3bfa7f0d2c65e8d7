"""A release's entry for a public registry of differential-privacy deployments, from its certificate.

The fields are those of the OpenDP deployments registry (repository opendp/deployments-registry-data,
tests/good_deployments/template.yaml at commit 057e5d81cf60150dd3307e0cf4504b957802fb3b).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jinja2 import TemplateError

from ...accounting.descriptions.description_registry import description_of_record, published_text
from ...accounting.descriptions.kind_description import CENTRAL
from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.wording import FILL_IN
from .document_registry import Document, VerifiedRelease
from .rendering import plain_text

STEWARDS_TEXTS = {
    "curator": "who publishes this",
    "curator_type": "for example Government or Nonprofit",
    "description": "what the data product is",
    "intended_use": "what it is for",
    "region": "the region that the data describe",
    "sector": "for example Healthcare or Education",
    "author": "who writes this entry",
}
"""What no certificate knows: the name of a text that the steward may give, and what it is to be."""


def registry_text(certificate: Mapping[str, Any], statements: Mapping[str, str]) -> str:
    """Return the entry of a verified certificate as YAML; what the steward must still write begins with `FILL IN`.

    PRIVACY: everything in it is the certificate's, which is public, or the steward's own words.

    Args:
        certificate: its fields.
        statements: the steward's texts, by the names in `STEWARDS_TEXTS`.

    Raises:
        ReleaseFailed: a field has another form than a release writes, whoever signed it.
    """
    said = {name: statements.get(name, f"{FILL_IN}: {what}") for name, what in STEWARDS_TEXTS.items()}
    try:
        return plain_text(
            "registry_entry.yaml", certificate=certificate, said=said, FILL_IN=FILL_IN, **_told(certificate)
        )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, TemplateError):
        raise ReleaseFailed(
            "the certificate's fields have another form than a release writes.",
            not_done="No entry was written.",
            remedy="Ask the publisher for the certificate that the release was published with.",
        ) from None


def _told(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the template says that follows from several fields."""
    guarantee, series, mechanism = certificate["guarantee"], certificate["series"], certificate["mechanism"]
    published, looks = certificate["published"], certificate.get("private_looks")
    trust = description_of_record(mechanism["kind"]).trust
    return {
        "slug": re.sub(r"[^a-z0-9]+", "-", f"{certificate['name']}-{certificate['day']}".lower()).strip("-"),
        "columns": ", ".join(column["column"] for column in certificate["map"]["columns"]),
        "parameters": ", ".join(f"{name} = {value}" for name, value in sorted(mechanism.items()) if name != "kind"),
        "looked": "" if looks is None else f" Private looks recorded before the charge: {looks['count']}.",
        "unit": guarantee["unit"] if series is None else f"{guarantee['unit']} in each release",
        "shown": published_text(mechanism["kind"], groups=published["groups"], records=published["records"]),
        "central": trust is CENTRAL,
        "trust": trust,
        "guarantee": guarantee,
        "series": series,
        "mechanism": mechanism,
        "published": published,
    }


REGISTRY_ENTRY = Document(
    about=VerifiedRelease,
    texts=lambda release: {"-registry.yaml": registry_text(release.certificate, release.statements)},
)
