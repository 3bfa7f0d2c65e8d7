"""The overview: every data set with its budget, the latest releases and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import islice

from ...ledger.entries.values import Account
from ..views.rows import Amount, ReleaseRow, amount, release_rows
from ..views.state import PageHeader, PageRequest
from .samples import RefusalRow, refusal_rows

__all__ = ["BudgetRow", "OverviewPage", "budget_row", "overview_page"]

DATASETS_A_PAGE = 50
LATEST = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetRow:
    """A data set and its budget.

    Args:
        dataset: its name.
        position: where it is registered; its page's permanent address.
        epsilon_spent: sum of the ε charged and not given back.
        epsilon_budget: the most that it may become.
        epsilon_left: the difference, 0 where the budget is passed.
        delta_spent: the same of δ.
        delta_budget: the same of δ.
        delta_left: the same of δ.
        epsilon_share: spent of the budget, 0 to 1 and above where it is passed.
        delta_share: the same of δ.
    """

    dataset: str
    position: int
    epsilon_spent: Amount
    epsilon_budget: Amount
    epsilon_left: Amount
    delta_spent: Amount
    delta_budget: Amount
    delta_left: Amount
    epsilon_share: float
    delta_share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class OverviewPage:
    """The overview.

    Args:
        frame: of the ledger.
        datasets: their budgets, in the order of their registration.
        datasets_in_all: how many there are.
        releases: the latest.
        releases_in_all: how many there are.
        refusals: the latest.
        more: where the next page of data sets begins, None on the last.
    """

    frame: PageHeader
    datasets: tuple[BudgetRow, ...]
    datasets_in_all: int
    releases: tuple[ReleaseRow, ...]
    releases_in_all: int
    refusals: tuple[RefusalRow, ...]
    more: int | None


def overview_page(seen: PageRequest, *, after: int | None) -> OverviewPage:
    """Build the overview of the data sets registered after a place."""
    view = seen.view
    found = view.datasets(after=-1 if after is None else after, limit=DATASETS_A_PAGE + 1)
    latest = islice(seen.around.follower.refusals(up_to=view.head.position), LATEST)
    return OverviewPage(
        frame=seen.frame(),
        datasets=tuple(
            budget_row(name, position, view.last_change(name).account) for name, position in found[:DATASETS_A_PAGE]
        ),
        datasets_in_all=view.count("dataset"),
        releases=release_rows(view, view.releases(name=None, before=None, limit=LATEST)),
        releases_in_all=view.count("release"),
        refusals=refusal_rows(view, [refusal.position for refusal in latest]),
        more=found[DATASETS_A_PAGE - 1][1] if len(found) > DATASETS_A_PAGE else None,
    )


def budget_row(name: str, position: int, account: Account) -> BudgetRow:
    """A data set's budget as a row."""
    return BudgetRow(
        dataset=name,
        position=position,
        epsilon_spent=amount(account.epsilon_spent),
        epsilon_budget=amount(account.epsilon_budget),
        epsilon_left=amount(account.epsilon_left),
        delta_spent=amount(account.delta_spent),
        delta_budget=amount(account.delta_budget),
        delta_left=amount(account.delta_left),
        epsilon_share=_share(account.epsilon_spent, account.epsilon_budget),
        delta_share=_share(account.delta_spent, account.delta_budget),
    )


def _share(spent: Decimal, budget: Decimal) -> float:
    if budget > 0:
        return round(float(spent / budget), 4)
    return 0.0 if spent == 0 else 2.0
