"""The certificate of a release: what was done, what it guarantees, and what the files must hash to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...mechanisms.recoding import GeneralizationMap
from ...mechanisms.refusal import InputRefused
from .budget import amount_of_text, amount_text
from .canonical import sorted_fields
from .release_entries import ChargedPrice, ReleaseCharged, SeriesPlace
from .repricing import price_faults

__all__ = ["check_certificate", "read_certificate", "write_certificate"]

FORMAT = "crowdblend-certificate/1"
GUARANTEE = (
    "Whoever sees this release, whatever else they know, has almost the same chance of seeing it had "
    "any one person's record been absent: every event's probability differs by a factor of at most "
    "e^epsilon, plus at most delta. The records were sampled with fresh independent coins, recoded with "
    "a map that was fixed before they were read, and groups of fewer than k sampled records were left "
    "out."
)
SERIES_GUARANTEE = (
    "This is one release of a series, and the guarantee is for the whole series: whoever sees all its {releases} "
    "releases, whatever else they know, has almost the same chance of seeing them had any one person's records been "
    "absent from all of them: every event's probability differs by a factor of at most e^epsilon, plus at most "
    "delta. The series' parameters were fixed before its first release. Each release sampled the records with "
    "fresh independent coins, recoded them with a map that was fixed before they were read, and left groups of "
    "fewer than k sampled records out."
)
THEOREMS = {
    "lqs-theorem-3.9/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.9",
    "exact-profile/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs",
    "basic-exact/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs, the "
    "releases' costs added up",
    "pld/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs, composed by "
    "Zhu, Dong, Wang, arXiv:2106.08567",
}
LIMITS = (
    "The guarantee is for one record a person and for this release alone; what other releases of the "
    "data set cost adds up in the ledger. It doesn't cover a choice of levels, k or rate made by "
    "looking at the records."
)
SERIES_LIMITS = (
    "The guarantee is for one record a person in each release and for this series alone; what other releases of the "
    "data set cost adds up in the ledger. It doesn't cover a choice of levels, k or rate made by looking at the "
    "records."
)
UNSIGNED = (
    "This certificate is unsigned: it shows that the files are those that were described, not who described them."
)
FIELDS = frozenset(
    {
        "code_version",
        "dataset",
        "day",
        "files",
        "format",
        "guarantee",
        "ledger",
        "map",
        "mechanism",
        "name",
        "published",
        "release_id",
        "sample_id",
        "sampler_layout",
        "series",
        "signature",
        "signature_note",
    }
)


def write_certificate(
    folder: Path,
    *,
    charge: ReleaseCharged,
    position: int,
    chain_hash: str,
    generalization: GeneralizationMap,
    form: str,
    groups: int,
    records: int,
) -> None:
    """Write `certificate.json` beside the files that it describes.

    PRIVACY: everything here is public before the records are read, or a function of the published files.

    Args:
        folder: holds the complete release but for its certificate.
        charge: the release's charge, as the ledger has it.
        position: the charge's place in the ledger's chain.
        chain_hash: the chain's hash there.
        generalization: the map.
        form: "microdata" or "counts".
        groups: published groups.
        records: published records.

    Raises:
        OSError: the folder can't be written.
    """
    columns = [
        {"column": column.name, "level": column.level, "hierarchy_sha256": column.hierarchy.digest()}
        for column in generalization.columns
    ]
    certificate = {
        "format": FORMAT,
        "release_id": charge.release_id,
        "name": charge.label,
        "dataset": charge.dataset,
        "day": charge.day.isoformat(),
        "mechanism": dict(charge.mechanism),
        "sampler_layout": charge.sampler_layout,
        "sample_id": charge.sample_id,
        "code_version": charge.code_version,
        "series": _series(charge),
        "guarantee": {
            "epsilon": amount_text(charge.price.epsilon),
            "delta": amount_text(charge.price.delta),
            "rule": charge.price.rule,
            "theorem": THEOREMS.get(charge.price.rule, charge.price.rule),
            "epsilon_paper": None if charge.epsilon_paper is None else amount_text(charge.epsilon_paper),
            "unit": "one person, at most one record",
            "neighbours": charge.price.relation,
            "in_words": _in_words(charge),
            "limits": LIMITS if charge.series is None else SERIES_LIMITS,
        },
        "map": {"sha256": charge.map_digest, "columns": columns},
        "published": {"form": form, "groups": groups, "records": records},
        "files": {path.name: _sha256(path) for path in sorted(folder.iterdir())},
        "ledger": {"position": position, "hash": chain_hash},
        "signature": None,
        "signature_note": UNSIGNED,
    }
    text = json.dumps(certificate, ensure_ascii=False, indent=2, sort_keys=True)
    (folder / "certificate.json").write_text(text + "\n", encoding="utf-8")


def read_certificate(path: Path) -> Mapping[str, Any]:
    """Read a certificate's fields.

    Raises:
        InputRefused: it can't be read, or is no certificate.
    """
    try:
        certificate = json.loads(path.read_bytes())
    except OSError as error:
        raise InputRefused(f"the certificate can't be read ({error.strerror}).", where=str(path)) from None
    except ValueError:
        certificate = None
    if not isinstance(certificate, dict) or certificate.get("format") != FORMAT:
        raise InputRefused(f"this is not a certificate of the format {FORMAT}.", where=str(path))
    return certificate


def check_certificate(path: Path) -> tuple[str, ...]:
    """What does not hold of a certificate and the files beside it; nothing where all is well.

    The files are hashed again, and the price is computed again from the mechanism. Nothing else is needed: no
    ledger, and no network.

    Raises:
        InputRefused: it can't be read, or is no certificate.
    """
    certificate = read_certificate(path)
    findings = [f"the field {name} is missing" for name in sorted(FIELDS - certificate.keys())]
    findings += [f"the field {name[:60]!r} is unknown" for name in sorted(certificate.keys() - FIELDS)]
    if findings:
        return tuple(findings)
    if certificate["signature"] is not None:
        findings.append("it bears a signature, which this version can't check")
    return (*findings, *_price_findings(certificate), *_file_findings(certificate["files"], path))


def _series(charge: ReleaseCharged) -> dict[str, str | int] | None:
    if charge.series is None:
        return None
    return {"name": charge.series.name, "number": charge.series.number, "releases": charge.price.releases}


def _in_words(charge: ReleaseCharged) -> str:
    return GUARANTEE if charge.series is None else SERIES_GUARANTEE.format(releases=charge.price.releases)


def _releases_of_series(series: Mapping[str, Any] | None) -> int:
    """How many releases the price covers; one where there is no series.

    Raises:
        ValueError: it names no place in a series.
    """
    if series is None:
        return 1
    place = SeriesPlace(name=series["name"], number=series["number"], spec_digest="0" * 64)
    releases: int = series["releases"]
    if place.number > releases or set(series) != {"name", "number", "releases"}:
        raise ValueError("a series has no such place")
    return releases


def _price_findings(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    guarantee, mechanism = certificate["guarantee"], certificate["mechanism"]
    try:
        price = ChargedPrice(
            epsilon=amount_of_text(guarantee["epsilon"]),
            delta=amount_of_text(guarantee["delta"]),
            rule=guarantee["rule"],
            relation=guarantee["neighbours"],
            releases=_releases_of_series(certificate["series"]),
        )
        paper = guarantee["epsilon_paper"]
        return price_faults(
            mechanism=sorted_fields(mechanism),
            price=price,
            epsilon_paper=None if paper is None else amount_of_text(paper),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return ("its mechanism or its guarantee can't be read",)


def _file_findings(files: object, path: Path) -> tuple[str, ...]:
    if not isinstance(files, dict) or not files:
        return ("it names no files",)
    present = {beside.name for beside in path.parent.iterdir()} - {path.name}
    findings = [f"{name} is missing" for name in sorted(files.keys() - present)]
    findings += [f"{name} is not named in the certificate" for name in sorted(present - files.keys())]
    for name in sorted(files.keys() & present):
        file = path.parent / name
        if file.is_symlink() or not file.is_file() or _sha256(file) != files[name]:
            findings.append(f"{name} is not the file that was certified")
    return tuple(findings)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
