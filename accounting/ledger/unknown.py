"""The refusals for a data set or a series that a ledger does not have."""

from __future__ import annotations

from ...mechanisms.refusal import InputRefused

__all__ = ["unknown_dataset", "unknown_series"]


def unknown_dataset(name: str) -> InputRefused:
    """The refusal, with what to do."""
    return InputRefused(
        "the ledger has no data set of this name.",
        where=f"dataset '{name}'",
        remedy="Register it and its budget with `crowdblend dataset add`.",
    )


def unknown_series(name: str) -> InputRefused:
    """The refusal, with what to do."""
    return InputRefused(
        "the ledger has no series of this name.",
        where=f"series '{name}'",
        remedy="Register it with `crowdblend series add`.",
    )
