"""Exact amounts of ε and δ, and the form that a field of an entry may have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Rounded
from typing import Any

__all__ = [
    "Account",
    "amount_of_text",
    "amount_text",
    "check_field",
    "differ",
    "require_amount",
    "require_digest",
    "require_name",
    "require_release_id",
    "require_series_name",
]

PLAIN = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
PLACES = 100
LARGEST = Decimal(10) ** 9
PRECISION = 200  # room for a sum of 10^90 amounts: exact, or an exception


def amount_text(amount: Decimal) -> str:
    """The one text of an amount: plain decimal notation, no exponent, no trailing zero."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount_of_text(text: str) -> Decimal:
    """Read back what `amount_text` wrote.

    Raises:
        ValueError: the text is not the one text of an amount.
    """
    if not PLAIN.fullmatch(text):
        raise ValueError(f"an amount must be in plain decimal notation, not {text[:40]!r}")
    amount = Decimal(text)
    require_amount(amount, "an amount")
    return amount


# Prices are computed in binary floating point and rounded up to 12 digits: another processor or library may
# differ in the last ones. What could be gained within this tolerance is a billionth of a price.
TOLERANCE = Decimal("1e-9")


def differ(recorded: Decimal | None, expected: Decimal | None) -> bool:
    """Tell whether a recorded amount is another one than was computed, or the one is there and the other isn't."""
    if recorded is None or expected is None:
        return recorded is not expected
    return abs(recorded - expected) > TOLERANCE * max(recorded, expected)


def _sum(left: Decimal, right: Decimal) -> Decimal:
    """Add exactly; INVARIANT: an inexact sum raises instead of rounding (a bare minus sign would round)."""
    exact = Context(prec=PRECISION, traps=[Inexact, InvalidOperation, Overflow, Rounded])
    return exact.add(left, right)


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """What a data set has spent and may spend: two exact sums, and the most that each may become.

    In an additive data set they are ε and δ: between releases these add up, which is valid though each is chosen after
    seeing the earlier ones (Rogers, Roth, Ullman, Vadhan, arXiv:1605.08294v3, Theorem 3.6 covers basic composition as a
    filter). In a filter data set they are D_α against its allowance, and τ against D_τ (`FilterAccounting`): there
    neither is an ε or a δ of anything, and no page may show it as one.

    Args:
        epsilon_spent: sum of the ε, or of the D_α, charged and not refunded.
        delta_spent: sum of the δ, or of the τ, charged and not refunded.
        epsilon_budget: the most that the first may become.
        delta_budget: the most that the second may become.
    """

    epsilon_spent: Decimal
    delta_spent: Decimal
    epsilon_budget: Decimal
    delta_budget: Decimal

    def charged(self, *, epsilon: Decimal, delta: Decimal) -> Account:
        """The account after a charge, whether or not the budget allows it."""
        spent = _sum(self.epsilon_spent, epsilon), _sum(self.delta_spent, delta)
        return replace(self, epsilon_spent=spent[0], delta_spent=spent[1])

    def refunded(self, *, epsilon: Decimal, delta: Decimal) -> Account:
        """The account after the refund of a charge whose records were never read.

        Raises:
            ValueError: more would be refunded than was spent.
        """
        account = self.charged(epsilon=epsilon.copy_negate(), delta=delta.copy_negate())
        if account.epsilon_spent < 0 or account.delta_spent < 0:
            raise ValueError("more would be refunded than was spent")
        return account

    def raised(self, *, epsilon: Decimal, delta: Decimal) -> Account:
        """The account with a new budget."""
        return replace(self, epsilon_budget=epsilon, delta_budget=delta)

    @property
    def epsilon_left(self) -> Decimal:
        """What is left of ε, exactly; 0 where the budget is passed."""
        return max(Decimal(0), _sum(self.epsilon_budget, self.epsilon_spent.copy_negate()))

    @property
    def delta_left(self) -> Decimal:
        """What is left of δ, exactly; 0 where the budget is passed."""
        return max(Decimal(0), _sum(self.delta_budget, self.delta_spent.copy_negate()))

    @property
    def spent_share(self) -> Decimal:
        """The larger share that is spent, from 0 to 1; above 1 where the budget is passed."""
        sums = ((self.epsilon_spent, self.epsilon_budget), (self.delta_spent, self.delta_budget))
        return max(spent / budget if budget else Decimal(bool(spent)) * 2 for spent, budget in sums)

    @property
    def within_budget(self) -> bool:
        """Tell whether neither sum is past its budget; equal is within."""
        return self.epsilon_spent <= self.epsilon_budget and self.delta_spent <= self.delta_budget


Check = Callable[[Any, str], None]
RELEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}")
SERIES_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
DIGEST = re.compile(r"[0-9a-f]{64}")
TOKEN_ID = re.compile(r"[0-9a-f]{16}")


def require_amount(amount: Decimal, what: str) -> None:
    """Refuse (ValueError) an ε or a δ that can't be stored and summed without rounding, or is negative or infinite."""
    if not amount.is_finite() or amount.is_signed() or amount > LARGEST:
        raise ValueError(f"{what} must be a number from 0 to 10^9, not {amount}")
    exponent = amount.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -PLACES:
        raise ValueError(f"{what} can have at most {PLACES} decimal places")


def _form(holds: Callable[[Any], object], says: str, *, amount: bool = False) -> Check:
    """Return a check that refuses (ValueError) a value for which something doesn't hold, and says so by its name."""

    def require(value: Any, what: str) -> None:  # noqa: ANN401 - of the type of its field
        if amount:
            require_amount(value, what)
        if not holds(value):
            raise ValueError(says.format(what=what, value=value))

    require.__doc__ = f"Refuse (ValueError) a value of another form: {says}."
    return require


require_digest = _form(DIGEST.fullmatch, "the {what} must be 64 lower-case hexadecimal digits")
"""A SHA-256 digest."""
require_name = _form(
    lambda name: 1 <= len(name) <= 200 and name.isprintable() and name == name.strip(),
    "the {what} must be 1 to 200 printable characters without spaces at its ends",
)
"""A name, given by people, that can be shown on one short line."""
require_release_id = _form(
    RELEASE_ID.fullmatch, "a {what} is 1 to 128 ASCII letters, digits or ._:+@- and starts with a letter or digit"
)
"""It is used as the name of a private folder, so it can hold neither a separator nor a leading dot."""
require_series_name = _form(SERIES_NAME.fullmatch, "a {what} is 1 to 100 letters, digits, dots, dashes and underscores")
"""A name that a release id may begin with."""
_require_text = _form(
    lambda text: 1 <= len(text) <= 2000 and text.isprintable() and text.strip(),
    "the {what} must be 1 to 2000 printable characters on one line",
)

_FIELDS: Mapping[Check, str] = {
    require_name: "by cause code_version dataset label relation rule sampler_layout",
    _require_text: "column reason what",
    require_digest: "ledger_id map_digest sample_id secret_digest selection_sample_id spec_digest",
    require_release_id: "release_id",
    _form(TOKEN_ID.fullmatch, "a {what} must be 16 lower-case hexadecimal digits"): "token_id",
    require_amount: "allowance delta divergence epsilon epsilon_paper tail tail_delta tail_each",
    _form(lambda order: order > 1, "an {what} must be above 1, not {value}", amount=True): "order",
    _form(lambda rate: 0 < rate < 1, "the {what} must lie strictly between 0 and 1, not {value}", amount=True): (
        "survey_rate"
    ),
    _form(lambda number: number >= 1, "the {what} must be at least 1, not {value}"): (
        "number releases rows_per_person"
    ),
}
"""Form → names of the fields that have it, in every entry and part of an entry."""
_CHECKS = {name: check for check, names in _FIELDS.items() for name in names.split()}
_WORDS = {
    "by": "name of who does this",
    "column": "unit's column",
    "dataset": "data set's name",
    "delta": "δ",
    "epsilon": "ε",
}
"""What messages call a field, where its name doesn't say it."""


def check_field(name: str, value: object) -> None:
    """Refuse (ValueError) a value of a field of an entry that hasn't the form of all fields of this name.

    None, and fields whose names have no one form, are taken as they are.
    """
    if value is not None and name in _CHECKS:
        _CHECKS[name](value, _WORDS.get(name, name.replace("_", " ")))
