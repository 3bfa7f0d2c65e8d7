"""What must be the same on every machine of a cluster: the software's version and the sampler's layout."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from ..mechanisms.refusal import InputRefused
from .sampler_layout import SAMPLER_LAYOUT

__all__ = ["identity", "require_same_everywhere"]

ANSWERED_WITHIN_SECONDS = 20.0
UNKNOWN = "without crowdblend, or with a version that can't be asked"


def identity() -> str:
    """Version and sampler's layout of the process that this runs in."""
    return f"crowdblend {version('crowdblend')}, sampler {SAMPLER_LAYOUT}"


def require_same_everywhere(client: Any) -> None:  # noqa: ANN401
    """Ask the scheduler, and each worker directly, for its identity, and refuse another than this process's.

    Another version could read a record in another way or draw another sample. Workers are asked directly since
    that is how they are given the key.

    Args:
        client: a connected `distributed.Client`.

    Raises:
        InputRefused: names the first machine that differs or that this process can't connect to.
    """
    client.sync(_require_same, client)


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
