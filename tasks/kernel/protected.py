"""Exact counts, which have no way out but their protection, and protected results, which alone are published.

Both are sealed: what they hold lies in this module, under objects that this module alone makes. A copy, a pickled or
subclassed one, or one that was made past its constructor holds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn, Self, SupportsIndex
from weakref import WeakKeyDictionary

from ...accounting.kernel.ledger.ledger_state import Receipt
from ...accounting.kernel.prices.registry import kind_of
from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.kernel.mechanism import Mechanism, Randomness
from ...mechanisms.kernel.protection import Protection


class Counted(NamedTuple):
    """What exact counts are of; they are opened for this and nothing else.

    Args:
        receipt: that the release was paid for, whose records they count.
        sizes: of the layout of their keys; None for totals of reports.
        rate: of the sample; None where every record is counted.
        selection: whether of the sample that only a map is chosen on.
    """

    receipt: Receipt
    sizes: tuple[int, ...] | None
    rate: Decimal | None
    selection: bool


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


_CONTENTS: WeakKeyDictionary[_Sealed, tuple[type[_Sealed], Counted | None, Any]] = WeakKeyDictionary()


def _sealed(kind: type[_Sealed], of: Counted | None, content: Any) -> Any:  # noqa: ANN401 - counts, results of any kind
    made = object.__new__(kind)
    _CONTENTS[made] = (kind, of, content)
    return made


def _opened(sealed: object, kind: type[_Sealed]) -> tuple[Counted | None, Any]:
    entry = _CONTENTS.get(sealed) if isinstance(sealed, _Sealed) else None
    # The class is kept with the content too: assigning `__class__` could make exact counts look protected.
    if entry is None or type(sealed) is not kind or entry[0] is not kind:
        raise ReleaseFailed(f"these are no {kind.__name__} that the kernel made.")
    return entry[1:]


def _counts_of(sealed: object, of: Counted, *, whichever_sizes: bool = False) -> Any:  # noqa: ANN401 - as above
    counted, counts = _opened(sealed, ExactCounts)
    if counted is None or (counted._replace(sizes=of.sizes) if whichever_sizes else counted) != of:
        raise ReleaseFailed("these counts are of another release, sample or layout than was charged.")
    return counts


def seal_counts(counts: Any, *, of: Counted) -> ExactCounts:  # noqa: ANN401 - as above
    """Return exact counts, sealed."""
    sealed: ExactCounts = _sealed(ExactCounts, of, counts)
    return sealed


def protect(
    exact: Callable[[], ExactCounts],
    by: Protection[Any, Any],
    *,
    charged: Mechanism,
    of: Counted,
    randomness: Randomness,
    once: Callable[[Callable[[], Any]], Any],
) -> Protected:
    """Return the protected result of exact counts.

    Args:
        exact: counts; not called where a stored draw is taken.
        by: the protection that was charged.
        charged: the mechanism, as the ledger has it.
        of: what the counts must be of.
        randomness: n to n secret bytes.
        once: makes the draw, stores it and gives it; or gives the stored one.

    Raises:
        ReleaseFailed: it is the protection of another mechanism, or none of its kind; or the counts are of another
            release, sample or layout.
    """
    if by.mechanism != charged:
        raise ReleaseFailed("the protection is of another mechanism than was charged.")
    if type(by) not in kind_of(charged).protections:  # a class below one of them protects otherwise
        raise ReleaseFailed("this is no protection that the kernel knows for the mechanism.")
    values: Any = by
    # It protects by the mechanism as the ledger has it, whatever its own answered when the two were compared.
    trusted = replace(values, mechanism=charged)
    made = once(lambda: trusted.protect(_counts_of(exact(), of), randomness=randomness))
    sealed: Protected = _sealed(Protected, None, made)
    return sealed


def opened_for_choice(exact: ExactCounts, *, receipt: Receipt, rate: Decimal | None) -> Any:  # noqa: ANN401 - as above
    """Return exact counts for the exponential mechanism that chooses a map by them, and for nothing else."""
    of = Counted(receipt, None, rate, selection=rate is not None)
    return _counts_of(exact, of, whichever_sizes=True)


def protected_result(protected: Protected) -> Any:  # noqa: ANN401 - as above
    """Return what may be published.

    Raises:
        ReleaseFailed: it is no protected result that the kernel made.
    """
    return _opened(protected, Protected)[1]
