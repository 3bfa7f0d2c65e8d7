"""The forms of the fields that are written down: amounts, names, ids and digests, each with its one check."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

PLAIN = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
PLACES = 100
LARGEST = Decimal(10) ** 9
# Prices are computed in binary floating point and rounded up to 12 digits: another processor or library may
# differ in the last ones. What could be gained within this tolerance is a billionth of a price.
TOLERANCE = Decimal("1e-9")


def amount_text(amount: Decimal) -> str:
    """Return the one text of an amount: plain decimal notation, no exponent, no trailing zero."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount_of_text(text: str) -> Decimal:
    """Read back what `amount_text` wrote; ValueError for any other text."""
    if not PLAIN.fullmatch(text):
        raise ValueError(f"an amount must be in plain decimal notation, not {text[:40]!r}")
    amount = Decimal(text)
    require_amount(amount, "an amount")
    return amount


def differ(recorded: Decimal | None, expected: Decimal | None) -> bool:
    """Tell whether a recorded amount is another one than was computed, or the one is there and the other isn't."""
    if recorded is None or expected is None:
        return recorded is not expected
    return abs(recorded - expected) > TOLERANCE * max(recorded, expected)


def require_amount(amount: Decimal, what: str) -> None:
    """Refuse (ValueError) an amount that can't be stored and summed without rounding, or is negative or infinite."""
    if not amount.is_finite() or amount.is_signed() or amount > LARGEST:
        raise ValueError(f"{what} must be a number from 0 to 10^9, not {amount}")
    exponent = amount.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -PLACES:
        raise ValueError(f"{what} can have at most {PLACES} decimal places")


Check = Callable[[Any, str], None]


def _form(holds: Callable[[Any], object], says: str) -> Check:
    """Return a check that refuses (ValueError) a value for which something doesn't hold, and says so by its name."""

    def require(value: Any, what: str) -> None:  # noqa: ANN401 - of the type of its field
        if isinstance(value, Decimal):
            require_amount(value, what)
        if not holds(value):
            raise ValueError(says.format(what=what, value=value))

    return require


require_digest = _form(re.compile(r"[0-9a-f]{64}").fullmatch, "the {what} must be 64 lower-case hexadecimal digits")
require_name = _form(
    lambda name: 1 <= len(name) <= 200 and name.isprintable() and name == name.strip(),
    "the {what} must be 1 to 200 printable characters without spaces at its ends",
)
# A release id is the name of a private folder, so it holds neither a separator nor a leading dot.
require_release_id = _form(
    re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}").fullmatch,
    "a {what} is 1 to 128 ASCII letters, digits or ._:+@- and starts with a letter or digit",
)
_require_text = _form(
    lambda text: len(text) <= 2000 and text.isprintable() and text.strip(),
    "the {what} must be 1 to 2000 printable characters on one line",
)
_require_series_name = _form(
    re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}").fullmatch,
    "a series' name is 1 to 100 letters, digits, dots, dashes and underscores",
)
_require_token_id = _form(re.compile(r"[0-9a-f]{16}").fullmatch, "a {what} must be 16 lower-case hexadecimal digits")

Name = Annotated[str, require_name]
Text = Annotated[str, _require_text]
Digest = Annotated[str, require_digest]
ReleaseId = Annotated[str, require_release_id]
SeriesName = Annotated[str, _require_series_name]
TokenId = Annotated[str, _require_token_id]
Amount = Annotated[Decimal, require_amount]
PositiveAmount = Annotated[Decimal, _form(lambda amount: amount > 0, "the {what} must be more than 0")]
BudgetDelta = Annotated[Decimal, _form(lambda delta: delta < 1, "a budget's δ must be below 1, not {value}")]
Order = Annotated[Decimal, _form(lambda order: order > 1, "an {what} must be above 1, not {value}")]
Rate = Annotated[Decimal, _form(lambda rate: 0 < rate < 1, "the {what} must lie strictly between 0 and 1, not {value}")]
Count = Annotated[int, _form(lambda number: number >= 1, "the {what} must be at least 1, not {value}")]
Fields = tuple[tuple[str, str | int], ...]
OutputHashes = tuple[tuple[str, str], ...]
