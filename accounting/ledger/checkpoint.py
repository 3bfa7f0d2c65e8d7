"""Heads as others can check them: Merkle tree, proofs, checkpoints, cosignatures. Pure functions on bytes.

Tree and proofs are those of RFC 6962, section 2.1; a checkpoint and what is said with it have the formats of C2SP
(c2sp.org): signed-note, tlog-checkpoint, tlog-cosignature, tlog-witness, tlog-proof and tlog-policy. Of the signatures
that these allow there are two here, both of Ed25519: a log's own (type 0x01), and a witness's with its time (0x04).
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..kernel.keys.signing import PublicKey, SigningKey

Digest = bytes
DIGEST = 32
LEAF, NODE = b"\x00", b"\x01"
EMPTY = hashlib.sha256().digest()


def leaf_hash(content: bytes) -> Digest:
    """Return the tree's hash of one leaf."""
    return hashlib.sha256(LEAF + content).digest()


def _node(left: Digest, right: Digest) -> Digest:
    return hashlib.sha256(NODE + left + right).digest()


class MerkleTree:
    """The tree over some leaves, and over each beginning of them; 64 bytes are kept for each leaf."""

    def __init__(self, leaves: Iterable[bytes]) -> None:
        sha256 = hashlib.sha256
        level = b"".join([sha256(LEAF + leaf).digest() for leaf in leaves])
        self.size = len(level) // DIGEST
        self._levels: list[bytes] = []  # of each height the complete subtrees, side by side
        while level:
            # Only complete subtrees are kept. Every root and proof is made of these, and no tree is built for each
            # size.
            self._levels.append(level)
            pairs = range(0, len(level) - DIGEST, 2 * DIGEST)
            level = b"".join([sha256(NODE + level[at : at + 2 * DIGEST]).digest() for at in pairs])

    def root(self, size: int | None = None) -> Digest:
        """Return the root over the first `size` leaves; over all where none is given."""
        return self._root(0, self.size if size is None else size)

    def inclusion(self, index: int, size: int) -> tuple[Digest, ...]:
        """Return the path from a leaf, by its index, to the root over the first `size`: RFC 6962, section 2.1.1."""
        return tuple(self._proof(index, 0, size, 0))

    def consistency(self, old: int, size: int) -> tuple[Digest, ...]:
        """Return the proof that the first `size` leaves begin with the first `old`: RFC 6962, section 2.1.2."""
        return () if old in (0, size) else tuple(self._proof(old - 1, 0, size, old))

    def _proof(self, index: int, begin: int, end: int, old: int) -> list[Digest]:
        """Return the roots beside the way up from a leaf, or from the subtree on it that ends at `old`, with its root.

        The root of the whole earlier tree is left out, as whoever checks the proof has it.
        """
        if end - begin == 1 or end == old:
            return [self._root(begin, end)] if old and begin else []
        middle = begin + _split(end - begin)
        if index < middle:
            return [*self._proof(index, begin, middle, old), self._root(middle, end)]
        return [*self._proof(index, middle, end, old), self._root(begin, middle)]

    def _root(self, begin: int, end: int) -> Digest:
        """Return the root over leaves that begin at a multiple of the largest power of two among their number."""
        count = end - begin
        if count == 0:
            return EMPTY
        if count & (count - 1) == 0:
            height = count.bit_length() - 1
            at = (begin >> height) * DIGEST
            return self._levels[height][at : at + DIGEST]
        middle = begin + _split(count)
        return _node(self._root(begin, middle), self._root(middle, end))


def _split(count: int) -> int:
    """Return the largest power of two below a number of leaves."""
    return 1 << ((count - 1).bit_length() - 1)


def included(leaf: Digest, *, index: int, size: int, proof: Sequence[Digest], root: Digest) -> bool:
    """Return whether a path shows that a leaf is among those of a root, by RFC 9162, section 2.1.3.2."""
    if not 0 <= index < size:
        return False
    climbed = _climb(index, size - 1, leaf, proof)
    return climbed is not None and climbed[1] == root


def consistent(*, old: int, old_root: Digest, size: int, root: Digest, proof: Sequence[Digest]) -> bool:
    """Return whether a proof shows that a tree continues an earlier one, by RFC 9162, section 2.1.4.2.

    From an empty tree, or to the same one, the proof has no hashes.
    """
    if not 0 <= old <= size:
        return False
    if old == size:
        return not proof and root == old_root and (size > 0 or root == EMPTY)
    if old == 0:
        return not proof
    # Where the old tree is complete its root is a node of the new one; the proof leaves it out, since the checker has
    # it.
    path = [old_root, *proof] if old & (old - 1) == 0 else [*proof]
    if not path:
        return False
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    return _climb(place, last, path[0], path[1:]) == (old_root, root)


def _climb(place: int, last: int, start: Digest, path: Sequence[Digest]) -> tuple[Digest, Digest] | None:
    """Return the roots over the leaves up to a node's, and over all; None where the path has another length."""
    first = second = start
    for other in path:
        if last == 0:
            return None
        if place & 1 or place == last:
            first, second = _node(other, first), _node(other, second)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            second = _node(second, other)
        place, last = place >> 1, last >> 1
    return (first, second) if last == 0 else None


PLAIN, TIMED = 0x01, 0x04
NAME = re.compile(r"[^\s+\x00-\x1f\x7f\ud800-\udfff]{1,255}")
DASH = "— "
KEY_ID, TIME, SIGNATURE = 4, 8, 64


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteKey:
    """A public key as notes name it.

    Args:
        name: whose it is: a ledger's origin, or a witness's name.
        kind: what it signs: notes (1), or checkpoints with the time (4).
        public: the key.
    """

    name: str
    kind: int
    public: PublicKey

    def __post_init__(self) -> None:
        if NAME.fullmatch(self.name) is None:
            raise ValueError("a key's name has 1 to 255 characters, no spaces and no +")
        if self.kind not in (PLAIN, TIMED):
            raise ValueError("this is no key for Ed25519 signatures of notes or checkpoints")

    @property
    def key_id(self) -> bytes:
        """The 4 bytes that a signature begins with."""
        return hashlib.sha256(self.name.encode() + b"\n" + self._encoded).digest()[:KEY_ID]

    @property
    def text(self) -> str:
        """The key on one line, as signed-note has it: name, id and key."""
        return f"{self.name}+{self.key_id.hex()}+{b64encode(self._encoded).decode()}"

    @property
    def _encoded(self) -> bytes:
        return bytes([self.kind]) + self.public.raw

    def sign(self, text: bytes, key: SigningKey, *, seconds: int = 0) -> NoteSignature:
        """Return a note's signature by this key's private one; `seconds` since 1970 where the kind states its time."""
        time = seconds.to_bytes(TIME, "big") if self.kind == TIMED else b""
        signature = key.sign(domain=_domain(time), message=text)
        return NoteSignature(name=self.name, key_id=self.key_id, content=time + signature)


def read_note_key(text: str) -> NoteKey:
    """Read a key's one line back; ValueError where it has another form, or its id isn't that of the key."""
    name, _, rest = text.partition("+")
    shown, _, encoded = rest.partition("+")
    content = _decoded(encoded)
    if len(content) != 1 + DIGEST:
        raise ValueError("this is no Ed25519 key")
    key = NoteKey(name=name, kind=content[0], public=PublicKey(raw=content[1:]))
    if key.key_id.hex() != shown:
        raise ValueError("the key's id is not that of the key")
    return key


def _domain(time: bytes) -> bytes:
    """Return what a time puts before the text that is signed."""
    return b"cosignature/v1\ntime %d\n" % int.from_bytes(time, "big") if time else b""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteSignature:
    """One signature of a note, by name and id of its key; whether it holds isn't said here."""

    name: str
    key_id: bytes
    content: bytes  # the signature, after its time where it has one

    @property
    def line(self) -> str:
        """The signature's line, with its line feed."""
        return f"{DASH}{self.name} {b64encode(self.key_id + self.content).decode()}\n"


def read_signatures(lines: str) -> tuple[NoteSignature, ...]:
    """Read lines of signatures; ValueError where one has another form."""
    found = []
    for line in lines.removesuffix("\n").split("\n"):
        name, _, encoded = line.removeprefix(DASH).partition(" ")
        content = _decoded(encoded)
        if not line.startswith(DASH) or NAME.fullmatch(name) is None or len(content) <= KEY_ID:
            raise ValueError("a line of signatures has another form")
        found.append(NoteSignature(name=name, key_id=content[:KEY_ID], content=content[KEY_ID:]))
    return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A log's head at some size, as its text states it, and the signatures below it.

    Args:
        text: what is signed, with its last line feed.
        origin: which log.
        size: how many leaves.
        root: the root over them.
        signatures: in the order of their lines; none of them is checked yet.
    """

    text: bytes
    origin: str
    size: int
    root: Digest
    signatures: tuple[NoteSignature, ...]

    @property
    def written(self) -> bytes:
        """The checkpoint's own bytes: each part has one form, so that those are the ones that were read."""
        return note(self.text, self.signatures)

    def signed_by(self, key: NoteKey) -> NoteSignature | None:
        """Return a key's latest signature, None without any; ValueError where one that names this key doesn't hold."""
        found = [one for one in self.signatures if (one.name, one.key_id) == (key.name, key.key_id)]
        for one in found:
            time = one.content[:TIME] if key.kind == TIMED else b""
            signature = one.content[len(time) :]
            # A time above 2**63 would be negative to some readers of the format.
            if len(signature) != SIGNATURE or (time and time[0] & 0x80):
                raise ValueError(f"the signature of {key.name} has another form")
            if not key.public.verifies(domain=_domain(time), message=self.text, signature=signature):
                raise ValueError(f"the signature of {key.name} doesn't hold")
        return max(found, key=time_of, default=None)


def time_of(signature: NoteSignature) -> int:
    """Return the time that a signature with time states, in seconds since 1970."""
    return int.from_bytes(signature.content[:TIME], "big")


def origin_of(ledger_id: str) -> str:
    """Return the first line of a ledger's checkpoints, which no other ledger's have."""
    return f"crowdblend/ledger/{ledger_id}"


def checkpoint_text(*, origin: str, size: int, root: Digest) -> bytes:
    """Return what is signed of a checkpoint."""
    return f"{origin}\n{size}\n{b64encode(root).decode()}\n".encode()


def note(text: bytes, signatures: Iterable[NoteSignature]) -> bytes:
    """Return a text with its signatures, as it is written to a file or sent."""
    return text + b"\n" + "".join(one.line for one in signatures).encode()


LONGEST_NOTE = 1 << 16  # bytes: a checkpoint with 16 signatures of the longest sort
SIZE = re.compile("0|[1-9][0-9]{0,18}")


def read_checkpoint(content: bytes) -> Checkpoint:
    """Read a signed checkpoint, ValueError where it has another form; whose signatures hold isn't asked here."""
    if len(content) > LONGEST_NOTE:
        raise ValueError("the checkpoint is too long")
    whole = _lines(content)
    text, _, below = whole.rpartition("\n\n")
    lines = text.split("\n")
    if len(lines) < 3 or not all(lines) or not below:
        raise ValueError("this is no signed checkpoint")
    size, root, signatures = _number(lines[1]), _digest(lines[2]), read_signatures(below)
    return Checkpoint(text=f"{text}\n".encode(), origin=lines[0], size=size, root=root, signatures=signatures)


def _lines(content: bytes) -> str:
    """Return the text of whole lines; ValueError where it isn't UTF-8, has other control characters, or breaks off."""
    text = content.decode("utf-8")
    if not text.endswith("\n") or any(ord(one) < 0x20 and one != "\n" for one in text):
        raise ValueError("this is no text of whole lines")
    return text


def _number(text: str) -> int:
    if SIZE.fullmatch(text) is None:
        raise ValueError("a size is a whole number without leading zeros")
    return int(text)


def _decoded(text: str) -> bytes:
    """Return bytes from the one form of base64 that they have."""
    content = b64decode(text, validate=True)
    # Some decoders accept unused bits that aren't zero; then one signature would have several texts.
    if b64encode(content).decode() != text:
        raise ValueError("a text has another form of base64")
    return content


def _digest(text: str) -> Digest:
    content = _decoded(text)
    if len(content) != DIGEST:
        raise ValueError("a hash has 32 bytes")
    return content


MOST_HASHES = 63
LONGEST_REQUEST = LONGEST_NOTE + 64 * 64


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointRequest:
    """What a witness is asked to cosign; also what an auditor with an old head is given.

    Args:
        old: leaves of the earlier tree.
        proof: that the checkpoint continues it.
        checkpoint: the later head.
    """

    old: int
    proof: tuple[Digest, ...]
    checkpoint: Checkpoint

    @property
    def written(self) -> bytes:
        """The body of a request to add a checkpoint."""
        return _with_proof(f"old {self.old}", self.proof, self.checkpoint)


def read_request(body: bytes) -> CheckpointRequest:
    """Read the body of a request to add a checkpoint; ValueError where it has another form."""
    (first,), proof, checkpoint = _proof_parts(body, 1)
    if not first.startswith("old "):
        raise ValueError("the first line states no old size")
    return CheckpointRequest(old=_number(first.removeprefix("old ")), proof=proof, checkpoint=checkpoint)


PROOF = "c2sp.org/tlog-proof@v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class InclusionProof:
    """That an entry is in a ledger of which a checkpoint is had."""

    previous: Digest  # of the entry before it
    body: bytes  # the entry
    index: int
    proof: tuple[Digest, ...]
    checkpoint: Checkpoint

    @property
    def written(self) -> bytes:
        """The proof as a file."""
        extra = b64encode(self.previous + self.body).decode()
        return _with_proof(f"{PROOF}\nextra {extra}\nindex {self.index}", self.proof, self.checkpoint)


def read_inclusion_proof(content: bytes) -> InclusionProof:
    """Read a proof of one entry; ValueError where it has another form."""
    (first, extra, index), proof, checkpoint = _proof_parts(content, 3)
    carried = _decoded(extra.removeprefix("extra "))
    if first != PROOF or not extra.startswith("extra ") or not index.startswith("index ") or len(carried) <= DIGEST:
        raise ValueError("this is no proof of an entry")
    place, previous, body = _number(index.removeprefix("index ")), carried[:DIGEST], carried[DIGEST:]
    return InclusionProof(previous=previous, body=body, index=place, proof=proof, checkpoint=checkpoint)


def _with_proof(head: str, proof: Sequence[Digest], checkpoint: Checkpoint) -> bytes:
    lines = (head, *(b64encode(one).decode() for one in proof), "")
    return "".join(f"{line}\n" for line in lines).encode() + checkpoint.written


def _proof_parts(content: bytes, stated: int) -> tuple[list[str], tuple[Digest, ...], Checkpoint]:
    """Return the lines before a proof's hashes, so many as stated, the hashes, and the checkpoint after them."""
    before, found, rest = content.partition(b"\n\n")
    lines = _lines(before + b"\n").split("\n")[:-1]
    if not found or not stated <= len(lines) <= stated + MOST_HASHES:
        raise ValueError("the lines before the checkpoint have another form")
    return lines[:stated], tuple(_digest(line) for line in lines[stated:]), read_checkpoint(rest)


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedWitness:
    """A witness by its name in a policy, and the key of its cosignatures."""

    name: str
    key: NoteKey
    url: str | None  # where it is asked; None where the policy only verifies


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Which witnesses count, and how many of them must have cosigned.

    Args:
        logs: keys that sign checkpoints; where there are none, they are known otherwise.
        witnesses: all, in the order of their lines.
        groups: name → how many of which witnesses and groups.
        quorum: the witness or the group that must have cosigned; "none" where nobody must.
    """

    logs: tuple[NoteKey, ...]
    witnesses: tuple[NamedWitness, ...]
    groups: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    quorum: str

    def met(self, cosigned: Collection[str]) -> bool:
        """Return whether the witnesses of these names are enough."""
        return self.quorum == "none" or self._met(self.quorum, cosigned)

    def _met(self, name: str, cosigned: Collection[str]) -> bool:
        if name not in self.groups:
            return name in cosigned
        needed, members = self.groups[name]
        return sum(self._met(member, cosigned) for member in members) >= needed


def read_policy(content: bytes) -> Policy:
    """Read a policy file; ValueError, with its number, where a line has another form or doesn't fit those before it."""
    policy = Policy(logs=(), witnesses=(), quorum="")
    for number, line in enumerate(content.decode("utf-8").split("\n"), start=1):
        words = [word for word in line.replace("\t", " ").split(" ") if word]
        try:
            if words and not words[0].startswith("#"):
                policy = _with_line(policy, words)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if not policy.quorum:
        raise ValueError("there is no quorum line")
    return policy


def _with_line(policy: Policy, words: list[str]) -> Policy:
    """Return the policy with one more line."""
    witnesses, groups = policy.witnesses, policy.groups
    names = {*groups, *(one.name for one in witnesses)}
    match words:
        case ["log", text, *url] if len(url) <= 1:
            return replace(policy, logs=(*policy.logs, _new_key(text, PLAIN, policy.logs)))
        case ["witness", name, text, *url] if len(url) <= 1:
            key = _new_key(text, TIMED, [one.key for one in witnesses])
            named = NamedWitness(name=_new_name(name, names), key=key, url=url[0] if url else None)
            return replace(policy, witnesses=(*witnesses, named))
        case ["group", name, needed, *members] if members:
            count = {"any": 1, "all": len(members)}.get(needed) or _number(needed)
            if not 1 <= count <= len(members):
                raise ValueError("a group needs from one to all of its members")
            grouped = [member for _, earlier in groups.values() for member in earlier]
            for place, member in enumerate(members):
                if member in [*grouped, *members[:place]]:
                    raise ValueError(f"'{member}' is in a group twice")
                _require_known(member, names)
            return replace(policy, groups={**groups, _new_name(name, names): (count, tuple(members))})
        case ["quorum", name] if not policy.quorum:
            if name != "none":
                _require_known(name, names)
            return replace(policy, quorum=name)
    raise ValueError("this is none of log, witness, group, and one quorum")


def _new_key(text: str, kind: int, others: Iterable[NoteKey]) -> NoteKey:
    key = read_note_key(text)
    if key.kind != kind:
        raise ValueError("this key is of the other sort: a log signs, a witness cosigns")
    if key.public in {other.public for other in others}:
        raise ValueError("this public key stands there twice")
    return key


def _new_name(name: str, names: Collection[str]) -> str:
    if name == "none" or name in names:
        raise ValueError(f"the name '{name}' is taken")
    return name


def _require_known(name: str, names: Collection[str]) -> None:
    if name not in names:
        raise ValueError(f"no line before it defines '{name}'")
