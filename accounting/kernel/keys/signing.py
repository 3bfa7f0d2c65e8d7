"""Ed25519 keys that sign certificates and heads of the chain, and how their signatures are checked."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from ....mechanisms.kernel.errors import InputRefused, ReleaseFailed
from .private_files import create_private, private_folder, read_given, replace_secret, require_usable
from .private_store import PrivateStore

__all__ = [
    "ALGORITHM",
    "PublicKey",
    "SigningKey",
    "SigningKeys",
    "Statement",
    "canonical_bytes",
    "read_public_keys",
    "read_statement",
    "signed_statement",
]

ALGORITHM = "Ed25519"
SEED_BYTES = PUBLIC_BYTES = 32
WHAT = "the signing keys"
NOT_DONE = "Nothing was read or charged."
"""What is said where a key that signs nothing yet may be written."""
FIELD = 2**255 - 19
ORDER_EIGHT = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER = frozenset({0, 1, FIELD - 1, ORDER_EIGHT, FIELD - ORDER_EIGHT})
"""The second coordinates of the points of order 1, 2, 4 and 8: a signature of theirs holds over many messages."""
LARGEST_PEM = 1 << 20  # bytes
PEM_BLOCK = re.compile(rb"-----BEGIN PUBLIC KEY-----\n.*?-----END PUBLIC KEY-----\n?", re.DOTALL)


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

    @property
    def pem(self) -> bytes:
        """The key in PEM, as other programs read it."""
        public = Ed25519PublicKey.from_public_bytes(self.raw)
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

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
        path = self._key_file
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

    def create_where_none(self, randomness: Callable[[int], bytes]) -> PublicKey:
        """Make the first key durable of n ↦ n random bytes, or leave the one that is there; return its public key."""
        with require_usable(self.home, WHAT, not_done=NOT_DONE):
            if not self._key_file.exists():
                drawn = SigningKey(seed=randomness(SEED_BYTES))
                PrivateStore(self.home)
                private_folder(self._key_file.parent)
                with suppress(FileExistsError):  # another process made one at the same moment: it counts
                    create_private(self._key_file, drawn.seed)
            public = self.current().public
            private_folder(self._public_folder)
            self._list(public)
        return public

    def rotate(self, randomness: Callable[[int], bytes]) -> PublicKey:
        """Let a fresh key of n ↦ n random bytes sign from now on; return its public key.

        The public keys of earlier ones stay listed, so that what they signed can be checked; the private ones are gone.
        """
        drawn = SigningKey(seed=randomness(SEED_BYTES))
        PrivateStore(self.home)
        with require_usable(self.home, WHAT, not_done=NOT_DONE):
            private_folder(self._public_folder)
            # INVARIANT: a public key is listed before its private key signs, and the last one before it is replaced.
            for key in filter(None, (self._read(), drawn)):
                self._list(key.public)
        try:
            replace_secret(self._key_file, drawn.seed)
        except OSError as error:
            raise ReleaseFailed(
                f"the signing key may be replaced, and the earlier one may not be overwritten ({error.strerror}).",
                where=str(self._key_file),
                not_done="",
                remedy="See which key signs with `crowdblend key show`.",
            ) from None
        return drawn.public

    def public_keys(self) -> tuple[PublicKey, ...]:
        """Return all public keys, the one that signs now first, the others by id; none where there is no key."""
        try:
            with require_usable(self.home, WHAT):
                current = self._read()
                listed = {_listed(path) for path in self._public_folder.glob("*.pub") if path.is_file()}
        except ValueError:
            raise InputRefused("a listed public key is damaged.", where=str(self._public_folder)) from None
        first = () if current is None else (current.public,)
        return (*first, *sorted(listed.difference(first), key=lambda key: key.key_id))

    def _read(self) -> SigningKey | None:
        """Return the key that signs now, None where there is none or it is damaged."""
        try:
            return SigningKey(seed=self._key_file.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def _list(self, public: PublicKey) -> None:
        path = self._public_folder / f"{public.key_id}.pub"
        if not path.exists():
            with suppress(FileExistsError):
                create_private(path, public.raw)

    @property
    def _key_file(self) -> Path:
        return self.home / "signing" / "current.key"

    @property
    def _public_folder(self) -> Path:
        return self.home / "signing" / "public"


def read_public_keys(path: Path) -> tuple[PublicKey, ...]:
    """Read the public keys of a PEM file, one or more; a file of other keys, or of none, is refused."""
    try:
        blocks = PEM_BLOCK.findall(read_given(path, most=LARGEST_PEM).replace(b"\r\n", b"\n"))
        loaded = [load_pem_public_key(block) for block in blocks]
        keys = tuple(PublicKey(raw=key.public_bytes_raw()) for key in loaded if isinstance(key, Ed25519PublicKey))
    except OSError as error:
        raise InputRefused(f"the public key can't be read ({error.strerror}).", where=str(path)) from None
    except (ValueError, UnsupportedAlgorithm):
        loaded, keys = [], ()
    if not keys or len(keys) != len(loaded):
        remedy = "The publisher writes one with `crowdblend key export FILE`."
        raise InputRefused("this is not a file of Ed25519 public keys in PEM.", where=str(path), remedy=remedy)
    return keys


def _listed(path: Path) -> PublicKey:
    """Read a public key of a private store; a file whose name isn't its key's id raises `ValueError`."""
    public = PublicKey(raw=read_given(path, most=PUBLIC_BYTES))
    if path.stem != public.key_id:
        raise ValueError("the file is named by another key")
    return public
