"""What tasks count: the same however blocks are grouped and put together, and nothing without the right key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from crowdblend.mechanisms.kernel.contributions import (
    PERSON_WORDS,
    ContributionKeys,
    ContributionLimit,
    chosen_counts,
    sorted_records,
)
from crowdblend.mechanisms.kernel.errors import InputRefused, ReleaseFailed
from crowdblend.mechanisms.kernel.group_counts import (
    GroupCounts,
    count_keys,
    joined_counts,
    merge_counts,
    sum_counts,
)
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, kept_positions, sample_commitment
from crowdblend.tasks.kernel import counting
from crowdblend.tasks.kernel.counting import (
    BlockCoins,
    BlockCounts,
    CountJob,
    add_block_counts,
    added_records,
    chosen_records,
    counted_blocks,
    empty_counts,
    marked,
    naming_kinds_only,
    person_records,
    require_every_block,
    unit_records,
    unmarked,
)
from support.kernel_bench import BLOCKS, LAYOUT, RATE, Block, Records, codes_of

SECRET = bytes(range(32))
LIMIT = ContributionLimit(unit="person", column="who", records=3)


class Key:
    """A key's place that a worker reads."""

    def __init__(self, secret: bytes | None) -> None:
        self.secret = secret

    def load(self) -> bytes:
        """Return the key."""
        if self.secret is None:
            raise PermissionError("no store here")
        return self.secret


class Persons(Records):
    """A source of records whose persons have several each; every fifth record is without an id."""

    def keys(self, blocks: Sequence[Any], *, layout: Any, coins: Any, persons: ContributionKeys) -> Iterator[Any]:
        """Give each block's records in two batches."""
        for block in blocks:
            groups = self.kept(block.identity, coins(block.identity), layout)
            hashes = persons.of_numbers(owners(block.identity)).view(np.int64).copy()
            hashes[:, ::5] = 0
            hashes[0, 1::5] = hashes[1, 2::5] = 0  # a word of a hash may be 0
            rows = np.concatenate([hashes, groups])
            yield block.identity, rows[:, :150].copy()
            yield block.identity, rows[:, 150:].copy()


def owners(identity: ChunkIdentity) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(7 + identity.file + 2 * identity.block).integers(0, 60, 400)


def job(source: Any, **change: Any) -> CountJob:
    usual = CountJob(
        release_id="one",
        token="t",  # noqa: S106 - the name of a computation
        sample_id=sample_commitment(SECRET),
        layout=LAYOUT,
        rate=RATE,
        source=source,
        key_source=Key(SECRET),
    )
    return replace(usual, **change)


SPLITS = [[[0, 1, 2, 3]], [[0], [1], [2], [3]], [[3, 1], [2, 0]], [[2], [0, 3, 1], []]]


@pytest.mark.parametrize("at_once", [1 << 21, 30])
@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_a_sum_is_that_of_its_blocks_however_they_are_grouped(split, at_once, monkeypatch) -> None:
    monkeypatch.setattr(counting, "_RECORDS_AT_ONCE", at_once)
    expected = []
    for block in BLOCKS:
        codes = codes_of(block.identity)
        kept = kept_positions(key=SECRET, chunk=block.identity, records=400, rate=RATE)
        expected.append(count_keys((4 * codes[0] + codes[1])[kept].reshape(1, -1), cells=12))
    parts = [counted_blocks([BLOCKS[place] for place in group], job=job(Records())) for group in split]
    total: Any = ([], [])
    for part in parts:
        total = add_block_counts(total, [part])
    whole, blocks = joined_counts(total[0]), np.concatenate(total[1])
    together = [marked(part) for part in parts]
    table = sum_counts(
        np.concatenate([one.keys for one in together], axis=1), np.concatenate([one.counts for one in together])
    )
    for found in (BlockCounts(whole, blocks), unmarked(table)):
        assert [one.tolist() for one in found.counts] == [one.tolist() for one in merge_counts(expected)]
        require_every_block(found.blocks, BLOCKS)
        for wrong in (found.blocks[1:], np.append(found.blocks, found.blocks[0])):
            with pytest.raises(ReleaseFailed, match="a block of the records twice, or lacks one"):
                require_every_block(wrong, BLOCKS)


@pytest.mark.parametrize("at_once", [1 << 21, 200])
@pytest.mark.parametrize("rate", [RATE, None])
@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_of_each_person_at_most_so_many_records_count_wherever_they_lie(split, rate, at_once, monkeypatch) -> None:
    """A record without an id is a person of its own, by its block and its place there."""
    monkeypatch.setattr(counting, "_RECORDS_AT_ONCE", at_once)
    keys = ContributionKeys(secret=SECRET)
    rows = []
    for block in BLOCKS:
        codes = codes_of(block.identity)
        hashes = keys.of_numbers(owners(block.identity)).view(np.int64).copy()
        alone = np.arange(0, 400, 5)
        hashes[0, 1::5] = hashes[1, 2::5] = 0
        hashes[:, alone] = keys.of_places(alone, file=block.identity.file, block=block.identity.block).view(np.int64)
        rows.append(np.concatenate([hashes, (4 * codes[0] + codes[1]).reshape(1, -1)]))
    every = sorted_records(np.concatenate(rows, axis=1), cells=12)
    expected = chosen_counts(every, most=3, rate=rate, cells=12, keys=keys)
    asked = job(Persons(), rate=rate, limit=LIMIT)
    parts = [person_records([BLOCKS[place] for place in group], job=asked) for group in split]
    require_every_block(np.concatenate([part.blocks for part in parts]), BLOCKS)
    found = chosen_records(added_records([part.counts for part in parts], job=asked), job=asked)
    assert [one.tolist() for one in found] == [one.tolist() for one in expected]


def test_records_are_added_up_as_soon_as_so_many_wait(monkeypatch) -> None:
    """A task's memory is bounded by them, not by its blocks."""
    added = []
    counted = counting._counted
    monkeypatch.setattr(counting, "_RECORDS_AT_ONCE", 400)
    monkeypatch.setattr(counting, "_counted", lambda waiting, job: added.append(len(waiting)) or counted(waiting, job))
    everything = job(Records(), rate=None, sample_id=None, key_source=None)
    assert counted_blocks(BLOCKS, job=everything).counts.counts.sum() == 1600
    assert added == [1, 1, 1, 1]


def test_records_of_persons_in_no_block_have_the_form_of_others() -> None:
    asked = job(Persons(), limit=LIMIT)
    none, some = (person_records(blocks, job=asked).counts for blocks in ([], BLOCKS[:1]))
    assert (none.keys.shape, none.counts.shape) == ((some.keys.shape[0], 0), (0,))


class Sizes:
    """Makes a record of each unit: how many records it has, as a group."""

    member_layout = LAYOUT

    def unit_keys(self, records: GroupCounts, starts: np.ndarray) -> np.ndarray:
        """Add each unit's records up."""
        return np.add.reduceat(records.counts, starts).reshape(1, -1)


class OneFewer(Sizes):
    """Leaves the last unit out."""

    def unit_keys(self, records: GroupCounts, starts: np.ndarray) -> np.ndarray:
        """Add the others' records up."""
        return super().unit_keys(records, starts)[:, :-1]


class OneMore(Sizes):
    """Makes two records of the last unit."""

    def unit_keys(self, records: GroupCounts, starts: np.ndarray) -> np.ndarray:
        """Add each unit's records up, the last one's twice."""
        return super().unit_keys(records, np.append(starts, starts[-1]))


def test_each_unit_makes_one_record_of_all_that_it_has() -> None:
    """The second and the third unit agree in a word of their hashes with the one before."""
    members = np.array([[1, 1, 1, 1, 1, 4, 4], [1, 1, 2, 2, 2, 2, 2], [0, 7, 0, 3, 5, 3, 11]])
    found = unit_records(GroupCounts(members, np.array([1, 2, 1, 1, 3, 4, 2])), Sizes(), layout=LAYOUT)
    assert found.keys.tolist() == [[1, 1, 4], [1, 2, 2], [3, 5, 6]]
    assert found.counts.tolist() == [1, 1, 1]
    for wrong in (OneFewer(), OneMore()):
        with pytest.raises(ReleaseFailed, match="another number of records than there are units"):
            unit_records(GroupCounts(members, np.ones(7, dtype=np.int64)), wrong, layout=LAYOUT)
    none = unit_records(empty_counts(PERSON_WORDS + LAYOUT.key_words), Sizes(), layout=LAYOUT)
    assert (none.keys.shape, none.counts.shape) == ((PERSON_WORDS + LAYOUT.key_words, 0), (0,))


def test_nothing_is_counted_without_the_samples_key() -> None:
    for secret, told in (
        (None, r"cannot read the sampling key \(PermissionError\)"),
        (bytes(32), "not this release's"),
    ):
        with pytest.raises(ReleaseFailed, match=told):
            counted_blocks(BLOCKS, job=job(Records(), key_source=Key(secret)))
    everything = job(Records(), rate=None, sample_id=None, key_source=None)
    assert counted_blocks(BLOCKS, job=everything).counts.counts.sum() == 1600
    with pytest.raises(ValueError, match="a limit and a key"):
        person_records(BLOCKS, job=everything)
    parts = ("rate", "sample_id", "key_source")
    for some in (missing for number in (1, 2) for missing in combinations(parts, number)):
        with pytest.raises(ValueError, match="go together"):
            job(Records(), **dict.fromkeys(some))


def test_a_job_is_named_by_its_release_and_its_computation_and_shows_no_key() -> None:
    assert job(Records()).__dask_tokenize__() == ("crowdblend-count", "one", "t")
    assert "key_source" not in repr(job(Records()))


def test_a_block_of_unknown_length_that_is_never_begun_is_missed() -> None:
    unknown = [replace(block, records=None) for block in BLOCKS]

    class Dropping(Records):
        def keys(self, blocks: Any, **more: Any) -> Iterator[Any]:
            """Leave the last one out."""
            return super().keys(blocks[:-1], **more)

    assert counted_blocks(unknown, job=job(Records())).blocks.size == 4
    with pytest.raises(ReleaseFailed, match="another number of records"):
        counted_blocks(unknown, job=job(Dropping()))


def test_files_beyond_those_that_can_be_numbered_are_refused() -> None:
    for file in (1 << 31, (1 << 31) + 1):
        with pytest.raises(ReleaseFailed, match="fewer than 2,147,483,648 files"):
            require_every_block(np.zeros(1), [Block(ChunkIdentity(file=file, block=0), 1)])


def test_a_fault_on_a_worker_names_its_kind_and_no_value() -> None:
    def fails(fault: Exception) -> None:
        raise fault

    with pytest.raises(ReleaseFailed, match=r"failed on its worker \(ValueError\)") as told:
        naming_kinds_only(fails)(ValueError("Mrs Smith's income"))
    assert "Smith" not in str(told.value)
    assert told.value.__cause__ is None
    with pytest.raises(InputRefused, match="as it is"):
        naming_kinds_only(fails)(InputRefused("as it is"))
    assert naming_kinds_only(len)([1, 2]) == 2


def test_coins_of_fewer_records_than_none_are_refused() -> None:
    """A reader could take back what a block has counted."""
    told = BlockCoins(None)
    told.kept(3)
    with pytest.raises(ReleaseFailed, match="fewer records than none"):
        told.kept(-1)
    assert told.tally == (3, 3)


def test_a_reader_begins_the_blocks_of_its_task_alone_and_each_once() -> None:
    class Equal(ChunkIdentity):
        """Equal to a block where it is looked up, and free to name another one for its coins."""

        def __eq__(self, other: object) -> bool:
            return isinstance(other, ChunkIdentity) and (self.file, self.block) == (other.file, other.block)

        __hash__ = ChunkIdentity.__hash__

    class Beginning(Records):
        begun: Any = None

        def keys(self, blocks: Any, **more: Any) -> Iterator[Any]:
            """Read the first block, and begin another one."""
            yield from super().keys(blocks[:1], **more)
            more["coins"](self.begun)

    source, task = Beginning(), BLOCKS[:2]
    for begun in (task[0].identity, BLOCKS[2].identity, Equal(file=0, block=1)):
        object.__setattr__(source, "begun", begun)
        with pytest.raises(ReleaseFailed, match="isn't its task's, or began one twice"):
            counted_blocks(task, job=job(source))
