"""The coins: exact rates, streams that no two chunks share, and a layout that may not drift."""

from __future__ import annotations

import hashlib
import struct
from decimal import Decimal
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


def test_the_threshold_of_a_float_would_differ():
    assert threshold(Decimal("0.1")) != int(0.1 * 2**64)
    assert threshold(Decimal("1e-30")) == 0
    assert threshold(Decimal(1) - Decimal("1e-25")) == 2**64 - 1


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


def test_a_coin_exactly_at_the_threshold_does_not_count(monkeypatch):
    """One word in 2**64 equals it: so the words of the second stream are put in its place, and one below it."""
    coins = Coins(key=KEY, chunk=ONE, rate=Decimal("0.37"))
    tied: dict[int, int] = {}
    for below in (0, 1):

        def words_at_the_threshold(stream, ties, below=below):
            tied[below] = ties
            return np.full(ties, coins._rest - below, dtype=np.uint64)

        monkeypatch.setattr(sampling, "_tie_words", words_at_the_threshold)
        tied[below + 2] = kept_positions(key=KEY, chunk=ONE, records=100_000, rate=Decimal("0.37")).size
    assert tied[0] == tied[1] > 300
    assert tied[3] - tied[2] == tied[0]


def test_blocks_of_the_stream_do_not_show(monkeypatch):
    whole = kept_positions(key=KEY, chunk=ONE, records=100_000, rate=Decimal("0.37"))
    monkeypatch.setattr(sampling, "_BLOCK_RECORDS", 777)
    assert np.array_equal(whole, kept_positions(key=KEY, chunk=ONE, records=100_000, rate=Decimal("0.37")))


def test_the_layout_has_not_drifted():
    """A changed layout changes samples; it needs a new name, and these digests with it."""
    assert sampling.LAYOUT == "chacha20-byte-first/1"
    chunk = ChunkIdentity(file=3, block=5)
    kept = kept_positions(key=KEY, chunk=chunk, records=3_000_000, rate=Decimal("0.1"))
    assert hashlib.sha256(kept.astype("<i8").tobytes()).hexdigest() == LAYOUT_DIGEST
    assert sample_commitment(KEY) == hashlib.sha256(b"crowdblend/sample-commitment/1\x00" + KEY).hexdigest()


LAYOUT_DIGEST = "41a825d2e18d7ec9d656f348a67a99a633eba612e508845ca4b046ca634f56a4"


def nonces(sample, chunks, monkeypatch) -> list[bytes]:
    """Every nonce that a sampler uses for some chunks."""
    used: list[bytes] = []
    real = sampling.Cipher

    def spy(algorithm, mode):
        used.append(algorithm.nonce)
        return real(algorithm, mode)

    monkeypatch.setattr(sampling, "Cipher", spy)
    for chunk in chunks:
        sample(key=KEY, chunk=chunk, records=3, rate=Decimal("0.5"))
    return used


CHUNKS = [
    ChunkIdentity(file=file, block=block)
    for file in (0, 1, 2, 255, 256, 2**16, 2**31, 2**32 - 1)
    for block in (0, 1, 2, 255, 256, 2**16, 2**31, 2**32 - 1)
]


def ignores_block(*, chunk, **rest):
    return kept_positions(chunk=ChunkIdentity(file=chunk.file, block=0), **rest)


def adds_places(*, chunk, **rest):
    place = (chunk.file + chunk.block) % 2**32
    return kept_positions(chunk=ChunkIdentity(file=0, block=place), **rest)


def cuts_to_16_bits(*, chunk, **rest):
    return kept_positions(chunk=ChunkIdentity(file=chunk.file % 2**16, block=chunk.block), **rest)


def test_no_two_streams_share_a_nonce(monkeypatch):
    used = nonces(kept_positions, CHUNKS, monkeypatch)
    assert len(used) == len(set(used)) == 2 * len(CHUNKS)
    assert all(len(nonce) == 16 and nonce[:4] == bytes(4) for nonce in used)


@pytest.mark.parametrize("broken", [ignores_block, adds_places, cuts_to_16_bits])
def test_the_nonce_test_catches_a_broken_sampler(monkeypatch, broken):
    used = nonces(broken, CHUNKS, monkeypatch)
    assert len(set(used)) < len(used)


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
DRAWS = {"0.1": 12_000_000, "0.02": 55_000_000, "0.5": 2_000_000, "0.9": 2_000_000}


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


def spread(kept: np.ndarray, records: int, classes: int) -> float:
    """Chi-square of the kept positions over their remainders, less its mean, in standard deviations."""
    tally = np.bincount(kept % classes, minlength=classes)
    expected = kept.size / classes
    chi_square = float(((tally - expected) ** 2 / expected).sum())
    return (chi_square - (classes - 1)) / (2 * (classes - 1)) ** 0.5


def test_coins_are_even_over_positions_and_independent_of_their_neighbours():
    """False-alarm rate below 1e-6; controls: a sampler that spares every 64th record, doubled coins."""
    records = 4_096_000
    kept = kept_positions(key=KEY, chunk=ONE, records=records, rate=Decimal("0.1"))
    assert spread(kept, records, 64) < 6
    assert spread(kept[kept % 64 != 7], records, 64) > 6
    pairs = np.count_nonzero(np.diff(kept) == 1)
    assert abs(z_score(pairs, records - 1, 0.01)) < 6
    doubled = np.unique(np.concatenate((kept[::2], kept[::2] + 1)))
    assert abs(z_score(np.count_nonzero(np.diff(doubled) == 1), records - 1, 0.01)) > 6


def test_chunks_keys_and_files_draw_independently():
    """Overlap of two independent samples is Bin(n, β²); false-alarm rate 5.7e-7 for each of three pairs."""
    records, rate = 1_000_000, Decimal("0.1")
    base = kept_positions(key=KEY, chunk=ONE, records=records, rate=rate)
    other_file, other_block = ChunkIdentity(file=1, block=0), ChunkIdentity(file=0, block=1)
    others = [(KEY, other_file), (KEY, other_block), (bytes(32), ONE)]
    for key, chunk in others:
        other = kept_positions(key=key, chunk=chunk, records=records, rate=rate)
        common = np.intersect1d(base, other, assume_unique=True).size
        assert abs(z_score(common, records, 0.01)) < FALSE_ALARM_Z
