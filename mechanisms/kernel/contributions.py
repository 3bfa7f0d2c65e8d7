"""At most M records of a person count, chosen at random by the release's key; each that does has a coin of its own.

What a person's records are given follows from that person's records and the key alone (docs/proofs/persons.md).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from .group_counts import GroupCounts, count_keys, merge_counts, sum_counts
from .sampling import KEY_BYTES, threshold

LAYOUTS = {"person": "aes-contributions-person/1", "household": "aes-contributions-household/1"}
UNIT_LAYOUTS = {"person": "aes-units-person/1", "household": "aes-units-household/1"}
"""The same, where all records of a unit make one record, which counts.

INVARIANT: they name how ids are hashed, and how ranks and coins are drawn; any change to these needs new names."""

PERSON_WORDS = 2
"""Words of a record before those of its group: the keyed hash of the person's id."""

Unit = Literal["person", "household"]

_DOMAIN = b"crowdblend/contributions/1\x00"
_NUMBER_TAG, _NEGATIVE_TAG, _ALONE_TAG = 1 << 60, 1 << 61, 1 << 62
"""What the first word of a message has where it doesn't begin with a text's length."""
_WORD_BYTES = 8
_BLOCK_WORDS = 2
_BLOCK_BYTES = _BLOCK_WORDS * _WORD_BYTES
_DRAWN_AT_ONCE = 1 << 20
_COMPOSITES = 1 << 62

Words = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContributionLimit:
    """Whose presence a release hides, and how many of its records count.

    Args:
        unit: what the values of the column name.
        column: name of the column in the source; it is not published.
        records: M ≥ 1, the most records of one unit that count.
        together: whether all records of a unit make one record, which counts; then M is 1.

    Raises:
        ValueError: M below 1, or above it where a unit makes one record.
    """

    unit: Unit
    column: str
    records: int
    together: bool = False

    def __post_init__(self) -> None:
        if self.records < 1 or (self.together and self.records > 1):
            least = "exactly" if self.together else "at least"
            raise ValueError(f"{least} one record of a {self.unit} counts, not {self.records}")

    @property
    def layout(self) -> str:
        """Names the rule of the draws, and the unit, in ledger and certificate."""
        return (UNIT_LAYOUTS if self.together else LAYOUTS)[self.unit]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContributionKeys:
    """Two keyed functions of one release, with keys derived from its secret: of ids, and of a person's records.

    Args:
        secret: the release's key, 32 bytes.

    Raises:
        ValueError: a key of another length.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise ValueError(f"a release's key has {KEY_BYTES} bytes, not {len(self.secret)}")

    def of_texts(self, raw_bytes: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Words:
        """Return the keyed hashes, shape (2, n), of texts that lie in bytes from `starts`, shape (n,), to `ends`."""
        cipher = self._cipher(b"ids")
        padded = np.concatenate((raw_bytes, np.zeros(_WORD_BYTES, dtype=np.uint8)))  # the last word is read whole too
        lengths = ends - starts
        # CBC-MAC is a pseudorandom function only where no message is a prefix of another. Each begins with its length,
        # so none is (Bellare, Kilian, Rogaway, JCSS 61(3), 2000; Petrank, Rackoff, J. Cryptology 13(3), 2000).
        state = np.empty((lengths.size, _BLOCK_WORDS), dtype=np.uint64)
        state[:, 0] = lengths
        state[:, 1] = _word_of(padded, starts, lengths)
        state = _encrypted(cipher, state)
        taken = _WORD_BYTES
        active = np.flatnonzero(lengths > taken)
        while active.size:
            block, left = state[active], lengths[active] - taken
            block[:, 0] ^= _word_of(padded, starts[active] + taken, left)
            block[:, 1] ^= _word_of(padded, starts[active] + taken + _WORD_BYTES, left - _WORD_BYTES)
            state[active] = _encrypted(cipher, block)
            taken += _BLOCK_BYTES
            active = active[left > _BLOCK_BYTES]
        return state.T

    def of_numbers(self, numbers: NDArray[np.int64] | Words) -> Words:
        """Return the keyed hashes of whole numbers of any type of integers; shape (2, n)."""
        state = np.empty((numbers.size, _BLOCK_WORDS), dtype=np.uint64)
        state[:, 0] = np.where(numbers < 0, np.uint64(_NEGATIVE_TAG), np.uint64(_NUMBER_TAG))
        state[:, 1] = numbers.astype(np.int64).view(np.uint64)
        return _encrypted(self._cipher(b"ids"), state).T

    def of_places(self, positions: NDArray[np.int64], *, file: int, block: int) -> Words:
        """Return what stands for the persons of records without an id, each a person of its own; shape (2, n)."""
        state = np.empty((positions.size, _BLOCK_WORDS), dtype=np.uint64)
        state[:, 0] = positions + _ALONE_TAG
        state[:, 1] = file << 32 | block
        return _encrypted(self._cipher(b"ids"), state).T

    def draws(self, persons: Words, groups: NDArray[np.int64], occurrences: NDArray[np.int64]) -> tuple[Words, Words]:
        """Return a rank and a coin for each record, independent words of shape (n,); equal records have other numbers.

        Args:
            persons: hashes; shape (2, n).
            groups: keys of the records' groups; shape (words, n).
            occurrences: number of the record among those of its person in its group, from 0; shape (n,).
        """
        cipher = self._cipher(b"records")
        state = np.ascontiguousarray(persons.T)
        state[:, 0] ^= groups[0].view(np.uint64)
        state[:, 1] ^= occurrences.astype(np.uint64)
        state = _encrypted(cipher, state)
        for word in groups[1:]:  # messages of one release have one length, so that none begins another
            state[:, 0] ^= np.ascontiguousarray(word).view(np.uint64)
            state = _encrypted(cipher, state)
        return state[:, 0], state[:, 1]

    def _cipher(self, purpose: bytes) -> CipherContext:
        key = hmac.digest(self.secret, _DOMAIN + purpose, hashlib.sha256)
        return Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a block alone is a keyed function


def sorted_records(keys: NDArray[np.int64], counts: NDArray[np.int64] | None = None, *, cells: int) -> GroupCounts:
    """Return how many records each person has in each group.

    Args:
        keys: a person and a group, shape (2 + words, n), in any order; pairs may repeat.
        counts: records of each, shape (n,); None is one of each.
        cells: number of possible groups.
    """
    if keys.shape[0] != PERSON_WORDS + 1 or not keys.shape[1]:
        return _sorted_slowly(keys, counts)
    order = np.argsort(keys[0])
    first, second = keys[0][order], keys[1][order]
    changes = first[1:] != first[:-1]
    starts = np.concatenate((np.zeros(1, dtype=np.int64), np.flatnonzero(changes) + 1))
    # Two persons may share the first word of their hashes; then both words must be compared.
    if starts.size * cells >= _COMPOSITES or np.any((second[1:] != second[:-1]) & ~changes):
        return _sorted_slowly(keys, counts)
    # Here the first word alone identifies a person, so person and group make one number, which is sorted quickly.
    composites = np.zeros(order.size, dtype=np.int64)
    composites[starts[1:]] = cells
    np.cumsum(composites, out=composites)
    composites += keys[2][order]
    if counts is None:
        composites.sort()
    else:
        within = np.argsort(composites)
        composites, order = composites[within], order[within]
    places = np.concatenate((np.zeros(1, dtype=np.int64), np.flatnonzero(composites[1:] != composites[:-1]) + 1))
    person, group = np.divmod(composites[places], cells)
    return GroupCounts(
        np.array([first[starts][person], second[starts][person], group]),
        np.diff(places, append=order.size) if counts is None else np.add.reduceat(counts[order], places),
    )


def _sorted_slowly(keys: NDArray[np.int64], counts: NDArray[np.int64] | None) -> GroupCounts:
    return count_keys(keys, cells=_COMPOSITES) if counts is None else sum_counts(keys, counts)


def chosen_counts(
    records: GroupCounts, *, most: int, rate: Decimal | None, cells: int, keys: ContributionKeys
) -> GroupCounts:
    """Return how many records of each group count, and are sampled: of each person at most M, of the lowest ranks.

    Args:
        records: how many records each person has in each group; keys of shape (2 + words, n). Every record of a person
            is here.
        most: M, the most records of a person that count.
        rate: sampling rate; None takes every record that counts.
        cells: number of possible groups.
        keys: the release's keyed functions.
    """
    pairs, counts = records
    groups = pairs[PERSON_WORDS:]
    words = pairs[:PERSON_WORDS]
    starts = np.flatnonzero(np.append(True, np.any(words[:, 1:] != words[:, :-1], axis=0)))[: pairs.shape[1]]
    sizes = np.diff(starts, append=pairs.shape[1])
    totals = np.add.reduceat(counts, starts) if starts.size else counts
    # PRIVACY: the limit comes before the coins, so that a person with more than M records isn't sampled more often
    # than one with M.
    within = np.repeat(totals <= most, sizes)
    parts = [GroupCounts(np.empty((groups.shape[0], 0), dtype=np.int64), np.empty(0, dtype=np.int64))]
    limit = None if rate is None else np.uint64(threshold(rate))
    if limit is None:
        every = np.flatnonzero(within)
        parts.append(sum_counts(groups[:, every], counts[every]))
    else:
        for places, _, coins in _drawn(records, np.flatnonzero(within), keys):
            parts.append(count_keys(groups[:, places[coins < limit]], cells=cells))
    person = np.repeat(np.arange(starts.size, dtype=np.int64), sizes)
    places, coins = _lowest(records, np.flatnonzero(~within), person, most, keys)
    kept = places if limit is None else places[coins < limit]
    parts.append(count_keys(groups[:, kept], cells=cells))
    return merge_counts(parts)


def _lowest(
    records: GroupCounts, chosen: NDArray[np.int64], person: NDArray[np.int64], most: int, keys: ContributionKeys
) -> tuple[NDArray[np.int64], Words]:
    """Return the pairs and coins of the M records of lowest rank of each person, for some pairs, ascending."""
    lowest = [_first(block, person, most) for block in _drawn(records, chosen, keys)]
    if not lowest:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
    if len(lowest) > 1:  # a person's records may lie in several blocks
        places, ranks, coins = (np.concatenate(parts) for parts in zip(*lowest, strict=True))
        lowest = [_first((places, ranks, coins), person, most)]
    [(places, _, coins)] = lowest
    return places, coins


def _first(
    block: tuple[NDArray[np.int64], Words, Words], person: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int64], Words, Words]:
    """Return, of some records by ascending pair, the M of lowest rank of each person; equal ranks in their order."""
    places, ranks, coins = block
    owners = person[places]
    starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
    sizes = np.diff(starts, append=owners.size)
    number = np.repeat(np.arange(starts.size, dtype=np.uint64), sizes)
    bits = np.uint64(int(starts.size).bit_length())
    # The person's number and the first bits of the rank share one word: sorting one word is faster than sorting two.
    composites = (number << (np.uint64(64) - bits)) | (ranks >> bits)
    order = np.argsort(composites)
    # Where the bits that were cut off would decide, the whole ranks are sorted.
    if np.any(composites[order[1:]] == composites[order[:-1]]):
        order = np.lexsort((ranks, number))
    kept = order[np.arange(owners.size) - np.repeat(starts, sizes) < most]
    kept.sort()
    return places[kept], ranks[kept], coins[kept]


def _drawn(
    records: GroupCounts, chosen: NDArray[np.int64], keys: ContributionKeys
) -> Iterator[tuple[NDArray[np.int64], Words, Words]]:
    """Yield ranks and coins of the records of some pairs, some at a time: the pair, the rank and the coin of each."""
    ends = np.cumsum(records.counts[chosen])
    for first in range(0, int(ends[-1]) if ends.size else 0, _DRAWN_AT_ONCE):
        numbers = np.arange(first, min(first + _DRAWN_AT_ONCE, int(ends[-1])), dtype=np.int64)
        drawn = np.searchsorted(ends, numbers, side="right")
        places = chosen[drawn]
        # PRIVACY: a record's rank and coin follow from the key and the person's own records: id, group, and number
        # among the person's equal records. Neither other persons nor the order of the records change them.
        occurrences = numbers - (ends[drawn] - records.counts[places])
        persons = records.keys[:PERSON_WORDS, places].view(np.uint64)
        ranks, coins = keys.draws(persons, records.keys[PERSON_WORDS:, places], occurrences)
        yield places, ranks, coins


def _word_of(padded: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Words:
    """Return the next eight bytes from some offsets on, little-endian, with zeros for what is past a length."""
    # With a stride of one byte, word i begins at byte i: texts of any offset are read without being copied.
    words = np.ndarray((padded.size - _WORD_BYTES + 1,), dtype="<u8", buffer=padded, strides=(1,))
    next_words = words[np.minimum(starts, words.size - 1)]
    short = lengths < _WORD_BYTES
    if short.any():
        bits = (np.clip(lengths, 0, _WORD_BYTES - 1) * _WORD_BYTES).astype(np.uint64)
        next_words = np.where(short, next_words & ((np.uint64(1) << bits) - np.uint64(1)), next_words)
    return next_words.astype(np.uint64, copy=False)


def _encrypted(cipher: CipherContext, blocks: Words) -> Words:
    """Return each block of two words, shape (n, 2), after the cipher."""
    if not blocks.size:
        return blocks
    plain = np.ascontiguousarray(blocks)
    encrypted = np.empty(plain.size + _BLOCK_WORDS, dtype=np.uint64)  # the cipher wants room for most of a block more
    cipher.update_into(plain.data.cast("B"), encrypted.data.cast("B"))
    return encrypted[: plain.size].reshape(plain.shape)
