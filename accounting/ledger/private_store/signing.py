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
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ....mechanisms.errors import InputRefused
from ..given_files import read_given
from .keys import PrivateStore, create_private, private_folder, replace_secret

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
SEED_BYTES = 32
PUBLIC_BYTES = 32
FIELD = 2**255 - 19
SMALL_ORDER = frozenset(
    {
        *(0, 1, FIELD - 1),
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
    }
)
"""The second coordinates of the points of order 1, 2, 4 and 8: a signature of theirs holds over many messages."""
LARGEST_PEM = 1 << 20  # bytes
PEM_BLOCK = re.compile(rb"-----BEGIN PUBLIC KEY-----\n.*?-----END PUBLIC KEY-----\n?", re.DOTALL)


def canonical_bytes(document: Mapping[str, Any]) -> bytes:
    """The bytes of a JSON object that are signed: ASCII, sorted names, no spaces.

    Raises:
        ValueError: a number that JSON has no form for.
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


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
        return Ed25519PublicKey.from_public_bytes(self.raw).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def verifies(self, *, domain: bytes, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's over the message."""
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
        """The signature, 64 bytes; the same message has the same signature always (RFC 8032, section 5.1.6).

        Args:
            domain: what kind of message this is, ending in a newline, so that no signature serves two purposes.
            message: canonical bytes.
        """
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(domain + message)


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """Fields as somebody states to have signed them; whether the signature holds, and whose key it is, isn't said yet.

    Args:
        fields: what is stated, with the key's id and the public key in hexadecimal digits.
        key: the public key that it names.
        message: the bytes that were signed.
        signature: over them, 64 bytes where it holds.
    """

    fields: Mapping[str, Any]
    key: PublicKey
    message: bytes
    signature: bytes

    def holds(self, *, domain: bytes) -> bool:
        """Whether the signature is the key's over these fields."""
        return self.key.verifies(domain=domain, message=self.message, signature=self.signature)


def signed_statement(fields: Mapping[str, Any], key: SigningKey, *, domain: bytes) -> bytes:
    """A line, without its end, of fields with the key that signs them and its signature."""
    public = key.public
    stated = {**fields, "key_id": public.key_id, "public_key": public.raw.hex()}
    signature = key.sign(domain=domain, message=canonical_bytes(stated))
    return canonical_bytes({**stated, "signature": signature.hex()})


def read_statement(content: bytes) -> Statement:
    """Read the line that `signed_statement` wrote, without checking its signature.

    INVARIANT: only the one form is accepted, so that no byte of it can change unseen.

    Raises:
        ValueError: it has another form.
    """
    try:
        fields = json.loads(content)
    except RecursionError:
        raise ValueError("a line has no deep nesting") from None
    if not isinstance(fields, dict) or canonical_bytes(fields) != content:
        raise ValueError("the line has another form than a signed one")
    shown = fields.pop("signature", None)
    texts = [fields.get("public_key"), fields.get("key_id"), shown]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a field of the line holds something else than text")
    key, signature = PublicKey(raw=bytes.fromhex(str(texts[0]))), bytes.fromhex(str(shown))
    if (key.raw.hex(), signature.hex()) != (texts[0], shown):
        raise ValueError("its hexadecimal digits have another form")
    if texts[1] != key.key_id:
        raise ValueError("the key's id is not that of the key")
    return Statement(fields=fields, key=key, message=canonical_bytes(fields), signature=signature)


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKeys:
    """The signing keys of a private store: one that signs, and the public ones of all that ever did.

    Looking makes nothing: the folder comes into being with the first key.

    Args:
        home: the private store's folder.
    """

    home: Path

    def current(self) -> SigningKey:
        """The key that signs now.

        Raises:
            InputRefused: there is none, or it is damaged, or others than its owner can read it.
        """
        path = self._key_file
        try:
            seed = path.read_bytes()
            open_to_others = path.stat().st_mode & 0o077
        except FileNotFoundError:
            raise InputRefused(
                "this private store has no signing key.",
                where=str(self.home),
                remedy="Name the store that has it in CROWDBLEND_HOME, or make one with `crowdblend key rotate`.",
            ) from None
        except OSError as error:
            raise _unusable(path, error) from None
        if open_to_others:
            raise InputRefused(
                "the signing key can be read by others than its owner.",
                where=str(path),
                remedy=f"Close it with: chmod 600 '{path}', and replace it with `crowdblend key rotate`.",
            )
        if len(seed) != SEED_BYTES:
            raise InputRefused(
                "the signing key is damaged.",
                where=str(path),
                remedy="Restore it, or replace it with `crowdblend key rotate`.",
            )
        return SigningKey(seed=seed)

    def create_where_none(self, randomness: Callable[[int], bytes]) -> PublicKey:
        """Make the first key durable, or leave the one that is there; gives the public key.

        Args:
            randomness: n to n random bytes, from the operating system in production.

        Raises:
            InputRefused: the private store can't be used, or its key is damaged.
        """
        try:
            if not self._key_file.exists():
                drawn = SigningKey(seed=randomness(SEED_BYTES))
                PrivateStore(self.home)
                private_folder(self._key_file.parent)
                with suppress(FileExistsError):  # another process made one at the same moment: it counts
                    create_private(self._key_file, drawn.seed)
            public = self.current().public
            private_folder(self._public_folder)
            self._list(public)
        except OSError as error:
            raise _unusable(self.home, error) from None
        return public

    def rotate(self, randomness: Callable[[int], bytes]) -> PublicKey:
        """Let a fresh key sign from now on; gives its public key.

        The public keys of earlier ones stay listed, so that what they signed can be checked; the private ones are gone.

        Args:
            randomness: n to n random bytes, from the operating system in production.

        Raises:
            InputRefused: the private store can't be used.
        """
        drawn = SigningKey(seed=randomness(SEED_BYTES))
        PrivateStore(self.home)
        try:
            private_folder(self._public_folder)
            earlier = self._seed()
            # INVARIANT: a public key is listed before its private key signs, and the last one before it is replaced.
            for key in (earlier, drawn):
                if key is not None:
                    self._list(key.public)
            replace_secret(self._key_file, drawn.seed)
        except OSError as error:
            raise _unusable(self.home, error) from None
        return drawn.public

    def public_keys(self) -> tuple[PublicKey, ...]:
        """All public keys, the one that signs now first, the others by id; none where there is no key.

        Raises:
            InputRefused: they can't be read.
        """
        try:
            seed = self._seed()
            listed = {_listed(path) for path in self._public_folder.glob("*.pub") if path.is_file()}
        except OSError as error:
            raise _unusable(self.home, error) from None
        except ValueError:
            raise InputRefused("a listed public key is damaged.", where=str(self._public_folder)) from None
        first = () if seed is None else (seed.public,)
        return (*first, *sorted(listed.difference(first), key=lambda key: key.key_id))

    def _seed(self) -> SigningKey | None:
        """The key that signs now, None where there is none or it is damaged."""
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
    """Read the public keys of a PEM file, one or more.

    Raises:
        InputRefused: it can't be read, or holds no public key, or one that is not of Ed25519.
    """
    try:
        blocks = PEM_BLOCK.findall(read_given(path, most=LARGEST_PEM).replace(b"\r\n", b"\n"))
        loaded = [serialization.load_pem_public_key(block) for block in blocks]
    except OSError as error:
        raise InputRefused(f"the public key can't be read ({error.strerror}).", where=str(path)) from None
    except (ValueError, UnsupportedAlgorithm):
        loaded = []
    try:
        keys = tuple(PublicKey(raw=key.public_bytes_raw()) for key in loaded if isinstance(key, Ed25519PublicKey))
    except ValueError:
        keys = ()
    if not keys or len(keys) != len(loaded):
        raise InputRefused(
            "this is not a file of Ed25519 public keys in PEM.",
            where=str(path),
            remedy="The publisher writes one with `crowdblend key export FILE`.",
        )
    return keys


def _listed(path: Path) -> PublicKey:
    """A public key of a private store, whose file has its id as its name.

    Raises:
        OSError: it can't be read.
        ValueError: it is no public key, or another one than its name says.
    """
    public = PublicKey(raw=read_given(path, most=PUBLIC_BYTES))
    if path.stem != public.key_id:
        raise ValueError("the file is named by another key")
    return public


def _unusable(path: Path, error: OSError) -> InputRefused:
    return InputRefused(
        f"the signing keys can't be used ({error.strerror}).",
        where=str(path),
        remedy="Name a folder of your own in CROWDBLEND_HOME.",
    )
