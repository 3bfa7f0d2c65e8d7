"""Releases of a table in a real PostgreSQL: read once into a private copy, by statements that change nothing."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.kernel.errors import InputRefused, ReleaseFailed
from crowdblend.tasks.inputs.postgresql import POSTGRESQL
from crowdblend.tasks.inputs.source import DatabaseQuery

KEY = bytes(range(7, 39))
SECRET = "Zanzibar7"  # noqa: S105 - planted
MAKE = """
create type colours as enum ('blue', 'green', 'red');
create table visits (who bigint, colour colours, age smallint, town text, secret numeric(12, 2));
insert into visits
    select i, (enum_range(null::colours))[1 + (i + v) % 3], 20 + 10 * (i % 2),
        (array['Lyon', 'Marseille', 'Lille', 'Paris'])[1 + i % 4], 7000000 + i
    from generate_series(0, 399) i, generate_series(0, 4) v;
"""


@pytest.fixture
def database(postgresql_server: str) -> Iterator[str]:
    """Address of a database of this test with 400 people of five visits each."""
    server = postgresql_server.replace("+psycopg", "")
    name = f"people_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as maintenance:
        maintenance.execute(f"create database {name}")
        address = server.replace("/postgres?", f"/{name}?")
        with psycopg.connect(address, autocommit=True) as own:
            own.execute(MAKE)
        yield address
        maintenance.execute(f"drop database {name} with (force)")


def statement(address: str, text: str) -> list[tuple]:
    with psycopg.connect(address, autocommit=True) as own:
        answer = own.execute(text)
        return answer.fetchall() if answer.description else []


def spec_of(desk, address: str, *, read: str = 'table = "visits"', person: bool = True, edit=str, **changes) -> Path:
    def edited(text: str) -> str:
        more = f"{read}\n" + ('person = "who"\nrows_per_person = 2\n' if person else "")
        return edit(text.replace('separator = ";"\n', f'separator = ";"\n{more}'))

    return desk.write_spec(edit=edited, source=address, **changes)


def add_dataset(desk, *, unit: str = "person:who") -> None:
    budget = ("--epsilon", "100", "--delta", "1e-2", "--rows-per-person", "2", "--unit", unit)
    desk.succeed("dataset", "add", "people", *budget)


def rows_of(folder: Path) -> Counter:
    return Counter(map(str, pq.read_table(folder / "data.parquet").to_pylist()))


def copies(desk) -> list[Path]:
    return sorted(desk.home.rglob("copy/*"))


def query_of(address: str, query: str | None = None, *, table: str | None = None) -> DatabaseQuery:
    return POSTGRESQL.query(address, table=table, query=query, where="[data]")


@pytest.mark.parametrize(
    "read",
    [
        'table = "visits"',
        pytest.param('table = "public.visits"', marks=pytest.mark.slow),
        pytest.param(
            "query = \"select who, colour, age::text as age, town from visits where town <> 'Atlantis'\"",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_table_is_released_as_the_file_of_its_records_is(desk, database, read) -> None:
    people = statement(database, "select colour, age, town, who from visits")
    columns = map(list, zip(*people, strict=True))
    pq.write_table(pa.table(dict(zip(("colour", "age", "town", "who"), columns, strict=True))), "visits.parquet")
    found = []
    for name, source, own in (("file", "visits.parquet", "trim = false"), ("table", database, read)):
        spec = spec_of(desk, source, read=own, rate="0.4", k="20")
        desk.succeed(
            "dataset", "add", "people", "--epsilon", "100", "--delta", "1e-2", "--rows-per-person", "2",
            "--unit", "person:who", "--ledger", f"sqlite:///{desk.folder / name}.db",
        )  # fmt: skip
        from crowdblend.deploy.run import run_release
        from crowdblend.flows.paths import StatePaths

        desk.prefect()
        paths = StatePaths(ledger_url=f"sqlite:///{desk.folder / name}.db", home=desk.home)
        result = run_release(
            spec, state_paths=paths, output=str(desk.folder / name), scheduler=None, release_id=None,
            randomness=lambda size: KEY[:size],
        )  # fmt: skip
        found.append(rows_of(Path(result["output"])))
    assert found[0] == found[1]
    assert found[0].total() > 100
    assert not copies(desk)


@pytest.mark.slow
def test_an_attempt_after_the_first_reads_the_same_records_whatever_became_of_the_table(
    desk, database, cut_off
) -> None:
    add_dataset(desk)
    spec = spec_of(desk, database, rate="0.4", k="20")
    cut_off(spec, "--output", "one")
    [copy] = copies(desk)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (copy, copy.parent)]
    assert modes == [0o600, 0o700]
    assert pq.read_schema(copy).names == ["colour", "age", "town", "who"], "no column that isn't read"
    assert pq.read_table(copy).num_rows == 2000
    held = copy.read_bytes()
    statement(database, "drop table visits")
    assert desk.succeed("run", spec, "--release-id", "one", "--output", "one", "--dry-run").code == 0
    cut_off(spec, "--output", "one")
    assert copy.read_bytes() == held
    result = desk.succeed("run", spec, "--release-id", "one", "--output", "one", "--json").json
    assert result["published_records"] > 100
    assert not copies(desk)
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")


@pytest.mark.slow
def test_a_copy_that_was_changed_is_not_read_and_goes_with_the_release(desk, database, cut_off) -> None:
    add_dataset(desk)
    spec = spec_of(desk, database)
    cut_off(spec, "--output", "one")
    [copy] = copies(desk)
    table = pq.read_table(copy)
    pq.write_table(table.slice(1), copy)
    desk.refuse("run", spec, "--release-id", "one", "--output", "one", code=1, said=("private copy", "abandon"))
    copy.unlink()
    desk.refuse("run", spec, "--release-id", "one", "--output", "one", said="private copy")
    pq.write_table(table, copy)
    desk.succeed("abandon", "one", "--reason", "the copy was changed")
    assert not copies(desk)
    assert not list(desk.home.rglob("copy"))


@pytest.mark.slow
def test_a_copy_that_was_cut_off_is_made_anew(desk, database, monkeypatch) -> None:
    """The server ends the reading at a value, which isn't told; what there was of a copy is not read."""
    add_dataset(desk)
    statement(database, f"create view half as select *, 1 / (who - 250) as q, '{SECRET}' as s from visits")
    statement(database, "create view whole as select who, colour, age, town from half where q is not null")
    spec = spec_of(desk, database, read='table = "whole"')
    answer = desk.refuse("run", spec, "--release-id", "one", "--output", "one", code=1, said="ended the reading")
    assert "division" not in answer.err
    assert "Traceback" not in answer.err
    assert [path.name for path in copies(desk)] == ["records.draft"]
    statement(database, "create or replace view whole as select who, colour, age, town from visits")
    assert desk.succeed("run", spec, "--release-id", "one", "--output", "one")
    assert not copies(desk)


def test_what_writes_fails_and_has_written_nothing(desk, database, tmp_path) -> None:
    statement(database, "create function spoil(int8) returns int8 language sql as 'delete from visits; select $1'")
    statement(database, "create view spoilt as select spoil(who) as who from visits")
    query = query_of(database, table="spoilt")
    assert POSTGRESQL.layout(query, columns=["who"], limit=None).records is None
    with pytest.raises(ReleaseFailed, match="ended the reading"):
        POSTGRESQL.copy(query, columns=["who"], path=tmp_path / "copy" / "records.parquet")
    assert statement(database, "select count(*) from visits") == [(2000,)]


@pytest.mark.slow
def test_the_copy_is_of_one_moment(database, tmp_path) -> None:
    """While visits move from one person to another, each state of the table has as many of them."""
    statement(database, "insert into visits select i, 'red', 20, 'Lyon', i from generate_series(1, 60000) i")
    total = statement(database, "select count(*) from visits")[0][0]
    done, moved = Event(), Event()

    def move() -> None:
        with psycopg.connect(database, autocommit=True) as own:
            while not done.is_set():
                own.execute(
                    "with gone as (delete from visits where ctid in (select ctid from visits limit 2000) returning *) "
                    "insert into visits select * from gone"
                )
                moved.set()

    mover = Thread(target=move)
    mover.start()
    try:
        moved.wait()
        for number in range(4):
            path = tmp_path / str(number) / "records.parquet"
            POSTGRESQL.copy(query_of(database, table="visits"), columns=["who", "town"], path=path)
            assert pq.read_metadata(path).num_rows == total
    finally:
        done.set()
        mover.join()


@contextmanager
def user_with_password(database: str, password: str) -> Iterator[str]:
    """Name of a user who may read and has to log in by a password, gone afterwards."""
    rules = Path(database.partition("host=")[2]) / "data" / "pg_hba.conf"
    before, name = rules.read_text(), f"anna_{uuid4().hex[:8]}"
    statement(database, f"create role {name} login password '{password}'")
    statement(database, f"grant select on all tables in schema public to {name}")
    try:
        rules.write_text(f"local all {name} scram-sha-256\n{before}")
        statement(database, "select pg_reload_conf()")
        yield name
    finally:
        rules.write_text(before)
        statement(database, "select pg_reload_conf()")
        statement(database, f"drop owned by {name}; drop role {name}")


def waits_for_lock(address: str, process: subprocess.Popen) -> None:
    """Returns when a session of this database waits for an advisory lock; the process that asked must live."""
    waiting = "select 1 from pg_stat_activity where datname = current_database() and wait_event = 'advisory'"
    while not statement(address, waiting):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def process_list() -> dict[int, bytes]:
    """The command lines of all processes, as everybody on the machine sees them."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            found[int(folder.name)] = (folder / "cmdline").read_bytes()
    return found


@pytest.mark.slow
def test_a_run_that_is_killed_while_it_copies_is_taken_up_and_shows_no_password(desk, database) -> None:
    """SIGKILL between two batches, when the database waits: what was copied by then is never read."""
    add_dataset(desk)
    password = uuid4().hex
    statement(
        database,
        "create table many as select i::int8 as who, 'red'::colours as colour, 20::int2 as age, repeat('x', 400) town "
        "from generate_series(1000, 60999) i; create view slow as select * from many union all "
        "select who, colour, age, town from visits where (select pg_advisory_xact_lock_shared(7)::text) is not null",
    )
    with user_with_password(database, password) as name, psycopg.connect(database, autocommit=True) as holder:
        spec = spec_of(desk, database.replace("postgres@", f"{name}@"), read='table = "slow"', rate="0.4", k="20")
        words = ("run", spec, "--release-id", "one", "--output", "one", "--json")
        holder.execute("select pg_advisory_lock(7)")
        process = subprocess.Popen(
            [sys.executable, "-m", "crowdblend.deploy", *map(str, words)],
            cwd=desk.folder, env=os.environ | desk.settings | {"PGPASSWORD": password}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            waits_for_lock(database, process)
            [draft] = copies(desk)
            listed = process_list()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            said = "".join(process.communicate())
        assert draft.name == "records.draft"
        assert draft.stat().st_size > 100_000, "records are in it"
        assert [stat.S_IMODE(path.stat().st_mode) for path in (draft, draft.parent)] == [0o600, 0o700]
        assert b"crowdblend.deploy" in listed[process.pid]
        assert any(name.encode() in line for line in listed.values()), "the server's own process names the user"
        assert not [line for line in listed.values() if password.encode() in line]
        assert password not in said
        assert not (desk.folder / "one").exists()
        holder.execute("select pg_advisory_unlock(7)")
        statement(database, "delete from many")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PGPASSWORD", password)
            result = desk.succeed(*words).json
    assert result["published_records"] > 100
    assert not list(desk.home.rglob("copy"))
    assert [one["release_id"] for one in desk.succeed("ledger", "show", "--json").json["releases"]] == ["one"]
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")


@pytest.mark.slow
def test_a_password_comes_from_the_environment_and_is_nowhere_else(desk, database, monkeypatch) -> None:
    add_dataset(desk)
    with user_with_password(database, SECRET) as name:
        spec = spec_of(desk, database.replace("postgres@", f"{name}@"))
        for given in (None, "wrong-" + SECRET):
            if given is not None:
                monkeypatch.setenv("PGPASSWORD", given)
            refused = desk.refuse("run", spec, "--output", "out", said="refuses the login")
            assert SECRET not in refused.err + refused.out
        monkeypatch.delenv("PGPASSWORD")
        passwords = desk.folder.parent / f"{desk.folder.name}-pgpass"
        passwords.write_text(f"*:*:*:{name}:{SECRET}\n")
        passwords.chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(passwords))
        result = desk.succeed("run", spec, "--output", "out", "--json")
        shown = desk.succeed("run", spec, "--dry-run", "--output", "other").out
    assert SECRET not in result.out + result.err + shown
    for path in desk.folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    published = b"".join(path.read_bytes() for path in Path(result.json["output"]).iterdir())
    assert name.encode() not in published
    assert b"postgresql" not in published


def refused(desk, spec: Path, *said: str) -> None:
    for command in (("run", spec, "--output", "never"), ("run", spec, "--dry-run", "--output", "never")):
        answer = desk.refuse(*command)
        for text in said:
            assert text in answer.err
        assert "Traceback" not in answer.err
        assert SECRET not in answer.err


@pytest.mark.slow
def test_what_cannot_be_read_is_refused_with_its_place_and_nothing_is_charged(desk, database) -> None:
    add_dataset(desk)
    path = urlsplit(database).path
    refused(
        desk, spec_of(desk, database.replace("host=", "host=/nowhere")), "can't be reached", "Check that the server"
    )
    refused(desk, spec_of(desk, database.replace(path, "/nobodys")), "can't be reached")
    refused(desk, spec_of(desk, database.replace("postgres@", f"postgres:{SECRET}@")), "[data].source", "PGPASSFILE")
    refused(desk, spec_of(desk, database, read='table = "visit"'), "no such table", "table visit")
    refused(desk, spec_of(desk, database, read='table = "nowhere.visits"'), "no such")
    refused(desk, spec_of(desk, database, read='query = "select nobody from visits"'), "column that there isn't")
    refused(desk, spec_of(desk, database, read='query = "select colour, age, town from visits"'), "no column 'who'")
    doubled = 'query = "select colour, age, town, who, town as age from visits"'
    refused(desk, spec_of(desk, database, read=doubled), "'age' is there 2 times")
    refused(desk, spec_of(desk, database, read='query = "delete from visits"'), "[data].query", "plain SELECT")
    refused(desk, spec_of(desk, database, read='table = "visits"\nquery = "select 1"'), "exactly one")
    refused(desk, spec_of(desk, database, read="version = 3"), "[data].version")
    refused(desk, spec_of(desk, database, read='query = "select * from visits where town = 3"'), "SQLSTATE")
    refused(desk, spec_of(desk, "people.csv"), "[data].table", "from a database")
    by_decimal = 'query = "select colour, age, town, secret as who from visits"'
    refused(desk, spec_of(desk, database, read=by_decimal), "'who'", "no person can be told")
    name = f"barred_{uuid4().hex[:8]}"
    statement(database, f"create role {name} login")
    refused(desk, spec_of(desk, database.replace("postgres@", f"{name}@")), "may not read")
    statement(database, f"drop role {name}")
    reports = desk.folder / "reports.toml"
    table = '[reports]\nkind = "k-randomization"\nflip_probability = 0.25\nvalues = ["red", "blue"]\n'
    data = f'[data]\ndataset = "people"\nsource = "{database}"\ntable = "visits"\nrows_per_person = 2\n'
    reports.write_text(f'[release]\nname = "asked"\n{data}{table}')
    refused(desk, reports, "[data].source", "not from a database")
    clustered = spec_of(desk, database, edit=lambda text: text + '\n[cluster]\naddress = "tcp://127.0.0.1:1"\n')
    refused(desk, clustered, "[cluster]", "copied onto this machine")
    desk.refuse("run", spec_of(desk, database), "--scheduler", "tcp://127.0.0.1:1", "--output", "never")
    assert desk("ledger", "show", "--json").json["releases"] == []
    assert statement(database, "select count(*) from visits") == [(2000,)]
    assert not copies(desk)


@pytest.mark.slow
@pytest.mark.parametrize(
    "column", ["bytea", "int[]", "interval", "time", "money", "uuid", "jsonb", "inet", "timestamptz", "oid", "point"]
)
def test_a_type_that_is_not_read_is_refused_with_the_way_round(database, column, tmp_path) -> None:
    statement(database, f"create table odd (a int, b {column})")
    with pytest.raises(InputRefused, match=r"the column 'b' has the type .*, which isn't read") as refusal:
        POSTGRESQL.layout(query_of(database, table="odd"), columns=["a", "b"], limit=None)
    assert "b::text AS b" in refusal.value.remedy
    assert POSTGRESQL.layout(query_of(database, table="odd"), columns=["a"], limit=None).layouts
    query = query_of(database, "select a, b::text as b from odd")
    POSTGRESQL.copy(query, columns=["a", "b"], path=tmp_path / "copy" / "records.parquet")


def test_values_are_what_csv_would_have(database, tmp_path) -> None:
    statement(
        database,
        "create table kinds (a int2, b int8, c text, d varchar(9), e bool, f date, g numeric, h float8, i colours)",
    )
    statement(database, "insert into kinds values (1, 2, 'é', 'd', true, '2020-02-29', 1.50, 2.5, 'red')")
    statement(database, "insert into kinds (a) values (null)")
    path = tmp_path / "copy" / "records.parquet"
    POSTGRESQL.copy(query_of(database, table="kinds"), columns=list("abcdefghi"), path=path)
    first, second = pq.read_table(path).to_pylist()
    assert [str(value) for value in first.values()] == ["1", "2", "é", "d", "True", "2020-02-29", "1.50", "2.5", "red"]
    assert set(second.values()) == {None}


@pytest.mark.slow
def test_a_private_report_says_that_the_records_are_gone(desk, database) -> None:
    add_dataset(desk)
    spec = spec_of(desk, database)
    desk.succeed("run", spec, "--output", "out")
    desk.refuse("report", "private", spec, "out", said="destroyed")


def test_without_the_driver_the_refusal_says_what_to_install(desk, database, monkeypatch) -> None:
    add_dataset(desk)
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    refused(desk, spec_of(desk, database), "crowdblend[database]")


def test_explain_and_dry_run_name_the_table(desk, database) -> None:
    add_dataset(desk)
    spec = spec_of(desk, database)
    assert "table visits" in desk.succeed("run", spec, "--dry-run", "--output", "out").out
    explained = desk.succeed("explain", spec)
    assert explained.code == 0
    assert json.dumps(desk.succeed("explain", spec, "--json").json)
