"""The map of columns: how far pairs are from independence, which were counted, and which tables hold their columns."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from crowdblend.accounting.charts import column_map
from crowdblend.deploy.documents.document_registry import verified_release
from crowdblend.deploy.documents.sheet.facts import sheet_facts
from crowdblend.deploy.documents.sheet.pair_distances import pair_distances
from crowdblend.deploy.documents.sheet.render_sheet import pair_picture
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy

ROWS = [("1", "low", "*"), ("2", "low", "*"), ("3", "high", "*")]
SIZE = 4  # three values and *


def published(joint: np.ndarray, pairs: list[tuple[int, int, int]]) -> tuple[pa.Table, dict]:
    """Exact fitted counts of a joint distribution of columns a, b, …: of each, and of pairs at a level."""
    names = "abcdefgh"[: joint.ndim]
    hierarchy = ValueHierarchy.from_rows(ROWS)
    rows = []
    for place, name in enumerate(names):
        others = tuple(other for other in range(joint.ndim) if other != place)
        rows += [(name, None, 0, count) for count in joint.sum(axis=others)]
    stated = []
    for number, (first, second, level) in enumerate(pairs, start=1):
        others = tuple(other for other in range(joint.ndim) if other not in (first, second))
        table = joint.sum(axis=others)
        codes = hierarchy.coarser(np.arange(SIZE), level=0, to=level)
        merged = np.zeros((hierarchy.size(level), hierarchy.size(level)))
        np.add.at(merged, (codes[:, None], codes[None, :]), table)
        rows += [(names[first], names[second], number, count) for count in merged.reshape(-1)]
        stated.append({"columns": [names[first], names[second]], "levels": [level, level], "cells": merged.size})
    table = pa.table(
        {
            "column": [row[0] for row in rows],
            "second_column": pa.array([row[1] for row in rows], type=pa.string()),
            "pair": [row[2] for row in rows],
            "fitted": [float(row[3]) for row in rows],
        }
    )
    columns = [{"column": name, "level": 0, "hierarchy": hierarchy.description()} for name in names]
    return table, {"map": {"columns": columns}, "published": {"pairs": stated}}


def distance(table: np.ndarray) -> float:
    independent = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return float(np.abs(table - independent).sum() / 2 / table.sum())


@pytest.mark.parametrize("seed", range(5))
def test_pairs_that_were_not_counted_follow_along_those_that_were(seed: int) -> None:
    """Of a chain a → b → c, whose distribution is that of its neighbours, and d beside it, all pairs are exact."""
    stream = np.random.default_rng(seed)
    first, step, last, apart = (stream.dirichlet(np.ones(SIZE), size=SIZE) for _ in range(4))
    joint = 10_000 * np.einsum("a,ab,bc,d->abcd", first[0], step, last, apart[0])
    table, certificate = published(joint, [(0, 1, 0), (1, 2, 0)])
    found = pair_distances(table, certificate)
    assert set(found) == set(itertools.combinations("abcd", 2))
    for one, two in itertools.combinations(range(4), 2):
        others = tuple(other for other in range(4) if other not in (one, two))
        exact = distance(joint.sum(axis=others))
        assert found["abcd"[one], "abcd"[two]] == pytest.approx(exact, abs=1e-4)


def test_a_pair_counted_by_coarser_labels_tells_what_these_tell() -> None:
    stream = np.random.default_rng(3)
    joint = 1_000 * stream.dirichlet(np.ones(SIZE * SIZE)).reshape(SIZE, SIZE)
    coarse, certificate = published(joint, [(0, 1, 1)])
    both, certificate_of_both = published(joint, [(0, 1, 1), (0, 1, 0)])
    codes = ValueHierarchy.from_rows(ROWS).coarser(np.arange(SIZE), level=0, to=1)
    merged = np.zeros((3, 3))
    np.add.at(merged, (codes[:, None], codes[None, :]), joint)
    assert pair_distances(coarse, certificate)["a", "b"] == pytest.approx(distance(merged), abs=1e-4)
    assert pair_distances(both, certificate_of_both)["a", "b"] == pytest.approx(distance(joint), abs=1e-4)


def test_a_certificate_without_hierarchies_gives_none() -> None:
    table, certificate = published(np.ones((SIZE, SIZE)), [(0, 1, 0)])
    certificate["map"]["columns"][1]["hierarchy"] = None
    assert pair_distances(table, certificate) == {}


def test_the_map_has_a_cell_for_each_pair_that_can_be_seen_and_a_dot_for_each_that_was_counted() -> None:
    names = [f"column <{number}>" for number in range(100)]
    stream = np.random.default_rng(1)
    values = {pair: float(stream.random()) for pair in itertools.combinations(names, 2)}
    marked = dict.fromkeys(list(values)[::25], "pair 1")
    groups = {"health & home": names[:40], "work": names[30:]}
    picture = str(column_map(names[::-1], values, marked=marked, groups=groups, key="k", title="t"))
    tree = ET.fromstring(picture)  # noqa: S314 - it is ours; names are escaped, or this fails
    classes = [element.get("class") for element in tree.iter()]
    most = max(values.values())
    seen = sum(pair in marked or value >= 0.08 * most for pair, value in values.items())
    assert classes.count("shade") == seen
    assert classes.count("counted") == len(marked) == 198
    assert classes.count("member") == 40 + 70
    width, height = map(float, tree.get("viewBox").split()[2:])
    for element in tree.iter():
        if element.get("class") == "shade":
            assert float(element.get("x")) + float(element.get("width")) <= width
            assert float(element.get("y")) + float(element.get("height")) <= height
    assert "not counted" in picture
    assert len(picture) < 1_000_000


def test_a_sheet_draws_the_map_where_there_are_several_tables(paired) -> None:
    facts = sheet_facts(verified_release(paired))
    names = [column.name for column in facts.columns]
    assert set(facts.distances) == set(itertools.combinations(names, 2))
    for pair in facts.pairs:
        other = [one for one in facts.pairs if one.columns == pair.columns]
        if len(other) == 1:
            assert facts.distances[pair.columns] == pytest.approx(pair.distance, abs=0.02)
    assert not facts.mapped
    several = replace(facts, blocks={"one": tuple(names[:2]), "two": tuple(names[1:])})
    picture = str(pair_picture(several))
    assert picture.count('class="counted"') == len({pair.columns for pair in facts.pairs})
    first = picture.index(f">{names[1]}<")
    assert all(picture.index(f">{name}<") > first for name in (names[0], names[2])), "what is in both comes first"
