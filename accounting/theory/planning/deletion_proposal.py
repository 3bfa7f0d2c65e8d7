"""Propose a deletion release with margins from public facts: its stages, its margins' share, and its noise."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate

from ....mechanisms.kernel.errors import InputRefused
from .deletion_planning import DeletionPlan, plan_deletion

_SHARE_PROPOSED, _SHARE_OF_FEW = Decimal("0.35"), Decimal("0.5")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposedDeletion:
    """A deletion release with margins, proposed from public facts alone.

    Args:
        columns: of each, the labels of each level, as they were given.
        stages: places in `stage_levels`, the finest first.
        margin_share: of ε and δ, for the margins.
        plan: its noise and price.
        combinations: how many are declared at the coarsest levels but `*`; None where a column's labels aren't known.
        fitting: how many columns, those of the fewest coarsest labels first, have so few combinations that each has on
            average as many records as it is expected to lose; None where a column's labels aren't known.
    """

    columns: Sequence[Sequence[int]]
    stages: tuple[int, ...]
    margin_share: Decimal
    plan: DeletionPlan
    combinations: int | None
    fitting: int | None

    @property
    def enough(self) -> bool:
        """Tell whether all columns together are fitting, as far as their labels are known."""
        return self.fitting in (None, len(self.columns))


def stage_levels(labels: Sequence[int], *, records: int) -> tuple[int, int, int]:
    """Return the levels of a column that are proposed: the finest, one in the middle, and the coarsest but `*`.

    Args:
        labels: how many each level has, from the value to the most general one; the last of 1 is `*`.
        records: about how many there are; finer levels with more labels than that are left out.
    """
    last = len(labels) - 1
    coarsest = last - 1 if last > 0 and labels[last] == 1 else last
    finest = next((level for level in range(coarsest) if labels[level] <= records), coarsest)
    return finest, (finest + coarsest + 1) // 2, coarsest


def propose_deletion(
    columns: Sequence[Sequence[int]], *, records: int, epsilon: Decimal, delta: Decimal
) -> ProposedDeletion:
    """Propose the deletion release that keeps pairs of columns about best, as far as public facts can tell.

    It has a margin for each column and three stages, the values first, since margins tell how the values of a label
    are spread. Where the combinations of the coarsest labels have fewer records on average than are deleted of each,
    the stage in the middle is left out and margins take a larger share: more would be lost by a third share of the
    price than it publishes. No stage of `*` alone is proposed: it would publish records that tell nothing.

    PRIVACY: a function of what is declared, of the order of magnitude of the records and of the budget. Nothing of the
    records may be given to it.

    Args:
        columns: of each, the labels of each level as `stage_levels` takes them; empty where they aren't known.
        records: about how many there are, at least 1.
        epsilon: of the release.
        delta: of the release.

    Raises:
        InputRefused: a value out of range, or there is no such release at this price.
    """
    if records < 1:
        raise InputRefused(f"there must be at least one record, not {records}.")
    known = [stage_levels(labels, records=records) for labels in columns if labels]
    whole = all(columns)
    stages = [
        place
        for place in range(3)
        if not place or not whole or any(levels[place] != levels[place - 1] for levels in known)
    ]
    plan = _proposed(len(stages), len(columns), _SHARE_PROPOSED, epsilon=epsilon, delta=delta)
    combinations, fitting, share = None, None, _SHARE_PROPOSED
    if whole:
        coarsest = sorted(labels[stage_levels(labels, records=records)[2]] for labels in columns)
        combinations = math.prod(coarsest)
        if records < combinations * plan.expected_deletion:
            stages, share = sorted({stages[0], stages[-1]}), _SHARE_OF_FEW
            plan = _proposed(len(stages), len(columns), share, epsilon=epsilon, delta=delta)
        fitting = sum(records >= each * plan.expected_deletion for each in accumulate(coarsest, operator.mul))
    return ProposedDeletion(
        columns=columns,
        stages=tuple(stages),
        margin_share=share,
        plan=plan,
        combinations=combinations,
        fitting=fitting,
    )


def _proposed(stages: int, margins: int, share: Decimal, *, epsilon: Decimal, delta: Decimal) -> DeletionPlan:
    return plan_deletion(epsilon=epsilon, delta=delta, stages=stages, margins=margins, margin_share=share)
