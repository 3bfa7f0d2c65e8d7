"""Hosts of a test on one machine: network namespaces behind one bridge, each with a link of limited bandwidth."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

NETWORK = "10.231.47"
"""The first three numbers of all addresses; `.1` is this machine's own on the bridge."""


def possible() -> bool:
    """Whether this machine can have such hosts."""
    return os.getuid() == 0 and all(map(shutil.which, ("ip", "tc")))


@dataclass(frozen=True)
class Host:
    """A network namespace with an address of its own."""

    namespace: str
    link: str
    address: str

    @property
    def around(self) -> list[str]:
        """The words that start a program on it."""
        return ["ip", "netns", "exec", self.namespace]

    def bytes_sent(self) -> int:
        """What has left it over its link."""
        [told] = json.loads(run(*self.around, "ip", "-json", "-stats", "link", "show", "eth0"))
        sent: int = told["stats64"]["tx"]["bytes"]
        return sent


def run(*words: str) -> str:
    """Run a program that must succeed; what it said."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


@contextmanager
def hosts(many: int, *, rate: str) -> Iterator[list[Host]]:
    """So many hosts, all reachable from here and from each other; nothing of them is left at the end.

    Args:
        many: at most 250.
        rate: of each link, in each direction, as `tc` names it: `8mbit`.
    """
    prefix = f"cb{os.getpid()}"
    bridge = f"{prefix}b"
    made = [
        Host(namespace=f"{prefix}-{number}", link=f"{prefix}v{number}", address=f"{NETWORK}.{number + 2}")
        for number in range(many)
    ]
    try:
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "address", "add", f"{NETWORK}.1/24", "dev", bridge)
        run("ip", "link", "set", bridge, "up")
        for host in made:
            run("ip", "netns", "add", host.namespace)
            run("ip", "link", "add", host.link, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
            run("ip", "link", "set", host.link, "master", bridge, "up")
            run(*host.around, "ip", "address", "add", f"{host.address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run(*host.around, "ip", "link", "set", device, "up")
            limit = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "200ms")
            run(*host.around, "tc", "qdisc", "add", "dev", "eth0", *limit)
            run("tc", "qdisc", "add", "dev", host.link, *limit)
        yield made
    finally:
        for words in (*(("netns", "delete", host.namespace) for host in made), ("link", "delete", bridge)):
            with suppress(AssertionError):
                run("ip", *words)
