"""`crowdblend plan` and `explain`: what a release or a specification means and costs, before anything is charged."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...accounting.given_files import read_given
from ...flows.paths import StatePaths, reader_of, resolve_paths
from ...mechanisms.kernel.errors import InputRefused
from .options import AS_JSON, FILE, LEDGER, ExactNumber

if TYPE_CHECKING:
    from ...accounting.theory.planning.planner import Plan


@click.command()
@click.argument("spec", type=FILE)
@click.option("--releases", type=click.IntRange(min=1), default=1, help="Price a series of so many releases.")
@click.option(
    "--records",
    type=click.IntRange(min=1),
    help="About how many there are, a round number that is public: says of what will be told how exact it is.",
)
@LEDGER
@AS_JSON
def explain(spec: Path, releases: int, records: int | None, ledger_url: str | None, as_json: bool) -> None:
    """Explain SPEC.toml: what each level means, what it costs, what it would leave of the budget.

    What would be refused now, such as a missing column, is said too. No record is read and nothing is charged: of the
    source only file names, CSV headers and Parquet footers are looked at.
    """
    places = resolve_paths(ledger_url=ledger_url)
    explain_spec(spec, releases=releases, places=places, as_json=as_json, records=records)


def explain_spec(spec: Path, *, releases: int, places: StatePaths, as_json: bool, records: int | None = None) -> None:
    """Say what a specification means and costs, of so many releases of it together; there need be no ledger."""
    from ...flows.spec import read_spec
    from ..readiness import readiness, readiness_lines
    from ..terminal.explanation import explanation, print_explanation

    request = read_spec(spec, output=spec.parent, releases=releases)
    explained = explanation(request, records=records) | readiness(request, state_paths=places)
    if as_json:
        click.echo(json.dumps(explained, ensure_ascii=False))
        return
    print_explanation(explained)
    for line in readiness_lines(explained):
        click.echo(line)
    click.echo("No record was read, and nothing was charged.")


@click.command()
@click.argument("spec", type=FILE)
@click.option("--by", help="Your name, which the approval states; default: the account that runs this.")
@click.option(
    "--folder",
    type=FILE,
    help="The specification's folder at the steward, where you have a copy of it elsewhere: its digest names it.",
)
@click.option("--rehearse", is_flag=True, help="Approve the release's rehearsal, which is charged for itself.")
@click.option("--output", type=FILE, help="The approval's file; default: SPEC.toml.approval.")
@click.option("--yes", is_flag=True, help="Approve it without being asked.")
def approve(spec: Path, by: str | None, folder: Path | None, rehearse: bool, output: Path | None, yes: bool) -> None:
    """Approve a specification as a second person: say what it means and costs, and sign its digest with your key.

    You need neither the ledger nor the records, but a private store (CROWDBLEND_HOME) with a signing key of your own.
    The steward names its public key under `approvers`, and needs the file that this writes beside the specification.
    """
    import getpass
    import sys
    from datetime import UTC, datetime

    from ...accounting.kernel.keys.signing import SigningKeys
    from ...flows.approvals import approval_file, approve
    from ...flows.spec import read_spec
    from ...mechanisms.kernel.errors import InputRefused
    from ..terminal.explanation import explanation, print_explanation

    keys = SigningKeys(home=resolve_paths().home)
    request = read_spec(spec, output=spec.parent, rehearse=rehearse)
    line = approve(request, by=by or getpass.getuser(), day=datetime.now(UTC).date(), keys=keys, folder=folder)
    print_explanation(explanation(request, records=None))
    digest = (request if folder is None else dataclasses.replace(request, base=folder)).digest
    click.echo(f"The digest that is signed: {digest}")
    if not yes:
        if not sys.stdin.isatty():
            raise InputRefused(
                "an approval has to be asked for, and there is no terminal to ask on.",
                where=str(spec),
                remedy="Read what is said here, and approve it with --yes.",
            )
        if not click.confirm("Approve exactly this?", err=True):
            raise InputRefused("the specification was not approved.", where=str(spec))
    place = approval_file(spec) if output is None else output
    try:
        place.write_bytes(line + b"\n")
    except OSError as error:
        raise InputRefused(f"the approval can't be written ({error.strerror}).", where=str(place)) from None
    key = keys.current().public.key_id
    click.echo(f"The approval, signed by the key {key}, is in {place}: it belongs beside the steward's specification.")


@click.command()
@click.argument("spec", required=False, type=FILE)
@click.option(
    "--mechanism",
    type=click.Choice(["sampled", "deletion"]),
    default="sampled",
    show_default=True,
    help="sampled: records are sampled and small groups dropped; deletion: each group loses a secret random number.",
)
@click.option("--stages", type=click.IntRange(min=1), help="Maps in the chain of a deletion release, finest first.")
@click.option(
    "--margins", type=click.IntRange(min=1), help="Noisy margins beside a deletion release, by one column or two."
)
@click.option(
    "--pairs",
    type=click.IntRange(min=1, max=1_000),
    help="Pairs of columns that a deletion release chooses and counts, beside a margin for each of --margins columns.",
)
@click.option("--blocks", type=click.IntRange(1, 100), help="Tables of rows, with --pairs; each has --stages.")
@click.option("--margin-share", type=ExactNumber(), help="Of ε and δ, for the margins.  [default: 0.2]")
@click.option("--k", type=int, help="Suppression threshold: groups with fewer sampled records are dropped.")
@click.option("--sampling-rate", "--rate", type=ExactNumber(), help="Probability that a record is sampled.")
@click.option("--epsilon", type=ExactNumber(), help="ε of the guarantee, over all releases.")
@click.option("--delta", type=ExactNumber(), help="δ of the guarantee, over all releases.")
@click.option("--releases", default="1", show_default=True, help="Releases, each with its sample; max: all that fit.")
@click.option("--selection-epsilon", type=ExactNumber(), help="ε spent on choosing the map, of each release.")
@click.option(
    "--selection-rate", type=ExactNumber(), help="Rate of the choice's own sample; without it the whole data choose."
)
@click.option(
    "--amplify-from", type=ExactNumber(), help="The rate at which --epsilon and --delta hold (LQS Theorem 1)."
)
@click.option(
    "--group-sizes",
    type=FILE,
    help="Public group sizes, one a line; tells what survives, and without k and rate finds those that publish most.",
)
@click.option("--plot", type=FILE, help="Draw the frontier and the ε–δ curve into this file.")
@click.option("--budget", metavar="NAME", help="How long what is left of this data set's budget lasts.")
@click.option(
    "--calendar",
    "calendars",
    multiple=True,
    metavar="N/PERIOD",
    help='With --budget: "12/year", "1/day", "4/year of k=50,rate=0.05"; several are compared.',
)
@LEDGER
@AS_JSON
def plan(
    spec: Path | None,
    as_json: bool,
    budget: str | None,
    calendars: tuple[str, ...],
    ledger_url: str | None,
    plot: Path | None,
    group_sizes: Path | None,
    releases: str,
    mechanism: str,
    stages: int | None,
    margins: int | None,
    pairs: int | None,
    blocks: int | None,
    margin_share: Decimal | None,
    **asked: Any,  # noqa: ANN401 - click hands over the options
) -> None:
    """Price releases: fills in whichever of k, sampling rate, ε and δ is missing; or what SPEC.toml asks for.

    With ε, δ and --group-sizes alone, k and the sampling rate are those that publish most records of such groups.
    A specification of any kind has all that decides its price, so that no other option goes with it but --releases.
    With --mechanism deletion the noise is found that ε and δ allow. With --budget the ledger is looked at, and says how
    long a data set's budget lasts for releases at --k and --sampling-rate (20 and 0.1 where nothing is said).
    """
    deletes = mechanism == "deletion"
    drawn = plot is not None or group_sizes is not None
    given = {name for name, value in asked.items() if value is not None}
    if budget is not None or calendars or ledger_url is not None:
        others = (
            drawn
            or deletes
            or spec is not None
            or (stages, margins, pairs, blocks, margin_share, releases) != _NOTHING_ELSE
        )
        if budget is None or others or not given <= {"k", "sampling_rate"}:
            raise click.UsageError("--budget goes with --calendar, --k, --sampling-rate, --ledger and --json alone.")
        _forecast(budget, calendars, asked["k"], asked["sampling_rate"], ledger_url=ledger_url, as_json=as_json)
        return
    if deletes and (spec is not None or drawn or not given <= {"epsilon", "delta"}):
        raise click.UsageError(
            "--mechanism deletion takes --epsilon, --delta, --stages, --margins, --pairs, --blocks, --margin-share, "
            "--releases "
            "and --json alone."
        )
    of_deletion: dict[str, int | Decimal | None] = {
        "--stages": stages,
        "--margins": margins,
        "--pairs": pairs,
        "--blocks": blocks,
    }
    of_deletion |= {"--margin-share": margin_share}
    _check_deletion_options(of_deletion, deletes=deletes)
    if deletes:
        _plan_deletion(
            asked["epsilon"],
            asked["delta"],
            _whole(releases),
            stages=stages or 1,
            margins=margins or 0,
            pairs=pairs,
            blocks=blocks,
            margin_share=margin_share,
            as_json=as_json,
        )
        return
    if spec is not None:
        if drawn or given:
            raise click.UsageError("a specification has its own parameters: no option but --releases goes with it.")
        explain_spec(spec, releases=_whole(releases) or 1, places=resolve_paths(), as_json=as_json)
        return
    result = _sampled_plan(asked, _whole(releases), group_sizes)
    share = None if group_sizes is None else _survival(result, group_sizes)
    if plot is not None:
        from ..terminal.plan_tables import draw_plan

        draw_plan(result, plot)
    if as_json:
        answer = _plain(dataclasses.asdict(result)) | {"survival_share": share}
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    from ..terminal.plan_tables import print_plan

    print_plan(result)
    if share is not None:
        click.echo(f"Of the sampled records {share:.1%} would be published, for groups of the sizes given.")


def _check_deletion_options(given: Mapping[str, int | Decimal | None], *, deletes: bool) -> None:
    """Refuse options of a deletion release that don't go together, or without it."""
    for option, value in given.items():
        if value is not None and not deletes:
            raise click.UsageError(f"{option} goes with --mechanism deletion.")
    margins = given["--margins"]
    if given["--margin-share"] is not None and margins is None:
        raise click.UsageError("--margin-share goes with --margins.")
    if given["--pairs"] is not None and (margins is None or margins < 2):
        raise click.UsageError("--pairs goes with --margins, the number of columns, which is at least 2.")
    if given["--blocks"] is not None and given["--pairs"] is None:
        raise click.UsageError("--blocks goes with --pairs.")


LARGEST_SIZES = 1 << 26  # bytes
_NOTHING_ELSE = (None, None, None, None, None, "1")
"""Stages, margins, pairs, blocks, the margins' share and releases where none of these options is given."""

_PRICE, _SELECTION = {"epsilon", "delta"}, {"selection_epsilon", "selection_rate"}
"""With these alone and public group sizes, k and rate are chosen."""


def _forecast(
    name: str,
    calendars: tuple[str, ...],
    k: int | None,
    sampling_rate: Decimal | None,
    *,
    ledger_url: str | None,
    as_json: bool,
) -> None:
    """Say how long what is left of a budget lasts; the ledger is only looked at."""
    from ...accounting.theory.planning.budget_forecast import (
        CALENDARS,
        RATE,
        BudgetLeft,
        FilterLeft,
        K,
        forecast,
        forecast_facts,
        read_calendar,
        require_forecast,
    )

    read = [
        read_calendar(text, k=K if k is None else k, sampling_rate=RATE if sampling_rate is None else sampling_rate)
        for text in calendars or CALENDARS
    ]
    with reader_of(resolve_paths(ledger_url=ledger_url)) as reader:
        state = reader.dataset(name)
    require_forecast(relation=state.relation, survey=state.survey, rows_per_person=state.rows_per_person)
    if state.filter_budget is None:
        left = BudgetLeft(epsilon=state.account.epsilon_left, delta=state.account.delta_left)
    else:
        from ...accounting.kernel.ledger.filter_budget import FilterBudget

        terms, account = FilterBudget.of(state.filter_budget).terms, state.account
        left = BudgetLeft.of_filter(FilterLeft(terms=terms, divergence=account.epsilon_left, tail=account.delta_left))
    facts = {"dataset": name} | forecast_facts(forecast(left, read))
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False, default=float))
        return
    from ..terminal.plan_tables import print_forecast

    print_forecast(facts)


def _plan_deletion(
    epsilon: Decimal | None,
    delta: Decimal | None,
    releases: int | None,
    *,
    stages: int,
    margins: int,
    pairs: int | None,
    blocks: int | None,
    margin_share: Decimal | None,
    as_json: bool,
) -> None:
    """Say which noise ε and δ allow, and what it deletes."""
    if epsilon is None or delta is None or releases is None:
        raise InputRefused(
            "the noise of deletion releases follows from epsilon, delta and a number of releases.",
            remedy="Give all three.",
        )
    from ...accounting.theory.planning.deletion_planning import MARGIN_SHARE, plan_deletion
    from ...accounting.theory.planning.paired_planning import PairShares, plan_paired
    from ..terminal.plan_tables import deletion_facts, print_deletion

    share = MARGIN_SHARE if margin_share is None else margin_share
    if pairs is None:
        plan = plan_deletion(
            epsilon=epsilon, delta=delta, stages=stages, releases=releases, margins=margins, margin_share=share
        )
    else:
        plan = plan_paired(
            epsilon=epsilon,
            delta=delta,
            stages=stages,
            releases=releases,
            columns=margins,
            pairs=pairs,
            blocks=blocks,
            shares=PairShares(margins=share),
        )
    if as_json:
        click.echo(json.dumps(_plain(deletion_facts(plan)), ensure_ascii=False))
        return
    print_deletion(plan)


def _sampled_plan(asked: dict[str, Any], releases: int | None, group_sizes: Path | None) -> Plan:
    """The point with what is missing filled in; with a price and public group sizes alone, the pair that suits them."""
    from ...accounting.theory.planning.planner import plan, plan_for_groups

    given = {name: value for name, value in asked.items() if value is not None}
    if group_sizes is not None and releases is not None and _PRICE <= given.keys() <= _PRICE | _SELECTION:
        return plan_for_groups(group_sizes=read_group_sizes(group_sizes), releases=releases, **given)
    return plan(**asked, releases=releases)


def _survival(result: Plan, group_sizes: Path) -> float:
    """Return the share of the sampled records that would survive suppression."""
    if result.k is None:
        raise InputRefused("a bare guarantee has no k, so nothing is suppressed.", where="--group-sizes")
    from ...accounting.theory.survival import survival_share
    from ...mechanisms.kinds.microdata import StronglySafeRelease

    mechanism = StronglySafeRelease(k=result.k, sampling_rate=result.sampling_rate)
    return survival_share(mechanism, group_sizes=read_group_sizes(group_sizes))


def _whole(releases: str) -> int | None:
    """Return the number of releases, None to ask for it."""
    if releases == "max":
        return None
    if not releases.isascii() or not releases.isdigit() or int(releases) < 1:
        raise click.BadParameter("this is neither a number of releases nor max.", param_hint="--releases")
    return int(releases)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Decimals as JSON numbers."""
    return {name: float(value) if isinstance(value, Decimal) else value for name, value in values.items()}


def read_group_sizes(path: Path) -> dict[int, int]:
    """Read one group size a line, or a size and how many groups have it, separated by a comma.

    PRIVACY: the sizes must be public (a census, an earlier release, synthetic people), never counts of the records
    that are to be released.

    Returns:
        Size of a group → how many groups have it.

    Raises:
        InputRefused: the file can't be read, or a line is neither.
    """
    try:
        lines = read_given(path, most=LARGEST_SIZES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputRefused(f"the group sizes can't be read ({why}).", where=str(path)) from None
    sizes: Counter[int] = Counter()
    for number, line in enumerate(lines, start=1):
        fields = [field.strip() for field in line.split(",")]
        if not all(field.isascii() and field.isdigit() and 0 < len(field) < 16 for field in fields) or len(fields) > 2:
            raise InputRefused(
                "this is neither a group size nor a size and a number of groups.", where=f"{path}, line {number}"
            )
        sizes[int(fields[0])] += int(fields[1]) if len(fields) == 2 else 1
    return dict(sizes)
