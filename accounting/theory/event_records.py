"""How the sources' other mechanisms are written down: a versioned kind, whole numbers, and exact decimal texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from ...mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from ...mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ...mechanisms.count_sketch import CountMeanSketch
from ...mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.krandomization import KRandomization, OutcomeCounts
from ...mechanisms.neighbours import ADD_REMOVE, REPLACEMENT
from ...mechanisms.points import SyntheticPoints
from ...mechanisms.refusal import InputRefused
from ...mechanisms.source_event import SourceEvent
from ...mechanisms.strongly_safe import StronglySafeRelease

__all__ = ["KINDS", "event_of_record", "event_record"]

_AMOUNT_TEXT = re.compile(r"-?[0-9]+(\.[0-9]+)?(E[+-]?[0-9]+)?")
_HEX_TEXT = re.compile(r"([0-9a-f]{2}){1,64}")
_ALL_RECORDS = "whole"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Field:
    """How a field is written and read back; both refuse what is not of its form by ValueError."""

    written: Callable[[object], str | int]
    read: Callable[[object], object]


def _read_whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError("a whole number is needed")
    return value


def _read_amount(value: object) -> Decimal:
    if not isinstance(value, str) or not _AMOUNT_TEXT.fullmatch(value):
        raise ValueError("a decimal text is needed")
    return Decimal(value)


def _read_relation(value: object) -> object:
    if value not in (ADD_REMOVE, REPLACEMENT):
        raise ValueError("an unknown relation")
    return value


def _read_bytes(value: object) -> bytes:
    if not isinstance(value, str) or not _HEX_TEXT.fullmatch(value):
        raise ValueError("1 to 64 bytes in hexadecimal are needed")
    return bytes.fromhex(value)


def _written_whole(value: object) -> int:
    return _read_whole(value)


def _written_bytes(value: object) -> str:
    if not isinstance(value, bytes):
        raise TypeError("bytes are needed")
    return value.hex()


_WHOLE = _Field(written=_written_whole, read=_read_whole)
_AMOUNT = _Field(written=str, read=_read_amount)
_RATE = _Field(
    written=lambda rate: _ALL_RECORDS if rate is None else str(rate),
    read=lambda text: None if text == _ALL_RECORDS else _read_amount(text),
)
_RELATION = _Field(written=str, read=_read_relation)
_BYTES = _Field(written=_written_bytes, read=_read_bytes)

_ANSWER = {"epsilon": _AMOUNT, "relation": _RELATION, "groups": _WHOLE, "sampling_rate": _RATE}
_BOUNDS = {"lower": _WHOLE, "upper": _WHOLE}
_NOISY = {"k": _WHOLE, "epsilon": _AMOUNT, "sampling_rate": _RATE}
_SAFE = {"k": _WHOLE, "sampling_rate": _AMOUNT}
_FLIPS = {"bits": _WHOLE, "flip_probability": _AMOUNT}
_GRID = {"dimensions": _WHOLE, "cells_per_side": _WHOLE}

_FIELDS: Mapping[str, tuple[type, Mapping[str, _Field]]] = {
    "suppressed-histogram/1": (SuppressedHistogram, {"k": _WHOLE, "sampling_rate": _RATE}),
    "noisy-histogram/1": (NoisyHistogram, _NOISY),
    "outlier-private-histogram/1": (
        OutlierPrivateHistogram,
        {"epsilon": _AMOUNT, "horizon": _WHOLE, "margin": _WHOLE},
    ),
    "count-answer/1": (CountAnswer, _ANSWER),
    "sum-answer/1": (SumAnswer, {**_ANSWER, **_BOUNDS}),
    "mean-answer/1": (MeanAnswer, {**_ANSWER, **_BOUNDS, "least_records": _WHOLE}),
    "biased-sample-counts/1": (
        BiasedSampleCounts,
        {
            "k": _WHOLE,
            "lowest_rate": _AMOUNT,
            "highest_rate": _AMOUNT,
            "largest_rate": _AMOUNT,
            "exceptions": _WHOLE,
        },
    ),
    "unequal-rates-histogram/1": (
        UnequalRatesHistogram,
        {"k": _WHOLE, "sampling_rate": _AMOUNT, "lowest_rate": _AMOUNT},
    ),
    "count-mean-sketch/1": (
        CountMeanSketch,
        {"epsilon": _AMOUNT, "hashes": _WHOLE, "bits": _WHOLE, "seed": _BYTES},
    ),
    "k-randomization/1": (KRandomization, _FLIPS),
}
_POINTS_SAFE, _POINTS_NOISY, _OUTCOMES = "synthetic-points/1", "synthetic-noisy-points/1", "outcome-counts/1"

KINDS = (*_FIELDS, _POINTS_SAFE, _POINTS_NOISY, _OUTCOMES)
"""Every kind that is written; a new field needs a new version, and old versions stay readable."""

_COMPOUND: Mapping[str, tuple[Mapping[str, _Field], type, Mapping[str, _Field]]] = {
    _POINTS_SAFE: (_GRID, StronglySafeRelease, _SAFE),
    _POINTS_NOISY: (_GRID, NoisyHistogram, _NOISY),
    _OUTCOMES: ({"least_people": _WHOLE}, KRandomization, _FLIPS),
}


def event_record(event: SourceEvent) -> dict[str, str | int]:
    """The event as a flat record: kind with version, and its parameters."""
    match event:
        case SyntheticPoints(counts=inner):
            kind = _POINTS_NOISY if isinstance(inner, NoisyHistogram) else _POINTS_SAFE
            return {"kind": kind, **_written(event, _GRID), **_written(inner, _COMPOUND[kind][2])}
        case OutcomeCounts(randomizer=randomizer):
            outer, _, fields = _COMPOUND[_OUTCOMES]
            return {"kind": _OUTCOMES, **_written(event, outer), **_written(randomizer, fields)}
        case _:
            kind = next(kind for kind, (made, _) in _FIELDS.items() if made is type(event))
            return {"kind": kind, **_written(event, _FIELDS[kind][1])}


def event_of_record(record: Mapping[str, object]) -> SourceEvent:
    """The event that a stored record describes.

    Raises:
        InputRefused: an unknown kind, a missing or unknown field, or a value of the wrong form.
    """
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputRefused(f"unknown kind of mechanism: {kind!r}.")
    if kind in _FIELDS:
        outer: Mapping[str, _Field] = {}
        made, fields = _FIELDS[kind]
    else:
        outer, made, fields = _COMPOUND[kind]
    names = {"kind", *outer, *fields}
    if set(record) != names:
        raise InputRefused(f"a {kind} record has the fields {sorted(names)}, not {sorted(record)}.")
    try:
        inner = made(**{name: field.read(record[name]) for name, field in fields.items()})
        rest = {name: field.read(record[name]) for name, field in outer.items()}
        return _whole_event(kind, inner, rest)
    except (ValueError, InvalidOperation) as fault:
        raise InputRefused(f"a {kind} record is out of range: {fault}.") from fault


def _whole_event(kind: str, inner: SourceEvent, rest: dict[str, object]) -> SourceEvent:
    if kind == _OUTCOMES and isinstance(inner, KRandomization):
        return OutcomeCounts(randomizer=inner, least_people=_read_whole(rest["least_people"]))
    if kind in (_POINTS_SAFE, _POINTS_NOISY) and isinstance(inner, NoisyHistogram | StronglySafeRelease):
        return SyntheticPoints(
            dimensions=_read_whole(rest["dimensions"]), cells_per_side=_read_whole(rest["cells_per_side"]), counts=inner
        )
    return inner


def _written(event: object, fields: Mapping[str, _Field]) -> dict[str, str | int]:
    return {name: field.written(getattr(event, name)) for name, field in fields.items()}
