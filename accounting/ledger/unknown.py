"""The refusal for a data set that a ledger does not have."""

from __future__ import annotations

from ...mechanisms.refusal import InputRefused

__all__ = ["unknown_dataset"]


def unknown_dataset(name: str) -> InputRefused:
    """The refusal, with what to do."""
    return InputRefused(
        "the ledger has no data set of this name.",
        where=f"dataset '{name}'",
        remedy="Register it and its budget with `crowdblend dataset add`.",
    )
