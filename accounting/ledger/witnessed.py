"""A ledger's heads as witnesses have seen them: checkpoints are cosigned on request, and held against the ledger.

A witness keeps the last head that it saw, elsewhere, and cosigns another one only where that continues it. So a ledger
that is written anew is found even where its anchor and keys were rewritten with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from ...mechanisms.errors import AccountantRefused, InputRefused, ReleaseFailed
from .chain.checkpoint import (
    PLAIN,
    Checkpoint,
    CheckpointRequest,
    InclusionProof,
    MerkleTree,
    NamedWitness,
    NoteKey,
    NoteSignature,
    Policy,
    checkpoint_text,
    consistent,
    included,
    leaf_hash,
    note,
    origin_of,
    read_checkpoint,
    read_inclusion_proof,
    read_policy,
    read_request,
    read_signatures,
    time_of,
)
from .chain.hashing import GENESIS, link_hash
from .chain.signed_state import Place
from .database.schema import STREAMED, entry
from .database.store import Store, open_store, present_head
from .entries.codec import entry_of_bytes
from .entries.kinds import Entry, ReleaseCharged
from .given_files import read_given
from .private_store.keys import replace_private
from .private_store.signing import PublicKey
from .queries import ledger_id_of

if TYPE_CHECKING:
    import httpx

    from .chain.anchor import Anchoring

__all__ = [
    "Answered",
    "CertifiedCharge",
    "Cosigner",
    "WitnessCheck",
    "Witnessed",
    "check_proof",
    "check_witnessed",
    "log_key",
    "name_witness",
    "policy_of_file",
    "prove_entry",
    "prove_since",
    "witness_head",
]

NOT_WITNESSED = "The head is not witnessed, and the last witnessed checkpoint stays as it was."
FORKED = (
    "Write nothing more to this ledger and keep it as evidence. The checkpoint that the witness last cosigned is with "
    "its operator; `crowdblend ledger verify` tells what differs from the anchor."
)
SECONDS_TO_ANSWER = 30.0
LONGEST_ANSWER = 1 << 16
LARGEST_POLICY = 1 << 20  # bytes
SIZE_TYPE = "text/x.tlog.size"


def checkpoint_beside(anchor: Path) -> Path:
    """Where the last witnessed checkpoint of an anchor's ledger lies."""
    return anchor.with_suffix(".checkpoint")


def policy_of_file(path: Path) -> Policy:
    """Read which witnesses count.

    Raises:
        InputRefused: it can't be read, or a line has another form.
    """
    try:
        return read_policy(read_given(path, most=LARGEST_POLICY))
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
    """Add a witness to the list beside an anchor, or begin that list.

    Args:
        path: the list.
        key: the witness's verifier key.
        url: where it is asked.
        enough: how many of all in the list must cosign; None for all.

    Returns:
        How many witnesses are named, and how many of them must cosign.

    Raises:
        InputRefused: it is no such key, is named already, or the list was written in another form, or can't be written.
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
    numbers = [f"w{number}" for number in range(1, len(members) + 1)]
    lines = [f"witness {name} {text} {place}" for name, (text, place) in zip(numbers, members, strict=True)]
    lines += [f"group enough {needed} {' '.join(numbers)}", "quorum enough", ""]
    content = "\n".join(lines).encode("utf-8", "replace")
    try:
        if len(read_policy(content).witnesses) != len(members) or not 1 <= needed <= len(members):
            raise ValueError(f"{needed} of {len(members)} witnesses can't be asked for")  # noqa: TRY301
        replace_private(path, content)
    except OSError as error:
        raise InputRefused(f"the list can't be written ({error.strerror}).", where=str(path)) from None
    except ValueError as error:
        raise InputRefused(f"this witness can't be named: {error}.", where="KEY URL", not_done=unchanged) from None
    return len(members), needed


def log_key(ledger_id: str, public: PublicKey) -> NoteKey:
    """The key of a ledger's checkpoints, as witnesses and auditors are told it."""
    return NoteKey(name=origin_of(ledger_id), kind=PLAIN, public=public)


def _tree(connection: Connection) -> tuple[MerkleTree, str]:
    """The tree over a ledger's entries, and the hash of the last one.

    INVARIANT: a leaf is an entry's hash as it follows from the bytes of all entries up to it, not as it is stored.

    Raises:
        ReleaseFailed: an entry is missing or damaged.
    """
    rows = connection.execute(
        select(entry.c.position, entry.c.body).order_by(entry.c.position), execution_options=STREAMED
    )
    leaves, previous = [], GENESIS
    for expected, (position, body) in enumerate(rows):
        try:
            if position != expected:
                raise ValueError  # noqa: TRY301 - as damaged as bytes that aren't ASCII
            previous = link_hash(previous=previous, position=position, body=body.encode("ascii"))
        except ValueError:
            raise ReleaseFailed(
                f"entry {expected} is missing or damaged, so that no checkpoint can be computed.",
                not_done="",
                remedy="Run `crowdblend ledger verify`.",
            ) from None
        leaves.append(bytes.fromhex(previous))
    return MerkleTree(leaves), previous


@dataclass(frozen=True, kw_only=True, slots=True)
class Cosigner:
    """A witness's cosignature on a checkpoint.

    Args:
        name: of the witness, in the policy.
        time: when it cosigned.
    """

    name: str
    time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Witnessed:
    """A head that enough witnesses have cosigned.

    Args:
        size: how many entries it is over.
        cosigners: who cosigned it.
        faults: why others didn't, one sentence each.
        path: the file that has it.
    """

    size: int
    cosigners: tuple[Cosigner, ...]
    faults: tuple[str, ...]
    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What a witness answered.

    Args:
        cosignature: on the checkpoint, which holds; None where there is none.
        fault: why there is none, in a sentence; empty where there is one.
        forked: whether the witness says that the ledger doesn't continue what it saw.
    """

    cosignature: NoteSignature | None = None
    fault: str = ""
    forked: bool = False


def witness_head(url: str, *, anchoring: Anchoring, policy_file: Path, checkpoint: Path | None = None) -> Witnessed:
    """Have the present head cosigned by the witnesses, and keep the cosigned checkpoint.

    INVARIANT: a checkpoint is signed only of a ledger that continues its anchor and the last witnessed checkpoint, and
    whose signed head follows from the bytes of all its entries. What was witnessed is replaced only by a checkpoint
    that enough witnesses cosigned and none contradicts.

    Args:
        url: the ledger's address.
        anchoring: who signs, and where the anchor lies.
        policy_file: says who is asked, and how many must cosign.
        checkpoint: the file in which it is kept; None for the one beside the anchor.

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
    store = open_store(url, anchoring=None)
    try:
        tree, ledger_id = _own_tree(store, anchoring)
    finally:
        store.close()
    path = checkpoint or checkpoint_beside(anchoring.anchor_of(ledger_id).path)
    before = _kept(path)
    if before is not None:
        _require_part(tree, before[0], path)
    own = log_key(ledger_id, key.public)
    text = checkpoint_text(origin=own.name, size=tree.size, root=tree.root())
    signed = note(text, [own.sign(text, key)])
    answers = _ask_all(policy, tree, signed, own)
    for one, answer in zip(policy.witnesses, answers, strict=True):
        if answer.forked:
            raise AccountantRefused(
                f"the witness {one.name} finds that this ledger is not the one that it saw: {answer.fault}",
                where=str(one.url),
                not_done=NOT_WITNESSED,
                remedy=FORKED,
                cause="forked",
            )
    cosigned = {
        one.name: answer.cosignature
        for one, answer in zip(policy.witnesses, answers, strict=True)
        if answer.cosignature is not None
    }
    faults = tuple(
        f"{one.name}: {answer.fault}" for one, answer in zip(policy.witnesses, answers, strict=True) if answer.fault
    )
    if not policy.met(cosigned.keys()):
        raise ReleaseFailed(
            f"too few witnesses cosigned the head of {tree.size} entries. {' '.join(faults)}",
            not_done=NOT_WITNESSED,
            remedy="Do the same again once they answer: `crowdblend ledger anchor`.",
        )
    try:
        replace_private(path, note(text, [own.sign(text, key), *cosigned.values()]))
    except OSError as error:
        raise ReleaseFailed(
            f"the witnessed checkpoint can't be written ({error.strerror}).", where=str(path), not_done=""
        ) from None
    return Witnessed(size=tree.size, cosigners=_cosigners(cosigned), faults=faults, path=path)


def _own_tree(store: Store, anchoring: Anchoring) -> tuple[MerkleTree, str]:
    """The tree of a ledger whose head this private store signed, and the ledger's id."""
    with store.reading() as connection:
        ledger_id = ledger_id_of(connection)
    last = anchoring.last_of(ledger_id)
    with store.reading() as connection:
        head = present_head(connection)
        anchoring.require_continued(connection, ledger_id=ledger_id, last=last)
        anchoring.require_signed(connection, head)
        tree, end = _tree(connection)
    if (tree.size - 1, end) != (head.position, head.hash):
        raise AccountantRefused(
            "the signed head doesn't follow from the entries: one of them was changed.",
            where=store.shown,
            not_done=NOT_WITNESSED,
            remedy="Run `crowdblend ledger verify`.",
        )
    return tree, ledger_id


def _kept(path: Path) -> tuple[Checkpoint, bytes] | None:
    """A checkpoint that is kept in a file; None where there is none.

    Raises:
        InputRefused: it can't be read, or isn't one.
    """
    try:
        content = read_given(path, most=LONGEST_ANSWER)
        return read_checkpoint(content), content
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputRefused(f"the checkpoint can't be read ({error.strerror}).", where=str(path)) from None
    except ValueError as error:
        raise InputRefused(f"this is no checkpoint: {error}.", where=str(path)) from None


def _require_part(tree: MerkleTree, checkpoint: Checkpoint, path: Path) -> None:
    """Refuse a ledger that doesn't begin with the entries of a checkpoint."""
    what = _difference(tree, checkpoint)
    if what:
        raise AccountantRefused(what, where=str(path), not_done=NOT_WITNESSED, remedy=FORKED, cause="forked")


def _difference(tree: MerkleTree, checkpoint: Checkpoint) -> str:
    """In what a ledger contradicts a checkpoint of it; empty where it begins with its entries."""
    if checkpoint.size > tree.size:
        return (
            f"the checkpoint is of {checkpoint.size} entries, and the ledger has {tree.size}: it was cut back, or an "
            "older copy was restored."
        )
    if tree.root(checkpoint.size) != checkpoint.root:
        return f"the ledger's first {checkpoint.size} entries are not those of the checkpoint: it was written anew."
    return ""


def _cosigners(cosigned: dict[str, NoteSignature]) -> tuple[Cosigner, ...]:
    return tuple(Cosigner(name=name, time=_time(time_of(one))) for name, one in cosigned.items())


def _time(seconds: int) -> datetime:
    """A time as a date; the last one that has a date for all after it."""
    latest = datetime.max.replace(tzinfo=UTC)
    return datetime.fromtimestamp(min(seconds, int(latest.timestamp()) - 1), UTC)


def _ask_all(policy: Policy, tree: MerkleTree, signed: bytes, own: NoteKey) -> list[Answered]:
    import httpx  # whoever only verifies asks nobody

    with httpx.Client(timeout=SECONDS_TO_ANSWER, follow_redirects=False) as client:
        return [_ask(one, client, tree, signed, own) for one in policy.witnesses]


def _ask(witness: NamedWitness, client: httpx.Client, tree: MerkleTree, signed: bytes, own: NoteKey) -> Answered:
    """Ask one witness by tlog-witness: first for the size that it saw last, then with the proof from there."""
    import httpx

    old = 0
    for _ in range(3):  # another process of ours may have asked in between
        request = CheckpointRequest(
            old=old, proof=tree.consistency(old, tree.size), checkpoint=read_checkpoint(signed), content=signed
        )
        try:
            status, kind, said = _posted(client, str(witness.url), request.written)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Answered(fault=f"it can't be reached ({type(error).__name__}).")
        if status == 200:
            return _cosignature(witness, request.checkpoint, said)
        if status == 409 and kind == SIZE_TYPE and re.fullmatch(rb"(0|[1-9][0-9]{0,18})\n", said):
            known = int(said)
            if known > tree.size:
                return Answered(
                    forked=True,
                    fault=f"it cosigned {known} entries, and this ledger has {tree.size}: it was cut back, or an older "
                    "copy was restored.",
                )
            if known != old:
                old = known
                continue
        if old and (status == 422 or (status == 409 and old == tree.size)):
            return Answered(
                forked=True, fault=f"the first {old} entries are not those that it cosigned: they were written anew."
            )
        return Answered(fault=_refused(status, own))
    return Answered(fault="it was asked by others at the same time; ask again.")


def _posted(client: httpx.Client, prefix: str, body: bytes) -> tuple[int, str, bytes]:
    """The status, the type and the beginning of what a witness answers."""
    said = b""
    with client.stream("POST", f"{prefix.rstrip('/')}/add-checkpoint", content=body) as response:
        for part in response.iter_bytes():
            said += part
            if len(said) > LONGEST_ANSWER:
                break
        return response.status_code, response.headers.get("content-type", ""), said


def _refused(status: int, own: NoteKey) -> str:
    match status:
        case 404:
            return f"it watches no ledger of this origin (404): its operator must add --ledger '{own.text}'."
        case 403:
            return f"it doesn't trust the key that signs now (403): its operator must add --ledger '{own.text}'."
        case _:
            return f"it answered with {status}."


def _cosignature(witness: NamedWitness, checkpoint: Checkpoint, said: bytes) -> Answered:
    """The witness's own cosignature among the lines of its answer."""
    try:
        lines = read_signatures(said.decode("utf-8").removesuffix("\n").split("\n"))
        asked = Checkpoint(
            text=checkpoint.text,
            origin=checkpoint.origin,
            size=checkpoint.size,
            root=checkpoint.root,
            signatures=lines,
        )
        found = asked.signed_by(witness.key)
    except ValueError as error:
        return Answered(fault=f"its answer can't be relied on: {error}.")
    return Answered(cosignature=found) if found else Answered(fault="its answer has no cosignature by its key.")


@dataclass(frozen=True, kw_only=True, slots=True)
class WitnessCheck:
    """What witnesses have seen of a ledger, by a checkpoint.

    Args:
        findings: what does not hold, one sentence each; empty where enough witnesses cosigned what is there.
        unchecked: what a checkpoint can't show, one sentence each.
        size: how many entries are witnessed; 0 where there is a finding.
        cosigners: who cosigned them.
    """

    findings: tuple[str, ...]
    unchecked: tuple[str, ...] = ()
    size: int = 0
    cosigners: tuple[Cosigner, ...] = ()


def check_witnessed(
    path: Path,
    *,
    connect: Callable[[], AbstractContextManager[Connection]],
    policy: Policy,
    trusted: tuple[PublicKey, ...],
) -> WitnessCheck:
    """Hold a ledger against the last checkpoint that was witnessed.

    Args:
        path: the file that has it.
        connect: gives a connection in a reading transaction.
        policy: whose cosignatures count, and how many of them are needed.
        trusted: public keys that may have signed it, where the policy names none.
    """
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
    found = kept[0]
    findings, cosigners = _judged(found, policy, trusted)
    if found.origin != origin_of(ledger_id):
        findings.append("the witnessed checkpoint is of another ledger")
    else:
        findings += [one.rstrip(".") for one in [_difference(tree, found)] if one]
    unchecked = []
    if tree.size > found.size:
        unchecked.append(f"the entries after entry {found.size - 1}: they are not witnessed yet.")
    unchecked.append(_withheld(cosigners))
    return WitnessCheck(
        findings=tuple(findings), unchecked=tuple(unchecked), size=0 if findings else found.size, cosigners=cosigners
    )


def _withheld(cosigners: tuple[Cosigner, ...]) -> str:
    when = max((one.time for one in cosigners), default=None)
    since = "" if when is None else f" after {when:%Y-%m-%d %H:%M} UTC"
    return f"a head that witnesses cosigned{since} and that is not shown here."


def _judged(
    checkpoint: Checkpoint, policy: Policy, trusted: Iterable[PublicKey]
) -> tuple[list[str], tuple[Cosigner, ...]]:
    """What speaks against a checkpoint's signatures, and who cosigned it."""
    findings: list[str] = []
    cosigned: dict[str, NoteSignature] = {}
    keys = policy.logs or tuple(NoteKey(name=checkpoint.origin, kind=PLAIN, public=public) for public in trusted)
    try:
        if not any(checkpoint.signed_by(key) for key in keys if key.name == checkpoint.origin):
            findings.append("the witnessed checkpoint is signed by no key that is trusted for this ledger")
        for one in policy.witnesses:
            signature = checkpoint.signed_by(one.key)
            if signature is not None:
                cosigned[one.name] = signature
    except ValueError as error:
        findings.append(f"the witnessed checkpoint can't be relied on: {error}")
        return findings, ()
    if not policy.met(cosigned.keys()):
        missing = ", ".join(one.name for one in policy.witnesses if one.name not in cosigned)
        findings.append(f"too few witnesses cosigned the checkpoint: there is no cosignature of {missing}")
    return findings, _cosigners(cosigned)


def prove_since(url: str, *, since: Path, head: Path) -> bytes:
    """The proof that a witnessed head continues an earlier checkpoint, for whoever kept that one.

    Raises:
        InputRefused: a checkpoint can't be read, or there is none.
        AccountantRefused: the ledger contradicts one of them.
    """
    tree, (latest, content) = _tree_of_head(url, head)
    earlier, _ = _required(since)
    if earlier.origin != latest.origin:
        raise InputRefused("this checkpoint is of another ledger.", where=str(since))
    _require_part(tree, earlier, since)
    if earlier.size > latest.size:
        raise InputRefused(
            f"this checkpoint is of {earlier.size} entries, and the last witnessed one of {latest.size}.",
            where=str(since),
            remedy="Have the present head witnessed first: `crowdblend ledger anchor`.",
        )
    proof = tree.consistency(earlier.size, latest.size)
    return CheckpointRequest(old=earlier.size, proof=proof, checkpoint=latest, content=content).written


def prove_entry(url: str, *, position: int, head: Path) -> bytes:
    """The proof that an entry is among those of the witnessed head; the entry is in it.

    Raises:
        InputRefused: there is no checkpoint, or it has no such entry.
        AccountantRefused: the ledger contradicts the checkpoint.
    """
    tree, (latest, content) = _tree_of_head(url, head)
    if position >= latest.size:
        raise InputRefused(
            f"the witnessed checkpoint is of {latest.size} entries, 0 to {latest.size - 1}.",
            where="--entry",
            remedy="Have the present head witnessed first: `crowdblend ledger anchor`.",
        )
    store = open_store(url, anchoring=None)
    try:
        with store.reading() as connection:
            row = connection.execute(select(entry.c.previous, entry.c.body).where(entry.c.position == position)).one()
    finally:
        store.close()
    return InclusionProof(
        previous=bytes.fromhex(row.previous),
        body=row.body.encode("ascii"),
        index=position,
        proof=tree.inclusion(position, latest.size),
        checkpoint=latest,
        content=content,
    ).written


def _tree_of_head(url: str, head: Path) -> tuple[MerkleTree, tuple[Checkpoint, bytes]]:
    latest = _required(head)
    store = open_store(url, anchoring=None)
    try:
        with store.reading() as connection:
            tree, _ = _tree(connection)
    finally:
        store.close()
    _require_part(tree, latest[0], head)
    return tree, latest


def _required(path: Path) -> tuple[Checkpoint, bytes]:
    kept = _kept(path)
    if kept is None:
        raise InputRefused(
            "there is no checkpoint here.",
            where=str(path),
            remedy="Name witnesses and have the head witnessed: `crowdblend ledger anchor`.",
        )
    return kept


@dataclass(frozen=True, kw_only=True, slots=True)
class CertifiedCharge:
    """What a certificate says of its charge.

    Args:
        place: where it stands in the ledger.
        release_id: of the release.
        sample_id: of its sample, None where it drew none.
    """

    place: Place
    release_id: object
    sample_id: object

    def stands(self, entry: Entry, place: Place) -> bool:
        """Whether an entry at a place is this charge."""
        return (
            isinstance(entry, ReleaseCharged)
            and place == self.place
            and (entry.release_id, entry.sample_id) == (self.release_id, self.sample_id)
        )


def check_proof(
    content: bytes,
    *,
    policy: Policy,
    trusted: tuple[PublicKey, ...],
    since: Path | None,
    charge: CertifiedCharge | None = None,
) -> tuple[WitnessCheck, Entry | None]:
    """Check a proof without the ledger.

    Args:
        content: what `prove_since` or `prove_entry` gave.
        policy: whose cosignatures count.
        trusted: public keys of the ledger, where the policy names none.
        since: the earlier checkpoint, as the reader kept it, that the proof begins with; None for a proof of an entry.
        charge: which charge the entry must be; None where any entry will do.

    Returns:
        What was found, and the entry where the proof is one of an entry and nothing was found.

    Raises:
        InputRefused: the proof or the earlier checkpoint has another form.
    """
    try:
        if since is None:
            proof = read_inclusion_proof(content)
            findings, cosigners = _judged(proof.checkpoint, policy, trusted)
            shown = entry_of_bytes(proof.body)
            hashed = link_hash(previous=proof.previous.hex(), position=proof.index, body=proof.body)
            latest, leaf = proof.checkpoint, leaf_hash(bytes.fromhex(hashed))
            if not included(leaf, index=proof.index, size=latest.size, proof=proof.proof, root=latest.root):
                findings.append(f"the proof doesn't show that entry {proof.index} is in the ledger")
            place = Place(position=proof.index, hash=hashed)
            if charge is not None and not charge.stands(shown, place):
                findings.append(f"entry {proof.index} of the proof is not the charge that the certificate names")
            size = 0 if findings else latest.size
            found = WitnessCheck(
                findings=tuple(findings), unchecked=(_withheld(cosigners),), size=size, cosigners=cosigners
            )
            return found, None if findings else shown
        request = read_request(content)
    except (ValueError, OverflowError) as error:
        raise InputRefused(f"the proof can't be read: {error}.", where="the proof") from None
    earlier, latest = _required(since)[0], request.checkpoint
    findings, cosigners = _judged(latest, policy, trusted)
    if (earlier.origin, earlier.size) != (latest.origin, request.old):
        findings.append(f"the proof begins with {request.old} entries of {latest.origin}, not with this checkpoint")
    elif not consistent(
        old=earlier.size, old_root=earlier.root, size=latest.size, root=latest.root, proof=request.proof
    ):
        findings.append(f"the ledger does not continue the {earlier.size} entries of the earlier checkpoint")
    size = 0 if findings else latest.size
    return WitnessCheck(
        findings=tuple(findings), unchecked=(_withheld(cosigners),), size=size, cosigners=cosigners
    ), None
