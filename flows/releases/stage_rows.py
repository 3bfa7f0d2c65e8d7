"""A table of rows that a chain of stages publishes: labels, stage, weights, counts, and what is said of each stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.kernel.group_counts import GroupCounts
from ...mechanisms.kinds.deletion_noise import DeletionNoise, largest_deletion
from ..survey_weights import SurveyWeights

if TYPE_CHECKING:
    from ...tasks.stages.table import PublishedTable

_NUMBERS_AT_ONCE = 1 << 18
Number = TypeVar("Number", np.int64, np.float64)


class StageRows(NamedTuple):
    """The rows of a table.

    Args:
        maps: of its stages, the finest first.
        stages: the groups of each.
        weights: of each group's records, stage after stage; shape (groups of all stages,).
        survey: survey weights; None where there are none.
    """

    maps: Sequence[GeneralizationMap]
    stages: Sequence[GroupCounts]
    weights: NDArray[np.float64]
    survey: SurveyWeights | None = None

    def table(self, form: str) -> PublishedTable:
        """Return the labels of each group, its stage where there are several, its weight, and perhaps its count.

        Args:
            form: "microdata" repeats each row, "counts" gives each group once.
        """
        from ...tasks.stages.table import PublishedTable, figure_column, label_columns, stacked_columns

        columns = stacked_columns(
            [label_columns(stage.keys, generalization=one) for stage, one in zip(self.stages, self.maps, strict=True)]
        )
        if len(self.stages) > 1:
            columns = (*columns, figure_column("stage", *chain.from_iterable(_numbered(self.stages))))
        columns = (*columns, figure_column("weight", self.weights))
        if self.survey is not None:
            columns = (*columns, self.survey.row_column(self.stages, self.maps, self.weights))
        microdata = form == "microdata"
        counts = [stage.counts for stage in self.stages]
        if microdata:
            return PublishedTable(columns=columns, times=below_one_another(counts))
        return PublishedTable(columns=(*columns, figure_column("count", *counts)), times=None)

    def facts(self, noise: DeletionNoise) -> list[dict[str, Any]]:
        """Return what is said of each stage, of which every group's number of deleted records has a law."""
        return [
            {
                "levels": levels_of(one),
                "published_groups": stage.counts.size,
                "published_records": int(stage.counts.sum()),
                "largest_deletion": largest_deletion(noise),
            }
            for stage, one in zip(self.stages, self.maps, strict=True)
        ]


def _numbered(stages: Sequence[GroupCounts]) -> Iterator[Iterator[NDArray[np.int64]]]:
    """Yield each stage's number for every group: views of the same few numbers, since there may be millions of groups.

    There is one at least, an empty one.
    """
    for number, stage in enumerate(stages, start=1):
        whole, rest = divmod(stage.counts.size, _NUMBERS_AT_ONCE)
        numbers = np.full(min(stage.counts.size, _NUMBERS_AT_ONCE), number, dtype=np.int64)
        yield chain(repeat(numbers, whole), (numbers[:rest],))


def below_one_another(parts: list[NDArray[Number]]) -> NDArray[Number]:
    """Return the parts as one array; of one part no copy, since there may be millions of groups."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def levels_of(generalization: GeneralizationMap) -> dict[str, int]:
    """Return the level of each column."""
    return {column.name: column.level for column in generalization.columns}
