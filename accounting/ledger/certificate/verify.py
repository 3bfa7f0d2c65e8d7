"""The verification of a certificate and the files beside it: without ledger, private store or network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from ....mechanisms.errors import InputRefused
from ...theory.kinds.registry import kind_of, mechanism_of_record, not_covered
from ..charge import enforced_unit, price_faults
from ..entries.codec import sorted_fields
from ..entries.kinds import MIXED, ChargedPrice, FilterAccounting, FilterCharge, SeriesPlace
from ..entries.values import amount_of_text, differ, require_digest, require_name, require_release_id
from ..given_files import read_given
from ..private_store.signing import ALGORITHM, PublicKey
from .write import (
    DOMAIN,
    FORMAT,
    certificate_bytes,
    has_own_rates,
    map_findings,
    output_files,
    registered_fields,
    sha256_of_file,
    signed_bytes,
)

__all__ = ["CertificateCheck", "check_certificate", "read_certificate", "verify_certificate"]

FIELDS = frozenset(
    {
        "code_sources",
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
        "private_looks",
        "published",
        "release_id",
        "sample_id",
        "sampler_layout",
        "series",
        "signature",
    }
)
MAY_HAVE = frozenset({"filter_budget", "inclusion"})
"""What a certificate has in a filter data set alone, or where records have rates of their own."""
LARGEST_CERTIFICATE = 1 << 26  # bytes; one with 65,536 groups of a histogram has fewer
SIGNATURE_FIELDS = frozenset({"algorithm", "key_id", "public_key", "value"})
ACCOUNTING_AMOUNTS = ("order", "tail_delta", "tail_each", "allowance")
FILTER_FIELDS = frozenset({*ACCOUNTING_AMOUNTS, "rule", "epsilon", "delta", "charge", "in_words"})
CHARGE_FIELDS = frozenset({"rule", "divergence", "tail", "share"})


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateCheck:
    """What was found of a certificate.

    Args:
        findings: what does not hold, one sentence each; empty where all is well.
        signed_by: id of the key whose signature holds; None where none does.
        unchecked: what was not shown, one sentence each.
    """

    findings: tuple[str, ...]
    signed_by: str | None
    unchecked: tuple[str, ...]


def read_certificate(path: Path) -> Mapping[str, Any]:
    """Read a certificate's fields; nothing is checked but its format.

    Raises:
        InputRefused: it can't be read, or is no certificate.
    """
    try:
        return _parsed(_content(path))
    except ValueError as error:
        raise InputRefused(f"{error}.", where=str(path)) from None


def check_certificate(path: Path, *, trusted: tuple[PublicKey, ...] | None = None) -> tuple[str, ...]:
    """The findings of `verify_certificate`.

    Raises:
        InputRefused: the certificate can't be read.
    """
    return verify_certificate(path, trusted=trusted).findings


def verify_certificate(path: Path, *, trusted: tuple[PublicKey, ...] | None) -> CertificateCheck:
    """Check a certificate and the files beside it.

    The signature is checked, the files are hashed again, and the price is computed again from the mechanism. No byte
    of a certificate can change unseen: it has one form.

    Args:
        path: the certificate; its files lie in the same folder or in folders there, and nothing else does.
        trusted: public keys of the publisher; None where the reader has none: then whose key signed isn't shown.

    Raises:
        InputRefused: the certificate can't be read.
    """
    content = _content(path)
    try:
        certificate = _parsed(content)
    except ValueError as error:
        return CertificateCheck(findings=(f"{error}",), signed_by=None, unchecked=())
    findings = [f"the field {name} is missing" for name in sorted(FIELDS - certificate.keys())]
    findings += [f"the field {name[:60]!r} is unknown" for name in sorted(certificate.keys() - FIELDS - MAY_HAVE)]
    if findings:
        return CertificateCheck(findings=tuple(findings), signed_by=None, unchecked=())
    unchecked = "whose key signed it: compare the key's id with what the publisher says, or give --public-key."
    signer, faults = _signature_findings(certificate, content, trusted)
    findings += faults
    if not findings:  # a forger's numbers aren't worth computing with
        findings += _form_findings(certificate)
        findings += _price_findings(certificate)
        findings += _filter_findings(certificate)
        findings += map_findings(certificate)
        findings += _unit_findings(certificate)
        findings += _inclusion_findings(certificate)
    findings += _file_findings(certificate["files"], path)
    return CertificateCheck(
        findings=tuple(findings),
        signed_by=None if signer is None else signer.key_id,
        unchecked=(*((unchecked,) if trusted is None else ()), *(() if findings else _remarks(certificate))),
    )


def _remarks(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the words of an earlier version claim beyond what was priced, of a certificate that holds."""
    guarantee, remarks = certificate["guarantee"], []
    if "filter_budget" in certificate and guarantee["unit"] not in str(certificate["filter_budget"]["in_words"]):
        remarks.append(
            "whether all releases of its data set hide one unit: its words on the filter budget name none, and they "
            "hold for a unit that all of them hide."
        )
    if enforced_unit(certificate["sampler_layout"]) is not None and BLENDING in str(guarantee.get("in_words")):
        remarks.append(
            "its sentence on crowd-blending: it doesn't hold where a column limits how many records count, for which "
            "later versions leave it out."
        )
    return tuple(remarks)


BLENDING = "-crowd-blending"


def _content(path: Path) -> bytes:
    try:
        return read_given(path, most=LARGEST_CERTIFICATE)
    except OSError as error:
        raise InputRefused(f"the certificate can't be read ({error.strerror}).", where=str(path)) from None


def _parsed(content: bytes) -> Mapping[str, Any]:
    """A certificate's fields.

    Raises:
        ValueError: it is no certificate of this version's format.
    """
    try:
        certificate = json.loads(content)
    except (ValueError, RecursionError):
        certificate = None
    if not isinstance(certificate, dict) or certificate.get("format") != FORMAT:
        raise ValueError(f"this is not a certificate of the format that this version reads: {FORMAT}")
    return certificate


def _signature_findings(
    certificate: Mapping[str, Any], content: bytes, trusted: tuple[PublicKey, ...] | None
) -> tuple[PublicKey | None, tuple[str, ...]]:
    """The key whose signature holds, None where none does; and what does not hold."""
    signature = certificate["signature"]
    if (
        not isinstance(signature, dict)
        or signature.keys() != SIGNATURE_FIELDS
        or not all(isinstance(part, str) for part in signature.values())
    ):
        return None, ("it has no signature that can be read",)
    try:
        key = PublicKey(raw=bytes.fromhex(signature["public_key"]))
        value = bytes.fromhex(signature["value"])
        one_form = certificate_bytes(certificate) == content
        message = signed_bytes(certificate)
    except ValueError:
        return None, ("it has no signature that can be read",)
    holds = (
        signature["algorithm"] == ALGORITHM
        and signature["key_id"] == key.key_id
        and signature["public_key"] == key.raw.hex()
        and signature["value"] == value.hex()
        and key.verifies(domain=DOMAIN, message=message, signature=value)
    )
    if not holds:
        return None, ("its signature does not hold: the certificate was changed after it was signed",)
    if not one_form:
        return None, ("its bytes are not those that were written, though its fields are",)
    if trusted is not None and key not in trusted:
        return key, (f"it is signed by the key {key.key_id}, which is none of those that were given",)
    return key, ()


def _form_findings(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """What has no form that it could have: names, digests, days, the charge's place, and what is published."""
    try:
        require_release_id(certificate["release_id"])
        for name in ("name", "dataset", "code_version", "sampler_layout"):
            require_name(certificate[name], name)
        for name in ("sample_id", "code_sources"):
            require_digest(certificate[name], name)
        place, looks = certificate["ledger"], certificate["private_looks"]
        require_digest(place["hash"], "chain's hash")
        days = [_day(certificate["day"])] + [_day(day) for day in (looks["last_day"],) if day is not None]
        numbers = min(_count(place["position"]), _count(looks["count"])) >= 0
        fields = place.keys() == {"position", "hash"} and looks.keys() == {"count", "last_day"}
        sound = (
            fields and numbers and len(days) == 1 + (looks["count"] > 0) and isinstance(certificate["published"], dict)
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        sound = False
    what = "its name, ids, digests, days, place in the ledger or what is published have no form that they could have"
    return () if sound else (what,)


def _day(text: str) -> date:
    """A day as a certificate has it.

    Raises:
        ValueError: it has another form than year, month and day with dashes.
    """
    day = date.fromisoformat(text)
    if day.isoformat() != text:
        raise ValueError("a day has one form")
    return day


def _releases_of_series(series: Mapping[str, Any] | None) -> int:
    """How many releases the price covers; one where there is no series.

    Raises:
        ValueError: it names no place in a series.
    """
    if series is None:
        return 1
    place = SeriesPlace(name=series["name"], number=series["number"], spec_digest="0" * 64)
    releases: int = series["releases"]
    if place.number > releases or set(series) - {"registered", "part"} != {"name", "number", "releases"}:
        raise ValueError("a series has no such place")
    return releases


def _priced_mechanism(certificate: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """The mechanism that the price is of, which a series with free columns names, and why it doesn't cover the release.

    Raises:
        InputRefused: a mechanism can't be read.
        ValueError: a part that isn't the release's, or no mechanism that a release runs.
    """
    run, series = certificate["mechanism"], certificate["series"]
    if run["kind"] == MIXED:
        raise ValueError("a release runs one mechanism of a series")
    if series is None or "registered" not in series:
        if series is not None and "part" in series:
            raise ValueError("a series of one mechanism has no parts")
        return run, None
    registered, number = series["registered"], _count(series["number"])
    stated = registered_fields(sorted_fields(registered), number=number)
    if stated != {name: series[name] for name in ("registered", "part") if name in series}:
        raise ValueError("a release's part of its series is the one that has its number")
    return registered, not_covered(mechanism_of_record(run), mechanism_of_record(registered), number=number)


def _count(value: object) -> int:
    """A whole number as a certificate has it.

    Raises:
        ValueError: it is something else.
    """
    if type(value) is not int:
        raise ValueError("a number of records is a whole number")
    return value


def _price_findings(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    guarantee = certificate["guarantee"]
    try:
        mechanism, uncovered = _priced_mechanism(certificate)
        price = ChargedPrice(
            epsilon=amount_of_text(guarantee["epsilon"]),
            delta=amount_of_text(guarantee["delta"]),
            rule=guarantee["rule"],
            relation=guarantee["neighbours"],
            releases=_releases_of_series(certificate["series"]),
        )
        paper = guarantee["epsilon_paper"]
        if uncovered is not None:
            return (f"its series has not paid for its mechanism: {uncovered}",)
        return price_faults(
            mechanism=sorted_fields(mechanism),
            price=price,
            epsilon_paper=None if paper is None else amount_of_text(paper),
            rows_per_person=_count(guarantee["rows_per_person"]),
        )
    except (AttributeError, InputRefused, KeyError, TypeError, ValueError):
        return ("its mechanism or its guarantee can't be read",)


def _unit_findings(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Whether unit, number of records and column agree with one another, and with the rule of the sampler."""
    guarantee, unit = certificate["guarantee"], enforced_unit(certificate["sampler_layout"])
    if not isinstance(guarantee, dict):
        return ("its guarantee can't be read",)
    column, records = guarantee.get("enforced_by"), guarantee.get("rows_per_person")
    if (unit is not None) is not (isinstance(column, str) and column != ""):
        return ("it names a column that limits a unit's records exactly where its sampler has a limit, and here not",)
    few = "one record" if records == 1 else f"{records} records"
    if guarantee.get("unit") != f"one {unit or 'person'}, at most {few}":
        return ("its unit is not the one whose records its sampler limits",)
    return ()


def _inclusion_findings(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Whether a column of rates is named where the sampler has one, with rates up to the one that is priced."""
    stated = certificate.get("inclusion")
    if (stated is not None) is not has_own_rates(certificate["sampler_layout"]):
        return ("it names a column of rates exactly where its sampler draws by one, and here not",)
    if stated is None:
        return ()
    try:
        rates = [Decimal(text) for text in stated["rates"]]
        mechanism = mechanism_of_record(certificate["mechanism"])
        priced = kind_of(mechanism).sampling_rate(mechanism)
        ascend = rates[0] > 0 and all(low < high for low, high in pairwise(rates))
        if stated.keys() != {"column", "rates"} or not isinstance(stated["column"], str) or not ascend:
            return ("its column of rates can't be read",)
    except (ArithmeticError, AttributeError, IndexError, InputRefused, KeyError, TypeError, ValueError):
        return ("its column of rates can't be read",)
    return () if rates[-1] == priced else ("the highest of its rates is not the one that its price is for",)


def _filter_findings(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """What does not hold of what a certificate says of a filter budget, with every figure computed again."""
    if "filter_budget" not in certificate:
        return ()
    try:
        return _filter_faults(certificate["filter_budget"], certificate)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return ("its filter budget can't be read",)


def _filter_faults(stated: Mapping[str, Any], certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """What does not hold of a filter budget.

    Raises:
        ValueError: it has other fields than its format, or values of another form.
    """
    from ..filter_budget import FilterBudget, accounting_faults, charge_faults, share_of  # numerics, for filters alone

    charge = stated["charge"]
    if stated.keys() != FILTER_FIELDS or charge.keys() != CHARGE_FIELDS:
        raise ValueError("a filter budget has other fields")
    amounts = {name: amount_of_text(stated[name]) for name in (*ACCOUNTING_AMOUNTS, "epsilon", "delta")}
    accounting = FilterAccounting(rule=stated["rule"], **{name: amounts[name] for name in ACCOUNTING_AMOUNTS})
    budget = FilterBudget(
        epsilon=amounts["epsilon"],
        delta=amounts["delta"],
        relation=certificate["guarantee"]["neighbours"],
        accounting=accounting,
    )
    divergence, tail = amount_of_text(charge["divergence"]), amount_of_text(charge["tail"])
    taken = FilterCharge(order=accounting.order, divergence=divergence, tail=tail, rule=charge["rule"])
    if faults := accounting_faults(budget):
        return faults
    faults = charge_faults(
        sorted_fields(certificate["mechanism"]),
        taken,
        budget=budget,
        releases=_releases_of_series(certificate["series"]),
        rows_per_person=_count(certificate["guarantee"]["rows_per_person"]),
    )
    if not faults and differ(amount_of_text(charge["share"]), share_of(taken, accounting)):
        return ("the share of its filter budget is not that of its divergence and its tail",)
    return faults


def _file_findings(files: object, path: Path) -> tuple[str, ...]:
    if not isinstance(files, dict) or not files:
        return ("it names no files",)
    if not all(isinstance(name, str) and isinstance(digest, str) for name, digest in files.items()):
        return ("it names no files",)
    beside = output_files(path.parent)
    present = beside.keys() - {path.name}
    findings = [f"{name} is missing" for name in sorted(files.keys() - present)]
    findings += [f"{name} is not named in the certificate" for name in sorted(present - files.keys())]
    for name in sorted(files.keys() & present):
        file = beside[name]
        if file.is_symlink() or not file.is_file() or sha256_of_file(file) != files[name]:
            findings.append(f"{name} is not the file that was certified")
    return tuple(findings)
