"""The three ways of saying no: an exit code of its own each, and one line that says what, where, and what to do."""

from __future__ import annotations

import pytest
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal, ReleaseFailed


@pytest.mark.parametrize(
    ("kind", "code"), [(Refusal, 1), (ReleaseFailed, 1), (InputRefused, 2), (AccountantRefused, 3)]
)
def test_a_refusal_leaves_with_its_own_code_and_never_with_0(kind, code) -> None:
    assert kind("no").exit_code == kind.exit_code == code
    assert issubclass(kind, Refusal)


@pytest.mark.parametrize("kind", [ReleaseFailed, InputRefused, AccountantRefused])
def test_a_refusal_says_what_where_what_was_not_done_and_what_to_do(kind) -> None:
    told = kind("the rate is 2.", where="adult.toml: [sampling].rate", remedy="Lower it.")
    assert told.message == f"adult.toml: [sampling].rate: the rate is 2. {kind.nothing_done} Lower it."
    assert str(told) == told.message
    assert "Nothing was" in kind.nothing_done
    assert kind("the rate is 2.", not_done="Nothing happened.").message == "the rate is 2. Nothing happened."
    assert kind("the rate is 2.", not_done="").message == "the rate is 2."
