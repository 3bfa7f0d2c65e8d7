"""A ledger is created once and on purpose; whatever else lies there is refused without being touched."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.ledger.database import METADATA
from crowdblend.accounting.ledger import opening as store
from crowdblend.accounting.ledger.creation import MIGRATIONS, create_ledger, ledger_exists
from crowdblend.accounting.ledger.ledger_writer import open_writer
from crowdblend.accounting.ledger.opening import SCHEMA_REVISION, VERSION_TABLE
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.kernel.errors import InputRefused
from sqlalchemy import inspect


@pytest.fixture
def create(anchoring):
    return partial(create_ledger, anchoring=anchoring)


@pytest.fixture
def write(anchoring):
    return partial(open_writer, anchoring=anchoring)


@pytest.mark.parametrize("for_writing", [False, True])
def test_opening_never_creates(empty_url, write, for_writing) -> None:
    open_ledger = write if for_writing else open_reader
    with pytest.raises(InputRefused, match=r"there is no ledger here.*dataset add"):
        open_ledger(empty_url)
    assert not ledger_exists(empty_url)
    if empty_url.startswith("sqlite"):
        assert not Path(empty_url.removeprefix("sqlite:///")).exists()


def test_a_ledger_is_created_once(empty_url, create) -> None:
    ledger_id = create(empty_url)
    assert ledger_exists(empty_url)
    with pytest.raises(InputRefused, match="there is a ledger here already"):
        create(empty_url)
    with open_reader(empty_url) as reader:
        assert reader.ledger_id == ledger_id
        assert reader.verify() == ()


@pytest.mark.slow
def test_ten_processes_create_one_ledger(tmp_path, anchoring) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from crowdblend.accounting.keys.anchor import Anchoring\n"
        "from crowdblend.accounting.ledger.creation import create_ledger\n"
        "from crowdblend.mechanisms.kernel.errors import InputRefused\n"
        "children = []\n"
        "for _ in range(10):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        try:\n"
        "            create_ledger(sys.argv[1], anchoring=Anchoring(home=Path(sys.argv[2]), file=None))\n"
        "        except InputRefused:\n"
        "            os._exit(2)\n"
        "        os._exit(0)\n"
        "    children.append(child)\n"
        "print(sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, url, str(anchoring.home)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == str([0] + [2] * 9), ended.stderr
    with open_reader(url) as reader:
        assert reader.verify() == ()


def test_a_new_ledger_file_is_its_owners_alone(tmp_path, create) -> None:
    path = tmp_path / "ledger.db"
    mask = os.umask(0)
    try:
        create(f"sqlite:///{path}")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"a,b\n1,2\n" * 100, b"x", b"SQLite format 3\0" + b"x" * 2000])
def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path, create, write, content) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(content)
    url = f"sqlite:///{path}"
    for attempt in (create, open_reader, write):
        with pytest.raises(InputRefused):
            attempt(url)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused(tmp_path, create, write) -> None:
    import sqlite3

    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE customers (name TEXT)")
    connection.close()
    with pytest.raises(InputRefused, match="another program's"):
        create(f"sqlite:///{path}")
    with pytest.raises(InputRefused, match="no ledger here"):
        write(f"sqlite:///{path}")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "not a url",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///x.db?mode=memory",
        "mysql://host/x",
        "oracle://host/x",
        "nonsense://host/x",
        "sqlite:////nonexistent-folder/ledger.db",
    ],
)
def test_an_address_that_can_not_hold_a_ledger_is_the_callers_mistake(url, create, write) -> None:
    for attempt in (create, open_reader, write):
        with pytest.raises(InputRefused):
            attempt(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:sesame-7@127.0.0.1:1/none",
        "postgresql://127.0.0.1:1/none?user=u&password=sesame-7",
        "postgres ql://user:sesame-7@127.0.0.1:1/none",
        "mysql://user:sesame-7@127.0.0.1:1/none",
    ],
)
def test_a_password_is_never_repeated(url, create, write) -> None:
    for attempt in (create, open_reader, write, ledger_exists):
        with pytest.raises(InputRefused) as refused:
            attempt(url)
        assert "sesame-7" not in str(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__context__ is None or refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("revision", "remedy"),
    [
        ("0003", "Back it up, then bring it to this version's tables: crowdblend ledger migrate."),
        ("9999", "Use the version of crowdblend that wrote it, or a later one."),
    ],
)
def test_another_schema_revision_is_refused(books, write, revision, remedy) -> None:
    books.sql(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")
    for attempt in (open_reader, write):
        with pytest.raises(InputRefused, match=f"schema revision {revision}; this version of crowdblend uses") as no:
            attempt(books.url)
        assert no.value.remedy == remedy


def test_a_program_of_the_earlier_revision_refuses_by_the_revision(books, write, monkeypatch) -> None:
    """It looks for the same two tables first, so that it doesn't say that no ledger is here, and creates none."""
    monkeypatch.setattr(store, "SCHEMA_REVISION", "0003")
    monkeypatch.setattr(store, "EARLIER_REVISIONS", ())
    for attempt in (open_reader, write):
        with pytest.raises(InputRefused, match="schema revision 0004; this version of crowdblend uses 0003"):
            attempt(books.url)


def test_no_ledger_is_ever_taken_back_to_an_earlier_version() -> None:
    from alembic.script import ScriptDirectory

    for revision in ScriptDirectory(str(MIGRATIONS)).walk_revisions():
        with pytest.raises(NotImplementedError, match="never taken back"):
            revision.module.downgrade()


def test_the_migrations_make_the_tables_that_the_code_uses(books) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    def differences(connection):
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return compare_metadata(context, METADATA)

    assert books.raw(differences) == []
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == SCHEMA_REVISION
    assert set(books.raw(lambda connection: inspect(connection).get_table_names())) == {
        *METADATA.tables,
        VERSION_TABLE,
    }


def test_a_relative_address_is_of_the_folder_at_opening(tmp_path, create, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    create("sqlite:///ledger.db")
    with open_reader("sqlite:///ledger.db") as reader:
        monkeypatch.chdir("/")
        assert reader.verify() == ()


def test_a_path_with_odd_characters_works(tmp_path, create) -> None:
    folder = tmp_path / "100% odd #folder"
    folder.mkdir()
    url = f"sqlite:///{folder / 'ledger.db'}"
    create(url)
    with open_reader(url) as reader:
        assert reader.verify() == ()
    assert (folder / "ledger.db").is_file()


def test_sqlite_keeps_its_promises(sqlite_books) -> None:
    with sqlite_books.writer() as writer, writer._store.changing() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "recursive_triggers")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "recursive_triggers": 1}
