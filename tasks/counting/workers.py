"""What must be the same on every worker, and what a fault on one may tell.

It tells its kind alone: its text travels through the scheduler and into logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, ParamSpec, TypeVar

from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.kernel.sampling import LAYOUT
from ..readers.source_files import SourceFile, require_as_listed

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


# INVARIANT: whatever changes the numbers of a chunk's records needs a new number here. Version 1 took every line of a
# CSV file for a record, whatever quotes said, and passed over the empty lines of a file with one column.
CSV_RECORDS = "csv-records/2"

SAMPLER_LAYOUT = f"{LAYOUT} {CSV_RECORDS}"
"""Version that the ledger, certificates and workers name; a release that was begun with another is never taken up."""


ANSWERED_WITHIN_SECONDS = 20.0
UNKNOWN = "without crowdblend, or with a version that can't be asked"


def identity() -> str:
    """Version and sampler's layout of the process that this runs in."""
    return f"crowdblend {version('crowdblend')}, sampler {SAMPLER_LAYOUT}"


def require_same_everywhere(client: Any) -> None:  # noqa: ANN401
    """Ask the scheduler, and each worker directly, for its identity, and refuse another than this process's.

    Another version could read a record in another way or draw another sample. Workers are asked directly since
    that is how they are given the key.

    Raises:
        InputRefused: names the first machine that differs or that this process can't connect to.
    """
    client.sync(_require_same, client)


FILES_ASKED_FOR = 16


def require_files_seen(client: Any, files: Sequence[SourceFile]) -> None:  # noqa: ANN401
    """Have each worker open some of the files and refuse one that sees other files, or none; no record is read.

    A file system that numbers files anew on every machine would else make the release fail after its charge.

    Raises:
        InputRefused: names the first worker that doesn't see one of them.
    """
    # A sample of the files suffices: what differs between machines is how a whole file system numbers its files.
    some = tuple(files[:: -(-len(files) // FILES_ASKED_FOR)])
    client.sync(_require_seen, client, some)


async def _require_seen(client: Any, files: tuple[SourceFile, ...]) -> None:  # noqa: ANN401
    known = await client.scheduler.identity(n_workers=-1)
    await asyncio.gather(*(_require_seen_by(client, address, files) for address in known["workers"]))


async def _require_seen_by(client: Any, address: str, files: tuple[SourceFile, ...]) -> None:  # noqa: ANN401
    from distributed.protocol.pickle import dumps

    asked = client.rpc(address).run(function=dumps(unseen_file), args=dumps((files,)))
    try:
        answer = await asyncio.wait_for(asked, ANSWERED_WITHIN_SECONDS)
    except (OSError, TimeoutError) as error:
        raise InputRefused(f"a worker doesn't answer ({type(error).__name__}).", where=address) from None
    unseen = answer["result"] if answer["status"] == "OK" else files[0].path
    if unseen is not None:
        raise InputRefused(
            f"a worker of the cluster doesn't see the file {unseen} that was listed here: it sees none, or one of "
            "another size, time of last change or inode number.",
            where=address,
            remedy="Name the records by a path that is the same folder on every machine, on a file system that gives "
            "a file one inode number everywhere, or by the URL of an object store.",
        )


def unseen_file(files: tuple[SourceFile, ...]) -> str | None:
    """Return the path of a file that this process doesn't see as it was listed; None where it sees all."""
    for file in files:
        try:
            require_as_listed((file,))
        except ReleaseFailed:
            return file.path
    return None


async def _require_same(client: Any) -> None:  # noqa: ANN401
    known = await client.scheduler.identity(n_workers=-1)
    await _require(client, client.scheduler.address, what="the scheduler")
    await asyncio.gather(*(_require(client, address, what="a worker") for address in known["workers"]))


async def _require(client: Any, address: str, *, what: str) -> None:  # noqa: ANN401
    from distributed.protocol.pickle import dumps

    try:
        if address == client.scheduler.address:
            asked = client.scheduler.run_function(function=dumps(identity))
        else:
            asked = client.rpc(address).run(function=dumps(identity))
        answer = await asyncio.wait_for(asked, ANSWERED_WITHIN_SECONDS)
        found = str(answer["result"]) if answer["status"] == "OK" else UNKNOWN
    except (ImportError, AttributeError):
        found = UNKNOWN
    except (OSError, TimeoutError) as error:
        raise InputRefused(
            f"{what} of the cluster can't be reached from here ({type(error).__name__}).",
            where=address,
            remedy="The release's process connects to every worker; run it inside the cluster's network.",
        ) from None
    if found != identity():
        raise InputRefused(
            f"{what} is {found}, and this is {identity()}.",
            where=address,
            remedy="Install the same version on every machine of the cluster.",
        )
