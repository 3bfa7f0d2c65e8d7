"""Exact counts, which have no way out but their protection, and protected results, which alone are published.

Both are sealed: what they hold lies in this module, under objects that this module alone makes. A copy, a pickled or
subclassed one, or one that was made past its constructor holds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self, SupportsIndex
from weakref import WeakKeyDictionary

from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.kernel.mechanism import Randomness
from ...mechanisms.kernel.protection import Protection, protection_of

__all__ = ["ExactCounts", "Protected", "opened_for_choice", "protect", "protected_result", "seal_counts"]


class _Sealed:
    """An object that stands for a content and has none."""

    __slots__ = ("__weakref__",)

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:
            raise TypeError("what is sealed has no other kinds")

    def __new__(cls, *_: object, **__: object) -> Self:
        """Refuse: this module makes them past their constructor.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{cls.__name__} are made by the kernel alone")

    def __reduce_ex__(self, _: SupportsIndex) -> NoReturn:
        raise TypeError("what is sealed is neither copied nor stored")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class ExactCounts(_Sealed):
    """Exact counts of a release's records."""

    __slots__ = ()


class Protected(_Sealed):
    """A result that may be published: exact counts after the protection that was paid for."""

    __slots__ = ()


_CONTENTS: WeakKeyDictionary[_Sealed, Any] = WeakKeyDictionary()


def _sealed(kind: type[_Sealed], content: Any) -> Any:  # noqa: ANN401 - counts and results of any kind
    made = object.__new__(kind)
    _CONTENTS[made] = content
    return made


def _opened(sealed: object, kind: type[_Sealed]) -> Any:  # noqa: ANN401 - as above
    if type(sealed) is not kind or sealed not in _CONTENTS:
        raise ReleaseFailed(f"these are no {kind.__name__} that the kernel made.")
    return _CONTENTS[sealed]


def seal_counts(counts: Any) -> ExactCounts:  # noqa: ANN401 - as above
    """Return exact counts, sealed."""
    sealed: ExactCounts = _sealed(ExactCounts, counts)
    return sealed


def protect(
    exact: Callable[[], ExactCounts],
    by: Protection[Any, Any],
    *,
    randomness: Randomness,
    once: Callable[[Callable[[], Any]], Any],
) -> Protected:
    """Return the protected result of exact counts.

    Args:
        exact: counts; not called where a stored draw is taken.
        by: the protection that was charged.
        randomness: n to n secret bytes.
        once: makes the draw, stores it and gives it; or gives the stored one.

    Raises:
        ReleaseFailed: it isn't the protection of its mechanism's kind.
    """
    if type(by) is not protection_of(by.mechanism):
        raise ReleaseFailed("this is no protection that the kernel knows for the mechanism.")
    sealed: Protected = _sealed(
        Protected, once(lambda: by.protect(_opened(exact(), ExactCounts), randomness=randomness))
    )
    return sealed


def opened_for_choice(exact: ExactCounts) -> Any:  # noqa: ANN401 - as above
    """Return exact counts for the exponential mechanism that chooses a map by them, and for nothing else."""
    return _opened(exact, ExactCounts)


def protected_result(protected: Protected) -> Any:  # noqa: ANN401 - as above
    """Return what may be published.

    Raises:
        ReleaseFailed: it is no protected result that the kernel made.
    """
    return _opened(protected, Protected)
