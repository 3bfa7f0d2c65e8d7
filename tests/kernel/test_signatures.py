"""Signing keys are private, and replaced without losing what they signed; a statement has one form."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter

import pytest
from crowdblend.accounting.kernel.keys.signing import (
    FIELD,
    SMALL_ORDER,
    PublicKey,
    SigningKey,
    SigningKeys,
    canonical_bytes,
    read_statement,
    signed_statement,
)
from crowdblend.accounting.kernel.ledger.entries import Head
from crowdblend.accounting.kernel.ledger.snapshot import AnchoredHead, require_own_signer
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.keys.signing_upkeep import create_where_none, rotate_key
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused


@pytest.fixture
def keys(tmp_path) -> SigningKeys:
    made = SigningKeys(home=tmp_path / "keys")
    create_where_none(made, os.urandom)
    return made


def test_the_signature_is_that_of_rfc_8032() -> None:
    """RFC 8032, section 7.1, TEST 2."""
    key = SigningKey(seed=bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
    assert key.public.raw.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    signature = (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert key.sign(domain=b"", message=b"\x72").hex() == signature
    assert key.public.verifies(domain=b"", message=b"\x72", signature=bytes.fromhex(signature))
    assert not key.public.verifies(domain=b"\x72", message=b"\x72", signature=bytes.fromhex(signature))


def test_keys_are_their_owners_alone(tmp_path) -> None:
    mask = os.umask(0)
    try:
        keys = SigningKeys(home=tmp_path / "home")
        create_where_none(keys, os.urandom)
        rotate_key(keys, os.urandom)
    finally:
        os.umask(mask)
    paths = [keys.home, *keys.home.rglob("*")]
    assert len(paths) == 6
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    (keys.home / "signing" / "current.key").chmod(0o640)
    with pytest.raises(InputRefused, match="chmod 600"):
        keys.current()


def test_looking_for_keys_makes_nothing(tmp_path) -> None:
    keys = SigningKeys(home=tmp_path / "home")
    assert keys.public_keys() == ()
    with pytest.raises(InputRefused, match=r"no signing key.*key rotate"):
        keys.current()
    assert not keys.home.exists()


def test_a_key_is_made_once_and_replaced_on_purpose(keys) -> None:
    first = keys.current()
    assert create_where_none(keys, os.urandom) == first.public
    assert keys.current() == first
    second, third = rotate_key(keys, os.urandom), rotate_key(keys, os.urandom)
    assert keys.current().public == third
    assert keys.public_keys()[0] == third
    assert set(keys.public_keys()) == {first.public, second, third}
    contents = [path.read_bytes() for path in keys.home.rglob("*") if path.is_file()]
    assert not any(first.seed in content for content in contents)
    assert first.seed.hex() not in repr(first)


def test_a_replaced_key_signs_no_head_after_one_of_a_later_key(keys) -> None:
    """The anchor's last line may be of a key before the present one, which signs all that follows."""
    first, stranger = keys.current().public, SigningKey(seed=b"\x09" * 32).public
    second, third = rotate_key(keys, os.urandom), rotate_key(keys, os.urandom)
    anchor = Anchoring(home=keys.home, file=None)

    def refused(signer: PublicKey, anchored: PublicKey | None, *, end: int = 3) -> str:
        head = Head(ledger_id="a" * 64, position=2, hash="b" * 64)
        try:
            require_own_signer(end, signer, anchor, anchored and AnchoredHead(head=head, key=anchored))
        except AccountantRefused as refusal:
            return str(refusal)
        return ""

    own = (first, second, third)
    for signer in own:
        assert [refused(signer, None), refused(signer, signer), refused(third, signer)] == [""] * 3
    for signer, anchored in ((first, second), (first, third), (second, first), (second, third)):
        assert "was replaced by another before that" in refused(signer, anchored)
    for anchored in (None, *own):
        assert "isn't of this private store" in refused(stranger, anchored)
        assert refused(stranger, anchored, end=0) == ""
    keys.key_file.unlink()
    assert refused(third, third) == ""
    assert "was replaced by another before that" in refused(third, second)


def test_a_public_key_has_32_bytes() -> None:
    for size in (0, 31, 33):
        with pytest.raises(ValueError, match="32 bytes"):
            PublicKey(raw=bytes(size))
        with pytest.raises(ValueError, match="32 bytes"):
            SigningKey(seed=bytes(size))


@pytest.mark.parametrize("y", [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18, 2**255 - 1])
@pytest.mark.parametrize("sign", [0, 1])
def test_a_key_for_which_anybody_could_sign_is_none(y, sign) -> None:
    with pytest.raises(ValueError, match="no public key that somebody can have made"):
        PublicKey(raw=(y | sign << 255).to_bytes(32, "little"))


def test_the_keys_that_are_none_are_all_points_whose_order_divides_8() -> None:
    """Of Edwards25519, −x² + y² = 1 + d x² y² (RFC 8032, sections 5.1 and 5.1.4); eight of its points have such one."""
    d = -121665 * pow(121666, -1, FIELD) % FIELD

    def doubled(x: int, y: int) -> tuple[int, int]:
        mixed = d * x * x * y * y
        return 2 * x * y * pow(1 + mixed, -1, FIELD) % FIELD, (y * y + x * x) * pow(1 - mixed, -1, FIELD) % FIELD

    points = set()
    for y in SMALL_ORDER:
        square = (y * y - 1) * pow(d * y * y + 1, -1, FIELD) % FIELD
        root = pow(square, (FIELD + 3) // 8, FIELD)
        x = root if root * root % FIELD == square else root * pow(2, (FIELD - 1) // 4, FIELD) % FIELD
        assert x * x % FIELD == square, "it is on the curve"
        points |= {(x, y), (-x % FIELD, y)}
    orders = []
    for point in points:
        order, multiple = 1, point
        while multiple != (0, 1) and order < 8:
            order, multiple = 2 * order, doubled(*multiple)
        assert multiple == (0, 1)
        orders.append(order)
    assert Counter(orders) == {1: 1, 2: 1, 4: 2, 8: 4}
    for x, y in points:
        with pytest.raises(ValueError, match="no public key that somebody can have made"):
            PublicKey(raw=(y | (x & 1) << 255).to_bytes(32, "little"))


def test_a_listed_key_has_its_id_as_its_name(tmp_path) -> None:
    keys = SigningKeys(home=tmp_path)
    public = create_where_none(keys, lambda n: b"\x05" * n)
    listed = tmp_path / "signing" / "public"
    other = SigningKey(seed=b"\x09" * 32).public
    (listed / f"{public.key_id}.pub").write_bytes(other.raw)
    with pytest.raises(InputRefused, match="a listed public key is damaged"):
        keys.public_keys()


def test_a_damaged_signing_key_signs_nothing_and_is_replaced_on_purpose(keys) -> None:
    earlier = keys.current().public
    path = keys.home / "signing" / "current.key"
    for damage in (b"", b"x" * 31, b"x" * 33):
        path.write_bytes(damage)
        for attempt in (keys.current, lambda: create_where_none(keys, os.urandom)):
            with pytest.raises(InputRefused, match=r"current.key: the signing key is damaged.*key rotate"):
                attempt()
        assert path.read_bytes() == damage
        assert keys.public_keys() == (earlier,)
    fresh = rotate_key(keys, os.urandom)
    assert keys.current().public == fresh
    assert set(keys.public_keys()) == {earlier, fresh}


def test_signing_keys_that_can_not_be_read_are_told(keys) -> None:
    path = keys.home / "signing" / "current.key"
    path.unlink()
    path.mkdir()
    for attempt in (keys.current, keys.public_keys, lambda: rotate_key(keys, os.urandom)):
        with pytest.raises(InputRefused, match=r"the signing keys can't be used \(Is a directory\).*CROWDBLEND_HOME"):
            attempt()


def test_a_statement_has_one_form_and_every_byte_of_it_counts() -> None:
    key, domain = SigningKey(seed=bytes(range(32))), b"a test\n"
    line = signed_statement({"place": 7, "said": "x"}, key, domain=domain)
    assert read_statement(line).holds(domain=domain)
    assert not read_statement(line).holds(domain=b"another\n")
    for place in range(len(line)):
        for other in (line[place] ^ 1, line[place] ^ 0x20):
            try:
                read = read_statement(line[:place] + bytes([other]) + line[place + 1 :])
            except ValueError:
                continue
            assert not read.holds(domain=domain), place
    document = json.loads(line)
    wrong = [{name: value for name, value in document.items() if name != gone} for gone in document]
    wrong += [document | {name: 7} for name in ("public_key", "key_id", "signature")]
    wrong += [document | {"signature": document["signature"].upper()}, [document]]
    forms = [canonical_bytes(one) if isinstance(one, dict) else json.dumps(one).encode() for one in wrong]
    for form in (*forms, b"[" * 100_000, json.dumps(document).encode()):
        try:
            assert not read_statement(form).holds(domain=domain)
        except ValueError:
            continue
