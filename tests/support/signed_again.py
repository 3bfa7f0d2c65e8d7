"""A certificate that was changed, signed by a key of whoever changed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crowdblend.accounting.certificate.write_certificate import DOMAIN, certificate_bytes, signed_bytes
from crowdblend.accounting.kernel.keys.signing import SigningKey


def sign_again(path: Path, certificate: dict[str, Any]) -> None:
    """Write a certificate with another key's sound signature."""
    key = SigningKey(seed=bytes(range(32)))
    certificate["signature"] |= {"key_id": key.public.key_id, "public_key": key.public.raw.hex()}
    certificate["signature"]["value"] = key.sign(domain=DOMAIN, message=signed_bytes(certificate)).hex()
    path.write_bytes(certificate_bytes(certificate))
