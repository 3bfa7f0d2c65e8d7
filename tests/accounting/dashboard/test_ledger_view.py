"""Pages of a small ledger without a server: what they show follows from the signed chain, and no fault shows more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import pytest
from crowdblend.accounting.dashboard.views.pictures import curve_of
from crowdblend.accounting.dashboard.views.state import DashboardState, Follower, PageRequest, PublicationDelay
from crowdblend.accounting.dashboard.work import PENDING, ChainState, JobQueue
from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.kernel.ledger.entries import FilterAccounting, ReleaseCharged
from crowdblend.accounting.kernel.ledger.snapshot import ForgedState, bytes_of_state
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.kinds.composition.renyi_filter import RULE, FilterTerms
from crowdblend.accounting.ledger.charge_request import SeriesRegistration
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.ledger.ledger_writer import dataset_entry
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from support.charging import ReleaseCharge

DELTA = Decimal("1e-6")
MECHANISM = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
TERMS = FilterTerms(
    epsilon=Decimal("0.48"), delta=DELTA, order=Decimal(37), tail_delta=Decimal("1e-7"), tail_each=Decimal("5e-9")
)
PRIVATE = "a record's value"


@pytest.fixture(scope="module")
def small(town_of, tmp_path_factory) -> Any:
    """An additive data set and a filter one, with a series that paid for the one release of the latter."""
    made = town_of(tmp_path_factory.mktemp("small"))
    create_where_none(SigningKeys(home=made.home), lambda size: b"\x2a" * size)
    create_ledger(made.ledger, anchoring=made.anchoring)
    day = datetime.now(UTC).date()
    accounting = FilterAccounting(
        rule=RULE,
        order=TERMS.order,
        tail_delta=TERMS.tail_delta,
        tail_each=TERMS.tail_each,
        allowance=TERMS.allowance,
    )
    common: dict[str, Any] = {
        "dataset": "filtered",
        "mechanism": MECHANISM,
        "price": price(MECHANISM, delta=DELTA, releases=2),
        "epsilon_paper": paper_price(MECHANISM, delta=DELTA, releases=2).epsilon,
        "spec_digest": "a" * 64,
        "map_digest": "b" * 64,
        "day": day,
    }
    budget: dict[str, Any] = {
        "delta": DELTA,
        "relation": "add/remove",
        "survey_rate": None,
        "rows_per_person": 1,
        "by": "steward",
        "day": day,
    }
    with made.writer() as writer:
        writer.add_dataset(dataset_entry(name="people", epsilon=Decimal(2), **budget))
        writer.add_dataset(dataset_entry(name="filtered", epsilon=TERMS.epsilon, accounting=accounting, **budget))
        writer.register_series(SeriesRegistration(series="monthly", **common))
        writer.charge(
            ReleaseCharge(
                release_id="monthly-1",
                label="monthly",
                sample_id="7" * 64,
                code_version="0.1.0",
                sampler_layout="chacha20-byte-first/1",
                series="monthly",
                series_digest="a" * 64,
                **common,
            )
        )
    return made


@pytest.fixture(scope="module")
def pages(small, opened) -> Iterator[Any]:
    """Its pages, whose chain nobody has verified yet."""
    shown = opened(small.ledger)
    yield shown
    end(shown)


def end(shown: Any) -> None:
    """Give back what pages have that were never begun."""
    state = state_of(shown)
    for part in (state.queue, state.calculator, state.store):
        part.close()
    shown.loop.run_until_complete(shown.loop.shutdown_default_executor())
    shown.loop.close()


def state_of(pages: Any) -> DashboardState:
    state: DashboardState = pages.pages._inner.state.dashboard
    return state


FORGERIES = {
    "an entry that is gone": ("DELETE FROM entry WHERE position = 1", "entry 1 is missing"),
    "an entry that is no text": ("UPDATE entry SET body = x'00ff' WHERE position = 2", "entry 2 can't be read"),
    "another mechanism": (
        "UPDATE entry SET body = json_set(body, '$.mechanism', 7) WHERE body LIKE '%\"kind\":\"series-%'",
        "entry 3 can't be read",
    ),
    "another word": (
        "UPDATE entry SET body = replace(body, 'steward', 'stranger') WHERE position = 1",
        "the signed state of the ledger is not what follows from its entries",
    ),
    "another account": ("UPDATE snapshot SET state = replace(state, '0.48', '0.47')", "no signature holds"),
    "no snapshot": ("DELETE FROM snapshot", "no signature holds"),
    "no last entry": ("DELETE FROM entry WHERE position = 4", "no signature holds"),
}


@pytest.mark.parametrize("forged", FORGERIES)
def test_what_does_not_follow_from_the_signed_chain_is_followed_by_nobody(small, tmp_path, forged) -> None:
    statement, told = FORGERIES[forged]
    copy = small.copy(tmp_path / "copy")
    copy.past_the_guards(statement)
    follower = Follower(PublicationDelay(minutes=0.0))
    for ledger in (copy, small):
        store = open_store(ledger.ledger, read_only=True)
        with store.reading() as connection:
            if ledger is copy:
                with pytest.raises(ForgedState, match=f"^{told}.*changed past its own programs.*ledger verify"):
                    follower.follow(connection)
            else:
                assert list(follower.follow(connection).state.series) == ["monthly"]
        store.close()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE entry SET body = replace(body, 'steward', 'stranger') WHERE position = 1", "entry 1 was changed"),
        ("UPDATE entry SET body = x'00ff' WHERE position = 1", "entry 1 was changed"),
        ("DELETE FROM entry WHERE position = 1", "entry 1 is missing"),
    ],
)
def test_an_entry_that_was_changed_after_it_was_followed_is_not_shown(
    small, opened, tmp_path, monkeypatch, statement, told
) -> None:
    monkeypatch.setattr(JobQueue, "ask", lambda *_, **__: PENDING)
    copy = small.copy(tmp_path / "copy")
    pages = opened(copy.ledger)
    assert pages.get("/api/v1/entries/1").status_code == 200
    copy.past_the_guards(statement)
    for path in ("/api/v1/entries/1", "/api/v1/verification", "/api/v1/datasets/1"):
        answer = pages.get(path)
        assert (answer.status_code, told in answer.text, "stranger" in answer.text) == (409, True, False), path
    assert pages.get("/api/v1/entries/2").status_code == 200
    end(pages)


def test_a_page_keeps_the_state_that_it_began_with(small, tmp_path) -> None:
    copy = small.copy(tmp_path / "copy")
    follower, store = Follower(PublicationDelay(minutes=0.0)), open_store(copy.ledger, read_only=True)
    with store.reading() as connection:
        before = follower.follow(connection)
        told = bytes_of_state(before.state)
    copy.charge("people-later")
    with store.reading() as connection:
        after = follower.follow(connection)
    assert bytes_of_state(before.state) == told != bytes_of_state(after.state)
    assert (before.state.head.position, after.state.head.position, len(after.links)) == (4, 5, 6)
    assert after.state.datasets["people"].releases == ["people-later"]
    store.close()


def test_an_entry_of_another_kind_than_the_state_says_is_shown_as_none(small, pages) -> None:
    with (
        state_of(pages).page_request() as page_request,
        pytest.raises(ForgedState, match="entry 1 is of another kind than the state says"),
    ):
        page_request.entries_of(ReleaseCharged, [1])


def test_a_record_of_a_later_version_has_no_curve() -> None:
    queue = cast("JobQueue", None)  # asks nobody
    curve = curve_of({"kind": "later-kind/9"}, rows_per_person=1, delta="1e-6", queue=queue)
    assert (curve.points, curve.why_not) == ((), "No curve is known for this kind of mechanism.")


def test_a_release_that_its_series_paid_for_takes_what_the_series_took_and_foretells_none(pages, monkeypatch) -> None:
    monkeypatch.setattr(JobQueue, "ask", lambda *_, **__: PENDING)  # no curve is computed
    told = pages.get("/api/v1/releases/monthly-1").json()
    assert told["filter_share"].endswith("fixed with the budget before the first release.")
    assert "The series 'monthly' as a whole took" in told["filter_share"]
    overview = pages.get("/api/v1/overview").json()["datasets"]
    position = next(row["position"] for row in overview if row["dataset"] == "filtered")
    assert pages.get(f"/api/v1/datasets/{position}").json()["next_release"] is None


def test_a_forecast_without_rows_is_an_empty_table(pages) -> None:
    answer = pages.get("/csv/datasets/1/forecast?calendars=nonsense")
    assert (answer.status_code, answer.text) == (200, "")


def test_entries_past_the_last_verification_ask_for_another(pages) -> None:
    watch = state_of(pages).watch
    for verified_to, asked in ((4, False), (3, True)):
        watch._state = ChainState(verdict="sound", verified_to=verified_to)
        watch._wanted.clear()
        frame = pages.get("/api/v1/samples").json()["frame"]
        assert (frame["not_verified"], watch._wanted.is_set()) == (4 - verified_to, asked)


@pytest.mark.parametrize(
    ("verdict", "status", "told"),
    [
        ("unknown", 409, "What it holds here can't be read."),
        ("sound", 500, "The last verification found no fault in the ledger; it is verified once more."),
    ],
)
def test_a_fault_of_a_page_asks_for_a_verification_and_shows_nothing_of_itself(
    pages, monkeypatch, verdict, status, told
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(PRIVATE)

    watch = state_of(pages).watch
    watch._state = ChainState(verdict=verdict)
    watch._wanted.clear()
    pages.events.clear()
    monkeypatch.setattr(PageRequest, "releases", fail)
    answer = pages.get("/api/v1/samples")
    assert (answer.status_code, answer.json()["error"]["why"]) == (status, told)
    assert watch._wanted.is_set()
    assert {"event": "not sound", "kind": "ValueError", "verdict": verdict}.items() <= pages.events[0].items()
    assert PRIVATE not in answer.text + str(pages.events)
