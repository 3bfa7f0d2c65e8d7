"""A registry entry has the registry's fields, says what the certificate says, and leaves the rest to be filled in."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
import yaml
from crowdblend.deploy.documents.registry_entry import STEWARDS_TEXTS, registry_text
from crowdblend.mechanisms.kernel.errors import FILL_IN, ReleaseFailed

VECTORS = Path(__file__).parents[2] / "vectors"
FIELDS = VECTORS / "deployments_registry_fields.json"
WORDS = {
    "curator": 'Office "A": statistics',
    "curator_type": "Government",
    "description": "Counts\nof people",
    "intended_use": "Research # and teaching",
    "region": "Ünterland",
    "sector": "Education",
    "author": "- a steward",
}
OF_THE_KIND = {
    "text": lambda value: isinstance(value, str),
    "day": lambda value: isinstance(value, str) and date.fromisoformat(value) is not None,
    "number": lambda value: isinstance(value, float),
    "whole number": lambda value: type(value) is int,
}


def leaves(value, path: str = ""):
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, f"{path}.{name}")
    elif isinstance(value, list):
        for member in value:
            yield from leaves(member, f"{path}[]")
    else:
        yield path.lstrip("."), value


def unlike_the_registrys(entry) -> list[str]:
    """In what an entry differs from the registry's fields."""
    fields = json.loads(FIELDS.read_text(encoding="utf-8"))["fields"]
    found = dict(leaves(entry))
    faults = [f"no {name}" for name in fields.keys() - found.keys()]
    faults += [f"unknown {name}" for name in found.keys() - fields.keys()]
    for name, kind in fields.items():
        if name in found and not (found[name] in kind if isinstance(kind, list) else OF_THE_KIND[kind](found[name])):
            faults.append(f"{name} is {found[name]!r}")
    return faults


CERTIFICATE = {
    "name": "Counts of 2026!",
    "day": "2026-03-04",
    "release_id": "one",
    "code_version": "0.1.0",
    "sampler_layout": "x/1",
    "mechanism": {"kind": "strongly-safe-release/1", "sampling_rate": "0.1", "k": 20},
    "guarantee": {
        "neighbours": "add/remove",
        "unit": "one person",
        "epsilon": "1",
        "delta": "0.0000001",
        "in_words": "Words.",
        "limits": "Limits.",
        "rule": "exact-profile/1",
        "theorem": "a theorem",
    },
    "series": None,
    "map": {"columns": [{"column": "age"}, {"column": "town"}], "sha256": "1" * 64},
    "published": {"form": "microdata", "groups": 2, "records": 50},
    "ledger": {"position": 3, "hash": "2" * 64},
    "signature": {"key_id": "abcd"},
}
ENTRY = {
    "url_slug": "counts-of-2026-2026-03-04",
    "deployment": {
        "basic": {
            "name": "Counts of 2026!",
            "data_curators": [{"data_curator_name": 'Office "A": statistics', "data_curator_type": "Government"}],
            "description": "Counts\nof people",
            "intended_use": "Research # and teaching",
            "data_product_type": "Dataset",
            "data_product_region": "Ünterland",
            "data_product_sector": "Education",
            "publication_date": "2026-03-04",
        },
        "dp_variant": {
            "variant_name": "Approximate DP",
            "data_domain": "Tables of records with the columns age, town; a value outside a column's declared domain "
            "counts as the column's fixed bucket.",
            "unprotected_quantities": "None. The numbers of records and of suppressed ones are not published.",
        },
        "privacy_loss": {
            "privacy_unit": "one person",
            "privacy_unit_details": "Neighbouring data sets differ by one person's presence (add/remove): one person.",
            "number_of_privacy_units": 1,
            "privacy_parameters": {"epsilon": 1.0, "delta": 1e-7},
            "privacy_parameters_details": "For this release. Words. Limits.",
        },
        "deployment_model": {
            "model_name": "Central",
            "model_name_details": "A trusted steward holds the records and publishes the release.",
            "trust_assumptions": "The steward is trusted with the records, the sampling key and the ledger. Readers "
            "are trusted with nothing.",
            "actors": "FILL IN: who holds the records, who may see the ledger, who receives the release",
            "release_type": "One release",
            "release_type_details": "Other releases of the data set are charged to the same ledger, and their costs "
            "add up.",
            "data_source_type": "FILL IN: Static or Dynamic",
            "data_source_type_details": "FILL IN: whether new records come in over time",
            "access_type": "Non-interactive",
            "access_type_details": "The release is a file; nobody queries the records.",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "FILL IN: how the parameters were chosen. The certificate says: "
            "Limits.",
            "mechanisms": "strongly-safe-release/1 with k = 20, sampling_rate = 0.1. Samples are drawn by x/1. "
            f"Software: crowdblend 0.1.0. SHA-256 of the generalization map: {'1' * 64}.",
            "composition": "exact-profile/1: a theorem. Between releases epsilon and delta add up in a ledger that is "
            "charged before the records are read.",
            "post_processing": "None.",
            "justification": "FILL IN: why these parameters",
            "utility": "Published: 50 records in 2 groups.",
            "additional_information": "",
        },
        "administrative": {
            "evidence_sources": {
                "certificate": {
                    "evidence_source_type": "FILL IN: the registry's word for a signed certificate",
                    "article": {
                        "title": "Signed certificate of release one",
                        "note": f"Signed by the key abcd; entry 3 of the ledger, hash {'2' * 64}.",
                        "url": "FILL IN: where the certificate is published",
                    },
                }
            },
            "status": "Draft",
            "registry_authors": ["- a steward"],
            "tier": 3,
        },
    },
}


def entry_of(certificate: dict, words: dict[str, str] = WORDS) -> dict:
    return yaml.safe_load(registry_text(certificate, words))


def test_every_field_of_an_entry_says_this() -> None:
    entry = entry_of(CERTIFICATE)
    assert entry == ENTRY
    assert list(entry["deployment"]) == list(ENTRY["deployment"])
    text = registry_text(
        CERTIFICATE | {"guarantee": CERTIFICATE["guarantee"] | {"epsilon": "0.12345678901234567890"}}, WORDS
    )
    assert "epsilon: 0.12345678901234567890\n" in text, "all digits"
    assert max(len(line) for line in text.splitlines()) > 170, "a sentence is one line"


def test_what_the_steward_left_out_is_marked() -> None:
    def marked(words: dict[str, str]) -> set[str]:
        found = leaves(entry_of(CERTIFICATE, words))
        return {name for name, value in found if isinstance(value, str) and value.startswith(FILL_IN)}

    assert len(marked({}) - marked(WORDS)) == len(WORDS) == len(STEWARDS_TEXTS)
    assert registry_text(CERTIFICATE, {}).count(FILL_IN) == len(marked({}))


CERTIFICATES = [
    json.loads((case.parent / "release" / "certificate.json").read_bytes())
    for case in sorted((VECTORS / "conformance" / "certificate").glob("*/case.json"))
    if json.loads(case.read_bytes())["holds"]
]


def test_every_certificate_that_holds_has_the_registrys_fields_and_nothing_else() -> None:
    assert len(CERTIFICATES) > 5
    for certificate in (CERTIFICATE, *CERTIFICATES):
        for words in (WORDS, {}):
            assert unlike_the_registrys(entry_of(certificate, words)) == []
    entry = entry_of(CERTIFICATE)
    entry["deployment"]["basic"]["surprise"] = "x"
    entry["deployment"]["dp_variant"]["variant_name"] = "Local DP"
    entry["deployment"]["privacy_loss"]["privacy_parameters"]["delta"] = "1e-6"
    del entry["url_slug"]
    assert len(unlike_the_registrys(entry)) == 4, "the control"


def test_what_differs_in_a_series_and_for_reports_and_tables() -> None:
    def differing(change) -> dict[str, object]:
        found = dict(leaves(entry_of(CERTIFICATE | change)))
        return {name.rpartition(".")[2]: value for name, value in found.items() if dict(leaves(ENTRY))[name] != value}

    assert differing({"series": {"number": 2, "releases": 12}}) == {
        "privacy_unit": "one person in each release",
        "privacy_unit_details": "Neighbouring data sets differ by one person's presence (add/remove): one person in "
        "each release.",
        "privacy_parameters_details": "For all 12 releases of the series together. Words. Limits.",
        "release_type": "Many releases",
        "release_type_details": "Release 2 of 12 of a series that was charged whole beforehand.",
    }
    assert differing({"guarantee": CERTIFICATE["guarantee"] | {"neighbours": "replacement"}}) == {
        "privacy_unit_details": "Neighbouring data sets differ by one person's values (replacement): one person.",
    }
    assert differing({"published": {"form": "counts", "groups": 1, "records": None}}) == {
        "data_product_type": "Summary statistics",
        "utility": "Published: 1 group.",
    }
    assert differing({"private_looks": {"count": 2}}) == {
        "preprocessing_and_hyperparameter_tuning": "FILL IN: how the parameters were chosen. The certificate says: "
        "Limits. Private looks recorded before the charge: 2.",
    }
    for kind, model in (
        ("k-randomization/1", "Local"),
        ("count-mean-sketch/1", "Local"),
        ("outcome-counts/1", "Shuffle"),
    ):
        found = differing({"mechanism": {"kind": kind}})
        assert found["model_name"] == model
        assert found["unprotected_quantities"] == "Who reports, and how many people do."
        assert found["data_domain"].endswith("about what is published as age, town.")


@pytest.mark.parametrize(
    "change",
    [
        {"map": {}},
        {"map": []},
        {"guarantee": None},
        {"series": 3},
        {"signature": {}},
        {"published": {"form": "microdata", "groups": "x"}},
        {"guarantee": CERTIFICATE["guarantee"] | {"epsilon": "much"}},
    ],
)
def test_a_certificate_of_another_form_has_no_entry(change) -> None:
    with pytest.raises(ReleaseFailed, match="another form than a release writes"):
        registry_text(CERTIFICATE | change, WORDS)
