"""What a rule answers with: that an entry would break it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from ....mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal, did_you_mean

__all__ = ["Violation", "known_by_name", "unknown"]

Known = TypeVar("Known")


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """A rule that an entry breaks.

    Args:
        where: what it concerns.
        fault: what a verification says of a recorded entry; empty for a rule about what no entry has.
        what: what the writer says who refuses it: one sentence, with its numbers; the fault where nothing is given.
        remedy: what the reader can do next, or how to compute that where it takes time.
        cause: short name of the rule, for the record of a refusal; empty where none is recorded.
        mistake: whether it is the caller's mistake, which isn't recorded, and not a refusal by the accountant.
    """

    where: str = ""
    fault: str = ""
    what: str = ""
    remedy: str | Callable[[], str] = ""
    cause: str = ""
    mistake: bool = False

    def __post_init__(self) -> None:
        """Say the fault where there are no other words for it."""
        object.__setattr__(self, "what", self.what or f"{self.fault}.")

    @property
    def refusal(self) -> Refusal:
        """The violation as an exception."""
        refused = InputRefused if self.mistake else AccountantRefused
        remedy = self.remedy if isinstance(self.remedy, str) else self.remedy()
        return refused(self.what, where=self.where, remedy=remedy, cause=self.cause)


UNKNOWN = {
    "dataset": (
        "dataset '{}' is not in the ledger",
        "the ledger has no data set of this name.",
        "Register it and its budget with `crowdblend dataset add`; with --unit where [data] has person or household.",
    ),
    "series": (
        "series '{}' has not paid for this release: nothing of that name",
        "the ledger has no series of this name.",
        "Register it with `crowdblend series add`.",
    ),
    "release": (
        "release '{}' was never charged",
        "the ledger has no such release.",
        "`crowdblend ledger show` lists them.",
    ),
    "token": (
        "token {} was never added",
        "there is no such token, or it was revoked before.",
        "`crowdblend token list` shows them.",
    ),
}


def unknown(of: Literal["dataset", "series", "release", "token"], name: str, *, known: Iterable[str] = ()) -> Violation:
    """Something that the ledger does not have.

    Args:
        of: what it would be.
        name: its name or id.
        known: names that there are; a similar one is named before anything new is proposed, since a second name of a
            data set would be a second budget for the same people.
    """
    fault, what, remedy = UNKNOWN[of]
    if similar := did_you_mean([name], known):
        remedy = f"{similar} If it is another one: {remedy[0].lower()}{remedy[1:]}"
    where = f"{of} '{name}'"
    return Violation(fault=fault.format(name), what=what, where=where, remedy=remedy, mistake=True)


def known_by_name(of: Literal["dataset", "series"], name: str, known: Mapping[str, Known]) -> Known:
    """Return what the ledger has under a name; where it has nothing that is refused, as the caller's mistake."""
    if name not in known:
        raise unknown(of, name, known=sorted(known)).refusal
    return known[name]
