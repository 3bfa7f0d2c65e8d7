"""The certificate of a release: what was done, what it guarantees, what the files must hash to, and who says so."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....mechanisms.map_selection.draw import MapChoice
from ....mechanisms.recoding import GeneralizationMap
from ..charge import DatasetContext
from ..entries.kinds import ReleaseCharged
from ..entries.values import amount_text
from ..private_store.signing import ALGORITHM, SigningKey, canonical_bytes
from .statements import guarantee_in_words, limits_in_words, map_fields, records_in_words, theorem_of

__all__ = ["DOMAIN", "FORMAT", "certificate_bytes", "sha256_of_file", "signed_bytes", "write_certificate"]

FORMAT = "crowdblend-certificate/5"
DOMAIN = b"crowdblend certificate 5\n"


def write_certificate(
    folder: Path,
    *,
    charge: ReleaseCharged,
    circumstances: DatasetContext,
    position: int,
    chain_hash: str,
    generalization: GeneralizationMap,
    choice: MapChoice | None,
    published: Mapping[str, Any],
    code_sources: str,
    key: SigningKey,
) -> None:
    """Write `certificate.json` beside the files that it describes.

    PRIVACY: everything here is public before the records are read, or a function of the published files, or a
    signature over that, which the key and the signed bytes determine.

    Args:
        folder: holds the complete release but for its certificate.
        charge: the release's charge, as the ledger has it.
        circumstances: what the ledger said of the data set at the charge.
        position: the charge's place in the ledger's chain.
        chain_hash: the chain's hash there.
        generalization: the map.
        choice: how it was drawn; None where it was fixed beforehand.
        published: the form of what is published, its groups and its records.
        code_sources: SHA-256 (hex) of the software's sources, by which an audit's report names them too.
        key: signs it.

    Raises:
        OSError: the folder can't be written.
    """
    certificate: dict[str, Any] = {
        "format": FORMAT,
        "release_id": charge.release_id,
        "name": charge.label,
        "dataset": charge.dataset,
        "day": charge.day.isoformat(),
        "mechanism": dict(charge.mechanism),
        "sampler_layout": charge.sampler_layout,
        "sample_id": charge.sample_id,
        "code_version": charge.code_version,
        "code_sources": code_sources,
        "series": _series(charge),
        "guarantee": {
            "epsilon": amount_text(charge.price.epsilon),
            "delta": amount_text(charge.price.delta),
            "rule": charge.price.rule,
            "theorem": theorem_of(charge),
            "epsilon_paper": None if charge.epsilon_paper is None else amount_text(charge.epsilon_paper),
            "unit": f"one person, at most {records_in_words(circumstances)}",
            "rows_per_person": circumstances.rows_per_person,
            "neighbours": charge.price.relation,
            "in_words": guarantee_in_words(charge, circumstances),
            "limits": limits_in_words(charge, circumstances),
        },
        "private_looks": _looks(circumstances),
        "map": map_fields(charge, generalization=generalization, choice=choice),
        "published": dict(published),
        "files": {path.name: sha256_of_file(path) for path in sorted(folder.iterdir())},
        "ledger": {"position": position, "hash": chain_hash},
        "signature": {"algorithm": ALGORITHM, "key_id": key.public.key_id, "public_key": key.public.raw.hex()},
    }
    value = key.sign(domain=DOMAIN, message=signed_bytes(certificate))
    certificate["signature"] |= {"value": value.hex()}
    (folder / "certificate.json").write_bytes(certificate_bytes(certificate))


def certificate_bytes(certificate: Mapping[str, Any]) -> bytes:
    """The one form in which a certificate is written, for people to read.

    Raises:
        ValueError: a text that has no form in UTF-8.
    """
    return (json.dumps(certificate, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode("utf-8")


def signed_bytes(certificate: Mapping[str, Any]) -> bytes:
    """What the signature is over: all of the certificate, the signature's algorithm and key too, but its value.

    Raises:
        ValueError: a number that JSON has no form for.
    """
    signature = {name: part for name, part in certificate["signature"].items() if name != "value"}
    return canonical_bytes({**certificate, "signature": signature})


def sha256_of_file(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _series(charge: ReleaseCharged) -> dict[str, str | int] | None:
    if charge.series is None:
        return None
    return {"name": charge.series.name, "number": charge.series.number, "releases": charge.price.releases}


def _looks(circumstances: DatasetContext) -> dict[str, Any]:
    """How many private looks came before the charge, and when; what was looked at stays in the ledger."""
    days = circumstances.look_days
    return {"count": len(days), "last_day": max(days).isoformat() if days else None}
