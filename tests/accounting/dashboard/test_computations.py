"""Hold what pages have computed in another process to what the library computes; a refusal shows no value."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from decimal import Decimal

import pytest
from crowdblend.accounting.dashboard.computations import compute
from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.kernel.ledger.entries import sorted_fields
from crowdblend.accounting.kernel.ledger.ledger_state import Account
from crowdblend.accounting.kernel.prices.registry import mechanism_record, price
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.ledger.budget_overview import composed_estimate
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.theory.planning.filter_terms import propose_terms
from crowdblend.accounting.theory.planning.planner import plan
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

MECHANISM = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
MILLIONTH = Decimal("1e-6")


@pytest.fixture
def ledger(tmp_path):
    """A new ledger's address, its anchor's file and the keys that sign it, as a verification is told them."""
    anchoring = Anchoring(home=tmp_path / "home", file=None)
    create_where_none(SigningKeys(home=anchoring.home), os.urandom)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    anchor = anchoring.anchor_of(create_ledger(url, anchoring=anchoring)).path
    return url, str(anchor), [key.raw.hex() for key in anchoring.keys.public_keys()]


def test_a_verification_tells_of_a_sound_ledger_and_of_a_changed_one(ledger) -> None:
    url, anchor, keys = ledger
    sound = compute("verify", {"url": url, "anchor": anchor, "keys": keys})
    assert (sound["position"], sound["findings"]) == (0, [])
    assert compute("verify", {"url": url, "anchor": None, "keys": []}) == sound | {"unchecked": []}
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        database.execute("DROP TRIGGER entry_no_update")
        database.execute("UPDATE entry SET hash = ?", ("0" * 64,))
    by_chain = compute("verify", {"url": url, "anchor": None, "keys": []})["findings"]
    by_both = compute("verify", {"url": url, "anchor": anchor, "keys": keys})["findings"]
    assert 0 in {finding["position"] for finding in by_chain}
    assert by_both[: len(by_chain)] == by_chain != by_both


def test_a_plan_is_that_of_the_planner_with_amounts_as_texts() -> None:
    asked = {"k": 20, "sampling_rate": "0.1", "epsilon": "", "delta": "1e-6", "releases": 3}
    found = compute("plan", asked)
    planned = plan(k=20, sampling_rate=Decimal("0.1"), delta=MILLIONTH, releases=3)
    assert (found["k"], found["epsilon_exact"]) == (planned.k, str(planned.epsilon_exact))
    json.dumps(found)


def test_a_forecast_is_of_what_is_left_of_either_budget() -> None:
    asked = {"calendars": ["12/year"], "k": 20, "sampling_rate": "0.1"}
    cost = price(MECHANISM, delta=MILLIONTH, releases=1)
    left = {"epsilon": str(cost.epsilon * 5), "delta": str(MILLIONTH * 5)}
    additive = compute("forecast", {"left": left, **asked})
    terms = propose_terms(Decimal(2), MILLIONTH)
    fixed = {name: str(getattr(terms, name)) for name in ("epsilon", "delta", "order", "tail_delta", "tail_each")}
    amounts = {"divergence": str(terms.allowance), "tail": str(terms.tail_delta)}
    filtered = compute("forecast", {"left": {"terms": fixed, **amounts}, **asked})
    for found in (additive, filtered):
        assert "refused" not in found
        assert found["calendars"]
    assert additive != filtered


def test_an_estimate_is_the_composed_one() -> None:
    cost = price(MECHANISM, delta=MILLIONTH, releases=1)
    account = Account(
        epsilon_spent=cost.epsilon * 12,
        delta_spent=MILLIONTH * 12,
        epsilon_budget=Decimal(10),
        delta_budget=Decimal("1e-3"),
    )
    charged = Counter({sorted_fields(mechanism_record(MECHANISM)): 12})
    found = compute("estimate", {"charged": charged, "account": account, "rows_per_person": 1})
    assert found == {"epsilon": composed_estimate(charged, account=account, rows_per_person=1)}
    assert 0 < found["epsilon"] < account.epsilon_spent


def test_a_curve_falls_to_where_its_picture_ends_and_lies_below_the_papers() -> None:
    found = compute("curve", {"mechanism": mechanism_record(MECHANISM), "delta": "1e-6"})["points"]
    exact = [point["delta_exact"] for point in found]
    assert exact == sorted(exact, reverse=True)
    assert exact[-1] <= 1e-9 < exact[0] <= 1.0
    assert all(point["delta_paper"] is None or point["delta_exact"] <= point["delta_paper"] for point in found)
    cost = float(price(MECHANISM, delta=MILLIONTH, releases=1).epsilon)
    assert min(point["epsilon"] for point in found if point["delta_exact"] <= 1e-6) >= cost * (1 - 1e-9)


@pytest.mark.parametrize(
    ("job", "asked", "why"),
    [
        ("none", {}, "there is no such job."),
        ("plan", {"k": 20, "sampling_rate": "secret"}, "These parameters can't be computed with (InvalidOperation)."),
        ("plan", {"k": 20, "sampling_rate": "1.5", "delta": "1e-6", "releases": 1}, "between 0 and 1"),
        (
            "curve",
            {"mechanism": {"kind": "suppressed-histogram/1", "k": 20, "sampling_rate": "0.1"}, "delta": "1e-6"},
            "There is no curve for this mechanism",
        ),
    ],
)
def test_what_cant_be_computed_is_refused_without_its_values(job: str, asked: dict[str, object], why: str) -> None:
    [told] = compute(job, asked).values()
    assert why in told
    assert "secret" not in told
