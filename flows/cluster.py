"""The [cluster] table of a specification: which Dask cluster counts, and how one is started for it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..mechanisms.errors import InputRefused

__all__ = ["CLASSES", "ClusterTable", "ExistingCluster", "StartedCluster", "cluster_of_spec"]

CLASSES = {
    "distributed.LocalCluster": "crowdblend",
    "dask_jobqueue.SLURMCluster": "crowdblend[slurm]",
    "dask_jobqueue.PBSCluster": "crowdblend[slurm]",
    "dask_jobqueue.LSFCluster": "crowdblend[slurm]",
    "dask_jobqueue.SGECluster": "crowdblend[slurm]",
    "dask_jobqueue.HTCondorCluster": "crowdblend[slurm]",
    "dask_kubernetes.operator.KubeCluster": "crowdblend[kubernetes]",
    "dask_gateway.GatewayCluster": "crowdblend[gateway]",
}
"""What `class` may name, and the extra that installs it: no other code is imported because a file says so."""

MOST_WORKERS = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ExistingCluster:
    """A cluster that somebody else runs.

    Args:
        address: of its scheduler; None where a scheduler file has it.
        scheduler_file: as `dask scheduler --scheduler-file` writes it.
        workers: how many must have joined before anything is charged.
        wait_seconds: how long they are waited for.
    """

    address: str | None = None
    scheduler_file: Path | None = None
    workers: int = 1
    wait_seconds: int = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class StartedCluster:
    """A cluster that is started for one release and ends with it.

    Args:
        cls: one of `CLASSES`.
        kwargs: its arguments.
        adapt: arguments of its `adapt`, None for a fixed size.
        scale: argument of its `scale`, None to leave the size that the class gives.
        workers: how many must have joined before anything is charged.
        wait_seconds: how long they are waited for.
    """

    cls: str
    kwargs: dict[str, Any] = field(repr=False)
    adapt: dict[str, int] | None
    scale: int | None
    workers: int
    wait_seconds: int


class _Adapt(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    minimum: int = Field(default=0, ge=0, le=MOST_WORKERS)
    maximum: int = Field(ge=1, le=MOST_WORKERS)


class ClusterTable(BaseModel):
    """[cluster] as it is written; nothing in it decides what is released."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    address: str | None = Field(default=None, min_length=1)
    scheduler_file: str | None = Field(default=None, min_length=1)
    cls: str | None = Field(default=None, alias="class")
    kwargs: dict[str, Any] = {}
    adapt: _Adapt | None = None
    scale: int | None = Field(default=None, ge=1, le=MOST_WORKERS)
    workers: int = Field(default=1, ge=1, le=MOST_WORKERS)
    wait_seconds: int = Field(default=120, ge=1, le=86_400)

    @model_validator(mode="after")
    def one_way(self) -> Self:
        """A cluster is named in one way, and only one that is started has arguments."""
        named = [self.address, self.scheduler_file, self.cls]
        if sum(way is not None for way in named) != 1:
            raise ValueError("name exactly one of address, scheduler_file and class")
        if self.cls is None and (self.kwargs or self.adapt or self.scale):
            raise ValueError("kwargs, adapt and scale are for a cluster that is started by its class")
        if self.adapt is not None and self.scale is not None:
            raise ValueError("name one of adapt and scale")
        if self.cls is not None and self.cls not in CLASSES:
            raise ValueError(f"class must be one of {', '.join(CLASSES)}")
        return self


def cluster_of_spec(path: Path) -> ExistingCluster | StartedCluster | None:
    """Read a specification's [cluster] table; None where it has none.

    Args:
        path: the specification's file.

    Raises:
        InputRefused: the file can't be read, or the table is wrong.
    """
    try:
        tables = tomllib.loads(path.read_bytes().decode("utf-8-sig"), parse_float=Decimal)
    except OSError as error:
        raise InputRefused(f"the specification can't be read ({error.strerror}).", where=str(path)) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise InputRefused("this is not TOML in UTF-8.", where=str(path)) from None
    if "cluster" not in tables:
        return None
    try:
        table = ClusterTable.model_validate(tables["cluster"])
    except ValidationError as error:
        finding: Any = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in finding["loc"])
        raise InputRefused(f"{finding['msg']}.", where=f"{path}: [cluster]{f'.{key}' if key else ''}") from None
    return _chosen(table, base=path.resolve().parent)


def _chosen(table: ClusterTable, *, base: Path) -> ExistingCluster | StartedCluster:
    if table.cls is None:
        return ExistingCluster(
            address=table.address,
            scheduler_file=None if table.scheduler_file is None else base / table.scheduler_file,
            workers=table.workers,
            wait_seconds=table.wait_seconds,
        )
    return StartedCluster(
        cls=table.cls,
        kwargs={name: _plain(value) for name, value in table.kwargs.items()},
        adapt=None if table.adapt is None else table.adapt.model_dump(),
        scale=table.scale,
        workers=table.workers,
        wait_seconds=table.wait_seconds,
    )


def _plain(value: object) -> object:
    """TOML's numbers as Python's floats, for other people's code."""
    match value:
        case Decimal():
            return float(value)
        case list():
            return [_plain(one) for one in value]
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case _:
            return value
