"""Releases: all of them, and each with its guarantee, its theorem, and its place in the chain."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated

from fastapi import Path as PathParameter
from fastapi import Response

from ....mechanisms.kernel.amounts import amount_shown
from ....mechanisms.kernel.errors import InputRefused
from ...certificate.write_certificate import filter_statement, guarantee_statement, limit_statements, theorem_of
from ...descriptions.description_registry import description_of
from ...kernel.field_forms import amount_text
from ...kernel.ledger.entries import FilterDatasetAdded, FreeSeriesRegistered, ReleaseCharged, ReleasePublished
from ...kernel.ledger.ledger_state import Release
from ...kernel.prices.registry import mechanism_of_record
from ...ledger.lookup import DatasetContext
from ..views.certificates import CertificateStage, MapOfColumns, columns_of, stages_of, told_of
from ..views.pictures import Curve, curve_of
from ..views.rows import Page, ReleaseRow, Row, described, draws_sample, release_rows
from ..views.state import Before, OneState, PageRequest

CERTIFICATE = "certificate.json"
ReleaseId = Annotated[
    str, PathParameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}$", description="A release's id.")
]


class Parameter(Row):
    """One of the mechanism's parameters, as the ledger has it."""

    name: str
    value: str


class Step(Row):
    """One of the release's entries in the chain."""

    position: int
    hash: str
    day: str | None
    what: str


class Deleted(Row):
    """What a deletion release does to a group at each stage; of the mechanism alone, so it is no secret."""

    expected: str  # records that are deleted of it in expectation
    deviation: str  # standard deviation of that
    largest: int  # the most


class File(Row):
    """A published file, and what it must hash to."""

    name: str
    sha256: str


class ReleasePage(Page):
    """A release."""

    release: ReleaseRow  # what its row in a table says
    part: str | None  # the part of a series of different mechanisms that paid for it, None elsewhere
    parameters: tuple[Parameter, ...]  # of the mechanism
    sampled: bool  # whether it draws a sample
    deleted: Deleted | None  # what it deletes of a group; None for another kind of release
    rule: str  # the versioned rule that gave the price
    theorem: str  # what proves it
    relation: str  # the neighbouring relation
    releases_covered: int  # how many releases the price covers
    guarantee: str  # the guarantee in the certificate's words
    bound: str  # its two figures in a sentence
    limits: str  # what it does not cover, in the certificate's words
    filter_share: str  # what it, or its series, took of a filter budget, in the certificate's words; else empty
    steps: tuple[Step, ...]  # its entries in the chain
    previous: str  # hash of the entry before its charge
    files: tuple[File, ...]  # what was published, none before publication
    certificate: str | None  # digest of its certificate, None before publication
    certificate_here: bool  # whether these pages can give it out
    columns: MapOfColumns  # the generalization map by column; none where the certificate isn't here
    stages: tuple[CertificateStage, ...]  # what each stage published, where the certificate is here and tells
    told: tuple[str, ...]  # how much the published records tell, where the certificate is here and tells; sentences
    map_digest: str  # SHA-256 (hex) of the map
    spec_digest: str  # SHA-256 (hex) of the specification
    code_version: str  # of the software
    sampler_layout: str  # of the coins
    curve: Curve  # the ε–δ curve of one release of this mechanism

    @property
    def table(self) -> tuple[ReleaseRow, ...]:
        """The release alone."""
        return (self.release,)


def release_page(page_request: OneState, release_id: ReleaseId) -> ReleasePage:
    """A release."""
    known = _known(page_request, release_id)
    charge = page_request.entries_of(ReleaseCharged, [known.position])[known.position]
    began = page_request.followed.readings.get(release_id, -1) if known.stage != "charged" else -1
    stored = page_request.entries([known.position, began, -1 if known.closed is None else known.closed])
    files = _files(page_request, known)
    digest = files.get(CERTIFICATE)
    content = None if digest is None else page_request.dashboard.certificates.content(digest)
    context = _dataset_context(page_request, known, charge)
    mechanism = dict(charge.mechanism)
    return ReleasePage.of(
        charge,
        charge.price,
        stored[known.position],
        frame=page_request.frame(),
        release=release_rows(page_request, [known])[0],
        part=_part(charge, context),
        parameters=tuple(Parameter(name=name, value=str(value)) for name, value in charge.mechanism),
        sampled=draws_sample(mechanism),
        deleted=_deleted(charge),
        theorem=theorem_of(charge, context),
        releases_covered=charge.price.releases,
        guarantee=guarantee_statement(charge, context),
        bound=_bound(charge),
        limits=limit_statements(charge, context),
        filter_share=filter_statement(charge, context),
        steps=tuple(
            Step.of(one, day=getattr(one.entry, "day", None), what=described(one.entry)) for one in stored.values()
        ),
        files=tuple(File(name=name, sha256=hashed) for name, hashed in files.items()),
        certificate=digest,
        certificate_here=content is not None,
        columns=() if content is None else columns_of(content),
        stages=() if content is None else stages_of(content),
        told=() if content is None else told_of(content),
        curve=curve_of(
            mechanism,
            rows_per_person=context.rows_per_person,
            delta=amount_text(charge.price.delta),
            queue=page_request.dashboard.queue,
        ),
    )


def certificate(page_request: OneState, release_id: ReleaseId) -> Response:
    """A release's certificate, byte for byte as it was published."""
    digest = _files(page_request, _known(page_request, release_id)).get(CERTIFICATE)
    content = None if digest is None else page_request.dashboard.certificates.content(digest)
    if content is None:
        raise InputRefused("The certificate of this release isn't here.", where=f"release '{release_id}'", not_done="")
    shown = {"content-disposition": f'attachment; filename="{release_id.replace(":", "-")}-certificate.json"'}
    return Response(content, media_type="application/json", headers=shown)


def _known(page_request: PageRequest, release_id: str) -> Release:
    if (known := page_request.state.releases.get(release_id)) is None:
        raise InputRefused("The ledger has no release of this id.", where="release", not_done="")
    return known


def _files(page_request: PageRequest, known: Release) -> dict[str, str]:
    """Published files with their digests; none before publication."""
    if known.stage != "published" or known.closed is None:
        return {}
    return dict(page_request.entries_of(ReleasePublished, [known.closed])[known.closed].output_hashes)


def _dataset_context(page_request: PageRequest, known: Release, charge: ReleaseCharged) -> DatasetContext:
    """What the ledger said at the charge."""
    state = page_request.state
    added = state.datasets[known.dataset].added
    series = None if known.series is None else state.series[known.series].registered
    looks = (look for place, look in state.looks if place < known.position and look.dataset == known.dataset)
    return DatasetContext(
        rows_per_person=added.rows_per_person,
        look_days=tuple(look.day for look in looks),
        filter_budget=added if isinstance(added, FilterDatasetAdded) else None,
        filter_charge=(series or charge).of_filter,
        unit=added.fixed_unit,
        registered=series.mechanism if isinstance(series, FreeSeriesRegistered) else None,
    )


def _part(charge: ReleaseCharged, context: DatasetContext) -> str | None:
    """The part of its series that paid for a release, with what it is; None where the series has no parts."""
    if charge.series is None or context.registered is None:
        return None
    series = mechanism_of_record(dict(context.registered))
    if (of_number := description_of(series).part) is None:
        return None
    part = of_number(series, charge.series.number)
    return f"part {part.number} ({part.text})"


def _deleted(charge: ReleaseCharged) -> Deleted | None:
    mechanism = charge.decoded_mechanism
    if (of_mechanism := description_of(mechanism).deletion) is None:
        return None
    deleted = of_mechanism(mechanism)
    return Deleted(
        expected=f"{float(deleted.expected):.4g}",
        deviation=f"{math.sqrt(deleted.variance):.4g}",
        largest=deleted.largest,
    )


def _bound(charge: ReleaseCharged) -> str:
    """The guarantee's two figures in a sentence."""
    epsilon, delta = charge.price.epsilon, charge.price.delta
    factor = math.exp(min(float(epsilon), 700.0))
    rounded = Decimal(min(factor, 1e6)).quantize(Decimal("0.001"), rounding="ROUND_CEILING")
    shown = amount_shown(rounded) if factor < 1e6 else "10^6 or more"
    of = "" if charge.price.releases == 1 else f", for all {charge.price.releases} releases together"
    amounts = f"with epsilon = {amount_text(epsilon)}, and delta is {amount_text(delta)}"
    return f"Here e^epsilon is about {shown}, {amounts}{of}."


ROWS_A_PAGE = 50


class ReleasesPage(Page):
    """The releases."""

    TABLE = "releases"
    releases: tuple[ReleaseRow, ...]
    releases_in_all: int
    older: int | None


def releases_page(page_request: OneState, before: Before = None) -> ReleasesPage:
    """All releases, the latest first."""
    found = page_request.releases(before=before, limit=ROWS_A_PAGE + 1)
    return ReleasesPage(
        frame=page_request.frame(),
        releases=release_rows(page_request, found[:ROWS_A_PAGE]),
        releases_in_all=len(page_request.state.releases),
        older=found[ROWS_A_PAGE - 1].position if len(found) > ROWS_A_PAGE else None,
    )
