"""A release's entry for a public registry of differential-privacy deployments, from its certificate.

The fields are those of the OpenDP deployments registry (repository opendp/deployments-registry-data,
tests/good_deployments/template.yaml at commit 057e5d81cf60150dd3307e0cf4504b957802fb3b).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import yaml

from ....mechanisms.errors import FILL_IN, ReleaseFailed
from ....mechanisms.mechanism import REPLACEMENT
from ..entries.kinds import published_text

__all__ = ["StewardsTexts", "registry_text"]

CENTRAL = (
    "Central",
    "A trusted steward holds the records and publishes the release.",
    "The steward is trusted with the records, the sampling key and the ledger. Readers are trusted with nothing.",
)
LOCAL = (
    "Local",
    "Each person's device randomizes its report before sending it.",
    "Nobody but a person's own device is trusted with what the person has.",
)
REPORTS = {
    "count-mean-sketch/1": LOCAL,
    "k-randomization/1": LOCAL,
    "outcome-counts/1": (
        "Shuffle",
        "Each person's device randomizes its report before sending it; only the counts of all reports are published.",
        "Whoever holds the reports is trusted to publish nothing of them but these counts. Without that trust each "
        "report is still locally private, at a larger epsilon that the guarantee's words name.",
    ),
}
Value = str | int | Decimal | list["Value"] | dict[str, "Value"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StewardsTexts:
    """What the entry says that no certificate knows; what is None is left to be filled in by hand.

    Args:
        curator: who publishes the data product.
        curator_type: for example "Government" or "Nonprofit".
        description: what the data product is.
        intended_use: what it is for.
        region: what region the data describe, or whose laws apply.
        sector: for example "Healthcare" or "Education".
        author: who writes the entry.
    """

    curator: str | None = None
    curator_type: str | None = None
    description: str | None = None
    intended_use: str | None = None
    region: str | None = None
    sector: str | None = None
    author: str | None = None


class _ExactDumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes amounts with all their digits."""


def _amount(dumper: yaml.SafeDumper, amount: Decimal) -> yaml.ScalarNode:
    text = format(amount, "f")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text if "." in text else f"{text}.0")


_ExactDumper.add_representer(Decimal, _amount)


def registry_text(certificate: Mapping[str, Any], statements: StewardsTexts) -> str:
    """The entry as YAML; every text that the steward must still write begins with `FILL IN`.

    PRIVACY: everything in it is the certificate's, which is public, or the steward's own words.

    Args:
        certificate: a certificate that verifies.
        statements: what the steward adds.

    Raises:
        ReleaseFailed: a field has another form than a release writes, whoever signed it.
    """
    try:
        entry = _entry(certificate, statements)
        return str(yaml.dump(entry, Dumper=_ExactDumper, sort_keys=False, allow_unicode=True, width=math.inf))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise ReleaseFailed(
            "the certificate's fields have another form than a release writes.",
            not_done="No entry was written.",
            remedy="Ask the publisher for the certificate that the release was published with.",
        ) from None


def _entry(certificate: Mapping[str, Any], statements: StewardsTexts) -> dict[str, Value]:
    slug = re.sub(r"[^a-z0-9]+", "-", f"{certificate['name']}-{certificate['day']}".lower()).strip("-")
    return {
        "url_slug": slug,
        "deployment": {
            "basic": _basic(certificate, statements),
            "dp_variant": {
                "variant_name": "Approximate DP",
                **_domain(certificate),
            },
            "privacy_loss": _privacy_loss(certificate),
            "deployment_model": _model(certificate),
            "implementation": _implementation(certificate),
            "administrative": _administrative(certificate, statements),
        },
    }


def _basic(certificate: Mapping[str, Any], statements: StewardsTexts) -> dict[str, Value]:
    curator: dict[str, Value] = {
        "data_curator_name": statements.curator or f"{FILL_IN}: who publishes this",
        "data_curator_type": statements.curator_type or f"{FILL_IN}: for example Government or Nonprofit",
    }
    return {
        "name": certificate["name"],
        "data_curators": [curator],
        "description": statements.description or f"{FILL_IN}: what the data product is",
        "intended_use": statements.intended_use or f"{FILL_IN}: what it is for",
        "data_product_type": "Dataset" if certificate["published"]["form"] == "microdata" else "Summary statistics",
        "data_product_region": statements.region or f"{FILL_IN}: the region that the data describe",
        "data_product_sector": statements.sector or f"{FILL_IN}: for example Healthcare or Education",
        "publication_date": certificate["day"],
    }


def _domain(certificate: Mapping[str, Any]) -> dict[str, Value]:
    columns = ", ".join(column["column"] for column in certificate["map"]["columns"])
    if certificate["mechanism"]["kind"] in REPORTS:
        return {
            "data_domain": f"One randomized report of each person, about what is published as {columns}.",
            "unprotected_quantities": "Who reports, and how many people do.",
        }
    return {
        "data_domain": f"Tables of records with the columns {columns}; a value outside a column's declared domain "
        "counts as the column's fixed bucket.",
        "unprotected_quantities": "None. The numbers of records and of suppressed ones are not published.",
    }


def _privacy_loss(certificate: Mapping[str, Any]) -> dict[str, Value]:
    guarantee, series = certificate["guarantee"], certificate["series"]
    each = "" if series is None else " in each release"
    differ = "values" if guarantee["neighbours"] == REPLACEMENT else "presence"
    of = "this release" if series is None else f"all {series['releases']} releases of the series together"
    return {
        "privacy_unit": f"{guarantee['unit']}{each}",
        "privacy_unit_details": f"Neighbouring data sets differ by one person's {differ} ({guarantee['neighbours']}): "
        f"{guarantee['unit']}{each}.",
        "number_of_privacy_units": 1,
        "privacy_parameters": {
            "epsilon": Decimal(guarantee["epsilon"]),
            "delta": Decimal(guarantee["delta"]),
        },
        "privacy_parameters_details": f"For {of}. {guarantee['in_words']} {guarantee['limits']}",
    }


def _model(certificate: Mapping[str, Any]) -> dict[str, Value]:
    series = certificate["series"]
    alone = "Other releases of the data set are charged to the same ledger, and their costs add up."
    name, details, trust = REPORTS.get(certificate["mechanism"]["kind"], CENTRAL)
    return {
        "model_name": name,
        "model_name_details": details,
        "trust_assumptions": trust,
        "actors": f"{FILL_IN}: who holds the records, who may see the ledger, who receives the release",
        "release_type": "One release" if series is None else "Many releases",
        "release_type_details": alone
        if series is None
        else f"Release {series['number']} of {series['releases']} of a series that was charged whole beforehand.",
        "data_source_type": f"{FILL_IN}: Static or Dynamic",
        "data_source_type_details": f"{FILL_IN}: whether new records come in over time",
        "access_type": "Non-interactive",
        "access_type_details": "The release is a file; nobody queries the records.",
    }


def _implementation(certificate: Mapping[str, Any]) -> dict[str, Value]:
    mechanism, guarantee, published = certificate["mechanism"], certificate["guarantee"], certificate["published"]
    parameters = ", ".join(f"{name} = {value}" for name, value in sorted(mechanism.items()) if name != "kind")
    looks = certificate.get("private_looks")
    told_published = published_text(mechanism["kind"], groups=published["groups"], records=published["records"])
    reported = "" if looks is None else f" Private looks recorded before the charge: {looks['count']}."
    return {
        "preprocessing_and_hyperparameter_tuning": f"{FILL_IN}: how the parameters were chosen. The certificate says: "
        f"{guarantee['limits']}{reported}",
        "mechanisms": f"{mechanism['kind']} with {parameters}. Samples are drawn by {certificate['sampler_layout']}. "
        f"Software: crowdblend {certificate['code_version']}. SHA-256 of the generalization map: "
        f"{certificate['map']['sha256']}.",
        "composition": f"{guarantee['rule']}: {guarantee['theorem']}. Between releases epsilon and delta add up in a "
        "ledger that is charged before the records are read.",
        "post_processing": "None.",
        "justification": f"{FILL_IN}: why these parameters",
        "utility": f"Published: {told_published}.",
        "additional_information": "",
    }


def _administrative(certificate: Mapping[str, Any], statements: StewardsTexts) -> dict[str, Value]:
    place, key_id = certificate["ledger"], certificate["signature"]["key_id"]
    evidence: dict[str, Value] = {
        "evidence_source_type": f"{FILL_IN}: the registry's word for a signed certificate",
        "article": {
            "title": f"Signed certificate of release {certificate['release_id']}",
            "note": f"Signed by the key {key_id}; entry {place['position']} of the ledger, hash {place['hash']}.",
            "url": f"{FILL_IN}: where the certificate is published",
        },
    }
    return {
        "evidence_sources": {"certificate": evidence},
        "status": "Draft",
        "registry_authors": [statements.author or f"{FILL_IN}: who writes this entry"],
        "tier": 3,
    }
