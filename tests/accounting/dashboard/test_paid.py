"""What a data set has paid for at a place is the sum of its payments up to there."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from crowdblend.accounting.dashboard.views.ledger_follower import Payment, SpendIndex
from hypothesis import given, settings
from hypothesis import strategies as st

MECHANISMS = ((("k", 20),), (("k", 30),))
PAPERS = (Decimal("0.25"), Decimal("-0.25"), Decimal("1.5"), None)
payments = st.lists(st.tuples(st.sampled_from(MECHANISMS), st.integers(-1, 12), st.sampled_from(PAPERS)), max_size=12)


@settings(derandomize=True, max_examples=200)
@given(payments=payments, gap=st.integers(1, 3), place=st.integers(-1, 40))
def test_a_sum_looked_up_is_the_sum_counted(payments, gap, place) -> None:
    paid = SpendIndex()
    made = [
        Payment(position=1 + gap * number, mechanism=mechanism, releases=releases, epsilon_paper=paper)
        for number, (mechanism, releases, paper) in enumerate(payments)
    ]
    for payment in made:
        paid.take(payment)
    before = [payment for payment in made if payment.position <= place]
    counted: Counter = Counter()
    for payment in before:
        counted[payment.mechanism] += payment.releases
    assert paid.counted(up_to=place) == +counted
    papers = [payment.epsilon_paper for payment in before]
    assert paid.by_the_paper(up_to=place) == (None if None in papers else sum(papers, Decimal(0)))
