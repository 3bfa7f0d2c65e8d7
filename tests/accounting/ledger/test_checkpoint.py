"""Merkle tree, proofs and signed checkpoints: held against the standards' own examples and a second implementation."""

from __future__ import annotations

import hashlib
import time
from base64 import b64decode, b64encode

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKey
from crowdblend.accounting.ledger.checkpoint import (
    LONGEST_NOTE,
    LONGEST_REQUEST,
    PLAIN,
    TIMED,
    CheckpointRequest,
    InclusionProof,
    MerkleTree,
    NoteKey,
    NoteSignature,
    checkpoint_text,
    consistent,
    included,
    leaf_hash,
    note,
    origin_of,
    read_checkpoint,
    read_inclusion_proof,
    read_note_key,
    read_policy,
    read_request,
    time_of,
)
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

LEAVES = [
    bytes.fromhex(one)
    for one in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
"""Of the first 0 to 8 of these leaves: the examples of Certificate Transparency's own tests."""
FROM_6_TO_8 = (
    "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
)
PUBLISHED = """arche2025h1.staging.ct.transparency.dev
1432088532
U7WM79jrzyhGZ5/GUBTpM7NzwdyfFx61t3RovgcC4Ro=

— arche2025h1.staging.ct.transparency.dev zTM8sQAAAZ5W0WdjBAMARjBEAiBjW5IQf9pvsYLfQFX6hoGREPMHbdQ3urbllzalApkptQIgIpwtEroeW2BXaHAI4kJXFbon5Ch9MNL5zRNZ55lvGt0=
— arche2025h1.staging.ct.transparency.dev ui8GwCF1+kWqZrxGdhj4aX3gcw7XUlXQQabg/27lefwhUkzbC3NygNI75MdhL1bfTW9g8Ei59RA23oHP7Ry1k3ZFWwQ=
— transparency.dev/DEV:witness-little-garden 2AQqhwAAAABqEiEgzgFIqqhbUoDwjMWE6UP8nd8/KYTzwZ2rhIgcqoXHAwVkjZr4AscylP3v7sEodkRAErumC2q44vdgJY096st5BQ==
— witness1.smartit.nu/witness1 pIyCDwAAAABqEiEghIp82KWebrw7/oHQwlTAm3g2RKS4+eebl8eO0WH+/iEcxZ75W3u5hNI7TOQtmJbqmNWVuE0tgh0XwzdZsDsUAQ==
— remora.n621.de 2net5wAAAABqEiEgPlfF3V06o0Y+fHM+J5J9s27wgxxcOVSpZ/2g/KSiXCg9DEZI+aVCIobWX9sXTynk5XeU/zZ0WBxtqB0DrAWfBw==
— witness.stagemole.eu Z/euoAAAAABqEiEgw0i+7g2ENfDAWHmtRzCfKTHSDwYDJA2NmKeGi9Y8FtEyOUvVr+AJmIY/2TUFucgKi7lI7cUiOvKFYe/TmN9DAg==
"""  # noqa: E501 - a line is a line
"""A checkpoint of a public log, as four public witnesses cosigned it."""
PUBLISHED_LOG = "arche2025h1.staging.ct.transparency.dev+ba2f06c0+AU0vHmlGCS/PdN8b2OaGmKprLI8HKM+dJ472xgFYh15f"
PUBLISHED_WITNESSES = (
    "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
    "witness.stagemole.eu+67f7aea0+BEqSG3yu9YrmcM3BHvQYTxwFj3uSWakQepafafpUqklv",
    "transparency.dev/DEV:witness-little-garden+d8042a87+BCtusOxINQNUTN5Oj8HObRkh2yHf/MwYaGX4CPdiVEPM",
    "witness1.smartit.nu/witness1+a48c820f+BPSFWg9G6KPiO7QPryYO5Xq4oYJJ+kAvLKLSimDhoxMO",
)
LOG, WITNESS, OTHER = (SigningKey(seed=bytes([number]) * 32) for number in (1, 2, 3))
ORIGIN = origin_of("1e" * 32)
LOG_KEY = NoteKey(name=ORIGIN, kind=PLAIN, public=LOG.public)
WITNESS_KEY = NoteKey(name="witness.example/1", kind=TIMED, public=WITNESS.public)


def written(size: int = 3, *, root: bytes = b"r" * 32, at: int = 1_700_000_000) -> bytes:
    """A checkpoint that the log signed, and the witness."""
    text = checkpoint_text(origin=ORIGIN, size=size, root=root)
    return note(text, [LOG_KEY.sign(text, LOG), WITNESS_KEY.sign(text, WITNESS, seconds=at)])


def test_roots_and_proofs_are_those_of_certificate_transparency() -> None:
    tree = MerkleTree(LEAVES)
    assert [tree.root(size).hex() for size in range(9)] == list(ROOTS)
    assert tuple(one.hex() for one in tree.consistency(6, 8)) == FROM_6_TO_8
    assert [one.hex() for one in tree.inclusion(0, 8)] == [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]


def second_root(leaves: list[bytes]) -> bytes:
    """The definition of RFC 6962, section 2.1, by the letter."""
    if len(leaves) <= 1:
        return hashlib.sha256(b"\0" + leaves[0] if leaves else b"").digest()
    split = max(1 << height for height in range(12) if 1 << height < len(leaves))
    return hashlib.sha256(b"\1" + second_root(leaves[:split]) + second_root(leaves[split:])).digest()


def test_every_proof_holds_and_no_other() -> None:
    """All sizes up to 40, and each proof with each of its parts changed."""
    leaves = [bytes([number]) for number in range(40)]
    roots = [second_root(leaves[:size]) for size in range(41)]
    tree, wrong = MerkleTree(leaves), b"x" * 32
    for size in range(1, 41):
        assert tree.root(size) == roots[size]
        for index in range(size):
            proof, given = tree.inclusion(index, size), {"index": index, "size": size, "root": roots[size]}
            leaf = leaf_hash(leaves[index])
            assert included(leaf, proof=proof, **given)
            assert not included(leaf_hash(b"other"), proof=proof, **given)
            assert not included(leaf, proof=(*proof, wrong), **given)
            assert not included(leaf, proof=proof[:-1], **given) or size == 1
            assert not included(leaf, proof=proof, **given | {"index": size})
        for old in range(1, size):
            proof = tree.consistency(old, size)
            given = {"old": old, "old_root": roots[old], "size": size, "root": roots[size]}
            assert consistent(proof=proof, **given)
            assert not consistent(proof=proof, **given | {"old_root": wrong})
            assert not consistent(proof=proof, **given | {"root": wrong})
            assert not consistent(proof=(*proof, wrong), **given)
            assert not consistent(proof=proof[:-1], **given)
            assert not consistent(proof=(wrong, *proof[1:]), **given)
            assert not consistent(proof=proof, **given | {"old": size, "size": old})
    assert consistent(old=0, old_root=roots[0], size=5, root=wrong, proof=())  # anything continues nothing
    assert not consistent(old=0, old_root=roots[0], size=5, root=wrong, proof=(wrong,))
    assert consistent(old=5, old_root=roots[5], size=5, root=roots[5], proof=())
    assert not consistent(old=5, old_root=roots[5], size=5, root=roots[6], proof=())
    assert not consistent(old=0, old_root=wrong, size=0, root=wrong, proof=())


def pair(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def test_a_proof_longer_than_its_tree_is_deep_shows_nothing_though_its_hashes_fit() -> None:
    """Else the size that a checkpoint states would bind nothing: a subtree would pass for the whole."""
    leaves = [leaf_hash(bytes([number])) for number in range(4)]
    assert included(leaves[1], index=1, size=2, proof=leaves[:1], root=pair(leaves[0], leaves[1]))
    assert not included(leaves[1], index=0, size=1, proof=leaves[:1], root=pair(leaves[0], leaves[1]))
    tree, other = MerkleTree([bytes([number]) for number in range(4)]), b"x" * 32
    given = {"old": 3, "size": 4, "proof": tree.consistency(3, 4)}
    assert consistent(old_root=tree.root(3), root=tree.root(4), **given)
    given["proof"] += (other,)
    assert not consistent(old_root=pair(other, tree.root(3)), root=pair(other, tree.root(4)), **given)


def test_a_proof_shorter_than_its_tree_is_deep_shows_nothing_though_its_hashes_fit() -> None:
    """The other way round: a tree would pass for a larger one that nobody has."""
    leaves = [leaf_hash(bytes([number])) for number in range(2)]
    root = pair(*leaves)
    assert included(leaves[1], index=1, size=2, proof=leaves[:1], root=root)
    assert not included(leaves[1], index=1, size=4, proof=leaves[:1], root=root)
    assert not included(root, index=0, size=2, proof=(), root=root)
    assert not consistent(old=2, old_root=root, size=4, root=root, proof=())


def test_places_and_sizes_begin_with_nothing() -> None:
    root = leaf_hash(b"")
    assert included(root, index=0, size=1, proof=(), root=root)
    assert not included(root, index=-1, size=1, proof=(), root=root)
    assert not consistent(old=-1, old_root=root, size=1, root=root, proof=(root,))
    assert not consistent(old=2, old_root=root, size=1, root=root, proof=())
    assert not consistent(old=3, old_root=root, size=4, root=root, proof=())
    tree = MerkleTree([b"", b"0", b"1"])
    assert tree.consistency(0, 3) == tree.consistency(3, 3) == tree.inclusion(0, 1) == ()
    assert (MerkleTree([]).size, tree.size, tree.root()) == (0, 3, tree.root(3))


@pytest.mark.slow
def test_an_auditor_of_a_million_entries_gets_a_kilobyte() -> None:
    leaves = [number.to_bytes(32, "big") for number in range(1_000_000)]
    begun = time.process_time()
    tree = MerkleTree(leaves)
    made = time.process_time()
    proof = tree.consistency(777_777, 1_000_000)
    content = written(1_000_000, root=tree.root())
    sent = CheckpointRequest(old=777_777, proof=proof, checkpoint=read_checkpoint(content)).written
    read = read_request(sent)
    assert consistent(
        old=read.old, old_root=tree.root(777_777), size=1_000_000, root=read.checkpoint.root, proof=read.proof
    )
    print(f"{made - begun:.2f} s for the tree, {time.process_time() - made:.4f} s for the proof, {len(sent)} bytes")
    assert len(proof) <= 21
    assert len(sent) < 1_500


def test_a_checkpoint_that_public_witnesses_cosigned_is_read_as_they_meant_it() -> None:
    checkpoint = read_checkpoint(PUBLISHED.encode())
    assert (checkpoint.origin, checkpoint.size) == ("arche2025h1.staging.ct.transparency.dev", 1432088532)
    log = read_note_key(PUBLISHED_LOG)
    assert log.text == PUBLISHED_LOG
    assert checkpoint.signed_by(log) is not None
    for text in PUBLISHED_WITNESSES:
        key = read_note_key(text)
        assert key.text == text
        signature = checkpoint.signed_by(key)
        assert signature is not None
        assert time_of(signature) == 1779573024
    for before, after in (("1432088532", "1432088531"), ("U7WM", "U7WN")):
        changed = read_checkpoint(PUBLISHED.replace(before, after).encode())
        for text in (PUBLISHED_LOG, *PUBLISHED_WITNESSES):
            with pytest.raises(ValueError, match="doesn't hold"):
                changed.signed_by(read_note_key(text))


def test_what_is_signed_here_holds_by_an_implementation_of_its_own() -> None:
    """Cosignatures by the standard library and `cryptography`, from the text of the specification alone."""
    content = written(at=1_700_000_001)
    text, _, below = content.partition(b"\n\n")
    lines = below.decode().splitlines()
    for line, name, kind, key in zip(lines, (ORIGIN, "witness.example/1"), (1, 4), (LOG, WITNESS), strict=True):
        dash, shown, encoded = line.split(" ")
        assert (dash, shown) == ("\u2014", name)
        raw = b64decode(encoded)
        public = Ed25519PublicKey.from_public_bytes(key.public.raw)
        assert raw[:4] == hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + key.public.raw).digest()[:4]
        if kind == 1:
            message = text + b"\n"
        else:
            assert int.from_bytes(raw[4:12], "big") == 1_700_000_001
            message = b"cosignature/v1\ntime 1700000001\n" + text + b"\n"
        public.verify(raw[-64:], message)
        with pytest.raises(InvalidSignature):
            public.verify(raw[-64:], message.replace(b"\n3\n", b"\n4\n"))


def test_a_signature_counts_for_its_own_key_and_kind_alone() -> None:
    checkpoint = read_checkpoint(written())
    assert checkpoint.signed_by(NoteKey(name="witness.example/1", kind=TIMED, public=OTHER.public)) is None
    assert checkpoint.signed_by(NoteKey(name="witness.example/2", kind=TIMED, public=WITNESS.public)) is None
    assert checkpoint.signed_by(NoteKey(name="witness.example/1", kind=PLAIN, public=WITNESS.public)) is None
    borrowed = WITNESS_KEY.sign(checkpoint.text, OTHER, seconds=1)  # names the witness, made by another key
    with pytest.raises(ValueError, match="doesn't hold"):
        read_checkpoint(note(checkpoint.text, [borrowed])).signed_by(WITNESS_KEY)
    sound = WITNESS_KEY.sign(checkpoint.text, WITNESS, seconds=9)
    later = NoteSignature(name=sound.name, key_id=sound.key_id, content=(10).to_bytes(8, "big") + sound.content[8:])
    with pytest.raises(ValueError, match="doesn't hold"):
        read_checkpoint(note(checkpoint.text, [later])).signed_by(WITNESS_KEY)
    with pytest.raises(ValueError, match="doesn't hold"):  # one that doesn't hold spoils one that does
        read_checkpoint(note(checkpoint.text, [sound, later])).signed_by(WITNESS_KEY)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (lambda sound: sound[:-1], "another form"),
        (lambda sound: sound + b"x", "another form"),
        (lambda sound: b"\x80" + sound[1:], "another form"),
        (lambda sound: b"\x7f" + sound[1:], "n't hold"),
    ],
    ids=["too short", "too long", "a time before 1970", "a late time"],
)
def test_a_signature_of_another_form_counts_for_nobody(content, why) -> None:
    checkpoint = read_checkpoint(written())
    sound = WITNESS_KEY.sign(checkpoint.text, WITNESS, seconds=9)
    other = NoteSignature(name=sound.name, key_id=sound.key_id, content=content(sound.content))
    assert read_checkpoint(note(checkpoint.text, [sound])).signed_by(WITNESS_KEY) == sound
    with pytest.raises(ValueError, match=f"the signature of witness.example/1 .*{why}"):
        read_checkpoint(note(checkpoint.text, [other])).signed_by(WITNESS_KEY)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{ORIGIN}+{WITNESS_KEY.key_id.hex()}+{LOG_KEY.text.rpartition('+')[2]}", "id is not that of the key"),
        (f"{ORIGIN}+00000000+{LOG_KEY.text.rpartition('+')[2]}", "id is not that of the key"),
        (f"{ORIGIN}+ffffffff+{LOG_KEY.text.rpartition('+')[2]}", "id is not that of the key"),
        (f"{ORIGIN}+00000000+{b64encode(bytes([7]) + LOG.public.raw).decode()}", "no key for Ed25519 signatures of"),
        (f"{ORIGIN}+00000000+{b64encode(bytes([PLAIN]) + LOG.public.raw[1:]).decode()}", "no Ed25519 key"),
    ],
)
def test_a_key_of_another_form_is_refused(text, why) -> None:
    assert read_note_key(LOG_KEY.text) == LOG_KEY
    with pytest.raises(ValueError, match=why):
        read_note_key(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\n3\n", "\n03\n"),
        ("\n3\n", "\n-3\n"),
        ("\n3\n", "\n\u0663\n"),
        ("\n3\n", "\n10000000000000000000\n"),
        ("\n3\n", "\n3 \n"),
        ("\n3\n", "\n3\r\n"),
        ("\n3\n", "\n\n3\n"),
        ("\n\n", "\n"),
        ("cnI=", "cnI"),
        ("cnI=", "cnJ="),  # other bits after the last byte
        ("cnI=", "cnJycg=="),
        ("\u2014 witness", "- witness"),
        ("\u2014 witness", "\u2014  witness"),
        ("witness.example/1", "witness+example/1"),
        ("witness.example/1", "witness\u00a0example/1"),
    ],
)
def test_a_checkpoint_of_another_form_is_refused(before, after) -> None:
    content = written().decode()
    assert before in content
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
        read_checkpoint(content.replace(before, after).encode())


def test_a_checkpoint_that_is_cut_is_refused() -> None:
    content = written()
    for end in range(len(content)):
        if content[:end].endswith(b"\n") and content[:end].count(b"\n") >= 5:
            continue  # the log's signature alone
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
            read_checkpoint(content[:end])
    with pytest.raises(ValueError, match="too long"):
        read_checkpoint(content + b"\n" * (1 << 16))


def test_of_several_signatures_of_a_key_the_latest_counts() -> None:
    text = checkpoint_text(origin=ORIGIN, size=3, root=b"r" * 32)
    early, late, middle = (WITNESS_KEY.sign(text, WITNESS, seconds=at) for at in (1, 300, 2))
    found = read_checkpoint(note(text, [early, late, middle])).signed_by(WITNESS_KEY)
    assert found == late
    assert time_of(found) == 300


@pytest.mark.parametrize("name", ["n" * 255, "n", "\u00fc/\U0001f511"])
def test_names_of_keys_have_1_to_255_characters(name) -> None:
    key = NoteKey(name=name, kind=PLAIN, public=LOG.public)
    assert read_note_key(key.text) == key
    for other in ("", "n" * 256, f"{name} ", f"{name}+", f"{name}\x1f", f"{name}\x7f", f"{name}\ud800"):
        with pytest.raises(ValueError, match="1 to 255 characters" if len(other) <= 256 else "."):
            NoteKey(name=other, kind=PLAIN, public=LOG.public)


def test_a_checkpoint_is_text_of_at_most_65536_bytes_with_a_signature() -> None:
    """Other lines between root and signatures are allowed; what a witness takes of a request is told by its server."""
    content = written()
    text, _, below = content.partition(b"\n\n")
    more = read_checkpoint(text + b"\nmore\n\n" + below)
    assert more.text == text + b"\nmore\n"
    room = LONGEST_NOTE - len(content)
    assert read_checkpoint(text + b"\n" + b"m" * (room - 1) + b"\n\n" + below).size == 3
    with pytest.raises(ValueError, match="too long"):
        read_checkpoint(text + b"\n" + b"m" * room + b"\n\n" + below)
    for one in (0x00, 0x1F):
        with pytest.raises(ValueError, match="no text of whole lines"):
            read_checkpoint(text + b"\nmore" + bytes([one]) + b"\n\n" + below)
    assert read_checkpoint(text + b"\nmore \x7f\n\n" + below)
    for few in (b"o\n3\n\n" + below, text + b"\n\n"):
        with pytest.raises(ValueError, match="no signed checkpoint"):
            read_checkpoint(few)
    with pytest.raises(ValueError, match="line of signatures"):
        read_checkpoint(text + b"\n\n\xe2\x80\x94 name " + b64encode(LOG_KEY.key_id) + b"\n")
    assert (LONGEST_NOTE, LONGEST_REQUEST) == (65_536, 69_632)


def test_requests_and_proofs_have_up_to_63_hashes_and_a_proof_has_an_entry() -> None:
    content = written()
    given = {"checkpoint": read_checkpoint(content)}
    for proof in ((), (b"a" * 32,) * 63):
        request = CheckpointRequest(old=0, proof=proof, **given)
        assert read_request(request.written) == request
        shown = InclusionProof(previous=b"p" * 32, body=b"{", index=0, proof=proof, **given)
        assert read_inclusion_proof(shown.written) == shown
    with pytest.raises(ValueError, match="before the checkpoint"):
        read_inclusion_proof(
            InclusionProof(previous=b"p" * 32, body=b"{", index=0, proof=(b"a" * 32,) * 64, **given).written
        )
    with pytest.raises(ValueError, match="no proof of an entry"):
        read_inclusion_proof(InclusionProof(previous=b"p" * 32, body=b"", index=0, proof=(), **given).written)
    for body in (b"", b"old 2", b"old 2\n\n", b"\n\n" + content):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
            read_request(body)
    for lines in (b"c2sp.org/tlog-proof@v1\n\n", b"c2sp.org/tlog-proof@v1\nextra \n\n"):
        with pytest.raises(ValueError, match="before the checkpoint"):
            read_inclusion_proof(lines + content)


def test_requests_and_proofs_are_read_as_they_are_written() -> None:
    content = written()
    request = CheckpointRequest(old=2, proof=(b"a" * 32,), checkpoint=read_checkpoint(content))
    assert read_request(request.written) == request
    assert request.written.startswith(b"old 2\n" + b64encode(b"a" * 32) + b"\n\ncrowdblend/ledger/1e1e")
    proof = InclusionProof(
        previous=b"p" * 32,
        body=b"{}",
        index=1,
        proof=(b"a" * 32, b"b" * 32),
        checkpoint=read_checkpoint(content),
    )
    assert read_inclusion_proof(proof.written) == proof
    assert proof.written.startswith(b"c2sp.org/tlog-proof@v1\nextra ")
    for change in ((b"old 2", b"old 02"), (b"old 2", b"new 2"), (b"YWFh", b"YWF"), (b"\n\ncrowd", b"\ncrowd")):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
            read_request(request.written.replace(*change))
    with pytest.raises(ValueError, match="before the checkpoint"):
        read_request(b"old 2\n" + (b64encode(b"a" * 32) + b"\n") * 64 + b"\n" + content)
    for change in ((b"@v1", b"@v2"), (b"index 1", b"index 01"), (b"extra ", b"other "), (b"extra cHBw", b"extra cHB")):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
            read_inclusion_proof(proof.written.replace(*change))


def witness_line(name: str, number: int, url: str = "") -> str:
    key = NoteKey(name=f"witness.example/{name}", kind=TIMED, public=SigningKey(seed=bytes([number]) * 32).public)
    return f"witness {name} {key.text} {url}\n"


NAMED = "".join(witness_line(name, number) for number, name in enumerate(("x1", "x2", "x3", "y1"), start=10))


def test_logs_and_witnesses_may_have_an_address() -> None:
    text = f"log {LOG_KEY.text} https://log.example/\n" + witness_line("w", 9, "https://w.example/") + "quorum w\n"
    policy = read_policy(text.encode())
    assert [one.url for one in policy.witnesses] == ["https://w.example/"]
    assert read_policy(witness_line("w", 9).encode() + b"quorum w").witnesses[0].url is None
    for line in text.splitlines():
        with pytest.raises(ValueError, match="this is none of"):
            read_policy(text.replace(line, f"{line} more").encode())


def test_a_group_may_need_all_or_any_or_a_number_of_its_members() -> None:
    for needed, enough in (("all", 3), ("any", 1), ("1", 1), ("2", 2), ("3", 3)):
        policy = read_policy(f"{NAMED}group g {needed} x1 x2 x3\nquorum g".encode())
        assert [policy.met({"x1", "x2", "x3"} & {f"x{n}" for n in range(1, some + 1)}) for some in range(4)] == [
            some >= enough for some in range(4)
        ]


def test_a_quorum_is_counted_through_its_groups() -> None:
    policy = read_policy(
        f"# a comment\nlog {LOG_KEY.text}\n{NAMED}\tgroup x 2 x1  x2 x3 \ngroup both all x y1\nquorum both\n".encode()
    )
    assert policy.logs == (LOG_KEY,)
    assert [one.name for one in policy.witnesses] == ["x1", "x2", "x3", "y1"]
    for cosigned, met in (
        ({"x1", "x2", "y1"}, True),
        ({"x1", "x2", "x3"}, False),
        ({"x1", "y1"}, False),
        ({"x1", "x2", "x3", "y1"}, True),
        (set(), False),
        ({"x", "both"}, False),
    ):
        assert policy.met(cosigned) is met, cosigned
    assert read_policy(b"quorum none\n").met(set())
    assert read_policy(f"{NAMED}group any any x1 x2\nquorum any".encode()).met({"x2"})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (NAMED, "no quorum line"),
        (f"{NAMED}quorum x1\nquorum x2\n", "line 6: this is none of"),
        (f"{NAMED}quorum z\n", "line 5: no line before it defines 'z'"),
        (f"quorum x1\n{NAMED}", "line 1: no line before it defines 'x1'"),
        (f"{NAMED}group g 3 x1 x2\nquorum g\n", "line 5: a group needs"),
        (f"{NAMED}group g 0 x1 x2\nquorum g\n", "line 5: a group needs"),
        (f"{NAMED}group g 02 x1 x2\nquorum g\n", "line 5: a size"),
        (f"{NAMED}group g 2 x1 x1\nquorum g\n", "line 5: 'x1' is in a group twice"),
        (f"{NAMED}group g 1 g\nquorum g\n", "line 5: no line before it defines 'g'"),
        (f"{NAMED}group x1 1 x2\nquorum x1\n", "line 5: the name 'x1' is taken"),
        (f"{NAMED}group none 1 x2\nquorum none\n", "line 5: the name 'none' is taken"),
        (NAMED + witness_line("x4", 10) + "quorum x1\n", "line 5: this public key stands there twice"),
        (f"witness w {LOG_KEY.text}\nquorum w\n", "line 1: this key is of the other sort"),
        (f"log {WITNESS_KEY.text}\nquorum none\n", "line 1: this key is of the other sort"),
        (f"log {LOG_KEY.text[:-1]}=\nquorum none\n", "line 1: "),
        ("log " + LOG_KEY.text.replace("+", "+0", 1)[:-1] + "\nquorum none\n", "line 1: "),
        ("nonsense\nquorum none\n", "line 1: this is none of"),
        (f"{NAMED}group g 1\nquorum g\n", "line 5: this is none of"),
        (f"log {LOG_KEY.text}\nlog {LOG_KEY.text}\nquorum none\n", "line 2: this public key stands there twice"),
        (f"{NAMED}group g 1 x1\ngroup h 1 x1\nquorum g\n", "line 6: 'x1' is in a group twice"),
    ],
)
def test_a_policy_of_another_form_is_refused_by_its_line(text, why) -> None:
    with pytest.raises(ValueError, match=why):
        read_policy(text.encode())
