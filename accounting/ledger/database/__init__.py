"""The database under a ledger: schema, migrations, connections, roles, and the rows derived from entries."""
