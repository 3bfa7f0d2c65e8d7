"""Codes of dictionaries: what was learned from one changes nothing in the codes of the next."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from crowdblend.mechanisms.generalization_map import MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.recoding import Placement
from crowdblend.tasks.readers import column_codes
from crowdblend.tasks.readers.column_codes import ColumnCoder
from crowdblend.tasks.readers.values import RecordReading

DOMAIN = [f"place {number}" for number in range(300)] + [str(number) for number in range(200)]
NULL = "place 7"


def coder() -> ColumnCoder:
    rows = [(value, f"class {place % 11}", "*") for place, value in enumerate(DOMAIN)]
    return ColumnCoder(
        column=MappedColumn(name="place", hierarchy=ValueHierarchy.from_rows(rows), level=1),
        placement=Placement(word=0, stride=3, size=1 << 40),
        reading=RecordReading(null_values=(NULL,)),
    )


def by_hand(texts: list[str | None]) -> list[int]:
    rows = coder().column.hierarchy
    present = [None if text is None or text == NULL else text.encode() for text in texts]
    return [3 * code for code in rows.codes_of_texts(present, 1).tolist()] + [0]


@pytest.mark.slow
@pytest.mark.parametrize("most_known", [0, 5_000, 1 << 22])
@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
def test_many_texts_have_the_codes_that_each_has_alone(type_, most_known, monkeypatch):
    """Dictionaries of 100 to 600 texts: declared, unseen, numbers, repeated, null; in changing order."""
    monkeypatch.setattr(column_codes, "_KNOWN_BYTES", most_known)
    rng = np.random.default_rng(20_261_121)
    asked = coder()
    for _ in range(40):
        unseen = [f"unseen {number}" for number in rng.integers(1_000, size=50)]
        texts = [
            *rng.permutation(DOMAIN + unseen)[: rng.integers(100, 550)].tolist(),
            None,
            "place 1",
            "place 1",
            NULL,
            "007",
        ]
        order = rng.permutation(len(texts))
        texts = [texts[place] for place in order]
        given = pa.array(texts, type=pa.string()).cast(type_)
        assert asked.table(given).tolist() == by_hand(texts)
