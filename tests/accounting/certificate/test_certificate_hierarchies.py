"""A certificate carries the hierarchies as they were declared, and one that is not the named one is found."""

from __future__ import annotations

import copy
import hashlib
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from crowdblend.accounting.certificate.verify import check_certificate, map_findings
from crowdblend.accounting.certificate.write_certificate import (
    DOMAIN,
    MOST_CARRIED,
    certificate_bytes,
    map_fields,
    signed_bytes,
)
from crowdblend.accounting.kernel.keys.signing import canonical_bytes
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.build import DateHierarchy, described_hierarchy, labels_beyond
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals, NumberSteps, WeightClasses
from crowdblend.mechanisms.hierarchies.declare import Hierarchy, IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

TOWNS = ValueHierarchy.from_rows([("Lyon", "South", "*"), ("Nice", "South", "*"), ("Lille", "Nord é", "*")])
EACH: dict[str, Hierarchy] = {
    "values": TOWNS,
    "folded": TOWNS.folded(),
    "only the bucket": ValueHierarchy.from_rows([("*", "*")]),
    "intervals": IntervalHierarchy(lower=-5, upper=98, widths=(10, 50)),
    "no widths": IntervalHierarchy(lower=0, upper=(1 << 53) - 1, widths=()),
    "decimals": DecimalIntervals.of(lower=Decimal("-0.5"), upper=Decimal("2.25"), widths=[Decimal("0.5")]),
    "days": DateHierarchy.of(first="1900-02-28", last="1904-03-01", merged=["quarter", "year"]),
    "days alone": DateHierarchy.of(first="2000-02-29", last="2000-02-29", merged=[]),
    "steps": NumberSteps(cuts=(0.1, 0.25, 7.0)),
    "no cuts": NumberSteps(cuts=()),
    "weights": WeightClasses.of([Decimal(1), Decimal("2.5"), Decimal(40)]),
}


def stated(books: Any, *columns: MappedColumn) -> dict[str, Any]:
    """The parts of a certificate that its map is checked by, as they are after reading."""
    mechanism = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
    fields = map_fields(books.request().entry, generalization=GeneralizationMap(columns=columns), choice=None)
    return json.loads(json.dumps({"map": fields, "mechanism": mechanism_record(mechanism)}))


@pytest.mark.parametrize("name", EACH)
def test_each_kind_is_carried_and_made_again(sqlite_books, name) -> None:
    hierarchy = EACH[name]
    columns = (MappedColumn(name=f"c{level}", hierarchy=hierarchy, level=level) for level in (0, 1))
    certificate = stated(sqlite_books, *columns)
    assert map_findings(certificate) == ()
    for column in certificate["map"]["columns"]:
        assert column["hierarchy_sha256"] == hierarchy.digest()
        again = described_hierarchy(column["hierarchy"])
        assert again.digest() == hierarchy.digest()
        assert type(again) is type(hierarchy)


def test_a_hierarchy_that_is_too_large_is_named_by_its_digest_alone(sqlite_books) -> None:
    """Those behind it are carried all the same; the control is one that has just the room."""
    small = MappedColumn(name="age", hierarchy=EACH["intervals"], level=1)

    def of_bytes(size: int) -> ValueHierarchy:
        bare = len(canonical_bytes(ValueHierarchy.from_values(["a", "b"]).description()))
        made = ValueHierarchy.from_values(["a", "b" * (size - bare + 1)])
        assert len(canonical_bytes(made.description())) == size
        return made

    for size, carried in ((MOST_CARRIED + 1, False), (MOST_CARRIED, True)):
        town = MappedColumn(name="town", hierarchy=of_bytes(size), level=0)
        certificate = stated(sqlite_books, town, small)
        assert map_findings(certificate) == ()
        first, second = certificate["map"]["columns"]
        assert (first["hierarchy"] is not None) is carried
        assert first["hierarchy_sha256"] == town.hierarchy.digest()
        assert (second["hierarchy"] is not None) is not carried, "the room is that of all columns"


@pytest.mark.parametrize("name", ["lower", "upper", "widths"])
def test_a_number_that_not_every_reader_of_json_keeps_is_not_carried(sqlite_books, name) -> None:
    most = (1 << 53) - 1
    kept: dict[str, Any] = {"lower": -most, "upper": most, "widths": (most,)}
    beyond = {"lower": -most - 1, "upper": most + 1, "widths": (most + 1,)}
    for changed, carried in ((kept, True), (kept | {name: beyond[name]}, False)):
        column = MappedColumn(name="when", hierarchy=IntervalHierarchy(**changed), level=1)
        certificate = stated(sqlite_books, column)
        assert map_findings(certificate) == ()
        assert (certificate["map"]["columns"][0]["hierarchy"] is not None) is carried


@pytest.mark.parametrize(
    "change",
    [
        lambda column: column["hierarchy"]["rows"][0].__setitem__(1, "South"),
        lambda column: column["hierarchy"]["rows"].pop(),
        lambda column: column["hierarchy"]["rows"].reverse(),
        lambda column: column["hierarchy"]["rows"].append(["Paris", "Nord", "*"]),
        lambda column: column["hierarchy"].update(fold_case=True),
        lambda column: column["hierarchy"].update(levels=4),
        lambda column: column["hierarchy"].update(kind="values/2"),
        lambda column: column.update(hierarchy={"kind": "interval/1", "lower": 0, "upper": 9, "widths": []}),
        lambda column: column.update(hierarchy=[]),
        lambda column: column.update(hierarchy="Lyon"),
        lambda column: column.update(hierarchy={}),
        lambda column: column.pop("hierarchy"),
        lambda column: column.update(more="x"),
        lambda column: column.update(level=3),
    ],
)
def test_a_forged_hierarchy_is_found(sqlite_books, change) -> None:
    certificate = stated(sqlite_books, MappedColumn(name="town", hierarchy=TOWNS, level=1))
    assert map_findings(certificate) == ()
    change(certificate["map"]["columns"][0])
    assert map_findings(certificate) != ()


@pytest.mark.parametrize(
    ("description", "level"),
    [
        ({"kind": "values/1", "levels": 2, "rows": [["a", "*"], ["b", "*"]]}, 2),
        ({"kind": "values/1", "levels": 10**9, "rows": []}, 0),
        ({"kind": "values/1", "levels": 2, "rows": [["b", "*"], ["a", "*"]]}, 0),
        ({"kind": "values/1", "levels": 2, "rows": [["a", 1]]}, 0),
        ({"kind": "values/1", "levels": 3, "rows": [["a", "x", "y"], ["b", "x", "z"]]}, 0),
        ({"kind": "interval/1", "lower": "0", "upper": 9, "widths": []}, 0),
        ({"kind": "interval/1", "lower": False, "upper": 9, "widths": []}, 0),
        ({"kind": "interval/1", "lower": 9, "upper": 0, "widths": []}, 0),
        ({"kind": "dates/1", "from": "2000-01-02", "to": "2000-01-01", "levels": []}, 0),
        ({"kind": "dates/1", "from": "1900-02-29", "to": "2000-01-01", "levels": []}, 0),
        ({"kind": "dates/1", "from": "20000101", "to": "2000-01-02", "levels": []}, 0),
        ({"kind": "dates/1", "from": 20000101, "to": 20000102, "levels": []}, 0),
        ({"kind": "dates/1", "from": "0001-01-01", "to": "9999-12-31", "levels": []}, 0),
        ({"kind": "dates/1", "from": "2000-01-01", "to": "2000-01-02", "levels": "month"}, 0),
        ({"kind": "dates/1", "from": "2000-01-01", "to": "2000-01-02", "levels": ["week"]}, 0),
        ({"kind": "dates/1", "from": "2000-01-01", "to": "2000-01-02", "levels": ["year", "month"]}, 0),
        ({"kind": "dates/1", "from": "2000-01-01", "to": "2000-01-02", "levels": [], "more": 1}, 0),
        ({"kind": "decimal-interval/1", "lower": "0.00", "upper": "2.5", "widths": []}, 0),
        ({"kind": "decimal-interval/1", "lower": 0.0, "upper": 2.5, "widths": []}, 0),
        ({"kind": "number-steps/1", "cuts": ["0x1p+99999"]}, 0),
        ({"kind": "number-steps/1", "cuts": ["1"]}, 0),
        ({"kind": "number-steps/1", "cuts": [1]}, 0),
        ({"kind": ["values/1"]}, 0),
        ([], 0),
        (7, 0),
    ],
)
def test_what_is_no_hierarchy_in_its_one_form_is_found_though_all_digests_fit(sqlite_books, description, level) -> None:
    """Written by one who holds the key, and so the digests too. The control is the first, at a level that it has."""

    def certificate_of(described: Any, at: int) -> dict[str, Any]:
        certificate = stated(sqlite_books, MappedColumn(name="town", hierarchy=TOWNS, level=0))
        digest = hashlib.sha256(canonical_bytes(described)).hexdigest()
        certificate["map"]["columns"][0] |= {"hierarchy": described, "hierarchy_sha256": digest, "level": at}
        whole = canonical_bytes({"kind": "map/1", "columns": [["town", digest, at]]})
        certificate["map"]["sha256"] = hashlib.sha256(whole).hexdigest()
        return certificate

    assert map_findings(certificate_of({"kind": "values/1", "levels": 2, "rows": [["a", "*"], ["b", "*"]]}, 1)) == ()
    assert map_findings(certificate_of(description, level)) != ()


def test_a_signed_certificate_with_a_forged_hierarchy_fails_its_verification(certified, tmp_path) -> None:
    path, key = certified(tmp_path / "output"), certified.books.anchoring.keys.current()
    document = json.loads(path.read_bytes())
    found = "the hierarchy of column 1 of its map is not the one that digest and level name"
    for rows, sound in ((document["map"]["columns"][0]["hierarchy"]["rows"], True), ([["Female", "*"]], False)):
        forged = copy.deepcopy(document)
        forged["map"]["columns"][0]["hierarchy"]["rows"] = rows
        forged["signature"]["value"] = key.sign(domain=DOMAIN, message=signed_bytes(forged)).hex()
        path.write_bytes(certificate_bytes(forged))
        assert check_certificate(path, trusted=(key.public,)) == (() if sound else (found,))


@pytest.mark.parametrize("name", EACH)
def test_labels_are_told_from_those_that_a_hierarchy_does_not_have(name) -> None:
    hierarchy = EACH[name]
    for level in range(hierarchy.levels):
        own = hierarchy.labels(np.arange(min(hierarchy.size(level), 200)), level)
        assert labels_beyond(hierarchy, own, level=level) == set()
        others = {"Zanzibar", "[1, 2)", "[-5, 6)", "01", "-6", "+1", "< -4", ">= 99", "", "\u0663", "9" * 30, " 1"}
        assert labels_beyond(hierarchy, others, level=level) == others
