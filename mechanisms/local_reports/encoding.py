"""How an answer becomes bits before they are flipped: one for each value or question, or a Bloom filter (RAPPOR)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .krandomization import MOST_BITS

__all__ = ["BloomEncoding", "OneHotEncoding", "QuestionEncoding"]


@dataclass(frozen=True, kw_only=True, slots=True)
class OneHotEncoding:
    """One bit for each declared value; any other text sets no bit. (Basic RAPPOR, arXiv:1407.6981v2, §2.1.)

    Two values differ in at most two bits, but the price of K-randomization counts all L.

    Args:
        values: the declared domain, 1 … 24 distinct texts.

    Raises:
        ValueError: too few, too many or repeated values.
    """

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.values) <= MOST_BITS or len(set(self.values)) != len(self.values):
            raise ValueError(f"a one-hot encoding has 1 to {MOST_BITS} distinct values")

    @property
    def bits(self) -> int:
        """Number of bits L."""
        return len(self.values)

    def encode(self, texts: Sequence[str]) -> NDArray[np.uint32]:
        """The bits of each text as a number; bit i stands for the i-th value; shape (n,)."""
        codes = {value: 1 << place for place, value in enumerate(self.values)}
        return np.array([codes.get(text, 0) for text in texts], dtype=np.uint32)

    def vector_of(self, text: str) -> int:
        """The vector that a text becomes."""
        return int(self.encode([text])[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class BloomEncoding:
    """A Bloom filter: h hash functions each set one of L bits; any text has a vector. (RAPPOR, arXiv:1407.6981v2, §2.)

    Different texts may share a vector: estimates are of vectors, and a vector's estimate is that of all texts on it.

    Args:
        bits: L, 1 … 24.
        hashes: h, 1 … L.
        seed: public; names the hash functions. A cohort is a seed of its own.

    Raises:
        ValueError: a field outside its range.
    """

    bits: int
    hashes: int
    seed: bytes

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MOST_BITS or not 1 <= self.hashes <= self.bits:
            raise ValueError(f"a Bloom filter has 1 to {MOST_BITS} bits and 1 to as many hash functions")
        if not 1 <= len(self.seed) <= 64:
            raise ValueError(f"the seed has 1 to 64 bytes, not {len(self.seed)}")

    def encode(self, texts: Sequence[str]) -> NDArray[np.uint32]:
        """The bits of each text as a number, shape (n,)."""
        known = {text: self.vector_of(text) for text in set(texts)}
        return np.array([known[text] for text in texts], dtype=np.uint32)

    def vector_of(self, text: str) -> int:
        """The vector that a text becomes."""
        vector = 0
        for number in range(self.hashes):
            digest = blake2b(
                number.to_bytes(2, "big") + text.encode(), digest_size=8, key=self.seed, person=b"crowdblend-blm/1"
            ).digest()
            vector |= 1 << (int.from_bytes(digest, "big") % self.bits)
        return vector

    def shared_vectors(self, texts: Sequence[str]) -> dict[int, list[str]]:
        """The vectors that several of these texts share, with the texts in their order."""
        owners: dict[int, list[str]] = {}
        for text in dict.fromkeys(texts):
            owners.setdefault(self.vector_of(text), []).append(text)
        return {vector: sharing for vector, sharing in owners.items() if len(sharing) > 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionEncoding:
    """One bit for each of several questions that are answered by yes or no.

    Args:
        questions: their names, 1 … 24 distinct texts.

    Raises:
        ValueError: too few, too many or repeated names.
    """

    questions: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.questions) <= MOST_BITS or len(set(self.questions)) != len(self.questions):
            raise ValueError(f"there are 1 to {MOST_BITS} questions with distinct names")

    @property
    def bits(self) -> int:
        """Number of bits L."""
        return len(self.questions)

    def vector_of(self, answers: Sequence[bool]) -> int:
        """The vector that a person's answers become; bit i stands for the i-th question.

        Raises:
            ValueError: another number of answers.
        """
        if len(answers) != self.bits:
            raise ValueError(f"there are {self.bits} questions, and {len(answers)} answers")
        return sum(1 << place for place, answer in enumerate(answers) if answer)
