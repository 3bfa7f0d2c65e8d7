"""The auditors' tokens: made, recognised, and looked up in the ledger."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import assert_never

from sqlalchemy import Connection, select

from .chain.signed_state import ForgedState, SignedState, rows_in
from .database.schema import entry
from .entries.kinds import TokenAdded, TokenRevoked
from .queries import entries_of, recorded

__all__ = [
    "TokenState",
    "recognised",
    "secret_digest",
    "token_text",
    "tokens_of",
    "vouched_tokens",
]

DOMAIN = b"crowdblend token 1\n"
TOKEN = re.compile(r"cb-([0-9a-f]{16})-([0-9a-f]{64})")
NOBODY = "0" * 64


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenState:
    """A token as the ledger knows it.

    Args:
        added: its entry.
        position: place of that entry in the chain.
        revoked: the day of its revocation, None where there was none.
    """

    added: TokenAdded
    position: int
    revoked: date | None

    def opens(self, today: date) -> bool:
        """Whether it lets somebody in on a day."""
        return self.revoked is None and today < self.added.expires


def token_states(entries: Iterable[tuple[int, TokenAdded | TokenRevoked]]) -> tuple[TokenState, ...]:
    """The tokens that follow from their entries, in the order of their addition.

    INVARIANT: a revocation counts wherever it stands, so that no order of entries lets a revoked token in.
    """
    added: dict[str, tuple[int, TokenAdded]] = {}
    revoked: dict[str, date] = {}
    for position, found in entries:
        match found:
            case TokenAdded():
                added.setdefault(found.token_id, (position, found))
            case TokenRevoked():
                revoked.setdefault(found.token_id, found.day)
            case _:
                assert_never(found)
    return tuple(
        TokenState(added=found, position=position, revoked=revoked.get(token_id))
        for token_id, (position, found) in added.items()
    )


def tokens_of(connection: Connection) -> tuple[TokenState, ...]:
    """All tokens of a ledger, in the order of their addition.

    Raises:
        ForgedState: they are not those of the signed chain.
        ReleaseFailed: an entry is damaged.
    """
    return token_states(entries_of(connection, TokenAdded, TokenRevoked))


def vouched_tokens(connection: Connection) -> tuple[TokenState, ...]:
    """The tokens whose entries the signed state has, in the order of their addition; others beside them count nothing.

    Raises:
        ForgedState: one of them, or a revocation, was changed or removed.
        ReleaseFailed: an entry is damaged.
    """
    kinds: dict[str, type[TokenAdded | TokenRevoked]] = {kind.KIND: kind for kind in (TokenAdded, TokenRevoked)}
    rows = rows_in(connection, select(entry).where(entry.c.kind.in_(kinds)).order_by(entry.c.position))
    state = SignedState(connection)
    sound = [row for row, follows in zip(rows, state.follow(entry, rows), strict=True) if follows]
    if len(sound) != sum(state.count("entries", kind) for kind in kinds):
        raise ForgedState("tokens or their revocations were changed or removed")
    return token_states((row["position"], recorded(row["body"], kinds[row["kind"]])) for row in sound)


def recognised(text: str, *, tokens: Iterable[TokenState], today: date) -> bool:
    """Whether a presented text is a token that opens the pages today.

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
    """A token as it is given to whom it is for."""
    return f"cb-{token_id}-{secret.hex()}"


def secret_digest(token_id: str, secret: bytes) -> str:
    """SHA-256 (hex) that commits to a token's secret and its id."""
    return hashlib.sha256(DOMAIN + token_id.encode("ascii") + secret).hexdigest()
