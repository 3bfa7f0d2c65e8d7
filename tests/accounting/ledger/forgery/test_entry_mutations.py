"""Every mutation of every kind of entry is found, also where all hashes and the signed state are made to fit.

The cases come from the closed union of entries: a new kind without an entry in the ledger fails here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from crowdblend.accounting.kernel.ledger.database import entry
from crowdblend.accounting.kernel.ledger.entries import ENTRY_TYPES, ReleaseRefused
from sqlalchemy import Connection, delete, update

Document = dict[str, Any]

QUICK = {kind for kind in ENTRY_TYPES if kind.startswith("release-")} - {"release-charged/1", "release-charged/2"}
"""Kinds of `make test`: those of a release, in their present form."""


def leaves(document: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every value inside an entry, groups of values too."""
    for name, value in document.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from leaves(value, (*path, name))


def changed(documents: list[Document], position: int, path: tuple[str, ...], value: Any) -> list[Document]:
    """The entries with one value changed; `...` removes it."""
    made = copy.deepcopy(documents)
    place = made[position]
    for name in path[:-1]:
        place = place[name]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return made


def mutations(victim, kind: str, *, thorough: bool) -> Iterator[tuple[int, tuple[str, ...], Any]]:
    """Each value of each entry of a kind, changed alone; of the kind's first entry only, unless thorough."""
    documents = victim.documents()
    places = [position for position, document in enumerate(documents) if document["kind"] == kind]
    for position in places if thorough else places[:1]:
        document = documents[position]
        for path in leaves(document):
            value = document
            for name in path:
                value = value[name]
            alternatives = [*victim.others(value), ...]
            for other in alternatives if thorough else alternatives[:1]:
                yield position, path, other


def test_the_ledger_has_every_kind_of_entry(victim) -> None:
    missing = ENTRY_TYPES.keys() - {document["kind"] for document in victim.documents()}
    assert not missing, "add entries of these kinds to the committed ledger"


def test_the_control_what_nobody_changed_is_sound(victim) -> None:
    """Also where it was written again as it is: the forger's tools themselves leave no trace."""
    documents = victim.documents()
    for work in ((), (victim.rewritten(documents),)):
        found = victim.after(*work)
        assert (found.inside, found.anchor, found.others_key) == ((), (), work != ())


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in sorted(ENTRY_TYPES)],
)
def test_every_value_of_an_entry_counts(victim, kind, thorough) -> None:
    """Changed alone it is found; with all hashes and the state made to fit, by the anchor, and a price without.

    An anchored hash binds the entry, so this holds for a value that no rule says anything about, such as a name.
    """
    documents, count = victim.documents(), 0
    for position, path, other in mutations(victim, kind, thorough=thorough):
        made, case = changed(documents, position, path, other), (kind, position, path, other)
        body = json.dumps(made[position], sort_keys=True, separators=(",", ":"))
        plain = update(entry).where(entry.c.position == position).values(body=body)
        assert victim.found(lambda connection, plain=plain: connection.execute(plain)), case
        found = victim.after(victim.rewritten(made))
        assert found.anchor, case
        if path[0] in ("price", "mechanism", "epsilon_paper", "filter_charge"):
            assert found.inside, case
        count += 1
    assert count
    print(f"{count} mutations")


def test_a_deleted_or_swapped_or_inserted_entry_is_found(victim, thorough) -> None:
    """As it is from inside; with all hashes and the state made to fit, by the anchor."""
    documents = victim.documents()
    refused = next(document for document in documents if document["kind"] == ReleaseRefused.KIND)
    for position in victim.some(range(len(documents) - 1), thorough=thorough):
        gone = delete(entry).where(entry.c.position == position)
        assert victim.found(lambda connection, gone=gone: connection.execute(gone))
        without = documents[:position] + documents[position + 1 :]
        swapped = [*documents[:position], documents[position + 1], documents[position], *documents[position + 2 :]]
        inserted = [*documents[: position + 1], refused, *documents[position + 1 :]]
        for forged in (without, swapped, inserted):
            assert victim.after(victim.rewritten(forged)).anchor, position


@pytest.mark.slow
def test_truncation_is_found_by_the_anchor_alone(victim) -> None:
    """A chain that was cut back, and whose state was made and signed anew, is a sound, shorter one."""
    documents = victim.documents()
    for length in range(1, len(documents)):

        def cut(connection: Connection, length=length) -> None:
            connection.execute(delete(entry).where(entry.c.position >= length))

        assert any("no signature holds" in what for what in victim.after(cut).inside)
        found = victim.after(cut, victim.sealed)
        assert found.inside == ()
        assert found.others_key
        assert any("cut back" in what for what in found.anchor)


def test_what_a_forger_appends_is_said_to_be_unanchored(victim) -> None:
    documents = victim.documents()
    refused = next(document for document in documents if document["kind"] == ReleaseRefused.KIND)
    found = victim.after(victim.rewritten([*documents, refused]))
    assert (found.inside, found.anchor, found.others_key) == ((), (), True)
    assert any(f"after entry {len(documents) - 1}" in what for what in found.unchecked)
