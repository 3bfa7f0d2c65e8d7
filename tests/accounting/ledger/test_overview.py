"""At a glance the small data sets have their estimates first, within the work allowed; asked for all, all have them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from crowdblend.accounting.ledger import overview

pytestmark = pytest.mark.slow


@pytest.fixture
def three(sqlite_books):
    """One data set with five releases, one with two, and one with none."""
    books = sqlite_books
    for name, count in (("a-large", 5), ("b-small", 2), ("c-empty", 0)):
        books.add(name)
        for number in range(count):
            books.charge(f"{name}-{number}", dataset=name)
    return books


def estimated(books, *, latest: int | None) -> list[str]:
    with books.reader() as reader:
        seen = reader.overview(latest=latest)
    assert [known.state.name for known in seen.datasets] == ["a-large", "b-small", "c-empty"]
    for known in seen.datasets:
        assert known.epsilon_estimate is None or known.epsilon_estimate <= known.state.account.epsilon_spent
    return [known.state.name for known in seen.datasets if known.epsilon_estimate is not None]


@pytest.mark.parametrize(
    ("work", "names"),
    [
        (0, ["c-empty"]),
        (1, ["c-empty"]),
        (2, ["b-small", "c-empty"]),
        (6, ["b-small", "c-empty"]),
        (7, ["a-large", "b-small", "c-empty"]),
    ],
)
def test_the_work_at_a_glance_goes_to_the_smallest_first(three, monkeypatch, work, names) -> None:
    monkeypatch.setattr(overview, "MOST_WORK_AT_A_GLANCE", work)
    assert estimated(three, latest=3) == names
    assert estimated(three, latest=None) == ["a-large", "b-small", "c-empty"]


def test_different_mechanisms_are_more_work_than_runs_of_one(three, monkeypatch) -> None:
    """Two releases of two kinds are work of 4: within it by their number, past it by their work."""
    from crowdblend.accounting.kernel.prices.registry import price
    from crowdblend.mechanisms.kinds.answers import CountAnswer

    answer = CountAnswer(epsilon=Decimal("0.1"), relation="add/remove", groups=1, sampling_rate=None)
    three.add("a-mixed")
    three.charge("one", dataset="a-mixed")
    three.charge("two", dataset="a-mixed", mechanism=answer, price=price(answer, delta=Decimal(0)), epsilon_paper=None)
    monkeypatch.setattr(overview, "MOST_WORK_AT_A_GLANCE", 3)
    with three.reader() as reader:
        seen = {known.state.name: known.epsilon_estimate for known in reader.overview(latest=3).datasets}
    assert seen["a-mixed"] is None
    assert seen["b-small"] is not None
