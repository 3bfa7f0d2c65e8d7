"""A registry entry has the registry's fields, says what the certificate says, and leaves the rest to be filled in."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
import yaml
from crowdblend.deploy.documents.registry_entry import STEWARDS_TEXTS, registry_text
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.mechanisms.wording import FILL_IN

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


def entry_of(certificate: dict, words: dict[str, str] = WORDS) -> dict:
    return yaml.safe_load(registry_text(certificate, words))


def test_it_says_what_the_certificate_and_the_steward_say() -> None:
    entry = entry_of(CERTIFICATE)
    deployment = entry["deployment"]
    basic, implementation = deployment["basic"], deployment["implementation"]
    assert entry["url_slug"] == "counts-of-2026-2026-03-04"
    assert basic["data_curators"] == [{"data_curator_name": WORDS["curator"], "data_curator_type": "Government"}]
    assert [basic[name] for name in ("description", "intended_use")] == [WORDS["description"], WORDS["intended_use"]]
    assert deployment["administrative"]["registry_authors"] == [WORDS["author"]]
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-7}
    assert deployment["privacy_loss"]["privacy_parameters_details"] == "For this release. Words. Limits."
    assert "k = 20, sampling_rate = 0.1" in implementation["mechanisms"]
    assert implementation["composition"].startswith("exact-profile/1: a theorem.")
    assert implementation["utility"] == "Published: 50 records in 2 groups."
    long = CERTIFICATE["guarantee"] | {"epsilon": "0.12345678901234567890"}
    assert "epsilon: 0.12345678901234567890\n" in registry_text(CERTIFICATE | {"guarantee": long}, WORDS), "all digits"


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
    own = dict(leaves(entry_of(CERTIFICATE)))

    def differing(**change: object) -> dict[str, object]:
        found = dict(leaves(entry_of(CERTIFICATE | change)))
        return {name.rpartition(".")[2]: value for name, value in found.items() if own[name] != value}

    series = differing(series={"number": 2, "releases": 12})
    assert series["privacy_unit"] == "one person in each release"
    assert series["privacy_parameters_details"] == "For all 12 releases of the series together. Words. Limits."
    assert series["release_type_details"].startswith("Release 2 of 12 ")
    assert series.keys() == {"privacy_unit", "privacy_unit_details", "privacy_parameters_details"} | {
        "release_type",
        "release_type_details",
    }
    replaced = differing(guarantee=CERTIFICATE["guarantee"] | {"neighbours": "replacement"})
    assert list(replaced) == ["privacy_unit_details"]
    assert "one person's values (replacement)" in replaced["privacy_unit_details"]
    counts = differing(published={"form": "counts", "groups": 1, "records": None})
    assert counts == {"data_product_type": "Summary statistics", "utility": "Published: 1 group."}
    [looked] = differing(private_looks={"count": 2}).values()
    assert looked.endswith("Private looks recorded before the charge: 2.")
    for kind, model in (
        ("k-randomization/1", "Local"),
        ("count-mean-sketch/1", "Local"),
        ("outcome-counts/1", "Shuffle"),
    ):
        found = differing(mechanism={"kind": kind})
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
