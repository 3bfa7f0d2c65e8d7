"""What is done with records: coins for each block, the keys that a source gives of it, and groups counted from them.

This runs on workers. What a source gives is checked here; that it gives each record of a block once, with the codes
that its values have by declaration, is assumed (docs/kernel.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.contributions import (
    PERSON_WORDS,
    ContributionKeys,
    ContributionLimit,
    chosen_counts,
    sorted_records,
)
from ...mechanisms.kernel.errors import Refusal, ReleaseFailed
from ...mechanisms.kernel.group_counts import GroupCounts, add_counts, count_keys, merge_counts, sum_counts
from ...mechanisms.kernel.recoding import KeyLayout
from ...mechanisms.kernel.sampling import ChunkIdentity, Coins, sample_commitment

_RECORDS_AT_ONCE = 1 << 21
_FILES = 1 << 31
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def naming_kinds_only(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Turn every fault that is not a refusal into one that names its kind alone.

    PRIVACY: the text of an unknown fault can hold a value of the records; Dask logs it on the worker and sends it
    through the scheduler.
    """

    @wraps(function)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except Refusal:
            raise
        except Exception as error:  # noqa: BLE001 - the text of an unknown fault must not leave the worker
            kind = type(error).__name__
        # PRIVACY: outside of the handler, so that the fault isn't chained to this one and its text sent along.
        raise ReleaseFailed(
            f"a task failed on its worker ({kind}).",
            remedy="Run again with the same release id: it takes the same sample and is not charged twice.",
        )

    return guarded


class KeySource(Protocol):
    """Where a worker finds the secret; the object travels through the graph and has none of it."""

    def load(self) -> bytes:
        """Return the key, from the private store or from the memory of the worker."""
        ...


class Block(Protocol):
    """A piece of the input that has coins of its own: a row group of a file, or a fixed range of its bytes."""

    @property
    def identity(self) -> ChunkIdentity:
        """Which block it is."""
        ...

    @property
    def records(self) -> int | None:
        """How many records it has; None where that isn't known before it is read."""
        ...


class BlockCoins:
    """Tells the reader of a block which of its records are kept, and remembers what it was told.

    Args:
        coins: of the block; None where every record is kept.
    """

    __slots__ = ("_coins", "_kept", "_records")

    def __init__(self, coins: Coins | None) -> None:
        self._coins = coins
        self._records = self._kept = 0

    def kept(self, records: int) -> NDArray[np.int64] | None:
        """Return which of the block's next records are kept: their places among these, ascending; None for all."""
        if records < 0:
            raise ReleaseFailed("a reader asked for the coins of fewer records than none.")
        self._records += records
        places = None if self._coins is None else self._coins.kept(records)
        self._kept += records if places is None else places.size
        return places

    @property
    def tally(self) -> tuple[int, int]:
        """How many records it was told of, and how many of these are kept."""
        return self._records, self._kept


CoinsOfBlocks = Callable[[ChunkIdentity], BlockCoins]


class RecordSource(Protocol):
    """Reads blocks of records as integer codes, added up to keys; it travels to workers, and holds nothing secret."""

    def keys(
        self, blocks: Sequence[Any], *, layout: KeyLayout, coins: CoinsOfBlocks, persons: ContributionKeys | None
    ) -> Iterator[tuple[ChunkIdentity, NDArray[np.int64]]]:
        """Give the keys of the records that the coins of each block keep, batch by batch.

        Args:
            blocks: of one task, each as the source has listed it.
            layout: whose placements scale each column's codes, and refuse others than the column's.
            coins: asked once for each block, when its reading begins.
            persons: by which ids of persons are hashed; None where no column names a person.

        Returns:
            Each batch with its block: int64, of shape (words, n), in the order of the records. Where persons are
            hashed, two rows come before: the two words of the hash, both 0 for a record without an id.

        Raises:
            ReleaseFailed: the records can't be read, or are not those that were listed.
        """
        ...


class UnitRecords(Protocol):
    """Makes one record of all records of a unit; it travels to workers.

    PRIVACY: what it makes of a unit follows from that unit's records alone (docs/proofs/units.md).
    """

    @property
    def member_layout(self) -> KeyLayout:
        """Return how the records that are read make keys."""
        ...

    def unit_keys(self, records: GroupCounts, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the key of each unit's record, of shape (words, units), from the distinct records of each unit.

        Args:
            records: keys by the members' layout, unit after unit, and how often the unit has each.
            starts: where each unit's begin; shape (units,).
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Counting:
    """How the records of a release are counted, as it is fixed before its charge.

    Args:
        layout: how a record's codes make its group.
        source: reads the records.
        rate: of the sample; None counts every record.
        limit: how many records of a person count; None where all do.
        rates: of each code of the layout's last column, by which sampled records are drawn once more; None where the
            groups have all columns.
        units: makes one record of each unit's, which the limit says is done; None where records count as they are.
    """

    layout: KeyLayout
    source: RecordSource
    rate: Decimal | None
    limit: ContributionLimit | None
    rates: tuple[Decimal, ...] | None = None
    units: UnitRecords | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CountJob:
    """All that a task needs to know besides its blocks.

    PRIVACY: this object is part of the graph, which the scheduler holds; it must never carry the key.

    Args:
        release_id: id of the release.
        token: unique to this computation; with the release id it is part of every task's key, because Dask
            takes two tasks of one key for the same and would let two releases share a sample.
        sample_id: the ledger's name of the sample; another key is refused. None where every record is counted.
        key_source: where the key lies; None where every record is counted.
        layout, rate, source, limit, units: as of `Counting`. A limit needs the key too, which chooses the records that
            count.

    Raises:
        ValueError: a rate or limit without a sample and its key, or a sample or key without either; or units that are
            put together without a limit that says so, or the other way round.
    """

    release_id: str
    token: str
    sample_id: str | None
    layout: KeyLayout
    rate: Decimal | None
    source: RecordSource
    key_source: KeySource | None = field(repr=False)
    limit: ContributionLimit | None = None
    units: UnitRecords | None = None

    def __post_init__(self) -> None:
        if (self.units is not None) is not (self.limit is not None and self.limit.together):
            raise ValueError("units make records where the limit says so, and there alone")
        if not (self.rate is None and self.limit is None) == (self.sample_id is None) == (self.key_source is None):
            raise ValueError("a rate, a sample and its key go together; without a rate every record is counted")

    @property
    def read_layout(self) -> KeyLayout:
        """Return how the records that are read make keys."""
        return self.layout if self.units is None else self.units.member_layout

    def __dask_tokenize__(self) -> tuple[str, str, str]:
        """Return what stands for this job in the names of tasks."""
        return ("crowdblend-count", self.release_id, self.token)


class BlockCounts(NamedTuple):
    """Counted groups, and the blocks that they were counted from.

    Args:
        counts: of the groups.
        blocks: each as one number, in any order; a block that was counted twice stands there twice. Shape (blocks,).
    """

    counts: GroupCounts
    blocks: NDArray[np.int64]


def empty_counts(key_words: int) -> GroupCounts:
    """Return no groups."""
    return GroupCounts(np.empty((key_words, 0), dtype=np.int64), np.empty(0, dtype=np.int64))


def counted_blocks(blocks: Sequence[Block], *, job: CountJob) -> BlockCounts:
    """Sample, recode and count the records of some blocks.

    Raises:
        ReleaseFailed: the key is missing or another one; the records cannot be read; or the source gave other blocks,
            another number of records, or keys of no group.
    """
    if job.limit is not None:
        raise ReleaseFailed("records of a job with a limit are counted person by person.")
    parts = [empty_counts(job.layout.key_words)]
    waiting: list[NDArray[np.int64]] = []
    held = 0
    for _, _, keys in _checked(blocks, job=job, secret=_secret_of(job), persons=None):
        job.layout.require_keys(keys)
        waiting.append(keys)
        held += keys.shape[1]
        # Counted every two million records, so that a task's memory doesn't grow with its blocks.
        if held >= _RECORDS_AT_ONCE:
            parts = [merge_counts([*parts, _counted(waiting, job)])]
            waiting, held = [], 0
    if waiting:
        parts.append(_counted(waiting, job))
    return BlockCounts(merge_counts(parts), _numbers(blocks))


def person_records(blocks: Sequence[Block], *, job: CountJob) -> BlockCounts:
    """Return how many records each person has in each group, among those of some blocks; keys of shape (2 + words, n).

    A record without an id is a person of its own, named by its block and its place there.

    Raises:
        ReleaseFailed: as `counted_blocks`.
    """
    keys, _ = _keys_and_limit(job)
    parts, waiting, held = [empty_counts(PERSON_WORDS + job.read_layout.key_words)], [], 0
    for identity, first, batch in _checked(blocks, job=job, secret=None, persons=keys):
        alone = np.flatnonzero((batch[0] == 0) & (batch[1] == 0))
        if alone.size:
            places = keys.of_places(alone + first, file=identity.file, block=identity.block)
            batch[:PERSON_WORDS, alone] = np.ascontiguousarray(places).view(np.int64)
        job.read_layout.require_keys(batch[PERSON_WORDS:])
        waiting.append(batch)
        held += batch.shape[1]
        if held >= _RECORDS_AT_ONCE:
            parts, waiting, held = [added_records([*parts, _sorted(waiting, job)], job=job)], [], 0
    if waiting:
        parts.append(_sorted(waiting, job))
    return BlockCounts(added_records(parts, job=job), _numbers(blocks))


def chosen_records(records: GroupCounts, *, job: CountJob) -> GroupCounts:
    """Return the counts of the groups' sampled ones of the records that count, by the job's limit, rate and key.

    Every record of a person is among `records`, as `person_records` gives them.

    Raises:
        ReleaseFailed: the key is missing or another one.
    """
    keys, limit = _keys_and_limit(job)
    if job.units is not None:
        records = unit_records(records, job.units, layout=job.layout)
    return chosen_counts(records, most=limit.records, rate=job.rate, cells=job.layout.cells, keys=keys)


def added_records(parts: Sequence[GroupCounts], *, job: CountJob) -> GroupCounts:
    """Put partial counts of persons and groups together."""
    filled = [part for part in parts if part.counts.size] or list(parts[:1])
    if len(filled) == 1:
        return filled[0]
    keys = np.concatenate([part.keys for part in filled], axis=1)
    return sorted_records(keys, np.concatenate([part.counts for part in filled]), cells=job.read_layout.cells)


def unit_records(records: GroupCounts, units: UnitRecords, *, layout: KeyLayout) -> GroupCounts:
    """Return the one record that each unit makes, under the unit's hash."""
    hashes = records.keys[:PERSON_WORDS]
    starts = np.flatnonzero(np.append(True, np.any(hashes[:, 1:] != hashes[:, :-1], axis=0)))[: records.counts.size]
    if not starts.size:
        return empty_counts(PERSON_WORDS + layout.key_words)
    keys = units.unit_keys(GroupCounts(records.keys[PERSON_WORDS:], records.counts), starts)
    layout.require_keys(keys)
    # INVARIANT: one record for each unit, whatever its rule does. The limit of one record would cut more of them to one
    # that says something else than the rule.
    if keys.shape[1] != starts.size:
        raise ReleaseFailed("a rule made another number of records than there are units.")
    return GroupCounts(np.concatenate((hashes[:, starts], keys)), np.ones(starts.size, dtype=np.int64))


def _checked(
    blocks: Sequence[Block], *, job: CountJob, secret: bytes | None, persons: ContributionKeys | None
) -> Iterator[tuple[ChunkIdentity, int, NDArray[np.int64]]]:
    """Yield what the source reads of some blocks, each batch with its block and the place of its first record there.

    INVARIANT: the source is asked for each block once and gives as many keys of it as its coins keep.
    """
    height = job.read_layout.key_words + (0 if persons is None else PERSON_WORDS)
    left = {block.identity: block for block in blocks}
    if len(left) != len(blocks):
        raise ReleaseFailed("a task has a block of the records twice.")
    begun: dict[ChunkIdentity, BlockCoins] = {}
    given = dict.fromkeys(left, 0)

    def coins(identity: ChunkIdentity) -> BlockCoins:
        # PRIVACY: coins are drawn once for each block. A subclass could equal one block here, and name another for
        # coins.
        if type(identity) is not ChunkIdentity or identity not in left or identity in begun:
            raise ReleaseFailed("a reader began a block of the records that isn't its task's, or began one twice.")
        # Where persons' records are limited all of them are read: coins come after the limit, in `chosen_counts`.
        if secret is None or job.rate is None or persons is not None:
            begun[identity] = BlockCoins(None)
        else:
            begun[identity] = BlockCoins(Coins(key=secret, chunk=identity, rate=job.rate))
        return begun[identity]

    for identity, keys in job.source.keys(blocks, layout=job.read_layout, coins=coins, persons=persons):
        if identity not in begun:
            raise ReleaseFailed("a reader gave records of a block that it had not begun.")
        if type(keys) is not np.ndarray or keys.ndim != 2 or keys.shape[0] != height:
            raise ReleaseFailed("a reader gave records in another form than their columns have.")
        yield identity, given[identity], keys
        given[identity] += keys.shape[1]
    for identity, block in left.items():
        records, kept = begun[identity].tally if identity in begun else (-1, -1)
        if given[identity] != kept or block.records not in (None, records):
            raise ReleaseFailed("a reader gave another number of records than its block of the records has.")


def _counted(waiting: Sequence[NDArray[np.int64]], job: CountJob) -> GroupCounts:
    keys = waiting[0] if len(waiting) == 1 else np.concatenate(waiting, axis=1)
    return count_keys(keys, cells=job.layout.cells)


def _sorted(waiting: Sequence[NDArray[np.int64]], job: CountJob) -> GroupCounts:
    keys = waiting[0] if len(waiting) == 1 else np.concatenate(waiting, axis=1)
    return sorted_records(keys, cells=job.read_layout.cells)


def _secret_of(job: CountJob) -> bytes | None:
    """Return the key of the job's sample; None where there is none.

    Raises:
        ReleaseFailed: it is missing or another one.
    """
    if job.key_source is None:
        return None
    try:
        key = job.key_source.load()
    except OSError as error:
        raise ReleaseFailed(
            f"a worker cannot read the sampling key ({type(error).__name__}).",
            remedy="Processes of this machine read it in the private store (CROWDBLEND_HOME).",
        ) from None
    # INVARIANT: one release, one sample; a worker that sees another key store must not mix a second one in.
    if sample_commitment(key) != job.sample_id:
        raise ReleaseFailed(
            "a worker found a sampling key that is not this release's.",
            remedy="Run again with the same release id.",
        )
    return key


def _keys_and_limit(job: CountJob) -> tuple[ContributionKeys, ContributionLimit]:
    secret = _secret_of(job)
    if secret is None or job.limit is None:
        raise ValueError("records are chosen by a limit and a key")
    return ContributionKeys(secret=secret), job.limit


def _numbers(blocks: Sequence[Block]) -> NDArray[np.int64]:
    """Return blocks as numbers: the file's above, the block's in the lower 32 bits."""
    identities = [block.identity for block in blocks]
    # A file's number of 31 bits keeps the whole number positive, which `marked` turns into a negative key.
    if any(identity.file >= _FILES for identity in identities):
        raise ReleaseFailed(f"a release reads fewer than {_FILES:,} files.")
    return np.array([identity.file << 32 | identity.block for identity in identities], dtype=np.int64)


def add_block_counts(
    total: tuple[list[GroupCounts], list[NDArray[np.int64]]], parts: Sequence[BlockCounts]
) -> tuple[list[GroupCounts], list[NDArray[np.int64]]]:
    """Add partial counts to a sum in ranges of keys, as `add_counts` does, and their blocks to those counted before.

    The sum's ranges are used up; the blocks have the shape (blocks,).
    """
    counts, blocks = total
    return add_counts(counts, [part.counts for part in parts]), [*blocks, *(part.blocks for part in parts)]


def marked(part: BlockCounts) -> GroupCounts:
    """Return counts with a mark for each block, a group below all others that is counted once, in one table."""
    marks = np.zeros((part.counts.keys.shape[0], part.blocks.size), dtype=np.int64)
    marks[0] = -1 - part.blocks
    ones = np.ones(part.blocks.size, dtype=np.int64)
    return GroupCounts(np.concatenate((marks, part.counts.keys), axis=1), np.concatenate((ones, part.counts.counts)))


def unmarked(table: GroupCounts) -> BlockCounts:
    """Return counts and blocks of tables by `marked` that were put together; equal groups are added up."""
    marks = table.keys[0] < 0
    # The marks of a block that was counted twice may have been added up; it must stand there twice to be refused.
    blocks = np.repeat(-1 - table.keys[0][marks], table.counts[marks])
    return BlockCounts(sum_counts(table.keys[:, ~marks], table.counts[~marks]), blocks)


def require_every_block(counted: NDArray[np.int64], blocks: Sequence[Block]) -> None:
    """Refuse a sum in which a block is missing, stands twice, or isn't among those that were listed before the charge.

    Raises:
        ReleaseFailed: it is one. `counted`, of shape (blocks,), is as `BlockCounts` has it.
    """
    if not np.array_equal(np.sort(counted), np.sort(_numbers(blocks))):
        raise ReleaseFailed(
            "the sum of the counts has a block of the records twice, or lacks one.",
            remedy="Run again with the same release id: it takes the same sample and is not charged twice.",
        )
