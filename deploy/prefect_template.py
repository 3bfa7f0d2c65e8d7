"""An empty database of Prefect's, made once for each of its versions, so that a run need not migrate one of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

__all__ = ["lay_out_database", "template_in"]

DATABASE = "prefect.db"


def template_in(private_home: Path) -> Path:
    """Where the private store keeps the empty database of the Prefect that is installed."""
    from importlib.metadata import version

    return private_home / "cache" / f"prefect-{version('prefect')}.db"


def lay_out_database(home: Path, template: Path) -> None:
    """Give the server of a home its empty database: a copy of the template, which is made first where there is none.

    PRIVACY: the template is taken before a server has run on it, so it holds Prefect's tables and nothing of any
    release; each run writes to a copy of its own. The server still looks whether the copy has all migrations. Whatever
    goes wrong leaves no database, and then the server makes one.

    Args:
        home: Prefect's home; with a database in it already, it is left as it is.
        template: the file of the template, in a private folder.
    """
    target = home / DATABASE
    if target.exists() or not _database_is(target):
        return
    try:
        if not _sound(template):
            _migrate()
            _keep(target, template)
        else:
            shutil.copyfile(template, target)
        target.chmod(0o600)
    except (OSError, sqlite3.Error):
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"):
            (home / name).unlink(missing_ok=True)


def _database_is(target: Path) -> bool:
    """Whether Prefect's settings name this file, and not a database that somebody else chose."""
    from prefect.settings import get_current_settings

    url = get_current_settings().server.database.connection_url
    return url is not None and url.get_secret_value() == f"sqlite+aiosqlite:///{target}"


def _migrate() -> None:
    from prefect.server.database import provide_database_interface

    async def migrate() -> None:
        interface = provide_database_interface()
        await interface.create_db()
        await (await interface.engine()).dispose()

    asyncio.run(migrate())


def _sound(template: Path) -> bool:
    """Whether the template is a whole database that no flow has run on."""
    if not template.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{template.as_uri()}?mode=ro", uri=True)) as database:
            [whole] = database.execute("PRAGMA quick_check").fetchone()
            [runs] = database.execute("SELECT count(*) FROM flow_run").fetchone()
            return bool(whole == "ok" and runs == 0)
    except sqlite3.Error:
        return False


def _keep(source: Path, template: Path) -> None:
    """Copy the migrated database to the template's place, whole or not at all."""
    template.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix="prefect-", dir=template.parent)
    os.close(handle)
    made = Path(name)
    try:
        with closing(sqlite3.connect(source)) as migrated, closing(sqlite3.connect(made)) as copy:
            migrated.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # a database of one file, that reading leaves as it is
        made.replace(template)
    finally:
        made.unlink(missing_ok=True)
