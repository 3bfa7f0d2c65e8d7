"""Releases: all of them, and each with its guarantee, its theorem, and its place in the chain."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....mechanisms.deletion import DeletionRelease, deletion_variance, expected_deletion, largest_deletion
from ....mechanisms.errors import InputRefused
from ....mechanisms.mixed_series import MixedSeries
from ...ledger.certificate.write import filter_statement, guarantee_statement, limit_statements, theorem_of
from ...ledger.charge import DatasetContext
from ...ledger.entries.kinds import (
    DatasetAdded,
    FilterDatasetAdded,
    FreeSeriesRegistered,
    ReleaseCharged,
    ReleasePublished,
)
from ...ledger.entries.values import amount_text
from ...theory.kinds.registry import mechanism_of_record
from ..views.certificates import CertificateStage, MapOfColumns, columns_of, stages_of, told_of
from ..views.pictures import Curve, curve_of
from ..views.rows import ReleaseRow, amount, day_of, described, draws_sample, factor_shown, release_row, release_rows
from ..views.state import LedgerView, PageHeader, PageRequest, Stored

__all__ = ["ReleasePage", "ReleasesPage", "certificate_of", "release_page", "releases_page"]

CERTIFICATE = "certificate.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One of the mechanism's parameters.

    Args:
        name: as the ledger has it.
        value: as text.
    """

    name: str
    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One of the release's entries in the chain.

    Args:
        position: its place.
        hash: its link's hash.
        day: when, None where the entry bears no day.
        what: what it says.
    """

    position: int
    hash: str
    day: str | None
    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Deleted:
    """What a deletion release does to a group at each stage; of the mechanism alone, so it is no secret.

    Args:
        expected: records that are deleted of it in expectation.
        deviation: standard deviation of that.
        largest: the most.
    """

    expected: str
    deviation: str
    largest: int


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A published file.

    Args:
        name: of the file.
        sha256: what it must hash to.
    """

    name: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasePage:
    """A release.

    Args:
        frame: of the ledger.
        release: what its row in a table says.
        part: the part of a series of different mechanisms that paid for it, None elsewhere.
        parameters: of the mechanism.
        sampled: whether it draws a sample.
        deleted: what it deletes of a group; None for another kind of release.
        rule: the versioned rule that gave the price.
        theorem: what proves it.
        relation: the neighbouring relation.
        releases_covered: how many releases the price covers.
        guarantee: the guarantee in the certificate's words.
        bound: its two figures in a sentence.
        limits: what it does not cover, in the certificate's words.
        filter_share: what it, or its series, took of a filter budget, in the certificate's words; else empty.
        steps: its entries in the chain.
        previous: hash of the entry before its charge.
        files: what was published, none before publication.
        certificate: digest of its certificate, None before publication.
        certificate_here: whether these pages can give it out.
        columns: the generalization map by column; none where the certificate isn't here.
        stages: what each stage published, where the certificate is here and tells.
        told: how much the published records tell, where the certificate is here and tells; sentences.
        map_digest: SHA-256 (hex) of the map.
        spec_digest: SHA-256 (hex) of the specification.
        code_version: of the software.
        sampler_layout: of the coins.
        curve: the ε–δ curve of one release of this mechanism.
    """

    frame: PageHeader
    release: ReleaseRow
    part: str | None
    parameters: tuple[Parameter, ...]
    sampled: bool
    deleted: Deleted | None
    rule: str
    theorem: str
    relation: str
    releases_covered: int
    guarantee: str
    bound: str
    limits: str
    filter_share: str
    steps: tuple[Step, ...]
    previous: str
    files: tuple[File, ...]
    certificate: str | None
    certificate_here: bool
    columns: MapOfColumns
    stages: tuple[CertificateStage, ...]
    told: tuple[str, ...]
    map_digest: str
    spec_digest: str
    code_version: str
    sampler_layout: str
    curve: Curve


def release_page(page_request: PageRequest, release_id: str) -> ReleasePage:
    """Build the page of a release.

    Raises:
        InputRefused: the ledger has none of this id.
    """
    stored, charge = _charge(page_request.view, release_id)
    row = release_row(page_request.view, charge, position=stored.position)
    entries = _entries(page_request.view, stored, release_id)
    published = _published(entries)
    digest = None if published is None else dict(published.output_hashes).get(CERTIFICATE)
    content = None if digest is None else page_request.dashboard.certificates.content(digest)
    context = _dataset_context(page_request, charge, stored.position)
    return ReleasePage(
        frame=page_request.frame(),
        release=row,
        part=_part(charge, context),
        parameters=tuple(Parameter(name=name, value=str(value)) for name, value in charge.mechanism),
        sampled=draws_sample(dict(charge.mechanism)),
        deleted=_deleted(charge),
        rule=charge.price.rule,
        theorem=theorem_of(charge, context),
        relation=charge.price.relation,
        releases_covered=charge.price.releases,
        guarantee=guarantee_statement(charge, context),
        bound=_bound(charge),
        limits=limit_statements(charge, context),
        filter_share=filter_statement(charge, context),
        steps=tuple(_step(one) for one in entries),
        previous=stored.previous,
        files=() if published is None else tuple(File(name=n, sha256=d) for n, d in published.output_hashes),
        certificate=digest,
        certificate_here=content is not None,
        columns=() if content is None else columns_of(content),
        stages=() if content is None else stages_of(content),
        told=() if content is None else told_of(content),
        map_digest=charge.map_digest,
        spec_digest=charge.spec_digest,
        code_version=charge.code_version,
        sampler_layout=charge.sampler_layout,
        curve=curve_of(
            dict(charge.mechanism),
            rows_per_person=context.rows_per_person,
            delta=amount(charge.price.delta).exact,
            queue=page_request.dashboard.queue,
        ),
    )


def certificate_of(page_request: PageRequest, release_id: str) -> bytes:
    """The certificate of a published release.

    Raises:
        InputRefused: the ledger has no such release, it isn't published, or its certificate isn't here.
    """
    stored, _ = _charge(page_request.view, release_id)
    published = _published(_entries(page_request.view, stored, release_id))
    digest = None if published is None else dict(published.output_hashes).get(CERTIFICATE)
    content = None if digest is None else page_request.dashboard.certificates.content(digest)
    if content is None:
        raise InputRefused("The certificate of this release isn't here.", where=f"release '{release_id}'", not_done="")
    return content


def _charge(view: LedgerView, release_id: str) -> tuple[Stored, ReleaseCharged]:
    position = view.place_of_release(release_id)
    if position is None:
        raise InputRefused("The ledger has no release of this id.", where="release", not_done="")
    return view.entries([position])[position], view.entries_of(ReleaseCharged, [position])[position]


def _entries(view: LedgerView, stored: Stored, release_id: str) -> tuple[Stored, ...]:
    """The release's entries in the order of the chain, that of its charge first."""
    outcomes = view.outcomes([release_id]).get(release_id, {})
    found = {stored.position: stored} | view.entries(outcomes.values())
    return tuple(found[position] for position in sorted(found))


def _published(entries: tuple[Stored, ...]) -> ReleasePublished | None:
    return next((one.entry for one in entries if isinstance(one.entry, ReleasePublished)), None)


def _step(stored: Stored) -> Step:
    what, day = described(stored.entry), day_of(stored.entry)
    return Step(position=stored.position, hash=stored.hash, day=day, what=what)


def _dataset_context(page_request: PageRequest, charge: ReleaseCharged, position: int) -> DatasetContext:
    """What the ledger said at the charge."""
    place = page_request.view.places_of_datasets([charge.dataset])[charge.dataset]
    added = page_request.view.entries_of(DatasetAdded, [place])[place]
    looks = page_request.dashboard.follower.looks(charge.dataset, up_to=position - 1)
    taken = charge.of_filter
    series = None if charge.series is None else page_request.view.registration_of_series(charge.series.name)
    if isinstance(added, FilterDatasetAdded) and series is not None:
        taken = series.of_filter
    return DatasetContext(
        rows_per_person=added.rows_per_person,
        look_days=tuple(day for _, day in looks),
        filter_budget=added if isinstance(added, FilterDatasetAdded) else None,
        filter_charge=taken,
        unit=added.fixed_unit,
        registered=series.mechanism if isinstance(series, FreeSeriesRegistered) else None,
    )


def _part(charge: ReleaseCharged, context: DatasetContext) -> str | None:
    """The part of its series that paid for a release, with what it is; None where the series has no parts."""
    if charge.series is None or context.registered is None:
        return None
    mixed = mechanism_of_record(dict(context.registered))
    if not isinstance(mixed, MixedSeries):
        return None
    part = mixed.part_of(charge.series.number)
    return f"part {part} ({mixed.each[part - 1]})"


def _deleted(charge: ReleaseCharged) -> Deleted | None:
    mechanism = mechanism_of_record(dict(charge.mechanism))
    if not isinstance(mechanism, DeletionRelease):
        return None
    return Deleted(
        expected=f"{float(expected_deletion(mechanism.noise)):.4g}",
        deviation=f"{math.sqrt(deletion_variance(mechanism.noise)):.4g}",
        largest=largest_deletion(mechanism.noise),
    )


def _bound(charge: ReleaseCharged) -> str:
    """The guarantee's two figures in a sentence."""
    epsilon, delta = charge.price.epsilon, charge.price.delta
    factor = factor_shown(math.exp(min(float(epsilon), 700.0)))
    of = "" if charge.price.releases == 1 else f", for all {charge.price.releases} releases together"
    amounts = f"with epsilon = {amount_text(epsilon)}, and delta is {amount_text(delta)}"
    return f"Here e^epsilon is about {factor}, {amounts}{of}."


ROWS_A_PAGE = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasesPage:
    """The releases.

    Args:
        frame: of the ledger.
        releases: the latest first.
        releases_in_all: how many there are.
        older: what to ask for to see those before, None on the last page.
    """

    frame: PageHeader
    releases: tuple[ReleaseRow, ...]
    releases_in_all: int
    older: int | None


def releases_page(page_request: PageRequest, *, before: int | None) -> ReleasesPage:
    """Build the page of releases charged before a place in the chain."""
    found = page_request.view.releases(name=None, before=before, limit=ROWS_A_PAGE + 1)
    return ReleasesPage(
        frame=page_request.frame(),
        releases=release_rows(page_request.view, found[:ROWS_A_PAGE]),
        releases_in_all=page_request.view.count("release"),
        older=found[ROWS_A_PAGE - 1] if len(found) > ROWS_A_PAGE else None,
    )
