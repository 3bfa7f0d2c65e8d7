"""What vouches for a ledger's state: the signed snapshot in its database, and the last head in its anchor.

The snapshot is the canonical bytes of the state, signed together with the head that it follows from. It spares writers
and readers the fold from the first entry. What doesn't fit the signed head is refused, and the entries give the same
bytes again at any time, so nothing is lost with it.

An anchor keeps copies of heads outside of the database, and of the kernel. One that lies can hide heads, and so that a
ledger was set back behind them; nothing else that it says lets a ledger pass which doesn't hold what it held.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection, select

from ....mechanisms.kernel.errors import AccountantRefused
from ..field_forms import amount_of_text, amount_text
from ..keys.signing import (
    PublicKey,
    SigningKey,
    SigningKeys,
    Statement,
    canonical_bytes,
    read_statement,
    signed_statement,
)
from .database import entry
from .entries import (
    ENTRY_TYPES,
    BudgetRaised,
    DataAccess,
    DatasetAdded,
    Entry,
    FilterDatasetAdded,
    Head,
    SeriesRegistered,
    TokenAdded,
    bytes_of_entry,
    entry_of_bytes,
)
from .ledger_state import Account, Dataset, LedgerState, Place, Release, Series, Token

FORMAT = "crowdblend ledger state 1"
DOMAIN = b"crowdblend ledger state 2\n"
LARGE = 5_000  # releases: a state with fewer is read whole in hundredths of a second
LISTED, ESTIMATED = 50, 1_000
"""How many of the latest an excerpt has, and how many own charges of data sets with few. A verification makes what was
stored again by these numbers, so other numbers need another name of the field."""
AMOUNTS = ("epsilon_spent", "delta_spent", "epsilon_budget", "delta_budget")
# Of a release's fields; those that are left out hold text. Whoever can write the database can sign anything by some
# key, and who looks asks for no key of his own: so nothing here may be believed to have its form.
CELLS: dict[str, set[type]] = {
    "position": {int},
    "selection_sample": {str, NoneType},
    "series": {str, NoneType},
    "number": {int, NoneType},
    "exclusive": {bool},
    "refunded": {bool},
    "closed": {int, NoneType},
    "closing": {str, NoneType},
}
Kind = TypeVar("Kind", bound=Entry)


class ForgedState(AccountantRefused):
    """Something that is stored does not follow from the signed chain: it decides nothing, and isn't shown as true."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. The ledger was changed past its own programs, or its file is damaged.",
            remedy="Run `crowdblend ledger verify`, which tells what differs. A damaged snapshot is made again by "
            "`crowdblend ledger migrate`; for all else, restore the newest sound copy.",
        )


class NewerLedger(AccountantRefused):
    """The ledger has entries of kinds that this version doesn't know, whose rules it could break."""

    def __init__(self, kinds: int) -> None:
        super().__init__(
            f"the ledger has entries of {kinds} kind{'s' if kinds > 1 else ''} that this version doesn't know.",
            not_done="Nothing was read or written.",
            remedy="Use the version of crowdblend that wrote them, or a later one.",
            cause="newer-ledger",
        )


def bytes_of_state(state: LedgerState) -> bytes:
    """Return the canonical bytes of a state: equal for equal entries, on every machine."""
    return canonical_bytes(_fields(state))


def _fields(state: LedgerState) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "position": state.head.position,
        "hash": state.head.hash,
        "ledger_id": state.ledger_id,
        "kinds": state.kinds,
        "datasets": [
            [known.position, _text(known.added), *_amounts(known.account)] for known in state.datasets.values()
        ],
        "series": [[known.position, _text(known.registered)] for known in state.series.values()],
        # By fields and not by releases: JSON reads and writes it in half the time.
        "releases": dict(zip(Release._fields, zip(*state.releases.values(), strict=True), strict=False)),
        "tokens": [
            [known.position, _text(known.added), known.revoked and known.revoked.isoformat()]
            for known in state.tokens.values()
        ],
        "looks": [[position, _text(look)] for position, look in state.looks],
        "raises": [[position, _text(raised)] for position, raised in state.raises],
    }


def state_of_bytes(content: bytes) -> LedgerState:
    """Read a state back.

    Raises:
        ForgedState: the bytes are no state.
        NewerLedger: it has entries of kinds that this version doesn't know, or another format.
    """
    try:
        fields = json.loads(content)
        if unknown := len(fields["kinds"].keys() - ENTRY_TYPES.keys()) or int(fields["format"] != FORMAT):
            raise NewerLedger(unknown)
        return _state(fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ForgedState("the snapshot of the ledger's state is damaged") from None


def _state(fields: dict[str, Any]) -> LedgerState:
    head = Place(position=fields["position"], hash=fields["hash"])
    state = LedgerState(head=head, ledger_id=fields["ledger_id"], kinds=Counter(fields["kinds"]))
    for position, text, *amounts in fields["datasets"]:
        added = _entry(text, DatasetAdded)
        account = Account(**dict(zip(AMOUNTS, map(amount_of_text, amounts), strict=True)))
        state.datasets[added.dataset] = Dataset(added=added, position=position, account=account)
    for position, text in fields["series"]:
        registered = _entry(text, SeriesRegistered)
        state.series[registered.series] = Series(registered=registered, position=position)
    for release in _releases(fields["releases"], last=head.position):
        state.add_release(release)
    for position, text, revoked in fields["tokens"]:
        token = _entry(text, TokenAdded)
        day = None if revoked is None else date.fromisoformat(revoked)
        state.tokens[token.token_id] = Token(added=token, position=position, revoked=day)
    state.looks = [(position, _entry(text, DataAccess)) for position, text in fields["looks"]]
    state.raises = [(position, _entry(text, BudgetRaised)) for position, text in fields["raises"]]
    return state


def _releases(columns: dict[str, list[Any]], *, last: int) -> Iterator[Release]:
    """Read releases back: each cell of a type of its field, each place one of the chain's."""
    if not columns:
        return
    places = (*columns["position"], *filter(None, columns["closed"]))
    typed = all(CELLS.get(name, {str}).issuperset(map(type, columns[name])) for name in Release._fields)
    if not typed:
        raise TypeError("a cell of another type")
    if min(places) < 0 or max(places) > last:
        raise ValueError("a place past the chain's end")
    yield from map(Release._make, zip(*(columns[name] for name in Release._fields), strict=True))


def _amounts(account: Account) -> list[str]:
    return [amount_text(getattr(account, name)) for name in AMOUNTS]


def _text(entry: Entry) -> str:
    return bytes_of_entry(entry).decode("ascii")


def _entry(text: str, kind: type[Kind]) -> Kind:
    recorded = entry_of_bytes(text.encode("ascii"))
    if not isinstance(recorded, kind):
        raise TypeError("an entry of another kind")
    return recorded


class Counts(NamedTuple):
    """Tell what is counted over a whole state.

    Args:
        stages: stage → how many releases have reached it.
        series: how many series there are.
        own: data set → how many charges of its own keep their cost: releases that no series paid for, and series.
        taken: series → `Series.taken`.
    """

    stages: Mapping[str, int]
    series: int
    own: Mapping[str, int]
    taken: Mapping[str, Sequence[int]]


def counts_of(state: LedgerState) -> Counts:
    """Count over a whole state."""
    own = Counter(dict.fromkeys(state.datasets, 0))
    own.update(series.registered.dataset for series in state.series.values())
    own.update(one.dataset for one in state.releases.values() if one.own)
    taken = {name: series.taken for name, series in state.series.items()}
    stages: Counter[str] = Counter(one.stage for one in state.releases.values())
    return Counts(stages=stages, series=len(state.series), own=own, taken=taken)


def excerpt_of(state: LedgerState) -> dict[str, Any]:
    """Return the excerpt of a large state that is signed with it, so that a look at the ledger reads nothing else.

    It has no tokens, of series and releases the latest, and all own charges of the additive data sets with the fewest.
    """
    counts, few, left = counts_of(state), set(), ESTIMATED
    for name in sorted(state.datasets, key=counts.own.__getitem__):
        if not isinstance(state.datasets[name].added, FilterDatasetAdded) and (left := left - counts.own[name]) >= 0:
            few.add(name)
    latest: set[str | None] = {*list(state.releases)[-LISTED:]}
    releases = {name: one for name, one in state.releases.items() if (one.own and one.dataset in few) or name in latest}
    latest = {*list(state.series)[-LISTED:], *(one.series for one in releases.values())}
    series = {name: one for name, one in state.series.items() if one.registered.dataset in few or name in latest}
    part = replace(state, releases=releases, series=series, tokens={})
    taken = {name: counts.taken[name] for name in series}
    return {"state": _fields(part), "counts": counts._replace(taken=taken)._asdict()}


def sign_state(state: LedgerState, content: bytes, key: SigningKey) -> str:
    """Return the signed statement that a state, by its canonical bytes, follows from the chain up to its head."""
    fields = {"ledger_id": state.ledger_id, "position": state.head.position, "hash": state.head.hash}
    fields["state"] = sha256(content).hexdigest()
    excerpt = {"excerpt": excerpt_of(state)} if len(state.releases) > LARGE else {}
    return signed_statement({**fields, **excerpt}, key, domain=DOMAIN).decode("ascii")


def held_statement(statement: object, *, last: Place) -> Statement:
    """Return a stored statement whose signature holds, made at the chain's last entry; else raise `ForgedState`."""
    with suppress(ValueError):
        read = read_statement(statement.encode("ascii") if isinstance(statement, str) else b"")
        stated = read.fields.get("position"), read.fields.get("hash")
        if stated == (last.position, last.hash) and read.holds(domain=DOMAIN):
            return read
    raise _unsigned(last)


def _unsigned(last: Place) -> ForgedState:
    return ForgedState(f"no signature holds over the last entry, {last.position}, and the snapshot of the state")


def signed_state(statement: object, content: object, *, last: Place) -> tuple[LedgerState, PublicKey]:
    """Read a snapshot, as it is stored, and hold it against its signature and the chain's last entry.

    Returns:
        The state, and the key that signed it; whose key that is, isn't said here.

    Raises:
        ForgedState: it is damaged, no signature holds over it, or the chain ends elsewhere.
        NewerLedger: it has entries of kinds that this version doesn't know.
    """
    held = held_statement(statement, last=last)
    # A cell may hold anything; what isn't ASCII text fails the comparison of digests.
    stored = content.encode("utf-8", "replace") if isinstance(content, str) else b""
    if held.fields.get("state") != sha256(stored).hexdigest():
        raise _unsigned(last)
    state = state_of_bytes(stored)
    if state.head != last or state.ledger_id != held.fields.get("ledger_id"):
        raise ForgedState("the snapshot of the state is of another ledger")
    return state, held.key


NOTHING_WRITTEN = "Nothing was written, and no key was destroyed."
RESTORE = "Restore the ledger's newest copy; `crowdblend ledger verify --anchor FILE` tells what differs."
BEGIN = (
    "If the ledger's private store is another one, name that in CROWDBLEND_HOME: where neither it nor HOME is set, "
    "another folder is looked at. Else bring the anchor back, or begin a new one at the ledger's present head with "
    "`crowdblend ledger anchor`."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnchoredHead:
    """A head whose signature holds for the key that stands beside it; whose key that is, isn't said here."""

    head: Head
    key: PublicKey


class Anchor(Protocol):
    """Who signs the heads of ledgers, and where they are copied to."""

    @property
    def home(self) -> Path:
        """The private store, with the signing keys."""

    @property
    def keys(self) -> SigningKeys:
        """The keys that sign."""

    def where(self, ledger_id: str) -> str:
        """Return where a ledger's anchor is, for messages."""

    def last_of(self, ledger_id: str) -> AnchoredHead | None:
        """Return the last head that was anchored of a ledger; None where none was."""

    def record(self, head: Head, key: SigningKey, *, written: bool) -> None:
        """Anchor a head whose entry is committed, just now if it is `written`, durably."""


def require_continued(
    connection: Connection, head: Head, signer: PublicKey, anchor: Anchor, last: AnchoredHead | None
) -> None:
    """Refuse a ledger that is behind its anchor, or whose head isn't signed by a key of the private store.

    INVARIANT: a head is anchored after its commit, so whoever reads the anchor before the transaction sees the
    ledger's state, or while no other writer can commit, must find the head there.

    Args:
        connection: a connection in a transaction.
        head: where the chain ends in it.
        signer: of that head.
        anchor: of the ledger.
        last: the anchor's last head, read as the invariant says.

    Raises:
        AccountantRefused: it is behind, or another chain, or its anchor is missing; or somebody else signed its head. A
            ledger that has its first entry alone may be anybody's, and have no anchor: nothing was spent by it.
    """
    end, where = head.position, anchor.where(head.ledger_id)
    if last is None and end > 0:
        raise anchor_refusal("this ledger's anchor is missing.", where, BEGIN, cause="anchor-missing")
    if last is not None:
        position = last.head.position
        stored_hash = connection.execute(select(entry.c.hash).where(entry.c.position == position)).scalar()
        if stored_hash is None:
            what = (
                f"the ledger ends at entry {end}, and its anchor vouches for entry {position}: what came after entry "
                f"{end} was lost, such as by the restoring of an older copy."
            )
            raise anchor_refusal(what, where, RESTORE)
        if stored_hash != last.head.hash:
            what = f"entry {position} is not the one that the anchor vouches for: the chain was written anew."
            raise anchor_refusal(what, where, RESTORE)
    require_own_signer(end, signer, anchor, last)


def require_own_signer(end: int, signer: PublicKey, anchor: Anchor, last: AnchoredHead | None) -> None:
    """Refuse (AccountantRefused) a head at place `end` that no key of the private store signed, or one replaced before.

    A key that was replaced may have been stolen. Where the anchor's last line is of a later one, it signs nothing more.
    """
    if end == 0:
        return  # a first entry may be anybody's
    own, current = anchor.keys.public_keys(), anchor.keys.read()
    what = f"the last entry, {end}, is signed by the key {signer.key_id}, which"
    if signer not in own:
        remedy = (
            "Name the private store that has it in CROWDBLEND_HOME. Where it is lost, run `crowdblend ledger verify`, "
            "then begin a new anchor with `crowdblend ledger anchor`."
        )
        raise anchor_refusal(f"{what} isn't of this private store.", str(anchor.home), remedy)
    if last is not None and signer != last.key and (current is None or signer != current.public):
        raise anchor_refusal(f"{what} was replaced by another before that.", str(anchor.home), RESTORE)


def anchor_refusal(what: str, where: str, remedy: str, *, cause: str = "") -> AccountantRefused:
    """Return the refusal of a ledger, or of its anchor, before anything was written."""
    return AccountantRefused(what, where=where, not_done=NOTHING_WRITTEN, remedy=remedy, cause=cause)
