"""The three ways of saying no: an exit code of its own each, and one line that says what, where, and what to do."""

from __future__ import annotations

import pytest
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal, ReleaseFailed, one_line
from crowdblend.mechanisms.wording import did_you_mean, refused_together


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


def test_several_faults_are_one_refusal_and_a_single_one_is_its_own() -> None:
    one = InputRefused("the rate is 2.", where="spec.toml: [sampling].rate", remedy="Lower it.")
    other = InputRefused("this is missing.", where="spec.toml: [suppression].k")
    assert refused_together([one], where="spec.toml") is one
    both = refused_together([one, other], where="spec.toml").message
    assert both.startswith("spec.toml: 2 things are missing or wrong.")
    assert both.splitlines()[1:] == [
        "  [sampling].rate: the rate is 2. Lower it.",
        "  [suppression].k: this is missing.",
    ]
    failed = refused_together([ReleaseFailed("no.", where="spec.toml: x")], where="spec.toml")
    assert "1 things" in failed.message


def test_names_that_are_near_are_asked_for() -> None:
    known = ["Suppression", "sampling"]
    assert did_you_mean(["supression"], known) == "Did you mean 'Suppression'?"
    assert did_you_mean(["samplin", "SUPPRESION"], known) == (
        "Did you mean 'sampling' by 'samplin', 'Suppression' by 'SUPPRESION'?"
    )
    assert did_you_mean(["zzz"], known) == ""


def test_no_text_steers_a_terminal() -> None:
    for text in ("\x1b[31m", "\u202e", "\ud800", "\x7f", "\x00"):
        assert all(sign.isprintable() for sign in InputRefused(text, where=text).message)
    assert one_line("a\nb\tc") == "a\\nb\\tc"
    assert InputRefused("a\nb").message.startswith("a\nb")
