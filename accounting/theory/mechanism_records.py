"""How the ledger writes a mechanism down: a versioned kind and its parameters, read back exactly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import assert_never

from ...mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from ...mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ...mechanisms.count_sketch import CountMeanSketch
from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.event import Mechanism
from ...mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.krandomization import KRandomization, OutcomeCounts
from ...mechanisms.points import SyntheticPoints
from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from .event_records import event_of_record, event_record

__all__ = ["mechanism_of_record", "mechanism_record"]

_STRONGLY_SAFE = "strongly-safe-release/1"
_EPSILON_SAFE = "epsilon-safe-release/1"
_FIELDS = {
    _STRONGLY_SAFE: ("k", "sampling_rate"),
    _EPSILON_SAFE: ("k", "sampling_rate", "selection_epsilon", "selection_rate"),
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
            rate = mechanism.selection_rate
            return {
                "kind": _EPSILON_SAFE,
                "k": mechanism.k,
                "sampling_rate": str(mechanism.sampling_rate),
                "selection_epsilon": str(mechanism.selection_epsilon),
                "selection_rate": _WHOLE_DATA if rate is None else str(rate),
            }
        case SuppressedHistogram() | NoisyHistogram() | OutlierPrivateHistogram():
            return event_record(mechanism)
        case BiasedSampleCounts() | UnequalRatesHistogram() | SyntheticPoints():
            return event_record(mechanism)
        case CountAnswer() | SumAnswer() | MeanAnswer():
            return event_record(mechanism)
        case CountMeanSketch() | KRandomization() | OutcomeCounts():
            return event_record(mechanism)
        case _:
            assert_never(mechanism)


def mechanism_of_record(record: Mapping[str, object]) -> Mechanism:
    """The mechanism that a stored record describes.

    Raises:
        InputRefused: an unknown kind, a missing or unknown field, or a value of the wrong form.
    """
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        return event_of_record(record)
    fields = _FIELDS[kind]
    if set(record) != {"kind", *fields}:
        raise InputRefused(f"a {kind} record has the fields {' and '.join(fields)}, not {sorted(record)}.")
    k = record["k"]
    if type(k) is not int:
        raise InputRefused(f"a {kind} record needs a whole number k.")
    try:
        rate = _amount(kind, record, "sampling_rate")
        if kind == _STRONGLY_SAFE:
            return StronglySafeRelease(k=k, sampling_rate=rate)
        whole = record["selection_rate"] == _WHOLE_DATA
        return EpsilonSafeRelease(
            k=k,
            sampling_rate=rate,
            selection_epsilon=_amount(kind, record, "selection_epsilon"),
            selection_rate=None if whole else _amount(kind, record, "selection_rate"),
        )
    except (ValueError, InvalidOperation) as fault:
        raise InputRefused(f"a {kind} record is out of range: {fault}.") from fault


def _amount(kind: str, record: Mapping[str, object], name: str) -> Decimal:
    text = record[name]
    if not isinstance(text, str) or not _AMOUNT_TEXT.fullmatch(text):
        raise InputRefused(f"a {kind} record needs a decimal text {name}.")
    return Decimal(text)
