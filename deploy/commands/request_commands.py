"""`crowdblend request` and `answer`: a researcher asks for what no release says, and the steward answers at a price."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...flows.paths import StatePaths, read_toml, reader_of, resolve_paths
from ...mechanisms.kernel.amounts import amount_exact
from ...mechanisms.kernel.errors import AccountantRefused, InputRefused, one_line
from .options import AS_JSON, FILE, LEDGER, NEW, ExactNumber

if TYPE_CHECKING:
    from ...analysis import LoadedRelease
    from ...flows.releases.answer_release import AnswerRequest
    from ...flows.request_files import RequestFile


@click.command()
@click.argument("file", type=FILE, metavar="NEW.toml")
@click.option("--count", is_flag=True, help="Ask how many records there are, in all or in each group.")
@click.option("--sum", "sum_of", metavar="COLUMN", help="Ask for the sum of a column of numbers.")
@click.option("--mean", "mean_of", metavar="COLUMN", help="Ask for its mean.")
@click.option("--regression", metavar="FORMULA", help="Ask for what a regression needs: 'income ~ age + C(region)'.")
@click.option("--by", multiple=True, metavar="COLUMN", help="A column whose labels make groups; more than once.")
@click.option("--level", "levels", multiple=True, type=(str, int), metavar="COLUMN LEVEL", help="A column's level.")
@click.option(
    "--bounds", multiple=True, type=(str, int, int), metavar="COLUMN LOWER UPPER", help="A column's least and greatest."
)
@click.option("--label", "labels", multiple=True, metavar="COLUMN=LABEL", help="A label of a column; once for each.")
@click.option("--least-records", type=click.IntRange(min=1), help="Of a mean: as many records as there are at least.")
@click.option("--epsilon", type=ExactNumber(), required=True, help="The ε that you suggest.")
@click.option("--asked-by", required=True, help="Who asks.")
@click.option("--purpose", required=True, help="What the answer is for.")
@click.option("--name", help="A short name of the request; default: the file's.")
@click.option("--about", type=FILE, metavar="RELEASE", help="A release's folder, for columns, labels and bounds.")
@click.option("--dataset", help="The name of the data set, where no release is named.")
@click.option("--anyway", is_flag=True, help="Ask also for what the release says already.")
def request(
    file: Path,
    count: bool,
    sum_of: str | None,
    mean_of: str | None,
    regression: str | None,
    by: tuple[str, ...],
    levels: tuple[tuple[str, int], ...],
    bounds: tuple[tuple[str, int, int], ...],
    labels: tuple[str, ...],
    least_records: int | None,
    epsilon: Decimal,
    asked_by: str,
    purpose: str,
    name: str | None,
    about: Path | None,
    dataset: str | None,
    anyway: bool,
) -> None:
    """Write a request for one count, sum, mean or regression, to be sent to the steward of a data set.

    It needs no ledger and no records. With --about, columns, labels and bounds are those of a release, and what it says
    already isn't asked for.
    """
    from ..proposals.begun_request import Asking, Question, answered_already, begun_request
    from ..release_paths import require_elsewhere, write_new

    asked = {"count": count or None, "sum": sum_of, "mean": mean_of, "regression": regression}
    kinds = [kind for kind, value in asked.items() if value is not None]
    if len(kinds) != 1:
        raise click.UsageError("Ask for one of --count, --sum, --mean and --regression.")
    if by and regression is not None:
        raise click.UsageError("A regression has no groups: take them into its formula, as C(COLUMN).")
    if (least_records is None) is (mean_of is not None):
        raise click.UsageError("--least-records goes with --mean, which needs it.")
    question = Question(
        kind=kinds[0],
        column=sum_of or mean_of,
        formula=regression,
        by=by,
        levels=dict(levels),
        bounds={column: (lower, upper) for column, lower, upper in bounds},
        labels=_labels_by_column(labels),
        least_records=least_records,
    )
    require_elsewhere(file)
    release = None if about is None else _loaded(about)
    asking = Asking(
        name=file.stem if name is None else name, asked_by=asked_by, purpose=purpose, dataset=dataset, epsilon=epsilon
    )
    text, written, answer = begun_request(question, asking, release=release, path=file)
    if release is not None and not anyway and (call := answered_already(question, release)) is not None:
        raise InputRefused(
            "the release answers this already, from what it has counted.",
            where=str(about),
            not_done="Nothing was written.",
            remedy=f"In Python: {call}. Where that isn't exact enough, ask with --anyway.",
        )
    write_new(file, text)
    for line in asked_lines(written, answer):
        click.echo(line)
    click.echo(
        f"It would cost ε = {amount_exact(epsilon)} of the data set's budget, or what the steward grants. The request "
        f"is in {file}: send it to the steward, who runs `crowdblend answer`."
    )


def _labels_by_column(given: tuple[str, ...]) -> dict[str, list[str]]:
    labels: dict[str, list[str]] = {}
    for text in given:
        column, equals, label = text.partition("=")
        if not (column and equals and label):
            raise click.UsageError(f"A label is given as COLUMN=LABEL, not {text!r}.")
        labels.setdefault(column, []).append(label)
    return labels


def _loaded(about: Path) -> LoadedRelease:
    from ...analysis import load

    return load(about)


def asked_lines(asked: RequestFile, answer: AnswerRequest) -> Iterator[str]:
    """Yield, in plain words, who asks what, why, and how exact an answer will be."""
    from ...flows.releases.answer_release import asked_in_words

    own = asked.tables.request
    what, exact = asked_in_words(answer)
    # Each text of a request is on one line, so that none of them looks like what this program says.
    yield f"Request {own.name} (SHA-256 {asked.sha256}), asked by: {one_line(own.asked_by)}"
    yield f"Asked of the data set '{one_line(own.dataset)}': {one_line(what)}."
    yield f"For: {one_line(own.purpose)}"
    yield exact


@click.command()
@click.argument("file", type=FILE, metavar="REQUEST")
@click.option(
    "--spec", type=FILE, required=True, metavar="SPEC.toml", help="A specification of the data set: of its release."
)
@click.option("--output", help="Folder or fsspec URL of the answer; default: beside SPEC, by the request's name.")
@click.option("--epsilon", type=ExactNumber(), help="The ε that you grant, instead of the one that is suggested.")
@click.option("--scheduler", help="Address of a Dask scheduler; without one this machine's threads count.")
@NEW
@click.option("--yes", is_flag=True, help="Approve it without being asked.")
@click.option("--dry-run", is_flag=True, help="Say what is asked and what it would cost, and charge nothing.")
@LEDGER
@AS_JSON
def answer(
    file: Path,
    spec: Path,
    output: str | None,
    epsilon: Decimal | None,
    scheduler: str | None,
    new: bool,
    yes: bool,
    dry_run: bool,
    ledger_url: str | None,
    as_json: bool,
) -> int:
    """Answer a researcher's request: say what is asked and what it costs, and, once approved, charge and publish it.

    SPEC.toml says where the records lie and how they are read, and declares labels that a request takes from a release.
    The request becomes a specification of an answer beside it, and a release by the same rules as every other.
    """
    from ...flows.request_files import Source, answering_name, answering_tables, answering_text, read_request_file
    from ...flows.spec import parse_spec
    from ...tasks.destinations import output_at

    places = resolve_paths(ledger_url=ledger_url)
    if places.approvers is not None:
        raise InputRefused(
            "an answer's specification is written by this command and then run, so that nobody can approve it before.",
            where="approvers",
            remedy="Write the question as a specification with [answer], have it approved, and run it.",
        )
    asked = read_request_file(file)
    parse_spec(spec)
    written = read_toml(spec, what="the specification")
    source = Source(path=spec, data=written["data"], columns=written.get("columns", {}), unit=written.get("unit"))
    relation, earlier = _account(places, dataset=source.data["dataset"], label=asked.label)
    tables, release = answering_tables(asked, source, relation=relation, epsilon=epsilon)
    text = answering_text(asked, tables)
    own_spec = spec.parent / answering_name(text)
    for line in (*asked_lines(asked, release), *_earlier_lines(earlier)):
        click.echo(line, err=as_json)
    made = _put(own_spec, text)
    keep = False
    try:
        from ...flows.prepare import prepare
        from ..readiness import print_dry_run

        place = None if output is None else output_at(output, base=Path.cwd())
        with prepare(own_spec, state_paths=places, output=place, release_id=None, new=new, dry=True) as prepared:
            if dry_run or not as_json:
                print_dry_run(prepared, as_json=as_json)
            if dry_run:
                return 0
        _require_approval(file, yes=yes)
        from .release_commands import run_and_print

        nothing = {"release_id": None, "series": None, "rehearse": False}
        keep = True
        return run_and_print(
            own_spec,
            places=places,
            output=output,
            scheduler=scheduler,
            ledger_url=ledger_url,
            as_json=as_json,
            asked=nothing | {"new": new},
        )
    except (InputRefused, AccountantRefused):
        keep = False  # whatever may have been charged ends otherwise
        raise
    finally:
        if made and not keep:
            own_spec.unlink(missing_ok=True)


def _account(places: StatePaths, *, dataset: str, label: str) -> tuple[str, tuple[str, ...]]:
    """Return the relation of a data set's budget, and the releases that answered a request before."""

    with reader_of(places) as reader:
        relation = reader.dataset(dataset).relation
        earlier = [state for state in reader.releases() if state.release_id.startswith(f"{label}-")]
    return relation, tuple(state.release_id for state in earlier if state.stage == "published")


def _earlier_lines(earlier: tuple[str, ...]) -> Iterator[str]:
    if earlier:
        named = ", ".join(f"'{name}'" for name in earlier)
        yield f"This request was answered before, by {named}. Another answer has noise of its own and is charged again."


def _put(path: Path, text: str) -> bool:
    """Write the specification of an answer, and return whether it is new; the same one from before stays.

    Raises:
        InputRefused: something else is there, or it can't be written.
    """
    from ..release_paths import write_new

    if path.is_file() and not path.is_symlink() and path.read_bytes() == text.encode():
        return False
    write_new(path, text)
    return True


def _require_approval(file: Path, *, yes: bool) -> None:
    """Ask for an approval, unless it was given.

    Raises:
        InputRefused: it isn't given, or there is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputRefused(
            "an answer needs an approval, and there is no terminal to ask on.",
            where=str(file),
            remedy="Look at it with --dry-run; approve it with --yes.",
        )
    if not click.confirm("Charge it, and answer?", err=True):
        raise InputRefused("the request was not approved.", where=str(file))
