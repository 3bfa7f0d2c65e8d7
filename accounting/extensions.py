"""Find what other distributions add to this one, by their entry points; load it when it is asked for.

Groups: `crowdblend.kinds`, kinds of mechanisms that price and protect; `crowdblend.sources`, formats of records;
`crowdblend.documents` and `crowdblend.commands` (docs/extending.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..mechanisms.kernel.errors import InputRefused

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Group = Literal["kinds", "sources", "documents", "commands"]


class ExtensionKind(NamedTuple):
    """Name the modules of a kind: the object of an entry point of `crowdblend.kinds`, which has the kind's name.

    Args:
        price_module: full name of the module with the `MechanismKind`, under the kind's name in capitals.
        description_module: full name of the module with the `KindDescription`, under the same name.
        release_module: full name of the module with the `ReleaseKind`, under the name KIND.
        records: names of its records on disk: `DISTRIBUTION:NAME/VERSION`.
    """

    price_module: str
    description_module: str
    release_module: str
    records: tuple[str, ...]


def names_of(group: Group) -> tuple[str, ...]:
    """Return the names that other distributions add to a group, in alphabetical order."""
    return tuple(sorted({found.name for found in _entry_points(group)}))


def load(group: Group, name: str) -> Any:  # noqa: ANN401 - whatever the group's contract says
    """Load what a distribution adds under a name; None where none adds it.

    Raises:
        InputRefused: two distributions add it, or it can't be loaded.
    """
    found = _entry_point(group, name)
    return None if found is None else _loaded(found, group)


def switch_on(kinds: Iterable[str]) -> tuple[str, ...]:
    """Let kinds of other distributions price and protect from now on, in this process.

    PRIVACY: such a kind decides what is charged, so the kernel takes none that wasn't named in `crowdblend.toml`.

    Args:
        kinds: names of kinds.

    Returns:
        The modules of their releases, each with a `ReleaseKind`.

    Raises:
        InputRefused: a kind isn't installed, can't be loaded, or is none that may be added.
    """
    from .kernel.prices.registry import RegisteredKind, add_kind

    modules = []
    for name in kinds:
        found = _entry_point("kinds", name)
        if found is None or found.dist is None:
            raise InputRefused(
                f"no installed distribution has a kind of mechanism {name!r}.",
                where="crowdblend.toml: [extensions].kinds",
                remedy="Install the distribution that has it, or take the name out of crowdblend.toml.",
            )
        described = _loaded(found, "kinds")
        if not isinstance(described, ExtensionKind):
            raise InputRefused(
                f"the entry point {name!r} of {found.dist.name} is no ExtensionKind.",
                where="crowdblend.toml: [extensions].kinds",
            )
        package = re.sub(r"[-_.]+", "-", found.dist.name).lower()
        add_kind(
            name,
            RegisteredKind(described.price_module, described.description_module, described.records),
            package=package,
        )
        modules.append(described.release_module)
    return tuple(modules)


def _entry_points(group: Group) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # whose import would be paid by every command

    return tuple(entry_points(group=f"crowdblend.{group}"))


def _entry_point(group: Group, name: str) -> EntryPoint | None:
    found = [point for point in _entry_points(group) if point.name == name]
    if len(found) > 1:
        holders = sorted(point.dist.name for point in found if point.dist is not None)
        raise InputRefused(
            f"{name!r} is in several distributions: {', '.join(holders)}.",
            where=f"crowdblend.{group}",
            remedy="Uninstall all of them but one.",
        )
    return found[0] if found else None


def _loaded(found: EntryPoint, group: Group) -> Any:  # noqa: ANN401 - whatever the group's contract says
    holder = "a distribution" if found.dist is None else f"{found.dist.name} {found.dist.version}"
    try:
        return found.load()
    except (ImportError, AttributeError) as error:
        raise InputRefused(
            f"{found.name!r} of {holder} can't be loaded ({type(error).__name__}: {error}).",
            where=f"crowdblend.{group}",
            remedy="Ask its authors for a version that goes with this one, or uninstall it.",
        ) from None
