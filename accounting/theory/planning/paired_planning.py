"""The noise of a paired deletion release: how margins, pairs, draws and rows share what (ε, δ) allows."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any

from ....mechanisms.kernel.amounts import amount_exact
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kinds.deletion import DeletionRelease
from ....mechanisms.kinds.deletion_noise import GaussianDeletion
from ....mechanisms.kinds.paired_deletion import BlockedDeletion, PairedDeletion
from ....mechanisms.record_weights import deletion_variance
from ...kernel.prices.mechanism_kind import check_records, check_request
from .deletion_planning import DeletionPlan, plan_beside
from .parts_beside import AskedMembers, Beside, asked_again
from .price_estimates import gaussian_of_width, gaussian_shift

_FOUR_DIGITS_DOWN = Context(prec=4, rounding=ROUND_FLOOR)
_ENDS = 0.02
_SHARE = Decimal("0.0001")
_FEW_COLUMNS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class PairShares:
    """State how a release's parts share its privacy loss: shares of μ² of the Gaussian mechanism that has (ε, δ).

    Squares of μ add up under composition, so that a part's share says how exact it is. The rows have what is left.

    Args:
        margins: of the counts by one column.
        pairs: of the counts by two columns.
        draws: of choosing the pairs.

    Raises:
        InputRefused: a share isn't above 0, or together they leave nothing for the rows.
    """

    margins: Decimal = Decimal("0.3")
    pairs: Decimal = Decimal("0.45")
    draws: Decimal = Decimal("0.05")

    def __post_init__(self) -> None:
        if not (min(self.margins, self.pairs, self.draws) > 0 and self.margins + self.pairs + self.draws < 1):
            raise InputRefused(
                f"the shares of margins, pairs and their draws must be above 0 and leave something for the rows, not "
                f"{amount_exact(self.margins)}, {amount_exact(self.pairs)} and {amount_exact(self.draws)}."
            )


def proposed_pairs(columns: int) -> int:
    """Return how many pairs are counted where nothing is said.

    Two a column, three where there are more than ten columns, and at most one and a half for each pair of columns.
    """
    each = 2 if columns <= _FEW_COLUMNS else 3
    return max(1, min(each * columns, 3 * (columns * (columns - 1) // 2) // 2))


def plan_paired(
    *,
    epsilon: Decimal,
    delta: Decimal,
    stages: int,
    columns: int,
    pairs: int,
    releases: int = 1,
    rows_per_person: int = 1,
    k: int = 1,
    shares: PairShares | None = None,
    blocks: int | None = None,
    members: AskedMembers | None = None,
) -> DeletionPlan:
    """Return the noise of a paired release that is charged at most ε at δ over all releases.

    Margins and pairs have Gaussian noise of their shares, whose ends weigh a fiftieth of δ each; the rows have the
    least width that the exact price of all allows. Nothing is assumed of the estimates: what is returned was priced.

    Args:
        epsilon: ε over all releases.
        delta: δ over all releases.
        stages: maps of the rows.
        columns: each has a margin.
        pairs: how many are drawn and counted.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1.
        k: the smallest number of records that is published of a group.
        shares: of the parts; None for the proposed ones.
        blocks: tables of rows, each with so many stages; None for one of all columns.
        members: the table of members beside that of units, which takes its share first; None for none.

    Raises:
        InputRefused: a value out of range, or no noise within bounds has this price.
    """
    return _planned(
        epsilon=epsilon,
        delta=delta,
        stages=stages,
        columns=columns,
        pairs=pairs,
        releases=releases,
        records=rows_per_person,
        k=k,
        parts=shares or PairShares(),
        blocks=blocks,
        members=members,
    )


@lru_cache(maxsize=64)  # of a hundred columns it takes a second, and a page or a check asks for it again
def _planned(
    *,
    epsilon: Decimal,
    delta: Decimal,
    stages: int,
    columns: int,
    pairs: int,
    releases: int,
    records: int,
    k: int,
    parts: PairShares,
    blocks: int | None,
    members: AskedMembers | None,
) -> DeletionPlan:
    check_request(delta, releases)
    check_records(records)
    beside = None
    with suppress(ValueError, OverflowError):
        budget = gaussian_shift(float(epsilon), float(delta) / 2.0) ** 2 / releases
        budget *= 1.0 - (0.0 if members is None else float(members.share))
        margins = gaussian_of_width(
            scale=records * math.sqrt(columns / (float(parts.margins) * budget)),
            steps=columns * releases,
            records=records,
            ends=_ENDS * float(delta),
        )
        counted = gaussian_of_width(
            scale=records * math.sqrt(pairs / (float(parts.pairs) * budget)),
            steps=pairs * releases,
            records=records,
            ends=_ENDS * float(delta),
        )
        drawn = _FOUR_DIGITS_DOWN.create_decimal(2.0 * math.sqrt(float(parts.draws) * budget / pairs) / records)
        beside = Beside(
            complete=lambda rows: paired(
                replace(rows, stages=stages),
                columns=columns,
                margins=margins,
                pairs=pairs,
                counted=counted,
                drawn=drawn,
                blocks=blocks,
            ),
            precision=releases
            * (
                columns / float(margins.scale) ** 2
                + pairs / float(counted.scale) ** 2
                + pairs * float(drawn) ** 2 / 4.0
            ),
            ends=2.0 * _ENDS * float(delta),
        )
    if beside is None:
        raise InputRefused(
            f"no noise of so many margins and pairs costs so little as epsilon {amount_exact(epsilon)} at delta "
            f"{amount_exact(delta)}.",
            remedy="Raise epsilon or delta, or count fewer pairs.",
        )
    if members is not None:
        beside = members.beside(beside, epsilon=epsilon, delta=delta, releases=releases)
    return plan_beside(
        epsilon=epsilon,
        delta=delta,
        stages=stages * (blocks or 1),
        releases=releases,
        rows_per_person=records,
        k=k,
        beside=beside,
    )


def plan_paired_again(
    mechanism: PairedDeletion, *, epsilon: Decimal, delta: Decimal, rows_per_person: int = 1
) -> DeletionPlan:
    """Return the plan of a release at another price whose parts share the privacy loss as those of a mechanism do.

    Raises:
        InputRefused: as `plan_paired`.
    """
    of_margins = mechanism.margins / float(mechanism.margin_scale) ** 2
    of_pairs = mechanism.pairs / float(mechanism.pair_scale) ** 2
    of_draws = mechanism.pairs * float(mechanism.pair_epsilon) ** 2 / 4.0
    whole = of_margins + of_pairs + of_draws
    whole += mechanism.tables * mechanism.stages / float(deletion_variance(mechanism.noise))
    margins, pairs, draws = (Decimal(part / whole).quantize(_SHARE) for part in (of_margins, of_pairs, of_draws))
    return plan_paired(
        epsilon=epsilon,
        delta=delta,
        stages=mechanism.stages,
        columns=mechanism.margins,
        pairs=mechanism.pairs,
        rows_per_person=rows_per_person,
        k=mechanism.k,
        shares=PairShares(margins=margins, pairs=pairs, draws=draws),
        blocks=mechanism.tables if mechanism.tables > 1 else None,
        members=asked_again(mechanism, precision=whole),
    )


def paired(
    rows: DeletionRelease,
    *,
    columns: int,
    margins: GaussianDeletion,
    pairs: int,
    counted: GaussianDeletion,
    drawn: Decimal,
    blocks: int | None = None,
) -> PairedDeletion:
    """Return a release of rows with margins and pairs beside them.

    Args:
        rows: the release of one table of rows without them.
        columns: each has a margin.
        margins: the noise of their cells.
        pairs: how many are drawn.
        counted: the noise of their cells.
        drawn: ε of each draw.
        blocks: tables of rows; None for one of all columns.
    """
    fields: dict[str, Any] = {
        "stages": rows.stages,
        "k": rows.k,
        "noise": rows.noise,
        "margins": columns,
        "margin_scale": margins.scale,
        "margin_width": margins.width,
        "pairs": pairs,
        "pair_scale": counted.scale,
        "pair_width": counted.width,
        "pair_epsilon": drawn,
    }
    return PairedDeletion(**fields) if blocks is None else BlockedDeletion(**fields, blocks=blocks)
