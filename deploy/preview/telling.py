"""One preview: what is asked for is checked, the crowd counted, and what it foretells shown."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import NoReturn

import click

from ...flows.settings import house
from ...flows.spec import read_spec
from ...flows.spec_tables import parse_spec
from ...mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.event import LocalReports
from ...mechanisms.histogram import SuppressedHistogram
from ...mechanisms.lattice import Levels
from ...mechanisms.map_choice import MapChoice
from ...mechanisms.points import SyntheticPoints
from ...mechanisms.recoding import GeneralizationMap
from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from ...tasks.request import Request
from ..placing import require_elsewhere, write_new
from .counting import crowd_of_records, crowd_of_release
from .crowd import Crowd
from .forecast import Suppressing, forecast
from .innocence import REMEDY, WHY
from .page import preview_page
from .suggestions import MOST_MAPS, best_levels, suggestions
from .tables import print_forecast

__all__ = ["tell_preview"]


def tell_preview(
    spec: Path,
    *,
    public: str | None,
    released: Path | None,
    separator: str | None,
    population: int | None,
    wanted: tuple[str, ...],
    html: Path | None,
    as_json: bool,
) -> None:
    """Foretell what a release would suppress; the arguments are those of `crowdblend preview`.

    Raises:
        InputRefused: the specification, the crowd, a level or the page's place is wrong.
    """
    request = read_spec(spec, output=spec.parent / "preview" if not _names_output(spec) else None)
    mechanism = _suppressing(request)
    if html is not None:
        require_elsewhere(html, request=request)
    if (public is None) is (released is None):
        _refuse_without_crowd(request, both=public is not None)
    if released is not None:
        if population is not None:
            raise InputRefused("a release tells by itself for how many people it stands.", where="--population")
        crowd = crowd_of_release(request, released)
    else:
        home = house().home
        crowd = crowd_of_records(request, str(public), separator=separator, population=population, home=home)
    told = forecast(request, mechanism, crowd, levels=_levels(request, mechanism, crowd, wanted))
    helpful = suggestions(request, mechanism, crowd, told)
    if as_json:
        plain = dataclasses.asdict(told) | {"suggestions": [dataclasses.asdict(one) for one in helpful]}
        click.echo(json.dumps(plain, ensure_ascii=False))
    else:
        print_forecast(told, helpful)
    if html is not None:
        write_new(html, preview_page(told, helpful, name=request.label), request=request)
        click.echo(f"The page is in {html}.", err=True)


def _names_output(spec: Path) -> bool:
    """Whether the specification names an output; a preview needs none."""
    return parse_spec(spec).release.output is not None


def _suppressing(request: Request) -> Suppressing:
    mechanism = request.mechanism
    if isinstance(mechanism, StronglySafeRelease | EpsilonSafeRelease | SuppressedHistogram):
        return mechanism
    if isinstance(mechanism, SyntheticPoints | BiasedSampleCounts | UnequalRatesHistogram | LocalReports):
        raise InputRefused(
            "there is no preview of points, of unequal inclusion rates or of local reports.",
            where=request.label,
            remedy="`crowdblend explain` tells what it costs.",
        )
    raise InputRefused(
        "this release suppresses nothing: its noise is what it costs, and that is known beforehand.",
        where=request.label,
        remedy="`crowdblend explain` tells how accurate it will be.",
    )


def _refuse_without_crowd(request: Request, *, both: bool) -> NoReturn:
    if both:
        raise InputRefused("a preview is on one crowd.", where="--public, --release", remedy="Leave one of them out.")
    raise InputRefused(
        f"the records of '{request.dataset}' themselves aren't looked at for a preview. {WHY}",
        where="--public, --release",
        remedy=REMEDY,
    )


def _levels(request: Request, mechanism: Suppressing, crowd: Crowd, wanted: tuple[str, ...]) -> Levels:
    """The levels of the previewed map: the specification's, or the best that a draw could give; or those asked for."""
    match request.recoding:
        case GeneralizationMap(columns=fixed):
            levels = [column.level for column in fixed]
        case MapChoice(lattice=lattice):
            best = best_levels(request, mechanism, crowd) if not wanted else None
            if best is None and not wanted:
                raise InputRefused(
                    f"there are more than {MOST_MAPS} maps to draw from, and which one to look at isn't said.",
                    where="--level",
                    remedy="Name levels, for example --level age=2; columns that are not named have their coarsest.",
                )
            levels = list(best or lattice.coarsest)
    for text in wanted:
        name, mark, number = text.rpartition("=")
        if not mark or name not in crowd.names or not (number.isascii() and number.isdigit()):
            raise InputRefused("levels are given as column=level, for columns of the specification.", where="--level")
        place = crowd.names.index(name)
        if int(number) >= crowd.hierarchies[place].levels:
            raise InputRefused(f"the column {name!r} has no level {number}.", where="--level")
        levels[place] = int(number)
    for name, level, least in zip(crowd.names, levels, crowd.base, strict=True):
        if level < least:
            raise InputRefused(
                f"the column {name!r} is known at level {least} and coarser alone, not at level {level}.",
                where="--release" if crowd.scale > 1 else "--level",
                remedy=f"Try --level {name}={least}.",
            )
    return tuple(levels)
