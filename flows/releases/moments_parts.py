"""Sums of products of declared columns: which columns they are of, and what their table and certificate say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ...mechanisms.hierarchies.declare import IntervalHierarchy
from ...mechanisms.kernel.amounts import counted
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.moments import MomentsAnswer, columns_text
from ..columns import declared_map

if TYPE_CHECKING:
    from .release_kind import GivenSpec

PRODUCT_LABELS = ("column", "label", "second_column", "second_label")
"""The columns that say what a sum is of; each is empty where there is nothing to say."""
_OTHER_KEYS = ("column", "lower", "upper", "least_records", "missing")


class Products(NamedTuple):
    """Columns whose products are added up.

    Attributes:
        recoding: the columns with their codes.
        text: of the columns, as their mechanism has it.
    """

    recoding: GeneralizationMap
    text: str


def declared_products(given: GivenSpec, *, refused: Sequence[str]) -> Products:
    """Return the declared columns: numbers, which have whole bounds, and labels.

    Args:
        given: the specification.
        refused: names that no column may have, since the table has columns of these names.

    Raises:
        InputRefused: a key that sums of products don't have, or a column that is declared otherwise.
    """
    given.require_parameters((), of=_OTHER_KEYS, what="moments: numbers are [columns] with bounds")
    where = f"{given.path}: [answer]"
    if given.own.by:
        raise InputRefused(
            "sums of products are of all records.", where=f"{where}.by", remedy="Leave it out: labels are [columns]."
        )
    if given.tables.sampling is not None:
        raise InputRefused(
            "sums of products are of all records, and of no sample.",
            where=f"{given.path}: [sampling]",
            remedy="Remove it.",
        )
    columns: list[MappedColumn] = []
    texts: list[tuple[int, int] | int] = []
    for name, column in given.columns.items():
        if column.bounds is None:
            [labels] = declared_map(given.path, {name: column}, base=given.base, refused=refused).columns
            if labels.size < 2:
                raise InputRefused(
                    "this level has no label but *.",
                    where=f"{given.path}: [columns.{name}].level",
                    remedy="Give a lower one.",
                )
            columns.append(labels)
            texts.append(labels.size - 1)
            continue
        lower, upper = _bounds(given, name, refused=refused)
        hierarchy = IntervalHierarchy(lower=lower, upper=upper + 1, widths=())
        columns.append(MappedColumn(name=name, hierarchy=hierarchy, level=0))
        texts.append((lower, upper))
    return Products(recoding=GeneralizationMap(columns=tuple(columns)), text=columns_text(texts))


def _bounds(given: GivenSpec, name: str, *, refused: Sequence[str]) -> tuple[int, int]:
    """Return the bounds of a column of numbers."""
    column, where = given.columns[name], f"{given.path}: [columns.{name}]"
    others = sorted(column.model_fields_set - {"bounds"})
    if others or column.bounds is None:
        raise InputRefused("a column with bounds has nothing else.", where=f"{where}.{others[0]}", remedy="Remove it.")
    if name in refused:
        raise InputRefused(f"a released column can't be called {name}.", where=where, remedy="Rename it.")
    if column.bounds.missing is not None:
        raise InputRefused(
            "records without a number are left out of sums of products.",
            where=f"{where}.bounds.missing",
            remedy="Remove it.",
        )
    lower, upper = column.bounds.lower, column.bounds.upper
    if lower != int(lower) or upper != int(upper) or lower >= upper:
        raise InputRefused(
            f"bounds are whole numbers, the lower one below the upper one, not {lower} and {upper}.",
            where=f"{where}.bounds",
        )
    return int(lower), int(upper)


def product_labels(moments: MomentsAnswer, recoding: GeneralizationMap) -> list[tuple[str | None, ...]]:
    """Return what each sum is of, in their order: two columns with their labels, as `PRODUCT_LABELS` names them."""
    names: list[list[tuple[str | None, str | None]]] = [[(None, None)]]
    for factor, column in zip(moments.factors[1:], recoding.columns, strict=True):
        labels: list[str | None] = [None]
        if not factor.is_number:
            labels = [*column.hierarchy.labels(np.arange(1, column.size, dtype=np.int64), column.level)]
        names.append([(column.name, label) for label in labels])
    # Where one column is added up alone it stands first, and nothing second.
    return [
        (*(other if one == (None, None) else one), *((None, None) if one == (None, None) else other))
        for block in moments.blocks
        for one, other in product(names[block.first], names[block.second])
    ]


def product_facts(moments: MomentsAnswer, recoding: GeneralizationMap) -> list[dict[str, Any]]:
    """Return how each column counts, for the certificate."""
    return [
        {"column": column.name, "lower": factor.lower, "upper": factor.upper, "centre": factor.centre}
        if factor.is_number
        else {"column": column.name, "labels": factor.cells}
        for factor, column in zip(moments.factors[1:], recoding.columns, strict=True)
    ]


def products_in_words(moments: MomentsAnswer, recoding: GeneralizationMap) -> str:
    """Return the columns with their bounds or their numbers of labels, in words."""
    told = [
        f"{column.name} ({factor.lower:,} to {factor.upper:,})"
        if factor.is_number
        else f"{column.name} ({counted(factor.cells, 'label')})"
        for factor, column in zip(moments.factors[1:], recoding.columns, strict=True)
    ]
    return ", ".join(told)
