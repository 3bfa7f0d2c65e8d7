"""Mechanisms of the literature that are never run here, each with the reason for a person who asks for it."""

from __future__ import annotations

from types import MappingProxyType

from ...mechanisms.errors import InputRefused

__all__ = ["REFUSED", "refuse_unknown_noise", "refuse_unsafe"]

NOISE = "two-sided-geometric"

REFUSED = MappingProxyType(
    {
        "gaussian": (
            "Gaussian noise is not ε-differentially private for any ε: the ratio of its densities is unbounded",
            "Use the two-sided geometric or the Laplace mechanism.",
        ),
        "one-sided": (
            "one-sided noise makes some outputs impossible for one of two neighbours, so that they betray the other",
            "Use the two-sided geometric or the Laplace mechanism.",
        ),
        "clustering": (
            "clusters are drawn around the records themselves: one extreme record moves a published boundary, which "
            "shows whether it is there",
            "Declare hierarchies, with fixed levels or levels chosen by the exponential mechanism.",
        ),
        "mondrian": (
            "local recoding cuts at the records' own medians and publishes their least and greatest values: one "
            "extreme record changes a published range, which shows whether it is there (compare LQS, "
            "arXiv:1101.2604v2, Algorithm 1)",
            "Declare hierarchies, with fixed levels or levels chosen by the exponential mechanism.",
        ),
    }
)
"""Name in lower case → why it is refused, and what to use instead."""


def refuse_unsafe(name: str, *, where: str = "") -> None:
    """Refuse a mechanism that gives no guarantee; does nothing for other names.

    Args:
        name: of the mechanism.
        where: who asks for it, for the message.

    Raises:
        InputRefused: the mechanism is one of `REFUSED`.
    """
    reason = REFUSED.get(name.lower())
    if reason is not None:
        why, instead = reason
        raise InputRefused(
            f"the mechanism {name!r} is refused: {why} (docs/mechanisms/not-to-be-used.md).",
            where=where,
            remedy=instead,
        )


def refuse_unknown_noise(name: str, *, where: str) -> None:
    """Refuse noise that gives no guarantee, and noise that nobody knows.

    Args:
        name: of the noise.
        where: who asks for it, for the message.

    Raises:
        InputRefused: it isn't the two-sided geometric.
    """
    refuse_unsafe(name, where=where)
    if name != NOISE:
        raise InputRefused(f"there is no noise {name!r}.", where=where, remedy=f'Leave it out, or write "{NOISE}".')
