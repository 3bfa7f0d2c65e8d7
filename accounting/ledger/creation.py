"""How a ledger comes into being, and how an earlier version's comes to the present tables: whole, and verified."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, select, text, update

from ...mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..kernel.keys.private_files import sync_folder
from ..kernel.keys.signing import PublicKey, read_statement
from ..kernel.ledger.database import UNIQUE_OF_CHARGE, entry, snapshot
from ..kernel.ledger.entries import Head, LedgerCreated
from ..kernel.ledger.snapshot import ForgedState, bytes_of_state, require_continued, signed_state
from ..kernel.ledger.transactions import (
    ENTRY_COLUMNS,
    head_in,
    keep_snapshot,
    last_place,
    require_sound_entries,
    stored_state,
    writing,
)
from ..keys.anchor import AnchorFile, Anchoring
from .opening import (
    EARLIER_REVISIONS,
    SCHEMA_REVISION,
    VERSION_TABLE,
    is_file,
    keep_write_ahead_log,
    locate,
    open_at,
    open_store,
    remedy_for_unknown,
    revision_of,
)

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, kw_only=True, slots=True)
class Migrated:
    """What a migration did.

    Args:
        before: the schema revision that was found.
        after: the one that the ledger has now; the same where nothing was to be done.
        entries: how many entries the ledger has, before and after.
        mended: whether its snapshot was damaged, and was made again from them.
    """

    before: str
    after: str
    entries: int
    mended: bool


def upgrade_tables(connection: Connection) -> None:
    """Bring the tables to this version's schema revision, inside the writing transaction of the connection."""
    from alembic import command  # takes a third of a second, and most commands never need it
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    command.upgrade(config, SCHEMA_REVISION)


def migrate_ledger(url: str, *, anchoring: Anchoring) -> Migrated:
    """Bring a ledger to this version's schema revision, in one transaction; its entries stay as they are.

    INVARIANT: every entry keeps the rules, the last one is that over which a key of the private store signed, and the
    ledger continues its anchor; the new tables hold the same entries and what a new ledger's hold; else nothing is
    changed. So the new signature covers no entry that the old one did not. What else an earlier revision stored
    follows from the entries, and is made anew from them.

    Where the ledger has this revision already, a damaged snapshot is made again.

    Args:
        url: its address; on PostgreSQL the role must own the tables.
        anchoring: who signs the chain's heads, and where they are copied to.

    Raises:
        InputRefused: there is no ledger, or one of a revision that this version does not know.
        AccountantRefused: it is behind its anchor, its head isn't signed by a key of the private store, or it does not
            hold.
        ReleaseFailed: the database fails.
    """
    with closing(open_at(url, read_only=False)) as store:
        found = revision_of(store)
        if found != SCHEMA_REVISION and found not in EARLIER_REVISIONS:
            raise InputRefused(
                f"this ledger has schema revision {found}, which this version of crowdblend does not know.",
                where=store.shown,
                not_done=UNCHANGED,
                remedy=remedy_for_unknown(found),
            )
        with store.changing() as connection:
            # The revision is asked again inside the transaction: another process may have migrated the ledger since it
            # was looked up.
            mended = found == SCHEMA_REVISION and _mend_snapshot(connection, anchoring, store.shown)
            before = found if found == SCHEMA_REVISION else _revision_alone(connection)
            if before in EARLIER_REVISIONS:
                _bring_over(connection, anchoring, store.shown)
            entries = last_place(connection).position + 1
    after = SCHEMA_REVISION if before in EARLIER_REVISIONS else before
    return Migrated(before=before, after=after, entries=entries, mended=mended)


UNCHANGED = "Nothing was changed in it."
EARLIER_DOMAIN = b"crowdblend ledger state 1\n"
EARLIER_COLUMNS = ENTRY_COLUMNS[: -len(UNIQUE_OF_CHARGE)]


def _revision_alone(connection: Connection) -> str:
    """Return the schema revision when no other migration runs; of an earlier one, no writer writes from then on."""
    locks = connection.dialect.name == "postgresql"  # an SQLite file has one writer at a time
    if locks:
        connection.exec_driver_sql(f"LOCK TABLE {VERSION_TABLE} IN EXCLUSIVE MODE")
    revision = str(connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar())  # noqa: S608
    if locks and revision in EARLIER_REVISIONS:
        connection.exec_driver_sql("LOCK TABLE signed_state IN EXCLUSIVE MODE")  # as those versions' writers do
    return revision


def _bring_over(connection: Connection, anchoring: Anchoring, shown: str) -> None:
    """Check an earlier revision's ledger, bring it over, and check that no entry was changed by it."""
    from .database_schema import schema_differences
    from .verification import Fold  # with it come all prices' modules, which creating a ledger does without

    fold = Fold.of(connection, EARLIER_COLUMNS)
    _require_none(fold.findings, "this ledger does not hold", shown)
    head = head_in(fold.state)
    last = anchoring.last_of(head.ledger_id)
    require_continued(connection, head, _earlier_signer(connection, head), anchoring, last)
    upgrade_tables(connection)
    # Checked again after the migration, by the hashes: what it copied is what was signed.
    require_sound_entries(connection, fold.state)
    keep_snapshot(connection, fold.state, anchoring.keys.current())
    _require_none(schema_differences(connection), "the migrated ledger would not hold", shown)


def _require_none(findings: Iterable[object], what: str, shown: str) -> None:
    for finding in findings:
        raise AccountantRefused(
            f"{what}: {finding}.",
            where=shown,
            not_done=UNCHANGED,
            remedy="Run `crowdblend ledger verify` of the version that wrote it.",
        )


def _earlier_signer(connection: Connection, head: Head) -> PublicKey:
    """Return the key whose signature holds over the head of an earlier revision's ledger; ForgedState without one."""
    stored = connection.execute(text("SELECT statement FROM signed_state")).scalar()
    with suppress(ValueError):
        statement = read_statement(str(stored).encode("ascii"))
        if asdict(head).items() <= statement.fields.items() and statement.holds(domain=EARLIER_DOMAIN):
            return statement.key
    raise ForgedState(f"no signature holds over the last entry, {head.position}")


def _mend_snapshot(connection: Connection, anchoring: Anchoring, shown: str) -> bool:
    """Make a damaged snapshot again from the entries, where its signature is there and holds over what they give.

    Returns:
        Whether it was damaged.

    Raises:
        AccountantRefused: the entries, or the signature, are damaged too; or the signature is by no key of the private
            store, or the ledger doesn't continue its anchor.
    """
    from .verification import Fold

    try:
        stored_state(connection)
    except ForgedState:
        fold = Fold.of(connection)
        _require_none(fold.findings, "this ledger does not hold", shown)
        content = bytes_of_state(fold.state).decode("ascii")
        statement = connection.execute(select(snapshot.c.statement)).scalar()
        # The old signature is checked over the new content. No key signs anything here, so that a repair can't bless a
        # changed ledger.
        _, signer = signed_state(statement, content, last=fold.state.head)
        head = head_in(fold.state)
        require_continued(connection, head, signer, anchoring, anchoring.last_of(head.ledger_id))
        connection.execute(update(snapshot).values(state=content))
        return True
    return False


SQLITE_FILE = b"SQLite format 3\0"


def create_ledger(url: str, *, anchoring: Anchoring) -> str:
    """Create an empty ledger, its first entry anchored.

    Args:
        url: SQLAlchemy URL of an SQLite file that need not exist, or of a PostgreSQL database.
        anchoring: who signs the chain's heads, and where they are copied to.

    Returns:
        The ledger's id, 64 hexadecimal digits.

    Raises:
        InputRefused: there is a ledger, or something else, or nothing can be created there; or there is no signing
            key, or the anchor is another ledger's.
        ReleaseFailed: its commit or its anchor failed, so that it may be there.
    """
    parsed, shown = locate(url)
    ledger_id = secrets.token_hex(32)  # a name that no other ledger has; nothing secret follows from it
    anchoring.keys.current()
    # Before anything is created: a ledger without an anchor would have to be removed again.
    _require_unused(anchoring.anchor_of(ledger_id))
    if parsed.get_backend_name() == "sqlite":
        _create_file(Path(str(parsed.database)), shown)
    whole = False
    with closing(open_at(url, read_only=False, creating=True)) as store:
        try:
            if store.dialect == "sqlite":
                keep_write_ahead_log(store)
            with writing(store, anchoring) as ledger:
                tables = inspect(ledger.connection)
                if tables.has_table(entry.name) or tables.has_table(VERSION_TABLE):
                    raise InputRefused("there is a ledger here already.", where=shown, remedy="Use it as it is.")
                if store.dialect == "sqlite" and tables.get_table_names():
                    raise InputRefused("this file is another program's database.", where=shown)
                upgrade_tables(ledger.connection)
                ledger.append(LedgerCreated(ledger_id=ledger_id))
                whole = True
        except ReleaseFailed as failure:
            what, where, remedy = failure.what, failure.where, failure.remedy
            if whole:  # it may be committed, or is, and is not anchored
                raise ReleaseFailed(what, where=where, not_done="No data set is in it.", remedy=remedy) from None
            remedy = "Check the address, the permissions, and that the database is running."
            raise _none_created(f"no ledger can be created here: {what}", shown, remedy) from None
    return ledger_id


def begin_anchor(url: str, *, anchoring: Anchoring) -> Head:
    """Begin a ledger's anchor at its present head, and sign that; what came before it is vouched for by nobody.

    Raises:
        ForgedState: no signature holds over the head and the state of the tables, whosever it be, or the state isn't
            what the entries give.
        AccountantRefused: the entries don't hold.
        InputRefused: there is no ledger or no signing key, or the anchor has a head already, or can't be written.
    """
    from .verification import Fold

    key = anchoring.keys.current()
    with closing(open_store(url, read_only=False)) as store:
        with store.changing() as connection:
            state, _ = stored_state(connection)
            head = head_in(state)
            _require_unused(anchoring.anchor_of(head.ledger_id))
            # Whoever can write the tables can sign a state with a key of his own, and this store's key would vouch for
            # it from here on.
            fold = Fold.of(connection)
            _require_none(fold.findings, "this ledger does not hold", store.shown)
            if bytes_of_state(fold.state) != bytes_of_state(state):
                raise ForgedState("the snapshot of the ledger's state isn't what its entries give")
            keep_snapshot(connection, fold.state, key)
        anchoring.record(head, key, written=True)
    return head


def _require_unused(anchor: AnchorFile) -> None:
    """Refuse an anchor that has a line already, be it a damaged one."""
    try:
        with suppress(ValueError):
            if anchor.last() is None:
                return
    except OSError as error:
        raise InputRefused(f"the anchor can't be read ({error.strerror}).", where=str(anchor.path)) from None
    remedy = "Keep it as evidence under another name."
    raise InputRefused("there is an anchor here already.", where=str(anchor.path), remedy=remedy)


def ledger_exists(url: str) -> bool:
    """Return whether a ledger, of whatever schema revision, is at this address.

    Raises:
        InputRefused: the address is wrong, or its database can't be opened.
    """
    parsed, shown = locate(url)
    if parsed.get_backend_name() == "sqlite" and not is_file(str(parsed.database), shown=shown):
        return False
    try:
        with closing(open_at(url, read_only=True)) as store, store.reading() as connection:
            return inspect(connection).has_table(entry.name)
    except ReleaseFailed as failure:
        raise InputRefused(failure.what, where=shown, remedy="Check the address and the permissions.") from None


def _none_created(what: str, shown: str, remedy: str) -> InputRefused:
    """Return a refusal that says no more than it knows: a signing key may have been made."""
    return InputRefused(what, where=shown, not_done="No ledger was created.", remedy=remedy)


def _create_file(path: Path, shown: str) -> None:
    """Create an empty file that its owner alone can read, or leave the database that is there."""
    try:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:
            beginning = file.read(len(SQLITE_FILE))
        sync_folder(path.parent)
    except OSError as error:
        raise _none_created(f"no ledger can be created here ({error.strerror}).", shown, "Check the folder.") from None
    # SQLite would take a file of a few bytes for an empty database, and write over it.
    if beginning not in (b"", SQLITE_FILE):
        raise InputRefused("this file is not a database.", where=shown, remedy="Name another file.")
