"""Entries of the auditors' tokens: who may look at the dashboard, until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import ClassVar

from .identifiers import require_digest, require_name, require_token_id

__all__ = ["TokenAdded", "TokenRevoked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenAdded:
    """Somebody may look at the auditors' pages until a day.

    PRIVACY: the ledger has the secret's digest alone. The secret is 256 random bits, so it can't be found from it.

    Args:
        token_id: 16 random hexadecimal digits, public.
        name: for whom, as the steward calls them.
        secret_digest: SHA-256 (hex) that commits to the secret and the id.
        expires: the first day on which it no longer opens anything.
        by: who added it.
        day: when.
    """

    KIND: ClassVar[str] = "token-added/1"
    token_id: str
    name: str
    secret_digest: str
    expires: date
    by: str
    day: date

    def __post_init__(self) -> None:
        require_token_id(self.token_id)
        require_name(self.name, "token's name")
        require_digest(self.secret_digest, "secret's digest")
        require_name(self.by, "name of who does this")
        if self.expires <= self.day:
            raise ValueError(f"a token expires after the day on which it is added, not on {self.expires}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRevoked:
    """A token opens nothing any more.

    Args:
        token_id: the token.
        by: who revoked it.
        day: when.
    """

    KIND: ClassVar[str] = "token-revoked/1"
    token_id: str
    by: str
    day: date

    def __post_init__(self) -> None:
        require_token_id(self.token_id)
        require_name(self.by, "name of who does this")
