"""Every kind of release by the name of its table; each is loaded when it is used."""

from __future__ import annotations

from importlib import import_module

from ...mechanisms.mechanism import Mechanism
from .kind import ReleaseKind

__all__ = ["DEFAULT_KIND", "KINDS", "kind_of_mechanism", "release_kind"]

DEFAULT_KIND = "microdata"
"""The kind of a specification that has no table of another kind."""

KINDS = {
    "microdata": f"{__package__}.microdata",
    "histogram": f"{__package__}.histogram",
    "points": f"{__package__}.points",
    "answer": f"{__package__}.answer",
    "deletion": f"{__package__}.deletion",
    "reports": f"{__package__}.local_reports",
}
"""Name of the kind → its module, which has a `KIND`. A new kind is a line here."""


def release_kind(name: str) -> ReleaseKind:
    """A kind of release by its name.

    Raises:
        KeyError: there is no such kind.
    """
    kind: ReleaseKind = import_module(KINDS[name]).KIND
    return kind


def kind_of_mechanism(mechanism: Mechanism) -> ReleaseKind:
    """The kind of release that charges a mechanism.

    Raises:
        LookupError: none does.
    """
    for kind in map(release_kind, KINDS):
        if isinstance(mechanism, kind.mechanisms):
            return kind
    raise LookupError(f"no kind of release charges a {type(mechanism).__name__}")
