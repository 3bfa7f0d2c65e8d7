"""PostgreSQL itself holds the writer to appending and the auditor to looking."""

from __future__ import annotations

from dataclasses import replace

import pytest
from crowdblend.accounting.kernel.ledger.database import CREATORS_LOCK, METADATA, WRITERS_LOCK
from crowdblend.accounting.ledger.opening import VERSION_TABLE
from crowdblend.accounting.ledger.roles import Roles, grant_roles
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

FILES = (("data.csv", "c" * 64),)
FORBIDDEN = (
    "CREATE TABLE mine (x int)",
    "CREATE TEMPORARY TABLE entry (x int)",
    "CREATE SCHEMA mine",
    "DROP FUNCTION ledger_append_only CASCADE",
    "CREATE OR REPLACE FUNCTION ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "ALTER FUNCTION ledger_in_order() RESET search_path",
    "SET session_replication_role = replica",
    f"UPDATE {VERSION_TABLE} SET version_num = '0000'",
    f"INSERT INTO {VERSION_TABLE} VALUES ('0000')",
    f"DELETE FROM {VERSION_TABLE}",
)
FORBIDDEN_ON_ENTRIES = (
    "UPDATE entry SET position = position",
    "DROP TRIGGER entry_append_only ON entry",
    "CREATE INDEX mine ON entry (position)",
    "LOCK TABLE entry IN ACCESS EXCLUSIVE MODE",
)
FORBIDDEN_ON_A_TABLE = (
    "DELETE FROM {0}",
    "TRUNCATE {0} CASCADE",
    "DROP TABLE {0} CASCADE",
    "ALTER TABLE {0} DISABLE TRIGGER ALL",
    "ALTER TABLE {0} ADD COLUMN x int",
    "ALTER TABLE {0} OWNER TO CURRENT_USER",
    "CREATE TRIGGER mine BEFORE INSERT ON {0} FOR EACH ROW EXECUTE FUNCTION ledger_append_only()",
    "CREATE RULE mine AS ON INSERT TO {0} DO INSTEAD NOTHING",
)
# The snapshot is replaced by each write, by the writer alone; whoever breaks it is refused afterwards.
THE_WRITERS = ("UPDATE snapshot SET state = state", "LOCK TABLE snapshot IN ACCESS EXCLUSIVE MODE")


@pytest.fixture(scope="session")
def server_roles(postgresql_server: str) -> Roles:
    """Two fresh roles of the server, and a third that does not own, but is a superuser."""
    engine = create_engine(postgresql_server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for role in (
            "cb_writer LOGIN",
            '"cb Auditor" LOGIN',
            "cb_above LOGIN SUPERUSER",
            "cb_heir LOGIN",
            "cb_group",
            "cb_member LOGIN IN ROLE cb_group",
        ):
            connection.execute(text(f"CREATE ROLE {role}"))
        connection.execute(text("GRANT pg_write_all_data TO cb_heir"))
    return Roles(writer="cb_writer", auditor="cb Auditor")


LARGE_OBJECTS = "lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea)"


@pytest.fixture
def owned(postgresql_books, server_roles):
    """A ledger with some entries, opened as the owner of its tables, its roles granted."""
    postgresql_books.add()
    postgresql_books.sql(f"REVOKE EXECUTE ON FUNCTION {LARGE_OBJECTS} FROM PUBLIC")  # a superuser's, once a database
    grant_roles(postgresql_books.url, server_roles, apply=True)
    return postgresql_books


def as_role(books, name: str):
    return replace(books, url=books.url.replace("postgres@", f"{name.replace(' ', '%20')}@"))


@pytest.mark.slow
def test_a_whole_life_of_releases_runs_as_the_writer(owned, server_roles) -> None:
    books = as_role(owned, server_roles.writer)
    books.add("survey")
    receipt = books.charge("one")
    with books.writer() as writer:
        writer.mark_reading(receipt)
        writer.mark_published(receipt, FILES)
    books.charge("two")
    assert books.abandon("two")
    books.register()
    books.writer().charge(books.of_series("of-series"))
    with pytest.raises(AccountantRefused):
        books.charge("one")
    assert books.findings() == []
    assert owned.findings() == []


def test_no_lock_of_an_auditor_keeps_writers_out(owned, server_roles) -> None:
    """Any role may take an advisory lock, of whatever number, and read what it may for as long as it likes."""
    auditor = as_role(owned, server_roles.auditor)

    def meanwhile(held) -> None:
        held.execute(text(f"SELECT pg_advisory_lock({CREATORS_LOCK})"))
        held.execute(text("SELECT * FROM entry, snapshot"))
        owned.charge("one")

    auditor.raw(meanwhile)
    assert owned.findings() == []
    for statement in (WRITERS_LOCK, "SELECT * FROM snapshot FOR KEY SHARE", "SELECT lo_create(0)"):
        with pytest.raises(DatabaseError, match="permission denied"):
            auditor.sql(statement)


def test_roles_that_can_create_large_objects_are_refused(owned, server_roles) -> None:
    for function in ("lo_creat(integer)", "lo_create(oid)", "lo_from_bytea(oid, bytea)"):  # each by itself
        owned.sql(f"GRANT EXECUTE ON FUNCTION {function} TO PUBLIC")
        with pytest.raises(InputRefused, match=r"can create large objects .*REVOKE EXECUTE"):
            grant_roles(owned.url, server_roles, apply=True)
        owned.sql(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")


@pytest.mark.slow
def test_sixteen_writers_at_once_run_as_the_writer(owned, server_roles) -> None:
    books = as_role(owned, server_roles.writer)
    attempts = [{"release_id": f"r{number}", "sample_id": f"{number:064x}"} for number in range(16)]
    assert books.race(attempts, steps=("charge", "reading", "publish")) == ["done"] * 16


@pytest.mark.parametrize("role", ["writer", pytest.param("auditor", marks=pytest.mark.slow)])
def test_nothing_that_is_written_can_be_changed_and_no_guard_weakened(owned, server_roles, role) -> None:
    books = as_role(owned, getattr(server_roles, role))
    owned.charge("one")
    statements = [*FORBIDDEN, *FORBIDDEN_ON_ENTRIES]
    statements += [form.format(table) for table in METADATA.tables for form in FORBIDDEN_ON_A_TABLE]
    statements += THE_WRITERS if role == "auditor" else []
    for statement in statements:
        with pytest.raises(DatabaseError, match=r"permission denied|must be owner"):
            books.sql(statement)
    assert owned.findings() == []


def test_the_control_the_owner_could(owned) -> None:
    """The same statements are no nonsense: who owns the tables gets past what is not a guard."""
    owned.sql("ALTER TABLE entry DISABLE TRIGGER ALL", "UPDATE entry SET position = position", "DROP TABLE snapshot")


def test_the_auditor_sees_all_and_appends_nothing(owned, server_roles) -> None:
    books = as_role(owned, server_roles.auditor)
    owned.charge("one")
    with books.reader() as reader:
        assert reader.verify() == ()
        assert [entry.position for entry in reader.entries()] == [0, 1, 2]
        assert reader.overview(latest=5).release_count == 1
        anchor = books.anchoring.anchor_of(reader.ledger_id).path
        assert reader.verify_anchor(anchor, trusted=books.anchoring.keys.public_keys()).findings == ()
    with pytest.raises(InputRefused, match="InsufficientPrivilege"):
        books.charge("two")
    for table in METADATA.tables:
        with pytest.raises(DatabaseError, match="permission denied"):
            books.sql(f"INSERT INTO {table} SELECT * FROM {table}")


ASIDE = (
    "CREATE TABLE aside.entry (LIKE public.entry)",
    "INSERT INTO aside.entry (position, previous, hash, body) VALUES (2, '', repeat('d', 64), 'x')",
    "SET search_path = aside, public",
    "INSERT INTO public.entry (position, previous, hash, body) VALUES (3, repeat('d', 64), repeat('e', 64), 'x')",
)


def test_a_guard_looks_at_no_other_table_of_that_name(owned, server_roles) -> None:
    """Even a writer who was given a schema of its own can't lead a guard to its own tables."""
    owned.sql(f"CREATE SCHEMA aside AUTHORIZATION {server_roles.writer}")
    owned.charge("one")
    with pytest.raises(DatabaseError, match="breaks a rule"):
        as_role(owned, server_roles.writer).sql(*ASIDE)


def test_the_control_without_a_pinned_path_the_guard_is_led_astray(owned, server_roles) -> None:
    owned.sql(
        f"CREATE SCHEMA aside AUTHORIZATION {server_roles.writer}", "ALTER FUNCTION ledger_in_order() RESET search_path"
    )
    owned.charge("one")
    as_role(owned, server_roles.writer).sql(*ASIDE)
    assert any("does not continue the chain" in finding for finding in owned.findings())


@pytest.mark.slow
@pytest.mark.parametrize("role", ["cb_above", "cb_heir", "postgres"])
def test_a_role_that_could_do_more_is_refused_and_nothing_changes(owned, server_roles, role) -> None:
    for roles in (replace(server_roles, writer=role), replace(server_roles, auditor=role)):
        with pytest.raises(InputRefused, match=r"whatever is granted here.*Nothing was changed"):
            grant_roles(owned.url, roles, apply=True)
    as_role(owned, server_roles.writer).charge("still")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("granted", "what"),
    [
        ("ALTER TABLE snapshot OWNER TO cb_group", "is, or can become, the owner of a table"),
        ("GRANT CREATE ON SCHEMA public TO cb_group", "can create tables in the ledger's schema"),
        ("GRANT TEMPORARY ON DATABASE {database} TO cb_group", "has TEMPORARY on the database"),
        ("GRANT CREATE ON DATABASE {database} TO cb_group", "has CREATE on the database"),
        ("GRANT DELETE ON snapshot TO cb_group", "can DELETE snapshot"),
        ("GRANT TRIGGER ON entry TO cb_group", "can TRIGGER entry"),
        ("GRANT UPDATE (body) ON entry TO cb_group", "can UPDATE columns of entry"),
        (f"GRANT INSERT ON {VERSION_TABLE} TO cb_group", f"can INSERT INTO {VERSION_TABLE}"),
    ],
)
def test_what_a_role_has_from_a_group_is_refused_by_name(owned, server_roles, granted, what) -> None:
    """The control: without it a member of the group is as good a writer or auditor as any other."""
    database = make_url(owned.url).database
    members = [replace(server_roles, writer="cb_member"), replace(server_roles, auditor="cb_member")]
    for roles in members:
        grant_roles(owned.url, roles, apply=True)
    owned.sql(granted.format(database=database))
    for roles in members:
        with pytest.raises(InputRefused) as refused:
            grant_roles(owned.url, roles, apply=True)
        assert str(refused.value).startswith(f"role 'cb_member': this role {what}, whatever is granted here.")
        assert "Nothing was changed. Take that from it first" in str(refused.value)


def test_an_auditor_who_could_append_by_a_group_is_refused(owned, server_roles) -> None:
    owned.sql("GRANT INSERT ON entry TO cb_group")
    grant_roles(owned.url, replace(server_roles, writer="cb_member"), apply=True)
    with pytest.raises(InputRefused, match="can INSERT INTO entry, whatever is granted here"):
        grant_roles(owned.url, replace(server_roles, auditor="cb_member"), apply=True)


def test_only_the_owner_grants(owned, server_roles) -> None:
    writer = as_role(owned, server_roles.writer)
    with pytest.raises(InputRefused, match="only the role that owns"):
        grant_roles(writer.url, server_roles, apply=True)
    with pytest.raises(InputRefused, match="no role of this name"):
        grant_roles(owned.url, replace(server_roles, auditor="x y"), apply=True)
    with pytest.raises(ValueError, match="different"):
        replace(server_roles, auditor=server_roles.writer)


def test_what_is_printed_is_what_is_done(postgresql_books, server_roles) -> None:
    """Without --apply nothing changes; the printed statements, run by the owner, have the same effect."""
    books = postgresql_books
    books.sql(f"REVOKE EXECUTE ON FUNCTION {LARGE_OBJECTS} FROM PUBLIC")
    books.add()
    printed = grant_roles(books.url, server_roles, apply=False)
    writer = as_role(books, server_roles.writer)
    with pytest.raises(InputRefused):
        writer.charge("one")
    books.sql(*printed)
    writer.charge("one")
    assert grant_roles(books.url, server_roles, apply=True) == printed


def test_an_sqlite_file_has_no_roles(sqlite_books, server_roles) -> None:
    with pytest.raises(InputRefused, match="has no roles"):
        grant_roles(sqlite_books.url, server_roles, apply=True)
