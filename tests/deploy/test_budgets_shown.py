"""What `dataset list` and `ledger show` say of a budget: how it came to be what it is, and what is left of it."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest


def spent_on(desk) -> tuple[Decimal, Decimal]:
    """The exact ε and δ of a series that a fresh data set has paid for; no source is read."""
    desk.add_dataset(epsilon="0.26", delta="1e-6")
    desk.succeed("series", "add", "monthly", desk.write_spec(), "--releases", "3")
    [entry] = [
        line["entry"]
        for line in map(json.loads, desk("ledger", "export").out.splitlines())
        if line["entry"]["kind"].startswith("series-registered/")
    ]
    return Decimal(entry["price"]["epsilon"]), Decimal(entry["price"]["delta"])


def leave(desk, epsilon: str, delta: str) -> None:
    """Raise the budget so that exactly this is left of it."""
    spent = spent_on(desk)
    budget = (str(spent[0] + Decimal(epsilon)), str(spent[1] + Decimal(delta)))
    desk.succeed("dataset", "raise", "people", "--epsilon", budget[0], "--delta", budget[1], "--reason", "Agreed")


@pytest.mark.parametrize("command", [("dataset", "list"), ("ledger", "show")])
def test_a_raise_stands_where_the_budget_stands(desk, command) -> None:
    desk.add_dataset()
    plain = desk(*command)
    assert "raised" not in plain.out
    assert desk(*command, "--json").json["datasets"][0]["raises"] == []
    for epsilon, reason in (("11", "Twelve more months"), ("12.5", "A new column")):
        desk.succeed("dataset", "raise", "people", "--epsilon", epsilon, "--delta", "2e-3", "--reason", reason)
    lines = desk(*command).out.splitlines()
    [budget] = [number for number, line in enumerate(lines) if line.startswith("people ")]
    assert "12.5" in lines[budget]
    told = [line for line in lines[budget + 1 : budget + 3] if line.startswith("  'people': raised to ε = ")]
    assert [line.partition(": raised to ")[2].partition(" on ")[0] for line in told] == [
        "ε = 11, δ = 0.002",
        "ε = 12.5, δ = 0.002",
    ]
    assert [line.rpartition(": ")[2] for line in told] == ["Twelve more months", "A new column"]
    [row] = desk(*command, "--json").json["datasets"]
    assert (row["epsilon_budget"], row["delta_budget"]) == (12.5, 0.002)
    assert [(one["epsilon"], one["delta"], one["reason"], one["position"]) for one in row["raises"]] == [
        (11.0, 0.002, "Twelve more months", 2),
        (12.5, 0.002, "A new column", 3),
    ]
    assert all(one["by"] in line and one["day"] in line for one, line in zip(row["raises"], told, strict=True))


@pytest.mark.parametrize("command", [("dataset", "list"), ("ledger", "show")])
def test_what_is_left_is_shown_rounded_down(desk, command) -> None:
    """To the nearest, or up as what is spent, it would be 0.123457 and 0.000123457: more than there is."""
    leave(desk, "0.1234569", "0.0001234569")
    lines = desk(*command).out.splitlines()
    assert lines[1].split() == ["data", "set", "ε", "spent", "of", "left", "δ", "spent", "of", "left"]
    [row] = [line.split() for line in lines if line.startswith("people ")]
    assert len(row) == 7
    assert (row[3], row[6]) == ("0.123456", "0.000123456")
    [data] = desk(*command, "--json").json["datasets"]
    assert (data["epsilon_left"], data["delta_left"]) == (0.1234569, 0.0001234569)


@pytest.mark.parametrize("left", ["0.29999999999999999", "0.123456999999999999999"])
def test_what_is_left_as_a_double_is_never_more_than_there_is(desk, left) -> None:
    """The double that lies nearest is written as 0.3, or as 0.123457."""
    leave(desk, left, "0")
    [data] = desk("dataset", "list", "--json").json["datasets"]
    assert Decimal(repr(data["epsilon_left"])) <= Decimal(left)
    assert data["epsilon_left"] == pytest.approx(float(left), rel=1e-12)
    [row] = [line.split() for line in desk("dataset", "list").out.splitlines() if line.startswith("people ")]
    assert Decimal(row[3]) <= Decimal(left)
