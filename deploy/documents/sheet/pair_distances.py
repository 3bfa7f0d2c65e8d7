"""How far each pair of columns is from independence, by what a release has published of single columns and pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....mechanisms.hierarchies.build import described_hierarchy
from ....mechanisms.pair_model.model import PairModel

_LEAST = 1e-9
"""Added to each count, so that every label has conditional shares."""


def pair_distances(margins: pa.Table, certificate: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return how far the fitted counts of every two columns are from those of independent ones, 0 to 1.

    Pairs that were counted have their fitted counts. The others follow along the counted pairs that lead from one
    column to the other, as if nothing else connected them. Nothing here is certified: it is for a picture.

    Args:
        margins: the published counts; `fitted` of each cell, with the columns and the number of its pair.
        certificate: of the release.

    Returns:
        By two columns in the order of the certificate; the share of records that would have to be other ones. Empty
        where the certificate lacks a hierarchy.
    """
    stated = certificate["map"]["columns"]
    if any(column.get("hierarchy") is None for column in stated):
        return {}
    names = [column["column"] for column in stated]
    hierarchies = [described_hierarchy(column["hierarchy"]) for column in stated]
    singles = margins.filter(pc.equal(margins["pair"], 0))
    fitted = {name: singles.filter(pc.equal(singles["column"], name))["fitted"].to_numpy() + _LEAST for name in names}
    counts = tuple(fitted[name] for name in names)
    model = PairModel(records=float(np.mean([one.sum() for one in counts])), margins=counts)
    pairs = [*enumerate(certificate["published"]["pairs"], start=1)]
    # A pair that was counted twice has the finer counts last.
    for number, pair in sorted(pairs, key=lambda one: int(one[1]["cells"])):
        places = [names.index(name) for name in pair["columns"]]
        labels = [
            hierarchies[place].coarser(np.arange(counts[place].size), level=stated[place]["level"], to=level)
            for place, level in zip(places, pair["levels"], strict=True)
        ]
        cells = margins.filter(pc.equal(margins["pair"], number))["fitted"].to_numpy()
        shape = [hierarchies[place].size(level) for place, level in zip(places, pair["levels"], strict=True)]
        model = model.with_counts(
            (places[0], places[1]), cells.reshape(shape), labels=(labels[0], labels[1]), deviation=0.0
        )
    return _distances(model, names)


def _distances(model: PairModel, names: Sequence[str]) -> dict[tuple[str, str], float]:
    found = {}
    for (first, second), table in model.estimates(combinations(range(len(names)), 2)).items():
        whole = float(table.sum()) or 1.0
        independent = np.outer(table.sum(axis=1), table.sum(axis=0)) / whole
        found[names[first], names[second]] = float(np.abs(table - independent).sum()) / (2.0 * whole)
    return found
