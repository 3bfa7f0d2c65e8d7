"""Every mutation of every derived row is found from inside the ledger, without its anchor."""

from __future__ import annotations

import pytest
from crowdblend.accounting.ledger.database.schema import DERIVED_TABLES
from sqlalchemy import delete, insert, update


@pytest.mark.slow
def test_every_column_of_every_derived_row_counts(victim, thorough) -> None:
    """Each value changed alone, each row removed, and each row written a second time under another key."""
    for table in DERIVED_TABLES:
        rows = victim.rows(table)
        for row in [rows[0], *victim.some(rows[1:], thorough=thorough)]:
            this = [table.c[name] == value for name, value in row.items()]
            for name, value in row.items():
                of_others = [other[name] for other in rows if other[name] != value][:2]
                more = (value + 1, 977) if name == "position" else victim.others(value)[:3]
                for other in (*of_others, *more):
                    change = update(table).where(*this).values({name: other})
                    assert victim.found(lambda connection, change=change: connection.execute(change)), (row, name)
            gone = delete(table).where(*this)
            assert victim.found(lambda connection, gone=gone: connection.execute(gone)), row


def test_a_derived_row_that_follows_from_nothing_is_found(victim, thorough) -> None:
    """In every table, at every entry's place and past the end."""
    for table in DERIVED_TABLES:
        template = victim.rows(table)[0]
        for position in (*victim.some(range(len(victim.documents())), thorough=thorough), 977):
            fresh = {
                name: value if not isinstance(value, str) or not column.primary_key else "forged"
                for (name, value), column in zip(template.items(), table.columns, strict=True)
            }
            row = insert(table).values(fresh | {"position": position})
            assert victim.found(lambda connection, row=row: connection.execute(row)), (table.name, position)
