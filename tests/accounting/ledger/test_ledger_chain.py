"""A change of any link, and any link taken out, put in or moved, is found by the chain alone."""

from __future__ import annotations

import dataclasses

import pytest
from crowdblend.accounting.kernel.ledger.entries import GENESIS, link_hash
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
