"""What every kind is made of: forms of records, prices and requests at their bounds, and steps of a filter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

import pytest
from crowdblend.accounting.descriptions.kind_description import CELLS, Published
from crowdblend.accounting.kernel.prices.mechanism_kind import Price, RecordForm, check_records, check_request
from crowdblend.accounting.kernel.prices.registry import not_covered
from crowdblend.accounting.kinds.composition.composed import (
    filter_parts_of_one,
    no_filter_parts,
    not_composed,
    pure_filter_parts,
)
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE, MOST_RECORDS, REPLACEMENT, Mechanism, Relation
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.deletion import CalibratedDeletion, DeletionRelease, SelectedDeletion
from crowdblend.mechanisms.kinds.deletion_noise import GeometricDeletion
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, ExponentialSafeRelease, StronglySafeRelease
from crowdblend.mechanisms.kinds.mixed_series import series_of_parts


@dataclass(frozen=True, kw_only=True)
class Inner(Mechanism):
    kind = "inner"
    share: Decimal | None


@dataclass(frozen=True, kw_only=True)
class Outer(Mechanism):
    kind = "outer"
    whole: int
    amount: Decimal
    text: str
    seed: bytes
    relation: Relation
    held: Inner


OUTER = Outer(whole=3, amount=Decimal("0.50"), text="a", seed=b"\x00\xff", relation=REPLACEMENT, held=Inner(share=None))
WRITTEN = {"whole": 3, "amount": "0.50", "text": "a", "seed": "00ff", "relation": REPLACEMENT, "share": "whole"}
FORM = RecordForm(mechanism=Outer, nested={"held": Inner})


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("whole", ["3", 3.0, True, None]),
        ("amount", [3, "", "1.", ".5", "+1", "1e3", "1E", " 1", "NaN", None]),
        ("share", [3, "all", "Whole", None]),
        ("text", [3, None, b"a"]),
        ("seed", ["", "0", "0g", "FF", "00" * 65, 0, None]),
        ("relation", ["", "add/remove ", None, 1]),
    ],
)
def test_a_value_of_another_form_is_refused(field, values):
    assert FORM.read("outer/1", WRITTEN | {"kind": "outer/1"}) == OUTER
    for value in values:
        with pytest.raises(InputRefused, match="out of range"):
            FORM.read("outer/1", WRITTEN | {"kind": "outer/1", field: value})


PRICE = {"epsilon": Decimal(0), "delta": Decimal(0), "relation": ADD_REMOVE, "rule": "r/1", "releases": 1}


def test_a_price_out_of_range_cannot_be_made():
    assert Price(**PRICE).rows_per_person == 1
    assert Price(**PRICE | {"delta": Decimal("0.999"), "rows_per_person": 1}).releases == 1
    for change in (
        {"epsilon": Decimal("-0.5")},
        {"epsilon": Decimal("inf")},
        {"epsilon": Decimal("nan")},
        {"delta": Decimal("-0.5")},
        {"delta": Decimal(1)},
        {"delta": Decimal("1.5")},
        {"releases": 0},
        {"rows_per_person": 0},
        {"rows_per_person": -1},
    ):
        with pytest.raises(ValueError, match=r"must|at least"):
            Price(**PRICE | change)


def test_what_is_asked_for_must_be_within_its_bounds():
    check_request(Decimal("0.999"), 1)
    check_request(Decimal("1e-300"), 5)
    for delta in ("0", "1", "1.5", "-0.5", "nan", "inf"):
        with pytest.raises(InputRefused, match="strictly between 0 and 1"):
            check_request(Decimal(delta), 1)
    for releases in (0, -1):
        with pytest.raises(InputRefused, match="number of releases"):
            check_request(Decimal("0.5"), releases)
    check_records(1)
    check_records(MOST_RECORDS)
    for records in (0, -1, MOST_RECORDS + 1):
        with pytest.raises(InputRefused, match="records of a person"):
            check_records(records)


def test_steps_of_a_filter_are_those_of_one_record_or_refused():
    parts = filter_parts_of_one(lambda mechanism: (mechanism,))
    assert parts(OUTER, 1) == (OUTER,)
    with pytest.raises(InputRefused, match="one record of a person, not for up to 2"):
        parts(OUTER, 2)
    with pytest.raises(InputRefused, match="no place in a filter budget: this mechanism's losses are not composed"):
        filter_parts_of_one(not_composed)(OUTER, 1)
    with pytest.raises(InputRefused, match="no place in a filter budget: it is late"):
        no_filter_parts("it is late")(OUTER, 1)
    asked = []

    def price_of(*request):
        asked.append(request)
        return Price(**PRICE | {"epsilon": Decimal(2)})

    (step,) = pure_filter_parts(price_of)(OUTER, 3)
    assert (step.epsilon, step.delta) == (2, 0)
    assert asked == [(OUTER, Decimal(0), 1, 3)]
    assert Published("count", "counts", "") == CELLS


SAFE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
CHOSEN = EpsilonSafeRelease(
    k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.1"), selection_rate=Decimal("0.05")
)
NOISE = GeometricDeletion(epsilon=Decimal("0.5"), width=19)
KEPT = DeletionRelease(stages=2, k=5, noise=NOISE)
DRAWN = SelectedDeletion(stages=2, k=5, noise=NOISE, selection_epsilon=Decimal("0.1"))
WEIGHED = CalibratedDeletion(stages=2, k=5, noise=NOISE, margins=3, margin_scale=Decimal(9), margin_width=60)


@pytest.mark.parametrize("registered", [SAFE, CHOSEN, KEPT, DRAWN, WEIGHED], ids=lambda one: type(one).__name__)
def test_what_is_covered(registered):
    assert not_covered(registered, registered) is None
    assert not_covered(replace(registered, k=registered.k + 1), registered) is None
    assert "below the registered" in not_covered(replace(registered, k=registered.k - 1), registered)
    if isinstance(registered, StronglySafeRelease | EpsilonSafeRelease):
        less, more = (replace(registered, sampling_rate=Decimal(rate)) for rate in ("0.0999", "0.1001"))
        assert not_covered(less, registered) is None
        assert not_covered(replace(less, k=40), registered) is None
        assert "above the registered" in not_covered(more, registered)
        # Whose profile is far below is not covered either.
        assert not_covered(replace(more, k=80), registered) is not None
        assert not_covered(replace(less, k=19), registered) is not None


def test_a_choice_of_any_draw_pays_for_an_exponential_one_and_not_the_other_way_round():
    fields = {name: getattr(CHOSEN, name) for name in ("k", "sampling_rate", "selection_epsilon", "selection_rate")}
    drawn = ExponentialSafeRelease(**fields, selection_draws=1)
    assert not_covered(drawn, CHOSEN) is None
    assert not_covered(CHOSEN, drawn) == "another kind of mechanism"


def test_what_else_differs_is_not_covered():
    for mechanism, registered in (
        (replace(CHOSEN, selection_epsilon=Decimal("0.09")), CHOSEN),
        (replace(CHOSEN, selection_rate=Decimal("0.04")), CHOSEN),
        (replace(CHOSEN, selection_rate=None), CHOSEN),
        (replace(KEPT, stages=1), KEPT),
        (replace(KEPT, noise=GeometricDeletion(epsilon=Decimal("0.4"), width=19)), KEPT),
        (replace(WEIGHED, margins=2), WEIGHED),
        (replace(DRAWN, selection_epsilon=Decimal("0.05")), DRAWN),
    ):
        assert "differs from what was registered" in not_covered(mechanism, registered)
    for mechanism, registered in ((SAFE, CHOSEN), (CHOSEN, SAFE), (KEPT, SAFE), (KEPT, WEIGHED), (WEIGHED, KEPT)):
        assert not_covered(mechanism, registered) == "another kind of mechanism"


def test_a_part_covers_what_is_run_in_its_places():
    mixed = series_of_parts([" 2 x k=20, rate=0.10", "3 x k = 50,rate=5e-2", "4 x epsilon=0.050"])
    assert mixed.parts == "2 x k=20,rate=0.1; 3 x k=50,rate=0.05; 4 x epsilon=0.05"
    assert [mixed.part_of(number) for number in range(1, 10)] == [1, 1, 2, 2, 2, 3, 3, 3, 3]
    assert [mixed.numbers(part) for part in (1, 2, 3)] == [range(1, 3), range(3, 6), range(6, 10)]
    with pytest.raises(ValueError, match="no part"):
        mixed.part_of(10)
    answer = CountAnswer(epsilon=Decimal("0.05"), relation=ADD_REMOVE, groups=3, sampling_rate=None)
    fifty = StronglySafeRelease(k=50, sampling_rate=Decimal("0.05"))
    for mechanism, number, reason in (
        *((one, place, None) for one, place in ((SAFE, 2), (fifty, 1), (fifty, 3), (answer, 9))),
        # On a sample it costs less: ln(1 + 0.1(e^0.4 - 1)) is 0.0481, and 0.0513 of 0.425.
        (replace(answer, epsilon=Decimal("0.4"), sampling_rate=Decimal("0.1")), 6, None),
        (replace(answer, epsilon=Decimal("0.425"), sampling_rate=Decimal("0.1")), 6, "above the registered"),
        (SAFE, 3, "k = 20 is below the registered 50"),
        (replace(answer, epsilon=Decimal("0.0501")), 6, "above the registered 0.05"),
        (replace(answer, relation=REPLACEMENT, epsilon=Decimal("0.01")), 6, "replacement"),
        (answer, 1, "another kind of mechanism"),
        (fifty, 6, "no answer whose price has no delta"),
    ):
        told = not_covered(mechanism, mixed, number=number)
        assert (told is None) if reason is None else reason in told, mechanism
    assert not_covered(SAFE, mixed) is None, "where no place is said, it is the first"
