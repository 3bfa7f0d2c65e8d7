"""What the ledger records: a closed union of entries of versioned kinds, never reinterpreted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import ClassVar

from .budget import require_amount
from .identifiers import require_digest, require_name, require_text
from .release_entries import (
    ReleaseAbandoned,
    ReleaseCharged,
    ReleaseChargedTwoSamples,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesRegistered,
)
from .token_entries import TokenAdded, TokenRevoked

__all__ = ["BudgetRaised", "DatasetAdded", "Entry", "LedgerCreated", "PrivateLook"]


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
class PrivateLook:
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
    | PrivateLook
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
