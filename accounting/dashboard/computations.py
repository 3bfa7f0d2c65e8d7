"""What pages have computed in a process of its own: verification, prices, forecasts, estimates and curves."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.errors import InputRefused, Refusal
from ..descriptions.description_registry import description_of
from ..kernel.field_forms import Fields
from ..kernel.keys.signing import PublicKey
from ..kernel.prices.privacy_profile import exp_up
from ..kernel.prices.registry import mechanism_of_record
from ..kinds.composition.renyi_filter import FilterTerms
from ..ledger.budget_overview import composed_estimate
from ..ledger.reader import open_reader
from ..theory.planning.budget_forecast import BudgetLeft, FilterLeft, forecast, forecast_facts, read_calendar
from ..theory.planning.planner import plan

POINTS = 121
LEAST_DELTA = 1e-30


def compute(job: str, of: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's answer, or why there is none."""
    if job not in JOBS:
        return {"refused": "there is no such job."}
    try:
        return JOBS[job](**of)
    except Refusal as refusal:
        return {"refused": " ".join(part for part in (refusal.what, refusal.remedy) if part)}
    except (ArithmeticError, MemoryError, ValueError) as fault:
        return {"refused": f"These parameters can't be computed with ({type(fault).__name__})."}


def _verify(url: str, anchor: str | None, keys: list[str]) -> dict[str, Any]:
    """Verify a whole ledger; says where and what."""
    with open_reader(url) as reader:
        head = reader.head()
        findings = [{"position": finding.position, "what": finding.what} for finding in reader.verify()]
        unchecked: list[str] = []
        if anchor is not None:
            trusted = tuple(PublicKey(raw=bytes.fromhex(key)) for key in keys)
            check = reader.verify_anchor(Path(anchor), trusted=trusted)
            findings += [{"position": None, "what": what} for what in check.findings]
            unchecked += check.unchecked
    return {"position": head.position, "hash": head.hash, "findings": findings, "unchecked": unchecked}


def _plan(**asked: str | int | None) -> dict[str, Any]:
    """Return a priced point; amounts as texts."""
    exact = {name: Decimal(value) if isinstance(value, str) else value for name, value in asked.items() if value != ""}
    found = plan(**exact)  # type: ignore[arg-type]
    return {name: str(value) if isinstance(value, Decimal) else value for name, value in asdict(found).items()}


def _forecast(left: dict[str, Any], calendars: list[str], k: int, sampling_rate: str) -> dict[str, Any]:
    """Return how long what is left of a budget lasts; amounts as texts."""
    exact = {name: Decimal(value) for name, value in left.items() if name != "terms"}
    if "terms" in left:
        terms = FilterTerms(**{name: Decimal(value) for name, value in left["terms"].items()})
        budget = BudgetLeft.of_filter(FilterLeft(terms=terms, **exact))
    else:
        budget = BudgetLeft(epsilon=exact["epsilon"], delta=exact["delta"])
    read = [read_calendar(text, k=k, sampling_rate=Decimal(sampling_rate)) for text in calendars]
    found: dict[str, Any] = json.loads(json.dumps(forecast_facts(forecast(budget, read)), default=str))
    return found


def _estimate(charged: Counter[Fields], **of: Any) -> dict[str, Any]:  # noqa: ANN401 - see `composed_estimate`
    """Return the composed estimate of what was charged."""
    return {"epsilon": composed_estimate(charged, **of)}


def _curve(mechanism: dict[str, str | int], delta: str) -> dict[str, Any]:
    """Return the ε–δ curve of one release, by the exact profile and by the paper.

    Both are upper bounds for one record; a point of the paper's is null where it proves nothing.
    """
    release = mechanism_of_record(mechanism)
    curves = description_of(release).curves
    if curves is None:
        raise InputRefused("There is no curve for this mechanism: its price is one point.")
    curve = curves.of(release)
    farthest = _where_small(curve.log_delta, min(float(Decimal(delta)) * 1e-3, 1e-9), beyond=curve.farthest)
    epsilons = np.linspace(0.0, farthest, POINTS)
    pairs = ((float(one), exp_up(float(value))) for one, value in zip(epsilons, curve.log_delta(epsilons), strict=True))
    return {"points": [{"epsilon": e, "delta_exact": d, "delta_paper": curve.delta_paper(e)} for e, d in pairs]}


def _where_small(
    log_delta: Callable[[NDArray[np.float64]], NDArray[np.float64]], delta: float, *, beyond: float
) -> float:
    """Return some ε at which the exact δ is small, to end the picture at; at most `beyond`."""
    low, high = 0.0, beyond
    # Only where a picture ends: 30 halvings are far more exact than its pixels.
    for _ in range(30):
        middle = 0.5 * (low + high)
        value = float(log_delta(np.array([middle], dtype=np.float64))[0])
        low, high = (low, middle) if value <= math.log(max(delta, LEAST_DELTA)) else (middle, high)
    return high


Job = Callable[..., dict[str, Any]]
JOBS: dict[str, Job] = {"verify": _verify, "plan": _plan, "estimate": _estimate, "forecast": _forecast, "curve": _curve}
