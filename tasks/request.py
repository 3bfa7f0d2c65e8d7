"""A release as asked for: every parameter checked, every public thing resolved, no record seen."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from ..accounting.descriptions.description_registry import description_of
from ..accounting.kernel.ledger.entries import DatasetUnit
from ..accounting.kernel.prices.mechanism_kind import Price
from ..accounting.kernel.prices.registry import kind_of, mechanism_record, paper_price
from ..accounting.ledger.charge_request import RECORDS
from ..mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ..mechanisms.kernel.mechanism import Mechanism
from ..mechanisms.map_selection.choice import LatticeColumn, MapChoice
from .destinations import Output
from .readers.values import RecordReading

if TYPE_CHECKING:
    from ..mechanisms.inclusion import InclusionColumn
    from ..mechanisms.kernel.contributions import ContributionLimit
    from ..mechanisms.unit_records import UnitRule
    from .inputs.source import DatabaseQuery


FileFormat = Literal["parquet", "csv"]
"""In which a table is published."""
AlsoFormat = Literal["sav", "dta"]
"""In which it is published besides: a file of SPSS or Stata."""
LARGEST_CODE = 2_000_000_000
"""Of a label in such a file; both packages have numbers of that size."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetadataTexts:
    """What the publisher says of a release in its metadata; what is None is left out of them.

    Args:
        title: of the data set; without it the release's label.
    """

    title: str | None = None
    description: str | None = None
    publisher: str | None = None
    license: str | None = None
    url: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Request(ABC):
    """What a release of any kind is asked for with; each kind adds what it has besides.

    Args:
        label: the release's name for people; not its id.
        file_format: of the published table.
        also: in which it is written besides.
        codes: of columns' labels in those files, as declared: column → label → code.
        output: folder or place in an object store that will hold the published table and its certificate.
        dataset: the name under which the ledger keeps this population's budget.
        source: file, folder, glob or URL of the records, as written in the specification.
        base: folder that relative paths of the specification start from.
        version: of a lake table, where the specification names one.
        query: what is read of a database, which is the source; None for files.
        reading: how the records are read.
        price: what the release is charged; for one of a series, what the whole series was charged.
        mechanism: what is run, fully enough to be priced.
        recoding: the columns with the labels or codes that their values get, fixed before the records are read; or the
            candidates and the draw that will choose one of them.
        registered: what a series with free columns was registered with, whose price this is; None elsewhere.
        limit: how many records of a person count, and which column names the person; None where nothing enforces it.
        unit_rule: by which all records of a unit make one record, that counts; None where records count as they are.
        part: the release's part of a series of different mechanisms, from 1; None elsewhere.
        binds_unit: whether that series was registered with a unit; an earlier version did without.
        thinning: the column of rates by which sampled records are kept; None where all have the sample's rate, or the
            mechanism has the rates.
        metadata: what the publisher says in the folder of metadata; None where there is no such folder.
        verify_page: whether the page that checks a certificate in a browser is published too.
        written_source: the source as the specification has it, where parts of it are of a day; None elsewhere.
        source_day: the day that these parts are of.
        rehearsal: whether it rehearses the release that the specification asks for, instead of making it.
    """

    kind: ClassVar[str]
    """Name of the kind of release, as the registry of kinds has it."""
    domain: ClassVar[bytes]
    """What the digest of a request of this kind begins with."""

    label: str
    file_format: FileFormat
    output: Output
    dataset: str
    source: str
    base: Path
    reading: RecordReading
    price: Price
    mechanism: Mechanism
    recoding: GeneralizationMap | MapChoice
    registered: Mechanism | None = None
    limit: ContributionLimit | None = None
    unit_rule: UnitRule | None = None
    version: int | None = None
    query: DatabaseQuery | None = None
    part: int | None = None
    binds_unit: bool = True
    also: tuple[AlsoFormat, ...] = ()
    codes: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    thinning: InclusionColumn | None = None
    metadata: MetadataTexts | None = None
    verify_page: bool = False
    written_source: str | None = None
    source_day: date | None = None
    rehearsal: bool = False

    @property
    def paper_price(self) -> Price | None:
        """Return the price by the paper's bound, None where the bound gives no guarantee.

        It is computed when it is asked for: SciPy, which it needs, loads slowly.
        """
        price = self.price
        return paper_price(
            self.registered or self.mechanism,
            delta=price.delta,
            releases=price.releases,
            rows_per_person=price.rows_per_person,
        )

    @property
    def sampling_rate(self) -> Decimal | None:
        """Rate of the fresh sample that is counted; None where every record is."""
        return kind_of(self.mechanism).sampling_rate(self.mechanism)

    @property
    def selection_rate(self) -> Decimal | None:
        """Rate of the fresh sample that the map is chosen on; None where there is no such sample."""
        return None

    @property
    def names_sample(self) -> bool:
        """Tell whether the result of a run names the commitment to its sample."""
        return True

    @property
    def unit(self) -> DatasetUnit:
        """Whose presence it hides."""
        return RECORDS if self.limit is None else DatasetUnit(name=self.limit.unit, column=self.limit.column)

    @property
    def source_columns(self) -> Sequence[MappedColumn | LatticeColumn]:
        """Return the columns that the source's records must have."""
        columns = self.recoding.columns if self.unit_rule is None else self.unit_rule.members
        return columns if self.thinning is None else (*columns, self.thinning.column)

    @property
    def levels(self) -> dict[str, int] | None:
        """Return the level of each column that is published, of several stages of the first; None where not fixed."""
        if not isinstance(self.recoding, GeneralizationMap):
            return None
        return {column.name: column.level for column in self.recoding.columns}

    @property
    def map_digest(self) -> str:
        """Return the SHA-256 (hex) of the columns and how they are read, or of the lattice that a map is drawn from."""
        return self.recoding.digest()

    def rehearse(self) -> None:
        """Try on made-up records, before the charge, what could fail after it; nothing for most kinds.

        Raises:
            InputRefused: it failed.
        """
        return

    @property
    @abstractmethod
    def own_terms(self) -> Mapping[str, object]:
        """Return what beside mechanism and map decides what a release of this kind publishes; in JSON's types."""

    @property
    def free_terms(self) -> Mapping[str, object]:
        """Return what of `own_terms` the releases of a series with free columns have in common; in JSON's types."""
        return self.own_terms

    @property
    def digest(self) -> str:
        """Return the SHA-256 (hex) of all that decides what is released; the output's place is not part of it."""
        return _digest(
            self.domain,
            self._charged
            | {
                "label": self.label,
                "format": self.file_format,
                "source": self.source if self.written_source is None else self.written_source,
                "base": str(self.base),
                # Keys that were added later are left out where they say nothing, so that digests of earlier releases
                # and series stay the same.
                **({"also": sorted(self.also)} if self.also else {}),
                **({"codes": {name: dict(own) for name, own in self.codes.items()}} if self.codes else {}),
                **({} if self.metadata is None else {"metadata": asdict(self.metadata)}),
                **({"verify_page": True} if self.verify_page else {}),
                **({} if self.version is None else {"version": self.version}),
                **({} if self.query is None else {"select": self.query.select}),
            },
        )

    @property
    def source_of_any_day(self) -> str:
        """Return the source with a wildcard for each part that is of a day."""
        return _DATED.sub("*", self.source if self.written_source is None else self.written_source)

    def on_day(self, day: date) -> Self:
        """Return the request with a day's source, where parts of its name are {year}, {month} or {day}."""
        written = self.source if self.written_source is None else self.written_source
        if _DATED.search(written) is None:
            return self
        parts = {"year": f"{day.year:04}", "month": f"{day.month:02}", "day": f"{day.day:02}"}
        # The digest has the source as it was written: all releases of a dated source are of one specification.
        source = _DATED.sub(lambda part: parts[part[1]], written)
        return replace(self, source=source, written_source=written, source_day=day)

    @property
    def series_digest(self) -> str:
        """SHA-256 (hex) of all that the releases of a series have in common; that of the release where it has none."""
        return self.digest if self.registered is None else self.digest_of_series(FREE_DOMAIN)

    @property
    def _charged(self) -> dict[str, object]:
        """Return what decides the mechanism or how a record is read, whatever the source and the file are called."""
        records = self.price.rows_per_person
        return {
            "dataset": self.dataset,
            "delta": str(self.price.delta),
            "mechanism": mechanism_record(self.mechanism),
            "map": self.map_digest,
            **self.reading.canonical,
            **self.own_terms,
            # Left out at 1, as all versions before it did.
            **({} if records == 1 else {"rows_per_person": records}),
            **({} if self.limit is None else {self.limit.unit: self.limit.column}),
            **({} if self.unit_rule is None else {"unit_records": self.unit_rule.description()}),
            **self._thinned,
        }

    @property
    def _thinned(self) -> dict[str, object]:
        """Return the column of rates with the rates that are drawn with, in JSON's types; empty where there is none."""
        if self.thinning is None:
            return {}
        return {"inclusion": [self.thinning.column.name, *map(str, self.thinning.declared)]}

    def digest_of_series(self, domain: bytes) -> str:
        """Return the digest of a series, for kinds that have series.

        PRIVACY: everything that decides the mechanism or how a record is read is in it, since a series' price is
        proved for parameters fixed beforehand. Not in it are the source, which is another with each delivery, and
        what decides nothing: label, file format, and the output's place.
        """
        if self.registered is not None and description_of(self.registered).part is not None:
            unit = self.unit if self.binds_unit else None
            return digest_of_mixed(self.registered, dataset=self.dataset, delta=self.price.delta, unit=unit)
        terms = self._charged if self.registered is None else self._bound
        return _digest(domain if self.registered is None else FREE_DOMAIN, terms | {"releases": self.price.releases})

    @property
    def _bound(self) -> dict[str, object]:
        """Return what the releases of a series with free columns have in common, beside what `not_covered` compares.

        Not in it: the columns, their hierarchies and levels, or the candidates of a choice; k, the sampling rate, and
        lower rates that records name themselves.
        """
        free = {"map", "mechanism", *self._thinned, *self.own_terms}
        bound = {name: value for name, value in self._charged.items() if name not in free}
        return {**bound, **self.free_terms, "kind": self.kind}


_DATED = re.compile(r"\{(year|month|day)\}")
FREE_DOMAIN = b"crowdblend free series 1\n"
"""What the digest of a series with free columns begins with."""


def digest_of_mixed(series: Mechanism, *, dataset: str, delta: Decimal, unit: DatasetUnit | None) -> str:
    """Return the SHA-256 (hex) of what the releases of a series of different mechanisms have in common.

    PRIVACY: data set, parts, δ and unit. Releases of different units, each at its own price, cost every unit more than
    the series' price.

    Args:
        unit: whose presence all of them hide; None in a data set without one, which an earlier version added.
    """
    bound = {"dataset": dataset, "delta": str(delta), "mechanism": mechanism_record(series)}
    if unit is None:
        return _digest(b"crowdblend mixed series 1\n", bound)
    return _digest(b"crowdblend mixed series 2\n", bound | {"unit": str(unit)})


def _digest(domain: bytes, canonical: Mapping[str, object]) -> str:
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(domain + text.encode("ascii")).hexdigest()
