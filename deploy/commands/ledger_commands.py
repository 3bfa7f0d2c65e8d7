"""`crowdblend dataset` and `ledger`: budgets, what was spent, whether it all holds, and its tables' owner."""

from __future__ import annotations

import json
import secrets
import sys
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...flows.paths import StatePaths, reader_of, resolve_paths
from ...mechanisms.kernel.errors import InputRefused, one_line
from ...mechanisms.kernel.mechanism import ADD_REMOVE, MOST_RECORDS, REPLACEMENT
from .options import AS_JSON, FILE, LEDGER, RELEASE_CERTIFICATE, CommandGroup, ExactNumber

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ..schemas.outputs import LedgerShown, LedgerVerified


LARGEST_PROOF = 1 << 24  # bytes
NO_ESTIMATE = "not computed (too many releases, or no composed price; --all tries harder)"
POLICY = "File of the witnesses that count, as c2sp.org/tlog-policy has it."
WITNESSES = click.option("--witnesses", type=FILE, help=f"{POLICY} Default: the one beside the anchor, if it is there.")
CHECKPOINT = click.option(
    "--checkpoint", type=FILE, help="The witnessed checkpoint. Default: the one beside the anchor."
)


@click.group(cls=CommandGroup)
def dataset() -> None:
    """Data sets and their budgets."""


@dataset.command("add")
@click.argument("name")
@click.option("--epsilon", type=ExactNumber(), required=True, help="Budget of ε, for the data set's whole life.")
@click.option("--delta", type=ExactNumber(), required=True, help="Budget of δ.")
@click.option(
    "--survey-rate",
    type=ExactNumber(),
    help="The data set is itself a sample, of people with one record each, and this is an upper bound of the rate at "
    "which any record was sampled: it can be released once.",
)
@click.option(
    "--rows-per-person",
    type=click.IntRange(min=1, max=MOST_RECORDS),
    default=1,
    show_default=True,
    help="The most records that one person has in a delivery, all files of one release's source together; more than "
    "one costs more.",
)
@click.option(
    "--relation",
    type=click.Choice([ADD_REMOVE, REPLACEMENT]),
    default=ADD_REMOVE,
    show_default=True,
    help="What is hidden: a person's presence, or a person's values where the number of people is public.",
)
@click.option(
    "--accounting",
    type=click.Choice(["additive", "filter"]),
    default="additive",
    show_default=True,
    help="Whether prices are added up, or Rényi divergences of one order: a filter pays for many releases that are "
    "decided one after the other. It can be neither changed nor raised later.",
)
@click.option(
    "--expect",
    "expect",
    multiple=True,
    metavar="RELEASES",
    help='Releases that a filter budget is expected to pay, such as "12 x k=20,rate=0.1" or "24 x epsilon=0.05"; may '
    "be repeated. Its order and its share of δ for tails are chosen for them; other releases may follow all the same.",
)
@click.option(
    "--unit",
    default="record",
    show_default=True,
    metavar="UNIT",
    help="Whose presence all its releases hide: person:COLUMN or household:COLUMN where [data] names that column, "
    "record where no column limits the records. It can't be changed later.",
)
@LEDGER
def add(
    name: str,
    epsilon: Decimal,
    delta: Decimal,
    survey_rate: Decimal | None,
    rows_per_person: int,
    relation: str,
    accounting: str,
    expect: tuple[str, ...],
    unit: str,
    ledger_url: str | None,
) -> None:
    """Give a data set its budget; creates the SQLite ledger and the signing key where there are none."""
    from ...accounting.kernel.prices.mechanism_kind import no_price_for_surveyed_group
    from ...accounting.ledger.creation import ledger_exists
    from ...mechanisms.kernel.amounts import amount_exact
    from ...mechanisms.wording import amount_left
    from ..python import ledger as ledger_api

    state_paths = resolve_paths(ledger_url=ledger_url)
    _require_budget(epsilon, delta)
    if survey_rate is not None and rows_per_person > 1:  # also the writer's rule; here before a ledger is created
        raise no_price_for_surveyed_group(rows_per_person, where=f"dataset '{name}'")
    if not ledger_exists(state_paths.ledger_url):
        _warn_of_second_ledger(state_paths)
    state = ledger_api.add_dataset(
        name,
        epsilon=epsilon,
        delta=delta,
        survey_rate=survey_rate,
        rows_per_person=rows_per_person,
        relation=REPLACEMENT if relation == REPLACEMENT else ADD_REMOVE,
        accounting="filter" if accounting == "filter" else "additive",
        expect=expect,
        unit=unit,
        ledger_url=ledger_url,
    )
    several = "" if rows_per_person == 1 else f", for people with up to {rows_per_person} records each"
    click.echo(f"Data set '{name}' has the budget ε = {amount_exact(epsilon)}, δ = {amount_exact(delta)}{several}.")
    if state.unit is not None and state.unit.column is not None:
        click.echo(f"All its releases limit each {state.unit.name}'s records by the column {state.unit.column!r}.")
    if state.filter_budget is not None:
        terms = state.filter_budget.accounting
        click.echo(
            f"It is a filter's: each release takes its divergence of order {terms.order:f}, of "
            f"{amount_left(terms.allowance)} in all, and tails of {amount_left(terms.tail_delta)} of δ in all. Neither "
            "can be changed."
        )


@dataset.command("looked")
@click.argument("name")
@click.option("--what", required=True, help="What was looked at, in one line, without any value of the records.")
@click.option("--by", help="Who looked; default: the account that runs this.")
@LEDGER
def looked(name: str, what: str, by: str | None, ledger_url: str | None) -> None:
    """Record a private look at a data set's records; certificates of later releases will say that there was one."""
    from ..python.ledger import record_look

    record_look(name, what=what, by=by, ledger_url=ledger_url)
    click.echo(
        f"The look at '{name}' is recorded. Certificates of its later releases will say that parameters may have been "
        "chosen after it, which their guarantee doesn't cover."
    )


@dataset.command("raise")
@click.argument("name")
@click.option("--epsilon", type=ExactNumber(), required=True, help="The new budget of ε, not the difference.")
@click.option("--delta", type=ExactNumber(), required=True, help="The new budget of δ.")
@click.option("--reason", required=True, help="Why, in one line; it is recorded for ever.")
@LEDGER
def raise_budget(name: str, epsilon: Decimal, delta: Decimal, reason: str, ledger_url: str | None) -> None:
    """Raise a data set's budget; who, when and why are recorded."""
    from ...mechanisms.kernel.amounts import amount_exact
    from ..python import ledger as ledger_api

    _require_budget(epsilon, delta)
    ledger_api.raise_budget(name, epsilon=epsilon, delta=delta, reason=reason, ledger_url=ledger_url)
    click.echo(f"Data set '{name}' now has the budget ε = {amount_exact(epsilon)}, δ = {amount_exact(delta)}.")


@dataset.command("list")
@LEDGER
@AS_JSON
def list_datasets(ledger_url: str | None, as_json: bool) -> None:
    """List the data sets with what is spent and what is left."""
    from ..terminal.tables import dataset_rows, print_datasets

    with reader_of(resolve_paths(ledger_url=ledger_url)) as reader:
        datasets = dataset_rows(reader.datasets(), raises=reader.budget_raises())
    if as_json:
        click.echo(json.dumps({"datasets": datasets}, ensure_ascii=False))
    else:
        print_datasets(datasets)


@click.group(cls=CommandGroup)
def ledger() -> None:
    """The ledger: what was spent, on what, and whether it holds together."""


@ledger.command("init")
@LEDGER
def init(ledger_url: str | None) -> None:
    """Create an empty ledger, and the signing key where there is none."""
    from ...accounting.keys.signing_upkeep import create_where_none
    from ...accounting.ledger.creation import create_ledger

    state_paths = resolve_paths(ledger_url=ledger_url)
    create_where_none(state_paths.anchoring.keys, secrets.token_bytes)
    create_ledger(state_paths.ledger_url, anchoring=state_paths.anchoring)
    click.echo("The ledger is ready. Give a data set its budget with: crowdblend dataset add")


@ledger.command("anchor")
@LEDGER
@WITNESSES
@CHECKPOINT
def anchor(ledger_url: str | None, witnesses: Path | None, checkpoint: Path | None) -> None:
    """Have the ledger's present head witnessed; begin an anchor there where it has none.

    What came before the beginning of an anchor nobody vouches for. Without witnesses there is nothing to do where there
    is an anchor: each entry is anchored when it is written.
    """
    from ...accounting.ledger.creation import begin_anchor

    state_paths = resolve_paths(ledger_url=ledger_url)
    with reader_of(state_paths) as reader:
        ledger_id = reader.ledger_id
    file = state_paths.anchoring.anchor_of(ledger_id).path
    named = witnesses or file.with_suffix(".witnesses")
    asked = witnesses is not None or named.exists()
    last = state_paths.anchoring.last_of(ledger_id)
    if not asked and last is not None:
        with reader_of(state_paths) as reader:
            reader.require_anchored(state_paths.anchoring)
        click.echo(
            f"Nothing is to be done: the ledger continues its anchor, which goes to entry {last.head.position}, and "
            "each entry is anchored when it is written. No witness is named yet, and naming one is the steward's: "
            "crowdblend witness add KEY URL"
        )
        return
    if last is None:
        head = begin_anchor(state_paths.ledger_url, anchoring=state_paths.anchoring)
        click.echo(f"The anchor begins at entry {head.position}: {file}")
    if not asked:
        return
    from ...accounting.ledger.witnessed import witness_head

    kept = checkpoint or file.with_suffix(".checkpoint")
    done = witness_head(state_paths.ledger_url, anchoring=state_paths.anchoring, policy_file=named, checkpoint=kept)
    for fault in done.unchecked:
        click.echo(f"crowdblend: {fault}", err=True)
    click.echo(f"{_witnessed_text(done.size, done.cosigners)} {kept}")


@ledger.command("key")
@LEDGER
def key(ledger_url: str | None) -> None:
    """Print the verifier key of the ledger's checkpoints, for its witnesses and auditors."""
    from ...accounting.ledger.witnessed import log_key

    state_paths = resolve_paths(ledger_url=ledger_url)
    with reader_of(state_paths) as reader:
        ledger_id = reader.ledger_id
    click.echo(log_key(ledger_id, state_paths.anchoring.keys.current().public).text)


@ledger.command("prove")
@LEDGER
@click.option("--since", type=FILE, help="An earlier checkpoint of the ledger: prove that nothing in it was changed.")
@click.option("--entry", type=click.IntRange(min=0), help="Position of an entry: prove that it is in the ledger.")
@click.option("--certificate", type=RELEASE_CERTIFICATE, help="A release: prove that its charge is in the ledger.")
@CHECKPOINT
@click.option("--output", type=FILE, required=True, help="The file to write; it must not be there.")
def prove(
    ledger_url: str | None,
    since: Path | None,
    entry: int | None,
    certificate: Path | None,
    checkpoint: Path | None,
    output: Path,
) -> None:
    """Write a proof of some hundred bytes to a file, which `ledger check` checks without the ledger."""
    from ...accounting.ledger.witnessed import prove_entry, prove_since
    from ..release_paths import require_elsewhere

    require_elsewhere(output)
    if [since, entry, certificate].count(None) != 2:
        raise InputRefused("a proof is --since an earlier checkpoint, of one --entry or of a --certificate.", where="")
    if certificate is not None:
        entry = _charge_of(certificate)["ledger"]["position"]
    state_paths = resolve_paths(ledger_url=ledger_url)
    if checkpoint is None:
        with reader_of(state_paths) as reader:
            checkpoint = state_paths.anchoring.anchor_of(reader.ledger_id).path.with_suffix(".checkpoint")
    if entry is not None:
        content = prove_entry(state_paths.ledger_url, position=entry, head=checkpoint)
    elif since is not None:
        content = prove_since(state_paths.ledger_url, since=since, head=checkpoint)
    try:
        with output.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise InputRefused(f"the proof can't be written ({error.strerror}).", where=str(output)) from None
    click.echo(f"Wrote {len(content)} bytes: {output}")


@ledger.command("check")
@click.argument("proof", type=FILE)
@click.option("--witnesses", type=FILE, required=True, help=f"{POLICY} Its log lines are the ledger's keys.")
@click.option("--public-key", type=FILE, help="PEM file of the ledger's keys, where the policy has no log line.")
@click.option("--since", type=FILE, help="The earlier checkpoint, as it was kept, that the proof begins with.")
@click.option("--certificate", type=RELEASE_CERTIFICATE, help="A release: its charge is the entry of the proof.")
def check(proof: Path, witnesses: Path, public_key: Path | None, since: Path | None, certificate: Path | None) -> int:
    """Check a PROOF of `ledger prove` without the ledger: that it goes on, or that an entry is in it."""
    from ...accounting.certificate.write_certificate import differing_from_charge
    from ...accounting.given_files import read_given
    from ...accounting.kernel.ledger.entries import bytes_of_entry
    from ...accounting.keys.signing_upkeep import read_public_keys
    from ...accounting.ledger.witnessed import check_proof, policy_of_file

    if since is not None and certificate is not None:
        raise InputRefused("a proof is of one entry, or since an earlier checkpoint.", where="--since")

    policy = policy_of_file(witnesses)
    trusted = read_public_keys(public_key) if public_key else ()
    try:
        content = read_given(proof, most=LARGEST_PROOF)
    except OSError as error:
        raise InputRefused(f"the proof can't be read ({error.strerror}).", where=str(proof)) from None
    charge = None if certificate is None else _charge_of(certificate)
    found, shown = check_proof(content, policy=policy, trusted=trusted, since=since, certificate=charge)
    findings = list(found.findings)
    if charge is not None and shown is not None and (differing := differing_from_charge(charge, shown)):
        findings.append(f"the certificate says another thing than the ledger charged: {', '.join(differing)}")
    for finding in findings:
        click.echo(one_line(finding))
    if not findings:
        if shown is not None:
            click.echo(f"The entry: {bytes_of_entry(shown).decode('ascii')}")
        click.echo(_witnessed_text(found.size, found.cosigners))
    for what in (*found.unchecked, *(["the certificate itself: that takes `crowdblend verify`."] if charge else [])):
        click.echo(f"Not checked: {one_line(what)}")
    return 1 if findings else 0


@ledger.command("show")
@LEDGER
@click.option(
    "--latest", type=click.IntRange(min=1), default=50, show_default=True, help="Releases and series to list."
)
@click.option("--all", "everything", is_flag=True, help="List all of them, and compute every estimate.")
@AS_JSON
def show(ledger_url: str | None, latest: int, everything: bool, as_json: bool) -> None:
    """Show the data sets' budgets and the latest series and releases."""
    from ...accounting.ledger.budget_overview import ESTIMATE_NOTE
    from ...mechanisms.kernel.amounts import amount_shown, counted
    from ..terminal.tables import (
        dataset_rows,
        look_rows,
        print_datasets,
        print_looks,
        print_more,
        print_releases,
        print_series,
        release_rows,
        series_rows,
    )

    with reader_of(resolve_paths(ledger_url=ledger_url)) as reader:
        overview = reader.overview(latest=None if everything else latest)
    looks = look_rows(overview.looks)
    datasets = dataset_rows((known.state for known in overview.datasets), raises=overview.raises)
    releases = release_rows(overview.releases)
    series = series_rows(overview.series)
    estimates = [known.epsilon_estimate for known in overview.datasets]
    if as_json:
        shown: LedgerShown = {
            "datasets": [
                {**row, "epsilon_estimate": None if estimate is None else float(estimate)}
                for row, estimate in zip(datasets, estimates, strict=True)
            ],
            "series": series,
            "series_count": overview.series_count,
            "releases": releases,
            "release_counts": dict(overview.release_counts),
            "private_looks": looks,
            "chain": {"entries": overview.head.position + 1, "head": overview.head.hash},
            "epsilon_estimate_note": ESTIMATE_NOTE,
        }
        click.echo(json.dumps(shown, ensure_ascii=False))
        return
    print_datasets(datasets)
    for row, estimate in zip(datasets, estimates, strict=True):
        if row["accounting"] == "filter":
            continue  # its budget is composed itself
        shown_estimate = NO_ESTIMATE if estimate is None else amount_shown(float(estimate))
        click.echo(f"  '{row['dataset']}': composed estimate of ε: {shown_estimate}")
    click.echo(f"{ESTIMATE_NOTE}\n")
    if series:
        print_series(series)
        print_more(len(series), overview.series_count, "series")
    print_releases(releases)
    print_more(len(releases), overview.release_count, "releases")
    if looks:
        print_looks(looks)
    click.echo("Releases: " + ", ".join(f"{count} {stage}" for stage, count in overview.release_counts.items()) + ".")
    click.echo(f"{counted(overview.head.position + 1, 'entry', 'entries')}; head of the chain:\n{overview.head.hash}")


@ledger.command("verify")
@LEDGER
@click.option(
    "--anchor",
    "anchor_file",
    type=FILE,
    help="A copy of the anchor kept where writers can't reach; default: this store's anchor, where it has one.",
)
@click.option("--public-key", type=FILE, help="PEM file of the keys that may have signed it; default: this store's.")
@WITNESSES
@CHECKPOINT
@AS_JSON
def verify(
    ledger_url: str | None,
    anchor_file: Path | None,
    public_key: Path | None,
    witnesses: Path | None,
    checkpoint: Path | None,
    as_json: bool,
) -> int:
    """Check the chain, every price, the single use of samples, the accounts; anchor and witnesses where there are."""
    from ...mechanisms.kernel.amounts import counted
    from ..python.ledger import check_ledger

    found = check_ledger(
        resolve_paths(ledger_url=ledger_url),
        anchor_file=anchor_file,
        public_key=public_key,
        witnesses=witnesses,
        checkpoint=checkpoint,
    )
    findings, unchecked, seen = list(found.findings), list(found.unchecked), found.witnessed
    if as_json:
        verified: LedgerVerified = {
            "ok": not findings,
            "findings": findings,
            "unchecked": unchecked,
            "witnessed": None if seen is None else seen.size,
        }
        click.echo(json.dumps(verified, ensure_ascii=False))
        return 1 if findings else 0
    for finding in findings:
        click.echo(one_line(finding))
    number = counted(len(findings), "finding")
    click.echo(f"{number}: the ledger does not hold." if findings else "The ledger holds.")
    if seen is not None and seen.size:
        click.echo(_witnessed_text(seen.size, seen.cosigners))
    for what in unchecked:
        click.echo(f"Not checked: {one_line(what)}")
    return 1 if findings else 0


@ledger.command("export")
@LEDGER
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object, whose `entries` are these lines.")
def export(ledger_url: str | None, as_json: bool) -> None:
    """Write every entry as one line of canonical JSON with its place and hash."""
    from ...accounting.kernel.ledger.entries import bytes_of_entry

    with reader_of(resolve_paths(ledger_url=ledger_url)) as reader:
        before = '{"entries": [\n'
        for link in reader.entries():
            body = json.loads(bytes_of_entry(link.entry))
            line = json.dumps({"position": link.position, "hash": link.hash, "entry": body}, ensure_ascii=True)
            click.echo(f"{before}{line}" if as_json else line, nl=not as_json)
            before = ",\n"
        if as_json:  # a ledger has at least its first entry
            click.echo("\n]}")


def _charge_of(certificate: Path) -> Mapping[str, Any]:
    """Return the fields of a certificate that name its charge; what else it says is not checked here."""
    from ...accounting.certificate.verify import read_certificate

    fields = read_certificate(certificate)
    place = fields.get("ledger")
    if isinstance(place, dict) and type(place.get("position")) is int and place["position"] >= 0:
        return fields
    raise InputRefused("this certificate doesn't state its charge's place in the ledger.", where=str(certificate))


def _witnessed_text(size: int, cosigners: Mapping[str, datetime]) -> str:
    """Return how many entries which witnesses have seen, and when."""
    from ...mechanisms.kernel.amounts import counted

    by = ", ".join(f"{name} ({time:%Y-%m-%d %H:%M} UTC)" for name, time in cosigners.items())
    return f"Witnessed: {counted(size, 'entry', 'entries')}, by {by or 'nobody, as the policy asks for'}."


def _require_budget(epsilon: Decimal, delta: Decimal) -> None:
    if epsilon <= 0:
        raise InputRefused(f"a budget's ε must be more than 0, not {epsilon}.", where="--epsilon")
    if not 0 <= delta < 1:
        raise InputRefused(f"a budget's δ must be at least 0 and below 1, not {delta}.", where="--delta")


def _warn_of_second_ledger(state_paths: StatePaths) -> None:
    """Say, before a ledger is created, that there may be one elsewhere; ask where this private store knows of one."""
    from ...accounting.kernel.keys.private_files import require_usable
    from ...accounting.ledger.opening import locate

    _, shown = locate(state_paths.ledger_url)
    with require_usable(state_paths.home):
        others = len(list((state_paths.home / "anchors").glob("*.jsonl")))
    click.echo(
        f"crowdblend: there is no ledger at {shown} yet, so one is created. If the ledger is elsewhere, name it by "
        "--ledger, CROWDBLEND_LEDGER or crowdblend.toml: a second ledger is a second budget.",
        err=True,
    )
    if others and sys.stdin.isatty():
        click.confirm(
            f"This private store signs {others} other {'ledger' if others == 1 else 'ledgers'}. Create a new one?",
            abort=True,
            err=True,
        )


@ledger.command()
@LEDGER
@AS_JSON
def migrate(ledger_url: str | None, as_json: bool) -> None:
    """Bring an earlier version's ledger to this version's tables; its entries stay as they are.

    It is one transaction: the ledger must hold and continue its anchor, or nothing is changed. Back it up first. On
    PostgreSQL give the owner's address, and repeat `ledger roles` afterwards. In a ledger of this version, a damaged
    snapshot of the state is made again from the entries.
    """
    from ...accounting.ledger.creation import migrate_ledger

    state_paths = resolve_paths(ledger_url=ledger_url)
    done = migrate_ledger(state_paths.ledger_url, anchoring=state_paths.anchoring)
    if as_json:
        click.echo(json.dumps(asdict(done)))
    elif done.mended:
        click.echo(
            "The snapshot of the state was damaged. It was made again from the entries, and its signature holds."
        )
    elif done.before == done.after:
        click.echo(f"The ledger has schema revision {done.after} already: nothing was done.")
    else:
        click.echo(
            f"The ledger went from schema revision {done.before} to {done.after}. Its {done.entries} entries are as "
            "they were, and it verifies."
        )


@ledger.command()
@click.option("--writer", required=True, help="The role that runs releases: SELECT and INSERT.")
@click.option("--auditor", required=True, help="The role that looks: SELECT.")
@click.option("--apply", is_flag=True, help="Do it; without this the statements are only printed.")
@LEDGER
def roles(writer: str, auditor: str, apply: bool, ledger_url: str | None) -> None:
    """Limit two roles of a PostgreSQL server to what they need; the owner of the tables is a third.

    Both must exist. The database should hold the ledger alone: what everybody may do in it by default is taken away.
    """
    from ...accounting.ledger.roles import Roles, grant_roles

    try:
        wanted = Roles(writer=writer, auditor=auditor)
    except ValueError as error:
        raise InputRefused(f"{error}.", where="--writer, --auditor") from None
    state_paths = resolve_paths(ledger_url=ledger_url)
    statements = grant_roles(state_paths.ledger_url, wanted, apply=apply)
    for statement in statements:
        click.echo(f"{statement};")
    if apply:
        click.echo(f"Done: '{writer}' appends, '{auditor}' looks, and neither can do more.", err=True)
    else:
        click.echo("Nothing was changed; --apply does it.", err=True)
