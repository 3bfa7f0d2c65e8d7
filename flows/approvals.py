"""A second person's approval of a specification: their signature over its digest, in a file beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from ..accounting.given_files import read_given
from ..accounting.kernel.field_forms import require_digest, require_name
from ..accounting.kernel.keys.signing import PublicKey, SigningKeys, Statement, read_statement, signed_statement
from ..accounting.keys.signing_upkeep import read_public_keys
from ..mechanisms.kernel.errors import InputRefused
from ..tasks.request import Request
from .paths import StatePaths

DOMAIN = b"crowdblend approval 1\n"
"""What is signed begins with this line, so that no other signature of the project is taken for an approval."""
ENDING = ".approval"
LARGEST = 1 << 16  # bytes
FIELDS = {"by", "day", "key_id", "public_key", "spec_digest"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """An approval whose signature holds for the key that it names.

    Args:
        by: name of who approved, as they wrote it.
        day: on which they did, likewise.
        key: the public key that checks their signature.
        spec_digest: SHA-256 (hex) of the specification, as the ledger has it of a release.
    """

    by: str
    day: date
    key: PublicKey
    spec_digest: str


def approval_file(spec: Path) -> Path:
    """Return where the approval of a specification lies."""
    return spec.with_name(spec.name + ENDING)


def approve(request: Request, *, by: str, day: date, keys: SigningKeys, folder: Path | None = None) -> bytes:
    """Return the approval of a specification: one line, without its end.

    Args:
        request: what is approved.
        by: name of who approves.
        day: of the approval.
        keys: of whoever approves.
        folder: where the specification lies at the steward, since its digest names that folder; None where it is read
            from there.

    Raises:
        InputRefused: there is no signing key, or the name can't be recorded.
    """
    try:
        require_name(by, "name of who approves")
    except ValueError as error:
        raise InputRefused(f"{error}.", where="--by") from None
    digest = (request if folder is None else replace(request, base=folder)).digest
    fields = {"by": by, "day": day.isoformat(), "spec_digest": digest}
    return signed_statement(fields, keys.current(), domain=DOMAIN)


def read_approval(content: bytes, *, where: str) -> Approval:
    """Read an approval, and check that its signature holds for the key that it names.

    Raises:
        InputRefused: it is none.
    """
    try:
        stated = read_statement(content.strip())
        if stated.holds(domain=DOMAIN) and set(stated.fields) == FIELDS:
            return _approval(stated)
    except (ValueError, TypeError):
        pass
    raise InputRefused(
        "this is no approval, or something in it was changed after it was signed.",
        where=where,
        remedy="Have the specification approved with `crowdblend approve`.",
    )


def _approval(stated: Statement) -> Approval:
    by, digest = stated.fields["by"], stated.fields["spec_digest"]
    require_name(by, "name")
    require_digest(digest, "digest")
    return Approval(by=by, day=date.fromisoformat(stated.fields["day"]), key=stated.key, spec_digest=digest)


def require_approved(request: Request, spec: Path, state_paths: StatePaths) -> Approval | None:
    """Check that a specification is approved by a second person, where the settings name who may approve.

    INVARIANT: the signature is over the digest that the ledger's entry will have, so that nothing that decides what is
    released can be changed after the approval. A key of the private store that signs the charge is never a second
    person's.

    Args:
        request: what is about to be charged.
        spec: its specification's file, beside which the approval lies.
        state_paths: name the file of the public keys that count.

    Returns:
        The approval; None where none is needed.

    Raises:
        InputRefused: an approval is needed, and there is none that counts.
    """
    if state_paths.approvers is None:
        return None
    place = approval_file(spec)
    try:
        content = read_given(place, most=LARGEST)
    except FileNotFoundError:
        raise InputRefused(
            "this specification needs a second person's approval, and there is none.",
            where=str(place),
            remedy=f"Have one of {state_paths.approvers} sign it: crowdblend approve {spec.name}",
        ) from None
    except OSError as error:
        raise InputRefused(f"the approval can't be read ({error.strerror}).", where=str(place)) from None
    return check_approval(content, request, where=str(place), state_paths=state_paths)


def check_approval(content: bytes, request: Request, *, where: str, state_paths: StatePaths) -> Approval:
    """Return an approval that counts for a request.

    Args:
        content: of the approval's file.
        request: what it must be an approval of.
        where: it was found, for messages.
        state_paths: name who may approve, and the private store whose own keys don't count.

    Raises:
        InputRefused: it doesn't count.
    """
    found = read_approval(content, where=where)
    if found.spec_digest != request.digest:
        raise InputRefused(
            "this approval is of another specification, or this one was changed after it was approved.",
            where=where,
            remedy="Have the specification approved as it is now.",
        )
    if found.key in state_paths.anchoring.keys.public_keys():
        raise InputRefused(
            "the key that signed this approval belongs to the private store that makes the release: it is no second "
            "person's.",
            where=where,
            remedy="Have it approved by somebody else, with a private store (CROWDBLEND_HOME) of their own.",
        )
    if state_paths.approvers is None or found.key not in read_public_keys(state_paths.approvers):
        raise InputRefused(
            f"the key {found.key.key_id} that signed this approval is none of those that may approve.",
            where=where,
            remedy=f"Those are in {state_paths.approvers}: `crowdblend key export` writes one of them.",
        )
    return found
