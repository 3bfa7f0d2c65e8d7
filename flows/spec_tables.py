"""The tables of a specification that several kinds of release have, and [cluster]: which Dask cluster counts.

And the mechanisms of the literature that a specification may name and that are never run, each with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    create_model,
    model_validator,
)

from ..mechanisms.kernel.amounts import amount_exact
from ..mechanisms.kernel.errors import InputRefused
from ..tasks.readers.values import DecimalSign, Encoding, Quoting
from ..tasks.request import LARGEST_CODE, AlsoFormat
from .paths import read_toml

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


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_WORKERS


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_amount(value: object) -> bool:
    return _is_written(r"auto|[0-9]{1,18}(\.[0-9]{1,9})? ?[A-Za-z]{0,3}", str(value) if type(value) is int else value)


def _is_name(value: object) -> bool:
    # PRIVACY: it becomes part of a line of a job's script, where a blank or a line break would begin something else.
    return _is_written(r"[A-Za-z0-9_][A-Za-z0-9_.,+-]{0,199}", value)


def _is_time(value: object) -> bool:
    return _is_written(r"[0-9]{1,9}(-[0-9]{1,9})?(:[0-9]{1,9}){0,2}", value)


def _is_written(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


_OF_JOBS = {"n_workers": _is_count, "cores": _is_count, "processes": _is_count, "memory": _is_amount}
_OF_JOBS |= {"interface": _is_name}
_OF_QUEUES = _OF_JOBS | {"queue": _is_name, "walltime": _is_time}
ARGUMENTS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "distributed.LocalCluster": {
        "n_workers": _is_count,
        "threads_per_worker": _is_count,
        "processes": _is_switch,
        "memory_limit": _is_amount,
    },
    "dask_jobqueue.SLURMCluster": _OF_QUEUES | {"account": _is_name},
    "dask_jobqueue.PBSCluster": _OF_QUEUES | {"account": _is_name},
    "dask_jobqueue.LSFCluster": _OF_QUEUES | {"project": _is_name},
    "dask_jobqueue.SGECluster": _OF_QUEUES | {"project": _is_name},
    "dask_jobqueue.HTCondorCluster": _OF_JOBS | {"disk": _is_amount},
    "dask_kubernetes.operator.KubeCluster": {"n_workers": _is_count, "namespace": _is_name},
    "dask_gateway.GatewayCluster": {"worker_cores": _is_count, "worker_memory": _is_amount},
}
"""What `kwargs` may have for each class, and what a value must be.

PRIVACY: amounts, and the names of queues, accounts and networks. An argument that names code, a file, an image, an
address or a command would run in the process that holds the keys, or in a worker that is given one, and an approval of
the specification doesn't cover it: whoever operates the machine sets it, in Dask's own configuration.
"""


def _refuse_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """Do nothing where a specification may give a class these arguments.

    Raises:
        ValueError: it may not.
    """
    known = ARGUMENTS[name]
    for argument, value in arguments.items():
        if argument not in known:
            raise ValueError(
                f"kwargs can't have {argument!r}; for {name} a specification gives {', '.join(known)}. Everything else "
                "is set by whoever operates the machine, in Dask's own configuration (docs/operations/clusters.md)"
            )
        if not known[argument](value):
            raise ValueError(f"kwargs has {argument!r} with a value that it can't have (docs/operations/clusters.md)")


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
        """Return a cluster is named in one way, and only one that is started has arguments."""
        named = [self.address, self.scheduler_file, self.cls]
        if sum(way is not None for way in named) != 1:
            raise ValueError("name exactly one of address, scheduler_file and class")
        if self.cls is None and (self.kwargs or self.adapt or self.scale):
            raise ValueError("kwargs, adapt and scale are for a cluster that is started by its class")
        if self.adapt is not None and self.scale is not None:
            raise ValueError("name one of adapt and scale")
        if self.cls is not None and self.cls not in CLASSES:
            raise ValueError(f"class must be one of {', '.join(CLASSES)}")
        if self.cls is not None:
            _refuse_arguments(self.cls, self.kwargs)
        return self


FAULTS = MappingProxyType(
    {
        "missing": "this is required and missing",
        "extra_forbidden": "there is no such key",
        "int_type": "this must be a whole number",
        "int_from_float": "this must be a whole number",
        "string_type": "this must be a text in quotes",
        "bool_type": "this must be true or false",
        "list_type": "this must be a list in brackets",
        "dict_type": "this must be a table",
        "model_type": "this must be a table",
        "is_instance_of": "this must be a number",
        "decimal_type": "this must be a number",
        "finite_number": "this must be a finite number",
        "greater_than": "this must be more than {gt}",
        "greater_than_equal": "this must be at least {ge}",
        "less_than": "this must be less than {lt}",
        "less_than_equal": "this must be at most {le}",
        "literal_error": "this must be {expected}",
        "string_too_short": "this text must have at least {min_length} characters",
        "string_too_long": "this text must have at most {max_length} characters",
        "too_short": "this must have at least {min_length} entries or characters",
        "too_long": "this must have at most {max_length} entries or characters",
        "string_pattern_mismatch": "this text must have the form {pattern}",
        "value_error": "{error}",
    }
)
"""What is wrong with a value, by the kind of the finding of the library that checks types."""


def fault_in_words(finding: Mapping[str, Any]) -> str:
    """Say what is wrong with a value as the other refusals do, not as a library for programmers does."""
    context = {
        name: amount_exact(value) if isinstance(value, Decimal) else value
        for name, value in finding.get("ctx", {}).items()
    }
    return FAULTS.get(finding["type"], "this is no value that the key can have").format(**context)


def cluster_of_spec(path: Path) -> ClusterTable | None:
    """Read a specification's [cluster] table, its scheduler file from the specification's folder; None without one.

    Raises:
        InputRefused: the file can't be read, or the table is wrong.
    """
    tables = read_toml(path, what="the specification")
    if "cluster" not in tables:
        return None
    try:
        table = ClusterTable.model_validate(tables["cluster"])
    except ValidationError as error:
        finding: Any = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in finding["loc"])
        raise InputRefused(
            f"{fault_in_words(finding)}.", where=f"{path}: [cluster]{f'.{key}' if key else ''}"
        ) from None
    file = table.scheduler_file
    return table.model_copy(update={"scheduler_file": None if file is None else str(path.resolve().parent / file)})


def _exact(value: object) -> object:
    """Take a TOML integer as an exact decimal; floats arrive as decimals already."""
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


Exact = Annotated[Decimal, BeforeValidator(_exact)]


def _auto_or_list(value: object) -> str:
    return "auto" if value == "auto" else "list"


AUTO = Annotated[Literal["auto"], Tag("auto")]
"""What the release finds itself; a list beside it has the tag "list", and faults are of the one that is meant."""
AUTO_OR_LIST = Discriminator(_auto_or_list)


class SpecTable(BaseModel):
    """A table of a specification: every key is known, and none is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _one_line(text: str) -> str:
    """Return a text for metadata.

    Raises:
        ValueError: it has a line break or another character that isn't printed.
    """
    if not text.isprintable():
        raise ValueError("a text of the metadata has printable characters alone, and no line break")
    return text


OneLine = Annotated[str, AfterValidator(_one_line)]


class MetadataTable(SpecTable):
    """[release.metadata]: that a folder of metadata is published too, and what the publisher says there."""

    title: OneLine | None = Field(default=None, min_length=1, max_length=200)
    description: OneLine | None = Field(default=None, min_length=1, max_length=5_000)
    publisher: OneLine | None = Field(default=None, min_length=1, max_length=200)
    license: OneLine | None = Field(default=None, min_length=1, max_length=200)
    url: OneLine | None = Field(default=None, min_length=1, max_length=500, pattern=r"^https?://[^\s<>\"{}|\\^`]+$")


class _Release(SpecTable):
    name: str
    form: Literal["microdata", "counts"] = "microdata"
    format: Literal["parquet", "csv"] = "parquet"
    also: list[AlsoFormat] = []
    metadata: MetadataTable | None = None
    verify_page: bool = False
    output: str | None = None


class WeightClassesTable(SpecTable):
    """[data.weight_classes]: the classes by which survey weights are released."""

    bounds: list[Exact] = Field(min_length=3, max_length=101)
    levels: (
        Annotated[AUTO | Annotated[list[int], Field(min_length=1, max_length=100), Tag("list")], AUTO_OR_LIST] | None
    ) = None
    weight: Exact | None = Field(default=None, ge=0, le=10**6)


class _Data(SpecTable):
    dataset: str = Field(min_length=1, max_length=200)
    source: str = Field(min_length=1)
    version: int | None = Field(default=None, ge=0)
    table: str | None = Field(default=None, min_length=1, max_length=200)
    query: str | None = Field(default=None, min_length=1, max_length=20_000)
    separator: str = Field(default=",", min_length=1, max_length=1)
    quoting: Quoting = "rfc4180"
    encoding: Encoding = "utf-8"
    null: list[str] = [""]
    trim: bool = False
    decimal: DecimalSign = "."
    whole_floats: bool = False
    rows_per_person: int = Field(default=1, ge=1)
    person: str | None = Field(default=None, min_length=1)
    household: str | None = Field(default=None, min_length=1)
    weight: str | None = Field(default=None, min_length=1)
    weight_classes: WeightClassesTable | None = None


class DesignTable(SpecTable):
    """[sampling].design: how a data set that is a sample itself was drawn."""

    lowest: Exact = Field(default=Decimal(0), ge=0, lt=1)
    highest: Exact = Field(gt=0, lt=1)
    largest: Exact | None = Field(default=None, gt=0, lt=1)
    exceptions: int = Field(default=0, ge=0, le=10**9)
    column: str | None = None


class _Sampling(SpecTable):
    """One rate for all; or a column of rates, of which the declared ones are drawn with; or a design."""

    rate: Exact | None = Field(default=None, gt=0, lt=1)
    column: str | None = None
    rates: list[Exact] | None = Field(default=None, min_length=1, max_length=1_000)
    design: DesignTable | None = None


class _Suppression(SpecTable):
    k: int = Field(ge=1, le=10**9)


class PrivacyTable(SpecTable):
    """[privacy]: what may be spent."""

    delta: Exact = Field(gt=0, lt=1)
    epsilon: Exact | None = Field(default=None, gt=0)


class SelectionTable(SpecTable):
    """[selection]: how the map is chosen, instead of a level for each column."""

    epsilon: Exact = Field(gt=0, le=100)
    on: Literal["whole", "fresh-sample"] = "whole"
    rate: Exact | None = Field(default=None, gt=0, lt=1)
    draw: Literal["permute-and-flip", "exponential"] | None = None
    steps: int | None = Field(default=None, ge=1, le=10_000)
    candidates: list[dict[str, int | list[int]]] | None = Field(default=None, min_length=1)


class MarginsTable(SpecTable):
    """[margins]: noisy counts of the released columns, or of all records, beside the rows of a release."""

    columns: bool = True
    share: Exact | None = Field(default=None, gt=0, lt=1)
    epsilon: Exact | None = Field(default=None, gt=0)
    pairs: Annotated[AUTO | Annotated[list[list[str]], Field(max_length=1_000), Tag("list")], AUTO_OR_LIST] = []
    number: int | None = Field(default=None, ge=1, le=1_000)
    pair_share: Exact | None = Field(default=None, gt=0, lt=1)
    draw_share: Exact | None = Field(default=None, gt=0, lt=1)


class BlockTable(SpecTable):
    """[blocks.NAME]: a table of rows of some columns."""

    columns: list[str] = Field(min_length=1, max_length=1_000)
    theme: OneLine | None = Field(default=None, min_length=1, max_length=200)


class BlocksTable(SpecTable):
    """[blocks]: several tables of rows; each other key is the name of one."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, BlockTable]

    number: int | None = Field(default=None, ge=1, le=100)
    pinned: list[str] = Field(default=[], max_length=1_000)

    @property
    def written(self) -> dict[str, BlockTable]:
        """Return the blocks that are written, by their names."""
        return self.__pydantic_extra__

    @property
    def themes(self) -> tuple[tuple[str, str], ...]:
        """Return the name and theme of each block that says what it is about."""
        return tuple((name, block.theme) for name, block in self.written.items() if block.theme is not None)


class IntervalTable(SpecTable):
    """Intervals of whole numbers, or of decimal numbers where one is written with decimals."""

    lower: Exact
    upper: Exact
    widths: list[Exact]


class DatesTable(SpecTable):
    """Days by their bounds, and what they are merged into."""

    first: str = Field(alias="from")
    last: str = Field(alias="to")
    levels: list[Literal["month", "quarter", "year", "decade"]]


class BoundsTable(SpecTable):
    """The bounds of a column of numbers that is an axis of a grid."""

    lower: Exact = Field(ge=-(10**15), le=10**15)
    upper: Exact = Field(ge=-(10**15), le=10**15)
    missing: Exact | None = None


class DeclaredTable(SpecTable):
    """A column's declared labels."""

    hierarchy: str | None = None
    values: list[str] | None = None
    interval: IntervalTable | None = None
    dates: DatesTable | None = None
    fold_case: bool = False


class UnitWeightTable(SpecTable):
    """[unit].weight: whose survey weight is the unit's."""

    lowest: str | None = None
    highest: str | None = None


_LINE_BREAK_OR_NUL = re.compile("[\r\n\0]")
Named = TypeVar("Named")


def _named_in_one_line(columns: dict[str, Named]) -> dict[str, Named]:
    """Return the released columns.

    Raises:
        ValueError: one has a name that a published CSV would not give back to every reader.
    """
    for name in columns:
        if _LINE_BREAK_OR_NUL.search(name) is not None:
            raise ValueError(f"the column {name!r} has a line break or a NUL in its name: rename it in the source")
    return columns


class PublishedMembersTable(SpecTable):
    """[unit.members]: a table of members beside the table of units, under one charge."""

    most: int = Field(ge=1, le=100)
    columns: Annotated[
        dict[str, Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=20)]],
        Field(min_length=1),
        AfterValidator(_named_in_one_line),
    ]
    share: Exact | None = Field(default=None, gt=0, lt=1)


class UnitTable(SpecTable):
    """[unit]: that units are published, one record for each, and which columns of their members are read."""

    by: str = Field(min_length=1)
    kind: Literal["household", "person"] = "household"
    weight: UnitWeightTable | None = None
    columns: dict[str, DeclaredTable] = {}
    members: PublishedMembersTable | None = None


class CountMembersTable(SpecTable):
    """How many members a unit has, all or those with certain labels."""

    column: str | None = None
    labels: list[str] | None = Field(default=None, min_length=1, max_length=1_000)
    cap: int = Field(ge=1, le=1_000)


class LabelsTable(SpecTable):
    """Labels of a members' column that are asked for."""

    column: str
    labels: list[str] = Field(min_length=1, max_length=1_000)


class MemberLabelTable(SpecTable):
    """The label of the member with the lowest or highest number in another column."""

    column: str
    lowest: str | None = None
    highest: str | None = None


class WavesTable(SpecTable):
    """A label in several waves, one after another."""

    column: str
    from_level: int = Field(default=0, ge=0)
    wave: str
    order: list[str] = Field(min_length=2, max_length=20)


class CompositionTable(SpecTable):
    """How many members have each label, as one label."""

    column: str
    from_level: int = Field(default=0, ge=0)
    most: int = Field(ge=1, le=20)


RULES = ("count_members", "any_member", "all_members", "member_label", "waves", "composition")
"""The keys of a released column that say how it is derived from a unit's members; each column of units has one."""


class ColumnTable(DeclaredTable):
    """[columns.NAME]: one released column."""

    bounds: BoundsTable | None = None
    count_members: CountMembersTable | None = None
    any_member: LabelsTable | None = None
    all_members: LabelsTable | None = None
    member_label: MemberLabelTable | None = None
    waves: WavesTable | None = None
    composition: CompositionTable | None = None
    codes: dict[str, Annotated[int, Field(ge=-LARGEST_CODE, le=LARGEST_CODE)]] | None = Field(
        default=None, min_length=1
    )
    level: int | None = Field(default=None, ge=0)
    levels: (
        Annotated[AUTO | Annotated[list[int], Field(min_length=1, max_length=100), Tag("list")], AUTO_OR_LIST] | None
    ) = None
    margin_level: int | None = Field(default=None, ge=0)
    min_level: int | None = Field(default=None, ge=0)
    max_level: int | None = Field(default=None, ge=0)
    weight: Exact | None = Field(default=None, ge=0, le=10**6)

    @property
    def rules(self) -> tuple[str, ...]:
        """Return the names of the rules that it has."""
        return tuple(rule for rule in RULES if getattr(self, rule) is not None)


class WeightColumn(ColumnTable):
    """The column of survey weights as a released column, which no specification writes as such."""

    weight_bounds: list[Exact]


class DerivedColumn(ColumnTable):
    """A column of units as a released column, with the labels that follow from its rule."""

    derived: Any  # a `mechanisms.unit_records.Derivation`, which releases of records don't load


class SpecTables(SpecTable):
    """A whole specification."""

    release: _Release
    data: _Data
    sampling: _Sampling | None = None
    suppression: _Suppression | None = None
    privacy: PrivacyTable | None = None
    selection: SelectionTable | None = None
    margins: MarginsTable | None = None
    blocks: BlocksTable | None = None
    unit: UnitTable | None = None
    columns: Annotated[dict[str, ColumnTable], AfterValidator(_named_in_one_line)] = {}
    cluster: ClusterTable | None = None


def tables_model(own: Mapping[str, type[BaseModel]]) -> type[SpecTables]:
    """Return the model of a specification that may have the tables of some kinds of release besides."""
    fields: dict[str, Any] = {name: (field.annotation, field) for name, field in SpecTables.model_fields.items()}
    last = {name: fields.pop(name) for name in ("columns", "cluster")}
    fields |= {name: (model | None, None) for name, model in own.items()}
    made: Any = create_model(SpecTables.__name__, __base__=SpecTable, __doc__=SpecTables.__doc__, **fields, **last)
    return cast("type[SpecTables]", made)


NOISE = "two-sided-geometric"

REFUSED = MappingProxyType(
    {
        "gaussian": (
            "Gaussian noise is not ε-differentially private for any ε: the ratio of its densities is unbounded",
            "Use the two-sided geometric or the Laplace mechanism.",
        ),
        "one-sided": (
            "one-sided noise makes some outputs impossible for one of two neighbours, so that they betray the other",
            "Use the two-sided geometric or the Laplace mechanism.",
        ),
        "clustering": (
            "clusters are drawn around the records themselves: one extreme record moves a published boundary, which "
            "shows whether it is there",
            "Declare hierarchies, with fixed levels or levels chosen by the exponential mechanism.",
        ),
        "mondrian": (
            "local recoding cuts at the records' own medians and publishes their least and greatest values: one "
            "extreme record changes a published range, which shows whether it is there (compare LQS, "
            "arXiv:1101.2604v2, Algorithm 1)",
            "Declare hierarchies, with fixed levels or levels chosen by the exponential mechanism.",
        ),
    }
)
"""Name in lower case → why it is refused, and what to use instead."""


def refuse_unsafe(name: str, *, where: str = "") -> None:
    """Refuse a mechanism that gives no guarantee; does nothing for other names."""
    reason = REFUSED.get(name.lower())
    if reason is not None:
        why, instead = reason
        raise InputRefused(
            f"the mechanism {name!r} is refused: {why} (docs/mechanisms/not-to-be-used.md).",
            where=where,
            remedy=instead,
        )


def refuse_unknown_noise(name: str, *, where: str) -> None:
    """Refuse noise that gives no guarantee, and noise that nobody knows."""
    refuse_unsafe(name, where=where)
    if name != NOISE:
        raise InputRefused(f"there is no noise {name!r}.", where=where, remedy=f'Leave it out, or write "{NOISE}".')
