"""The forms that names, ids, digests and days in the ledger may have."""

from __future__ import annotations

import re

__all__ = [
    "require_digest",
    "require_name",
    "require_release_id",
    "require_series_name",
    "require_text",
    "require_token_id",
]

RELEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}")
SERIES_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
DIGEST = re.compile(r"[0-9a-f]{64}")
TOKEN_ID = re.compile(r"[0-9a-f]{16}")


def require_release_id(release_id: str) -> None:
    """Check a release id: 1 to 128 ASCII letters, digits and ``._:+@-``, the first a letter or digit.

    It is used as the name of a private folder, so it can hold neither a separator nor a leading dot.

    Raises:
        ValueError: it has another form.
    """
    if not RELEASE_ID.fullmatch(release_id):
        raise ValueError("a release id is 1 to 128 ASCII letters, digits or ._:+@- and starts with a letter or digit")


def require_series_name(name: str) -> None:
    """Check a series' name: 1 to 100 ASCII letters, digits, dots, dashes and underscores.

    Release ids are made from it, so it has no character that they can't have.

    Raises:
        ValueError: it has another form.
    """
    if not SERIES_NAME.fullmatch(name):
        raise ValueError("a series' name is 1 to 100 letters, digits, dots, dashes and underscores")


def require_token_id(token_id: str) -> None:
    """Check a token's id: 16 lower-case hexadecimal digits.

    Raises:
        ValueError: it has another form.
    """
    if not TOKEN_ID.fullmatch(token_id):
        raise ValueError("a token's id must be 16 lower-case hexadecimal digits")


def require_digest(digest: str, what: str) -> None:
    """Check a SHA-256 digest in 64 lower-case hexadecimal digits.

    Raises:
        ValueError: it has another form.
    """
    if not DIGEST.fullmatch(digest):
        raise ValueError(f"the {what} must be 64 lower-case hexadecimal digits")


def require_name(name: str, what: str) -> None:
    """Check a name that people give: 1 to 200 printable characters without spaces at its ends.

    Raises:
        ValueError: it has another form.
    """
    if not 1 <= len(name) <= 200 or not name.isprintable() or name != name.strip():
        raise ValueError(f"the {what} must be 1 to 200 printable characters without spaces at its ends")


def require_text(text: str, what: str) -> None:
    """Check a sentence that people give, such as a reason: 1 to 2000 printable characters.

    Raises:
        ValueError: it has another form.
    """
    if not 1 <= len(text) <= 2000 or not text.isprintable() or not text.strip():
        raise ValueError(f"the {what} must be 1 to 2000 printable characters on one line")
