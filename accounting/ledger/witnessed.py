"""A ledger's heads as witnesses have seen them: checkpoints are cosigned on request, and held against the ledger.

A witness keeps the last head that it saw, elsewhere, and cosigns another one only where that continues it. So a ledger
that is written anew is found even where its anchor and keys were rewritten with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select

from ...mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..given_files import read_given
from ..kernel.keys.private_files import replace_private
from ..kernel.keys.signing import PublicKey
from ..kernel.ledger.database import STREAMED, Store, entry
from ..kernel.ledger.entries import GENESIS, Entry, ReleaseCharged, entry_of_bytes, link_hash
from ..kernel.ledger.transactions import head_in
from . import checkpoint as tlog
from .anchor_check import looking_anchored
from .database_schema import typed
from .opening import ledger_id_of, open_store

if TYPE_CHECKING:
    import httpx

    from ..keys.anchor import Anchoring

NOT_WITNESSED = "The head is not witnessed, and the last witnessed checkpoint stays as it was."
FORKED = (
    "Write nothing more to this ledger and keep it as evidence. The checkpoint that the witness last cosigned is with "
    "its operator; `crowdblend ledger verify` tells what differs from the anchor."
)
WITNESS_FIRST = "Have the present head witnessed first: `crowdblend ledger anchor`."
SECONDS_TO_ANSWER = 30.0
LONGEST_ANSWER = 1 << 16
LARGEST_POLICY = 1 << 20  # bytes
SIZE_TYPE = "text/x.tlog.size"


def policy_of_file(path: Path) -> tlog.Policy:
    """Read which witnesses count; InputRefused where the file can't be read or a line has another form."""
    try:
        return tlog.read_policy(read_given(path, most=LARGEST_POLICY))
    except OSError as error:
        raise InputRefused(f"the witnesses can't be read ({error.strerror}).", where=str(path)) from None
    except ValueError as error:
        raise InputRefused(
            f"this is no policy of witnesses: {error}.",
            where=str(path),
            remedy="The format is that of c2sp.org/tlog-policy: witness NAME KEY URL, group, quorum.",
        ) from None


OWN_LINE = re.compile(r"witness w[0-9]+ \S+ \S+|group enough \S+( w[0-9]+)+|quorum enough|")


def name_witness(path: Path, *, key: str, url: str, enough: int | None) -> tuple[int, int]:
    """Add a witness, by its verifier key, to the list beside an anchor, or begin that list.

    As many in the list as are `enough` must cosign, or all; how many there are and must is returned. InputRefused where
    it is no such key, is named already, or the list was written in another form, or can't be written.
    """
    unchanged = "The list of witnesses stays as it was."
    named = policy_of_file(path).witnesses if path.exists() else ()
    if path.exists() and not all(OWN_LINE.fullmatch(line) for line in path.read_text("utf-8").split("\n")):
        raise InputRefused(
            "this list has lines of other forms than this command writes.",
            where=str(path),
            not_done=unchanged,
            remedy="Add the witness by hand: witness NAME KEY URL, and its NAME to a group.",
        )
    members = [(one.key.text, one.url) for one in named] + [(key, url)]
    needed = len(members) if enough is None else enough
    names = [f"w{number}" for number in range(1, len(members) + 1)]
    lines = [f"witness {name} {text} {place}" for name, (text, place) in zip(names, members, strict=True)]
    lines += [f"group enough {needed} {' '.join(names)}", "quorum enough", ""]
    content = "\n".join(lines).encode("utf-8", "replace")
    try:
        if len(tlog.read_policy(content).witnesses) != len(members) or not 1 <= needed <= len(members):
            raise ValueError(f"{needed} of {len(members)} witnesses can't be asked for")  # noqa: TRY301
        replace_private(path, content)
    except OSError as error:
        raise InputRefused(f"the list can't be written ({error.strerror}).", where=str(path)) from None
    except ValueError as error:
        raise InputRefused(f"this witness can't be named: {error}.", where="KEY URL", not_done=unchanged) from None
    return len(members), needed


def log_key(ledger_id: str, public: PublicKey) -> tlog.NoteKey:
    """Return the key of a ledger's checkpoints, as witnesses and auditors get it."""
    return tlog.NoteKey(name=tlog.origin_of(ledger_id), kind=tlog.PLAIN, public=public)


def _tree(connection: Connection) -> tuple[tlog.MerkleTree, str]:
    """Return the tree over a ledger's entries and the last one's hash; ReleaseFailed where one is damaged.

    INVARIANT: a leaf is an entry's hash as it follows from the bytes of all entries up to it, not as it is stored.
    """
    chain = select(typed(entry.c.position), typed(entry.c.body)).order_by(entry.c.position)
    leaves, previous = [], GENESIS
    with connection.execute(chain, execution_options=STREAMED) as rows:
        for expected, (position, body) in enumerate(rows):
            if position != expected or not body.isascii():
                raise ReleaseFailed(
                    f"entry {expected} is missing or damaged, so that no checkpoint can be computed.",
                    not_done="",
                    remedy="Run `crowdblend ledger verify`.",
                )
            previous = link_hash(previous=previous, position=position, body=body.encode("ascii"))
            leaves.append(bytes.fromhex(previous))
    return tlog.MerkleTree(leaves), previous


def witness_head(url: str, *, anchoring: Anchoring, policy_file: Path, checkpoint: Path) -> WitnessCheck:
    """Have the present head cosigned by the witnesses, and keep the cosigned checkpoint in a file.

    INVARIANT: a checkpoint is signed only of a ledger that continues its anchor and the last witnessed checkpoint, and
    whose signed head follows from the bytes of all its entries. What was witnessed is replaced only by a checkpoint
    that enough witnesses cosigned and none contradicts.

    Why others didn't cosign it is in what is unchecked.

    Raises:
        InputRefused: there is no ledger, no signing key or no such file, or a witness has no address.
        AccountantRefused: the ledger doesn't continue its anchor, its last witnessed checkpoint, or what a witness saw.
        ReleaseFailed: too few witnesses cosigned, or the ledger can't be read.
    """
    policy = policy_of_file(policy_file)
    for one in policy.witnesses:
        if one.url is None:
            raise InputRefused(
                f"it isn't said where the witness {one.name} is asked.",
                where=str(policy_file),
                remedy="Write its URL at the end of its line.",
            )
    key = anchoring.keys.current()
    with closing(open_store(url, read_only=True)) as store:
        tree, ledger_id = _own_tree(store, anchoring)
    before = _kept(checkpoint)
    if before is not None:
        _require_part(tree, before, checkpoint)
    own = log_key(ledger_id, key.public)
    # Signed only now: a checkpoint of a ledger that was cut back would be evidence against whoever signed it.
    text = tlog.checkpoint_text(origin=own.name, size=tree.size, root=tree.root())
    head = tlog.read_checkpoint(tlog.note(text, [own.sign(text, key)]))
    answers = _ask_all(policy, tree, head, own)
    for one, answer in answers:
        # One witness that contradicts is enough, whatever the others say: an honest witness cosigns one history alone.
        if answer.forked:
            raise AccountantRefused(
                f"the witness {one.name} finds that this ledger is not the one that it saw: {answer.fault}",
                where=str(one.url),
                not_done=NOT_WITNESSED,
                remedy=FORKED,
                cause="forked",
            )
    cosigned = {one.name: answer.cosignature for one, answer in answers if answer.cosignature is not None}
    faults = tuple(f"{one.name}: {answer.fault}" for one, answer in answers if answer.fault)
    if not policy.met(cosigned.keys()):
        raise ReleaseFailed(
            f"too few witnesses cosigned the head of {tree.size} entries. {' '.join(faults)}",
            not_done=NOT_WITNESSED,
            remedy="Do the same again once they answer: `crowdblend ledger anchor`.",
        )
    try:
        replace_private(checkpoint, tlog.note(text, [*head.signatures, *cosigned.values()]))
    except OSError as error:
        raise ReleaseFailed(
            f"the witnessed checkpoint can't be written ({error.strerror}).", where=str(checkpoint), not_done=""
        ) from None
    return WitnessCheck(findings=(), unchecked=faults, size=tree.size, cosigners=_times(cosigned))


def _own_tree(store: Store, anchoring: Anchoring) -> tuple[tlog.MerkleTree, str]:
    """Return the tree of a ledger whose head this private store signed, and the ledger's id."""
    with looking_anchored(store, anchoring) as ledger:
        head = head_in(ledger.state)
        tree, end = _tree(ledger.connection)
    if (tree.size - 1, end) != (head.position, head.hash):
        raise AccountantRefused(
            "the signed head doesn't follow from the entries: one of them was changed.",
            where=store.shown,
            not_done=NOT_WITNESSED,
            remedy="Run `crowdblend ledger verify`.",
        )
    return tree, head.ledger_id


def _kept(path: Path) -> tlog.Checkpoint | None:
    """Return a checkpoint that is kept in a file; None where there is none, InputRefused where it can't be read."""
    try:
        return tlog.read_checkpoint(read_given(path, most=LONGEST_ANSWER))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputRefused(f"the checkpoint can't be read ({error.strerror}).", where=str(path)) from None
    except ValueError as error:
        raise InputRefused(f"this is no checkpoint: {error}.", where=str(path)) from None


def _required(path: Path) -> tlog.Checkpoint:
    """Return a checkpoint that is kept in a file, which must be there."""
    kept = _kept(path)
    if kept is None:
        remedy = "Name witnesses and have the head witnessed: `crowdblend ledger anchor`."
        raise InputRefused("there is no checkpoint here.", where=str(path), remedy=remedy)
    return kept


def _require_part(tree: tlog.MerkleTree, checkpoint: tlog.Checkpoint, path: Path) -> None:
    """Refuse a ledger that doesn't begin with the entries of a checkpoint."""
    what = _difference(tree, checkpoint)
    if what:
        raise AccountantRefused(f"{what}.", where=str(path), not_done=NOT_WITNESSED, remedy=FORKED, cause="forked")


def _difference(tree: tlog.MerkleTree, checkpoint: tlog.Checkpoint) -> str:
    """Return in what a ledger contradicts a checkpoint of it; empty where it begins with its entries."""
    if checkpoint.size > tree.size:
        return (
            f"the checkpoint is of {checkpoint.size} entries, and the ledger has {tree.size}: it was cut back, or an "
            "older copy was restored"
        )
    if tree.root(checkpoint.size) != checkpoint.root:
        return f"the ledger's first {checkpoint.size} entries are not those of the checkpoint: it was written anew"
    return ""


def _times(cosigned: Mapping[str, tlog.NoteSignature]) -> dict[str, datetime]:
    """Return when each cosigned; the last second that has a date for all after it."""
    latest = int(datetime.max.replace(tzinfo=UTC).timestamp()) - 1
    return {name: datetime.fromtimestamp(min(tlog.time_of(one), latest), UTC) for name, one in cosigned.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """What a witness answered: its cosignature, or why there is none, such as that the ledger contradicts it."""

    cosignature: tlog.NoteSignature | None = None
    fault: str = ""
    forked: bool = False


def _ask_all(
    policy: tlog.Policy, tree: tlog.MerkleTree, head: tlog.Checkpoint, own: tlog.NoteKey
) -> list[tuple[tlog.NamedWitness, _Answer]]:
    import httpx  # whoever only verifies asks nobody

    answers = []
    # A redirect could lead to another server than the one whose key is named.
    with httpx.Client(timeout=SECONDS_TO_ANSWER, follow_redirects=False) as client:
        for one in policy.witnesses:
            try:
                answers.append((one, _ask(one, client, tree, head, own)))
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                answers.append((one, _Answer(fault=f"it can't be reached ({type(error).__name__}).")))
    return answers


def _ask(
    witness: tlog.NamedWitness, client: httpx.Client, tree: tlog.MerkleTree, head: tlog.Checkpoint, own: tlog.NoteKey
) -> _Answer:
    """Ask one witness by tlog-witness: first for the size that it saw last, then with the proof from there."""
    old = 0
    for _ in range(3):  # another process of ours may have asked in between
        request = tlog.CheckpointRequest(old=old, proof=tree.consistency(old, tree.size), checkpoint=head)
        status, kind, said = _posted(client, str(witness.url), request.written)
        if status == 200:
            return _cosignature(witness, head, said)
        if status == 409 and kind == SIZE_TYPE and re.fullmatch(rb"(0|[1-9][0-9]{0,18})\n", said):
            known = int(said)
            if known > tree.size:
                return _Answer(
                    forked=True,
                    fault=f"it cosigned {known} entries, and this ledger has {tree.size}: it was cut back, or an older "
                    "copy was restored.",
                )
            if known != old:
                old = known
                continue
        # A proof from a head that the witness itself named is refused only if the entries before that head were
        # changed.
        if old and (status == 422 or (status == 409 and old == tree.size)):
            return _Answer(
                forked=True, fault=f"the first {old} entries are not those that it cosigned: they were written anew."
            )
        unknown = {404: "watches no ledger of this origin", 403: "doesn't trust the key that signs now"}.get(status)
        if unknown:
            return _Answer(fault=f"it {unknown} ({status}): its operator must add --ledger '{own.text}'.")
        return _Answer(fault=f"it answered with {status}.")
    return _Answer(fault="it was asked by others at the same time; ask again.")


def _posted(client: httpx.Client, prefix: str, body: bytes) -> tuple[int, str, bytes]:
    """Return the status, the type and the beginning of what a witness answers."""
    said = b""
    with client.stream("POST", f"{prefix.rstrip('/')}/add-checkpoint", content=body) as response:
        for part in response.iter_bytes():
            said += part
            if len(said) > LONGEST_ANSWER:
                break
        return response.status_code, response.headers.get("content-type", ""), said


def _cosignature(witness: tlog.NamedWitness, head: tlog.Checkpoint, said: bytes) -> _Answer:
    """Return the witness's own cosignature among the lines of its answer."""
    try:
        found = replace(head, signatures=tlog.read_signatures(said.decode("utf-8"))).signed_by(witness.key)
    except ValueError as error:
        return _Answer(fault=f"its answer can't be relied on: {error}.")
    return _Answer(cosignature=found, fault="" if found else "its answer has no cosignature by its key.")


@dataclass(frozen=True, kw_only=True, slots=True)
class WitnessCheck:
    """What witnesses have seen of a ledger, by a checkpoint.

    Args:
        findings: what does not hold, one sentence each; empty where enough witnesses cosigned what is there.
        unchecked: what a checkpoint can't show, or who didn't cosign it and why, one sentence each.
        size: how many entries are witnessed; 0 where there is a finding.
        cosigners: the names, by the policy, of those who cosigned them, and when.
    """

    findings: tuple[str, ...]
    unchecked: tuple[str, ...] = ()
    size: int = 0
    cosigners: Mapping[str, datetime] = field(default_factory=dict)


def check_witnessed(
    path: Path,
    *,
    connect: Callable[[], AbstractContextManager[Connection]],
    policy: tlog.Policy,
    trusted: tuple[PublicKey, ...],
) -> WitnessCheck:
    """Hold a ledger against a file's checkpoint, signed by a key that the policy names, else by one of `trusted`."""
    try:
        kept = _kept(path)  # INVARIANT: before the ledger is looked at, so that what is in it must be there
    except InputRefused as refused:
        return WitnessCheck(findings=(refused.what,))
    if kept is None:
        return WitnessCheck(findings=("no head of this ledger is witnessed, though witnesses are named",))
    try:
        with connect() as connection:
            ledger_id = ledger_id_of(connection)
            tree, _ = _tree(connection)
    except ReleaseFailed as failed:
        return WitnessCheck(findings=(f"the ledger can't be held against what was witnessed: {failed.what}",))
    of_another = kept.origin != tlog.origin_of(ledger_id)
    against = "the witnessed checkpoint is of another ledger" if of_another else _difference(tree, kept)
    later = f"the entries after entry {kept.size - 1}: they are not witnessed yet."
    return _check(kept, policy, trusted, against, unchecked=(later,) if tree.size > kept.size else ())


def _check(
    checkpoint: tlog.Checkpoint,
    policy: tlog.Policy,
    trusted: Iterable[PublicKey],
    *against: str,
    unchecked: tuple[str, ...] = (),
) -> WitnessCheck:
    """Check a checkpoint's signatures, and add what else speaks against it: sentences, some of them empty."""
    findings: list[str] = []
    cosigned: dict[str, tlog.NoteSignature] = {}
    try:
        keys = policy.logs or [
            tlog.NoteKey(name=checkpoint.origin, kind=tlog.PLAIN, public=public) for public in trusted
        ]
        if not any(checkpoint.signed_by(key) for key in keys if key.name == checkpoint.origin):
            findings.append("the witnessed checkpoint is signed by no key that is trusted for this ledger")
        for one in policy.witnesses:
            signature = checkpoint.signed_by(one.key)
            if signature is not None:
                cosigned[one.name] = signature
        if not policy.met(cosigned.keys()):
            missing = ", ".join(one.name for one in policy.witnesses if one.name not in cosigned)
            findings.append(f"too few witnesses cosigned the checkpoint: there is no cosignature of {missing}")
    except ValueError as error:
        cosigned = {}
        findings.append(f"the witnessed checkpoint can't be relied on: {error}")
    findings += [finding for finding in against if finding]
    cosigners = _times(cosigned)
    since = f" after {max(cosigners.values()):%Y-%m-%d %H:%M} UTC" if cosigners else ""
    withheld = f"a head that witnesses cosigned{since} and that is not shown here."
    return WitnessCheck(
        findings=tuple(findings),
        unchecked=(*unchecked, withheld),
        size=0 if findings else checkpoint.size,
        cosigners=cosigners,
    )


def prove_since(url: str, *, since: Path, head: Path) -> bytes:
    """Return the proof that a witnessed head continues an earlier checkpoint, for whoever kept that one."""
    tree, latest, _ = _ledger_of_head(url, head)
    earlier = _required(since)
    if earlier.origin != latest.origin:
        raise InputRefused("this checkpoint is of another ledger.", where=str(since))
    _require_part(tree, earlier, since)
    if earlier.size > latest.size:
        raise InputRefused(
            f"this checkpoint is of {earlier.size} entries, and the last witnessed one of {latest.size}.",
            where=str(since),
            remedy=WITNESS_FIRST,
        )
    proof = tree.consistency(earlier.size, latest.size)
    return tlog.CheckpointRequest(old=earlier.size, proof=proof, checkpoint=latest).written


def prove_entry(url: str, *, position: int, head: Path) -> bytes:
    """Return the proof that an entry is among those of the witnessed head; the entry is in it."""
    tree, latest, row = _ledger_of_head(url, head, position=position)
    if row is None or position >= latest.size:
        raise InputRefused(
            f"the witnessed checkpoint is of {latest.size} entries, 0 to {latest.size - 1}.",
            where="--entry",
            remedy=WITNESS_FIRST,
        )
    previous, body = bytes.fromhex(row.previous), row.body.encode("ascii")
    proof = tree.inclusion(position, latest.size)
    return tlog.InclusionProof(previous=previous, body=body, index=position, proof=proof, checkpoint=latest).written


def _ledger_of_head(
    url: str, head: Path, *, position: int = 0
) -> tuple[tlog.MerkleTree, tlog.Checkpoint, Row[Any] | None]:
    """Return a ledger's tree, the checkpoint in a file that it continues, and the row of an entry, if any."""
    latest = _required(head)
    with closing(open_store(url, read_only=True)) as store, store.reading() as connection:
        tree, _ = _tree(connection)
        asked = select(typed(entry.c.previous), typed(entry.c.body)).where(entry.c.position == min(position, tree.size))
        row = connection.execute(asked).one_or_none()
    _require_part(tree, latest, head)
    return tree, latest, row


def check_proof(
    content: bytes,
    *,
    policy: tlog.Policy,
    trusted: tuple[PublicKey, ...],
    since: Path | None,
    certificate: Mapping[str, Any] | None = None,
) -> tuple[WitnessCheck, Entry | None]:
    """Check a proof without the ledger: one since a kept checkpoint, or one of an entry or of a certificate's charge.

    What was found is returned, and the entry where there is one and nothing was found. InputRefused where the proof or
    the earlier checkpoint has another form.
    """
    try:
        if since is None:
            return _check_entry(tlog.read_inclusion_proof(content), policy, trusted, certificate)
        request = tlog.read_request(content)
    except (ValueError, OverflowError) as error:
        raise InputRefused(f"the proof can't be read: {error}.", where="the proof") from None
    earlier, latest = _required(since), request.checkpoint
    against = ""
    if (earlier.origin, earlier.size) != (latest.origin, request.old):
        against = f"the proof begins with {request.old} entries of {latest.origin}, not with this checkpoint"
    elif not tlog.consistent(
        old=earlier.size, old_root=earlier.root, size=latest.size, root=latest.root, proof=request.proof
    ):
        against = f"the ledger does not continue the {earlier.size} entries of the earlier checkpoint"
    return _check(latest, policy, trusted, against), None


def _check_entry(
    proof: tlog.InclusionProof,
    policy: tlog.Policy,
    trusted: tuple[PublicKey, ...],
    certificate: Mapping[str, Any] | None,
) -> tuple[WitnessCheck, Entry | None]:
    shown, latest, index = entry_of_bytes(proof.body), proof.checkpoint, proof.index
    hashed = link_hash(previous=proof.previous.hex(), position=index, body=proof.body)
    leaf = tlog.leaf_hash(bytes.fromhex(hashed))
    against = []
    if not tlog.included(leaf, index=index, size=latest.size, proof=proof.proof, root=latest.root):
        against.append(f"the proof doesn't show that entry {index} is in the ledger")
    if certificate is not None:
        named = {name: certificate.get(name) for name in ("ledger", "release_id", "sample_id")}
        place = {"position": index, "hash": hashed}
        if not isinstance(shown, ReleaseCharged) or named != {
            "ledger": place,
            "release_id": shown.release_id,
            "sample_id": shown.sample_id,
        }:
            against.append(f"entry {index} of the proof is not the charge that the certificate names")
    found = _check(latest, policy, trusted, *against)
    return found, None if found.findings else shown
