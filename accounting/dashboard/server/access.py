"""The dashboard's options, and who may look: tokens, a reverse proxy's word, and a limit on wrong attempts."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

from ....mechanisms.kernel.errors import InputRefused
from ...kernel.keys.signing import PublicKey
from ...kernel.ledger.ledger_state import Token
from ...ledger.tokens import recognised

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})")
HOST = re.compile(r"(?:\[(?P<literal>[^\]]*)\]|(?P<name>[^\[:][^:]*|))(?::[0-9]*)?")
HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How the dashboard is run.

    Args:
        ledger_url: SQLAlchemy URL of the ledger; may hold a password, so it is never shown.
        host: the address to listen at.
        port: the port; 0 for any that is free.
        public_names: names under which it is reached from elsewhere; with one, everybody needs a token.
        require_token: whether everybody needs a token anyhow.
        proxies: addresses of reverse proxies that say who somebody is.
        proxy_header: the header in which they say it.
        releases: folders of published releases, whose certificates are given out.
        anchor: a copy of the anchor that the chain is held against, None for none.
        anchor_keys: public keys that may have signed it.
        hold_back_minutes: pages show the ledger as it was at the last whole interval of this length; 0 for now.

    Raises:
        InputRefused: a value of another form, or a place that others reach without a name for it.
    """

    ledger_url: str
    host: str = "127.0.0.1"
    port: int = 8720
    public_names: tuple[str, ...] = ()
    require_token: bool = False
    proxies: tuple[Network, ...] = ()
    proxy_header: str = "X-Forwarded-User"
    releases: tuple[Path, ...] = ()
    anchor: Path | None = None
    anchor_keys: tuple[PublicKey, ...] = ()
    hold_back_minutes: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what would let in others than was meant."""
        if not 0 <= self.port < 1 << 16:
            raise InputRefused(f"a port lies between 0 and 65535, not {self.port}.", where="--port")
        for name in self.public_names:
            if not NAME.fullmatch(name):
                raise InputRefused("a public name is a host name without scheme or port.", where="--public-name")
        if not HEADER.fullmatch(self.proxy_header) or self.proxy_header.lower() in ("authorization", "host", "cookie"):
            raise InputRefused("this can't be the header of an identity.", where="--proxy-header")
        if not 0 <= self.hold_back_minutes <= 60 * 24 * 7:
            raise InputRefused("the pages' delay can be a week at most.", where="--hold-back")
        if not is_loopback(self.host) and not self.public_names:
            raise InputRefused(
                f"others can reach {self.host}, so the pages need the name by which they may be asked for.",
                where="--host",
                remedy="Give it with --public-name, add a token with `crowdblend token add`, and put TLS before it.",
            )

    @property
    def open_to_all(self) -> bool:
        """Whether nobody needs a token: only where nobody but this machine's users can ask."""
        return is_loopback(self.host) and not (self.public_names or self.require_token or self.proxies)

    def __repr__(self) -> str:
        """Leave the URL out: it may hold a password."""
        return f"Options(host={self.host!r}, port={self.port})"


def is_loopback(host: str) -> bool:
    """Return whether an address, or the name localhost, is this machine's alone."""
    address = _address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with suppress(ValueError):
        return ipaddress.ip_address(text)
    return None


MOST_FAILURES = 10
SECONDS_OF_FAILURES = 60.0
MOST_ADDRESSES = 4_096
LONGEST_CREDENTIAL = 512

Decision = Literal["in", "who", "wrong", "too many"]


class Access:
    """Decides about each request, without looking at what it asks for; tokens and day (in UTC) are those of now."""

    def __init__(self, options: Options, *, tokens: Callable[[], tuple[Token, ...]], today: Callable[[], date]) -> None:
        self._options, self._tokens, self._today = options, tokens, today
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # caller → how many, until when they count
        self._lock = threading.Lock()

    def knows_host(self, host: str | None) -> bool:
        """Return whether a Host header is one that these pages go by: a page elsewhere can't pass for them.

        Without this, a name that an attacker lets resolve to this machine would make a browser read these pages to it.
        """
        name = host_of(host)
        return name is not None and (name in (*self._options.public_names, self._options.host) or is_loopback(name))

    def decide(self, *, peer: str, headers: Mapping[str, str], values: Mapping[str, int]) -> Decision:
        """Whether a peer's request may go on, by its headers in lower case and how often each of them was sent."""
        if self._options.open_to_all:
            # A proxy in front makes everybody a local user; it gives itself away by these.
            passed_on = {"forwarded", "via", "x-forwarded-for", "x-real-ip", "x-forwarded-host"} & headers.keys()
            return "who" if passed_on or not is_loopback(host_of(headers.get("host")) or "") else "in"
        identity, address = self._options.proxy_header.lower(), _address_of(peer)
        caller = peer
        if address is not None and any(address in network for network in self._options.proxies):
            if values.get(identity) == 1 and headers[identity].strip():
                return "in"
            # Whom a proxy speaks for: the last hop, which the proxy itself wrote.
            caller += " " + headers.get("x-forwarded-for", "").rsplit(",", 1)[-1].strip()[:64]
        with self._lock:
            failures, until = self._failures.get(caller, (0, math.inf))
            if time.monotonic() >= until:
                del self._failures[caller]
            elif failures >= MOST_FAILURES:
                return "too many"
        if values.get("authorization", 0) == 0:
            return "who"
        presented = _credential(headers["authorization"]) if values["authorization"] == 1 else None
        if presented is not None and recognised(presented, tokens=self._tokens(), today=self._today()):
            return "in"
        with self._lock:
            times, until = self._failures.pop(caller, (0, time.monotonic() + SECONDS_OF_FAILURES))
            self._failures[caller] = (times + 1, until)
            while len(self._failures) > MOST_ADDRESSES:
                self._failures.popitem(last=False)
        return "wrong"


def host_of(header: str | None) -> str | None:
    """Return the host of a Host header, without its port; None where it has another form."""
    if header is None or len(header) > 300 or not header.isascii() or (found := HOST.fullmatch(header)) is None:
        return None
    return (found["literal"] or found["name"] or "").lower().rstrip(".") or None


def _credential(header: str) -> str | None:
    """Return the token of an Authorization header: a bearer's, or the password of HTTP Basic."""
    scheme, _, rest = header.partition(" ")
    scheme, rest = scheme.lower(), rest.strip()
    if len(rest) > LONGEST_CREDENTIAL or scheme not in ("bearer", "basic"):
        return None
    if scheme == "bearer":
        return rest
    with suppress(binascii.Error, UnicodeDecodeError):
        _, colon, password = base64.b64decode(rest, validate=True).decode("utf-8").partition(":")
        return password if colon else None
    return None
