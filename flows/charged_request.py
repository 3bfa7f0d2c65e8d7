"""What a specification asks for where the ledger has paid already: by the release's own charge, or by its series."""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from ..accounting.kernel.ledger.entries import FreeSeriesRegistered
from ..accounting.kernel.prices.registry import not_covered
from ..accounting.ledger.lookup import ReleaseState, SeriesState
from ..mechanisms.kernel.amounts import amount_exact
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.map_selection.choice import MapChoice
from ..tasks.destinations import Output
from ..tasks.request import Request, digest_of_mixed
from .columns import pays_for_any_draw
from .spec import read_spec

if TYPE_CHECKING:
    from ..mechanisms.kinds.mixed_series import MixedSeries


def as_charged(request: Request, state: ReleaseState | None, *, spec: Path, output: Output | None) -> Request:
    """Return the request as it was charged, where the record of its draw is another than a new release's would be.

    Earlier versions drew maps by another mechanism where the specification doesn't say by which, and recorded walks
    and exponential draws without their bounded range.
    """
    if state is None or not isinstance(request.recoding, MapChoice):
        return request
    recorded = state.charge.decoded_mechanism
    if pays_for_any_draw(recorded):
        with suppress(InputRefused):  # it is another specification's, as its digest will tell
            return read_spec(spec, output=output, rehearse=request.rehearsal, recorded=recorded)
    return request


def series_and_part(series: str | None) -> tuple[str | None, int | None]:
    """Return a series' name and the part that is asked for, of NAME or NAME:PART.

    Raises:
        InputRefused: the part is no number from 1.
    """
    if series is None or ":" not in series:
        return series, None
    name, _, part = series.partition(":")
    if not re.fullmatch(r"[1-9][0-9]{0,3}", part):
        raise InputRefused("a part of a series is a number from 1.", where=f"--series {series}")
    return name, int(part)


def request_of_series(
    spec: Path,
    *,
    output: Output | None,
    series: SeriesState,
    part: int | None = None,
    state: ReleaseState | None = None,
) -> Request:
    """Return a release of a series as asked for, with the price that was reserved when the series was registered.

    Args:
        part: of a series of different mechanisms, from 1; None finds the one that the release is of.

    Raises:
        InputRefused: the specification is wrong, there is no such part, or several would pay for the release.
    """
    if (mixed := series.registered.mixed) is not None:
        return _request_of_part(spec, output=output, series=series, mixed=mixed, part=part, state=state)
    if part is not None:
        raise InputRefused(
            "this series is of one mechanism and has no parts.",
            where=f"--series {series.registered.series}:{part}",
            remedy=f"Write --series {series.registered.series}.",
        )
    reserved = series.registered.price
    registered = series.registered.decoded_mechanism
    recorded = registered if state is None else state.charge.decoded_mechanism
    request = read_spec(spec, output=output, releases=reserved.releases, recorded=recorded)
    if isinstance(series.registered, FreeSeriesRegistered):
        request = dataclasses.replace(request, registered=registered)
    if request.price.delta != reserved.delta:
        return request  # refused below, as another specification
    price = dataclasses.replace(request.price, epsilon=reserved.epsilon, rule=reserved.rule)
    return dataclasses.replace(request, price=price)


def _request_of_part(
    spec: Path,
    *,
    output: Output | None,
    series: SeriesState,
    mixed: MixedSeries,
    part: int | None,
    state: ReleaseState | None,
) -> Request:
    reserved, where = series.registered.price, f"--series {series.registered.series}"
    request = as_charged(read_spec(spec, output=output), state, spec=spec, output=output)
    own = request.price
    if own.delta not in (0, reserved.delta):
        raise InputRefused(
            f"the series has δ = {amount_exact(reserved.delta)} for all its releases together.",
            where=f"{spec}: [privacy].delta",
            remedy=f"Write delta = {amount_exact(reserved.delta)}.",
        )
    parts = range(1, len(mixed.each) + 1)
    if part is None:
        paid = [one for one in parts if not_covered(request.mechanism, mixed, number=mixed.numbers(one)[0]) is None]
        alike = [one for one in paid if mixed.each[one - 1].measure in (request.mechanism, own.epsilon)]
        if len(paid) > 1 and len(alike) != 1:
            raise InputRefused(
                f"several parts of this series would pay for this release: {', '.join(map(str, paid))}.",
                where=where,
                remedy=f"Name one, such as {where}:{paid[0]}.",
            )
        nearest = [one for one in parts if isinstance(mixed.each[one - 1].measure, Decimal) is (own.delta == 0)]
        part = (alike or paid or nearest or [1])[0]
    if part not in parts:
        raise InputRefused(f"this series has {len(parts)} parts: {mixed.parts}.", where=f"{where}:{part}")
    charged = dataclasses.replace(
        own, epsilon=reserved.epsilon, delta=reserved.delta, rule=reserved.rule, releases=reserved.releases
    )
    older = digest_of_mixed(mixed, dataset=series.registered.dataset, delta=reserved.delta, unit=None)
    binds_unit = series.registered.spec_digest != older
    return dataclasses.replace(request, price=charged, registered=mixed, part=part, binds_unit=binds_unit)
