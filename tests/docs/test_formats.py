"""The examples on the pages of formats, computed again with the standard library and `cryptography` alone."""

from __future__ import annotations

import hashlib
import json
import math
import re
from base64 import b64decode, b64encode
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

PROJECT = Path(__file__).resolve().parents[2]
PAGES = PROJECT / "docs" / "formats"
CASES = PROJECT / "tests" / "vectors" / "conformance"
RELEASE = CASES / "certificate" / "sound" / "release"


def blocks(page: str) -> list[list[str]]:
    """The lines of each example on a page."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return [block.splitlines() for block in re.findall(r"^```\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]


def canonical(document: object) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def key_of(case: Path) -> Ed25519PublicKey:
    key = load_pem_public_key((case / "publisher.pem").read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    return key


def message_of(certificate: dict[str, Any]) -> bytes:
    signature = {name: part for name, part in certificate["signature"].items() if name != "value"}
    return b"crowdblend certificate 5\n" + canonical({**certificate, "signature": signature})


def test_the_certificate_has_the_bytes_and_the_signature_of_the_page() -> None:
    content = (RELEASE / "certificate.json").read_bytes()
    certificate = json.loads(content)
    written = json.dumps(certificate, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    assert written.encode() == content
    parts, shown, file = blocks("certificate.md")
    message = message_of(certificate)
    assert message.startswith("\n".join(parts[:2]).encode())
    assert message.endswith(parts[2].encode())
    assert shown == [digest(message), certificate["signature"]["value"]]
    key = key_of(RELEASE.parent)
    key.verify(bytes.fromhex(shown[1]), message)
    with pytest.raises(InvalidSignature):
        key.verify(bytes.fromhex(shown[1]), message + b" ")
    assert certificate["signature"]["key_id"] == digest(key.public_bytes_raw())[:16]
    table = b"sex,count\nFemale,21\nMale,34\n"
    assert file == [digest(table)] == [certificate["files"]["data.csv"]]
    assert (RELEASE / "data.csv").read_bytes() == table


def test_commitments_are_those_of_the_page() -> None:
    certificate = json.loads((RELEASE / "certificate.json").read_bytes())
    sample, specification, hierarchy, mapped = blocks("commitments.md")
    key = hashlib.sha256(b"one").digest()
    tag = b"crowdblend/sample-commitment/1\x00"
    assert len(tag) == 31
    assert sample == [key.hex(), digest(tag + key)]
    assert certificate["sample_id"] == sample[1]
    vectors = json.loads((PROJECT / "tests" / "vectors" / "releases.json").read_bytes())
    [charge] = [
        link["entry"]
        for link in vectors["ledger"]
        if link["entry"]["kind"].startswith("release-charged/")
        and link["entry"]["release_id"] == "microdata-counts-csv"
    ]
    stated = json.loads(specification[0])
    assert canonical(stated) == specification[0].encode()
    assert (stated["map"], stated["mechanism"]) == (charge["map_digest"], charge["mechanism"])
    assert specification[1] == digest(b"crowdblend specification 1\n" + specification[0].encode())
    assert charge["spec_digest"] == specification[1]
    [column] = certificate["map"]["columns"]
    assert hierarchy == [canonical(column["hierarchy"]).decode(), digest(hierarchy[0].encode())]
    assert column["hierarchy_sha256"] == hierarchy[1]
    columns = [[column["column"], column["hierarchy_sha256"], column["level"]]]
    assert mapped == [canonical({"kind": "map/1", "columns": columns}).decode(), digest(mapped[0].encode())]
    assert certificate["map"]["sha256"] == mapped[1]


def chained(previous: str, position: int, body: bytes) -> bytes:
    return b"crowdblend ledger entry 1\n" + bytes.fromhex(previous) + position.to_bytes(8, "big") + body


def test_the_chain_and_its_anchor_are_those_of_the_pages() -> None:
    case = CASES / "ledger" / "sound"
    links = [json.loads(line) for line in (case / "ledger.jsonl").read_bytes().splitlines()]
    previous = "0" * 64
    for position, link in enumerate(links):
        assert (link["position"], link["previous"]) == (position, previous)
        assert canonical(json.loads(link["body"])) == link["body"].encode()
        previous = digest(chained(previous, position, link["body"].encode()))
        assert link["hash"] == previous
    _, entries, prefix = blocks("ledger.md")
    assert entries == [text for link in links[:2] for text in (link["body"], link["hash"])]
    whole = chained(entries[1], 1, entries[2].encode())
    assert whole == bytes.fromhex("".join(prefix)) + entries[2].encode()
    [[line, shown]] = blocks("anchor.md")
    assert (case / "anchor.jsonl").read_bytes() == line.encode() + b"\n"
    stated = json.loads(line)
    assert canonical(stated) == line.encode()
    signature = bytes.fromhex(stated.pop("signature"))
    message = b"crowdblend ledger anchor 1\n" + canonical(stated)
    assert shown == digest(message)
    key_of(case).verify(signature, message)
    assert (stated["position"], stated["hash"]) == (links[-1]["position"], links[-1]["hash"])
    assert stated["ledger_id"] == json.loads(links[0]["body"])["ledger_id"]


def test_the_committed_ledger_has_the_chain_and_the_anchor_of_the_pages() -> None:
    """It is older than the pages, and has entries of every kind."""
    golden = PROJECT / "tests" / "vectors" / "ledger"
    heads, previous = {}, "0" * 64
    for position, body in enumerate((golden / "entries.jsonl").read_bytes().splitlines()):
        previous = digest(chained(previous, position, body))
        heads[position] = previous
    lines = (golden / "anchor.jsonl").read_bytes().splitlines()
    assert lines
    for line in lines:
        stated = json.loads(line)
        signature = bytes.fromhex(stated.pop("signature"))
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(stated["public_key"]))
        key.verify(signature, b"crowdblend ledger anchor 1\n" + canonical(stated))
        assert heads[stated["position"]] == stated["hash"]


def delta_of(k: int, rate: Decimal, epsilon: Decimal) -> Decimal:
    """δ(ε) of a strongly-safe release as the page says, in 60 digits."""
    growth = epsilon.exp()
    gamma, eta = 1 - (1 - rate) / growth, 1 - growth * (1 - rate)

    def mass(j: int, n: int) -> Decimal:
        return math.comb(n, j) * rate**j * (1 - rate) ** (n - j) if j <= n else Decimal(0)

    n = max(k, math.ceil((k - 1) / gamma))
    adding = sum((mass(j, n) - growth * mass(j, n - 1) for j in range(n + 1) if j > gamma * n), Decimal(0))
    if eta <= 0:
        return adding
    n = max(1, math.ceil((k - 1) / eta))
    removing = sum((mass(j, n - 1) - growth * mass(j, n) for j in range(n + 1) if j < eta * n), Decimal(0))
    return max(adding, removing)


def published_bound(k: int, rate: Decimal, epsilon: Decimal) -> Decimal:
    """Pr[Bin(n, β) > γn] at the largest, over the first 60 thresholds: it falls from the first ones on."""
    gamma, best = 1 - (1 - rate) / epsilon.exp(), Decimal(0)
    for least in range(k, k + 60):
        n = math.ceil(least / gamma) - 1
        below = sum((math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(least)), Decimal(0))
        best = max(best, 1 - below)
    return best


def test_the_price_is_the_one_of_the_page() -> None:
    guarantee = json.loads((RELEASE / "certificate.json").read_bytes())["guarantee"]
    page = (PAGES / "prices.md").read_text(encoding="utf-8")
    assert f"the price is `{guarantee['epsilon']}`" in page
    assert f"Of the example it is `{guarantee['epsilon_paper']}`" in page
    rate, delta = Decimal("0.1"), Decimal(guarantee["delta"])
    tolerance = Decimal("1e-9")
    with localcontext() as context:
        context.prec = 60
        for stated, profile in (("epsilon", delta_of), ("epsilon_paper", published_bound)):
            epsilon = Decimal(guarantee[stated])
            over, under = (profile(20, rate, epsilon * (1 + sign * tolerance)) for sign in (1, -1))
            assert over <= delta < under
            if stated == "epsilon":
                assert [f"{float(found / delta - 1):+.2e}" for found in (over, under)] == blocks("prices.md")[0]


def tree(leaves: list[bytes]) -> bytes:
    """The root over leaves' contents."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    left = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + tree(leaves[:left]) + tree(leaves[left:])).digest()


def test_the_checkpoint_and_its_cosignatures_are_those_of_the_page() -> None:
    case = CASES / "ledger" / "sound-witnessed"
    hashes = [bytes.fromhex(json.loads(line)["hash"]) for line in (case / "ledger.jsonl").read_bytes().splitlines()]
    shown, checkpoint, policy = blocks("checkpoint.md")
    assert shown == [*(tree([one]).hex() for one in hashes[:2]), b64encode(tree(hashes[:2])).decode()]
    assert (case / "checkpoint").read_text(encoding="utf-8").splitlines() == checkpoint
    assert (case / "witnesses").read_text(encoding="utf-8").splitlines() == policy
    assert checkpoint[:4] == [
        f"crowdblend/ledger/{'1e' * 32}",
        str(len(hashes)),
        b64encode(tree(hashes)).decode(),
        "",
    ]
    text = "".join(f"{line}\n" for line in checkpoint[:3]).encode()
    keys = {line.split(" ")[2] for line in policy if line.startswith("witness ")}
    assert len(keys) == 3
    for number, line in enumerate(checkpoint[4:]):
        dash, name, encoded = line.split(" ")
        raw = b64decode(encoded, validate=True)
        if number == 0:
            kind, key, message = 1, key_of(case), text
            assert (dash, name) == ("\u2014", checkpoint[0])
        else:
            [content] = [one.split("+", 2)[2] for one in keys if one.startswith(f"{name}+{raw[:4].hex()}+")]
            kind, key = b64decode(content)[0], Ed25519PublicKey.from_public_bytes(b64decode(content)[1:])
            message = f"cosignature/v1\ntime {int.from_bytes(raw[4:12], 'big')}\n".encode() + text
        assert kind == (4 if number else 1)
        assert raw[:4] == hashlib.sha256(f"{name}\n".encode() + bytes([kind]) + key.public_bytes_raw()).digest()[:4]
        key.verify(raw[-64:], message)
        with pytest.raises(InvalidSignature):
            key.verify(raw[-64:], message + b"\n")
