"""What the ledger knows now, by look-ups whose cost does not grow with it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeVar

from sqlalchemy import ColumnElement, Connection, select

from ...mechanisms.refusal import ReleaseFailed
from .budget import Account
from .canonical import entry_of_bytes
from .charge import Receipt
from .derive import AccountAt, account_of_row
from .entry import DatasetAdded, LedgerCreated, PrivateLook
from .release_entries import ReleaseCharged, ReleasePublished, SeriesRegistered
from .schema import account, dataset, entry, release, release_stage, sample
from .token_entries import TokenAdded, TokenRevoked

__all__ = [
    "DatasetState",
    "ReleaseState",
    "Stage",
    "account_of",
    "dataset_names",
    "dataset_of",
    "ledger_id_of",
    "recorded",
    "release_of",
    "release_of_sample",
    "releases_of",
    "unrefunded_release",
]

Recorded = TypeVar(
    "Recorded",
    bound=LedgerCreated
    | DatasetAdded
    | PrivateLook
    | ReleaseCharged
    | ReleasePublished
    | SeriesRegistered
    | TokenAdded
    | TokenRevoked,
)
Stage = Literal["charged", "reading", "published", "abandoned"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetState:
    """A data set as registered, and its account now.

    Args:
        name: its name.
        relation: the one neighbouring relation of its prices.
        survey_rate: rate of its own sampling where it is itself a sample, so that it can be released once; else None.
        rows_per_person: the most records that one person has in a delivery.
        account: what is spent and what may be.
    """

    name: str
    relation: str
    survey_rate: Decimal | None
    rows_per_person: int
    account: Account

    @property
    def survey(self) -> bool:
        """Whether it is itself a sample, so that it can be released once."""
        return self.survey_rate is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseState:
    """A release as the ledger knows it.

    Args:
        release_id: its id.
        stage: "charged" (paid, nothing read), "reading", "published" or "abandoned".
        refunded: whether its cost was given back.
        charge: what was charged, for which mechanism.
        receipt: proof of the payment, as it was given when the release was charged.
        output_hashes: name and SHA-256 (hex) of the published files; empty before publication.
    """

    release_id: str
    stage: Stage
    refunded: bool
    charge: ReleaseCharged
    receipt: Receipt
    output_hashes: tuple[tuple[str, str], ...]


def ledger_id_of(connection: Connection) -> str:
    """The ledger's id, from its first entry.

    Raises:
        ReleaseFailed: the first entry is not what it must be.
    """
    first = connection.execute(select(entry.c.body).where(entry.c.position == 0)).scalar()
    return recorded(first, LedgerCreated).ledger_id


def dataset_names(connection: Connection) -> tuple[str, ...]:
    """Names of all data sets, sorted."""
    return tuple(sorted(connection.execute(select(dataset.c.name)).scalars()))


def dataset_of(connection: Connection, name: str) -> DatasetState | None:
    """A data set and its account, None where the ledger has none of this name."""
    body = connection.execute(
        select(entry.c.body).join(dataset, dataset.c.position == entry.c.position).where(dataset.c.name == name)
    ).scalar()
    if body is None:
        return None
    added = recorded(body, DatasetAdded)
    return DatasetState(
        name=name,
        relation=added.relation,
        survey_rate=added.survey_rate,
        rows_per_person=added.rows_per_person,
        account=account_of(connection, name).account,
    )


def account_of(connection: Connection, name: str) -> AccountAt:
    """The latest account of a data set that is known to exist.

    Raises:
        ReleaseFailed: the ledger is damaged.
    """
    row = connection.execute(
        select(account).where(account.c.dataset == name).order_by(account.c.sequence.desc()).limit(1)
    ).one_or_none()
    if row is None:
        raise ReleaseFailed("a data set has no account.", not_done="", remedy="Run `crowdblend ledger verify`.")
    try:
        return account_of_row(row._asdict())
    except ValueError:
        raise ReleaseFailed(
            "an account's amounts are damaged.", not_done="", remedy="Run `crowdblend ledger verify`."
        ) from None


def release_of(connection: Connection, release_id: str) -> ReleaseState | None:
    """A release, None where the ledger has none of this id."""
    return next(iter(_states(connection, release.c.release_id == release_id)), None)


def releases_of(connection: Connection, *, latest: int | None = None) -> tuple[ReleaseState, ...]:
    """Releases in the order of their charges: the latest so many, or all."""
    if latest is None:
        return _states(connection)
    places = select(release.c.position).order_by(release.c.position.desc()).limit(latest)
    first = min(connection.execute(places).scalars(), default=0)
    return _states(connection, release.c.position >= first)


def _states(connection: Connection, *conditions: ColumnElement[bool]) -> tuple[ReleaseState, ...]:
    """The releases for which some conditions on the table `release` hold."""
    charges = (
        select(release.c.release_id, entry.c.position, entry.c.hash, entry.c.body)
        .join(entry, release.c.position == entry.c.position)
        .where(*conditions)
    )
    stages = (
        select(release_stage.c.release_id, release_stage.c.outcome)
        .join(release, release.c.release_id == release_stage.c.release_id)
        .where(*conditions)
    )
    files = (
        select(release_stage.c.release_id, entry.c.body)
        .join(entry, release_stage.c.position == entry.c.position)
        .join(release, release.c.release_id == release_stage.c.release_id)
        .where(release_stage.c.outcome == "published", *conditions)
    )
    outcomes: dict[str, set[str]] = {}
    for row in connection.execute(stages):
        outcomes.setdefault(row.release_id, set()).add(row.outcome)
    published = {
        row.release_id: recorded(row.body, ReleasePublished).output_hashes for row in connection.execute(files)
    }
    ledger_id = ledger_id_of(connection)
    states = []
    for row in connection.execute(charges.order_by(entry.c.position)):
        charge, passed = recorded(row.body, ReleaseCharged), outcomes.get(row.release_id, set())
        receipt = Receipt.of(charge, ledger_id=ledger_id, position=row.position, link=row.hash)
        state = ReleaseState(
            release_id=row.release_id,
            stage=_stage(passed),
            refunded="refunded" in passed,
            charge=charge,
            receipt=receipt,
            output_hashes=published.get(row.release_id, ()),
        )
        states.append(state)
    return tuple(states)


def release_of_sample(connection: Connection, sample_id: str) -> str | None:
    """The release that a sample serves, None for a sample that serves none."""
    return connection.execute(select(sample.c.release_id).where(sample.c.sample_id == sample_id)).scalar()


def unrefunded_release(connection: Connection, name: str) -> str | None:
    """Some release of a data set whose cost was not given back, None where there is none."""
    refunded = (
        select(release_stage.c.release_id)
        .where(release_stage.c.release_id == release.c.release_id, release_stage.c.outcome == "refunded")
        .exists()
    )
    return connection.execute(
        select(release.c.release_id).where(release.c.dataset == name, ~refunded).limit(1)
    ).scalar()


def recorded(body: object, kind: type[Recorded]) -> Recorded:
    """The entry of a body that must be of one kind; a damaged SQLite file may hold something else than text.

    Raises:
        ReleaseFailed: it is damaged, or of another kind.
    """
    try:
        found = entry_of_bytes((body if isinstance(body, str) else "").encode("ascii"))
    except ValueError:
        found = None
    if not isinstance(found, kind):
        raise ReleaseFailed(
            f"an entry of kind {kind.KIND} is damaged.", not_done="", remedy="Run `crowdblend ledger verify`."
        )
    return found


def _stage(outcomes: set[str]) -> Stage:
    if "published" in outcomes:
        return "published"
    if outcomes & {"abandoned", "refunded"}:
        return "abandoned"
    return "reading" if "reading" in outcomes else "charged"
