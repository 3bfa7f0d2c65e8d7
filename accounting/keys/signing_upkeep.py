"""How signing keys are made and replaced, and how public keys go to other programs and come from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ..given_files import read_given
from ..kernel.keys.private_files import create_private, private_folder, replace_secret, require_usable
from ..kernel.keys.signing import SEED_BYTES, WHAT, PublicKey, SigningKey, SigningKeys
from .store_upkeep import open_private_store

NOT_DONE = "Nothing was read or charged."
"""What is said where a key that signs nothing yet may be written."""
LARGEST_PEM = 1 << 20  # bytes
PEM_BLOCK = re.compile(rb"-----BEGIN PUBLIC KEY-----\n.*?-----END PUBLIC KEY-----\n?", re.DOTALL)


def create_where_none(keys: SigningKeys, randomness: Callable[[int], bytes]) -> PublicKey:
    """Make the first key durable of n ↦ n random bytes, or leave the one that is there; return its public key."""
    with require_usable(keys.home, WHAT, not_done=NOT_DONE):
        if not keys.key_file.exists():
            drawn = SigningKey(seed=randomness(SEED_BYTES))
            open_private_store(keys.home)
            private_folder(keys.key_file.parent)
            with suppress(FileExistsError):  # another process made one at the same moment: it counts
                create_private(keys.key_file, drawn.seed)
        public = keys.current().public
        private_folder(keys.public_folder)
        _list(keys, public)
    return public


def rotate_key(keys: SigningKeys, randomness: Callable[[int], bytes]) -> PublicKey:
    """Let a fresh key of n ↦ n random bytes sign from now on; return its public key.

    The public keys of earlier ones stay listed, so that what they signed can be checked; the private ones are gone.
    """
    drawn = SigningKey(seed=randomness(SEED_BYTES))
    open_private_store(keys.home)
    with require_usable(keys.home, WHAT, not_done=NOT_DONE):
        private_folder(keys.public_folder)
        # INVARIANT: a public key is listed before its private key signs, and the last one before it is replaced.
        for key in filter(None, (keys.read(), drawn)):
            _list(keys, key.public)
    try:
        replace_secret(keys.key_file, drawn.seed)
    except OSError as error:
        raise ReleaseFailed(
            f"the signing key may be replaced, and the earlier one may not be overwritten ({error.strerror}).",
            where=str(keys.key_file),
            not_done="",
            remedy="See which key signs with `crowdblend key show`.",
        ) from None
    return drawn.public


def _list(keys: SigningKeys, public: PublicKey) -> None:
    path = keys.public_folder / f"{public.key_id}.pub"
    if not path.exists():
        with suppress(FileExistsError):
            create_private(path, public.raw)


def pem_of(key: PublicKey) -> bytes:
    """Return a public key in PEM, as other programs read it."""
    public = Ed25519PublicKey.from_public_bytes(key.raw)
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


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
