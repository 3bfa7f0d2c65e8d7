"""The auditors' tokens: made, and recognised."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import date

from ..kernel.ledger.ledger_state import Token

DOMAIN = b"crowdblend token 1\n"
TOKEN = re.compile(r"cb-([0-9a-f]{16})-([0-9a-f]{64})")
NOBODY = "0" * 64


def recognised(text: str, *, tokens: Iterable[Token], today: date) -> bool:
    """Return whether a presented text is a token that opens the pages today.

    The secret is compared in constant time; an unknown id takes as long as a wrong secret.
    """
    parts = TOKEN.fullmatch(text)
    if parts is None:
        return False
    token_id, secret = parts[1], bytes.fromhex(parts[2])
    state = next((token for token in tokens if token.added.token_id == token_id), None)
    expected = NOBODY if state is None else state.added.secret_digest
    same = hmac.compare_digest(secret_digest(token_id, secret), expected)
    return same and state is not None and state.opens(today)


def token_text(token_id: str, secret: bytes) -> str:
    """Return a token as it is given to whom it is for."""
    return f"cb-{token_id}-{secret.hex()}"


def secret_digest(token_id: str, secret: bytes) -> str:
    """Return the SHA-256 (hex) that commits to a token's secret and its id."""
    return hashlib.sha256(DOMAIN + token_id.encode("ascii") + secret).hexdigest()
