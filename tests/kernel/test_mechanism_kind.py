"""What every kind is made of: forms of records, prices and requests at their bounds, and steps of a filter."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal

import pytest
from crowdblend.accounting import kinds
from crowdblend.accounting.descriptions.kind_description import CELLS, Published
from crowdblend.accounting.kernel.prices.mechanism_kind import Price, RecordForm, check_records, check_request
from crowdblend.accounting.kinds.composition.composed import (
    filter_parts_of_one,
    no_filter_parts,
    not_composed,
    pure_filter_parts,
)
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE, MOST_RECORDS, REPLACEMENT, Mechanism, Relation

GIVEN_BY_PLACE = {"_Form", "_Group"}


def dataclasses_of_kinds():
    for found in pkgutil.iter_modules(kinds.__path__):
        module = importlib.import_module(f"{kinds.__name__}.{found.name}")
        yield from (one for one in vars(module).values() if is_dataclass(one) and one.__module__ == module.__name__)


def test_what_a_kind_says_is_fixed_and_given_by_name():
    found = list(dataclasses_of_kinds())
    assert len(found) >= 1
    for one in found:
        assert one.__dataclass_params__.frozen, one
        assert "__slots__" in vars(one), one
        assert {field.kw_only for field in fields(one)} == {one.__name__ not in GIVEN_BY_PLACE}, one


@dataclass(frozen=True, kw_only=True)
class Inner(Mechanism):
    kind = "inner"
    share: Decimal | None


@dataclass(frozen=True, kw_only=True)
class Other(Inner):
    kind = "other"


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
FORMS = {
    "nested": (RecordForm(mechanism=Outer, nested={"held": Inner}), WRITTEN),
    "shaped": (
        RecordForm(mechanism=Outer, shapes={"held": {"one": Inner, "two": Other}}),
        WRITTEN | {"held": "one"},
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_record_is_written_flat_and_read_back(name):
    form, written = FORMS[name]
    assert form.written(OUTER) == written
    record = written | {"kind": "outer/1"}
    assert form.read("outer/1", record) == OUTER
    assert form.describes(OUTER)
    assert not form.describes(OUTER.held)
    assert form.describes(Outer(**vars(OUTER) | {"held": Other(share=None)})) is (name == "shaped")
    some = Outer(**vars(OUTER) | {"held": Inner(share=Decimal("0.1"))})
    assert form.read("outer/1", form.written(some) | {"kind": "outer/1"}) == some
    for field in record:
        with pytest.raises(InputRefused, match=r"a outer/1 record has"):
            form.read("outer/1", {key: record[key] for key in record if key != field})
    with pytest.raises(InputRefused, match="has the fields"):
        form.read("outer/1", record | {"more": 1})


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
    form, written = FORMS["nested"]
    for value in values:
        with pytest.raises(InputRefused, match="out of range"):
            form.read("outer/1", written | {"kind": "outer/1", field: value})


def test_values_at_the_ends_of_their_forms_are_read():
    form, written = FORMS["nested"]
    for change in ({"amount": "-1.5E-7"}, {"amount": "2E+10"}, {"seed": "ab" * 64}, {"relation": ADD_REMOVE}):
        form.read("outer/1", written | {"kind": "outer/1"} | change)


def test_a_shape_is_one_that_the_form_names():
    form, written = FORMS["shaped"]
    record = written | {"kind": "outer/1"}
    assert form.read("outer/1", record | {"held": "two"}) == Outer(**vars(OUTER) | {"held": Other(share=None)})
    for shape in ("three", 1, None):
        with pytest.raises(InputRefused, match="has held one or two"):
            form.read("outer/1", record | {"held": shape})


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
