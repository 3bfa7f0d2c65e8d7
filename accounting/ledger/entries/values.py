"""Exact amounts of ε and δ, and the forms that names, ids, digests and days may have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Rounded

__all__ = [
    "Account",
    "AccountAt",
    "account_of_row",
    "amount_of_text",
    "amount_text",
    "differ",
    "require_amount",
    "require_digest",
    "require_name",
    "require_release_id",
    "require_series_name",
    "require_text",
    "require_token_id",
]

PLAIN = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
PLACES = 100
LARGEST = Decimal(10) ** 9
PRECISION = 200  # room for a sum of 10^90 amounts: exact, or an exception


def require_amount(amount: Decimal, what: str) -> None:
    """Check that an amount can be stored and summed without rounding.

    Args:
        amount: an ε or a δ; 0 ≤ amount ≤ 10^9, with at most 100 decimal places.
        what: its name, for the message.

    Raises:
        ValueError: it is negative, not finite, too large or has too many places.
    """
    if not amount.is_finite() or amount.is_signed() or amount > LARGEST:
        raise ValueError(f"{what} must be a number from 0 to 10^9, not {amount}")
    exponent = amount.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -PLACES:
        raise ValueError(f"{what} can have at most {PLACES} decimal places")


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
    """Whether a recorded amount is another one than was computed, or the one is there and the other isn't."""
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
        return Account(
            epsilon_spent=_sum(self.epsilon_spent, epsilon),
            delta_spent=_sum(self.delta_spent, delta),
            epsilon_budget=self.epsilon_budget,
            delta_budget=self.delta_budget,
        )

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
        return Account(
            epsilon_spent=self.epsilon_spent,
            delta_spent=self.delta_spent,
            epsilon_budget=epsilon,
            delta_budget=delta,
        )

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
        """Whether neither sum is past its budget; equal is within."""
        return self.epsilon_spent <= self.epsilon_budget and self.delta_spent <= self.delta_budget


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


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountAt:
    """A data set's account after its latest change.

    Args:
        sequence: how many changes came before, from 0.
        account: what is spent and what may be.
    """

    sequence: int
    account: Account


def account_of_row(values: Mapping[str, str | int]) -> AccountAt:
    """Read an account back from its row.

    Raises:
        ValueError: an amount is not in its one form.
    """
    return AccountAt(
        sequence=int(values["sequence"]),
        account=Account(
            epsilon_spent=amount_of_text(str(values["epsilon_spent"])),
            delta_spent=amount_of_text(str(values["delta_spent"])),
            epsilon_budget=amount_of_text(str(values["epsilon_budget"])),
            delta_budget=amount_of_text(str(values["delta_budget"])),
        ),
    )
