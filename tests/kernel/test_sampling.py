"""The coins: exact rates, streams that no two chunks share, and a layout that may not drift."""

from __future__ import annotations

import hashlib
import struct
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from crowdblend.mechanisms.kernel import sampling
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, Coins, kept_positions, sample_commitment, threshold
from hypothesis import given, settings
from hypothesis import strategies as st

KEY = bytes(range(32))
ONE = ChunkIdentity(file=0, block=0)
rates = st.decimals(min_value=0, max_value=1, allow_nan=False, places=None).filter(lambda rate: 0 < rate < 1)
words = st.integers(0, 2**32 - 1)


@settings(derandomize=True)
@given(rate=rates)
def test_the_threshold_is_the_exact_floor(rate):
    limit = threshold(rate)
    assert limit <= Fraction(rate) * 2**64 < limit + 1


@pytest.mark.parametrize(
    ("rate", "limit"),
    [("9.99e-20", 1), ("5.5e-20", 1), ("5.4e-20", 0), ("9e-21", 0), ("1e-999999", 0), ("1.1e-19", 2), ("0.5", 2**63)],
)
def test_the_threshold_of_the_smallest_rates(rate, limit):
    """2⁻⁶⁴ is about 5.42e-20."""
    assert threshold(Decimal(rate)) == limit


@pytest.mark.parametrize("rate", ["0", "1", "-0.1", "1.5", "NaN", "Infinity"])
def test_a_rate_outside_the_open_interval_is_refused(rate):
    with pytest.raises((ValueError, ArithmeticError)):
        kept_positions(key=KEY, chunk=ONE, records=1, rate=Decimal(rate))


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """RFC 8439, section 2.3, in plain Python."""
    state = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter]
    state += struct.unpack("<3I", nonce)
    mixed = list(state)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            mixed[x] = (mixed[x] + mixed[y]) & 0xFFFFFFFF
            word = mixed[z] ^ mixed[x]
            mixed[z] = ((word << turn) | (word >> (32 - turn))) & 0xFFFFFFFF

    for _ in range(10):
        for column in range(4):
            quarter(column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            quarter(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return struct.pack("<16I", *((x + y) & 0xFFFFFFFF for x, y in zip(mixed, state, strict=True)))


def stream(key: bytes, nonce: bytes, size: int) -> bytes:
    return b"".join(chacha20_block(key, block, nonce) for block in range(-(-size // 64)))[:size]


def test_the_plain_cipher_passes_the_vector_of_the_standard():
    """RFC 8439, section 2.3.2."""
    block = chacha20_block(KEY, 1, bytes.fromhex("000000090000004a00000000"))
    assert block.hex().startswith("10f1e7e4d13b5915500fdd1fa32071c4")


def reference(key: bytes, chunk: ChunkIdentity, records: int, rate: Decimal) -> list[int]:
    """The documented rule by whole 64-bit words, one record at a time."""
    limit = int(Fraction(rate) * 2**64)
    tops = stream(key, struct.pack("<III", chunk.file, chunk.block, 0x100), records)
    rests = stream(key, struct.pack("<III", chunk.file, chunk.block, 0x101), 7 * records)
    kept, ties = [], 0
    for place, top in enumerate(tops):
        rest = bytes(7)
        if top == limit >> 56:
            rest = rests[7 * ties : 7 * ties + 7]
            ties += 1
        if int.from_bytes(bytes([top]) + rest, "big") < limit:
            kept.append(place)
    return kept


@settings(derandomize=True, max_examples=60)
@given(key=st.binary(min_size=32, max_size=32), file=words, block=words, records=st.integers(0, 700), rate=rates)
def test_the_sample_is_that_of_whole_words_drawn_one_by_one(key, file, block, records, rate):
    chunk = ChunkIdentity(file=file, block=block)
    kept = kept_positions(key=key, chunk=chunk, records=records, rate=rate)
    assert kept.dtype == np.int64
    assert kept.tolist() == reference(key, chunk, records, rate)


@settings(derandomize=True, max_examples=60)
@given(parts=st.lists(st.integers(0, 3000), max_size=12), rate=rates)
def test_drawing_in_parts_gives_the_same_coins(parts, rate):
    coins = Coins(key=KEY, chunk=ONE, rate=rate)
    starts = np.cumsum([0, *parts])
    pieces = [coins.kept(part) + start for part, start in zip(parts, starts, strict=False)]
    whole = kept_positions(key=KEY, chunk=ONE, records=sum(parts), rate=rate)
    assert np.concatenate([np.empty(0, dtype=np.int64), *pieces]).tolist() == whole.tolist()


@pytest.mark.parametrize("more", [0, 1])
def test_a_coin_exactly_at_the_threshold_does_not_count(more):
    """The word of a block's first record is its byte of the first stream, and seven bytes of the second."""
    first, rest = (stream(KEY, struct.pack("<III", 0, 0, number), 8) for number in (0x100, 0x101))
    word = int.from_bytes(first[:1] + rest[:7], "big")
    with localcontext(prec=80):
        rate = Decimal(word + more) / 2**64
    assert kept_positions(key=KEY, chunk=ONE, records=1, rate=rate).size == more


def test_the_layout_has_not_drifted():
    """A changed layout changes samples; it needs a new name, and these digests with it."""
    assert sampling.LAYOUT == "chacha20-byte-first/1"
    chunk = ChunkIdentity(file=3, block=5)
    kept = kept_positions(key=KEY, chunk=chunk, records=3_000_000, rate=Decimal("0.1"))
    assert hashlib.sha256(kept.astype("<i8").tobytes()).hexdigest() == LAYOUT_DIGEST
    assert sample_commitment(KEY) == hashlib.sha256(b"crowdblend/sample-commitment/1\x00" + KEY).hexdigest()


LAYOUT_DIGEST = "41a825d2e18d7ec9d656f348a67a99a633eba612e508845ca4b046ca634f56a4"


def test_what_does_not_fit_the_nonce_is_refused():
    for file, block in ((-1, 0), (0, -1), (2**32, 0), (0, 2**32), (2**32 + 1, 0)):
        with pytest.raises(ValueError, match="2\\*\\*32"):
            ChunkIdentity(file=file, block=block)
    with pytest.raises(ValueError, match="2\\*\\*32"):
        kept_positions(key=KEY, chunk=ONE, records=2**32, rate=Decimal("0.1"))
    coins = Coins(key=KEY, chunk=ONE, rate=Decimal("0.1"))
    coins.kept(10)
    for records in (-1, 2**32 - 10, 2**32 + 10):
        with pytest.raises(ValueError, match=rf"2\*\*32 - 1 records, not {10 + records}$"):
            coins.kept(records)
    for key in (b"", bytes(16), bytes(33)):
        with pytest.raises(ValueError, match="32 bytes"):
            kept_positions(key=key, chunk=ONE, records=1, rate=Decimal("0.1"))
        with pytest.raises(ValueError, match="32 bytes"):
            sample_commitment(key)


def test_the_key_is_in_no_repr():
    shown = repr(Coins(key=KEY, chunk=ONE, rate=Decimal("0.1"))) + repr(ONE)
    assert KEY.hex() not in shown
    assert repr(KEY) not in shown


# An |z| beyond 5 has probability 5.7e-7 for a right sampler; a rate wrong by 1% stands at 10 or more.
FALSE_ALARM_Z = 5.0
DRAWS = {"0.1": 12_000_000, "0.5": 2_000_000, "0.9": 2_000_000}


def z_score(kept: int, draws: int, rate: float) -> float:
    return (kept - draws * rate) / (draws * rate * (1 - rate)) ** 0.5


@pytest.mark.parametrize(("rate", "draws"), list(DRAWS.items()))
def test_inclusion_frequencies_are_right_and_a_rate_wrong_by_one_percent_is_seen(rate, draws):
    """False-alarm rate 5.7e-7 each; the control draws with 1.01 and 0.99 times the rate."""
    kept = kept_positions(key=KEY, chunk=ONE, records=draws, rate=Decimal(rate))
    assert abs(z_score(kept.size, draws, float(rate))) < FALSE_ALARM_Z
    for factor in (Decimal("1.01"), Decimal("0.99")):
        wrong = kept_positions(key=KEY, chunk=ONE, records=draws, rate=Decimal(rate) * factor)
        assert abs(z_score(wrong.size, draws, float(rate))) > FALSE_ALARM_Z
