"""What is written of a release: its table in each format, its certificate, and the folder of metadata."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...accounting.certificate.write_certificate import VERIFY_PAGE, write_certificate
from ...accounting.kernel.keys.signing import SigningKey, SigningKeys
from ...accounting.ledger.lookup import DatasetContext
from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.map_selection.choice import MapChoice
from ..destinations import MANIFEST
from ..kernel.gate import Gate
from ..kernel.publication import Output, Rendered, StagedRelease
from ..request import MetadataTexts, Request
from .stage import stage

if TYPE_CHECKING:
    from .table import Publication


def certificate_of(output: Output) -> str:
    """Return where a release's certificate lies."""
    return f"{output}/{MANIFEST}"


@stage("write")
def write_output(
    *,
    gate: Gate,
    context: DatasetContext,
    request: Request,
    generalization: GeneralizationMap,
    finish: Callable[[Any], Publication],
    code_sources: str,
    signing: SigningKeys,
) -> StagedRelease:
    """Write the table and its certificate where nobody looks yet, and remember them durably.

    Raises:
        ReleaseFailed: the signing key is gone.
    """
    from .table import write_statistics_table, write_table  # loads pyarrow, which a refusal does without

    key, receipt, charge = _key_that_signs(signing), gate.receipt, gate.entry

    def render(place: Path, result: Any) -> Rendered:  # noqa: ANN401 - what the kind's protection gives
        publication = finish(result)
        for stem, table in {publication.stem: publication.table, **publication.beside}.items():
            write_table(table, folder=place, file_format=publication.file_format, stem=stem)
            for format_ in request.also:
                write_statistics_table(
                    table, folder=place, format_=format_, stem=stem, day=charge.day, codes=request.codes
                )
        if request.verify_page:
            shutil.copyfile(VERIFY_PAGE, place / VERIFY_PAGE.name)
        # The certificate is written last, with the hash of every other file in it.
        facts = publication.facts
        write_certificate(
            place,
            charge=charge,
            context=context,
            position=receipt.position,
            chain_hash=receipt.hash,
            generalization=generalization,
            choice=request.recoding if isinstance(request.recoding, MapChoice) else None,
            published=facts,
            code_sources=code_sources,
            key=key,
            enforced_by=None if request.limit is None else request.limit.column,
            inclusion=request.thinning,
            unit_rule=request.unit_rule,
            describe=_metadata_writer(place, publication=publication, texts=request.metadata),
        )
        details = {name: fact for name, fact in facts.items() if name not in ("form", "groups", "records")}
        return Rendered(groups=publication.groups, records=publication.records, details=details)

    # Everything that a file could say comes from the protected result, the charge and public facts: `render` has no
    # counts.
    return gate.stage(render)


def _metadata_writer(
    place: Path, *, publication: Publication, texts: MetadataTexts | None
) -> Callable[[Mapping[str, Any]], None] | None:
    """Return what writes the folder of metadata from the certificate's fields; None where there is to be none.

    PRIVACY: of the publication it gets names, types and numbers of rows, no value.
    """
    if texts is None:
        return None
    from ..metadata.description import described_release, outline_of  # of releases with such a folder alone
    from ..metadata.write_metadata import write_metadata

    tables = {publication.stem: publication.table, **publication.beside}
    outlines = {stem: outline_of(table.schema, table.rows) for stem, table in tables.items()}

    def describe(certificate: Mapping[str, Any]) -> None:
        write_metadata(place, described_release(place, certificate=certificate, tables=outlines, texts=texts))

    return describe


def _key_that_signs(signing: SigningKeys) -> SigningKey:
    try:
        return signing.current()
    except InputRefused as refusal:
        raise ReleaseFailed(
            refusal.what,
            where=refusal.where,
            remedy="Restore it, or make one with `crowdblend key rotate`, and run again with the same release id.",
        ) from None


@stage("publish")
def publish(*, gate: Gate) -> None:
    """Bring the release's folder into view in one step.

    Raises:
        ReleaseFailed: something else is in its place, or its bytes are not what they were.
    """
    gate.publish()
