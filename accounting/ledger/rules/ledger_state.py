"""What is asked of the entries before the next one: by the rules, and by what follows from an entry."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from ..entries.kinds import DatasetAdded, ReleaseCharged, SeriesRegistered
from ..entries.values import Account, amount_of_text

__all__ = ["AccountAt", "LedgerState", "account_of_row"]


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


class LedgerState(Protocol):
    """A ledger up to some entry, from its tables (`StoredState`) or from its entries alone (`Replay`).

    INVARIANT: both answer alike for the same entries, so a rule that is asked of both is one rule.
    """

    @property
    def position(self) -> int:
        """Place of the next entry, from 0."""

    def dataset(self, name: str) -> DatasetAdded | None:
        """A data set's registration, None where there is none of this name."""

    def account(self, name: str) -> AccountAt | None:
        """A data set's account now, None where there is none of this name."""

    def series(self, name: str) -> SeriesRegistered | None:
        """A series' registration, None where there is none of this name."""

    def holder(self, series: str, number: int) -> str | None:
        """The release that has a place in a series now, None where the place is free."""

    def turn(self, series: str, number: int) -> int:
        """How many releases have taken a place in a series, with those that gave it back."""

    def charge(self, release_id: str) -> ReleaseCharged | None:
        """What was charged for a release, None where nothing was."""

    def outcomes(self, release_id: str) -> Set[str]:
        """What a release has passed of "charged", "reading", "published", "abandoned" and "refunded"."""

    def release_of_sample(self, sample_id: str) -> str | None:
        """The release that a sample serves, None for a sample that serves none."""

    def standing(self, dataset: str, *, exclusive: bool) -> str | None:
        """Some release of a data set whose cost was not given back, None where there is none.

        Args:
            dataset: its name.
            exclusive: whether a release counts only if its price holds for it alone; a data set with one has no other.
        """

    def revoked(self, token_id: str) -> bool | None:
        """Whether a token was revoked, None where it was never added."""
