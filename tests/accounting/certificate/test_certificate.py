"""A certificate says what was done and guaranteed, nothing that is private, and fits its files alone."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pytest
from crowdblend.accounting.certificate.verify import check_certificate, read_certificate
from crowdblend.accounting.certificate.write_certificate import certificate_bytes, guarantee_statement, signed_bytes
from crowdblend.accounting.descriptions.description_registry import published_text
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.ledger.lookup import DatasetContext
from crowdblend.mechanisms.kernel.contributions import LAYOUTS
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.answers import SumAnswer
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

MECHANISM = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


@pytest.fixture
def certificate(certified, tmp_path):
    return certified(tmp_path / "output")


def test_a_sound_certificate_has_no_findings(certificate) -> None:
    assert check_certificate(certificate) == ()


@pytest.mark.parametrize(
    ("kind", "records", "told"),
    [
        ("strongly-safe-release/1", 875, "875 records in 1 group"),
        ("strongly-safe-release/1", 1, "1 record in 1 group"),
        ("strongly-safe-release/1", None, "1 group"),
        ("noisy-histogram/1", 7, "1 noisy count"),
        ("suppressed-histogram/1", 7, "1 count"),
        ("synthetic-points/1", 875, "875 synthetic points in 1 cell"),
        ("synthetic-table/1", 875, "875 synthetic rows in 1 combination"),
        ("mean-answer/1", None, "1 answer"),
        ("k-randomization/1", None, "1 estimate"),
        ("later-kind/9", 875, "875 records in 1 row"),
        ("later-kind/9", None, "1 row"),
    ],
)
def test_what_was_published_is_told_in_the_words_of_its_kind(kind, records, told) -> None:
    assert published_text(kind, groups=1, records=records) == told


def test_it_says_what_a_reader_needs(certificate, certified, sqlite_books) -> None:
    document = read_certificate(certificate)
    assert document["release_id"] == "one"
    assert document["mechanism"] == {"kind": "strongly-safe-release/1", "k": 20, "sampling_rate": "0.1"}
    guarantee = document["guarantee"]
    assert Decimal(guarantee["epsilon"]) == sqlite_books.price.epsilon
    assert guarantee["delta"] == "0.000001"
    assert guarantee["neighbours"] == "add/remove"
    assert "one record" in guarantee["unit"]
    assert "arXiv:1101.2604v2" in guarantee["theorem"]
    assert document["map"]["columns"] == [
        {
            "column": "sex",
            "level": 0,
            "hierarchy_sha256": certified.hierarchy.digest(),
            "hierarchy": {"kind": "values/1", "levels": 2, "rows": [["Female", "*"], ["Male", "*"]]},
        }
    ]
    assert document["ledger"] == {"position": 2, "hash": "f" * 64}
    public = sqlite_books.anchoring.keys.current().public
    assert document["signature"]["key_id"] == public.key_id
    assert document["signature"]["public_key"] == public.raw.hex()
    assert document["signature"]["algorithm"] == "Ed25519"


def test_it_has_no_field_beyond_the_public_ones(certificate) -> None:
    """A new field must be looked at for what it tells before this list grows."""

    def names(value, before: str = "") -> set[str]:
        if isinstance(value, dict):
            return set().union(*(names(member, f"{before}.{name}") for name, member in value.items()))
        if isinstance(value, list):
            return set().union(*(names(member, f"{before}[]") for member in value))
        return {before.lstrip(".")}

    assert names(read_certificate(certificate)) == {
        "code_sources",
        "code_version",
        "dataset",
        "day",
        "files.data.csv",
        "format",
        "guarantee.delta",
        "guarantee.epsilon",
        "guarantee.epsilon_paper",
        "guarantee.in_words",
        "guarantee.limits",
        "guarantee.neighbours",
        "guarantee.rows_per_person",
        "guarantee.rule",
        "guarantee.theorem",
        "guarantee.unit",
        "ledger.hash",
        "ledger.position",
        "map.columns[].column",
        "map.columns[].hierarchy.kind",
        "map.columns[].hierarchy.levels",
        "map.columns[].hierarchy.rows[][]",
        "map.columns[].hierarchy_sha256",
        "map.columns[].level",
        "map.sha256",
        "mechanism.k",
        "mechanism.kind",
        "mechanism.sampling_rate",
        "name",
        "private_looks.count",
        "private_looks.last_day",
        "published.form",
        "published.groups",
        "published.records",
        "release_id",
        "sample_id",
        "sampler_layout",
        "series",
        "signature.algorithm",
        "signature.key_id",
        "signature.public_key",
        "signature.value",
    }


def test_a_changed_missing_added_or_linked_file_is_found(certificate, tmp_path) -> None:
    table = certificate.parent / "data.csv"
    sound = table.read_bytes()
    for place in range(len(sound)):
        table.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        assert check_certificate(certificate) == ("data.csv is not the file that was certified",)
    table.unlink()
    assert check_certificate(certificate) == ("data.csv is missing",)
    (tmp_path / "elsewhere").write_bytes(sound)
    table.symlink_to(tmp_path / "elsewhere")
    assert check_certificate(certificate) == ("data.csv is not the file that was certified",)
    table.unlink()
    table.write_bytes(sound)
    (certificate.parent / "notes.txt").write_text("x")
    assert check_certificate(certificate) == ("notes.txt is not named in the certificate",)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format":"crowdblend-certificate/9"}', b"\xff\xfe"])
def test_what_is_no_certificate_is_found(tmp_path, content) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(content)
    with pytest.raises(InputRefused, match="not a certificate"):
        read_certificate(path)
    assert any("not a certificate" in finding for finding in check_certificate(path))


def test_a_missing_certificate_is_refused(tmp_path) -> None:
    with pytest.raises(InputRefused, match="can't be read"):
        check_certificate(tmp_path / "certificate.json")


@pytest.fixture
def certificate_of_series(certified, tmp_path):
    charge = certified.books.of_series("third", releases=12, map_digest=certified.map.digest()).entry_at(3)
    return certified(tmp_path / "third", charge=charge)


def test_a_release_of_a_series_has_the_guarantee_of_the_whole_series(certificate_of_series) -> None:
    assert check_certificate(certificate_of_series) == ()
    document = read_certificate(certificate_of_series)
    assert document["series"] == {"name": "monthly", "number": 3, "releases": 12}
    guarantee = document["guarantee"]
    assert guarantee["rule"] == "series-game/1"
    assert "all its 12 releases" in guarantee["in_words"]
    assert Decimal("0.36") < Decimal(guarantee["epsilon"]) < Decimal("0.37")


def charge_for(books, records: int, **changes):
    cost = price(MECHANISM, delta=Decimal("1e-6"), rows_per_person=records)
    return books.request(price=cost, epsilon_paper=None, **changes).entry


def test_several_records_of_a_person_are_its_unit_and_in_its_words(certified, tmp_path) -> None:
    charge = charge_for(certified.books, 3, map_digest=certified.map.digest())
    path = certified(tmp_path / "output", charge=charge, rows_per_person=3)
    assert check_certificate(path) == ()
    guarantee = read_certificate(path)["guarantee"]
    assert guarantee["unit"] == "one person, at most 3 records"
    assert guarantee["rows_per_person"] == 3
    assert guarantee["rule"] == "group-privacy/1+exact-profile/1"
    assert "group privacy" in guarantee["theorem"]
    assert "arXiv:1101.2604v2" in guarantee["theorem"]
    assert "all of any one person's records, at most 3," in guarantee["in_words"]
    assert "at most 3 records a person" in guarantee["limits"]
    assert guarantee["epsilon_paper"] is None


@pytest.mark.parametrize("unit", ["person", "household"])
def test_a_unit_whose_records_a_column_limits_is_named_with_its_limit_and_with_what_tells_it_apart(
    certified, tmp_path, unit
) -> None:
    changes = {"map_digest": certified.map.digest(), "sampler_layout": f"{LAYOUTS[unit]} chacha20-byte-first/1"}
    charge = charge_for(certified.books, 3, **changes)
    path = certified(tmp_path / "output", charge=charge, rows_per_person=3, enforced_by="who")
    assert check_certificate(path) == ()
    guarantee = read_certificate(path)["guarantee"]
    assert (guarantee["unit"], guarantee["enforced_by"]) == (f"one {unit}, at most 3 records", "who")
    assert f"all records that name any one {unit}, of which at most 3 counted, been absent" in guarantee["in_words"]
    assert f"a record without an id counts as a {unit} of its own" in guarantee["limits"]
    believed = certified(tmp_path / "believed", charge=charge, rows_per_person=3)
    assert any("names a column that limits a unit's records" in finding for finding in check_certificate(believed))


@pytest.mark.parametrize("claimed", [1, 2, 4])
def test_a_certificate_that_claims_another_unit_than_its_price_is_for_does_not_verify(
    certified, tmp_path, claimed
) -> None:
    """Though its own key has signed it: the price is computed again for the claimed unit."""
    charge = charge_for(certified.books, 3)
    path = certified(tmp_path / "output", charge=charge, rows_per_person=claimed)
    assert any("recorded as" in finding for finding in check_certificate(path))


def test_a_private_look_before_the_charge_is_told_without_what_was_seen(certified, tmp_path) -> None:
    silent = read_certificate(certified(tmp_path / "silent"))
    assert silent["private_looks"] == {"count": 0, "last_day": None}
    assert "inspection" not in silent["guarantee"]["limits"]
    path = certified(tmp_path / "told", look_days=(date(2026, 3, 2), date(2026, 3, 1)))
    assert check_certificate(path) == ()
    told = read_certificate(path)
    assert told["private_looks"] == {"count": 2, "last_day": "2026-03-02"}
    assert (
        "2 private looks were recorded at this data set's records, the last on 2026-03-02"
        in told["guarantee"]["limits"]
    )
    assert "chosen after private inspection, which the guarantee doesn't cover" in told["guarantee"]["limits"]


@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_a_certificate_of_another_format_is_refused_with_the_one_that_is_read(certified, tmp_path, number) -> None:
    """Whoever signed it, and for whatever format: the control is the one that is read."""
    path, key = certified(tmp_path / "output"), certified.books.anchoring.keys.current()
    document = json.loads(path.read_text())
    for stated, domain, sound in ((5, 5, True), (number, number, False), (number, 5, False), (5, number, False)):
        document["format"] = f"crowdblend-certificate/{stated}"
        domain = f"crowdblend certificate {domain}\n".encode()
        document["signature"]["value"] = key.sign(domain=domain, message=signed_bytes(document)).hex()
        path.write_bytes(certificate_bytes(document))
        findings = check_certificate(path, trusted=(key.public,))
        assert (findings == ()) is sound
        assert (
            ("this version reads: crowdblend-certificate/5" in findings[0]) is (stated == number) if findings else True
        )


@pytest.mark.parametrize(
    ("layout", "records", "public"),
    [
        ("chacha20-byte-first/1", 1, "people"),
        ("chacha20-byte-first/1", 2, "records of each person"),
        (f"{LAYOUTS['person']} chacha20-byte-first/1", 1, "people"),
        (f"{LAYOUTS['person']} chacha20-byte-first/1", 2, "records of each person"),
        (f"{LAYOUTS['household']} chacha20-byte-first/1", 1, "households"),
        (f"{LAYOUTS['household']} chacha20-byte-first/1", 2, "records of each household"),
    ],
)
def test_what_must_be_public_under_replacement_is_what_the_price_is_for(certified, layout, records, public) -> None:
    """A person who has a record more moves a sum of values from 1000 to 1001 by 1000, and not by 1."""
    bounds = {"lower": 1000, "upper": 1001}
    answer = SumAnswer(epsilon=Decimal("0.5"), relation="replacement", groups=1, sampling_rate=None, **bounds)
    cost = price(answer, delta=Decimal(0), rows_per_person=records)
    terms = {"mechanism": answer, "price": cost, "epsilon_paper": None, "sampler_layout": layout}
    words = guarantee_statement(
        certified.books.request(**terms).entry, DatasetContext(rows_per_person=records, look_days=())
    )
    assert f"had any other values, the number of {public} being public" in words
