"""A data set's account after each change is what follows from the entries up to there."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal
from typing import Any

from crowdblend.accounting.dashboard.views.pictures import changes_of
from crowdblend.accounting.dashboard.views.state import Followed
from crowdblend.accounting.kernel.ledger.entries import (
    BudgetRaised,
    ChargedPrice,
    DataAccess,
    DatasetAdded,
    ReleaseAbandoned,
    ReleaseCharged,
    SeriesPlace,
    SeriesRegistered,
)
from hypothesis import given, settings
from hypothesis import strategies as st

DAY = date(2026, 1, 1)
PAPERS = (Decimal("0.25"), Decimal("1.5"), None)
SIGNED = {"by": "steward", "day": DAY}
steps = st.lists(st.tuples(st.sampled_from("csprax"), st.integers(0, 1), st.sampled_from(PAPERS)), max_size=14)


def charge(name: str, k: int, paper: Decimal | None, *, releases: int = 1) -> dict[str, Any]:
    price = ChargedPrice(
        epsilon=Decimal("0.1") * k, delta=Decimal("1e-9"), rule="rule/1", relation="add/remove", releases=releases
    )
    digests = {"spec_digest": "a" * 64, "map_digest": "b" * 64}
    return {"dataset": name, "mechanism": (("k", k),), "price": price, "epsilon_paper": paper, "day": DAY, **digests}


def release(number: int, of: dict[str, Any], series: SeriesPlace | None) -> ReleaseCharged:
    return ReleaseCharged(
        release_id=f"release-{number}", label="x", sample_id=f"{number:064x}", code_version="1", sampler_layout="x/1",
        series=series, **of,
    )  # fmt: skip


@settings(derandomize=True, max_examples=150, deadline=None)
@given(steps=steps, most=st.integers(2, 20))
def test_every_change_is_the_state_after_its_entry(steps, most) -> None:
    followed = Followed()
    state, open_releases = followed.state, []
    paid: Counter = Counter()
    papers: list[Decimal | None] = []
    told: dict[int, tuple] = {}

    def fold(entry: object, *, changes: bool = True) -> None:
        state.apply(entry, f"{state.head.position + 2:064x}")
        if changes:
            paper = None if None in papers else sum(papers, Decimal(0))
            told[state.head.position] = (state.datasets["people"].account, +paid, paper)

    budget = {"delta": Decimal("0.1"), "relation": "add/remove", "survey_rate": None, "rows_per_person": 1, **SIGNED}
    for name in ("others", "people"):
        fold(DatasetAdded(dataset=name, epsilon=Decimal(9), **budget), changes=name == "people")
    for number, (step, which, paper) in enumerate(steps):
        k = 20 + which
        if step in "cx":
            own = charge("people" if step == "c" else "others", k, paper)
            if step == "c":
                paid[own["mechanism"]] += 1
                papers.append(paper)
                open_releases.append((f"release-{number}", own["mechanism"], paper))
            followed.own[f"release-{number}"] = (own["mechanism"], paper)
            fold(release(number, own, None), changes=step == "c")
        elif step == "s":
            whole = charge("people", k, paper, releases=12)
            paid[whole["mechanism"]] += 12
            papers.append(paper)
            fold(SeriesRegistered(series=f"series-{number}", **whole))
            taken = SeriesPlace(name=f"series-{number}", number=1, spec_digest="a" * 64)
            fold(release(number, whole, taken), changes=False)
        elif step == "r":
            fold(
                BudgetRaised(dataset="people", epsilon=Decimal(10 + number), delta=Decimal("0.2"), reason="x", **SIGNED)
            )
        elif step == "p":
            fold(DataAccess(dataset="people", what="x", **SIGNED), changes=False)
        elif open_releases:
            name, mechanism, back = open_releases.pop()
            paid[mechanism] -= 1
            papers.append(None if back is None else -back)
            fold(ReleaseAbandoned(release_id=name, reason="x", refunded=True, **SIGNED))
    changes, in_all = changes_of(followed, state.datasets["people"], most=most)
    assert in_all == len(told)
    places = sorted(told)
    assert (changes[0].position, changes[-1].position) == (places[0], places[-1])
    assert len(changes) <= max(2, most)
    for change in changes:
        assert change.position == places[change.change]
        assert (change.account, change.paid, change.paper) == told[change.position]
