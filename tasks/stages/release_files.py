"""The stages that write a release's files and bring them into view."""

from __future__ import annotations

from pathlib import Path

from ...accounting.ledger.certificate.write import write_certificate
from ...accounting.ledger.charge import DatasetContext, Receipt
from ...accounting.ledger.entries.kinds import ReleaseCharged
from ...accounting.ledger.private_store.keys import ReleaseFolder
from ...accounting.ledger.private_store.signing import SigningKey, SigningKeys
from ...mechanisms.errors import InputRefused, ReleaseFailed
from ...mechanisms.map_selection.draw import MapChoice
from ...mechanisms.recoding import GeneralizationMap
from ..request import Request
from .publish import StagedRelease, bring_into_view, staging_folder, write_staged
from .stage import stage
from .table import Publication, write_table

__all__ = ["publish", "write_output"]


@stage("write")
def write_output(
    *,
    receipt: Receipt,
    charge: ReleaseCharged,
    circumstances: DatasetContext,
    request: Request,
    generalization: GeneralizationMap,
    publication: Publication,
    folder: ReleaseFolder,
    code_sources: str,
    signing: SigningKeys,
) -> StagedRelease:
    """Write the table and its certificate where nobody looks yet, and remember them durably.

    Args:
        receipt: proof of payment.
        charge: the ledger's entry of the charge.
        circumstances: what the ledger said of the data set at the charge.
        request: what is asked for.
        generalization: the map that the records were recoded with.
        publication: what may be published, its table and what the certificate says of it.
        folder: the release's folder in the private store.
        code_sources: digest of the software's sources, for the certificate.
        signing: the private store's signing keys; the private one is read here and nowhere kept.

    Raises:
        ReleaseFailed: the signing key is gone.
    """
    key = _key_that_signs(signing)

    def write(place: Path) -> None:
        write_table(publication.table, folder=place, file_format=publication.file_format)
        write_certificate(
            place,
            charge=charge,
            circumstances=circumstances,
            position=receipt.position,
            chain_hash=receipt.hash,
            generalization=generalization,
            choice=request.recoding if isinstance(request.recoding, MapChoice) else None,
            published=publication.facts,
            code_sources=code_sources,
            key=key,
        )

    place = staging_folder(request.output, sample_id=receipt.sample_id, private=folder.path)
    staged = write_staged(place, day=charge.day, write=write)
    folder.remember(
        {
            "published": {
                "sample_id": receipt.sample_id,
                "output": str(request.output),
                "groups": publication.groups,
                "records": publication.records,
                "staging": str(staged.folder),
                "hashes": staged.hashes,
                "details": dict(publication.details),
            }
        }
    )
    return StagedRelease(
        sample_id=receipt.sample_id,
        output=request.output,
        groups=publication.groups,
        records=publication.records,
        staged=staged,
        details=publication.details,
    )


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
def publish(*, release: StagedRelease) -> None:
    """Bring the release's folder into view in one step.

    Raises:
        ReleaseFailed: something else is in its place, or its bytes are not what they were.
    """
    bring_into_view(release.staged, release.output)
