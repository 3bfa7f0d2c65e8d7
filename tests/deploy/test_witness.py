"""A witness on another machine finds a ledger that was written anew with all that its steward has."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKey, SigningKeys
from crowdblend.accounting.ledger.checkpoint import (
    PLAIN,
    CheckpointRequest,
    InclusionProof,
    MerkleTree,
    NoteKey,
    checkpoint_text,
    note,
    origin_of,
    read_checkpoint,
    read_note_key,
)
from crowdblend.accounting.ledger.witnessed import log_key
from crowdblend.deploy.serving import witness as module
from crowdblend.deploy.serving.witness import Answer, Witness, witness_key
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool
from support.commands import Commands, Forked
from support.desk import CommandFolder
from support.guards import past_guards
from support.half_open import half_open_connections

STEWARD, STRANGER = SigningKey(seed=b"s" * 32), SigningKey(seed=b"t" * 32)
ORIGIN = origin_of("1e" * 32)
LOG = NoteKey(name=ORIGIN, kind=PLAIN, public=STEWARD.public)
NAME = "witness.example/1"
NOW = 1_700_000_000


def tree_of(word: str) -> MerkleTree:
    """One letter, one entry."""
    return MerkleTree([letter.encode() for letter in word])


def request(word: str, old: int = 0, *, origin: str = ORIGIN, key: SigningKey = STEWARD) -> bytes:
    """A request for the tree of a word's letters."""
    tree = tree_of(word)
    signed = checkpoint_text(origin=origin, size=tree.size, root=tree.root())
    content = note(signed, [NoteKey(name=origin, kind=PLAIN, public=key.public).sign(signed, key)])
    proof = tree.consistency(old, tree.size) if old <= tree.size else ()
    return CheckpointRequest(old=old, proof=proof, checkpoint=read_checkpoint(content)).written


@pytest.fixture
def watching(tmp_path: Path) -> Witness:
    """A witness that has cosigned three entries."""
    home = tmp_path / "witness"
    key = witness_key(home, NAME, os.urandom)
    (home / "checkpoints").mkdir(mode=0o700)
    made = Witness(home, key=key, logs=(LOG,), seconds=lambda: NOW)
    assert made.answer(request("abc")).status == 200
    return made


def cosigned(witness: Witness, word: str, answer: Answer) -> bool:
    """Whether an answer is the witness's cosignature on the head of a word."""
    assert answer.status == 200, answer
    content = request(word).partition(b"\n\n")[2] + answer.text.encode()
    return read_checkpoint(content).signed_by(witness.key) is not None


def remembered(witness: Witness) -> int:
    [file] = (witness.home / "checkpoints").iterdir()
    return read_checkpoint(file.read_bytes()).size


def test_it_cosigns_what_continues_the_last_head(watching) -> None:
    assert cosigned(watching, "abc", watching.answer(request("abc", 3)))
    assert cosigned(watching, "abcde", watching.answer(request("abcde", 3)))
    assert remembered(watching) == 5
    assert watching.answer(request("abcde", 3)) == Answer(
        status=409, text="5\n", kind="text/x.tlog.size", event="size", size=5, log=ORIGIN
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (request("abc", 0), 409),
        (request("ab", 0), 409),
        (request("abcd", 2), 409),
        (request("abcd", 4), 409),
        (request("ab", 3), 400),
        (request("xbc", 3), 409),
        (request("xbcd", 3), 422),
        (request("abxdefgh", 3), 422),
        (request("abcd", 3).replace(b"old 3\n", b"old 3\n" + b"A" * 43 + b"=\n"), 422),
        (re.sub(rb"old 3\n.*?\n\n", b"old 3\n\n", request("abcd", 3), flags=re.DOTALL), 422),
        (request("abcd", 3, key=STRANGER), 403),
        (request("abcd", 3).replace(b"\n4\n", b"\n5\n"), 403),
        (request("abcd", 3, origin=origin_of("2e" * 32)), 404),
        (request("abcd", 3)[:-1], 400),
        (b"", 400),
        (b"\xff" * 50, 400),
    ],
)
def test_nothing_else_is_cosigned_and_nothing_is_forgotten(watching, body, status) -> None:
    answer = watching.answer(body)
    assert answer.status == status, answer
    assert "\u2014" not in answer.text
    assert remembered(watching) == 3
    assert cosigned(watching, "abcd", watching.answer(request("abcd", 3)))


def test_a_witness_that_remembers_something_damaged_cosigns_nothing(watching) -> None:
    [file] = (watching.home / "checkpoints").iterdir()
    for content in (b"", file.read_bytes()[:-1], file.read_bytes().replace(b"1e1e", b"2e2e")):
        file.write_bytes(content)
        for old in (0, 3):
            assert watching.answer(request("abcd", old)).status == 500
        assert file.read_bytes() == content


def test_another_key_in_its_folder_is_a_fault(watching) -> None:
    (watching.home / "signing" / "current.key").write_bytes(b"k" * 32)
    assert watching.answer(request("abcd", 3)).status == 500


@pytest.mark.parametrize("place", ["replace_private", "NoteKey.sign"])
def test_a_head_is_remembered_before_its_cosignature_exists(watching, place) -> None:
    """Killed before it remembers, it has cosigned nothing; killed when it would sign, it remembers."""
    child = os.fork()
    if child == 0:
        where, name = (NoteKey, "sign") if "." in place else (module, place)
        body = request("abcd", 3)  # signed before the witness's own signature kills
        setattr(where, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        watching.answer(body)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert remembered(watching) == (4 if "." in place else 3)


def test_of_two_histories_that_are_sent_at_once_one_is_cosigned(watching, monkeypatch) -> None:
    remember = module.replace_private

    def slowly(path: Path, content: bytes) -> None:
        time.sleep(0.02)  # the others come in between, where they can
        remember(path, content)

    monkeypatch.setattr(module, "replace_private", slowly)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda last: watching.answer(request(f"abc{last}", 3)).status, "stuvwxyz"))
    assert sorted(answers) == [200] + [409] * 7
    assert remembered(watching) == 4


@dataclass
class Steward(CommandFolder):
    """A steward whose ledger and private store can be set back together."""

    database: str | None = None

    @property
    def ledger(self) -> str:
        return self.database or super().ledger

    @property
    def anchor(self) -> Path:
        [file] = (self.home / "anchors").glob("*.jsonl")
        return file

    @property
    def key(self) -> str:
        return log_key(self.anchor.stem, SigningKeys(home=self.home).current().public).text

    def add(self, name: str) -> None:
        self.command("dataset", "add", name, "--epsilon", "1", "--delta", "1e-6")

    def copy(self, source: str, target: str) -> None:
        """A copy of the ledger and the private store under another name; `now` is what commands use."""
        home = {"now": self.home}
        shutil.rmtree(home.get(target, self.folder / target), ignore_errors=True)
        shutil.copytree(home.get(source, self.folder / source), home.get(target, self.folder / target))
        if self.database is None:
            one, other = (self.folder / ("ledger.db" if name == "now" else f"{name}.db") for name in (source, target))
            for beside in self.folder.glob(f"{other.name}*"):
                beside.unlink()
            with closing(sqlite3.connect(one)) as begin, closing(sqlite3.connect(other)) as end:
                begin.backup(end)
            return
        own = str(make_url(self.database).database)
        one, other = (own if name == "now" else f"{own}_{name}" for name in (source, target))
        engine = create_engine(
            make_url(self.database).set(database="postgres"), poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE IF EXISTS {other}"))
            connection.execute(text(f"CREATE DATABASE {other} TEMPLATE {one}"))

    def refusal(self, *words: str, code: int, **environment: str) -> str:
        ended = self.processes.run(*words, folder=self.folder, environment=self.environment | environment)
        assert ended.returncode == code, ended.stderr
        return ended.stderr


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def steward(tmp_path: Path, commands: Commands, request: pytest.FixtureRequest) -> Steward:
    made = Steward(folder=tmp_path, processes=commands)
    if request.param == "postgresql":
        server, name = request.getfixturevalue("postgresql_server"), f"witnessed_{os.urandom(4).hex()}"
        engine = create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        made.database = server.replace("/postgres?", f"/{name}?")
    made.add("people")
    return made


@dataclass
class OtherMachine(CommandFolder):
    """A witness's machine."""

    @contextmanager
    def serving(self, steward: Steward, *options: str | Path) -> Iterator[Forked]:
        """The real program; the steward's policy names it."""
        ledger = steward.key
        words = ("witness", "serve", "--name", NAME, "--ledger", ledger, "--port", "0", *options)
        process = self.processes.start(
            *words, folder=self.folder, environment=self.environment, log=self.folder / "witness.log"
        )
        try:
            key, said = process.stdout.readline().strip(), process.stdout.readline()
            assert NAME in said, (self.folder / "witness.log").read_text()
            policy = f"log {ledger}\nwitness w1 {key} {said.split()[-1]}\nquorum w1\n"
            steward.anchor.with_suffix(".witnesses").write_text(policy)
            (self.folder / "policy").write_text(policy)  # as an auditor keeps it
            yield process
        finally:
            process.kill()
            process.communicate(timeout=60)


@pytest.fixture
def other(tmp_path: Path, commands: Commands) -> OtherMachine:
    (tmp_path / "other-machine").mkdir()
    return OtherMachine(folder=tmp_path / "other-machine", processes=commands)


@pytest.fixture
def https(steward, tls) -> tuple[list[str | Path], dict[str, str]]:
    """Options of the witness and settings of the steward: HTTPS beside SQLite, plain HTTP beside PostgreSQL."""
    if steward.database is not None:
        return [], {}
    options = ["--tls-certificate", tls / "node.pem", "--tls-key", tls / "node.pem"]
    return options, {"SSL_CERT_FILE": str(tls / "ca.pem")}


def test_a_ledger_rewritten_with_its_private_store_is_found(steward, other, https) -> None:
    """The same key, an anchor that fits, all that the steward has: the witness knows better, though it was killed."""
    options, trust = https
    policy = ("--witnesses", str(other.folder / "policy"))
    steward.copy("now", "young")
    with other.serving(steward, *options):
        steward.add("others")
        assert "Witnessed: 3 entries, by w1 (" in steward.command("ledger", "anchor", **trust)
    steward.copy("now", "sound")
    with other.serving(steward, *options):
        named = steward.anchor.with_suffix(".witnesses").read_bytes()
        steward.copy("young", "now")
        for name in ("elsewhere", "more"):
            steward.add(name)
        assert "The ledger holds." in steward.command("ledger", "verify")
        steward.anchor.with_suffix(".witnesses").write_bytes(named)
        refused = steward.refusal("ledger", "anchor", code=3, **trust)
        assert (
            "the witness w1 finds that this ledger is not the one that it saw: the first 3 entries are not" in refused
        )
        assert "The head is not witnessed" in refused
        assert not steward.anchor.with_suffix(".checkpoint").exists()
        assert "no head of this ledger is witnessed" in steward.command("ledger", "verify", *policy, code=1)
        steward.copy("sound", "now")
        steward.anchor.with_suffix(".witnesses").write_bytes(named)
        assert "Witnessed: 3 entries" in steward.command("ledger", "anchor", **trust)
    log = [json.loads(line) for line in (other.folder / "witness.log").read_text().splitlines()]
    assert [line["event"] for line in log] == ["cosigned", "size", "forked", "size", "cosigned"]


@pytest.mark.slow
@pytest.mark.parametrize("steward", ["sqlite"], indirect=True)
def test_a_ledger_that_was_cut_back_or_rewritten_to_the_same_length_is_found(steward, other, https) -> None:
    options, trust = https
    policy = ("--witnesses", str(other.folder / "policy"))
    steward.copy("now", "young")
    with other.serving(steward, *options):
        named = steward.anchor.with_suffix(".witnesses").read_bytes()
        steward.add("others")
        assert "no head of this ledger is witnessed" in steward.command("ledger", "verify", *policy, code=1)
        steward.command("ledger", "anchor", **trust)
        assert "Witnessed: 3 entries, by w1 (" in steward.command("ledger", "verify", *policy)
        kept = shutil.copy(steward.anchor.with_suffix(".checkpoint"), other.folder / "kept")
        steward.copy("young", "now")
        steward.anchor.with_suffix(".witnesses").write_bytes(named)
        refused = steward.refusal("ledger", "anchor", code=3, **trust)
        assert "it cosigned 3 entries, and this ledger has 2: it was cut back" in refused
        shown = steward.command("ledger", "verify", *policy, "--checkpoint", kept, code=1)
        assert "the checkpoint is of 3 entries, and the ledger has 2: it was cut back" in shown
        steward.add("elsewhere")
        refused = steward.refusal("ledger", "anchor", code=3, **trust)
        assert "the first 3 entries are not those that it cosigned: they were written anew" in refused
        shown = steward.command("ledger", "verify", *policy, "--checkpoint", kept, code=1)
        assert "the ledger's first 3 entries are not those of the checkpoint: it was written anew" in shown
        shutil.copy(kept, steward.anchor.with_suffix(".checkpoint"))  # found without a witness that answers
    assert "written anew" in steward.refusal("ledger", "anchor", code=3, **trust)


@contextmanager
def answering(answer: Callable[[bytes], Answer]) -> Iterator[str]:
    """What a steward asks as a witness: the program's own answers, or another's; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/add-checkpoint"
            said = answer(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(said.status)
            self.send_header("content-type", said.kind)
            self.send_header("content-length", str(len(said.text.encode())))
            self.end_headers()
            self.wfile.write(said.text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture
def witnessed(desk):
    """A desk whose ledger has two entries, and two witnesses that watch it."""
    desk.add_dataset()
    key = read_note_key(desk.succeed("ledger", "key").out.strip())
    made = []
    for number in (1, 2):
        home = desk.folder / f"witness-{number}"
        own = witness_key(home, f"witness.example/{number}", os.urandom)
        (home / "checkpoints").mkdir(mode=0o700)
        made.append(Witness(home, key=own, logs=(key,), seconds=lambda: NOW))
    return desk, made, key


def name_them(desk, witnesses: list[Witness], *urls: str, quorum: str = "all", log: NoteKey | None = None) -> None:
    lines = [f"witness w{n} {one.key.text} {url}" for n, (one, url) in enumerate(zip(witnesses, urls, strict=True), 1)]
    members = " ".join(f"w{n}" for n in range(1, len(urls) + 1))
    logs = [] if log is None else [f"log {log.text}"]
    [anchor] = (desk.home / "anchors").glob("*.jsonl")
    text = "\n".join([*logs, *lines, f"group enough {quorum} {members}", "quorum enough", ""])
    anchor.with_suffix(".witnesses").write_text(text)


def checkpoint_of(desk) -> Path:
    [anchor] = (desk.home / "anchors").glob("*.jsonl")
    return anchor.with_suffix(".checkpoint")


def test_a_head_is_called_witnessed_where_enough_have_cosigned_it(witnessed) -> None:
    desk, witnesses, _ = witnessed
    with answering(witnesses[0].answer) as one, answering(witnesses[1].answer) as two:
        name_them(desk, witnesses, one, NOWHERE)
        refused = desk("ledger", "anchor")
        assert refused.code == 1
        assert (
            "too few witnesses cosigned the head of 2 entries. w2: it can't be reached (ConnectError)." in refused.err
        )
        assert "The head is not witnessed" in refused.err
        assert not checkpoint_of(desk).exists()
        assert desk("ledger", "verify").code == 1
        name_them(desk, witnesses, one, NOWHERE, quorum="any")
        done = desk.succeed("ledger", "anchor")
        assert "Witnessed: 2 entries, by w1 (2023-11-14 22:13 UTC)." in done.out
        assert "w2: it can't be reached" in done.err
        assert "Witnessed: 2 entries, by w1 (" in desk.succeed("ledger", "verify").out
        name_them(desk, witnesses, one, two)
        found = desk("ledger", "verify", "--json")
        assert found.json["witnessed"] == 0
        assert found.json["findings"] == ["too few witnesses cosigned the checkpoint: there is no cosignature of w2"]
        desk.succeed("dataset", "add", "others", "--epsilon", "1", "--delta", "0")
        assert "Witnessed: 3 entries, by w1 (" in desk.succeed("ledger", "anchor").out
        answer = desk("ledger", "verify", "--json")
        assert (answer.code, answer.json["witnessed"]) == (0, 3)
        desk.succeed("dataset", "add", "more", "--epsilon", "1", "--delta", "0")
        told = desk("ledger", "verify", "--json").json["unchecked"]
        assert "the entries after entry 2: they are not witnessed yet." in told
        assert "a head that witnesses cosigned after 2023-11-14 22:13 UTC and that is not shown here." in told


ANSWERS: tuple[tuple[list[Answer], int, str], ...] = (
    ([Answer(status=404, text="")], 1, "its operator must add --ledger 'crowdblend/ledger/"),
    ([Answer(status=403, text="")], 1, "it doesn't trust the key that signs now (403)"),
    ([Answer(status=500, text="x" * 99_999)], 1, "it answered with 500"),
    ([Answer(status=302, text="")], 1, "it answered with 302"),
    ([Answer(status=422, text="")], 1, "it answered with 422"),  # nothing continues nothing
    ([Answer(status=200, text="")], 1, "its answer can't be relied on"),
    ([Answer(status=200, text="x" * 99_999)], 1, "its answer can't be relied on"),
    ([Answer(status=409, text="1\n")], 1, "it answered with 409"),
    ([Answer(status=409, text="0\n", kind="text/x.tlog.size")], 1, "it answered with 409"),
    (
        [Answer(status=409, text=f"{size}\n", kind="text/x.tlog.size") for size in (1, 2, 1)],
        1,
        "it was asked by others at the same time",
    ),
    ([Answer(status=409, text="3\n", kind="text/x.tlog.size")], 3, "it was cut back"),
    (
        [Answer(status=409, text="1\n", kind="text/x.tlog.size"), Answer(status=422, text="")],
        3,
        "the first 1 entries are not those that it cosigned",
    ),
    (
        [Answer(status=409, text="2\n", kind="text/x.tlog.size"), Answer(status=409, text="")],
        3,
        "the first 2 entries are not those that it cosigned",
    ),
)


def test_whatever_a_witness_answers_the_head_is_not_witnessed(witnessed) -> None:
    """Even where the other one cosigns and would be enough, one that contradicts is told."""
    desk, witnesses, _ = witnessed
    for answers, code, why in ANSWERS:
        left = iter(answers)
        with answering(lambda _, left=left: next(left)) as one, answering(witnesses[1].answer) as two:
            name_them(desk, witnesses, one, two, quorum="all" if code == 1 else "any")
            refused = desk("ledger", "anchor")
        assert (refused.code, why in refused.err) == (code, True), refused.err
        assert "The head is not witnessed" in refused.err
        assert not checkpoint_of(desk).exists()


def test_a_cosignature_of_another_key_or_another_head_is_none(witnessed) -> None:
    desk, witnesses, key = witnessed
    steward = SigningKeys(home=desk.home).current()
    other = checkpoint_text(origin=key.name, size=2, root=b"x" * 32)
    own = SigningKeys(home=witnesses[0].home).current()
    for cosigned, why in (
        (witnesses[1].answer, "its answer has no cosignature by its key"),
        (
            lambda _: Answer(status=200, text=witnesses[0].key.sign(other, own, seconds=1).line),
            "the signature of witness.example/1 doesn't hold",
        ),
        (lambda _: Answer(status=200, text=key.sign(other, steward).line), "its answer has no cosignature by its key"),
    ):
        with answering(cosigned) as one:
            name_them(desk, witnesses[:1], one)
            refused = desk("ledger", "anchor")
        assert (refused.code, why in refused.err) == (1, True), refused.err
        assert not checkpoint_of(desk).exists()


def test_a_proof_is_checked_without_the_ledger(witnessed) -> None:
    desk, witnesses, key = witnessed
    with answering(witnesses[0].answer) as one:
        name_them(desk, witnesses[:1], one, log=key)
        desk.succeed("ledger", "anchor")
        kept, policy = desk.folder / "kept", desk.folder / "policy"
        kept.write_bytes(checkpoint_of(desk).read_bytes())
        policy.write_bytes(checkpoint_of(desk).with_suffix(".witnesses").read_bytes())
        for name in ("others", "more", "most"):
            desk.succeed("dataset", "add", name, "--epsilon", "1", "--delta", "0")
        desk.succeed("ledger", "anchor")
    desk.succeed("ledger", "prove", "--since", kept, "--output", "grown")
    desk.succeed("ledger", "prove", "--entry", "3", "--output", "one.tlog-proof")
    assert desk("ledger", "prove", "--entry", "3", "--output", "one.tlog-proof").code == 2  # it is there
    assert desk("ledger", "prove", "--entry", "5", "--output", "none").code == 2
    assert desk("ledger", "prove", "--output", "none").code == 2
    shutil.move(desk.home, desk.folder / "elsewhere")
    said = desk.succeed("ledger", "check", "grown", "--since", kept, "--witnesses", policy).out
    assert "Witnessed: 5 entries, by w1 (" in said
    said = desk.succeed("ledger", "check", "one.tlog-proof", "--witnesses", policy).out
    assert 'The entry: {"by":' in said
    assert '"dataset":"more"' in said
    grown, one = (desk.folder / "grown").read_bytes(), (desk.folder / "one.tlog-proof").read_bytes()
    lines = grown.splitlines(keepends=True)
    for name, content, words, code, why in (
        ("grown", grown.replace(lines[1], lines[2]), ("--since", kept), 1, "does not continue the 2 entries"),
        ("grown", grown.replace(b"old 2", b"old 3"), ("--since", kept), 1, "begins with 3 entries"),
        ("grown", grown.replace(b"\n5\n", b"\n6\n"), ("--since", kept), 1, "doesn't hold"),
        ("grown", b"".join(lines[:-1]), ("--since", kept), 1, "no cosignature of w1"),
        ("grown", grown[:-1], ("--since", kept), 2, "can't be read"),
        ("grown", grown, ("--since", desk.folder / "none"), 2, "there is no checkpoint here"),
        ("one", one.replace(b"index 3", b"index 2"), (), 1, "doesn't show that entry 2 is in the ledger"),
        ("one", grown, (), 2, "can't be read"),
    ):
        (desk.folder / name).write_bytes(content)
        answer = desk("ledger", "check", name, "--witnesses", policy, *words)
        assert (answer.code, why in answer.out + answer.err) == (code, True), (why, answer)
        (desk.folder / "grown").write_bytes(grown)


CONFORMANCE = Path(__file__).parents[1] / "vectors" / "conformance"


def test_a_release_is_held_against_the_proof_of_its_charge(desk) -> None:
    """The committed ledger with its witnesses, and certificates that name one of its charges, or don't."""
    case = CONFORMANCE / "ledger" / "sound-witnessed"
    links = [json.loads(line) for line in (case / "ledger.jsonl").read_bytes().splitlines()]
    charges = [link for link in links if link["kind"].startswith("release-charged/")]
    index, other = (charge["position"] for charge in charges[:2])
    content = (case / "checkpoint").read_bytes()
    proof = InclusionProof(
        previous=bytes.fromhex(links[index]["previous"]),
        body=links[index]["body"].encode(),
        index=index,
        proof=MerkleTree([bytes.fromhex(link["hash"]) for link in links]).inclusion(index, len(links)),
        checkpoint=read_checkpoint(content),
    )
    (desk.folder / "proof").write_bytes(proof.written)
    sound = json.loads((CONFORMANCE / "certificate" / "sound" / "release" / "certificate.json").read_bytes())
    entry = json.loads(links[index]["body"])
    named = {
        "ledger": {"position": index, "hash": links[index]["hash"]},
        "release_id": entry["release_id"],
        "sample_id": entry["sample_id"],
    }
    words = ("ledger", "check", "proof", "--witnesses", case / "witnesses", "--public-key", case / "publisher.pem")
    for change, code, why in (
        ({}, 0, "Witnessed: 17 entries, by w1 (2026-03-04 12:00 UTC), w3"),
        ({"release_id": "another"}, 1, "is not the charge that the certificate names"),
        ({"sample_id": "ab" * 32}, 1, "is not the charge that the certificate names"),
        ({"ledger": {"position": index, "hash": "ab" * 32}}, 1, "is not the charge that the certificate names"),
        ({"ledger": {"position": other, "hash": links[other]["hash"]}}, 1, "is not the charge"),
        ({"ledger": {}}, 2, "doesn't state its charge's place"),
        ({"dataset": "another"}, 1, "says another thing than the ledger charged: dataset"),
        ({"mechanism": sound["mechanism"] | {"k": 5}}, 1, "than the ledger charged: mechanism"),
        ({"guarantee": sound["guarantee"] | {"epsilon": "0.1"}}, 1, "than the ledger charged: guarantee.epsilon"),
        ({"guarantee": "none"}, 1, "guarantee.epsilon, guarantee.delta, guarantee.rule"),
        ({"series": {"name": "monthly", "number": 1}}, 1, "than the ledger charged: series"),
    ):
        (desk.folder / "certificate.json").write_text(json.dumps(sound | named | change))
        answer = desk(*words, "--certificate", "certificate.json")
        assert (answer.code, why in answer.out + answer.err) == (code, True), (change, answer)
    assert desk(*words, "--certificate", "certificate.json", "--since", case / "checkpoint").code == 2


def test_nothing_is_signed_of_entries_that_do_not_lead_to_the_signed_head(witnessed) -> None:
    desk, witnesses, _ = witnessed
    desk.succeed("dataset", "add", "others", "--epsilon", "1", "--delta", "0")
    engine = create_engine(desk.ledger, poolclass=NullPool)
    with engine.begin() as connection, past_guards(connection):
        connection.execute(text("UPDATE entry SET body = replace(body, 'people', 'peepel') WHERE position = 1"))
    asked = []
    with answering(lambda body: asked.append(body) or witnesses[0].answer(body)) as one:
        name_them(desk, witnesses[:1], one)
        refused = desk("ledger", "anchor")
    assert refused.code == 3
    assert "the signed head doesn't follow from the entries" in refused.err
    assert asked == []


def test_policies_that_nobody_can_be_asked_by_are_refused(witnessed) -> None:
    desk, witnesses, _ = witnessed
    name_them(desk, witnesses[:1], "")
    refused = desk("ledger", "anchor")
    assert (refused.code, "it isn't said where the witness w1 is asked" in refused.err) == (2, True)
    checkpoint_of(desk).with_suffix(".witnesses").write_text("quorum w1\n")
    for command in ("anchor", "verify"):
        refused = desk("ledger", command)
        assert (refused.code, "line 1: no line before it defines 'w1'" in refused.err) == (2, True)
    assert desk("ledger", "anchor", "--witnesses", "none").code == 2
    checkpoint_of(desk).with_suffix(".witnesses").unlink()
    assert desk.succeed("ledger", "anchor").out.startswith("Nothing is to be done")  # as without witnesses
    assert desk("ledger", "verify", "--checkpoint", "none").code == 2
    assert desk("ledger", "verify", "--json").json["witnessed"] is None


def test_an_anchor_that_was_lost_is_begun_again_where_the_witness_agrees(witnessed) -> None:
    desk, witnesses, _ = witnessed
    with answering(witnesses[0].answer) as one:
        name_them(desk, witnesses[:1], one)
        desk.succeed("ledger", "anchor", "--checkpoint", "kept")
        assert not checkpoint_of(desk).exists()
        assert "Witnessed: 2 entries" in desk.succeed("ledger", "verify", "--checkpoint", "kept").out
        [anchor] = (desk.home / "anchors").glob("*.jsonl")
        anchor.unlink()
        said = desk.succeed("ledger", "anchor").out
        assert "The anchor begins at entry 1" in said
        assert "Witnessed: 2 entries" in said
        desk.succeed("ledger", "verify")


def test_who_deletes_the_anchor_or_the_list_of_witnesses_turns_no_check_off(witnessed) -> None:
    desk, witnesses, _ = witnessed
    with answering(witnesses[0].answer) as one:
        name_them(desk, witnesses[:1], one)
        desk.succeed("ledger", "anchor")
    desk.succeed("ledger", "verify")
    checkpoint = checkpoint_of(desk)
    anchor, named = checkpoint.with_suffix(".jsonl"), checkpoint.with_suffix(".witnesses")
    kept = anchor.read_bytes()
    anchor.unlink()
    told = desk("ledger", "verify", "--json")
    assert (told.code, told.json["witnessed"]) == (1, 2)
    [finding] = told.json["findings"]
    assert finding == f"the anchor is missing, though what witnesses it had lies beside its place: {anchor}"
    checkpoint.unlink()
    assert desk("ledger", "verify").code == 1
    anchor.write_bytes(kept)
    assert "no head of this ledger is witnessed" in desk("ledger", "verify").out
    checkpoint.write_bytes(b"")
    named.unlink()
    told = desk("ledger", "verify")
    assert told.code == 1
    assert f"the list of witnesses is missing, though a checkpoint lies beside its place: {named}" in told.out


def test_a_command_names_witnesses_and_says_what_there_is_to_do(witnessed) -> None:
    desk, witnesses, _ = witnessed
    said = desk.succeed("ledger", "anchor").out
    assert said.startswith("Nothing is to be done: the ledger continues its anchor, which goes to entry 1")
    assert "crowdblend witness add KEY URL" in said
    with answering(witnesses[0].answer) as one, answering(witnesses[1].answer) as two:
        first, second = witnesses[0].key.text, witnesses[1].key.text
        assert "1 of 1 witnesses must cosign" in desk.succeed("witness", "add", first, one).out
        assert "Witnessed: 2 entries" in desk.succeed("ledger", "anchor").out
        assert "2 of 2 witnesses must cosign" in desk.succeed("witness", "add", second, two).out
        assert "by w1 (" in desk.succeed("ledger", "anchor").out
        desk.succeed("ledger", "verify")
    file = checkpoint_of(desk).with_suffix(".witnesses")
    before = file.read_bytes()
    for words in ((first, one), ("no key", one), (second + "x", one), (second, "no address\nquorum none")):
        refused = desk("witness", "add", *words)
        assert (refused.code, file.read_bytes()) == (2, before), refused.err
        assert "The list of witnesses stays as it was." in refused.err
    file.write_bytes(before + b"# by hand\n")
    assert "other forms" in desk("witness", "add", first, one).err


def test_a_lost_anchor_is_asked_for_in_another_private_store_first(desk) -> None:
    desk.add_dataset()
    [anchor] = (desk.home / "anchors").glob("*.jsonl")
    anchor.unlink()
    refused = desk("dataset", "add", "more", "--epsilon", "1", "--delta", "0.1").err
    assert refused.index("CROWDBLEND_HOME") < refused.index("begin a new one")


def test_requests_that_are_never_finished_keep_no_steward_out(steward, other) -> None:
    with other.serving(steward):
        url = steward.anchor.with_suffix(".witnesses").read_text().split()[-3]
        with half_open_connections(urlsplit(url).port, clients=5, each=25):
            assert "Witnessed: 2 entries, by w1 (" in steward.command("ledger", "anchor")


def test_what_a_witness_is_started_with_is_checked(desk) -> None:
    serve = ("witness", "serve", "--name", NAME, "--port", "0")
    key = desk.succeed("witness", "key", "--name", NAME).out.strip()
    assert desk.succeed("witness", "key", "--name", NAME).out.strip() == key
    for words, why in (
        (("--ledger", "none"), "this is no verifier key"),
        (("--ledger", key), "a witness's key, not a ledger's"),
        (("--ledger", LOG.text, "--tls-key", "people.csv"), "go together"),
        (
            ("--ledger", LOG.text, "--tls-certificate", "people.csv", "--tls-key", "people.csv"),
            "the certificate can't be used",
        ),
        (("--ledger", LOG.text, "--host", "192.0.2.1"), "this address can't be had"),
    ):
        refused = desk(*serve, *words)
        assert (refused.code, why in refused.err) == (2, True), refused.err
    assert desk("witness", "key", "--name", "two words").code == 2
    handle = os.open(desk.home / "witness" / "lock", os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert "another process is the witness of this folder" in desk(*serve, "--ledger", LOG.text).err
    os.close(handle)


def test_ctrl_c_ends_it_and_is_no_failure(steward, other) -> None:
    with other.serving(steward) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    assert "Interrupted" not in (other.folder / "witness.log").read_text()
