"""Counts of a source's records by their labels, as a release of every record would have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from crowdblend.accounting.kernel.keys.private_store import KeyRef
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import Hierarchy
from crowdblend.mechanisms.kernel.contributions import ContributionLimit
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.sampling import sample_commitment
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.group_counting import count_job, group_counts
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks, with_person_column
from crowdblend.tasks.kernel.counting import CountJob
from crowdblend.tasks.readers.statistics_files import require_one_meaning
from crowdblend.tasks.readers.values import RecordReading

__all__ = ["counted", "counted_column", "job_of", "labelled", "mapped"]


def mapped(columns: Mapping[str, Hierarchy], levels: Mapping[str, int] | None = None) -> GeneralizationMap:
    """Return the map of some columns, at level 0 where no level is named."""
    own = levels or {}
    return GeneralizationMap(
        columns=tuple(
            MappedColumn(name=name, hierarchy=hierarchy, level=own.get(name, 0)) for name, hierarchy in columns.items()
        )
    )


def job_of(
    generalization: GeneralizationMap,
    *,
    key: KeyRef | None = None,
    rate: Decimal | None = None,
    limit: ContributionLimit | None = None,
    reading: RecordReading | None = None,
) -> CountJob:
    """Return the counting of a release; without a key, of every record."""
    return count_job(
        release_id="r",
        sample_id=None if key is None else sample_commitment(key.load()),
        generalization=generalization,
        rate=rate,
        reading=reading or RecordReading(),
        key_source=key,
        limit=limit,
    )


def labelled(groups: GroupCounts, generalization: GeneralizationMap) -> Counter:
    """Return the counts of groups by their labels."""
    labels = [
        column.hierarchy.labels(codes, column.level)
        for column, codes in zip(generalization.columns, generalization.decode(groups.keys), strict=True)
    ]
    return Counter(dict(zip(zip(*labels, strict=True), groups.counts.tolist(), strict=True)))


def counted(
    source: str,
    base: Path,
    columns: Mapping[str, Hierarchy],
    *,
    levels: Mapping[str, int] | None = None,
    version: int | None = None,
    key: KeyRef | None = None,
    rate: Decimal | None = None,
    limit: ContributionLimit | None = None,
    **reading: Any,
) -> Counter:
    """Return how many records have which labels, on threads."""
    generalization, how = mapped(columns, levels), RecordReading(**reading)
    listed = list_source(source, base=base, version=version)
    layout = check_metadata(listed, columns=generalization.names, reading=how)
    require_one_meaning(layout.layouts, [file.path for file in listed.files], hierarchies=columns)
    if limit is not None:
        layout = with_person_column(listed, columns=generalization.names, reading=how, limit=limit)
    job = job_of(generalization, key=key, rate=rate, limit=limit, reading=how)
    return labelled(group_counts(plan_chunks(layout), job=job, executor=LocalThreads()), generalization)


def counted_column(source: str, base: Path, name: str, hierarchy: Hierarchy, *, level: int = 0, **how: Any) -> Counter:
    """Return how many records have which label of one column."""
    found = counted(source, base, {name: hierarchy}, levels={name: level}, **how)
    return Counter({label: count for (label,), count in found.items()})
