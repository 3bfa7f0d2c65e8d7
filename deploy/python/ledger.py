"""The ledger, budgets, looks and series from Python: what `crowdblend ledger`, `dataset`, `series` and `abandon` do."""

from __future__ import annotations

import getpass
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.table import Table

from ...accounting.kernel.ledger.entries import RECORD, DatasetUnit, FilterAccounting
from ...accounting.kernel.ledger.ledger_state import is_exclusive
from ...accounting.kernel.prices.registry import kind_of
from ...accounting.ledger.charge_request import RECORDS, SeriesRegistration
from ...accounting.ledger.creation import create_ledger, ledger_exists
from ...accounting.ledger.ledger_writer import dataset_entry, open_writer
from ...accounting.ledger.lookup import DatasetState, SeriesState
from ...flows.paths import StatePaths, reader_of, resolve_paths
from ...flows.unfinished import abandon_release
from ...mechanisms.kernel.amounts import amount_shown, counted
from ...mechanisms.kernel.errors import InputRefused, Refusal, ReleaseFailed
from ...mechanisms.kernel.mechanism import ADD_REMOVE, Mechanism, Relation
from ...mechanisms.wording import Number, exact_number, share_shown
from ..terminal.tables import FactTable

if TYPE_CHECKING:
    from ...accounting.ledger.reader import LedgerReader
    from ...accounting.ledger.witnessed import WitnessCheck

__all__ = ["LedgerView", "abandon", "add_dataset", "add_series", "ledger", "raise_budget", "record_look", "series"]

Accounting = Literal["additive", "filter"]
NO_ANCHOR = "truncation, an older copy put back, and a chain written anew as a whole: that takes --anchor FILE."
NO_WITNESS = "a ledger that was written anew together with its private store: that takes witnesses, and none are named."


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerView:
    """The data sets of a ledger when it was asked.

    Args:
        datasets: each with its account.
        findings: what `crowdblend ledger verify` found, one sentence each; empty where all holds.
    """

    datasets: tuple[DatasetState, ...]
    findings: tuple[str, ...]

    def __repr__(self) -> str:
        """Return how many data sets, and whether the ledger holds."""
        return f"LedgerView(datasets={len(self.datasets)}, findings={len(self.findings)})"

    @property
    def table(self) -> FactTable:
        """What is spent of each budget."""
        rows = tuple((state.name, *_spent(state)) for state in self.datasets)
        state = "it holds" if not self.findings else f"{counted(len(self.findings), 'finding')}: it does not hold"
        return FactTable(title=f"Ledger ({state})", headers=("data set", "ε spent", "δ spent"), rows=rows)

    def __rich__(self) -> Table:
        """Return the table for a terminal."""
        return self.table.__rich__()

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return self.table._repr_html_()


def _spent(state: DatasetState) -> tuple[str, str]:
    """Return what is spent of the budget's ε and δ; a filter's is spent by one share."""
    account, registered = state.account, state.filter_budget
    if registered is not None:
        share = share_shown(account.spent_share)
        return (
            f"{share} of a filter's {amount_shown(registered.epsilon)}",
            f"{share} of {amount_shown(registered.delta)}",
        )
    return (
        f"{amount_shown(account.epsilon_spent)} of {amount_shown(account.epsilon_budget)}",
        f"{amount_shown(account.delta_spent)} of {amount_shown(account.delta_budget)}",
    )


def ledger(*, ledger_url: str | None = None) -> LedgerView:
    """Look at a ledger and verify it, as `crowdblend ledger verify` does with the private store's own anchor.

    Args:
        ledger_url: its SQLAlchemy URL; None takes CROWDBLEND_LEDGER, crowdblend.toml or the default.

    Raises:
        InputRefused: there is no ledger, or it or its anchor can't be read.
    """
    places = resolve_paths(ledger_url=ledger_url)
    with reader_of(places) as reader:
        datasets = tuple(reader.datasets())
    return LedgerView(datasets=datasets, findings=check_ledger(places).findings)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedLedger:
    """What was found of a ledger.

    Args:
        findings: what does not hold, one sentence each; empty where all does.
        unchecked: what was not checked, one sentence each.
        witnessed: what the witnesses have seen; None where none are named.
    """

    findings: tuple[str, ...]
    unchecked: tuple[str, ...]
    witnessed: WitnessCheck | None


def check_ledger(
    state_paths: StatePaths,
    *,
    anchor_file: Path | None = None,
    public_key: Path | None = None,
    witnesses: Path | None = None,
    checkpoint: Path | None = None,
) -> CheckedLedger:
    """Check the chain, every price, the single use of samples and the accounts; anchor and witnesses where there are.

    Args:
        state_paths: where the ledger and the private store lie.
        anchor_file: a copy of the anchor; None takes this store's, where it has one.
        public_key: PEM file of the keys that may have signed the anchor; None takes this store's.
        witnesses: file of those that count; None takes the one beside the anchor, where it is there.
        checkpoint: that they cosigned; None takes the one beside the anchor.

    Raises:
        InputRefused: there is no ledger, or one of these can't be read.
    """
    from ...accounting.keys.signing_upkeep import read_public_keys

    with reader_of(state_paths) as reader:
        missing: tuple[str, ...] = ()
        if anchor_file is None:
            anchor_file = _own_anchor(reader, state_paths)
            missing = () if anchor_file is None else _missing_beside(anchor_file)
        if public_key is not None and anchor_file is None:
            raise InputRefused(
                "a public key checks an anchor, and this private store has none of this ledger.",
                where="--public-key",
                remedy="Name it with --anchor FILE.",
            )
        trusted = read_public_keys(public_key) if public_key else state_paths.anchoring.keys.public_keys()
        findings, unchecked = [str(finding) for finding in reader.verify()], [NO_ANCHOR]
        if anchor_file is not None and (not missing or os.path.lexists(anchor_file)):
            against = reader.verify_anchor(anchor_file, trusted=trusted)
            findings += against.findings
            unchecked = list(against.unchecked)
        seen = _witnessed(reader, state_paths, anchor_file, witnesses, checkpoint, public_key)
    findings += [*missing, *(seen.findings if seen else ())]
    unchecked += seen.unchecked if seen else [NO_WITNESS]
    return CheckedLedger(findings=tuple(findings), unchecked=tuple(unchecked), witnessed=seen)


def _own_anchor(reader: LedgerReader, state_paths: StatePaths) -> Path | None:
    """The anchor that this private store has of a ledger; None where it never had one, or the ledger can't say its id.

    A checkpoint or a list of witnesses tells that it had one: who deletes the anchor must not turn its check off.
    """
    try:
        path = state_paths.anchoring.anchor_of(reader.ledger_id).path
    except ReleaseFailed:
        return None
    beside = (path, path.with_suffix(".checkpoint"), path.with_suffix(".witnesses"))
    return path if any(os.path.lexists(file) for file in beside) else None


def _missing_beside(anchor: Path) -> tuple[str, ...]:
    """What is gone of an anchor, its last checkpoint and the list of witnesses, though another one lies there."""
    findings = []
    if not os.path.lexists(anchor):
        findings.append(f"the anchor is missing, though what witnesses it had lies beside its place: {anchor}")
    witnesses, checkpoint = anchor.with_suffix(".witnesses"), anchor.with_suffix(".checkpoint")
    if os.path.lexists(checkpoint) and not os.path.lexists(witnesses):
        findings.append(f"the list of witnesses is missing, though a checkpoint lies beside its place: {witnesses}")
    return tuple(findings)


def _witnessed(
    reader: LedgerReader,
    state_paths: StatePaths,
    anchor_file: Path | None,
    witnesses: Path | None,
    checkpoint: Path | None,
    public_key: Path | None,
) -> WitnessCheck | None:
    """Return what the witnesses have seen of a ledger; None where none are named."""
    beside = None if anchor_file is None else anchor_file.with_suffix(".witnesses")
    if witnesses is None and (beside is None or not beside.exists()):
        if checkpoint is not None:
            raise InputRefused("a checkpoint is checked by its witnesses, and none are named.", where="--checkpoint")
        return None
    from ...accounting.keys.signing_upkeep import read_public_keys
    from ...accounting.ledger.witnessed import policy_of_file

    file = witnesses or beside
    if checkpoint is None and anchor_file is not None:
        checkpoint = anchor_file.with_suffix(".checkpoint")
    if file is None or checkpoint is None:
        raise InputRefused(
            "this ledger has no anchor, and so no place for a checkpoint beside it.",
            where="--witnesses",
            remedy="Name --checkpoint FILE.",
        )
    trusted = read_public_keys(public_key) if public_key else state_paths.anchoring.keys.public_keys()
    return reader.verify_witnessed(checkpoint, policy=policy_of_file(file), trusted=trusted)


def add_dataset(
    name: str,
    *,
    epsilon: Number,
    delta: Number,
    survey_rate: Number | None = None,
    rows_per_person: int = 1,
    relation: Relation = ADD_REMOVE,
    accounting: Accounting = "additive",
    expect: Sequence[str] = (),
    unit: str = RECORD,
    ledger_url: str | None = None,
    home: Path | None = None,
) -> DatasetState:
    """Give a data set its budget, for its whole life; creates the ledger and the signing key where there are none.

    A second ledger is a second budget: name the one that there is.

    Args:
        name: of the data set.
        epsilon: the budget of ε.
        delta: the budget of δ, from 0 to below 1.
        survey_rate: an upper bound of the rate at which any record was sampled, where the data set is itself a sample;
            it can then be released once.
        rows_per_person: the most records that one person has in a delivery.
        relation: "add/remove" hides a person's presence, "replacement" a person's values.
        accounting: "additive" adds up ε and δ; "filter" adds up Rényi divergences of one order, which lets many
            releases be decided one after the other for little more than a series. It can't be changed later.
        expect: releases that a filter budget is expected to pay, such as "12 x k=20,rate=0.1": its order and its share
            of δ for tails are chosen for them, and fixed. Others may be made as well.
        unit: whose presence all its releases hide: "person:COLUMN" or "household:COLUMN" as their `[data]` names it,
            or "record" where none names a column. It can't be changed later.
        ledger_url: the ledger's SQLAlchemy URL; None takes CROWDBLEND_LEDGER, crowdblend.toml or the default.
        home: the private store; None takes CROWDBLEND_HOME, crowdblend.toml or the default.

    Returns:
        The data set as the ledger has it.

    Raises:
        InputRefused: the name exists, a value is out of range, or what is expected doesn't fit.
    """
    from ...accounting.keys.signing_upkeep import create_where_none

    places = resolve_paths(ledger_url=ledger_url, home=home)
    budget = _budget(epsilon, delta)
    sampled = relation == ADD_REMOVE and rows_per_person == 1
    proposed = _accounting(
        budget, accounting=accounting, expect=expect, survey=survey_rate is not None, pays_sampled=sampled
    )
    fixed_unit = _unit(unit)
    rate = None if survey_rate is None else exact_number("survey_rate", survey_rate)
    added = dataset_entry(  # before anything is created: what it refuses leaves nothing behind
        name=name,
        epsilon=budget[0],
        delta=budget[1],
        relation=relation,
        survey_rate=rate,
        rows_per_person=rows_per_person,
        by=getpass.getuser(),
        day=_today(),
        accounting=proposed,
        unit=fixed_unit,
    )
    created = not ledger_exists(places.ledger_url)
    create_where_none(places.anchoring.keys, secrets.token_bytes)
    if created:
        create_ledger(places.ledger_url, anchoring=places.anchoring)
    with (
        _failing_after("The ledger is created, and the data set isn't in it.", so=created),
        open_writer(places.ledger_url, anchoring=places.anchoring) as writer,
    ):
        writer.add_dataset(added)
    with _failing_after("The data set is in the ledger."):
        return _dataset(places, name)


@contextmanager
def _failing_after(done: str, *, so: bool = True) -> Iterator[None]:
    """Turn a refusal into a failure where something is done already: a refusal would say that nothing is.

    Args:
        done: what is done, as a sentence.
        so: whether it is.

    Raises:
        ReleaseFailed: something is done, and the rest was refused.
    """
    try:
        yield
    except Refusal as refusal:
        if not so or isinstance(refusal, ReleaseFailed):
            raise
        raise ReleaseFailed(refusal.what, where=refusal.where, not_done=done, remedy=refusal.remedy) from None


def _unit(text: str) -> DatasetUnit:
    try:
        return DatasetUnit.of_text(text)
    except ValueError as error:
        raise InputRefused(
            f"{error}.", where="unit", remedy="Write person:COLUMN, household:COLUMN or record."
        ) from None


def raise_budget(
    name: str,
    *,
    epsilon: Number,
    delta: Number,
    reason: str,
    ledger_url: str | None = None,
    home: Path | None = None,
) -> DatasetState:
    """Raise a data set's budget; who, when and why are recorded.

    Args:
        name: of the data set.
        epsilon: the new budget of ε, not the difference.
        delta: the new budget of δ.
        reason: why, in one line; it is recorded for ever.
        ledger_url: the ledger's SQLAlchemy URL; None takes CROWDBLEND_LEDGER, crowdblend.toml or the default.
        home: the private store; None takes CROWDBLEND_HOME, crowdblend.toml or the default.

    Returns:
        The data set as the ledger has it.

    Raises:
        InputRefused: unknown data set, a value out of range, or a budget that is not larger.
    """
    places = resolve_paths(ledger_url=ledger_url, home=home)
    budget = _budget(epsilon, delta)
    with open_writer(places.ledger_url, anchoring=places.anchoring) as writer:
        writer.raise_budget(
            name=name, epsilon=budget[0], delta=budget[1], reason=reason, by=getpass.getuser(), day=_today()
        )
    with _failing_after("The budget is raised."):
        return _dataset(places, name)


def record_look(
    name: str, *, what: str, by: str | None = None, ledger_url: str | None = None, home: Path | None = None
) -> None:
    """Record a private look at a data set's records; certificates of later releases will say that there was one.

    Args:
        name: of the data set.
        what: what was looked at, in one line, without any value of the records.
        by: who looked; None is the account that runs this.
        ledger_url: the ledger's SQLAlchemy URL; None takes CROWDBLEND_LEDGER, crowdblend.toml or the default.
        home: the private store; None takes CROWDBLEND_HOME, crowdblend.toml or the default.

    Raises:
        InputRefused: unknown data set, or a value that the ledger can't hold.
    """
    places = resolve_paths(ledger_url=ledger_url, home=home)
    with open_writer(places.ledger_url, anchoring=places.anchoring) as writer:
        writer.record_look(dataset=name, what=what, by=by or getpass.getuser(), day=_today())


def add_series(
    name: str,
    spec: Path | str | None = None,
    *,
    releases: int | None = None,
    free_columns: bool = False,
    parts: Sequence[str] = (),
    dataset: str | None = None,
    delta: Number | None = None,
    ledger_url: str | None = None,
    home: Path | None = None,
) -> SeriesState:
    """Register a series and charge it whole; its δ is for all its releases together.

    It is of one mechanism, that of a specification; or of different ones, named by `parts`, `dataset` and `delta`.

    Args:
        name: of the series.
        spec: the specification's file; only name, source, format and output may change from release to release.
        releases: how many of it, at least 1.
        parts: how many releases of which mechanism, each as "12 x k=20,rate=0.1" or, of answers, "24 x epsilon=0.05".
        dataset: whose budget pays for the parts.
        delta: of all parts together.
        free_columns: whether each release has columns, hierarchies and levels of its own, and may have a higher k or a
            lower rate.
        ledger_url: the ledger's SQLAlchemy URL; None takes CROWDBLEND_LEDGER, crowdblend.toml or the default.
        home: the private store; None takes CROWDBLEND_HOME, crowdblend.toml or the default.

    Returns:
        The series as the ledger has it.

    Raises:
        InputRefused: the specification is wrong, the data set is unknown, or there is a series of this name.
        AccountantRefused: the budget doesn't allow it.
    """
    from ...flows.spec import read_spec  # it loads every kind of specification

    if resolve_paths(ledger_url=ledger_url, home=home).approvers is not None:
        raise InputRefused(
            "a series is charged whole before any of its releases is approved, and releases need an approval here.",
            where="approvers",
            remedy="Charge each release for itself, once it is approved.",
        )
    if parts or spec is None or releases is None:
        if not parts or dataset is None or delta is None or spec is not None or releases is not None or free_columns:
            raise InputRefused(
                "a series is of one specification with its number of releases, or of parts with a data set and δ.",
                where="series",
                remedy='crowdblend series add NAME SPEC --releases T; or --part "12 x k=20,rate=0.1" --part … '
                "--dataset NAME --delta D, whose columns are free.",
            )
        places = resolve_paths(ledger_url=ledger_url, home=home)
        return _add_mixed(name, parts, dataset=dataset, delta=exact_number("delta", delta), places=places)
    if releases < 1:
        raise InputRefused("a series has at least 1 release.", where="releases")
    path = Path(spec)
    request = read_spec(path, output=path.parent, releases=releases)  # the releases have outputs, the series none
    if free_columns:
        request = replace(request, registered=request.mechanism)
    return _register(
        SeriesRegistration(
            series=name,
            dataset=request.dataset,
            mechanism=request.mechanism,
            price=request.price,
            epsilon_paper=None if request.paper_price is None else request.paper_price.epsilon,
            spec_digest=request.series_digest,
            map_digest=request.map_digest,
            day=_today(),
            free_columns=free_columns,
            unit=request.unit,
        ),
        resolve_paths(ledger_url=ledger_url, home=home),
    )


def _add_mixed(name: str, parts: Sequence[str], *, dataset: str, delta: Decimal, places: StatePaths) -> SeriesState:
    from ...accounting.kernel.prices.registry import price
    from ...mechanisms.kinds.mixed_series import series_of_parts
    from ...tasks.request import digest_of_mixed

    mixed = series_of_parts(parts)
    if len(mixed.each) == 1 and not isinstance(mixed.each[0].measure, Decimal):
        raise InputRefused(
            "equal releases cost less as a series of one mechanism.",
            where="--part",
            remedy=f"crowdblend series add {name} SPEC --releases {mixed.releases} --free-columns.",
        )
    known = _dataset(places, dataset)
    digest = digest_of_mixed(mixed, dataset=dataset, delta=delta, unit=known.unit)
    costs = price(mixed, delta=delta, releases=mixed.releases, rows_per_person=known.rows_per_person)
    return _register(
        SeriesRegistration(
            series=name,
            dataset=dataset,
            mechanism=mixed,
            price=costs,
            epsilon_paper=None,
            spec_digest=digest,
            map_digest=digest,
            day=_today(),
            free_columns=True,
            unit=known.unit,
        ),
        places,
    )


def _register(registration: SeriesRegistration, places: StatePaths) -> SeriesState:
    """Register a series, unless its price or another series' would be lost, and return it."""
    _require_both_released(registration, places)
    with open_writer(places.ledger_url, anchoring=places.anchoring) as writer:
        writer.register_series(registration)
    return _series(places, registration.series)


def _require_both_released(new: SeriesRegistration, places: StatePaths) -> None:
    """Refuse a series beside another one of its data set, where a release of one leaves none to the other.

    A series is charged whole when it is registered, so that the price of one of them would be lost.
    """
    with reader_of(places) as reader:
        survey = reader.dataset(new.dataset).survey
        alone = survey or kind_of(new.mechanism).exclusive
        others = [
            known.registered.series
            for known in reader.all_series()
            if known.registered.dataset == new.dataset and (alone or is_exclusive(known.registered.mechanism))
        ]
        if not others or new.series in others:
            return
        # What the ledger's rules have against it, such as a release that is there, they refuse, and it is recorded.
        unit = new.unit or RECORDS
        broken = reader.check_charge(dataset=new.dataset, mechanism=new.mechanism, price=new.price, unit=unit)
        if broken is not None:
            return
    why = (
        f"data set '{new.dataset}' is itself a sample and can be released once"
        if survey
        else "the price of outcome counts holds only while nothing else is published of their reports"
    )
    raise InputRefused(
        f"{why}, and series '{others[0]}' has paid for a release already: one of both prices would be lost.",
        where=f"series '{new.series}'",
        remedy=f"Run the release that is paid for: crowdblend run SPEC --series {others[0]}",
    )


def series(*, ledger_url: str | None = None) -> tuple[SeriesState, ...]:
    """Return all series of a ledger with what remains of each, in the order of their registration.

    Args:
        ledger_url: the ledger's SQLAlchemy URL; None takes CROWDBLEND_LEDGER, crowdblend.toml or the default.

    Raises:
        InputRefused: there is no ledger, or it can't be read.
    """
    with reader_of(resolve_paths(ledger_url=ledger_url)) as reader:
        return reader.all_series()


def abandon(release_id: str, *, reason: str, ledger_url: str | None = None, home: Path | None = None) -> bool:
    """Give up a release that was charged and can't be finished.

    Args:
        release_id: the release.
        reason: why, in one line; it is recorded for ever.
        ledger_url: the ledger's SQLAlchemy URL; None takes CROWDBLEND_LEDGER, crowdblend.toml or the default.
        home: the private store; None takes CROWDBLEND_HOME, crowdblend.toml or the default.

    Returns:
        Whether its cost was given back: only where no record was read.

    Raises:
        InputRefused: the ledger has no such release.
        AccountantRefused: it is held by a live process, published, or abandoned already.
    """
    return abandon_release(release_id, reason=reason, state_paths=resolve_paths(ledger_url=ledger_url, home=home))


def _budget(epsilon: Number, delta: Number) -> tuple[Decimal, Decimal]:
    return exact_number("epsilon", epsilon), exact_number("delta", delta)


def _accounting(
    budget: tuple[Decimal, Decimal], *, accounting: Accounting, expect: Sequence[str], survey: bool, pays_sampled: bool
) -> FilterAccounting | None:
    """Return how a new budget is accounted; None where prices are added up.

    Args:
        budget: ε and δ.
        accounting: as asked for.
        expect: as asked for.
        survey: whether the data set is itself a sample.
        pays_sampled: whether sampled releases have a divergence in it.
    """
    if accounting == "additive":
        if expect:
            raise InputRefused(
                "expected releases choose the order of a filter budget, and this budget adds prices up.",
                where="--expect",
                remedy="Give --accounting filter as well, or leave --expect out.",
            )
        return None
    if accounting != "filter":
        raise InputRefused(f"the accounting is additive or filter, not {accounting!r}.", where="accounting")
    if survey:
        raise InputRefused(
            "a data set that is itself a sample can be released once, so a filter budget has nothing to add up.",
            where="--accounting",
            remedy="Leave --accounting out.",
        )
    from ...accounting.ledger.filter_accounting import propose_accounting  # numerics that other budgets do without
    from ...accounting.theory.planning.filter_terms import EXPECTED

    expected = tuple(_expected(expect))
    if not pays_sampled and any(not kind_of(mechanism).pure for mechanism, _ in expected or EXPECTED):
        raise InputRefused(
            "a filter budget pays for no sampled releases where a person may have several records, or where prices "
            "hold by replacement; they are expected here" + ("." if expected else ", since nothing else is said."),
            where="--expect",
            remedy='Expect what it can pay for, such as --expect "24 x epsilon=0.05", or leave --accounting out.',
        )
    return propose_accounting(epsilon=budget[0], delta=budget[1], expected=expected)


def _expected(texts: Sequence[str]) -> Iterator[tuple[Mechanism, int]]:
    """Mechanisms and how many releases of each are expected; commas stand between several in one text."""
    from ...mechanisms.kinds.answers import CountAnswer
    from ...mechanisms.kinds.mixed_series import series_part

    parts = (part for text in texts for part in re.split(r",(?=\s*[0-9]+\s*x\s)", text))
    for number, text in enumerate(parts, start=1):
        try:
            part = series_part(text)
        except ValueError as error:
            raise InputRefused(
                f"{error}.",
                where=f"--expect, release {number}",
                remedy="Write for example: 12 x k=20,rate=0.1, 24 x epsilon=0.05.",
            ) from None
        if isinstance(part.measure, Decimal):  # anything whose price has no δ
            yield CountAnswer(epsilon=part.measure, relation=ADD_REMOVE, groups=1, sampling_rate=None), part.releases
        else:
            yield part.measure, part.releases


def _series(places: StatePaths, name: str) -> SeriesState:
    """Return a series that was just registered."""
    with _failing_after("The series is registered and charged."), reader_of(places) as reader:
        return reader.series(name)


def _dataset(places: StatePaths, name: str) -> DatasetState:
    with reader_of(places) as reader:
        return reader.dataset(name)


def _today() -> date:
    return datetime.now(UTC).date()
