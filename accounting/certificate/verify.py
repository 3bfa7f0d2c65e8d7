"""The verification of a certificate and the files beside it: without ledger, private store or network."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...mechanisms.hierarchies.build import described_hierarchy
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.mechanism import Mechanism
from ..descriptions.description_registry import has_parts
from ..given_files import read_given
from ..kernel.field_forms import amount_of_text, differ, require_digest, require_name, require_release_id
from ..kernel.keys.private_files import output_files
from ..kernel.keys.signing import ALGORITHM, PublicKey, canonical_bytes
from ..kernel.ledger.entries import ChargedPrice, FilterAccounting, FilterCharge, SeriesPlace, sorted_fields
from ..kernel.ledger.ledger_state import enforced_unit
from ..kernel.ledger.rules import price_faults
from ..kernel.prices.registry import kind_of, mechanism_of_record, not_covered
from . import write_certificate as written
from .row_tables import MEMBERS, members_view
from .write_certificate import ACCOUNTING_AMOUNTS, FORMAT

FIELDS = frozenset({"code_sources", "code_version", "dataset", "day", "files", "format", "guarantee", "ledger", "map"})
FIELDS |= {"mechanism", "name", "private_looks", "published", "release_id", "sample_id", "sampler_layout", "series"}
FIELDS |= {"signature"}
MAY_HAVE = frozenset({"filter_budget", "inclusion", "unit_records"})
"""Fields of a filter data set alone, of records with rates of their own, and of units that make records."""
LARGEST_CERTIFICATE = 1 << 26  # bytes; one with 65,536 groups of a histogram has fewer
SIGNATURE_FIELDS = frozenset({"algorithm", "key_id", "public_key", "value"})
FILTER_FIELDS = frozenset({*ACCOUNTING_AMOUNTS, "rule", "epsilon", "delta", "charge", "in_words"})
CHARGE_FIELDS = frozenset({"rule", "divergence", "tail", "share"})
MAP_FIELDS = frozenset({"sha256", "columns"})
COLUMN_FIELDS = frozenset({"column", "hierarchy", "hierarchy_sha256", "level"})
SELECTION_FIELDS = frozenset({"draw", "epsilon", "in_words", "lattice", "lattice_sha256", "maps", "quality", "rate"})
SELECTION_FIELDS |= {"sample_id", "steps", "threshold"}
CHAINS = "chains/1"
"""The kind of a lattice whose candidates are chains of maps, in its description."""
UNREADABLE = (ArithmeticError, AttributeError, InputRefused, LookupError, TypeError, ValueError)
Check = Callable[[Mapping[str, Any]], Iterable[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateCheck:
    """What was found of a certificate.

    Args:
        findings: what does not hold, one sentence each; empty where all is well.
        signed_by: id of the key whose signature holds; None where none does.
        unchecked: what was not shown, one sentence each.
        kernel: digest of the kernel and the kind that made the release, as the certificate says; None where that isn't
            asked or can't be read.
        kernel_is_installed: whether this installation has the same.
    """

    findings: tuple[str, ...]
    signed_by: str | None
    unchecked: tuple[str, ...]
    kernel: str | None = None
    kernel_is_installed: bool = False


def read_certificate(path: Path) -> Mapping[str, Any]:
    """Read a certificate's fields, and check nothing but its format; InputRefused where it can't be read."""
    try:
        return _parsed(_content(path))
    except ValueError as error:
        raise InputRefused(f"{error}.", where=str(path)) from None


def certified_mechanism(certificate: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism that a certificate names; InputRefused where its record can't be read."""
    return mechanism_of_record(certificate["mechanism"])


def check_certificate(path: Path, *, trusted: tuple[PublicKey, ...] | None = None) -> tuple[str, ...]:
    """Return the findings of `verify_certificate`."""
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
    try:
        signer, fault = _signer(certificate, content)
    except UNREADABLE:
        signer, fault = None, "it has no signature that can be read"
    if signer is not None and trusted is not None and signer not in trusted:
        fault = f"it is signed by the key {signer.key_id}, which is none of those that were given"
    if fault:  # a forger's numbers aren't worth computing with
        findings.append(fault)
    else:
        findings += [finding for check in CHECKS for finding in check(certificate)]
    findings += _file_findings(certificate["files"], path)
    unchecked = [] if findings else list(_remarks(certificate))
    if trusted is None:
        whose = "whose key signed it: compare the key's id with what the publisher says, or give --public-key."
        unchecked.insert(0, whose)
    return CertificateCheck(
        findings=tuple(findings),
        signed_by=None if signer is None else signer.key_id,
        unchecked=tuple(unchecked),
    )


def _remarks(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the words of an earlier version claim beyond what was priced, of a certificate that holds."""
    guarantee = certificate["guarantee"]
    if "filter_budget" in certificate and guarantee["unit"] not in str(certificate["filter_budget"]["in_words"]):
        yield (
            "whether all releases of its data set hide one unit: its words on the filter budget name none, and they "
            "hold for a unit that all of them hide."
        )
    limited = enforced_unit(certificate["sampler_layout"]) is not None
    if limited and "-crowd-blending" in str(guarantee.get("in_words")):
        yield (
            "its sentence on crowd-blending: it doesn't hold where a column limits how many records count, for which "
            "later versions leave it out."
        )


def _content(path: Path) -> bytes:
    try:
        return read_given(path, most=LARGEST_CERTIFICATE)
    except OSError as error:
        raise InputRefused(f"the certificate can't be read ({error.strerror}).", where=str(path)) from None


def _parsed(content: bytes) -> Mapping[str, Any]:
    """Return a certificate's fields; ValueError where it is none of this version's format."""
    try:
        certificate = json.loads(content)
    except (ValueError, RecursionError):
        certificate = None
    if not isinstance(certificate, dict) or certificate.get("format") != FORMAT:
        raise ValueError(f"this is not a certificate of the format that this version reads: {FORMAT}")
    return certificate


def _signer(certificate: Mapping[str, Any], content: bytes) -> tuple[PublicKey | None, str]:
    """Return the key whose signature holds, or None and why none does; an exception where none can be read."""
    signature = certificate["signature"]
    if signature.keys() != SIGNATURE_FIELDS or not all(isinstance(part, str) for part in signature.values()):
        raise ValueError("a signature has other fields")
    key = PublicKey(raw=bytes.fromhex(signature["public_key"]))
    value = bytes.fromhex(signature["value"])
    # Hexadecimal digits may be upper case and still give the same bytes. The texts are compared with those that this
    # software would write, so that no letter of a signed file can be altered unseen.
    one_form = {"algorithm": ALGORITHM, "key_id": key.key_id, "public_key": key.raw.hex(), "value": value.hex()}
    message = written.signed_bytes(certificate)
    holds = signature == one_form and key.verifies(domain=written.DOMAIN, message=message, signature=value)
    if not holds:
        return None, "its signature does not hold: the certificate was changed after it was signed"
    # JSON lets one content be written in many ways, and a doubled key is read as its last value. A reader with another
    # parser could see other numbers under the same signature, so only the bytes of the one form are accepted.
    if written.certificate_bytes(certificate) != content:
        return None, "its bytes are not those that were written, though its fields are"
    return key, ""


def _finding_if_unreadable(what: str) -> Callable[[Check], Check]:
    """Make a check find only that a part can't be read, where that has another form than the check expects."""

    def with_finding(check: Check) -> Check:
        @wraps(check)
        def checked(certificate: Mapping[str, Any]) -> tuple[str, ...]:
            try:
                return tuple(check(certificate))
            except UNREADABLE:
                return (what,)

        return checked

    return with_finding


@_finding_if_unreadable(
    "its name, ids, digests, days, place in the ledger or what is published have no form that they could have"
)
def _form_findings(certificate: Mapping[str, Any]) -> Iterable[str]:
    require_release_id(certificate["release_id"], "release id")
    for name in ("name", "dataset", "code_version", "sampler_layout"):
        require_name(certificate[name], name)
    for name in ("sample_id", "code_sources"):
        require_digest(certificate[name], name)
    place, looks = certificate["ledger"], certificate["private_looks"]
    require_digest(place["hash"], "chain's hash")
    days = [certificate["day"]] + [day for day in (looks["last_day"],) if day is not None]
    sound = (
        place.keys() == {"position", "hash"}
        and looks.keys() == {"count", "last_day"}
        and min(_count(place["position"]), _count(looks["count"])) >= 0
        and [date.fromisoformat(day).isoformat() for day in days] == days
        and len(days) == 1 + (looks["count"] > 0)
        and isinstance(certificate["published"], dict)
    )
    if not sound:
        raise ValueError("a field has another form")
    return ()


def _releases_of_series(series: Mapping[str, Any] | None) -> int:
    """Return how many releases the price covers, one without a series; ValueError where it names no place in one."""
    if series is None:
        return 1
    place = SeriesPlace(name=series["name"], number=series["number"], spec_digest="0" * 64)
    releases: int = series["releases"]
    if place.number > releases or set(series) - {"registered", "part"} != {"name", "number", "releases"}:
        raise ValueError("a series has no such place")
    return releases


def _priced_mechanism(certificate: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """The mechanism that the price is of, which a series with free columns names, and why it doesn't cover the release.

    An exception tells of a mechanism that can't be read or that no release runs, or of a part that isn't the release's.
    """
    run, series = certificate["mechanism"], certificate["series"]
    if has_parts(run["kind"]):
        raise ValueError("a release runs one mechanism of a series")
    if series is None or "registered" not in series:
        if series is not None and "part" in series:
            raise ValueError("a series of one mechanism has no parts")
        return run, None
    registered, number = series["registered"], _count(series["number"])
    stated = written.registered_fields(sorted_fields(registered), number=number)
    if stated != {name: series[name] for name in ("registered", "part") if name in series}:
        raise ValueError("a release's part of its series is the one that has its number")
    return registered, not_covered(mechanism_of_record(run), mechanism_of_record(registered), number=number)


def _count(value: object) -> int:
    """Return a whole number as a certificate has it; ValueError where it is something else."""
    if type(value) is not int:
        raise ValueError("a number of records is a whole number")
    return value


@_finding_if_unreadable("its mechanism or its guarantee can't be read")
def _price_findings(certificate: Mapping[str, Any]) -> Iterable[str]:
    guarantee = certificate["guarantee"]
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


@_finding_if_unreadable("its filter budget can't be read")
def _filter_findings(certificate: Mapping[str, Any]) -> Iterable[str]:
    """Return what does not hold of what a certificate says of a filter budget, with every figure computed again."""
    if "filter_budget" not in certificate:
        return ()
    from ..kernel.ledger.filter_budget import FilterBudget, accounting_faults, charge_faults
    from ..ledger.filter_accounting import share_of

    stated, guarantee = certificate["filter_budget"], certificate["guarantee"]
    charge = stated["charge"]
    if stated.keys() != FILTER_FIELDS or charge.keys() != CHARGE_FIELDS:
        raise ValueError("a filter budget has other fields")
    amounts = {name: amount_of_text(stated[name]) for name in ACCOUNTING_AMOUNTS}
    accounting = FilterAccounting(rule=stated["rule"], **amounts)
    budget = FilterBudget(
        epsilon=amount_of_text(stated["epsilon"]),
        delta=amount_of_text(stated["delta"]),
        relation=guarantee["neighbours"],
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
        rows_per_person=_count(guarantee["rows_per_person"]),
    )
    if not faults and differ(amount_of_text(charge["share"]), share_of(taken, accounting)):
        return ("the share of its filter budget is not that of its divergence and its tail",)
    return faults


@_finding_if_unreadable("its map can't be read")
def map_findings(certificate: Mapping[str, Any]) -> Iterable[str]:
    """Yield what does not hold of a certificate's map: nothing here needs the ledger."""
    stated, mechanism = certificate["map"], certified_mechanism(certificate)
    for number, column in enumerate(stated["columns"], start=1):
        if column.keys() != COLUMN_FIELDS:
            yield f"column {number} of its map has other fields than its format"
        elif column["hierarchy"] is not None and not _is_carried(column):
            yield f"the hierarchy of column {number} of its map is not the one that digest and level name"
    columns = [(column["column"], column["hierarchy_sha256"], column["level"]) for column in stated["columns"]]
    if _digest({"kind": "map/1", "columns": [list(column) for column in columns]}) != stated["sha256"]:
        yield "its map's digest is not that of the levels and hierarchies"
    priced = written.priced_choice(mechanism)
    if stated.keys() != (MAP_FIELDS if priced is None else MAP_FIELDS | {"selection"}):
        yield "it names a choice of the map exactly where its mechanism has one, and here it does not"
    elif priced is not None:
        yield from _choice_findings(stated["selection"], columns, certificate.get("published", {}), *priced)


def _is_carried(column: Mapping[str, Any]) -> bool:
    """Return whether a column's hierarchy has the digest that is named, in its one form, and the level."""
    description, named, level = column["hierarchy"], column["hierarchy_sha256"], column["level"]
    if _digest(description) != named:
        return False
    hierarchy = described_hierarchy(description)
    return hierarchy.digest() == named and type(level) is int and 0 <= level < hierarchy.levels


def _choice_findings(
    chosen: Mapping[str, Any],
    columns: Sequence[tuple[str, str, int]],
    published: Mapping[str, Any],
    priced: Mapping[str, Any],
    draws: int | None,
) -> Iterator[str]:
    """What does not hold of a choice among candidates; `priced` is what the mechanism says of it, for so many draws."""
    lattice = chosen["lattice"]
    if chosen.keys() != SELECTION_FIELDS:
        yield "its choice of the map has other fields than its format"
        return
    if _digest(lattice) != chosen["lattice_sha256"]:
        yield "its lattice's digest is not that of its candidates"
    bounds, listed = lattice["columns"], lattice["candidates"]
    size = math.prod(one["max_level"] - one["min_level"] + 1 for one in bounds) if listed is None else len(listed)
    if not _is_candidate(columns, lattice, published) or chosen["maps"] != size:
        yield "its map is none of the candidates that it names"
    if priced != {name: chosen[name] for name in priced}:
        yield "its choice of the map is not the one of its mechanism"
    if (chosen["rate"] is None) is not (chosen["sample_id"] is None):
        yield "it names a sample for the choice exactly where its mechanism reads one, and here it does not"
    draw, steps = chosen["draw"], chosen["steps"]
    if draw not in written.CHOICE_IN_WORDS or (draw == "walk") is not (type(steps) is int):
        yield "its draw is none that this version knows"
    elif not written.pays_for(draws, draw, steps):
        yield "its map was drawn otherwise than its mechanism was priced for"


def _is_candidate(
    columns: Sequence[tuple[str, str, int]], lattice: Mapping[str, Any], published: Mapping[str, Any]
) -> bool:
    """Whether a map's columns are the lattice's, at levels that one of its candidates has; and so for each stage."""
    bounds = lattice["columns"]
    if [(name, hierarchy) for name, hierarchy, _ in columns] != [(one["name"], one["hierarchy"]) for one in bounds]:
        return False
    levels = [level for _, _, level in columns]
    if any(type(level) is not int for level in levels) or any(Decimal(one["weight"]) < 0 for one in bounds):
        return False
    if lattice["kind"] == CHAINS:
        names = [name for name, _, _ in columns]
        chain = [[stage["levels"][name] for name in names] for stage in published["stages"]]
        return chain[0] == levels and chain in lattice["candidates"]
    if lattice["candidates"] is not None:
        return levels in lattice["candidates"]
    return all(one["min_level"] <= level <= one["max_level"] for one, level in zip(bounds, levels, strict=True))


def _digest(description: Mapping[str, object]) -> str:
    return hashlib.sha256(canonical_bytes(description)).hexdigest()


@_finding_if_unreadable("its guarantee can't be read")
def _unit_findings(certificate: Mapping[str, Any]) -> Iterable[str]:
    """Return whether unit, number of records and column agree with one another, and with the rule of the sampler."""
    guarantee, layout = certificate["guarantee"], certificate["sampler_layout"]
    column = guarantee.get("enforced_by")
    if (enforced_unit(layout) is not None) is not (isinstance(column, str) and column != ""):
        return ("it names a column that limits a unit's records exactly where its sampler has a limit, and here not",)
    if guarantee.get("unit") != written.unit_statement(layout, guarantee.get("rows_per_person")):
        return ("its unit is not the one whose records its sampler limits",)
    made = certificate.get("unit_records")
    if (made is not None) is not written.makes_records(layout):
        return ("it says how units' records were made exactly where its sampler puts them together, and here not",)
    if made is None:
        return ()
    names = {column["column"] for column in certificate["map"]["columns"]}
    if (
        made.keys() - {"table"} != {"members", "columns", "in_words"}
        or not made["columns"].keys() == made["in_words"].keys() == names
    ):
        raise ValueError("the rules of units' records have another form")
    return () if guarantee["rows_per_person"] == 1 else ("a unit's records make one, and its price is for several",)


@_finding_if_unreadable("its table of members can't be read")
def _member_findings(certificate: Mapping[str, Any]) -> Iterable[str]:
    """Return what does not hold of a table of members, which is there exactly where the mechanism has one."""
    mechanism, made = certificate["mechanism"], certificate.get("unit_records") or {}
    paid, view = "most_members" in mechanism, members_view(certificate)
    if not paid == (view is not None) == ("table" in made):
        return ("it has a table of members exactly where its mechanism has one, and here not",)
    if view is None:
        return ()
    stated, table = certificate["published"][MEMBERS], made["table"]
    levels = {name: [stage["levels"][name] for stage in stated["stages"]] for name in table["columns"]}
    chain = {column["column"]: column["level"] for column in stated["map"]["columns"]}
    as_said = (
        table.keys() == {"most", "columns", "in_words"}
        and stated["most"] == table["most"] == mechanism["most_members"]
        and levels == table["columns"]
        and chain == {name: own[0] for name, own in levels.items()}
        and len(stated["stages"]) == mechanism["member_stages"]
    )
    if not as_said:
        return ("its table of members is not the one of its mechanism and its rules",)
    return tuple(f"of its table of members: {finding}" for finding in map_findings(view))


@_finding_if_unreadable("its column of rates can't be read")
def _inclusion_findings(certificate: Mapping[str, Any]) -> Iterable[str]:
    """Return whether a column of rates is named where the sampler has one, with rates up to the one that is priced."""
    stated = certificate.get("inclusion")
    if (stated is not None) is not written.has_own_rates(certificate["sampler_layout"]):
        return ("it names a column of rates exactly where its sampler draws by one, and here not",)
    if stated is None:
        return ()
    rates = [Decimal(text) for text in stated["rates"]]
    mechanism = certified_mechanism(certificate)
    priced = kind_of(mechanism).sampling_rate(mechanism)
    ascend = rates[0] > 0 and all(low < high for low, high in pairwise(rates))
    if stated.keys() != {"column", "rates"} or not isinstance(stated["column"], str) or not ascend:
        raise ValueError("a column of rates has another form")
    return () if rates[-1] == priced else ("the highest of its rates is not the one that its price is for",)


CHECKS = (
    _form_findings,
    _price_findings,
    _filter_findings,
    map_findings,
    _unit_findings,
    _member_findings,
    _inclusion_findings,
)


def _file_findings(files: object, path: Path) -> Iterator[str]:
    if not isinstance(files, dict) or not files or not all(isinstance(one, str) for one in (*files, *files.values())):
        yield "it names no files"
        return
    beside = output_files(path.parent)
    present = beside.keys() - {path.name}
    for name in sorted(files.keys() - present):
        yield f"{name} is missing"
    for name in sorted(present - files.keys()):
        yield f"{name} is not named in the certificate"
    for name in sorted(files.keys() & present):
        file = beside[name]
        if file.is_symlink() or not file.is_file() or written.sha256_of_file(file) != files[name]:
            yield f"{name} is not the file that was certified"
