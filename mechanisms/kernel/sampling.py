"""One independent coin per record from the secret of the release: a keyed ChaCha20 stream per chunk."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms
from numpy.typing import NDArray

LAYOUT = "chacha20-byte-first/1"
KEY_BYTES = 32

_LAYOUT_VERSION = 1
_BYTE_SPACE = 0
_TIE_SPACE = 1
_TIE_BYTES = 7
_BLOCK_RECORDS = 1 << 17
_WORD_LIMIT = 1 << 32
_COMMITMENT_TAG = b"crowdblend/sample-commitment/1\x00"
_ZEROS = bytes(_BLOCK_RECORDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkIdentity:
    """The lasting name of a piece of the input; equal identities draw equal coins, however the work is split.

    Args:
        file: place of the file in the sorted, deduplicated list of the source, from 0.
        block: row group of a Parquet file, or number of the fixed byte range of a CSV file, from 0.

    Raises:
        ValueError: a number that does not fit the 32 bits that the nonce has for it.
    """

    file: int
    block: int

    def __post_init__(self) -> None:
        for name, number in (("file", self.file), ("block", self.block)):
            if not 0 <= number < _WORD_LIMIT:
                raise ValueError(f"a chunk's {name} number must lie in 0 … 2**32 - 1, not {number}")


def threshold(rate: Decimal) -> int:
    """Return the whole number T = ⌊rate · 2⁶⁴⌋, exactly; a record whose 64-bit word lies below T is kept.

    The real rate T / 2⁶⁴ is therefore never above the declared one.

    Raises:
        ValueError: a rate outside (0, 1).
    """
    if not 0 < rate < 1:
        raise ValueError(f"the sampling rate must lie strictly between 0 and 1, not {rate}")
    if rate.adjusted() < -20:  # below 10**-20 < 2**-64, and spares a fraction of absurd size
        return 0
    return int(Fraction(rate) * (1 << 64))


def sample_commitment(key: bytes) -> str:
    """Return the public name of the sample that a key draws: 64 hexadecimal digits that do not reveal the key.

    Raises:
        ValueError: a key of the wrong length.
    """
    _require_key(key)
    return hashlib.sha256(_COMMITMENT_TAG + key).hexdigest()


class Coins:
    """The coins of one chunk, in the order of its records.

    Record i owns byte i of the chunk's first stream, the top byte of its 64-bit word. Only where that byte
    equals the threshold's top byte do the other seven decide: the j-th such record of the chunk owns bytes
    7j … 7j+6 (big-endian) of the chunk's second stream. A record is kept with probability ⌊rate·2⁶⁴⌋/2⁶⁴.

    INVARIANT: LAYOUT names this rule; any change to it needs a new name and a new nonce version.

    Args:
        key: the release's secret, 32 bytes.
        chunk: identity of the chunk.
        rate: sampling rate, 0 < rate < 1.

    Raises:
        ValueError: an argument out of range.
    """

    __slots__ = ("_drawn", "_first_bytes", "_rest", "_tie_bytes", "_top_byte")

    def __init__(self, *, key: bytes, chunk: ChunkIdentity, rate: Decimal) -> None:
        _require_key(key)
        limit = threshold(rate)
        self._top_byte, self._rest = limit >> 56, limit & ((1 << 56) - 1)
        self._first_bytes = _keystream(key, chunk, _BYTE_SPACE)
        self._tie_bytes = _keystream(key, chunk, _TIE_SPACE)
        self._drawn = 0

    def kept(self, records: int) -> NDArray[np.int64]:
        """Return which of the chunk's next records are sampled: their places among these, ascending.

        Raises:
            ValueError: the chunk would have 2**32 records or more.
        """
        if records < 0 or self._drawn + records >= _WORD_LIMIT:
            raise ValueError(f"a chunk holds 0 … 2**32 - 1 records, not {self._drawn + records}")
        self._drawn += records
        kept = [np.empty(0, dtype=np.int64)]
        buffer = bytearray(min(records, _BLOCK_RECORDS))
        raw_bytes = np.frombuffer(buffer, dtype=np.uint8)
        marks = np.empty(raw_bytes.size, dtype=np.bool_)
        for start in range(0, records, _BLOCK_RECORDS):
            size = min(_BLOCK_RECORDS, records - start)
            self._first_bytes.update_into(memoryview(_ZEROS)[:size], memoryview(buffer)[:size])
            # Seven more bytes are needed for one record in 256. So a coin takes little more than one byte of key stream
            # and still decides by all 64 bits of the threshold.
            tied = np.flatnonzero(np.equal(raw_bytes[:size], self._top_byte, out=marks[:size]))
            dropped = tied[_tie_words(self._tie_bytes, tied.size) >= self._rest]
            np.less_equal(raw_bytes[:size], self._top_byte, out=marks[:size])
            marks[dropped] = False
            places = np.flatnonzero(marks[:size])
            places += start
            kept.append(places)
        return np.concatenate(kept)


def kept_positions(*, key: bytes, chunk: ChunkIdentity, records: int, rate: Decimal) -> NDArray[np.int64]:
    """Return the positions of one chunk's sampled records, ascending, shape (sampled,); arguments as of `Coins`."""
    return Coins(key=key, chunk=chunk, rate=rate).kept(records)


def _tie_words(stream: CipherContext, ties: int) -> NDArray[np.uint64]:
    """Return the next `ties` 56-bit words of the tie stream."""
    raw_bytes = np.zeros((ties, 8), dtype=np.uint8)
    raw_bytes[:, 1:] = np.frombuffer(stream.update(bytes(_TIE_BYTES * ties)), dtype=np.uint8).reshape(ties, 7)
    return raw_bytes.view(">u8").reshape(ties).astype(np.uint64)


def _keystream(key: bytes, chunk: ChunkIdentity, space: int) -> CipherContext:
    # PRIVACY: (file, block, space) → nonce must stay injective: two chunks with one nonce would share coins.
    # The 32-bit block counter cannot overflow: 7 · 2**32 bytes are fewer than 2**32 blocks of 64.
    nonce = struct.pack("<IIII", 0, chunk.file, chunk.block, (_LAYOUT_VERSION << 8) | space)
    return Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor()


def _require_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise ValueError(f"a sampling key has {KEY_BYTES} bytes, not {len(key)}")
