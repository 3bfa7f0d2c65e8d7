"""What the ledger records: a closed union of entries of versioned kinds, never reinterpreted.

Entries of the auditors' tokens: who may look at the dashboard, until when.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import ClassVar

from .releases import (
    ReleaseAbandoned,
    ReleaseCharged,
    ReleaseChargedTwoSamples,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesRegistered,
)
from .values import require_amount, require_digest, require_name, require_text, require_token_id

__all__ = ["BudgetRaised", "DataAccess", "DatasetAdded", "Entry", "LedgerCreated", "TokenAdded", "TokenRevoked"]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerCreated:
    """The first entry of every ledger.

    Args:
        ledger_id: 64 random hexadecimal digits.
    """

    KIND: ClassVar[str] = "ledger-created/1"
    ledger_id: str

    def __post_init__(self) -> None:
        require_digest(self.ledger_id, "ledger's id")


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetAdded:
    """A population over time gets a budget; a later delivery of its records refreshes nothing.

    Args:
        dataset: its name, unique in the ledger.
        epsilon: budget of ε, more than 0.
        delta: budget of δ, below 1.
        relation: the one neighbouring relation that its prices must hold for.
        survey_rate: rate of the data set's own sampling where that is part of the price, else None; such a
            data set can be released once.
        rows_per_person: the most records that one person has in a delivery.
        by: who added it.
        day: when.
    """

    KIND: ClassVar[str] = "dataset-added/1"
    dataset: str
    epsilon: Decimal
    delta: Decimal
    relation: str
    survey_rate: Decimal | None
    rows_per_person: int
    by: str
    day: date

    def __post_init__(self) -> None:
        require_name(self.dataset, "data set's name")
        _require_budget(self.epsilon, self.delta)
        require_name(self.relation, "neighbouring relation")
        require_name(self.by, "name of who does this")
        if self.epsilon == 0:
            raise ValueError("a budget's ε must be more than 0")
        if self.survey_rate is not None:
            require_amount(self.survey_rate, "survey rate")
            if not 0 < self.survey_rate < 1:
                raise ValueError(f"the survey rate must lie strictly between 0 and 1, not {self.survey_rate}")
        if self.rows_per_person < 1:
            raise ValueError(f"a person has at least one record, not {self.rows_per_person}")


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetRaised:
    """A data set's budget becomes larger.

    Args:
        dataset: its name.
        epsilon: the new budget of ε, not the difference.
        delta: the new budget of δ.
        reason: why, in one line.
        by: who raised it.
        day: when.
    """

    KIND: ClassVar[str] = "budget-raised/1"
    dataset: str
    epsilon: Decimal
    delta: Decimal
    reason: str
    by: str
    day: date

    def __post_init__(self) -> None:
        require_name(self.dataset, "data set's name")
        _require_budget(self.epsilon, self.delta)
        require_text(self.reason, "reason")
        require_name(self.by, "name of who does this")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataAccess:
    """Somebody looked at a data set's records outside any release, such as by a report of what a release would lose.

    What is chosen after such a look depends on the records in a way that no price covers, so the certificates of
    later releases say that there was one.

    Args:
        dataset: its name.
        what: what was looked at, in one line; never a value of the records.
        by: who looked.
        day: when.
    """

    KIND: ClassVar[str] = "private-look/1"
    dataset: str
    what: str
    by: str
    day: date

    def __post_init__(self) -> None:
        require_name(self.dataset, "data set's name")
        require_text(self.what, "description of what was looked at")
        require_name(self.by, "name of who does this")


def _require_budget(epsilon: Decimal, delta: Decimal) -> None:
    """Check the form of a budget.

    Raises:
        ValueError: δ is not below 1, or either can't be summed exactly.
    """
    require_amount(epsilon, "ε")
    require_amount(delta, "δ")
    if delta >= 1:
        raise ValueError(f"a budget's δ must be below 1, not {delta}")


Entry = (
    LedgerCreated
    | DatasetAdded
    | BudgetRaised
    | DataAccess
    | SeriesRegistered
    | ReleaseCharged
    | ReleaseChargedTwoSamples
    | ReleaseReading
    | ReleasePublished
    | ReleaseAbandoned
    | ReleaseRefused
    | TokenAdded
    | TokenRevoked
)
