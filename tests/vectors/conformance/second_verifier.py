"""Run as a program: a verifier of certificates written from docs/formats, with the standard library and `cryptography`.

    python tests/vectors/conformance/second_verifier.py CASE

It shares no code with this project. It computes the prices of single strongly-safe releases and of counts; of another
price, and of a ledger, it gives no answer, and leaves with 3.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal, getcontext
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

FIELDS = {
    "code_sources", "code_version", "dataset", "day", "files", "format", "guarantee", "ledger", "map", "mechanism",
    "name", "private_looks", "published", "release_id", "sample_id", "sampler_layout", "series", "signature",
}  # fmt: skip
SIGNATURE = {"algorithm", "key_id", "public_key", "value"}
AMOUNT = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]*[1-9])?")
DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?(E[+-]?[0-9]+)?")
DIGEST = re.compile(r"[0-9a-f]{64}")
BLOCK = re.compile(rb"-----BEGIN PUBLIC KEY-----\n.*?-----END PUBLIC KEY-----\n", re.DOTALL)
TOLERANCE = Decimal("1e-9")
LARGEST_K = 10_000
getcontext().prec = 60


class RefusedError(Exception):
    """What does not hold."""


class UndecidedError(Exception):
    """What this verifier can't compute."""


def need(holds: object, what: str) -> None:
    if not holds:
        raise RefusedError(what)


def canonical(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_whole(value: object, least: int) -> bool:
    return type(value) is int and value >= least


def is_name(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 200 and value.isprintable() and value == value.strip()


def is_digest(value: object) -> bool:
    return isinstance(value, str) and DIGEST.fullmatch(value) is not None


def is_day(value: object) -> bool:
    try:
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def amount(value: object) -> Decimal:
    need(isinstance(value, str) and AMOUNT.fullmatch(value), "an amount has another form")
    return Decimal(str(value))


def read(case: Path) -> dict[str, Any]:
    content = (case / "release" / "certificate.json").read_bytes()
    try:
        found = json.loads(content.decode("utf-8"))
        written = (json.dumps(found, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()
    except (ValueError, RecursionError):
        raise RefusedError("it is no JSON in UTF-8") from None
    need(isinstance(found, dict) and found.get("format") == "crowdblend-certificate/5", "it is of another format")
    need(written == content, "its bytes are not the one form")
    need(
        FIELDS <= found.keys() <= FIELDS | {"inclusion", "filter_budget", "unit_records"},
        "a field is missing or unknown",
    )
    return dict(found)


def check_signature(found: dict[str, Any], keys: list[bytes]) -> None:
    signature = found["signature"]
    need(
        isinstance(signature, dict) and signature.keys() == {"algorithm", "key_id", "public_key", "value"},
        "no signature",
    )
    need(is_digest(signature["public_key"]), "the public key has another form")
    need(re.fullmatch("[0-9a-f]{128}", str(signature["value"])), "the signature has another form")
    raw = bytes.fromhex(signature["public_key"])
    need(raw in keys, "the key is none of the publisher's")
    need((signature["algorithm"], signature["key_id"]) == ("Ed25519", digest(raw)[:16]), "the key is another one")
    stated = {**found, "signature": {name: part for name, part in signature.items() if name != "value"}}
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(
            bytes.fromhex(signature["value"]), b"crowdblend certificate 5\n" + canonical(stated)
        )
    except (InvalidSignature, ValueError):
        raise RefusedError("the signature does not hold") from None


def check_forms(found: dict[str, Any]) -> None:
    need(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}", str(found["release_id"])), "the release's id")
    need(all(is_name(found[name]) for name in ("name", "dataset", "code_version", "sampler_layout")), "a name")
    need(is_digest(found["sample_id"]) and is_digest(found["code_sources"]) and is_day(found["day"]), "an id or a day")
    need(isinstance(found["published"], dict), "what is published has another form")
    place, looks = found["ledger"], found["private_looks"]
    need(isinstance(place, dict) and place.keys() == {"position", "hash"}, "the place in the ledger")
    need(is_whole(place["position"], 0) and is_digest(place["hash"]), "the place in the ledger")
    need(isinstance(looks, dict) and looks.keys() == {"count", "last_day"} and is_whole(looks["count"], 0), "looks")
    need(is_day(looks["last_day"]) if looks["count"] else looks["last_day"] is None, "the day of the last look")
    guarantee, layout = found["guarantee"], found["sampler_layout"]
    need(isinstance(guarantee, dict) and is_whole(guarantee.get("rows_per_person"), 1), "the guarantee")
    limits = {f"aes-{rule}-{unit}/1": unit for rule in ("contributions", "units") for unit in ("person", "household")}
    unit, few = limits.get(layout.partition(" ")[0]), guarantee["rows_per_person"]
    shown = "one record" if few == 1 else f"{few} records"
    need(guarantee.get("unit") == f"one {unit or 'person'}, at most {shown}", "the unit")
    need((unit is not None) is ("enforced_by" in guarantee), "what limits the unit")
    need(layout.startswith("aes-units-") is ("unit_records" in found), "how units' records were made")
    need(("-inclusion/" in layout) is ("inclusion" in found), "the column of rates")


def mass(j: int, n: int, rate: Decimal) -> Decimal:
    return math.comb(n, j) * rate**j * (1 - rate) ** (n - j) if j <= n else Decimal(0)


def profile(k: int, rate: Decimal, epsilon: Decimal) -> Decimal:
    growth = epsilon.exp()
    gamma, eta = 1 - (1 - rate) / growth, 1 - growth * (1 - rate)
    n = max(k, math.ceil((k - 1) / gamma))
    over = range(math.floor(gamma * n) + 1, n + 1)
    adding = sum((mass(j, n, rate) - growth * mass(j, n - 1, rate) for j in over), Decimal(0))
    if eta <= 0:
        return adding
    n = max(1, math.ceil((k - 1) / eta))
    under = range(math.ceil(eta * n))
    return max(adding, sum((mass(j, n - 1, rate) - growth * mass(j, n, rate) for j in under), Decimal(0)))


def bound(k: int, rate: Decimal, epsilon: Decimal) -> Decimal:
    gamma, best = 1 - (1 - rate) / epsilon.exp(), Decimal(0)
    divergence = gamma * (gamma / rate).ln() - (1 - gamma) * epsilon
    for least in range(k, k + LARGEST_K):
        n = math.ceil(least / gamma) - 1
        best = max(best, 1 - sum((mass(j, n, rate) for j in range(least)), Decimal(0)))
        if (-n * divergence).exp() <= best:
            break
    return best


def is_least(stated: Decimal, delta: Decimal, of: Callable[[Decimal], Decimal]) -> bool:
    """Whether an ε is, within the tolerance, the least one whose δ is at most the stated one."""
    return stated > 0 and of(stated * (1 + TOLERANCE)) <= delta < of(stated * (1 - TOLERANCE))


def check_price(found: dict[str, Any]) -> None:
    record, guarantee = found["mechanism"], found["guarantee"]
    need(isinstance(record, dict), "the mechanism has no record")
    epsilon, delta = amount(guarantee.get("epsilon")), amount(guarantee.get("delta"))
    paper = guarantee.get("epsilon_paper", "")
    rule, relation = guarantee.get("rule"), guarantee.get("neighbours")
    place = found["series"]
    if place is not None:
        need(isinstance(place, dict) and place.keys() == {"name", "number", "releases"}, "the place in the series")
        need(is_whole(place["number"], 1) and is_whole(place["releases"], place["number"]), "the place in the series")
        need(rule in ("series-game/1", "pld/1", "basic-exact/1"), "the rule is none of a series")
        raise UndecidedError("the price of a series")
    need(guarantee["rows_per_person"] == 1 or str(rule).startswith("group-privacy/1+"), "the rule is of one record")
    if record.get("kind") == "count-answer/1":
        need(record.keys() == {"kind", "epsilon", "groups", "relation", "sampling_rate"}, "the record's fields")
        if record["sampling_rate"] != "whole":
            raise UndecidedError("the price of a count on a sample")
        need((rule, relation, delta, paper) == ("pure-noise/1", record["relation"], 0, None), "the price")
        need(abs(epsilon - Decimal(record["epsilon"])) <= TOLERANCE * epsilon, "ε is another one")
        return
    need(record.get("kind") == "strongly-safe-release/1", "the mechanism is of an unknown kind")
    need(record.keys() == {"kind", "k", "sampling_rate"}, "the record's fields")
    k, text = record["k"], record["sampling_rate"]
    need(is_whole(k, 1) and isinstance(text, str) and DECIMAL.fullmatch(text), "the record's values")
    rate = Decimal(text)
    need(0 < rate < 1 and 0 < delta < 1 and k <= LARGEST_K and delta >= rate**k, "there is no price")
    need((rule, relation) == ("exact-profile/1", "add/remove"), "the rule or the relation")
    need(is_least(epsilon, delta, lambda at: profile(k, rate, at)), "ε is another one")
    need(is_least(amount(paper), delta, lambda at: bound(k, rate, at)), "the published bound's ε is another one")


MOST_DAYS = 200_000
DATE_PARTS: dict[str, Callable[[date], str]] = {
    "month": lambda day: f"{day.year:04}-{day.month:02}",
    "quarter": lambda day: f"{day.year:04}-Q{(day.month + 2) // 3}",
    "year": lambda day: f"{day.year:04}",
    "decade": lambda day: f"{day.year // 10:03}0s",
}


def labels(hierarchy: dict[str, Any], level: object) -> Callable[[str], bool]:
    """Which texts are labels of a level of a hierarchy, which is checked."""
    if hierarchy.get("kind") == "values/1":
        rows, levels = hierarchy["rows"], hierarchy["levels"]
        need(rows and rows == sorted(rows, key=lambda row: row[0].encode()), "the rows' order")
        need(len({row[0] for row in rows} | {"*"}) == len(rows) + 1, "a value stands there twice")
        need(all(len(row) == levels and all(row) for row in rows), "a row's labels")
        for at in range(levels - 1):
            above: dict[str, str] = {"*": "*"}
            need(all(above.setdefault(row[at], row[at + 1]) == row[at + 1] for row in rows), "equal labels part")
        need(type(level) is int and 0 <= level < levels, "there is no such level")
        return {row[int(str(level))] for row in rows}.__contains__
    if hierarchy.get("kind") == "interval/1":
        lower, upper, widths = hierarchy["lower"], hierarchy["upper"], hierarchy["widths"]
        need(type(level) is int and 0 <= level < len(widths) + 2, "there is no such level")
        at = int(str(level))
        if at == len(widths) + 1:
            return lambda _: False
        width, ends = [1, *widths][at], {f"< {lower}", f">= {upper}"}
        starts = range(lower, upper, width)
        return (ends | {str(a) if at == 0 else f"[{a}, {min(a + width, upper)})" for a in starts}).__contains__
    if hierarchy.get("kind") == "dates/1":
        need(hierarchy.keys() == {"kind", "from", "to", "levels"}, "the hierarchy's fields")
        need(is_day(hierarchy["from"]) and is_day(hierarchy["to"]), "a bound of days")
        start, end = (date.fromisoformat(hierarchy[name]).toordinal() for name in ("from", "to"))
        merged = hierarchy["levels"]
        need(
            0 <= end - start < MOST_DAYS and merged == [name for name in DATE_PARTS if name in merged], "days or levels"
        )
        need(type(level) is int and 0 <= level < len(merged) + 2, "there is no such level")
        part = [date.isoformat, *(DATE_PARTS[name] for name in merged), lambda _: "*"][int(str(level))]
        return {part(date.fromordinal(number)) for number in range(start, end + 1)}.__contains__
    if hierarchy.get("kind") in ("decimal-interval/1", "number-steps/1", "weight-classes/1"):
        raise UndecidedError("labels of decimals")
    raise RefusedError("the hierarchy is of an unknown kind")


def check_map(found: dict[str, Any]) -> dict[str, Callable[[str], bool]]:
    """The labels that each column may have, where its hierarchy is carried."""
    stated = found["map"]
    need(isinstance(stated, dict) and stated.keys() == {"sha256", "columns"}, "the map's fields")
    allowed, named = {}, []
    for column in stated["columns"]:
        need(column.keys() == {"column", "hierarchy", "hierarchy_sha256", "level"}, "a column's fields")
        named.append([column["column"], column["hierarchy_sha256"], column["level"]])
        if column["hierarchy"] is not None:
            need(digest(canonical(column["hierarchy"])) == column["hierarchy_sha256"], "a hierarchy's digest")
            allowed[column["column"]] = labels(column["hierarchy"], column["level"])
    need(digest(canonical({"kind": "map/1", "columns": named})) == stated["sha256"], "the map's digest")
    return allowed


def check_files(found: dict[str, Any], folder: Path) -> None:
    files = found["files"]
    need(isinstance(files, dict) and files and all(is_digest(one) for one in files.values()), "the files' digests")
    need("certificate.json" not in files, "the certificate names itself")
    there = {
        str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()
    }
    there.pop("certificate.json")
    need(there.keys() == files.keys(), "the folder has other files")
    for name, path in there.items():
        need(
            not path.is_symlink() and path.is_file() and digest(path.read_bytes()) == files[name],
            f"{name} is another file",
        )
    margins = "margins" in found["published"] or files.keys() & {"margins.csv", "margins.parquet"}
    need(not margins or "margins" in found["mechanism"], "margins are unpaid")


def check_labels(allowed: dict[str, Callable[[str], bool]], folder: Path) -> None:
    for row in csv.DictReader(io.StringIO((folder / "data.csv").read_text(encoding="utf-8"), newline="")):
        for column, is_label in allowed.items():
            need(column not in row or row[column] == "*" or is_label(row[column]), "a label is none of its hierarchy")


def check(case: Path) -> None:
    """Check a certificate and its files.

    Raises:
        RefusedError: it does not hold.
        UndecidedError: it needs what this verifier can't compute.
    """
    if not (case / "release").is_dir():
        raise UndecidedError("a ledger")
    blocks = [load_pem_public_key(block) for block in BLOCK.findall((case / "publisher.pem").read_bytes())]
    keys = [key.public_bytes_raw() for key in blocks if isinstance(key, Ed25519PublicKey)]
    found = read(case)
    check_signature(found, keys)
    try:
        check_forms(found)
        check_files(found, case / "release")
        if "filter_budget" in found:
            need({"charge", "epsilon", "delta", "order"} <= found["filter_budget"].keys(), "the filter budget's fields")
            raise UndecidedError("a filter budget")
        check_labels(check_map(found), case / "release")
        check_price(found)
    except (ArithmeticError, AttributeError, KeyError, TypeError):
        raise RefusedError("a field has another form") from None


def main(case: Path) -> int:
    """Answer by the protocol; gives the exit code."""
    findings = []
    try:
        check(case)
    except RefusedError as refused:
        findings.append(str(refused))
    except UndecidedError as undecided:
        print(f"can't compute: {undecided}", file=sys.stderr)
        return 3
    print(json.dumps({"holds": not findings, "findings": findings}))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
