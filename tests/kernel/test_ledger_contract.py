"""What every ledger promises, on SQLite and on PostgreSQL."""

from __future__ import annotations

import dataclasses
from decimal import Context, Decimal

import pytest
from crowdblend.accounting.kernel.ledger.entries import ReleaseRefused
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused

FILES = (("data.csv", "c" * 64),)


def test_a_release_goes_from_charge_to_publication(books) -> None:
    books.add()
    receipt = books.charge()
    with books.writer() as writer, books.reader() as reader:
        state = reader.release("one")
        assert state is not None
        assert (state.stage, state.receipt, state.refunded) == ("charged", receipt, False)
        writer.mark_reading(receipt)
        assert reader.release("one").stage == "reading"
        writer.mark_published(receipt, FILES)
        state = reader.release("one")
        assert (state.stage, state.output_hashes) == ("published", FILES)
        assert state.charge.price.epsilon == books.price.epsilon
        assert reader.releases() == (state,)
        assert reader.release("another") is None
    assert books.kinds() == [
        "ledger-created/1",
        "dataset-added/1",
        "release-charged/1",
        "release-reading/1",
        "release-published/1",
    ]
    assert books.spent() == (books.price.epsilon, books.price.delta)
    assert books.findings() == []


def test_a_resumed_release_may_repeat_its_steps_and_changes_nothing(books) -> None:
    books.add()
    receipt = books.charge()
    with books.writer() as writer:
        writer.mark_reading(receipt)
        writer.mark_reading(receipt)
        writer.mark_published(receipt, FILES)
        writer.mark_published(receipt, FILES)
        with pytest.raises(AccountantRefused, match="published"):
            writer.mark_published(receipt, (("data.csv", "d" * 64),))
        with pytest.raises(AccountantRefused, match="published"):
            writer.mark_reading(receipt)
    assert len(books.kinds()) == 5
    assert books.findings() == []


def test_nothing_is_published_without_reading(books) -> None:
    books.add()
    with books.writer() as writer, pytest.raises(AccountantRefused, match="published without reading"):
        writer.mark_published(books.charge(), FILES)


def test_a_receipt_of_another_ledger_pays_for_nothing(books) -> None:
    books.add()
    receipt = books.charge()
    forged = [
        dataclasses.replace(receipt, ledger_id="0" * 64),
        dataclasses.replace(receipt, hash="0" * 64),
        dataclasses.replace(receipt, sample_id="0" * 64),
        dataclasses.replace(receipt, release_id="never-charged"),
    ]
    with books.writer() as writer:
        for receipt in forged:
            with pytest.raises(AccountantRefused, match="receipt"):
                writer.mark_reading(receipt)


def test_a_cost_is_given_back_only_where_nothing_was_read(books) -> None:
    books.add()
    books.charge("unread")
    assert books.abandon("unread") is True
    assert books.spent() == (0, 0)
    receipt = books.charge("read")
    with books.writer() as writer:
        writer.mark_reading(receipt)
    assert books.abandon("read") is False
    assert books.spent() == (books.price.epsilon, books.price.delta)
    for release_id in ("unread", "read"):
        with pytest.raises(AccountantRefused, match="abandoned"):
            books.abandon(release_id)
        with books.reader() as reader:
            assert reader.release(release_id).stage == "abandoned"
    assert books.findings() == []


def test_an_abandoned_release_keeps_its_id_and_its_sample(books) -> None:
    books.add()
    receipt = books.charge("first")
    books.abandon("first")
    with pytest.raises(AccountantRefused, match="in the ledger already"):
        books.charge("first", sample_id="9" * 64)
    with pytest.raises(AccountantRefused, match="sample was used by release 'first'"):
        books.charge("second", sample_id=receipt.sample_id)
    with books.writer() as writer, pytest.raises(AccountantRefused, match="closed before"):
        writer.mark_reading(receipt)
    assert books.findings() == []


def test_a_refusal_is_recorded_and_a_look_is_not(books) -> None:
    books.add(epsilon=books.price.epsilon / 2)
    with books.reader() as reader:
        with pytest.raises(AccountantRefused) as looked:
            books.look()
        assert len(books.kinds()) == 2
        with pytest.raises(AccountantRefused) as charged:
            books.charge()
        assert looked.value.what == charged.value.what
        last = list(reader.entries())[-1].entry
    assert isinstance(last, ReleaseRefused)
    assert (last.cause, last.release_id, last.reason) == ("over-budget", "one", str(charged.value))
    assert books.findings() == []
    assert books.spent() == (0, 0)


def test_the_refusal_says_what_the_numbers_are_and_what_to_do(books) -> None:
    books.add("census-2030", epsilon=books.price.epsilon)
    books.charge(dataset="census-2030")
    with pytest.raises(AccountantRefused) as refused:
        books.charge("two", dataset="census-2030")
    text = str(refused.value)
    assert text.startswith("dataset 'census-2030': this release would bring ε from 0.")
    assert ", past the budget 0." in text
    assert ". Nothing was read or published. " in text
    assert "ε = 0 and δ = 0.0009" in text
    assert text.endswith(" would fit. Or ask the data owner.")


def test_a_budget_may_be_spent_to_its_last_digit_and_no_further(books) -> None:
    epsilon, delta = books.price.epsilon, books.price.delta
    books.add("exact", epsilon=3 * epsilon, delta=3 * delta)
    less = Context(prec=150).subtract
    books.add("epsilon-short", epsilon=less(epsilon, Decimal("1e-30")), delta=Decimal("0.1"))
    books.add("delta-short", epsilon=Decimal(9), delta=less(delta, Decimal("1e-90")))
    for number in range(3):
        books.charge(f"exact-{number}", dataset="exact")
    assert books.spent("exact") == (3 * epsilon, 3 * delta)
    for name, symbol in (("exact", "ε"), ("epsilon-short", "ε"), ("delta-short", "δ")):
        with pytest.raises(AccountantRefused, match=f"bring {symbol} from"):
            books.charge(f"over-{name}", dataset=name)
    assert books.findings() == []


def test_a_raised_budget_lets_the_next_release_through(books) -> None:
    books.add(epsilon=books.price.epsilon)
    books.charge("one")
    with books.writer() as writer:
        for epsilon, delta in ((Decimal("0.01"), Decimal("0.001")), (books.price.epsilon, Decimal("0.001"))):
            with pytest.raises(InputRefused, match="only be raised"):
                writer.raise_budget(
                    name="census", epsilon=epsilon, delta=delta, reason="r", by="b", day=books.request().day
                )
        writer.raise_budget(
            name="census",
            epsilon=2 * books.price.epsilon,
            delta=Decimal("0.001"),
            reason="decided by the board",
            by="steward",
            day=books.request().day,
        )
    books.charge("two")
    assert books.spent()[0] == 2 * books.price.epsilon
    assert books.findings() == []


def test_a_survey_is_released_once_ever(books) -> None:
    books.add(survey_rate=Decimal("0.05"))
    books.charge("crashed-before-reading")
    with pytest.raises(AccountantRefused, match="can be released once"):
        books.charge("meanwhile")
    books.abandon("crashed-before-reading")
    receipt = books.charge("real")
    with books.writer() as writer:
        writer.mark_reading(receipt)
    assert books.abandon("real") is False
    with pytest.raises(AccountantRefused, match="can be released once"):
        books.look()
    with pytest.raises(AccountantRefused, match="can be released once"):
        books.charge("again")
    assert books.findings() == []


def test_a_price_for_another_neighbouring_relation_is_refused(books) -> None:
    books.add(relation="replacement")
    with pytest.raises(AccountantRefused, match="neighbouring relation"):
        books.charge()
    with pytest.raises(AccountantRefused, match="neighbouring relation"):
        books.look()


def test_a_price_for_one_record_a_person_does_not_cover_more(books) -> None:
    books.add(rows_per_person=3)
    with pytest.raises(AccountantRefused, match="3 records"):
        books.charge()


def test_a_price_that_is_not_the_mechanisms_is_refused(books) -> None:
    books.add()
    forged = dataclasses.replace(books.price, epsilon=books.price.epsilon * Decimal("0.999"))
    with pytest.raises(AccountantRefused, match="its mechanism's is"):
        books.charge(price=forged)
    with pytest.raises(AccountantRefused, match="the paper's"):
        books.charge("two", epsilon_paper=Decimal("0.01"))
    assert books.kinds()[-2:] == ["release-refused/1", "release-refused/1"]


def test_an_unknown_data_set_is_the_callers_mistake_and_is_not_recorded(books) -> None:
    with pytest.raises(InputRefused, match="dataset add"):
        books.look()
    with pytest.raises(InputRefused, match="dataset add"):
        books.charge()
    with pytest.raises(InputRefused, match="no such release"):
        books.abandon("one")
    assert books.kinds() == ["ledger-created/1"]


def test_a_data_set_is_added_once(books) -> None:
    books.add()
    with pytest.raises(InputRefused, match="in the ledger already"):
        books.add(epsilon=Decimal(99))
    with books.reader() as reader:
        assert [state.account.epsilon_budget for state in reader.datasets()] == [Decimal(10)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": Decimal(0)},
        {"epsilon": Decimal(-1)},
        {"epsilon": Decimal("NaN")},
        {"epsilon": Decimal("Infinity")},
        {"epsilon": Decimal("1e-101")},
        {"delta": Decimal(1)},
        {"delta": Decimal("-0.1")},
        {"name": ""},
        {"name": " spaced "},
        {"name": "two\nlines"},
        {"survey_rate": Decimal(1)},
        {"rows_per_person": 0},
        {"by": ""},
    ],
)
def test_a_malformed_budget_is_the_callers_mistake(sqlite_books, wrong) -> None:
    with pytest.raises(InputRefused):
        sqlite_books.add(**wrong)
    assert sqlite_books.kinds() == ["ledger-created/1"]


def test_a_refusal_made_elsewhere_can_be_recorded(books) -> None:
    books.add()
    with books.writer() as writer:
        writer.record_refusal(
            release_id="one",
            dataset="census",
            cause="spec-changed",
            reason="changed.",
            day=books.request().day,
        )
    assert books.kinds()[-1] == "release-refused/1"
    assert books.findings() == []


def test_names_in_any_script_are_kept(books) -> None:
    for name in ("Volkszählung", "人口普查", "naïve café", "quote ' and \" and \\"):
        books.add(name)
    with books.reader() as reader:
        assert sorted(state.name for state in reader.datasets()) == sorted(
            ["Volkszählung", "人口普查", "naïve café", "quote ' and \" and \\"]
        )
    assert books.findings() == []
