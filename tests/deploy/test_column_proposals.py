"""What is proposed of a column follows from its name, its type and public records, by rules that can be read off."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from crowdblend.deploy.proposals.column_proposals import (
    FINEST_LABELS,
    ProposedColumn,
    frequency_levels,
    prefix_levels,
    proposed_column,
)
from crowdblend.deploy.proposals.column_roles import NOT_RELEASED, column_role, may_be_pinned
from crowdblend.deploy.proposals.public_records import PublicColumn
from crowdblend.deploy.proposals.themes import (
    LEAST_SHARE,
    MOST_BLOCKS,
    MOST_PINNED,
    most_blocks,
    most_pinned,
    proposed_blocks,
)
from crowdblend.flows.columns import declared_map
from crowdblend.flows.spec_tables import ColumnTable
from crowdblend.mechanisms.hierarchies.declare import Hierarchy, ValueHierarchy


def public(values: Sequence[object]) -> PublicColumn:
    texts = [str(value) for value in values]
    numbers = sorted(float(text) for text in texts if re.fullmatch(r"-?[0-9.]+(e-[0-9]+)?", text))
    counts = Counter(texts)
    return PublicColumn(texts=dict(counts.most_common()), distinct=len(counts), numbers=numbers, records=len(texts))


def hierarchy_of(column: ProposedColumn, tmp_path) -> Hierarchy:
    """The proposed hierarchy, as a specification declares it."""
    if column.rows is not None:
        return ValueHierarchy.from_rows(column.rows)
    from decimal import Decimal

    assert column.domain is not None
    table = tomllib.loads(column.domain, parse_float=Decimal)
    declared = ColumnTable.model_validate({**table, "level": 0})
    [mapped] = declared_map(tmp_path / "spec.toml", {"x": declared}, base=tmp_path).columns
    return mapped.hierarchy


@pytest.mark.parametrize(
    ("name", "kind", "role"),
    [
        ("id", "integer", "identifier"), ("record_id", "text", "identifier"), ("UUID", "text", "identifier"),
        ("ssn", "integer", "identifier"), ("SERIALNO", "text", "household"), ("household_id", "integer", "household"),
        ("personId", "integer", "person"), ("patient_id", "text", "person"), ("pid", "unknown", "person"),
        ("Client No", "unknown", "person"), ("household number", "integer", "household"),
        ("firstName", "text", "contact"), ("home_email", "text", "contact"), ("phone2", "text", "contact"),
        ("comments", "text", "free text"), ("visit_narrative", "unknown", "free text"),
        ("PWGTP", "integer", "weight"), ("PWGTP17", "integer", "weight"), ("fnlwgt", "number", "weight"),
        ("latitude", "number", "place"), ("AGEP", "integer", "age"), ("age_of_mother", "integer", "age"),
        ("PUMA", "text", "code"), ("icd10_main", "text", "code"),
        # What only sounds alike.
        ("paid", "integer", "other"), ("identity_theft", "boolean", "other"), ("weight_kg", "number", "other"),
        ("weight", "text", "other"), ("town_name", "text", "other"), ("notes", "integer", "other"),
        ("valid", "boolean", "other"), ("id_date", "date", "other"),
        ("number of persons", "integer", "other"), ("no", "integer", "other"),
    ],
)  # fmt: skip
def test_roles_follow_from_names_and_types(name: str, kind, role: str) -> None:
    assert column_role(name, kind) == role


def test_age_sex_and_region_may_be_in_each_block() -> None:
    names = ("AGEP", "sex", "home_region", "income", "PUMA")
    assert [name for name in names if may_be_pinned(name, column_role(name, "unknown"))] == [
        "AGEP",
        "sex",
        "home_region",
        "PUMA",
    ]


@pytest.mark.parametrize("role_name", ["id", "email", "pid", "hhid", "lat", "wgt", "remarks"])
def test_what_seems_to_name_people_is_never_proposed_whatever_public_records_say(role_name: str) -> None:
    for values in (None, public(["1", "2"] * 50)):
        found = proposed_column(role_name, "unknown", values)
        assert not found.released
        assert not found.complete
        assert found.remarks[0] in NOT_RELEASED.values()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", ["ages", "skewed", "negative", "decimal", "tiny", "years"])
def test_nearly_all_public_numbers_have_an_interval_of_few(tmp_path, shape: str, seed: int) -> None:
    stream = np.random.default_rng(seed)
    values: list[object] = {
        "ages": stream.integers(18, 90, 3000).tolist(),
        "skewed": np.rint(stream.lognormal(10, 1.2, 3000)).astype(int).tolist(),
        "negative": np.rint(stream.normal(-300, 200, 3000)).astype(int).tolist(),
        "decimal": stream.normal(20, 5, 3000).round(2).tolist(),
        "tiny": (stream.random(3000) / 1000).round(6).tolist(),
        "years": stream.integers(1931, 2020, 3000).tolist(),
    }[shape]
    column = proposed_column("x", "number" if shape in ("decimal", "tiny") else "integer", public(values))
    assert column.released
    hierarchy = hierarchy_of(column, tmp_path)
    assert hierarchy.levels == column.levels
    codes = hierarchy.codes_of_texts(
        [f"{value:.6f}".rstrip("0").rstrip(".").encode() for value in values], column.min_level
    )
    labels = Counter(hierarchy.labels(codes, column.min_level))
    outside = sum(count for label, count in labels.items() if label[0] in "*<>")
    assert outside <= 0.1 * len(values)
    assert 8 <= len(labels) <= FINEST_LABELS
    assert hierarchy.size(column.min_level) <= FINEST_LABELS + 3
    assert max(labels.values()) <= 0.4 * len(values), "no single interval holds most"


@pytest.mark.parametrize("seed", range(4))
def test_lists_merge_rare_values_and_keep_frequent_ones(seed: int) -> None:
    stream = np.random.default_rng(seed)
    counts = {f"v{number}": int(count) for number, count in enumerate(stream.zipf(1.6, 150).clip(max=5000))}
    rows = frequency_levels(counts)
    hierarchy = ValueHierarchy.from_rows(rows)  # refuses what isn't monotone
    sizes = [len({*labels}) for labels in zip(*rows, strict=True)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 150
    assert sizes[-1] == 1
    most = max(counts, key=lambda value: counts[value])
    assert all(row[-2] == most for row in rows if row[0] == most), "the most frequent keeps its own label"
    assert hierarchy.levels == len(sizes)
    total = sum(counts.values())
    for row in rows:
        if row[1] == row[0]:
            assert counts[row[0]] >= 0.001 * total


def test_a_value_called_as_the_merged_ones_is_told_apart() -> None:
    rows = frequency_levels({"other values": 1000, **{f"v{number}": 1 for number in range(100)}})
    assert ("other values", "other values") in {row[:2] for row in rows}
    assert "other values'" in {row[1] for row in rows}


def test_prefixes_of_codes_and_of_numbers_without_their_zeros() -> None:
    pumas = [f"{state:02}-{area:05}" for state in (1, 25, 36) for area in range(100, 1500, 100)]
    rows = prefix_levels(pumas)
    assert rows is not None
    ValueHierarchy.from_rows(rows)
    assert {row[-2] for row in rows} == {"01", "25", "36"}, "without the separator at the end"
    industries = [*map(str, [170, 180, 190, 280, 290, 8680, 8690, 8770, 1070, 1080]), "N"]
    rows = prefix_levels(industries)
    assert rows is not None
    assert {row[0]: row[1] for row in rows}["170"] == "01"
    assert {row[0]: row[1] for row in rows}["8680"] == "86"
    assert prefix_levels(["a1", "b2", "c3"]) is None, "nothing is merged by the first letter"


def test_what_public_records_cannot_tell_is_asked_about() -> None:
    several = (
        ("unknown", [f"person {number}" for number in range(200)], "text of their own"),
        ("integer", list(range(1000, 1300)), "numbered"),
        ("text", ["same"] * 100, "one value"),
    )
    for kind, values, said in several:
        found = proposed_column("x", kind, public(values))
        assert not found.released
        assert said in found.remarks[0]
    assert not proposed_column("x", "text", None).released
    assert proposed_column("x", "text", None).remarks == ("Nothing public tells its values.",)
    assert proposed_column("x", "boolean", None).released
    assert proposed_column("age", "integer", None).released


def test_days_are_declared_by_whole_years(tmp_path) -> None:
    days = [f"{year}-{month:02}-15" for year in range(1990, 2003) for month in (3, 9)]
    found = proposed_column("born", "date", public(days))
    assert found.domain is not None
    assert tomllib.loads(found.domain)["dates"]["from"] == "1990-01-01"
    assert hierarchy_of(found, tmp_path).levels == found.levels
    assert found.min_level == 1, "months, not days"


def test_numbers_that_few_texts_stand_among_say_what_becomes_of_these() -> None:
    found = proposed_column("income", "unknown", public([*range(0, 90_000, 100), *["N"] * 100]))
    assert found.released
    assert any('"N", are published as *: 10%' in remark for remark in found.remarks)
    assert math.isclose(found.min_level, 1)


NIST = """
PUMA AGEP SEX MSP HISP RAC1P NOC NPF HOUSING_TYPE OWN_RENT DENSITY INDP INDP_CAT EDU PINCP PINCP_DECILE POVPIP
DVET DREM DPHY DEYE DEAR
"""


def test_themes_follow_from_first_words_and_from_neighbours_that_begin_alike() -> None:
    names = [*(f"health_{number}" for number in range(5)), *(f"workHours{number}" for number in range(4)), "age", "sex"]
    found = proposed_blocks(names, pinned=["age", "sex"], most=12)
    assert found.pinned == ("age", "sex")
    assert found.themes == {"health": tuple(names[:5]), "work": tuple(names[5:9])}
    assert found.number == 2
    alike = proposed_blocks(["age", *(f"D{name}" for name in ("VET", "REM", "PHY", "EYE")), "PIN", "POV", "PER", "x"],
                            pinned=["age"], most=12)  # fmt: skip
    assert alike.themes == {"d": ("DVET", "DREM", "DPHY", "DEYE"), "p": ("PIN", "POV", "PER"), "others": ("x",)}


def test_blocks_are_found_where_names_tell_few_themes_or_records_allow_few_blocks() -> None:
    found = proposed_blocks(NIST.split(), pinned=["PUMA", "AGEP", "SEX"], most=12)
    assert (found.themes, found.number) == ({}, 5)
    assert not found.too_few_records
    many = [f"{theme}_{number}" for theme in ("a1", "b1", "c1", "d1") for number in range(20)]
    few = proposed_blocks(many, pinned=[], most=3)
    assert (few.themes, few.number, few.too_few_records) == ({}, 3, True)
    allowed = proposed_blocks(many, pinned=[], most=8)
    assert allowed.number == len(allowed.themes) == 8
    assert sorted(name for names in allowed.themes.values() for name in names) == sorted(many), "each column once"
    assert {len(names) for names in allowed.themes.values()} == {10}


@pytest.mark.parametrize("expected", [20.0, 81.0, 300.0])
def test_more_records_never_allow_fewer_blocks_and_a_group_of_the_least_share_outlasts_what_is_lost(expected) -> None:
    numbers = [most_blocks(records=10**power, expected_deletion=expected) for power in range(2, 9)]
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == (2, MOST_BLOCKS)
    for records in (20_000, 50_000, 200_000):
        blocks = most_blocks(records=records, expected_deletion=expected)
        assert blocks == 2 or expected * math.sqrt(blocks) <= LEAST_SHARE * records * (1 + 1e-9)
    pins = [most_pinned(records=10**power, expected_deletion=expected) for power in range(2, 9)]
    assert pins == sorted(pins)
    assert (pins[0], pins[-1]) == (0, MOST_PINNED)
