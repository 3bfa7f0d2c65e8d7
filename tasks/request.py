"""Releases as asked for: every parameter checked, every public thing resolved, no record seen."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal, assert_never

from ..accounting.theory.price import Price, mechanism_record, paper_price
from ..mechanisms.event import Answer, Histogram, LocalReports, Mechanism, Microdata
from ..mechanisms.inclusion import InclusionColumn
from ..mechanisms.map_choice import MapChoice
from ..mechanisms.point_axes import PointAxis
from ..mechanisms.points import SyntheticPoints
from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.report_design import ReportDesign, design_record
from .objects import Output
from .record_reading import RecordReading

__all__ = ["AnswerRequest", "HistogramRequest", "MicrodataRequest", "PointsRequest", "ReportsRequest", "Request"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Request:
    """What every release is asked for with.

    Args:
        label: the release's name for people; not its id.
        file_format: "parquet" or "csv", of the published table.
        output: folder or place in an object store that will hold the published table and its certificate.
        dataset: the name under which the ledger keeps this population's budget.
        source: file, folder, glob or URL of the records, as written in the specification.
        base: folder that relative paths of the specification start from.
        reading: how the records are read.
        mechanism: what is run, fully enough to be priced.
        price: what the release is charged; for one of a series, what the whole series was charged.
    """

    label: str
    file_format: Literal["parquet", "csv"]
    output: Output
    dataset: str
    source: str
    base: Path
    reading: RecordReading
    mechanism: Mechanism
    price: Price

    @property
    def paper_price(self) -> Price | None:
        """The price by the paper's bound, None where the bound gives no guarantee.

        It is computed when it is asked for: SciPy, which it needs, loads slowly.
        """
        price = self.price
        return paper_price(
            self.mechanism, delta=price.delta, releases=price.releases, rows_per_person=price.rows_per_person
        )

    @property
    def _unit(self) -> dict[str, object]:
        """The most records of one person, where it is more than the usual one."""
        records = self.price.rows_per_person
        return {} if records == 1 else {"rows_per_person": records}

    @property
    def _reading(self) -> dict[str, object]:
        """What is released, apart from mechanism and map, and which records are read how."""
        return {
            "label": self.label,
            "format": self.file_format,
            "dataset": self.dataset,
            "source": self.source,
            "base": str(self.base),
            "delta": str(self.price.delta),
        } | self.reading.canonical


@dataclass(frozen=True, kw_only=True, slots=True)
class MicrodataRequest(_Request):
    """One microdata release, from the specification alone.

    Args:
        form: "microdata" repeats each published row, "counts" gives one row a group with its count.
        mechanism: what is run, fully enough to be priced.
        recoding: the generalization map, fixed before the records are read, or the candidates and the draw that will
            choose one of them.
    """

    form: Literal["microdata", "counts"]
    mechanism: Microdata
    recoding: GeneralizationMap | MapChoice

    @property
    def map_digest(self) -> str:
        """SHA-256 (hex) of the map, or of the lattice that it is drawn from."""
        return self.recoding.digest()

    @property
    def _selection(self) -> dict[str, object]:
        """What beside mechanism and lattice decides the draw; nothing where the map is fixed."""
        match self.recoding:
            case GeneralizationMap():
                return {}
            case MapChoice(draw=draw, steps=steps):
                return {"selection": {"draw": draw, "steps": steps}}
            case _:
                assert_never(self.recoding)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all that decides what is released; the output's place is not part of it."""
        canonical: dict[str, object] = {
            "form": self.form,
            "mechanism": mechanism_record(self.mechanism),
            "map": self.map_digest,
        }
        return _digest(b"crowdblend specification 1\n", canonical | self._reading | self._selection | self._unit)

    @property
    def series_digest(self) -> str:
        """SHA-256 (hex) of all that the releases of a series have in common.

        PRIVACY: everything that decides the mechanism or how a record is read is in it, since a series' price is
        proved for parameters fixed beforehand. Not in it are the source, which is another with each delivery, and
        what decides nothing: label, file format, and the output's place.
        """
        canonical: dict[str, object] = {
            "form": self.form,
            "dataset": self.dataset,
            "mechanism": mechanism_record(self.mechanism),
            "delta": str(self.price.delta),
            "releases": self.price.releases,
            "map": self.map_digest,
        }
        canonical |= self.reading.canonical
        return _digest(b"crowdblend series 1\n", canonical | self._selection | self._unit)


@dataclass(frozen=True, kw_only=True, slots=True)
class _AloneRequest(_Request, ABC):
    """What a release of a kind that has no series is asked for with."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 (hex) of all that decides what is released; the output's place is not part of it."""

    @property
    def series_digest(self) -> str:
        """That of the release itself."""
        return self.digest


@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramRequest(_AloneRequest):
    """One histogram over all cells of a declared partition, from the specification alone.

    Args:
        mechanism: what is run, fully enough to be priced.
        partition: every combination of its columns' labels is a cell, the bucket among them.
        inclusion: the column that says with what rate each record is included; None where there is none.
    """

    mechanism: Histogram
    partition: GeneralizationMap
    inclusion: InclusionColumn | None = None

    @property
    def recoding(self) -> GeneralizationMap:
        """The columns that are read: those of the partition, then that of the inclusion rates."""
        if self.inclusion is None:
            return self.partition
        return GeneralizationMap(columns=(*self.partition.columns, self.inclusion.column))

    @property
    def map_digest(self) -> str:
        """SHA-256 (hex) of the columns that are read and how."""
        return self.recoding.digest()

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all that decides what is released; the output's place is not part of it."""
        canonical = self._reading | {"mechanism": mechanism_record(self.mechanism), "map": self.map_digest}
        return _digest(b"crowdblend histogram 1\n", canonical | self._unit)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRequest(_AloneRequest):
    """One COUNT, SUM or MEAN, in all or in each group, from the specification alone.

    Args:
        mechanism: what is asked, fully enough to be priced.
        groups: the partition of the records, None where the answer is about all of them.
        recoding: the columns that are read: those of `groups`, then the one that is added up.
        missing: what a missing value, or one that is no whole number, counts as; within the bounds.
        confidence: of the intervals beside the answers, between 0 and 1.
    """

    mechanism: Answer
    groups: GeneralizationMap | None
    recoding: GeneralizationMap
    missing: int
    confidence: Decimal

    @property
    def map_digest(self) -> str:
        """SHA-256 (hex) of the columns and how they are read."""
        return self.recoding.digest()

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all that decides what is released; the output's place is not part of it."""
        canonical = self._reading | {
            "mechanism": mechanism_record(self.mechanism),
            "map": self.map_digest,
            "groups": None if self.groups is None else self.groups.digest(),
            "missing": self.missing,
            "confidence": str(self.confidence),
        }
        return _digest(b"crowdblend answer 1\n", canonical | self._unit)


@dataclass(frozen=True, kw_only=True, slots=True)
class PointsRequest(_AloneRequest):
    """Synthetic points of a declared grid, from the specification alone.

    Args:
        mechanism: the grid and how its counts are released, fully enough to be priced.
        axes: the columns, scaled by their bounds.
        recoding: the same columns cut into the grid's cells.
        confidence: of the stated bound on the error where counts are noisy, between 0 and 1.
    """

    mechanism: SyntheticPoints
    axes: tuple[PointAxis, ...]
    recoding: GeneralizationMap
    confidence: Decimal

    @property
    def map_digest(self) -> str:
        """SHA-256 (hex) of the columns and their cells."""
        return self.recoding.digest()

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all that decides what is released; the output's place is not part of it."""
        canonical = self._reading | {
            "mechanism": mechanism_record(self.mechanism),
            "map": self.map_digest,
            "axes": [[axis.name, str(axis.lower), str(axis.upper), str(axis.missing)] for axis in self.axes],
            "confidence": str(self.confidence),
        }
        return _digest(b"crowdblend points 1\n", canonical | self._unit)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportsRequest(_AloneRequest):
    """Estimates from many people's local reports, from the specification alone.

    Args:
        mechanism: what is priced: what each device did, or the counts of all reports.
        design: what the reports are and what is asked of them.
        recoding: the published columns with their declared labels; no record is recoded.
        confidence: of the intervals beside the estimates, between 0 and 1.
    """

    mechanism: LocalReports
    design: ReportDesign
    recoding: GeneralizationMap
    confidence: Decimal

    @property
    def map_digest(self) -> str:
        """SHA-256 (hex) of the published columns and their declared labels."""
        return self.recoding.digest()

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all that decides what is released; the output's place is not part of it."""
        canonical = self._reading | {
            "mechanism": mechanism_record(self.mechanism),
            "map": self.map_digest,
            "design": design_record(self.design),
            "confidence": str(self.confidence),
        }
        return _digest(b"crowdblend reports 1\n", canonical | self._unit)


Request = MicrodataRequest | HistogramRequest | PointsRequest | AnswerRequest | ReportsRequest


def _digest(domain: bytes, canonical: Mapping[str, object]) -> str:
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(domain + text.encode("ascii")).hexdigest()
