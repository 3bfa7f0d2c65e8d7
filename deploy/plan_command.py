"""`crowdblend plan`: what a release would cost, before anything is charged."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click

__all__ = ["ExactNumber", "plan"]


class ExactNumber(click.ParamType[Decimal]):
    """A number taken exactly as it is written."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Read the decimal, or fail with the option's name."""
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            self.fail("this is not a number", param, ctx)
        if not number.is_finite():
            self.fail("this is not a finite number", param, ctx)
        return number


@click.command()
@click.option("--k", type=int, help="Suppression threshold: groups with fewer sampled records are dropped.")
@click.option("--sampling-rate", type=ExactNumber(), help="Probability that a record is sampled.")
@click.option("--epsilon", type=ExactNumber(), help="ε of the guarantee, over all releases.")
@click.option("--delta", type=ExactNumber(), help="δ of the guarantee, over all releases.")
@click.option("--releases", default="1", show_default=True, help="Releases, each with its sample; max: all that fit.")
@click.option("--selection-epsilon", type=ExactNumber(), help="ε spent on choosing the map, of each release.")
@click.option(
    "--amplify-from", type=ExactNumber(), help="The rate at which --epsilon and --delta hold (LQS Theorem 1)."
)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the frontier and the ε–δ curve into this file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def plan(as_json: bool, plot: Path | None, releases: str, **asked: Any) -> None:  # noqa: ANN401 - click hands over the options
    """Price releases: fills in whichever of k, sampling rate, ε and δ is missing."""
    from ..accounting.theory.planning import plan as plan_of
    from .plan_report import draw_plan, print_plan

    result = plan_of(**asked, releases=_whole(releases))
    if plot is not None:
        draw_plan(result, plot)
    if as_json:
        click.echo(json.dumps(_plain(dataclasses.asdict(result)), ensure_ascii=False))
    else:
        print_plan(result)


def _whole(releases: str) -> int | None:
    """The number of releases, None to ask for it."""
    if releases == "max":
        return None
    if not releases.isascii() or not releases.isdigit() or int(releases) < 1:
        raise click.BadParameter("this is neither a number of releases nor max.", param_hint="--releases")
    return int(releases)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Decimals as JSON numbers."""
    return {name: float(value) if isinstance(value, Decimal) else value for name, value in values.items()}
