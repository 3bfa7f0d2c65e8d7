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

from ...mechanisms.kernel.errors import FILL_IN, ReleaseFailed
from ...mechanisms.kernel.mechanism import REPLACEMENT
from ..descriptions.description_registry import description_of_record, published_text
from ..descriptions.kind_description import CENTRAL

__all__ = ["StewardsTexts", "registry_text"]


def _to_fill_in(what: str) -> str:
    return f"{FILL_IN}: {what}"


@dataclass(frozen=True, kw_only=True, slots=True)
class StewardsTexts:
    """What the entry says that no certificate knows: what isn't given is left to be filled in by hand.

    Args:
        curator: who publishes the data product.
        curator_type: for example "Government" or "Nonprofit".
        description: what the data product is.
        intended_use: what it is for.
        region: what region the data describe, or whose laws apply.
        sector: for example "Healthcare" or "Education".
        author: who writes the entry.
    """

    curator: str = _to_fill_in("who publishes this")
    curator_type: str = _to_fill_in("for example Government or Nonprofit")
    description: str = _to_fill_in("what the data product is")
    intended_use: str = _to_fill_in("what it is for")
    region: str = _to_fill_in("the region that the data describe")
    sector: str = _to_fill_in("for example Healthcare or Education")
    author: str = _to_fill_in("who writes this entry")


class _ExactDumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes amounts with all their digits."""


def _amount(dumper: yaml.SafeDumper, amount: Decimal) -> yaml.ScalarNode:
    text = format(amount, "f")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text if "." in text else f"{text}.0")


_ExactDumper.add_representer(Decimal, _amount)


def registry_text(certificate: Mapping[str, Any], statements: StewardsTexts) -> str:
    """The entry of a verified certificate as YAML; texts that the steward must still write begin with `FILL IN`.

    PRIVACY: everything in it is the certificate's, which is public, or the steward's own words.

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


def _entry(certificate: Mapping[str, Any], statements: StewardsTexts) -> dict[str, Any]:
    guarantee, series, mechanism = certificate["guarantee"], certificate["series"], certificate["mechanism"]
    published, place, looks = certificate["published"], certificate["ledger"], certificate.get("private_looks")
    slug = re.sub(r"[^a-z0-9]+", "-", f"{certificate['name']}-{certificate['day']}".lower()).strip("-")
    columns = ", ".join(column["column"] for column in certificate["map"]["columns"])
    domain = (
        f"Tables of records with the columns {columns}; a value outside a column's declared domain counts as the "
        "column's fixed bucket."
    )
    unprotected = "None. The numbers of records and of suppressed ones are not published."
    trusted = description_of_record(mechanism["kind"]).trust
    if trusted is not CENTRAL:
        domain = f"One randomized report of each person, about what is published as {columns}."
        unprotected = "Who reports, and how many people do."
    model, model_details, trust = trusted
    if series is None:
        unit, of, release_type = guarantee["unit"], "this release", "One release"
        others = "Other releases of the data set are charged to the same ledger, and their costs add up."
    else:
        unit, release_type = f"{guarantee['unit']} in each release", "Many releases"
        of = f"all {series['releases']} releases of the series together"
        others = f"Release {series['number']} of {series['releases']} of a series that was charged whole beforehand."
    differ = "values" if guarantee["neighbours"] == REPLACEMENT else "presence"
    parameters = ", ".join(f"{name} = {value}" for name, value in sorted(mechanism.items()) if name != "kind")
    looked = "" if looks is None else f" Private looks recorded before the charge: {looks['count']}."
    deployment = {
        "basic": {
            "name": certificate["name"],
            "data_curators": [{"data_curator_name": statements.curator, "data_curator_type": statements.curator_type}],
            "description": statements.description,
            "intended_use": statements.intended_use,
            "data_product_type": "Dataset" if published["form"] == "microdata" else "Summary statistics",
            "data_product_region": statements.region,
            "data_product_sector": statements.sector,
            "publication_date": certificate["day"],
        },
        "dp_variant": {
            "variant_name": "Approximate DP",
            "data_domain": domain,
            "unprotected_quantities": unprotected,
        },
        "privacy_loss": {
            "privacy_unit": unit,
            "privacy_unit_details": f"Neighbouring data sets differ by one person's {differ} "
            f"({guarantee['neighbours']}): {unit}.",
            "number_of_privacy_units": 1,
            "privacy_parameters": {"epsilon": Decimal(guarantee["epsilon"]), "delta": Decimal(guarantee["delta"])},
            "privacy_parameters_details": f"For {of}. {guarantee['in_words']} {guarantee['limits']}",
        },
        "deployment_model": {
            "model_name": model,
            "model_name_details": model_details,
            "trust_assumptions": trust,
            "actors": _to_fill_in("who holds the records, who may see the ledger, who receives the release"),
            "release_type": release_type,
            "release_type_details": others,
            "data_source_type": _to_fill_in("Static or Dynamic"),
            "data_source_type_details": _to_fill_in("whether new records come in over time"),
            "access_type": "Non-interactive",
            "access_type_details": "The release is a file; nobody queries the records.",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _to_fill_in("how the parameters were chosen")
            + f". The certificate says: {guarantee['limits']}{looked}",
            "mechanisms": f"{mechanism['kind']} with {parameters}. Samples are drawn by "
            f"{certificate['sampler_layout']}. Software: crowdblend {certificate['code_version']}. SHA-256 of the "
            f"generalization map: {certificate['map']['sha256']}.",
            "composition": f"{guarantee['rule']}: {guarantee['theorem']}. Between releases epsilon and delta add up "
            "in a ledger that is charged before the records are read.",
            "post_processing": "None.",
            "justification": _to_fill_in("why these parameters"),
            "utility": "Published: "
            f"{published_text(mechanism['kind'], groups=published['groups'], records=published['records'])}.",
            "additional_information": "",
        },
        "administrative": {
            "evidence_sources": {
                "certificate": {
                    "evidence_source_type": _to_fill_in("the registry's word for a signed certificate"),
                    "article": {
                        "title": f"Signed certificate of release {certificate['release_id']}",
                        "note": f"Signed by the key {certificate['signature']['key_id']}; entry {place['position']} "
                        f"of the ledger, hash {place['hash']}.",
                        "url": _to_fill_in("where the certificate is published"),
                    },
                }
            },
            "status": "Draft",
            "registry_authors": [statements.author],
            "tier": 3,
        },
    }
    return {"url_slug": slug, "deployment": deployment}
