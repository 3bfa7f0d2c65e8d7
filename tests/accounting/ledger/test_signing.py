"""Signing keys are private and replaced without losing what they signed; every byte of a certificate counts."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from crowdblend.accounting.certificate.verify import check_certificate, verify_certificate
from crowdblend.accounting.certificate.write import certificate_bytes
from crowdblend.accounting.kernel.keys.signing import PublicKey, SigningKey, SigningKeys
from crowdblend.accounting.keys.signing_upkeep import create_where_none, pem_of, read_public_keys, rotate_key
from crowdblend.mechanisms.kernel.errors import InputRefused


@pytest.fixture
def keys(tmp_path) -> SigningKeys:
    made = SigningKeys(home=tmp_path / "keys")
    create_where_none(made, os.urandom)
    return made


@pytest.fixture
def certificate(certified, keys, tmp_path) -> Path:
    return certified(tmp_path / "output", key=keys.current())


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


def test_a_crash_in_a_rotation_leaves_a_key_that_is_listed(keys, monkeypatch) -> None:
    from crowdblend.accounting.keys import signing_upkeep as signing

    before = keys.current()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(signing, "replace_secret", crash)
        with pytest.raises(KeyboardInterrupt):
            rotate_key(keys, os.urandom)
    assert keys.current() == before
    assert keys.public_keys()[0] == before.public
    assert rotate_key(keys, os.urandom) in keys.public_keys()


def test_public_keys_travel_in_pem(keys, tmp_path) -> None:
    rotate_key(keys, os.urandom)
    file = tmp_path / "keys.pem"
    file.write_bytes(b"".join(pem_of(key) for key in keys.public_keys()))
    assert read_public_keys(file) == keys.public_keys()
    for content in (b"", b"x", keys.current().seed, b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"):
        file.write_bytes(content)
        with pytest.raises(InputRefused, match="Ed25519"):
            read_public_keys(file)
    with pytest.raises(InputRefused, match="can't be read"):
        read_public_keys(tmp_path / "none.pem")


def test_a_certificate_is_a_function_of_public_facts_and_its_key(certified, keys, tmp_path) -> None:
    one, two = (certified(tmp_path / name, key=keys.current()).read_bytes() for name in ("one", "two"))
    assert one == two


def test_the_signature_says_whose_it_is_only_with_a_key(certificate, keys) -> None:
    public = keys.current().public
    open_question = verify_certificate(certificate, trusted=None)
    assert (open_question.findings, open_question.signed_by) == ((), public.key_id)
    assert "whose key" in open_question.unchecked[0]
    answered = verify_certificate(certificate, trusted=(public,))
    assert (answered.findings, answered.unchecked) == ((), ())
    other = SigningKey(seed=bytes(32)).public
    assert "none of those that were given" in check_certificate(certificate, trusted=(other,))[0]
    rotate_key(keys, os.urandom)
    assert check_certificate(certificate, trusted=keys.public_keys()) == ()
    assert check_certificate(certificate, trusted=keys.public_keys()[:1]) != ()


def test_it_verifies_on_a_copy_with_nothing_else(certificate, sqlite_books, keys, tmp_path) -> None:
    public = keys.current().public
    shutil.copytree(certificate.parent, tmp_path / "copy")
    shutil.rmtree(certificate.parent)
    shutil.rmtree(keys.home)
    shutil.rmtree(sqlite_books.anchoring.home)
    Path(sqlite_books.url.removeprefix("sqlite:///")).unlink()
    assert check_certificate(tmp_path / "copy" / "certificate.json", trusted=(public,)) == ()


@pytest.mark.slow
def test_every_byte_of_a_certificate_counts(certificate, keys) -> None:
    """Each byte replaced by another, removed, and doubled; fixed seed."""
    sound = certificate.read_bytes()
    trusted = (keys.current().public,)
    randomness = np.random.default_rng(20260304)
    for place in range(len(sound)):
        other = bytes([(sound[place] + int(randomness.integers(1, 256))) % 256])
        flipped = bytes([sound[place] ^ (1 << int(randomness.integers(8)))])
        for middle in (other, flipped, b"", sound[place : place + 1] + b" "):
            certificate.write_bytes(sound[:place] + middle + sound[place + 1 :])
            assert check_certificate(certificate, trusted=trusted), (place, middle)
            assert check_certificate(certificate), (place, middle)
    certificate.write_bytes(sound)
    assert check_certificate(certificate, trusted=trusted) == ()


def leaves(value, path: tuple = ()):
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, member in pairs:
            yield from leaves(member, (*path, name))
    else:
        yield path, value


def test_every_field_of_a_certificate_counts(certificate) -> None:
    """Each value changed, in the form in which certificates are written."""
    sound = json.loads(certificate.read_bytes())
    found = list(leaves(sound))
    assert len(found) > 30
    for path, value in found:
        document = json.loads(certificate.read_bytes())
        inner = document
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value + 1 if isinstance(value, int) else "0" + str(value)[1:] + "1"
        forged = certificate.with_name("certificate.json.forged")
        forged.write_bytes(certificate_bytes(document))
        assert any("signature" in what or "not a certificate" in what for what in check_certificate(forged)), path
        forged.unlink()


def test_another_form_of_the_same_fields_is_not_the_certificate(certificate) -> None:
    """The control: the signature itself still holds, since it is over the fields."""
    document = json.loads(certificate.read_bytes())
    certificate.write_text(json.dumps(document))
    assert check_certificate(certificate) == ("its bytes are not those that were written, though its fields are",)


def test_who_signs_a_forgery_with_a_key_of_his_own_is_found_with_the_publishers(certificate, keys) -> None:
    from crowdblend.accounting.certificate.write import DOMAIN, signed_bytes

    forger = SigningKey(seed=bytes(range(32)))
    document = json.loads(certificate.read_bytes())
    document["published"]["records"] += 1
    document["signature"] |= {"key_id": forger.public.key_id, "public_key": forger.public.raw.hex()}
    document["signature"]["value"] = forger.sign(domain=DOMAIN, message=signed_bytes(document)).hex()
    certificate.write_bytes(certificate_bytes(document))
    assert check_certificate(certificate) == ()
    assert check_certificate(certificate, trusted=keys.public_keys()) != ()
    document["signature"]["key_id"] = keys.current().public.key_id
    document["signature"]["value"] = forger.sign(domain=DOMAIN, message=signed_bytes(document)).hex()
    certificate.write_bytes(certificate_bytes(document))
    assert check_certificate(certificate) != ()


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


def test_a_listed_key_has_its_id_as_its_name(tmp_path) -> None:
    keys = SigningKeys(home=tmp_path)
    public = create_where_none(keys, lambda n: b"\x05" * n)
    listed = tmp_path / "signing" / "public"
    other = SigningKey(seed=b"\x09" * 32).public
    (listed / f"{public.key_id}.pub").write_bytes(other.raw)
    with pytest.raises(InputRefused, match="a listed public key is damaged"):
        keys.public_keys()
