"""How the dashboard is run: where it listens, who may look, what it may give out."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from ...mechanisms.refusal import InputRefused
from ..ledger.signing import PublicKey

__all__ = ["Address", "Network", "Options", "is_loopback"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})")
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
            raise InputRefused("pages can be held back for up to a week.", where="--hold-back")
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
    """Whether an address, or the name localhost, is this machine's alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
