"""Keys: a bijection with combinations of codes, ordered column by column, in as few words as fit."""

from __future__ import annotations

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel import recoding
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.mechanisms.kernel.recoding import KeyLayout, coarsened
from hypothesis import given, settings
from hypothesis import strategies as st

FIVE = ValueHierarchy.from_values(["a", "b", "c", "d"])


def domain(size: int) -> IntervalHierarchy:
    """A hierarchy whose level 0 has that many codes (at least 4)."""
    return IntervalHierarchy(lower=0, upper=size - 3, widths=())


def map_of(sizes: list[int]) -> GeneralizationMap:
    return GeneralizationMap(
        columns=tuple(MappedColumn(name=f"c{i}", hierarchy=domain(s), level=0) for i, s in enumerate(sizes))
    )


@settings(derandomize=True, max_examples=200)
@given(
    sizes=st.lists(st.integers(4, 9) | st.integers(4, 2**60), min_size=1, max_size=12),
    seed=st.integers(0, 2**32 - 1),
)
def test_decoding_inverts_and_order_is_by_columns(sizes, seed):
    made = map_of(sizes)
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, 40) for size in sizes]
    for column, size in zip(codes, sizes, strict=True):
        column[:2] = (0, size - 1)
    keys = made.keys(codes)
    assert keys.shape == (made.key_words, 40)
    assert keys.min() >= 0
    for given_codes, decoded in zip(codes, made.decode(keys), strict=True):
        assert np.array_equal(given_codes, decoded)
    assert np.array_equal(np.lexsort(keys[::-1]), np.lexsort(codes[::-1]))


def test_a_word_holds_less_than_two_to_the_63_cells():
    assert map_of([2**31, 2**31]).key_words == 1
    assert map_of([2**31, 2**32]).key_words == 2
    assert map_of([2**60, 7]).key_words == 1
    assert map_of([2**60, 8]).key_words == 2
    assert map_of([4, 2**60 + 3, 4, 4]).key_words == 1 + 1
    thirty = GeneralizationMap(columns=tuple(MappedColumn(name=f"c{i}", hierarchy=FIVE, level=0) for i in range(30)))
    assert (thirty.key_words, thirty.cells) == (2, 5**30)


def test_columns_at_their_last_level_cost_no_room():
    flat = GeneralizationMap(columns=tuple(MappedColumn(name=f"c{i}", hierarchy=FIVE, level=1) for i in range(100)))
    assert (flat.key_words, flat.cells) == (1, 1)
    assert flat.keys([np.zeros(3, dtype=np.int64)] * 100).tolist() == [[0, 0, 0]]


def test_ill_formed_maps_are_refused():
    with pytest.raises(ValueError, match="levels 0 … 1"):
        MappedColumn(name="x", hierarchy=FIVE, level=2)
    with pytest.raises(ValueError, match="levels 0 … 1"):
        MappedColumn(name="x", hierarchy=FIVE, level=-1)
    with pytest.raises(ValueError, match="at least one"):
        GeneralizationMap(columns=())
    column = MappedColumn(name="x", hierarchy=FIVE, level=0)
    with pytest.raises(ValueError, match="once"):
        GeneralizationMap(columns=(column, column))


def test_the_digest_names_columns_levels_and_hierarchies():
    def digest(*columns: tuple) -> str:
        return GeneralizationMap(
            columns=tuple(MappedColumn(name=n, hierarchy=h, level=v) for n, h, v in columns)
        ).digest()

    base = digest(("x", FIVE, 0), ("y", FIVE, 1))
    assert base == digest(("x", ValueHierarchy.from_values(["d", "c", "b", "a"]), 0), ("y", FIVE, 1))
    others = {
        digest(("x", FIVE, 1), ("y", FIVE, 1)),
        digest(("y", FIVE, 1), ("x", FIVE, 0)),
        digest(("x", FIVE, 0), ("z", FIVE, 1)),
        digest(("x", domain(9), 0), ("y", FIVE, 1)),
        digest(("x", FIVE, 0)),
    }
    assert len(others | {base}) == 6


@settings(derandomize=True, max_examples=50)
@given(columns=st.integers(1, 30), seed=st.integers(0, 2**32 - 1))
def test_coarser_groups_are_those_of_the_coarser_codes(columns, seed):
    rng = np.random.default_rng(seed)
    hierarchy = IntervalHierarchy(lower=0, upper=100, widths=(10, 50))
    finer, coarser = (
        GeneralizationMap(
            columns=tuple(
                MappedColumn(name=f"c{i}", hierarchy=hierarchy, level=level) for i, level in enumerate(levels)
            )
        )
        for levels in ([i % 2 for i in range(columns)], [i % 2 + 1 + i % 3 // 2 for i in range(columns)])
    )
    codes = [rng.integers(0, min(4, column.size), 60) for column in finer.columns]
    keys = np.unique(finer.keys(codes), axis=1)
    above, places = coarsened(keys, finer=finer, coarser=coarser, tables=finer.tables_to(coarser))
    with pytest.MonkeyPatch.context() as small:
        small.setattr(recoding, "_RECODED_AT_ONCE", 7)
        again = coarsened(keys, finer=finer, coarser=coarser, tables=finer.tables_to(coarser))
    assert np.array_equal(again[0], above)
    assert np.array_equal(again[1], places)
    for before, after, fine, coarse in zip(
        finer.columns, coarser.columns, finer.decode(keys), coarser.decode(above[:, places]), strict=True
    ):
        assert np.array_equal(coarse, hierarchy.coarser(fine, level=before.level, to=after.level))
    assert np.array_equal(above, np.unique(above, axis=1))
    assert set(places.tolist()) == set(range(above.shape[1]))
    with pytest.raises(ValueError, match="finer than level"):
        coarsened(above, finer=coarser, coarser=finer, tables=coarser.tables_to(finer))


def test_no_groups_have_no_coarser_ones():
    flat = map_of([4, 2**60, 2**60])
    keys = flat.keys([np.zeros(0, dtype=np.int64)] * 3)
    above, places = coarsened(keys, finer=flat, coarser=flat, tables=flat.tables_to(flat))
    assert (above.shape, places.shape) == ((flat.key_words, 0), (0,))


@pytest.mark.parametrize("sizes", [[4, 7], [4, 2**60, 2**60]])
def test_keys_of_no_group_are_known(sizes):
    wide = map_of(sizes)
    last = wide.keys([np.array([0, column.size - 1]) for column in wide.columns])
    assert wide.holds(last)
    assert wide.holds(last[:, :0])
    for word in range(wide.key_words):
        for step in (-1, 1, 5):
            beyond = last.copy()
            beyond[word, int(step > 0)] += step
            assert not wide.holds(beyond)


@pytest.mark.parametrize("sizes", [(), (0,), (3, 0), (3, -1)])
def test_columns_without_a_code_are_refused(sizes):
    with pytest.raises(ValueError):  # noqa: PT011 - of no column by another text
        KeyLayout(sizes=sizes)


@pytest.mark.parametrize(
    "keys",
    [np.zeros((2, 3), dtype=np.int64), np.zeros(3, dtype=np.int64), np.zeros((1, 3)), np.array([[0, 28]])],
    ids=["more words", "no words", "no whole numbers", "no group"],
)
def test_keys_of_another_form_are_refused(keys):
    layout = KeyLayout(sizes=(4, 7))
    layout.require_keys(np.array([[0, 27]]))
    with pytest.raises(ReleaseFailed):
        layout.require_keys(keys)


@pytest.mark.parametrize("code", [-1, 7])
def test_a_code_that_its_column_does_not_declare_is_refused(code):
    *_, column = KeyLayout(sizes=(4, 7)).placements
    assert column.scaled(np.array([0, 6])).tolist() == [0, 6 * column.stride]
    with pytest.raises(ReleaseFailed, match="doesn't declare"):
        column.scaled(np.array([3, code]))
