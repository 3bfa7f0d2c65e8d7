"""How the ledger writes a mechanism down: a versioned kind and its parameters, read back exactly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import assert_never

from ...mechanisms.answers import Answer, CountAnswer, MeanAnswer, SumAnswer
from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.event import Histogram, Mechanism
from ...mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.neighbours import ADD_REMOVE, REPLACEMENT, Relation
from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease

__all__ = ["mechanism_of_record", "mechanism_record"]

_STRONGLY_SAFE = "strongly-safe-release/1"
_EPSILON_SAFE = "epsilon-safe-release/1"
_SUPPRESSED = "suppressed-histogram/1"
_NOISY = "noisy-histogram/1"
_OUTLIER = "outlier-private-histogram/1"
_COUNT = "count-answer/1"
_SUM = "sum-answer/1"
_MEAN = "mean-answer/1"
_ASKED = ("epsilon", "groups", "relation", "sampling_rate")
_FIELDS = {
    _STRONGLY_SAFE: ("k", "sampling_rate"),
    _EPSILON_SAFE: ("k", "sampling_rate", "selection_epsilon", "selection_rate"),
    _SUPPRESSED: ("k", "sampling_rate"),
    _NOISY: ("epsilon", "k", "sampling_rate"),
    _OUTLIER: ("epsilon", "horizon", "margin"),
    _COUNT: _ASKED,
    _SUM: (*_ASKED, "lower", "upper"),
    _MEAN: (*_ASKED, "least_records", "lower", "upper"),
}
_WHOLE_DATA = "whole"
_AMOUNT_TEXT = re.compile(r"[0-9]+(\.[0-9]+)?(E[+-]?[0-9]+)?")


def mechanism_record(mechanism: Mechanism) -> dict[str, str | int]:
    """The mechanism as the ledger stores it: kind with version, and its parameters, amounts as exact decimal texts.

    What is done on all records, a choice of the map or a whole mechanism, has the rate "whole".
    """
    match mechanism:
        case StronglySafeRelease():
            return {"kind": _STRONGLY_SAFE, "k": mechanism.k, "sampling_rate": str(mechanism.sampling_rate)}
        case EpsilonSafeRelease():
            return {
                "kind": _EPSILON_SAFE,
                "k": mechanism.k,
                "sampling_rate": str(mechanism.sampling_rate),
                "selection_epsilon": str(mechanism.selection_epsilon),
                "selection_rate": _rate_text(mechanism.selection_rate),
            }
        case SuppressedHistogram() | NoisyHistogram() | OutlierPrivateHistogram():
            return _histogram_record(mechanism)
        case CountAnswer() | SumAnswer() | MeanAnswer():
            return _answer_record(mechanism)
        case _:
            assert_never(mechanism)


def _histogram_record(histogram: Histogram) -> dict[str, str | int]:
    match histogram:
        case SuppressedHistogram():
            return {"kind": _SUPPRESSED, "k": histogram.k, "sampling_rate": _rate_text(histogram.sampling_rate)}
        case NoisyHistogram():
            return {
                "kind": _NOISY,
                "k": histogram.k,
                "epsilon": str(histogram.epsilon),
                "sampling_rate": _rate_text(histogram.sampling_rate),
            }
        case OutlierPrivateHistogram():
            return {
                "kind": _OUTLIER,
                "epsilon": str(histogram.epsilon),
                "horizon": histogram.horizon,
                "margin": histogram.margin,
            }
        case _:
            assert_never(histogram)


def _answer_record(answer: Answer) -> dict[str, str | int]:
    asked: dict[str, str | int] = {
        "epsilon": str(answer.epsilon),
        "groups": answer.groups,
        "relation": answer.relation,
        "sampling_rate": _rate_text(answer.sampling_rate),
    }
    match answer:
        case CountAnswer():
            return asked | {"kind": _COUNT}
        case SumAnswer():
            return asked | {"kind": _SUM, "lower": answer.lower, "upper": answer.upper}
        case MeanAnswer():
            bounds = {"lower": answer.lower, "upper": answer.upper, "least_records": answer.least_records}
            return asked | bounds | {"kind": _MEAN}
        case _:
            assert_never(answer)


def mechanism_of_record(record: Mapping[str, object]) -> Mechanism:
    """The mechanism that a stored record describes.

    Raises:
        InputRefused: an unknown kind, a missing or unknown field, or a value of the wrong form.
    """
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise InputRefused(f"unknown kind of mechanism: {kind!r}.")
    fields = _FIELDS[kind]
    if set(record) != {"kind", *fields}:
        raise InputRefused(f"a {kind} record has the fields {' and '.join(fields)}, not {sorted(record)}.")
    try:
        return _read(kind, record)
    except (ValueError, InvalidOperation) as fault:
        raise InputRefused(f"a {kind} record is out of range: {fault}.") from fault


def _read(kind: str, record: Mapping[str, object]) -> Mechanism:
    fields = _Fields(kind=kind, record=record)
    if kind == _STRONGLY_SAFE:
        return StronglySafeRelease(k=fields.number("k"), sampling_rate=fields.amount("sampling_rate"))
    if kind == _EPSILON_SAFE:
        return EpsilonSafeRelease(
            k=fields.number("k"),
            sampling_rate=fields.amount("sampling_rate"),
            selection_epsilon=fields.amount("selection_epsilon"),
            selection_rate=fields.rate("selection_rate"),
        )
    if kind in (_SUPPRESSED, _NOISY, _OUTLIER):
        return _read_histogram(kind, fields)
    return _read_answer(kind, fields)


def _read_histogram(kind: str, fields: _Fields) -> Histogram:
    if kind == _SUPPRESSED:
        return SuppressedHistogram(k=fields.number("k"), sampling_rate=fields.rate("sampling_rate"))
    if kind == _NOISY:
        return NoisyHistogram(
            k=fields.number("k"), epsilon=fields.amount("epsilon"), sampling_rate=fields.rate("sampling_rate")
        )
    return OutlierPrivateHistogram(
        epsilon=fields.amount("epsilon"), horizon=fields.number("horizon"), margin=fields.number("margin")
    )


def _read_answer(kind: str, fields: _Fields) -> Answer:
    epsilon, groups = fields.amount("epsilon"), fields.number("groups")
    relation, rate = fields.relation("relation"), fields.rate("sampling_rate")
    if kind == _COUNT:
        return CountAnswer(epsilon=epsilon, groups=groups, relation=relation, sampling_rate=rate)
    lower, upper = fields.number("lower"), fields.number("upper")
    if kind == _SUM:
        return SumAnswer(
            epsilon=epsilon, groups=groups, relation=relation, sampling_rate=rate, lower=lower, upper=upper
        )
    return MeanAnswer(
        epsilon=epsilon,
        groups=groups,
        relation=relation,
        sampling_rate=rate,
        lower=lower,
        upper=upper,
        least_records=fields.number("least_records"),
    )


def _rate_text(rate: Decimal | None) -> str:
    return _WHOLE_DATA if rate is None else str(rate)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fields:
    """A record's fields, each read in the one form that it has."""

    kind: str
    record: Mapping[str, object]

    def number(self, name: str) -> int:
        value = self.record[name]
        if type(value) is not int:
            raise InputRefused(f"a {self.kind} record needs a whole number {name}.")
        return value

    def amount(self, name: str) -> Decimal:
        text = self.record[name]
        if not isinstance(text, str) or not _AMOUNT_TEXT.fullmatch(text):
            raise InputRefused(f"a {self.kind} record needs a decimal text {name}.")
        return Decimal(text)

    def rate(self, name: str) -> Decimal | None:
        return None if self.record[name] == _WHOLE_DATA else self.amount(name)

    def relation(self, name: str) -> Relation:
        for known in (ADD_REMOVE, REPLACEMENT):
            if self.record[name] == known:
                return known
        raise InputRefused(f"a {self.kind} record needs a neighbouring relation {name}.")
