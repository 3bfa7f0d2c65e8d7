"""A series of different mechanisms: each part has its own places, whoever writes, verifies or forges."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from functools import cache

import pytest
from crowdblend.accounting.certificate.verify import check_certificate
from crowdblend.accounting.certificate.write import DOMAIN, certificate_bytes, signed_bytes
from crowdblend.accounting.kernel.ledger.entries import entry_of_bytes, sorted_fields
from crowdblend.accounting.kernel.prices.registry import mechanism_record, price
from crowdblend.accounting.ledger.charge_request import RECORDS
from crowdblend.mechanisms.kernel.errors import AccountantRefused
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE, REPLACEMENT
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries
from support.folding import fold

pytestmark = pytest.mark.slow

MIXED = MixedSeries(parts="2 x k=20,rate=0.1; 1 x k=50,rate=0.05; 2 x epsilon=0.05")
DELTA = Decimal("1e-6")
SAFE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
RARE = StronglySafeRelease(k=50, sampling_rate=Decimal("0.05"))
ANSWER = CountAnswer(epsilon=Decimal("0.05"), relation=ADD_REMOVE, groups=1, sampling_rate=None)


@cache
def cost():
    return price(MIXED, delta=DELTA, releases=5)


@pytest.fixture
def year(books):
    """A registered series of two, one and two releases."""
    books.add()
    books.register("year", mechanism=MIXED, price=cost(), epsilon_paper=None, free_columns=True)
    return books


def of_part(books, release_id, mechanism, part, **changes):
    values = {"mechanism": mechanism, "price": cost(), "epsilon_paper": None, "part": part}
    return books.of_series(release_id, name="year", **(values | changes))


def test_each_part_has_its_own_places_in_any_order_and_not_one_more(year) -> None:
    spent = year.spent()
    assert spent == (cost().epsilon, DELTA)
    taken = {}
    for place, (mechanism, part) in enumerate([(ANSWER, 3), (SAFE, 1), (RARE, 2), (ANSWER, 3), (SAFE, 1)]):
        year.writer().charge(of_part(year, f"r{place}", mechanism, part, map_digest=f"{place:064x}"))
        taken[place] = year.number(f"r{place}")
    assert taken == {0: 4, 1: 1, 2: 3, 3: 5, 4: 2}
    for mechanism, part in ((ANSWER, 3), (SAFE, 1), (RARE, 2)):
        with pytest.raises(AccountantRefused, match=rf"all its [12] releases of part {part} \("):
            year.writer().charge(of_part(year, "more", mechanism, part))
    state = year.series("year")
    assert (state.taken, state.remaining, state.taken_of_parts) == (5, 0, (2, 1, 2))
    assert year.spent() == spent
    assert year.findings() == []


def test_a_full_part_is_refused_while_others_have_places(year) -> None:
    year.writer().charge(of_part(year, "one", RARE, 2))
    with pytest.raises(AccountantRefused, match=r"all its 1 releases of part 2 \(1 x k=50,rate=0.05\) are taken"):
        year.writer().charge(of_part(year, "two", RARE, 2))
    year.writer().charge(of_part(year, "two", RARE, 1))  # a higher k and a lower rate than that part's
    assert year.number("two") == 1
    assert year.series("year").taken_of_parts == (1, 1, 0)
    with year.reader() as reader:
        for part, finished in ((1, False), (2, True), (3, False)):
            mechanism = ANSWER if part == 3 else RARE
            found = reader.look_at_series(
                name="year", dataset="census", spec_digest="c" * 64, mechanism=mechanism, unit=RECORDS, part=part
            )
            assert (found is not None) is finished
        other = reader.look_at_series(
            name="year", dataset="census", spec_digest="d" * 64, mechanism=SAFE, unit=RECORDS, part=1
        )
    assert other is not None
    assert other.what == "another data set, another delta or another unit than was registered."
    assert year.findings() == []


def test_an_unread_release_gives_its_parts_place_back(year) -> None:
    for release_id in ("one", "two"):
        year.writer().charge(of_part(year, release_id, SAFE, 1))
    year.abandon("one")
    assert year.series("year").taken_of_parts == (1, 0, 0)
    year.writer().charge(of_part(year, "again", SAFE, 1))
    assert year.number("again") == 1
    with pytest.raises(AccountantRefused, match="all its 2 releases of part 1"):
        year.writer().charge(of_part(year, "more", SAFE, 1))
    assert year.findings() == []


@pytest.mark.parametrize(
    ("mechanism", "part", "reason"),
    [
        (dataclasses.replace(SAFE, k=19), 1, "k = 19 is below the registered 20, in part 1"),
        (SAFE, 2, "k = 20 is below the registered 50, in part 2"),
        (dataclasses.replace(ANSWER, epsilon=Decimal("0.06")), 3, "0.06 is above the registered 0.05, in part 3"),
        (dataclasses.replace(ANSWER, groups=2, relation=REPLACEMENT), 3, "neighbouring relation replacement"),
        (SAFE, 3, "no answer whose price has no delta"),
        (ANSWER, 1, "another kind of mechanism"),
    ],
)
def test_what_a_part_does_not_cover_is_refused_and_recorded(year, mechanism, part, reason) -> None:
    with pytest.raises(AccountantRefused, match=reason):
        year.writer().charge(of_part(year, "one", mechanism, part))
    assert year.kinds()[-1] == "release-refused/1"
    assert year.series("year").taken == 0


def test_no_release_is_of_a_series_itself(year) -> None:
    """Its price may be right, also alone; what such a release would publish nothing says."""
    alone = MixedSeries(parts="1 x k=20,rate=0.1")
    for charge in (
        of_part(year, "one", MIXED, 1),
        year.request("two", mechanism=alone, price=price(alone, delta=DELTA, releases=1), epsilon_paper=None),
    ):
        with pytest.raises(AccountantRefused, match="a release runs one of them"):
            year.writer().charge(charge)
    assert year.series("year").taken == 0


def test_forged_parts_places_and_prices_are_found(year, forge_past_guards) -> None:
    for place, (mechanism, part) in enumerate([(SAFE, 1), (SAFE, 1), (RARE, 2), (ANSWER, 3)]):
        year.writer().charge(of_part(year, f"r{place}", mechanism, part))
    bodies = year.raw(lambda connection: connection.exec_driver_sql("SELECT body FROM entry ORDER BY position").all())
    documents = [json.loads(body) for (body,) in bodies]

    def faults(position: int, **changes) -> str:
        """What the rules say where an entry is another and all hashes were made anew."""
        changed = [document | changes if place == position else document for place, document in enumerate(documents)]
        return " ".join(fold(entry_of_bytes(_body(document).encode()) for document in changed)[1])

    assert faults(0) == ""
    registered, last = 2, len(documents) - 1
    place = documents[last]["series"]
    safe = documents[3]["mechanism"]
    assert "release 'r1' has this place" in faults(last, mechanism=safe, series=place | {"number": 2})
    assert "no answer whose price has no delta" in faults(last, mechanism=safe)
    assert "another kind of mechanism" in faults(last, series=place | {"number": 3})
    assert "has paid for 5 releases, and this is one more" in faults(last, series=place | {"number": 6})
    assert "above the registered 0.05" in faults(last, mechanism=documents[last]["mechanism"] | {"epsilon": "0.1"})
    assert "k = 49 is below" in faults(last - 1, mechanism=documents[last - 1]["mechanism"] | {"k": 49})
    for parts in ("3 x k=20,rate=0.1; 1 x k=50,rate=0.05; 1 x epsilon=0.05", MIXED.parts.replace("k=20", "k=19")):
        forged = documents[registered]["mechanism"] | {"parts": parts}
        assert "ε is recorded as" in faults(registered, mechanism=forged)
    more = documents[registered]["mechanism"] | {"parts": MIXED.parts.replace("2 x k=20", "9 x k=20")}
    assert "can't be priced" in faults(registered, mechanism=more)
    for unreadable in ({"parts": "2 x k=20"}, {"more": "x"}):
        told = faults(registered, mechanism=documents[registered]["mechanism"] | unreadable)
        assert "can't be priced" in told
        assert "has not paid for this release: mechanism" in told
    cheaper = documents[registered]["price"] | {"epsilon": "0.1"}
    assert "ε is recorded as 0.1" in faults(registered, price=cheaper)
    again = documents[last] | {"series": place | {"number": 3}}
    body = _body(again).replace(":", "\\:")
    forge_past_guards(year, f"UPDATE entry SET body = '{body}' WHERE position = {last}")
    assert year.findings()


def _body(document: dict) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def as_release_of_the_whole(document: dict) -> None:
    """The mechanism of a release as a series that has the price itself."""
    document["mechanism"] = document["series"].pop("registered")
    del document["series"]["part"]


def test_a_certificate_names_the_part_and_a_forged_one_is_found(certified, tmp_path) -> None:
    books = certified.books
    charge = of_part(books, "third", RARE, 2, map_digest=certified.map.digest()).entry_at(3)
    path = certified(tmp_path / "third", charge=charge, registered=sorted_fields(mechanism_record(MIXED)))
    assert check_certificate(path) == ()
    sound = json.loads(path.read_bytes())
    assert sound["series"] == {
        "name": "year",
        "number": 3,
        "releases": 5,
        "part": 2,
        "registered": {"kind": "mixed-series/1", "parts": MIXED.parts},
    }
    assert sound["guarantee"]["theorem"].startswith("proved in docs/proofs/composition.md")
    assert "parts, which are named in this certificate, were fixed" in sound["guarantee"]["in_words"]
    key = books.anchoring.keys.current()
    for change, what in (
        (lambda document: document["series"].update(number=1), "can't be read"),  # of part 1
        (lambda document: document["series"].update(part=1), "can't be read"),
        (lambda document: document["series"].pop("part"), "can't be read"),
        (lambda document: document["series"].update(number=5, part=3), "no answer whose price has no delta"),
        (lambda document: document["mechanism"].update(k=49), "k = 49 is below the registered 50"),
        (as_release_of_the_whole, "can't be read"),
        (
            lambda document: document["series"]["registered"].update(parts=MIXED.parts.replace("k=50", "k=40")),
            "ε is recorded as",
        ),
        (lambda document: document["series"]["registered"].update(parts="1 x k=50,rate=0.05"), "can't be read"),
    ):
        document = json.loads(path.read_bytes())
        change(document)
        document["signature"]["value"] = key.sign(domain=DOMAIN, message=signed_bytes(document)).hex()
        path.write_bytes(certificate_bytes(document))
        assert any(what in finding for finding in check_certificate(path)), (what, check_certificate(path))
        path.write_bytes(certificate_bytes(sound))
