"""What a release publishes: a table that can be written, and what its certificate says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.suppression import GroupCounts
from .request import MicrodataRequest
from .table import PublishedGroups, write_table

__all__ = ["Publication", "microdata_publication"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """A table that may leave.

    PRIVACY: all of it is public before the records are read, or a function of the published table.

    Args:
        write: writes the table into the folder it is given.
        groups: how many groups, cells or answers it has.
        records: how many records it shows; None where it counts none.
        form: what it is, for example "microdata".
        details: what else its certificate says of it.
    """

    write: Callable[[Path], object]
    groups: int
    records: int | None
    form: str
    details: Mapping[str, str | int]

    @property
    def facts(self) -> dict[str, str | int | None]:
        """The certificate's part about what is published."""
        return {"form": self.form, "groups": self.groups, "records": self.records, **self.details}


def microdata_publication(
    request: MicrodataRequest, surviving: GroupCounts, *, generalization: GeneralizationMap
) -> Publication:
    """The groups of at least k sampled records, as rows or with their counts."""
    groups = PublishedGroups.of(surviving, generalization=generalization)
    return Publication(
        write=lambda folder: write_table(groups, folder=folder, form=request.form, file_format=request.file_format),
        groups=len(groups.counts),
        records=groups.records,
        form=request.form,
        details={},
    )
