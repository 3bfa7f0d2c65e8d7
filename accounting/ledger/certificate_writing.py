"""The certificate of a release: what was done, what it guarantees, what the files must hash to, and who says so."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.map_choice import MapChoice
from ...mechanisms.recoding import GeneralizationMap
from ..theory.price import mechanism_of_record
from .budget import amount_text
from .certificate_map import map_fields
from .circumstances import Circumstances
from .release_entries import ReleaseCharged
from .signing import ALGORITHM, SigningKey, canonical_bytes

__all__ = [
    "DOMAIN",
    "FORMAT",
    "certificate_bytes",
    "guarantee_in_words",
    "limits_in_words",
    "sha256_of_file",
    "signed_bytes",
    "theorem_of",
    "write_certificate",
]

FORMAT = "crowdblend-certificate/3"
DOMAIN = b"crowdblend certificate 3\n"
GUARANTEE = (
    "Whoever sees this release, whatever else they know, has almost the same chance of seeing it had "
    "{unit} been absent: every event's probability differs by a factor of at most "
    "e^epsilon, plus at most delta. The records were sampled with fresh independent coins, recoded with "
    "{map}, and groups of fewer than k sampled records were left out."
)
SERIES_GUARANTEE = (
    "This is one release of a series, and the guarantee is for the whole series: whoever sees all its {releases} "
    "releases, whatever else they know, has almost the same chance of seeing them had {unit} been absent from all of "
    "them: every event's probability differs by a factor of at most e^epsilon, plus at most delta. The series' "
    "parameters were fixed before its first release. Each release sampled the records with fresh "
    "independent coins, recoded them with {map}, and left groups of fewer than k sampled records out."
)
FIXED_MAP = "a map that was fixed before they were read"
DRAWN_MAP = (
    "a map that was drawn privately, before they were sampled, from candidates declared before any record was read; "
    "what the draw costs is part of epsilon and delta"
)
THEOREMS = {
    "lqs-theorem-3.9/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.9",
    "exact-profile/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs",
    "basic-exact/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs, the "
    "releases' costs added up",
    "pld/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs, composed by "
    "Zhu, Dong, Wang, arXiv:2106.08567",
    "exact-profile-selection/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.11; exact form proved in "
    "docs/proofs/selection.md",
    "pld-selection/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.11; exact form proved in "
    "docs/proofs/selection.md, composed by Zhu, Dong, Wang, arXiv:2106.08567",
    "basic-selection/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.11: the draw's cost and that of the releases, "
    "added up",
}
LIMITS = (
    "The guarantee is for {records} a person and for this release alone; what other releases of the "
    "data set cost adds up in the ledger. It doesn't cover {chosen} made by "
    "looking at the records."
)
SERIES_LIMITS = (
    "The guarantee is for {records} a person in each release and for this series alone; what other releases of the "
    "data set cost adds up in the ledger. It doesn't cover {chosen} made by looking at the records."
)
LOOKED = (
    " Before this release was charged, {looks} at this data set's records, the last on {day}: parameters may "
    "have been chosen after private inspection, which the guarantee doesn't cover."
)
GROUP_THEOREM = "carried over to several records of a person by group privacy, proved in docs/proofs"


def write_certificate(
    folder: Path,
    *,
    charge: ReleaseCharged,
    circumstances: Circumstances,
    position: int,
    chain_hash: str,
    generalization: GeneralizationMap,
    choice: MapChoice | None,
    form: str,
    groups: int,
    records: int,
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
        form: "microdata" or "counts".
        groups: published groups.
        records: published records.
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
        "series": _series(charge),
        "guarantee": {
            "epsilon": amount_text(charge.price.epsilon),
            "delta": amount_text(charge.price.delta),
            "rule": charge.price.rule,
            "theorem": theorem_of(charge.price.rule),
            "epsilon_paper": None if charge.epsilon_paper is None else amount_text(charge.epsilon_paper),
            "unit": f"one person, at most {_records(circumstances)}",
            "rows_per_person": circumstances.rows_per_person,
            "neighbours": charge.price.relation,
            "in_words": guarantee_in_words(charge, circumstances),
            "limits": limits_in_words(charge, circumstances),
        },
        "private_looks": _looks(circumstances),
        "map": map_fields(charge, generalization=generalization, choice=choice),
        "published": {"form": form, "groups": groups, "records": records},
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


def theorem_of(rule: str) -> str:
    """Where the price's theorem is proved; a rule for several records names the one for a single record after a +."""
    group, plus, inner = rule.partition("+")
    if not plus:
        return THEOREMS.get(rule, rule)
    return f"{THEOREMS.get(inner, inner)}; {GROUP_THEOREM} ({group})"


def _records(circumstances: Circumstances) -> str:
    count = circumstances.rows_per_person
    return "one record" if count == 1 else f"{count} records"


def guarantee_in_words(charge: ReleaseCharged, circumstances: Circumstances) -> str:
    """The guarantee for people, without figures: for whom, against what, and how it came about."""
    if circumstances.rows_per_person == 1:
        unit = "any one person's record" if charge.series is None else "any one person's records"
    else:
        each = "" if charge.series is None else " in each release"
        unit = f"all of any one person's records, at most {circumstances.rows_per_person}{each},"
    words = GUARANTEE if charge.series is None else SERIES_GUARANTEE
    return words.format(unit=unit, map=DRAWN_MAP if _drawn(charge) else FIXED_MAP, releases=charge.price.releases)


def limits_in_words(charge: ReleaseCharged, circumstances: Circumstances) -> str:
    """What the guarantee doesn't cover, for people."""
    chosen = "a choice of candidates, weights, k or rate" if _drawn(charge) else "a choice of levels, k or rate"
    words = LIMITS if charge.series is None else SERIES_LIMITS
    few = _records(circumstances)
    limits = words.format(records=few if circumstances.rows_per_person == 1 else f"at most {few}", chosen=chosen)
    days = circumstances.look_days
    if not days:
        return limits
    looks = "1 private look was recorded" if len(days) == 1 else f"{len(days)} private looks were recorded"
    return limits + LOOKED.format(looks=looks, day=max(days).isoformat())


def _drawn(charge: ReleaseCharged) -> bool:
    """Whether the release's mechanism draws its map."""
    return isinstance(mechanism_of_record(dict(charge.mechanism)), EpsilonSafeRelease)


def _looks(circumstances: Circumstances) -> dict[str, Any]:
    """How many private looks came before the charge, and when; what was looked at stays in the ledger."""
    days = circumstances.look_days
    return {"count": len(days), "last_day": max(days).isoformat() if days else None}
