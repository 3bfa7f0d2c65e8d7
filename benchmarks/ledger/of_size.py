"""A sound ledger of any size, quickly: entries that are checked as they are made, written in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from itertools import count

from crowdblend.accounting.kernel.ledger.entries import (
    DatasetAdded,
    Entry,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesPlace,
    sorted_fields,
)
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState
from crowdblend.accounting.kernel.ledger.transactions import writing
from crowdblend.accounting.kernel.prices.mechanism_kind import Price
from crowdblend.accounting.kernel.prices.registry import mechanism_record, paper_price, price
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.ledger.charge_request import SeriesRegistration, charged_price
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

__all__ = ["charge_of", "grow"]

DELTA = Decimal("1e-6")
FIRST_DAY = date(2026, 1, 1)
MECHANISMS = tuple(
    StronglySafeRelease(k=k, sampling_rate=Decimal(rate)) for k in (20, 25, 30, 40) for rate in ("0.05", "0.1")
)
DATASETS = tuple(f"population-{number}" for number in range(10))
RELEASES_OF_A_SERIES = 52


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What a mechanism costs, by the exact price and by the paper's."""

    price: Price
    paper: Decimal | None


@cache
def cost_of(mechanism: StronglySafeRelease, releases: int = 1) -> Cost:
    """The price of releases of a mechanism together."""
    paper = paper_price(mechanism, delta=DELTA, releases=releases)
    return Cost(
        price=price(mechanism, delta=DELTA, releases=releases),
        paper=None if paper is None else paper.epsilon,
    )


def digest(text: str) -> str:
    """64 hexadecimal digits that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def charge_of(number: int, *, label: str = "release", place: SeriesPlace | None = None) -> ReleaseCharged:
    """The charge of release `number` among those with a label, at its place in a series where one is named."""
    mechanism = MECHANISMS[0 if place else number % len(MECHANISMS)]
    cost = cost_of(mechanism, RELEASES_OF_A_SERIES if place else 1)
    return ReleaseCharged(
        release_id=f"{label}-{number}",
        label=f"quarterly table {number % 40}",
        dataset=DATASETS[0 if place else number // 5 % len(DATASETS)],
        sample_id=digest(f"{label} sample {number}"),
        mechanism=sorted_fields(mechanism_record(mechanism)),
        price=charged_price(cost.price),
        epsilon_paper=cost.paper,
        spec_digest=digest(f"specification {number}"),
        map_digest=digest("map"),
        code_version="0.1.0",
        sampler_layout="chacha20-byte-first/1",
        day=FIRST_DAY + timedelta(days=number // 100),
        series=place,
    )


def grow(url: str, *, anchoring: Anchoring, entries: int) -> None:
    """Bring a ledger that is empty, or that this function made, to a number of entries.

    Two of five releases are of series of 52; of twenty, one is given up unread, one while it is read, and one more is
    refused; the others are published.

    Args:
        url: of the ledger.
        anchoring: of the ledger; its last head is anchored.
        entries: how many entries it shall have.

    Raises:
        RuleBroken: an entry breaks a rule of the ledger.
    """
    store = open_store(url, read_only=False)
    try:
        with writing(store, anchoring) as ledger:
            if store.dialect == "sqlite":  # else each page of an index is written for each row
                ledger.connection.exec_driver_sql("PRAGMA cache_size = -400000")
            following = _story(ledger.state)
            while ledger.state.head.position + 1 < entries:
                recorded = next(following)
                ledger.append(recorded)
    finally:
        store.close()


def _story(state: LedgerState) -> Iterator[Entry]:
    """Entries without end, each allowed after those before it, continuing those of a state."""
    for name in DATASETS:
        if name not in state.datasets:
            yield _dataset(name)
    for number in count(len(state.releases)):
        yield from _release(number, state)


def _dataset(name: str) -> DatasetAdded:
    return DatasetAdded(
        dataset=name,
        epsilon=Decimal(10**6),
        delta=Decimal("0.9"),
        relation="add/remove",
        survey_rate=None,
        rows_per_person=1,
        by="steward",
        day=FIRST_DAY,
    )


def _release(number: int, state: LedgerState) -> Iterator[Entry]:
    if number % 5 > 2:
        place = (number // 5) * 2 + number % 5 - 3
        series = f"weekly-{place // RELEASES_OF_A_SERIES}"
        if series not in state.series:
            yield _series(series)
        own = {"name": series, "number": place % RELEASES_OF_A_SERIES + 1, "spec_digest": digest("series")}
        charge = charge_of(number, place=SeriesPlace(**own))
    else:
        charge = charge_of(number)
    yield charge
    release_id = charge.release_id
    end = {"release_id": release_id, "by": "operator", "day": charge.day}
    if number % 20 == 1:
        yield ReleaseAbandoned(reason="the source was not there", refunded=True, **end)
        return
    yield ReleaseReading(release_id=release_id)
    if number % 20 == 6:
        yield ReleaseAbandoned(reason="the key was lost", refunded=False, **end)
        return
    yield ReleasePublished(release_id=release_id, output_hashes=(("data.parquet", digest(f"output {number}")),))
    if number % 20 == 11:
        yield ReleaseRefused(
            release_id=release_id,
            dataset=charge.dataset,
            cause="release-known",
            reason="this release id is in the ledger already (published).",
            day=charge.day,
        )


def _series(name: str) -> Entry:
    cost = cost_of(MECHANISMS[0], RELEASES_OF_A_SERIES)
    return SeriesRegistration(
        series=name,
        dataset=DATASETS[0],
        mechanism=MECHANISMS[0],
        price=cost.price,
        epsilon_paper=cost.paper,
        spec_digest=digest("series"),
        map_digest=digest("map"),
        day=FIRST_DAY,
    ).entry
