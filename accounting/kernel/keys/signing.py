"""Ed25519 keys that sign certificates and heads of the chain, and how their signatures are checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ....mechanisms.kernel.errors import InputRefused
from .private_files import require_usable

ALGORITHM = "Ed25519"
SEED_BYTES = PUBLIC_BYTES = 32
WHAT = "the signing keys"
FIELD = 2**255 - 19
ORDER_EIGHT = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER = frozenset({0, 1, FIELD - 1, ORDER_EIGHT, FIELD - ORDER_EIGHT})
"""The second coordinates of the points of order 1, 2, 4 and 8: a signature of theirs holds over many messages."""


def canonical_bytes(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a JSON object that are signed: ASCII, sorted names, no spaces, finite numbers alone."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicKey:
    """A public key of Ed25519 (RFC 8032).

    Args:
        raw: its 32 bytes.
    """

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != PUBLIC_BYTES:
            raise ValueError(f"a public key has {PUBLIC_BYTES} bytes, not {len(self.raw)}")
        y = int.from_bytes(self.raw, "little") % (1 << 255)  # without the sign of x
        if y >= FIELD or y in SMALL_ORDER:
            raise ValueError("this is no public key that somebody can have made: anybody could sign for it")

    @property
    def key_id(self) -> str:
        """The first 16 hexadecimal digits of the key's SHA-256."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def verifies(self, *, domain: bytes, message: bytes, signature: bytes) -> bool:
        """Return whether the signature is this key's over the message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, domain + message)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """A private key, in memory.

    PRIVACY: whoever holds one uses it and lets it go; it is never put into a message, a graph or another file.

    Args:
        seed: its 32 bytes.
    """

    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.seed) != SEED_BYTES:
            raise ValueError(f"a signing key has {SEED_BYTES} bytes, not {len(self.seed)}")

    @property
    def public(self) -> PublicKey:
        """The public key that checks what this one signs."""
        return PublicKey(raw=Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw())

    def sign(self, *, domain: bytes, message: bytes) -> bytes:
        """Return the signature, 64 bytes; the same message always has the same (RFC 8032, section 5.1.6).

        The domain says what kind of message this is and ends in a newline, so that no signature serves two purposes.
        """
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(domain + message)


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """Fields that somebody claims to have signed; neither the signature nor whose key it is has been checked.

    Args:
        fields: what is stated, with the key's id and the public key in hexadecimal digits.
        key: the public key that it names.
        signature: over them, 64 bytes where it holds.
    """

    fields: Mapping[str, Any]
    key: PublicKey
    signature: bytes

    def holds(self, *, domain: bytes) -> bool:
        """Return whether the signature is the key's over these fields."""
        return self.key.verifies(domain=domain, message=canonical_bytes(self.fields), signature=self.signature)


def signed_statement(fields: Mapping[str, Any], key: SigningKey, *, domain: bytes) -> bytes:
    """Return a line, without its end, of fields with the key that signs them and its signature."""
    public = key.public
    stated = {**fields, "key_id": public.key_id, "public_key": public.raw.hex()}
    signature = key.sign(domain=domain, message=canonical_bytes(stated))
    return canonical_bytes({**stated, "signature": signature.hex()})


def read_statement(content: bytes) -> Statement:
    """Read the line that `signed_statement` wrote, without checking its signature.

    INVARIANT: only the one form is accepted, so that no byte of it can change unseen; another raises `ValueError`.
    """
    try:
        fields = json.loads(content)
    except RecursionError:
        raise ValueError("a line has no deep nesting") from None
    # A reader that accepted other spaces or another order would accept several byte strings under one signature.
    if not isinstance(fields, dict) or canonical_bytes(fields) != content:
        raise ValueError("the line has another form than a signed one")
    texts = fields.get("public_key"), fields.get("key_id"), fields.pop("signature", None)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a field of the line holds something else than text")
    key, signature = PublicKey(raw=bytes.fromhex(str(texts[0]))), bytes.fromhex(str(texts[2]))
    if (key.raw.hex(), key.key_id, signature.hex()) != texts:
        raise ValueError("the key, its id or the signature has another form than what was signed")
    return Statement(fields=fields, key=key, signature=signature)


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKeys:
    """The signing keys of a private store: one that signs, and the public ones of all that ever did.

    Looking makes nothing: the folder comes into being with the first key. Keys, folders and stores that can't be used
    are refused with `InputRefused`.

    Args:
        home: the private store's folder.
    """

    home: Path

    def current(self) -> SigningKey:
        """Return the key that signs now; it is refused where others than its owner can read it."""
        path = self.key_file
        with require_usable(path, WHAT):
            try:
                seed, mode = path.read_bytes(), path.stat().st_mode
            except FileNotFoundError:
                remedy = "Name the store that has it in CROWDBLEND_HOME, or make one with `crowdblend key rotate`."
                what = "this private store has no signing key."
                raise InputRefused(what, where=str(self.home), remedy=remedy) from None
        if mode & 0o077:
            fault, remedy = "can be read by others than its owner", f"Close it with: chmod 600 '{path}', and replace"
        elif len(seed) != SEED_BYTES:
            fault, remedy = "is damaged", "Restore it, or replace"
        else:
            return SigningKey(seed=seed)
        remedy = f"{remedy} it with `crowdblend key rotate`."
        raise InputRefused(f"the signing key {fault}.", where=str(path), remedy=remedy)

    def public_keys(self) -> tuple[PublicKey, ...]:
        """Return all public keys, the one that signs now first, the others by id; none where there is no key."""
        try:
            with require_usable(self.home, WHAT):
                current = self.read()
                listed = {_listed(path) for path in self.public_folder.glob("*.pub") if path.is_file()}
        except ValueError:
            raise InputRefused("a listed public key is damaged.", where=str(self.public_folder)) from None
        first = () if current is None else (current.public,)
        return (*first, *sorted(listed.difference(first), key=lambda key: key.key_id))

    def read(self) -> SigningKey | None:
        """Return the key that signs now, None where there is none or it is damaged."""
        try:
            return SigningKey(seed=self.key_file.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def key_file(self) -> Path:
        """The file of the key that signs now."""
        return self.home / "signing" / "current.key"

    @property
    def public_folder(self) -> Path:
        """The folder of the public keys, each in a file that its id names."""
        return self.home / "signing" / "public"


def _listed(path: Path) -> PublicKey:
    """Read a public key of a private store; a file whose name isn't its key's id raises `ValueError`."""
    public = PublicKey(raw=path.read_bytes())
    if path.stem != public.key_id:
        raise ValueError("the file is named by another key")
    return public
