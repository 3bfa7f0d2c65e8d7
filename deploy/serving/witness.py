"""A witness of other people's ledgers, for a machine of its own: it cosigns a head only where that continues the last.

The protocol is tlog-witness of C2SP (c2sp.org/tlog-witness), of which `add-checkpoint` is all that there is.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from ...accounting.kernel.keys.private_files import lock_file, private_folder, replace_private, require_usable
from ...accounting.kernel.keys.signing import SigningKey, SigningKeys
from ...accounting.keys.signing_upkeep import create_where_none
from ...accounting.keys.store_upkeep import open_private_store
from ...accounting.ledger.checkpoint import (
    LONGEST_REQUEST,
    TIMED,
    Checkpoint,
    CheckpointRequest,
    NoteKey,
    consistent,
    note,
    read_checkpoint,
    read_request,
)
from ...accounting.listening import listening, serve_on, url_of
from ...mechanisms.kernel.errors import InputRefused

PLAIN_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What is answered to a request, and what the log says of it: of which ledger, and of what size."""

    status: int
    text: str
    kind: str = PLAIN_TEXT
    event: str = "refused"
    size: int | None = None
    log: str | None = None


def witness_key(home: Path, name: str, randomness: Callable[[int], bytes]) -> NoteKey:
    """Return a witness's public key, made where there is none; a name of another form is refused."""
    public = create_where_none(SigningKeys(home=home), randomness)
    try:
        return NoteKey(name=name, kind=TIMED, public=public)
    except ValueError as error:
        raise InputRefused(f"{error}.", where="--name", not_done="") from None


class Witness:
    """What a witness remembers and answers; its folder belongs to one process at a time.

    Args:
        home: its private folder: its key, and the last checkpoint of each ledger.
        key: its public key.
        logs: the ledgers that it watches: their keys, by which they sign; a ledger may have several.
        seconds: the time, since 1970.
    """

    def __init__(self, home: Path, *, key: NoteKey, logs: tuple[NoteKey, ...], seconds: Callable[[], float]) -> None:
        self.home = home
        self.key = key
        self._logs = logs
        self._seconds = seconds
        self._one_at_a_time = threading.Lock()

    def answer(self, body: bytes) -> Answer:
        """Answer a request to add a checkpoint.

        INVARIANT: a cosignature is made only after the checkpoint is durable as the last one, and only of a checkpoint
        that continues the one that was the last before. Both happen under one lock.
        """
        try:
            request = read_request(body)
        except ValueError as error:
            return Answer(status=400, text=f"The request has another form: {error}.\n")
        asked = request.checkpoint
        keys = [key for key in self._logs if key.name == asked.origin]
        if not keys:
            return Answer(status=404, text="This witness watches no ledger of this origin.\n")
        try:
            signatures = [signature for key in keys if (signature := asked.signed_by(key)) is not None]
        except ValueError:
            signatures = []
        answer = partial(Answer, size=asked.size, log=asked.origin)
        if not signatures:
            return answer(status=403, text="No key that is trusted for this ledger signed the checkpoint.\n")
        # Signatures are checked before the lock, so that clients without a trusted key can't make the ledgers of
        # others wait.
        with self._one_at_a_time:
            try:
                return answer(**self._decided(request, note(asked.text, signatures)))
            except (OSError, ValueError, InputRefused):
                text = "This witness can't read or write its own folder, and cosigns nothing.\n"
                return answer(status=500, text=text, event="fault")

    def _decided(self, request: CheckpointRequest, kept: bytes) -> dict[str, Any]:
        """Cosign a checkpoint, to be remembered as it is kept, or not; a damaged folder raises."""
        asked, latest, key = request.checkpoint, self._latest(request.checkpoint.origin), self._signing_key()
        refusal = _refusal(request, latest)
        if refusal is not None:
            return refusal
        # Durable before the cosignature leaves: after a crash in between, the witness remembers more than anybody has
        # seen, which is safe. The other order would let it cosign a second history.
        if latest is None or asked.size > latest.size:
            replace_private(self._path(asked.origin), kept)
        cosignature = self.key.sign(asked.text, key, seconds=int(self._seconds()))
        return {"status": 200, "text": cosignature.line, "event": "cosigned"}

    def _signing_key(self) -> SigningKey:
        key = SigningKeys(home=self.home).current()
        if key.public != self.key.public:
            raise ValueError("the key is another one than when the witness began")
        return key

    def _latest(self, origin: str) -> Checkpoint | None:
        """Return the last checkpoint that was cosigned of a ledger, None where none was; a damaged one raises."""
        try:
            latest = read_checkpoint(self._path(origin).read_bytes())
        except FileNotFoundError:
            return None
        if latest.origin != origin:
            raise ValueError("the checkpoint is of another ledger")
        return latest

    def _path(self, origin: str) -> Path:
        return self.home / "checkpoints" / f"{hashlib.sha256(origin.encode()).hexdigest()}.checkpoint"


def _refusal(request: CheckpointRequest, latest: Checkpoint | None) -> dict[str, Any] | None:
    """Return why a checkpoint isn't cosigned; None where it continues the last one."""
    asked, known = request.checkpoint, 0 if latest is None else latest.size
    root = asked.root if latest is None else latest.root
    if request.old > asked.size:
        return {"status": 400, "text": "The old size is above that of the checkpoint.\n"}
    # 409 with the size that is known, as the protocol demands: whoever asks then proves consistency from there. It is
    # no accusation, since an answer may simply have been lost.
    if request.old != known:
        return {"status": 409, "text": f"{known}\n", "kind": "text/x.tlog.size", "event": "size"}
    if latest is not None and asked.size == known and asked.root != root:
        return {"status": 409, "text": "Another tree of this size was cosigned.\n", "event": "forked"}
    if not consistent(old=known, old_root=root, size=asked.size, root=asked.root, proof=request.proof):
        text = f"The proof doesn't show that the ledger continues the {known} entries that were cosigned.\n"
        return {"status": 422, "text": text, "event": "forked"}
    return None


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ADDED = "/add-checkpoint"


class Application:
    """The witness as an application of ASGI."""

    def __init__(self, witness: Witness, write: Callable[[str], None]) -> None:
        self._witness = witness
        self._write = write

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        answer = await self._answered(scope, receive)
        facts = {"event": answer.event, "status": answer.status, "log": answer.log, "size": answer.size}
        self._write(json.dumps(facts))
        body = answer.text.encode()
        headers = [(b"content-type", answer.kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answered(self, scope: Message, receive: Receive) -> Answer:
        if scope["path"] != ADDED:
            return Answer(status=404, text=f"There is {ADDED} alone.\n")
        if scope["method"] != "POST":
            return Answer(status=405, text="A checkpoint is posted.\n")
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return Answer(status=400, text="The request broke off.\n")
            # Counted while it arrives. A length that the request states is not relied on.
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > LONGEST_REQUEST:
                return Answer(status=413, text="The request is too long.\n")
        return await to_thread.run_sync(self._witness.answer, body)


def serve(
    home: Path,
    *,
    key: NoteKey,
    logs: tuple[NoteKey, ...],
    host: str,
    port: int,
    tls: tuple[Path, Path] | None,
    ready: Callable[[str], None],
) -> None:
    """Serve until a signal ends it; a folder, an address or a certificate that can't be had is refused.

    Args:
        home: the witness's private folder.
        key: its public key.
        logs: the ledgers that it watches.
        host: the address to listen at.
        port: 0 for any that is free.
        tls: files of the certificate and of its private key; None for plain HTTP, such as behind a proxy.
        ready: called with the address once it can be asked.
    """
    if tls is not None:
        _require_certificate(*tls)
    held = InputRefused(
        "another process is the witness of this folder: two would not see what the other cosigns.",
        where=str(home),
        not_done="",
        remedy="End that one first.",
    )
    open_private_store(home)
    with lock_file(home / "lock", held), listening(host, port) as listener:
        with require_usable(home, "the folder", not_done=""):
            private_folder(home / "checkpoints")
        witness = Witness(home, key=key, logs=logs, seconds=time.time)
        ready(url_of(host, listener, scheme="http" if tls is None else "https"))
        serve_on(
            listener,
            Application(witness, _to_standard_error),
            lifespan="off",
            limit_concurrency=64,
            ssl_certfile=None if tls is None else tls[0],
            ssl_keyfile=None if tls is None else str(tls[1]),
        )


def _to_standard_error(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _require_certificate(certificate: Path, key: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        raise InputRefused(
            f"the certificate can't be used ({error.strerror or type(error).__name__}).",
            where=f"{certificate}, {key}",
            not_done="",
            remedy="Name a certificate and its private key, both in PEM.",
        ) from None
