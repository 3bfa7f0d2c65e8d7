"""The hash chain over entries, and the Merkle tree over a set of facts: pure functions on bytes.

The tree is a trie of 16 children over the hexadecimal digits of the keys. A child is empty, or the only fact below it,
or the digest of a further node. So the root depends on the set of facts alone, not on the order in which they came, and
looking up or setting one of n facts takes about log₁₆ n nodes. Nodes may come from anywhere: each is held against the
digest that the node above it states, and the topmost against the root. That keys are SHA-256 digests keeps it balanced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..entries.values import require_digest

__all__ = [
    "DIGITS",
    "EMPTY_NODE",
    "EMPTY_ROOT",
    "FACT",
    "GENESIS",
    "PARTS",
    "Finding",
    "Head",
    "Link",
    "NodeForged",
    "StateTree",
    "check_links",
    "link_hash",
    "node_digest",
    "nodes_of",
    "own_hash",
]

DOMAIN = b"crowdblend ledger entry 1\n"
GENESIS = "0" * 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something that does not hold in a ledger.

    Args:
        position: the entry that it concerns, None where it concerns no single entry.
        what: the fault in one sentence.
    """

    position: int | None
    what: str

    def __str__(self) -> str:
        """The finding as one line."""
        return self.what if self.position is None else f"entry {self.position}: {self.what}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One entry as stored.

    Args:
        position: its place, from 0.
        previous: hash of the entry before it, 64 hexadecimal digits; `GENESIS` for the first.
        hash: its own hash.
        body: its canonical bytes.
    """

    position: int
    previous: str
    hash: str
    body: bytes


def link_hash(*, previous: str, position: int, body: bytes) -> str:
    """SHA-256 (hex) that binds an entry's bytes to its place and to all entries before it.

    The parts before the body have fixed lengths, so that no two different links share their input.

    Raises:
        ValueError: the previous hash is not 32 bytes in hexadecimal.
    """
    before = bytes.fromhex(previous)
    if len(before) != 32:
        raise ValueError("a link's previous hash must have 32 bytes")
    return hashlib.sha256(DOMAIN + before + position.to_bytes(8, "big") + body).hexdigest()


def check_links(links: Iterable[Link], *, position: int = 0, previous: str = GENESIS) -> Iterator[Finding]:
    """Check places, previous hashes and own hashes of entries in the order of their places.

    What was cut off at the end can't be seen here: it needs a copy of the head kept elsewhere. One fault is one
    finding: what follows after it is held against the link as it is stored, and as it should be.

    Args:
        links: the entries.
        position: place of the first.
        previous: hash of the entry before it.
    """
    expected_position, expected_previous = position, {previous}
    for link in links:
        own = own_hash(link)
        if link.position != expected_position:
            yield Finding(
                position=link.position,
                what=f"entry {expected_position} is missing: the next entry has position {link.position}",
            )
        elif link.previous not in expected_previous:
            yield Finding(position=link.position, what="the entry does not continue the chain before it")
        elif own != link.hash:
            yield Finding(position=link.position, what="the entry's content differs from its hash")
        expected_position, expected_previous = link.position + 1, {link.hash, own or link.hash}


def own_hash(link: Link) -> str | None:
    """The hash that the link should have, None where its previous hash or place has no valid form."""
    try:
        return link_hash(previous=link.previous, position=link.position, body=link.body)
    except (ValueError, OverflowError):
        return None


TREE_DOMAIN = b"crowdblend ledger state node 1\n"
WIDTH = 16
DIGITS = "0123456789abcdef"
EMPTY_NODE = "," * (WIDTH - 1)
CHILD = re.compile(r"(?:[0-9a-f]{64}){0,2}")  # nothing, a node's digest, or a fact: its key and its value
DIGEST = 64

Load = Callable[[Collection[str]], Mapping[str, str]]


class NodeForged(ValueError):
    """A stored node is missing, or is not the one that the root vouches for."""


def node_digest(children: str) -> str:
    """SHA-256 (hex) of a node.

    Args:
        children: its 16 children, separated by commas.
    """
    return hashlib.sha256(TREE_DOMAIN + children.encode("utf-8")).hexdigest()


EMPTY_ROOT = node_digest(EMPTY_NODE)


class StateTree:
    """One state of the facts, and the changes to it.

    Args:
        root: the digest of the topmost node, which must be known to be right.
        load: gives the stored nodes of some paths; it is not trusted.
    """

    def __init__(self, root: str, load: Load) -> None:
        self._root = root
        self._load = load
        self._stored: dict[str, str] = {}
        self._asked: set[str] = set()
        self._nodes: dict[str, list[str]] = {}  # checked against the root, or changed here
        self._changed: set[str] = set()

    @property
    def root(self) -> str:
        """The digest that vouches for all facts, with those that were set here."""
        return self._root

    @property
    def changed(self) -> dict[str, str]:
        """Path → children of the nodes that differ from the stored ones."""
        return {path: ",".join(self._nodes[path]) for path in sorted(self._changed)}

    def fetch(self, keys: Collection[str], *, depth: int) -> None:
        """Load the nodes above some keys in one go; without it they are loaded one by one.

        Args:
            keys: 64 hexadecimal digits each.
            depth: how many levels.
        """
        wanted = {key[:length] for key in keys for length in range(depth)} - self._asked
        if wanted:
            self._asked |= wanted
            self._stored.update(self._load(wanted))

    def value(self, key: str) -> str | None:
        """A fact's value, None where the root vouches that there is no fact of this key.

        Raises:
            NodeForged: a node on the way to it does not follow from the root.
        """
        child = self._child(key, self._trail(key)[-1])
        return child[DIGEST:] if child[:DIGEST] == key else None

    def put(self, key: str, value: str) -> None:
        """Set a fact, new or with another value.

        Raises:
            NodeForged: a node on the way to it does not follow from the root.
        """
        trail = self._trail(key)
        path, fact = trail[-1], key + value
        other = self._child(key, path)
        if other and other[:DIGEST] != key:
            while True:  # two facts below one child: nodes down to where their keys part
                path += key[len(path)]
                trail.append(path)
                self._nodes[path] = [""] * WIDTH
                if other[len(path)] != key[len(path)]:
                    break
            self._nodes[path][int(other[len(path)], WIDTH)] = other
        self._nodes[path][int(key[len(path)], WIDTH)] = fact
        for below, above in zip(reversed(trail), reversed(trail[:-1]), strict=False):
            self._nodes[above][int(key[len(above)], WIDTH)] = node_digest(",".join(self._nodes[below]))
        self._changed.update(trail)
        self._root = node_digest(",".join(self._nodes[""]))

    def _child(self, key: str, path: str) -> str:
        return self._nodes[path][int(key[len(path)], WIDTH)]

    def _trail(self, key: str) -> list[str]:
        """The paths of the nodes from the topmost to the one under which the fact stands, or would."""
        trail, path, expected = [], "", self._root
        while True:
            if path not in self._nodes:
                self._nodes[path] = self._checked(path, expected)
            trail.append(path)
            child = self._child(key, path)
            if len(child) != DIGEST:
                return trail
            path, expected = path + key[len(path)], child

    def _checked(self, path: str, expected: str) -> list[str]:
        if path not in self._asked:
            self._asked.add(path)
            self._stored.update(self._load([path]))
        stored = self._stored.get(path)
        if stored is None or node_digest(stored) != expected:
            raise NodeForged("a node of the ledger's state is missing or changed")
        children = stored.split(",")
        if len(children) != WIDTH or not all(CHILD.fullmatch(child) for child in children):
            raise NodeForged("a node of the ledger's state has another form")
        return children


FACT = 64  # bytes: a key and a value
PARTS = 256


def nodes_of(parts: Iterable[Sequence[bytes]]) -> Iterator[tuple[str, str]]:
    """All nodes of the tree of some facts: path and children, in falling order of the paths, the topmost last.

    Args:
        parts: the facts of each first byte of a key, from 255 down to 0, one part after the other, so that they needn't
            be in memory together; a fact is key and value in `FACT` bytes, a part is sorted and has each key once.
    """
    waiting, top = iter(parts), [""] * WIDTH
    for first in reversed(range(WIDTH)):
        children, facts = [""] * WIDTH, 0
        for second in reversed(range(WIDTH)):
            part = next(waiting)
            facts += len(part)
            if len(part) == 1:
                children[second] = part[0].hex()
            elif part:
                children[second] = yield from _nodes_below(part, 0, len(part), DIGITS[first] + DIGITS[second])
        if facts > 1:
            text = ",".join(children)
            yield DIGITS[first], text
            top[first] = node_digest(text)
        else:
            top[first] = "".join(children)
    yield "", ",".join(top)


def _nodes_below(facts: Sequence[bytes], begin: int, end: int, path: str) -> Generator[tuple[str, str], None, str]:
    place, low = divmod(len(path), 2)
    bounds = [begin] * (WIDTH + 1)
    for index in range(begin, end):
        digit = facts[index][place] & 15 if low else facts[index][place] >> 4
        bounds[digit + 1] = index + 1
    for digit in range(WIDTH):
        bounds[digit + 1] = max(bounds[digit], bounds[digit + 1])
    children = [""] * WIDTH
    for digit in reversed(range(WIDTH)):
        first, last = bounds[digit], bounds[digit + 1]
        if last - first == 1:
            children[digit] = facts[first].hex()
        elif last > first:
            children[digit] = yield from _nodes_below(facts, first, last, path + DIGITS[digit])
    text = ",".join(children)
    yield path, text
    return node_digest(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """Where a ledger's chain ended at some moment.

    Args:
        ledger_id: which ledger, 64 hexadecimal digits.
        position: place of the last entry, from 0.
        hash: its link's hash, which binds all entries before it.
    """

    ledger_id: str
    position: int
    hash: str

    def __post_init__(self) -> None:
        require_digest(self.ledger_id, "ledger's id")
        require_digest(self.hash, "head's hash")
        if type(self.position) is not int or self.position < 0:
            raise ValueError("a head's position is a whole number from 0")
