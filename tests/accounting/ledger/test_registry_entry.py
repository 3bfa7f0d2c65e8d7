"""A registry entry has the registry's fields, says what the certificate says, and leaves the rest to be filled in."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from crowdblend.accounting.ledger.certificate.registry_entry import FILL_IN, StewardsTexts, registry_text
from crowdblend.accounting.ledger.certificate.verify import read_certificate

FIELDS = Path(__file__).parents[2] / "vectors" / "deployments_registry_fields.json"
WORDS = StewardsTexts(
    curator='Office "A": statistics',
    curator_type="Government",
    description="Counts\nof people",
    intended_use="Research # and teaching",
    region="Ünterland",
    sector="Education",
    author="- a steward",
)
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


@pytest.fixture
def document(certified, tmp_path):
    return read_certificate(certified(tmp_path / "output"))


def test_it_has_the_registrys_fields_and_nothing_else(document, certified, tmp_path) -> None:
    series = certified.books.of_series("third", releases=12).entry_at(3)
    of_series = read_certificate(certified(tmp_path / "third", charge=series))
    for certificate in (document, of_series):
        for words in (WORDS, StewardsTexts()):
            assert unlike_the_registrys(yaml.safe_load(registry_text(certificate, words))) == []


def test_the_check_itself_finds_what_is_unlike_the_registry(document) -> None:
    """The control."""
    entry = yaml.safe_load(registry_text(document, WORDS))
    entry["deployment"]["basic"]["surprise"] = "x"
    entry["deployment"]["dp_variant"]["variant_name"] = "Local DP"
    entry["deployment"]["privacy_loss"]["privacy_parameters"]["delta"] = "1e-6"
    del entry["url_slug"]
    assert len(unlike_the_registrys(entry)) == 4


def test_it_says_what_the_certificate_and_the_steward_say(document) -> None:
    entry = yaml.safe_load(registry_text(document, WORDS))
    deployment = entry["deployment"]
    loss, basic = deployment["privacy_loss"], deployment["basic"]
    assert Decimal(str(loss["privacy_parameters"]["epsilon"])) == Decimal(document["guarantee"]["epsilon"])
    assert loss["privacy_parameters"]["delta"] == 1e-6
    assert loss["privacy_unit"] == document["guarantee"]["unit"]
    assert document["guarantee"]["limits"] in loss["privacy_parameters_details"]
    assert "k = 20, sampling_rate = 0.1" in deployment["implementation"]["mechanisms"]
    assert document["guarantee"]["theorem"] in deployment["implementation"]["composition"]
    assert basic["data_curators"] == [{"data_curator_name": WORDS.curator, "data_curator_type": "Government"}]
    assert (basic["description"], basic["intended_use"]) == (WORDS.description, WORDS.intended_use)
    assert basic["data_product_region"] == WORDS.region
    assert deployment["administrative"]["registry_authors"] == [WORDS.author]


def test_what_the_steward_left_out_is_marked(document) -> None:
    def marked(words: StewardsTexts) -> set[str]:
        found = leaves(yaml.safe_load(registry_text(document, words)))
        return {name for name, value in found if isinstance(value, str) and value.startswith(FILL_IN)}

    stewards = marked(StewardsTexts()) - marked(WORDS)
    assert len(stewards) == 7
    assert "deployment.basic.data_curators[].data_curator_name" in stewards
    assert "deployment.implementation.justification" in marked(WORDS)
    text = registry_text(document, StewardsTexts())
    assert text.count(FILL_IN) == len(marked(StewardsTexts()))


def test_a_private_look_is_told(certified, tmp_path) -> None:
    document = read_certificate(certified(tmp_path / "output", look_days=(date(2026, 3, 2),)))
    entry = yaml.safe_load(registry_text(document, WORDS))
    tuning = entry["deployment"]["implementation"]["preprocessing_and_hyperparameter_tuning"]
    assert "Private looks recorded before the charge: 1." in tuning
    assert "chosen after private inspection" in tuning
