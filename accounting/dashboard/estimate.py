"""The composed estimate of an account, after any of its changes."""

from __future__ import annotations

from decimal import Decimal

from ..ledger.budget import Account, amount_text
from ..ledger.entry import DatasetAdded
from .figures import Amount, amount
from .surroundings import Seen
from .work import Answer

__all__ = ["epsilon_of", "estimate_of"]


def estimate_of(seen: Seen, added: DatasetAdded, position: int, account: Account, *, wait: float) -> Answer:
    """What the desk knows of the estimate by now.

    Args:
        seen: the ledger.
        added: the data set.
        position: the entry after which the account is.
        account: what is spent and what may be.
        wait: seconds to wait for an answer.
    """
    charged = seen.around.follower.payments(added.dataset, up_to=position)
    amounts = {
        part: amount_text(getattr(account, part))
        for part in ("epsilon_spent", "delta_spent", "epsilon_budget", "delta_budget")
    }
    counted = sorted([list(mechanism), times] for mechanism, times in charged.items())
    asked = {"charged": counted, "account": amounts, "rows_per_person": added.rows_per_person}
    return seen.around.desk.ask("estimate", asked, wait=wait)


def epsilon_of(answer: Answer) -> Amount | None:
    """The estimated ε, None where there is none or it is still being computed."""
    if answer.found is None or answer.found["epsilon"] is None:
        return None
    return amount(Decimal(answer.found["epsilon"]))
