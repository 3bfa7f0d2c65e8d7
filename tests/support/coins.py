"""Coins of blocks as the kernel hands them to readers."""

from __future__ import annotations

from decimal import Decimal

from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, Coins
from crowdblend.tasks.kernel.counting import BlockCoins, CoinsOfBlocks

__all__ = ["coins_of", "every_record"]


def coins_of(key: bytes, rate: Decimal) -> CoinsOfBlocks:
    """Return what gives each block the coins of a key."""
    return lambda identity: BlockCoins(Coins(key=key, chunk=identity, rate=rate))


def every_record(_: ChunkIdentity) -> BlockCoins:
    """Return what keeps every record of a block."""
    return BlockCoins(None)
