"""Find what other distributions add by their entry points; refuse what can't be told apart or loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from crowdblend.accounting.extensions import load, names_of, switch_on
from crowdblend.accounting.kernel.prices.registry import MECHANISM_KINDS, mechanism_of_record
from crowdblend.mechanisms.kernel.errors import InputRefused

STRANGER = Path(__file__).parents[1] / "support" / "stranger"
KIND = "coin_flip_count = acme_coins:COIN_FLIP_COUNT"
Installed = Callable[..., None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Installs a distribution as an installer leaves it: its metadata, and its modules on the path."""
    monkeypatch.syspath_prepend(STRANGER)
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, group: str, *lines: str) -> None:
        folder = tmp_path / f"{name.lower().replace('-', '_')}-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (folder / "entry_points.txt").write_text("\n".join([f"[crowdblend.{group}]", *lines]) + "\n")

    return install


@pytest.fixture
def known_kinds():
    """The kinds of mechanisms, which are as before after the test."""
    before = dict(MECHANISM_KINDS)
    yield before
    MECHANISM_KINDS.clear()
    MECHANISM_KINDS.update(before)


def test_what_is_added_is_found_and_loaded(installed) -> None:
    assert load("documents", "postcard") is None
    installed("acme-coins", "documents", "postcard = acme_coins.document:POSTCARD")
    assert "postcard" in names_of("documents")
    assert load("documents", "postcard").__class__.__name__ == "Document"


def test_a_kind_is_known_once_it_is_switched_on(installed, known_kinds) -> None:
    installed("Acme-Coins", "kinds", KIND)
    assert known_kinds == MECHANISM_KINDS, "to be installed isn't enough"
    assert switch_on(["coin_flip_count"]) == ("acme_coins.release",)
    mechanism_of_record({"kind": "acme-coins:coin-flip-count/1", "least_count": 3})
    assert set(MECHANISM_KINDS) == {*known_kinds, "coin_flip_count"}


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "no installed distribution has a kind of mechanism 'coin_flip_count'"),
        (["coin_flip_count = acme_coins.release:KIND"], "the entry point 'coin_flip_count' of acme-coins is no Ext"),
        (["coin_flip_count = acme_coins:NOTHING"], r"of acme-coins 1.2 can't be loaded \(AttributeError"),
        (["coin_flip_count = no_such_module:KIND"], r"of acme-coins 1.2 can't be loaded \(ModuleNotFoundError"),
    ],
)
def test_a_kind_that_isnt_there_or_is_none_is_refused(installed, known_kinds, lines: list[str], why: str) -> None:
    installed("acme-coins", "kinds", *lines)
    with pytest.raises(InputRefused, match=why):
        switch_on(["coin_flip_count"])
    assert known_kinds == MECHANISM_KINDS


def test_a_name_that_two_distributions_have_is_refused_and_both_are_named(installed, known_kinds) -> None:
    installed("acme-coins", "kinds", KIND)
    installed("other-coins", "kinds", KIND)
    with pytest.raises(InputRefused, match="several distributions: acme-coins, other-coins"):
        switch_on(["coin_flip_count"])
    with pytest.raises(InputRefused, match="several distributions"):
        load("kinds", "coin_flip_count")
    assert known_kinds == MECHANISM_KINDS
