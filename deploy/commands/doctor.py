"""`crowdblend doctor`: what could keep releases from running here, found by looking alone."""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import socket
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

import click
from packaging.requirements import Requirement

from ...flows.paths import StatePaths, reader_of, resolve_paths
from ...mechanisms.kernel.amounts import counted
from ...mechanisms.kernel.errors import InputRefused, Refusal
from .options import AS_JSON, LEDGER

PATIENCE_SECONDS = 5.0
MOST_SKEW = timedelta(minutes=2)
IN_STORE = ("permissions", "keys", "leftovers", "anchor")
"""Checks that say nothing where the private store can't be opened."""
SHOWN = ("prefect", "dask", "sqlalchemy", "pyarrow", "opendp")


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that was examined.

    Args:
        name: Name of what was examined.
        ok: Whether releases can run as far as this goes.
        what: What was found.
        remedy: What to do; empty where all is well.
    """

    name: str
    ok: bool
    what: str
    remedy: str = ""


def doctor_checks(*, ledger_url: str | None) -> tuple[Check, ...]:
    """Look at everything that a release needs; nothing is made, changed or charged.

    PRIVACY: no source is looked at, and a password in an address is never shown.
    """
    try:
        places = resolve_paths(ledger_url=ledger_url)
    except Refusal as refusal:
        return (_checked("installation", _installation), _wrong("settings", refusal))
    closed = _closed_store(places.home)
    return (
        _checked("installation", _installation),
        *(() if closed is None else (_wrong("permissions", closed),)),
        *(
            _checked(name, partial(look, places))
            for name, look in (
                ("permissions", _permissions),
                ("keys", _keys),
                ("leftovers", _leftovers),
                ("ledger", _ledger),
                ("anchor", _anchor),
                ("Prefect", _prefect),
                ("Dask", _dask),
                ("clock", _clock),
            )
            if closed is None or name not in IN_STORE
        ),
    )


def _checked(name: str, look: Callable[[], str]) -> Check:
    """Look at one thing; a look returns what was found where all is well, and refuses otherwise."""
    try:
        return Check(name=name, ok=True, what=look())
    except Refusal as refusal:
        return _wrong(name, refusal)
    except OSError as error:
        return Check(
            name=name, ok=False, what=f"it can't be looked at ({error.strerror}).", remedy="See to the system."
        )


def _wrong(name: str, refusal: Refusal) -> Check:
    where = f"{refusal.where}: " if refusal.where else ""
    return Check(name=name, ok=False, what=f"{where}{refusal.what}", remedy=refusal.remedy)


def _installation() -> str:
    if problems := list(_unmet()):
        remedy = "Install crowdblend anew in an environment of its own."
        raise InputRefused(f"{'; '.join(problems)}.", remedy=remedy)
    python = ".".join(map(str, sys.version_info[:3]))
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in SHOWN)
    return f"crowdblend {metadata.version('crowdblend')}, Python {python}, {versions}; {_compiled_readers()}."


def _compiled_readers() -> str:
    """Return whether the compiled modules were installed: they are left out where there was no compiler."""
    try:
        from ...tasks.readers import csv_decoder, page_decoder  # noqa: F401
    except ImportError:
        what = "without its compiled readers (there was no compiler): releases are the same, files are read more slowly"
        return f"{what}, and a damaged Parquet file can end the process"
    return "its compiled readers are there"


def _unmet() -> Iterator[str]:
    """Requirements of the distribution that the environment doesn't meet."""
    for text in metadata.requires("crowdblend") or []:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield f"{requirement.name} is missing"
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            yield f"{requirement.name} is {found}, and {requirement.specifier} is needed"


def _closed_store(home: Path) -> InputRefused | None:
    """Return why this account can't open the private store; None where it can, and where there is none yet."""
    unseen = "Keys, leftovers and anchor weren't looked at."
    remedy = "Run as its owner, or name a private store of your own in CROWDBLEND_HOME."
    me = _account(os.geteuid())
    try:
        status = home.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        barred = next((one for one in reversed(home.parents) if one.is_dir() and not _may(one, os.X_OK)), None)
        why = error.strerror if barred is None else f"account {me} can't enter {barred}, {_rights(barred.stat())}"
        return InputRefused(f"the private store {home} can't be looked at: {why}. {unseen}", remedy=remedy)
    if not stat.S_ISDIR(status.st_mode):
        return InputRefused(f"the private store {home} is no folder. {unseen}", remedy="Name one in CROWDBLEND_HOME.")
    if _may(home, os.R_OK | os.W_OK | os.X_OK):
        return None
    what = f"account {me} can't read and write the private store {home}, {_rights(status)}. {unseen}"
    if status.st_uid == os.geteuid():
        remedy = f"Open it to its owner with: chmod 700 '{home}'"
        if stat.S_IMODE(status.st_mode) & 0o700 == 0o700:
            remedy = "See to the file system, which may be read-only, or name another store in CROWDBLEND_HOME."
    return InputRefused(what, remedy=remedy)


def _may(path: Path, rights: int) -> bool:
    return os.access(path, rights, effective_ids=os.access in os.supports_effective_ids)


def _rights(status: os.stat_result) -> str:
    return f"which belongs to account {_account(status.st_uid)} and has mode {stat.S_IMODE(status.st_mode):04o}"


def _account(number: int) -> str:
    """Return an account's name, or its number where it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _permissions(places: StatePaths) -> str:
    home = places.home
    if not os.path.exists(home):
        return f"there is no private store at {home} yet; `crowdblend dataset add` makes it."
    status = home.stat()
    if stat.S_IMODE(status.st_mode) & 0o077:
        what = f"others than its owner can look into the private store {home}."
        raise InputRefused(what, remedy=f"Close it with: chmod 700 '{home}'")
    if status.st_uid != os.geteuid():
        what = f"the private store {home}, {_rights(status)}, isn't that of account {_account(os.geteuid())}."
        raise InputRefused(what, remedy="Run as its owner, or name another in CROWDBLEND_HOME.")
    open_files = [path for path in sorted(home.rglob("*")) if not path.is_symlink() and path.stat().st_mode & 0o022]
    if open_files:
        what = f"others than the owner may write {open_files[0]}."
        raise InputRefused(what, remedy=f"Close it with: chmod go-w '{open_files[0]}'")
    return f"the private store {home} is its owner's alone."


def _keys(places: StatePaths) -> str:
    return f"the key {places.anchoring.keys.current().public.key_id} signs."


def _leftovers(places: StatePaths) -> str:
    """Look for what killed processes have left: secrets, and what a secret may be in."""
    from ...accounting.keys.store_upkeep import core_files, left_by_the_dead

    cleared = [*_keys_without_use(places), *map(str, left_by_the_dead(places.home))]
    cores = list(map(str, core_files(places.home, Path.cwd())))
    if not cleared and not cores:
        return "nothing is left of processes that were killed."
    remedies = ["The next run clears them away."] if cleared else []
    if cores:
        remedies.append("A core file holds what a process had in memory: remove it (shred -u).")
    left = ", ".join([*cleared, *cores])
    raise InputRefused(f"left by processes that were killed: {left}.", remedy=" ".join(remedies))


def _keys_without_use(places: StatePaths) -> Iterator[str]:
    """Yield the releases that are closed or were never charged, and whose keys or copies of records are still there."""
    from ...accounting.keys.store_upkeep import is_held, releases_with_secrets
    from ...accounting.ledger.lookup import needs_no_secrets

    try:
        reader = reader_of(places)
    except Refusal:
        return  # reported by another check
    with reader:
        for name in releases_with_secrets(places.home, ledger_id=reader.ledger_id):
            state = reader.release(name)
            if needs_no_secrets(state) and is_held(places.home, ledger_id=reader.ledger_id, release_id=name) is False:
                stage = "was never charged" if state is None else f"is {state.stage}"
                yield f"secrets of release {name}, which {stage}"


def _ledger(places: StatePaths) -> str:

    with reader_of(places) as reader:
        entries, datasets = reader.head().position + 1, len(reader.datasets())
    sizes = f"{counted(entries, 'entry', 'entries')}, {counted(datasets, 'data set')}"
    return f"it opens: {sizes}. Whether it holds together: crowdblend ledger verify."


def _anchor(places: StatePaths) -> str:

    with reader_of(places) as reader:
        reader.require_anchored(places.anchoring)
        return f"the ledger continues it: {places.anchoring.anchor_of(reader.ledger_id).path}."


def _prefect(places: StatePaths) -> str:
    del places
    address = os.environ.get("PREFECT_API_URL")
    if not address:
        return "each run has a server of its own (PREFECT_API_URL is not set)."
    if _asked(address) is None:
        remedy = "Start the server, or unset PREFECT_API_URL: each run then has a server of its own."
        raise InputRefused("the server of PREFECT_API_URL doesn't answer.", remedy=remedy)
    return "the server of PREFECT_API_URL answers."


def _asked(address: str) -> datetime | None:
    """Return the time by a Prefect server's clock; None where it doesn't answer as one."""
    if urlsplit(address).scheme not in ("http", "https"):
        return None
    try:
        health = f"{address.rstrip('/')}/health"
        with urllib.request.urlopen(health, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - the scheme was checked
            reported = answer.headers.get("Date")
    except (OSError, ValueError, urllib.error.URLError):
        return None
    return datetime.now(UTC) if reported is None else parsedate_to_datetime(reported)


def _dask(places: StatePaths) -> str:
    del places
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    if not address:
        processors = counted(os.cpu_count() or 1, "processor")
        return f"this machine's {processors}, unless --scheduler or [cluster] names a cluster."
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE_SECONDS).close()
    except (OSError, ValueError):
        what = "nothing listens at the address in DASK_SCHEDULER_ADDRESS."
        raise InputRefused(what, remedy="Start it, or correct DASK_SCHEDULER_ADDRESS.") from None
    return "the scheduler of DASK_SCHEDULER_ADDRESS listens."


def _clock(places: StatePaths) -> str:
    """Compare this clock, whose days stand in entries and by which tokens end, with what is recorded."""

    now, remedy = datetime.now(UTC), "Set the clock, for example by NTP."
    if now.timestamp() < 0:
        raise InputRefused(f"it says {now:%Y-%m-%d}, before 1970.", remedy=remedy)
    address = os.environ.get("PREFECT_API_URL")
    theirs = _asked(address) if address else None
    if theirs is not None and abs(theirs - now) > MOST_SKEW:
        raise InputRefused(f"it differs by {abs(theirs - now)} from the Prefect server's.", remedy=remedy)
    try:
        with reader_of(places) as reader:
            latest = max((state.charge.day for state in reader.releases()), default=None)
    except Refusal:
        return f"{now:%Y-%m-%d %H:%M} UTC; no ledger could be read to compare it with."
    if latest is not None and latest > now.date():
        what = f"it says {now:%Y-%m-%d}, before the ledger's last charge on {latest}."
        raise InputRefused(what, remedy=remedy)
    return f"{now:%Y-%m-%d %H:%M} UTC, not before anything recorded."


@click.command()
@LEDGER
@AS_JSON
def doctor(ledger_url: str | None, as_json: bool) -> int:
    """Check installation, permissions, keys, leftovers, ledger, anchor, Prefect, Dask and clock; nothing is changed.

    Each line says ok, or what is wrong and what to do. Leaves with 1 where anything is wrong.
    """
    checks = doctor_checks(ledger_url=ledger_url)
    ok = all(check.ok for check in checks)
    if as_json:
        listed = [dataclasses.asdict(check) for check in checks]
        click.echo(json.dumps({"ok": ok, "checks": listed}, ensure_ascii=False))
        return 0 if ok else 1
    for check in checks:
        click.echo(f"{'ok   ' if check.ok else 'wrong'}  {check.name}: {check.what}")
        if check.remedy:
            click.echo(f"       {check.remedy}")
    return 0 if ok else 1
