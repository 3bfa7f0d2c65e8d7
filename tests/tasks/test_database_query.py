"""What may be read of a database: addresses without passwords, and SELECTs that treat each record by itself."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.inputs.database_query import connection_of, select_of_columns
from crowdblend.tasks.inputs.postgresql import POSTGRESQL

ADDRESS = "postgresql://anna@db.example:5432/people"
SECRET = "Zanzibar7"  # noqa: S105 - planted


def asked(query: str | None = None, *, source: str = ADDRESS, table: str | None = None):
    return POSTGRESQL.query(source, table=table, query=query, where="spec.toml: [data]")


@pytest.mark.parametrize(
    "query",
    [
        "select * from visits",
        "SELECT colour, age AS years, town::text FROM public.visits AS v WHERE age >= 18 AND NOT gone",
        "select coalesce(town, 'none') as town, case when age > 17 then 'adult' else 'child' end as age from \"My V\"",
        "select lower(town) as town from visits where day >= date '2020-01-01' and age between -1 and 99",
        "select a from visits where town in ('x', 'y') or town like 'Ly%' or (a is null and b is distinct from 'z')",
        "select a from only visits -- what follows; is a comment",
        "select a from visits;",
    ],
)
def test_conditions_on_one_record_are_taken(query: str) -> None:
    found = asked(query)
    assert found.select.startswith("SELECT ")
    assert "--" not in found.select
    assert ";" not in found.select
    assert asked(found.select).select == found.select


@pytest.mark.parametrize(
    "query",
    [
        "delete from visits",
        "insert into visits select * from visits",
        "update visits set age = 3 returning *",
        "select a from visits; drop table visits",
        "select a into other from visits",
        "select a from visits for update",
        "with gone as (delete from visits returning *) select * from gone",
        "with v as (select * from visits) select * from v",
        "select distinct a from visits",
        "select a from visits limit 3",
        "select a from visits order by a",
        "select a from visits offset 3",
        "select a, count(*) from visits group by a",
        "select max(a) from visits",
        "select rank() over (order by a) from visits",
        "select a from visits tablesample bernoulli (3)",
        "select a from visits join other on true",
        "select a from visits, other",
        "select a from visits union all select a from visits",
        "select a from (select * from visits) as v",
        "select a from visits where a in (select a from other)",
        "select a from visits where exists (select 1 from other)",
        "select (select max(a) from visits) from visits",
        "select visits.count from visits",
        "select v.* from visits as v",
        "select nextval('serial') from visits",
        "select pg_sleep(100) from visits",
        "select pg_read_file('/etc/passwd') from visits",
        "select a from visits where random() < 0.1",
        "select a from generate_series(1, 3) as a",
        "select a from lateral (select 1 as a) as b",
        "select unnest(a) from visits",
        "select 1 / a from visits",
        "select a + 1 from visits",
        "select -a from visits",
        "select a::int from visits",
        "select a::varchar(3) from visits",
        "select a from visits where a like b",
        "select a from visits where a like 'x\\'",
        "select a from visits where a = any(array[1])",
        "select $1 from visits",
        "values (1)",
        "select",
        "explain select a from visits",
        "explain analyze delete from visits",
        "copy visits to program 'sh'",
        "call drop_all()",
        "do $$ begin end $$",
        "set role postgres",
        "listen x",
        "not sql at all (",
        "",
        "((((" * 3000,
    ],
)
def test_anything_else_is_refused_before_a_server_is_asked(query: str, caplog) -> None:
    with pytest.raises(InputRefused, match=r"spec\.toml: \[data\]\.query: the query is not one plain SELECT"):
        asked(query)
    assert not caplog.records


@pytest.mark.parametrize(
    "source",
    [
        f"postgresql://anna:{SECRET}@db/people",
        f"postgresql://:{SECRET}@db/people",
        f"postgresql://anna@db/people?password={SECRET}",
        f"postgresql://anna@db/people?pass%77ord={SECRET}",
        f"postgresql://anna@db/people?sslpassword={SECRET}",
        f"postgresql://anna@db/people?{SECRET}",
        f"postgresql://anna:Zan/{SECRET}@db/people",
        f"postgresql://anna:{SECRET}#@db/people",
        f"postgresql://anna:{SECRET}",
        f"postgresql://anna@db/people?options=-c%20{SECRET}",
        f"postgresql://anna@db/people?passfile={SECRET}",
        f"postgresql+psycopg://anna:{SECRET}@db/people",
        f"postgresql:anna:{SECRET}@db",
    ],
)
def test_an_address_with_a_password_is_refused_and_not_repeated(source: str) -> None:
    with pytest.raises(InputRefused, match="PGPASSFILE") as refused:
        asked(source=source, table="visits")
    assert SECRET not in refused.value.message
    assert "anna" not in refused.value.message


@pytest.mark.parametrize(
    "source",
    [
        "postgresql:///people",
        "postgres://db",
        "postgresql://anna@[::1]:5433/people?sslmode=verify-full&sslrootcert=/etc/ca.pem",
        "postgresql://one:5432,two:5433/people?target_session_attrs=standby",
        "postgresql://anna@/people?host=/var/run/postgresql",
    ],
)
def test_other_addresses_are_taken_as_they_are(source: str) -> None:
    found = asked(source=source, table="visits")
    assert found.address == source
    assert connection_of(found.address).startswith(source)
    assert connection_of(found.address).endswith("client_encoding=UTF8")


def test_a_table_is_named_as_it_is_stored() -> None:
    assert asked(table="Visits").select == 'SELECT * FROM "Visits"'
    found = asked(table='other.we"ird; drop table x')
    assert found.select == 'SELECT * FROM "other"."we""ird; drop table x"'
    assert select_of_columns(found.select, ("a", 'b"c', "a")) == f'SELECT "a", "b""c" FROM ({found.select}) AS records'
    for wrong in ("a.b.c", ".a", "a.", "a\0"):
        with pytest.raises(InputRefused, match="no table's name"):
            asked(table=wrong)


@pytest.mark.parametrize(("opening", "closing"), [("", "::text"), ("LOWER(", ")"), ("(a AND ", ")")])
@pytest.mark.parametrize("depth", [30, 100, 300, 2_000])
def test_no_depth_is_a_fault(opening: str, closing: str, depth: int) -> None:
    with suppress(InputRefused):
        asked(f"SELECT {opening * depth}a{closing * depth} FROM visits")


def test_one_of_table_and_query_is_named() -> None:
    with pytest.raises(InputRefused, match="exactly one"):
        asked()
    with pytest.raises(InputRefused, match="exactly one"):
        asked("select a from b", table="b")


def test_without_the_parser_the_refusal_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(InputRefused, match=r"crowdblend\[database\]"):
        asked("select a from b")
