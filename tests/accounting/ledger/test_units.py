"""A budget covers one unit: the ledger refuses, and finds, releases that hide another one than its data set has."""

from __future__ import annotations

import pytest
from crowdblend.accounting.kernel.ledger.entries import DatasetUnit, ReleaseRefused
from crowdblend.accounting.ledger.charge_request import RECORDS
from crowdblend.mechanisms.kernel.contributions import LAYOUTS
from crowdblend.mechanisms.kernel.errors import AccountantRefused

WHO, HOME = DatasetUnit(name="person", column="who"), DatasetUnit(name="household", column="home")
OTHER_COLUMN = DatasetUnit(name="person", column="email")


def of_unit(unit: DatasetUnit) -> dict:
    layout = "chacha20-byte-first/1" if unit == RECORDS else LAYOUTS[unit.name]
    return {"unit": unit, "sampler_layout": f"{layout} csv-records/2"}


@pytest.mark.parametrize("fixed", [RECORDS, WHO, HOME], ids=str)
def test_a_data_set_pays_for_releases_of_its_own_unit_and_no_other(sqlite_books, fixed) -> None:
    books = sqlite_books
    books.add(unit=fixed)
    for number, unit in enumerate((RECORDS, WHO, HOME, OTHER_COLUMN)):
        if unit == fixed:
            books.look(unit=unit)
            books.charge(f"of-{number}", **of_unit(unit))
            continue
        said = f"the unit of all its releases is '{fixed}'"
        with pytest.raises(AccountantRefused, match=said):
            books.look(unit=unit)
        with pytest.raises(AccountantRefused, match=said) as told:
            books.charge("other", **of_unit(unit))
        assert told.value.cause == "unit-differs"
        assert ("who" if fixed == WHO else "home" if fixed == HOME else "--unit") in told.value.remedy
        with pytest.raises(AccountantRefused, match=said):
            books.register(f"series-{number}", unit=unit)
    assert books.findings() == []
    with books.reader() as reader:
        refusals = [one.entry for one in reader.entries() if isinstance(one.entry, ReleaseRefused)]
    assert {one.cause for one in refusals} == {"unit-differs"}


def test_a_recorded_release_of_another_unit_is_found_by_its_layout(sqlite_books) -> None:
    books = sqlite_books
    books.add(unit=WHO)
    books.charge("one", **of_unit(WHO))
    [fault] = books.faults(books.request("two", **of_unit(HOME)).entry)
    assert fault == "its unit is 'household', and that of dataset 'census' is 'person:who'"


def test_the_first_unit_that_is_charged_is_the_only_one_of_a_data_set_of_an_earlier_version(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    books.charge("one", **of_unit(WHO))
    for unit in (RECORDS, HOME):
        with pytest.raises(AccountantRefused, match="the unit of all its releases is 'person'"):
            books.charge("two", **of_unit(unit))
        with pytest.raises(AccountantRefused, match="the unit of all its releases is 'person'"):
            books.look(unit=unit)
    books.charge("two", **of_unit(WHO))
    books.abandon("two")
    assert books.findings() == []


def test_what_was_given_back_binds_no_unit(sqlite_books) -> None:
    books = sqlite_books
    books.add()
    books.charge("one", **of_unit(WHO))
    books.abandon("one")
    books.charge("two", **of_unit(RECORDS))
    with pytest.raises(AccountantRefused, match="is 'record'"):
        books.charge("three", **of_unit(WHO))


@pytest.mark.parametrize("text", ["person", "person:", "record:who", "family:home", "", "person: \n"])
def test_a_text_that_is_no_unit_is_refused(text) -> None:
    with pytest.raises(ValueError, match=r"unit|told by a column"):
        DatasetUnit.of_text(text)


def test_a_unit_is_read_as_it_is_shown() -> None:
    for unit in (RECORDS, WHO, HOME, DatasetUnit(name="person", column="a:b")):
        assert DatasetUnit.of_text(str(unit)) == unit
