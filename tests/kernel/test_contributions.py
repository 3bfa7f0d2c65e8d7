"""Which records of a person count, record by record: against AES blocks and sorts of Python's own."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.kernel import contributions
from crowdblend.mechanisms.kernel.contributions import (
    ContributionKeys,
    ContributionLimit,
    chosen_counts,
    sorted_records,
)
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.sampling import threshold
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KEYS = ContributionKeys(secret=bytes(range(32)))
CELLS = 8


def records_of(people: int = 40, *, words: int = 1) -> np.ndarray:
    """A person and a group for each of some records, in no order; shape (2 + words, n)."""
    rng = np.random.default_rng(7)
    numbers = np.repeat(np.arange(people), rng.integers(1, 12, people))
    groups = rng.integers(0, CELLS, (words, numbers.size))
    keys = np.concatenate([KEYS.of_numbers(numbers).view(np.int64), groups])
    return keys[:, rng.permutation(numbers.size)]


def drawn(person: tuple[int, int], group: tuple[int, ...], occurrence: int) -> tuple[int, int]:
    """The rank and the coin of one record: a chain of AES blocks over its person, its number and its group's words."""
    key = hmac.digest(KEYS.secret, b"crowdblend/contributions/1\x00records", hashlib.sha256)
    mask, state = (1 << 64) - 1, person
    state = (state[0] & mask ^ group[0], state[1] & mask ^ occurrence)
    for word in (*group[1:], None):
        cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a block alone is a keyed function
        block = cipher.update(b"".join(half.to_bytes(8, "little") for half in state))
        rank, coin = int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")
        state = (rank ^ (word or 0), coin)
    return rank, coin


def expected(keys: np.ndarray, *, most: int, rate: str | None) -> Counter:
    """Group → how many of its records count and are sampled."""
    seen, by_person = Counter(), {}
    for one in keys.T.tolist():
        person, group = tuple(one[:2]), tuple(one[2:])
        by_person.setdefault(person, []).append((*drawn(person, group, seen[person, group]), group))
        seen[person, group] += 1
    limit = (1 << 64) if rate is None else int(threshold(Decimal(rate)))
    chosen = [one for own in by_person.values() for one in sorted(own)[:most]]
    return Counter(group for _, coin, group in chosen if coin < limit)


@pytest.mark.parametrize("rate", [None, "0.4"])
@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("most", [3, 12], ids=["of some", "of everybody"])
@pytest.mark.parametrize("at_once", [1 << 20, 9], ids=["one block", "a person's records in several blocks"])
def test_the_records_of_the_lowest_ranks_count(monkeypatch, rate, words, at_once, most) -> None:
    monkeypatch.setattr(contributions, "_DRAWN_AT_ONCE", at_once)
    keys = records_of(words=words)
    cells = CELLS**words
    groups = chosen_counts(
        sorted_records(keys, cells=cells),
        most=most,
        rate=None if rate is None else Decimal(rate),
        cells=cells,
        keys=KEYS,
    )
    found = {tuple(group): count for group, count in zip(groups.keys.T.tolist(), groups.counts.tolist(), strict=True)}
    assert found == expected(keys, most=most, rate=rate)


def told(ranks: np.ndarray, coin: int) -> ContributionKeys:
    """Keys whose draws are the ranks of the records' groups, and one coin for all."""

    class Told(ContributionKeys):
        def draws(self, persons, groups, occurrences):
            return ranks[groups[0]], np.full(occurrences.size, coin, dtype=np.uint64)

    return Told(secret=KEYS.secret)


@pytest.mark.parametrize("most", [5, 2], ids=["within the limit", "beyond it"])
def test_a_coin_takes_a_record_below_the_threshold_and_not_at_it(most) -> None:
    """So that the chance is no larger than the rate, to the last of 64 bits."""
    rate, records = Decimal("0.3"), GroupCounts(np.array([[7, 7], [1, 1], [0, 3]]), np.array([2, 1]))
    for below, taken in ((1, min(most, 3)), (0, 0)):
        keys = told(np.arange(4, dtype=np.uint64), threshold(rate) - below)
        assert chosen_counts(records, most=most, rate=rate, cells=CELLS, keys=keys).counts.sum() == taken


@pytest.mark.parametrize("seed", range(12))
def test_the_lowest_ranks_are_kept_also_where_they_agree_in_their_first_bits(seed) -> None:
    draws = np.random.default_rng(seed)
    person = np.repeat(np.arange(5), draws.integers(1, 6, 5))
    ranks = draws.integers(0, 8, person.size).astype(np.uint64)
    ranks += draws.integers(0, 2, person.size).astype(np.uint64) << np.uint64(63)
    records = GroupCounts(np.array([person, person, np.arange(person.size)]), np.ones(person.size, dtype=np.int64))
    found = chosen_counts(records, most=2, rate=None, cells=person.size, keys=told(ranks, 0))
    own = [[place for place in range(person.size) if person[place] == one] for one in range(5)]
    assert found.keys[0].tolist() == [
        place for places in own for place in sorted(sorted(places, key=lambda place: ranks[place])[:2])
    ]


def test_person_and_group_are_sorted_as_one_number_where_that_has_room(monkeypatch) -> None:
    """It is several times as fast; a million persons with a million groups have room."""
    monkeypatch.setattr(contributions, "_sorted_slowly", lambda *_: pytest.fail("sorted word by word"))
    persons = np.arange(1000)
    found = sorted_records(np.array([persons, persons, persons % CELLS]), cells=10**15)
    assert found.counts.tolist() == [1] * 1000


@pytest.mark.parametrize("counts", [None, np.arange(1, 13)])
def test_records_are_counted_alike_in_one_number_and_word_by_word(counts) -> None:
    """One number names a person and a group only where it has room, and where first words tell the persons apart."""
    alike = np.array([[5, 5, -2, 5, 9, 5, 5, -2, 9, 9, 5, 5], [1, 2, 1, 1, 4, 2, 1, 1, 4, 4, 2, 2], [3, 0, 1, 3] * 3])
    apart = np.array([alike[0] * 10 + alike[1], *alike[1:]])
    single = np.array([*apart[:2], apart[0] % CELLS])  # each person in one group
    two = alike[:, :2]  # they agree in their first words, and nobody else is there
    words = np.array([*apart[:2, :3], [1, 1, 1], [2, 0, 2]])  # as many records as one number would have words
    for keys, cells in (
        (alike, CELLS),
        (two, CELLS),
        (apart, CELLS),
        (single, CELLS),
        (words, CELLS),
        (apart, 1 << 62),
        (apart[:, :0], CELLS),
    ):
        own = None if counts is None else counts[: keys.shape[1]]
        found = sorted_records(keys, own, cells=cells)
        tally: Counter = Counter()
        for one, count in zip(keys.T.tolist(), np.ones(12, dtype=int) if own is None else own, strict=False):
            tally[tuple(one)] += int(count)
        assert found.keys.T.tolist() == sorted(map(list, tally))
        assert found.counts.tolist() == [tally[key] for key in sorted(tally)]


def test_of_no_texts_there_are_no_hashes() -> None:
    none = np.empty(0, dtype=np.int64)
    assert KEYS.of_texts(np.empty(0, dtype=np.uint8), none, none).shape == (2, 0)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_of_another_length_is_refused_and_not_shown(length) -> None:
    with pytest.raises(ValueError, match=rf"^a release's key has 32 bytes, not {length}$"):
        ContributionKeys(secret=bytes(length))
    assert repr(KEYS) == "ContributionKeys()"


@pytest.mark.parametrize("records", [0, -1])
def test_a_limit_lets_at_least_one_record_count(records) -> None:
    with pytest.raises(ValueError, match=f"at least one record of a household counts, not {records}"):
        ContributionLimit(unit="household", column="home", records=records)


def test_whose_records_are_limited_is_in_the_layout() -> None:
    """A ledger and a certificate tell by this name alone what was hidden; another draw needs another name."""
    layouts = [ContributionLimit(unit=unit, column="c", records=1).layout for unit in ("person", "household")]
    assert layouts == ["aes-contributions-person/1", "aes-contributions-household/1"]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 23, 24, 25, 40, 41])
def test_the_hash_of_a_text_is_a_chain_of_blocks_over_its_length_and_its_bytes(length) -> None:
    key = hmac.digest(KEYS.secret, b"crowdblend/contributions/1\x00ids", hashlib.sha256)
    text = bytes(range(65, 65 + length))
    message = length.to_bytes(8, "little") + text
    message += bytes(-len(message) % 16)
    chain = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
    last = chain.update(message)[-16:]
    given = np.frombuffer(b"before" + text + b"after", dtype=np.uint8)
    found = KEYS.of_texts(given, np.array([6, 0]), np.array([6 + length, 6]))
    assert found[:, 0].tolist() == [int.from_bytes(last[:8], "little"), int.from_bytes(last[8:], "little")]


def test_numbers_texts_and_places_are_hashed_apart() -> None:
    key = hmac.digest(KEYS.secret, b"crowdblend/contributions/1\x00ids", hashlib.sha256)
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a block alone is a keyed function

    def block(first: int, second: int) -> list[int]:
        made = cipher.update(first.to_bytes(8, "little") + second.to_bytes(8, "little", signed=second < 0))
        return [int.from_bytes(made[:8], "little"), int.from_bytes(made[8:], "little")]

    found = KEYS.of_numbers(np.array([5, -5])).T.tolist()
    assert found == [block(1 << 60, 5), block(1 << 61, -5)]
    large = np.array([5, (1 << 63) + 7], dtype=np.uint64)
    assert KEYS.of_numbers(large).T.tolist() == [block(1 << 60, 5), block(1 << 60, (1 << 63) + 7)]
    assert KEYS.of_numbers(np.array([5, -5], dtype=np.int16)).T.tolist() == found
    assert KEYS.of_places(np.array([3]), file=1, block=2).T.tolist() == [block((1 << 62) + 3, 1 << 32 | 2)]
