"""A rule that an entry breaks, for the writer's refusal and the verification's finding; what a ledger does not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....mechanisms.errors import AccountantRefused, InputRefused, Refusal

__all__ = ["Violation", "unknown_dataset", "unknown_release", "unknown_series", "unknown_token"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """A rule that an entry breaks.

    Args:
        what: what the writer says who refuses it: one sentence, with its numbers.
        where: what it concerns.
        remedy: what the reader can do next, or how to compute that where it takes time.
        cause: short name of the rule, for the record of a refusal; empty where none is recorded.
        fault: what a verification says of a recorded entry; empty for a rule about what no entry has.
        mistake: whether it is the caller's mistake, which isn't recorded, and not a refusal by the accountant.
        lacking: whether it is broken for want of an earlier entry.
    """

    what: str
    where: str
    remedy: str | Callable[[], str]
    cause: str = ""
    fault: str = ""
    mistake: bool = False
    lacking: bool = False

    @property
    def refusal(self) -> Refusal:
        """The violation as an exception."""
        refused = InputRefused if self.mistake else AccountantRefused
        remedy = self.remedy if isinstance(self.remedy, str) else self.remedy()
        return refused(self.what, where=self.where, remedy=remedy, cause=self.cause)


def _missing(*, fault: str, what: str, where: str, remedy: str) -> Violation:
    return Violation(fault=fault, what=what, where=where, remedy=remedy, mistake=True, lacking=True)


def unknown_dataset(name: str) -> Violation:
    """A data set that the ledger does not have."""
    return _missing(
        fault=f"dataset '{name}' is not in the ledger",
        what="the ledger has no data set of this name.",
        where=f"dataset '{name}'",
        remedy="Register it and its budget with `crowdblend dataset add`.",
    )


def unknown_series(name: str) -> Violation:
    """A series that the ledger does not have."""
    return _missing(
        fault=f"series '{name}' has not paid for this release: nothing of that name",
        what="the ledger has no series of this name.",
        where=f"series '{name}'",
        remedy="Register it with `crowdblend series add`.",
    )


def unknown_release(release_id: str) -> Violation:
    """A release that the ledger does not have."""
    return _missing(
        fault=f"release '{release_id}' was never charged",
        what="the ledger has no such release.",
        where=f"release '{release_id}'",
        remedy="`crowdblend ledger show` lists them.",
    )


def unknown_token(name: str) -> Violation:
    """A token that the ledger does not have, or that opens nothing any more."""
    return _missing(
        fault=f"token {name} was never added",
        what="there is no such token, or it was revoked before.",
        where=f"token '{name}'",
        remedy="`crowdblend token list` shows them.",
    )
