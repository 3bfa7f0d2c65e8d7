"""One preview: what is asked for is checked, the crowd counted, and what it foretells shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ...accounting.dashboard.templating import grouped
from ...flows.releases.kind import Suppressing, Untold
from ...flows.releases.registry import release_kind
from ...flows.settings import house
from ...flows.spec import parse_spec, read_spec
from ...mechanisms.lattice import Levels
from ...mechanisms.map_choice import MapChoice
from ...mechanisms.recoding import GeneralizationMap
from ...mechanisms.refusal import InputRefused
from ...tasks.request import Request
from ..documents.rendering import page, percent
from ..placing import require_elsewhere, write_new
from .counting import crowd_of_records, crowd_of_release
from .crowd import Crowd
from .forecast import Forecast, forecast
from .innocence import REMEDY, WHY
from .suggestions import MOST_MAPS, Suggestion, best_levels, suggestions
from .tables import preview_tables

__all__ = ["Preview", "not_a_level", "preview", "require_place"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What a release would suppress, foretold on records that may be looked at.

    Args:
        forecast: what would be published and lost, by column, level, label, threshold and rate.
        suggestions: what would lose less, each with its price.
        request: the specification.
    """

    forecast: Forecast
    suggestions: tuple[Suggestion, ...]
    request: Request

    def __repr__(self) -> str:
        """What would be suppressed, in short."""
        return f"Preview(label={self.request.label!r}, suppressed={self.forecast.outlook.suppressed:.3f})"

    @property
    def facts(self) -> dict[str, Any]:
        """What `crowdblend preview --json` prints."""
        return dataclasses.asdict(self.forecast) | {
            "suggestions": [dataclasses.asdict(one) for one in self.suggestions]
        }

    def write_page(self, path: Path | str) -> None:
        """Write the page with pictures into a new file.

        Args:
            path: the new file (.html).

        Raises:
            InputRefused: nothing may be written there.
        """
        told = self.forecast
        curves = {
            "k": [(float(one.k), 100.0 * one.suppressed, one.chosen) for one in told.by_k],
            "rate": [(one.rate, 100.0 * one.suppressed, one.chosen) for one in told.by_rate],
        }
        tables = preview_tables(told, self.suggestions, number=grouped, percent=percent)
        text = page("preview.html", told=told, name=self.request.label, tables=tables, curves=curves)
        write_new(Path(path), text, request=self.request)


def preview(
    spec: Path | str,
    *,
    public: Path | str | None = None,
    release: Path | str | None = None,
    separator: str | None = None,
    population: int | None = None,
    levels: Mapping[str, int] | None = None,
) -> Preview:
    """Foretell what a release would suppress; never on the private records, and nothing is charged.

    Args:
        spec: the specification's file.
        public: public or synthetic records with the specification's columns: file, folder, glob or URL.
        release: folder of a past release, or of a charged noisy histogram, instead of public records.
        separator: of public CSV records; None takes the specification's.
        population: how many people the private records are of, if that is public.
        levels: other levels, by column, than the specification's.

    Raises:
        InputRefused: the specification, the records or a level is wrong; or the records are the private ones.
    """
    request = _request(Path(spec))
    mechanism = _suppressing(request)
    if (public is None) is (release is None):
        _refuse_without_crowd(request, both=public is not None)
    if release is not None:
        if population is not None:
            raise InputRefused("a release tells by itself for how many people it stands.", where="--population")
        crowd = crowd_of_release(request, Path(release))
    else:
        home = house().home
        crowd = crowd_of_records(request, str(public), separator=separator, population=population, home=home)
    told = forecast(request, mechanism, crowd, levels=_levels(request, mechanism, crowd, levels or {}))
    return Preview(forecast=told, suggestions=tuple(suggestions(request, mechanism, crowd, told)), request=request)


def require_place(html: Path, *, spec: Path) -> None:
    """Refuse a place for a preview's page, before anything is foretold.

    Args:
        html: the new file.
        spec: the specification's file.

    Raises:
        InputRefused: nothing may be written there, or the specification is wrong.
    """
    require_elsewhere(html, request=_request(spec))


def not_a_level() -> InputRefused:
    """The refusal of a level that names no column, or isn't written as one."""
    return InputRefused("levels are given as column=level, for columns of the specification.", where="--level")


def _request(spec: Path) -> Request:
    """What the specification asks for; a preview needs no output, so one that names none has one of its own."""
    return read_spec(spec, output=spec.parent / "preview" if parse_spec(spec).release.output is None else None)


def _suppressing(request: Request) -> Suppressing:
    foretold = release_kind(request.kind).preview(request.mechanism)
    if isinstance(foretold, Untold):
        raise InputRefused(
            f"there is no preview of {foretold.named('of')}.",
            where=request.label,
            remedy="`crowdblend explain` tells what it costs.",
        )
    if foretold is None:
        raise InputRefused(
            "this release suppresses nothing: its noise is what it costs, and that is known beforehand.",
            where=request.label,
            remedy="`crowdblend explain` tells how accurate it will be.",
        )
    return foretold


def _refuse_without_crowd(request: Request, *, both: bool) -> NoReturn:
    if both:
        raise InputRefused("a preview is on one crowd.", where="--public, --release", remedy="Leave one of them out.")
    raise InputRefused(
        f"the records of '{request.dataset}' themselves aren't looked at for a preview. {WHY}",
        where="--public, --release",
        remedy=REMEDY,
    )


def _levels(request: Request, mechanism: Suppressing, crowd: Crowd, wanted: Mapping[str, int]) -> Levels:
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
    for name, level in wanted.items():
        if name not in crowd.names or level < 0:
            raise not_a_level()
        place = crowd.names.index(name)
        if level >= crowd.hierarchies[place].levels:
            raise InputRefused(f"the column {name!r} has no level {level}.", where="--level")
        levels[place] = level
    for name, level, least in zip(crowd.names, levels, crowd.base, strict=True):
        if level < least:
            raise InputRefused(
                f"the column {name!r} is known at level {least} and coarser alone, not at level {level}.",
                where="--release" if crowd.scale > 1 else "--level",
                remedy=f"Try --level {name}={least}.",
            )
    return tuple(levels)
