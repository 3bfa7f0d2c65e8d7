"""A change of any link, and any link taken out, put in or moved, is found by the chain alone."""

from __future__ import annotations

import dataclasses

import pytest
from crowdblend.accounting.kernel.ledger.entries import GENESIS, Head, link_hash
from crowdblend.accounting.ledger.verification import Finding, Link, check_links
from hypothesis import given, settings
from hypothesis import strategies as st


def chained(bodies: list[bytes]) -> list[Link]:
    links, previous = [], GENESIS
    for position, body in enumerate(bodies):
        own = link_hash(previous=previous, position=position, body=body)
        links.append(Link(position=position, previous=previous, hash=own, body=body))
        previous = own
    return links


LINKS = chained([b"zero", b"one", b"two", b"three", b"four", b"five"])


def found(links: list[Link]) -> bool:
    return bool(list(check_links(links)))


def test_a_link_hash_is_the_one_of_the_first_version() -> None:
    # sha256 of the domain line, 32 zero bytes, 8 zero bytes and the body, by the coreutils program.
    assert (
        link_hash(previous=GENESIS, position=0, body=b"body")
        == "a89c7ae4d7aef4d6886a5532e6248db28fd4cf238d862656b4086a92d9d7f036"
    )
    # And of the domain line, 32 bytes of one, the place 3 and the body: the hash before it is in it.
    assert (
        link_hash(previous="01" * 32, position=3, body=b"body")
        == "769775c7b351b155e097a020775062875c996c9d80298ceb161dbcceb68cd79b"
    )


def test_a_link_is_bound_to_the_whole_chain_before_it() -> None:
    """Who changes an early entry and mends only what doesn't follow would otherwise keep the later hashes."""
    assert chained([b"zero", b"one", b"two"])[-1].hash != chained([b"other", b"one", b"two"])[-1].hash


def test_a_sound_chain_has_no_findings() -> None:
    assert not found(LINKS)
    assert not found([])


@pytest.mark.parametrize("position", range(len(LINKS)))
@pytest.mark.parametrize(
    "change",
    [
        {"body": b"other"},
        {"body": b""},
        {"hash": "1" * 64},
        {"previous": "1" * 64},
        {"previous": "xyz"},
        {"previous": "ab"},
        {"position": 77},
        {"position": -1},
        {"position": 1 << 70},
    ],
)
def test_a_change_of_a_field_is_found_at_its_place(position, change) -> None:
    links = list(LINKS)
    links[position] = dataclasses.replace(links[position], **change)
    findings = list(check_links(links))
    assert findings
    assert findings[0].position == links[position].position


@settings(derandomize=True)
@given(st.permutations(range(len(LINKS))).filter(lambda order: order != list(range(len(LINKS)))))
def test_any_other_order_is_found(order) -> None:
    assert found([LINKS[place] for place in order])


@pytest.mark.parametrize("position", range(len(LINKS) - 1))
def test_a_missing_link_is_found(position) -> None:
    assert found(LINKS[:position] + LINKS[position + 1 :])


@pytest.mark.parametrize("position", range(len(LINKS)))
def test_a_repeated_or_inserted_link_is_found(position) -> None:
    assert found(LINKS[: position + 1] + LINKS[position:])
    foreign = chained([b"x"] * 7)[position]
    assert found([*LINKS[:position], foreign, *LINKS[position:]])


def test_a_cut_end_is_not_found_by_the_chain_alone() -> None:
    assert not found(LINKS[:3])


def test_parts_of_a_link_can_not_run_into_each_other() -> None:
    one = link_hash(previous=GENESIS, position=1, body=b"\x00body")
    assert one != link_hash(previous=GENESIS, position=256, body=b"body")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"body": b"other"}, "entry 2: the entry's content differs from its hash"),
        ({"hash": "1" * 64}, "entry 2: the entry's content differs from its hash"),
        ({"previous": "1" * 64}, "entry 2: the entry does not continue the chain before it"),
        ({"previous": "xyz"}, "entry 2: the entry does not continue the chain before it"),
        ({"position": 7}, "entry 7: entry 2 is missing: the next entry has position 7"),
    ],
)
def test_one_fault_is_one_finding(change, told) -> None:
    """What follows is held against the link as it is stored, and as it should be."""
    links = [*LINKS[:2], dataclasses.replace(LINKS[2], **change), *LINKS[3:]]
    found = [str(one) for one in check_links(links)]
    assert found[0] == told
    assert found[1:] == (["entry 3: entry 8 is missing: the next entry has position 3"] if "position" in change else [])


def test_a_chain_can_be_checked_from_any_of_its_links_on() -> None:
    assert not list(check_links(LINKS[3:], position=3, previous=LINKS[2].hash))
    [found] = check_links(LINKS[3:], position=3)
    assert str(found) == "entry 3: the entry does not continue the chain before it"
    [found] = check_links(LINKS[3:], position=2, previous=LINKS[2].hash)
    assert str(found) == "entry 3: entry 2 is missing: the next entry has position 3"
    assert str(Finding(position=None, what="it")) == "it"


@pytest.mark.parametrize("previous", ["", "00" * 31, "00" * 33, "0" * 63])
def test_a_link_continues_a_hash_of_32_bytes(previous) -> None:
    with pytest.raises(ValueError, match=r"32 bytes|non-hexadecimal"):
        link_hash(previous=previous, position=0, body=b"")


def test_a_head_has_a_ledger_a_place_and_a_hash() -> None:
    assert Head(ledger_id="a" * 64, position=0, hash="b" * 64).position == 0
    for wrong in ({"ledger_id": "a"}, {"hash": "b"}, {"position": -1}):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
            Head(**{"ledger_id": "a" * 64, "position": 0, "hash": "b" * 64} | wrong)
