"""A snapshot of an Iceberg table: the files that its manifests say are live, read by pyiceberg.

Only a catalog knows which metadata file is the table now, since a commit that failed may leave one behind. So the
source names that file, or the folder has the hint of a table without a catalog, or the specification names a snapshot,
which never changes. pyiceberg is an extra, and reads metadata and manifests alone, through our own opening of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, BinaryIO

from ...mechanisms.kernel.errors import InputRefused
from ..readers.source_files import is_url, open_input
from .lake_tables import LakeTable, LiveFile, TableFolder, TableFormat, misread

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table.metadata import TableMetadata

METADATA = "metadata"
HINT = "version-hint.text"
_NUMBERED = re.compile(r"(?:v(\d+)|(\d+)-[^/]*)\.metadata\.json")
_HINTED = re.compile(r"v(\d+)(?:\.[^.]+)?\.metadata\.json(?:\.gz)?")  # compressed ones too, which are then refused
_SAME_STORES = {"s3a": "s3", "s3n": "s3"}
FORMAT_VERSIONS = (1, 2)


class IcebergFormat(TableFormat):
    """Tables of Iceberg."""

    name = "Iceberg"
    marks = (f"{METADATA}/*.metadata.json", f"{METADATA}/*.metadata.json.gz")  # v1.gz.metadata.json ends so too

    def read(self, folder: TableFolder, *, metadata: str | None, version: int | None) -> LakeTable:
        """Read the manifests of a snapshot.

        PRIVACY: bounds and counts of columns, which manifests have, are neither kept nor reported.

        Raises:
            InputRefused: pyiceberg isn't installed, what is current can't be determined, there is no such snapshot, or
                the table has something that isn't understood.
        """
        where = folder.location(METADATA)
        try:
            import pyiceberg.table
        except ImportError:
            raise InputRefused(
                "this is a table of Iceberg, and the package that reads its manifests isn't installed.",
                where=folder.root,
                remedy="Install it: pip install 'crowdblend[iceberg]'.",
            ) from None
        del pyiceberg
        try:
            table = _table_metadata(folder, metadata=metadata, version=version)
            return _snapshot(table, _FilesBelow(folder, table.location), version=version, where=where)
        except InputRefused:
            raise
        # PRIVACY: what pyiceberg says may quote what it stumbled over, so only its kind is reported.
        except Exception as error:  # noqa: BLE001 - it parses files of others; nothing was charged yet
            raise misread(f"its metadata or manifests cannot be read ({type(error).__name__})", where=where) from None


ICEBERG = IcebergFormat()


def _table_metadata(folder: TableFolder, *, metadata: str | None, version: int | None) -> TableMetadata:
    """Return the metadata that decide: those that are named, or hinted at, or the last that have the snapshot."""
    if metadata is not None:
        return _parsed(folder, metadata)
    names = folder.names(METADATA)
    if version is not None:
        for name in sorted(filter(_NUMBERED.fullmatch, names), key=_place, reverse=True):
            table = _parsed(folder, name)
            if table.snapshot_by_id(version) is not None:
                return table
        raise _no_snapshot(version, where=folder.location(METADATA))
    if HINT in names:
        hint = folder.read(f"{METADATA}/{HINT}").strip()
        # Only tables without a catalog have this hint; with a catalog the newest file may be of a commit that failed.
        if hint.isdigit() and f"v{int(hint)}.metadata.json" in names:
            return _parsed(folder, _last_after(int(hint), names))
    raise InputRefused(
        "only its catalog knows which of its metadata files is the present state of this Iceberg table.",
        where=folder.location(METADATA),
        remedy="Name that file, which a catalog calls metadata_location, in [data].source; or the id of a snapshot in "
        "[data].version.",
    )


def _last_after(hint: int, names: Collection[str]) -> str:
    """Return the metadata file that ends the run of versions from the hinted one on.

    PRIVACY: without a catalog a commit is the making of the next version's file. The hint is written after it, and
    stays behind where that fails: the state that it names still has the people whom later commits deleted.
    """
    versions = {int(match[1]): name for name in sorted(names) if (match := _HINTED.fullmatch(name))}
    while hint + 1 in versions:
        hint += 1
    return versions[hint]


def _place(name: str) -> tuple[int, str]:
    match = _NUMBERED.fullmatch(name)
    return (int(match[1] or match[2]) if match else -1, name)


def _parsed(folder: TableFolder, name: str) -> TableMetadata:
    from pyiceberg.table.metadata import TableMetadataUtil

    if not _NUMBERED.fullmatch(name):
        raise misread("it is compressed, or has another name than metadata have", where=folder.location(name))
    return TableMetadataUtil.parse_raw(folder.read(f"{METADATA}/{name}").decode("utf-8"))


class _FilesBelow:
    """The files that a table names, each below its folder.

    Raises:
        InputRefused: that is elsewhere.
    """

    def __init__(self, folder: TableFolder, location: str) -> None:
        self._folder = folder
        self._location = _plain(location).rstrip("/")
        # A copied table names the files of the original, which would be read in its place.
        real = os.path.realpath(self._location) if self._location.startswith("/") else self._location
        if real != _plain(folder.root):
            raise misread(
                "the table says that it lies elsewhere; Iceberg's paths are absolute, so a table that was moved or "
                "copied names the files of the other one",
                where=folder.location(METADATA),
            )

    @property
    def root(self) -> str:
        """Return the table's folder."""
        return self._folder.root

    def path(self, location: str) -> str:
        """Return a file's path below the table's folder.

        Raises:
            InputRefused: it lies elsewhere.
        """
        where = self._folder.location(METADATA)
        plain = _plain(location)
        if not plain.startswith(f"{self._location}/"):
            raise misread("it names a file that isn't below the table's folder", where=where)
        return self._folder.below(plain.removeprefix(f"{self._location}/"), where=where)

    def opened(self, location: str) -> BinaryIO:
        """Return a file of the table, for reading."""
        return open_input(self._folder.location(self.path(location)))


def _plain(location: str) -> str:
    """Return a location without what is written in more than one way: a path of this machine, or a URL."""
    if not is_url(location):
        return location.removeprefix("file:")
    protocol, _, rest = location.partition("://")
    return rest if protocol in ("file", "local") else f"{_SAME_STORES.get(protocol, protocol)}://{rest}"


def _io(files: _FilesBelow) -> FileIO:
    """pyiceberg's way to files, through ours; nothing can be written."""
    from pyiceberg.io import FileIO, InputFile, OutputFile

    class Below(InputFile):  # type: ignore[misc]  # mypy does not follow pyiceberg
        def __len__(self) -> int:
            with files.opened(self.location) as file:
                return file.seek(0, os.SEEK_END)

        def exists(self) -> bool:
            return True

        def open(self, seekable: bool = True) -> Any:  # noqa: ANN401 - as pyiceberg declares it
            del seekable
            return files.opened(self.location)

    class Reading(FileIO):  # type: ignore[misc]
        def new_input(self, location: str) -> InputFile:
            return Below(location)

        def new_output(self, location: str) -> OutputFile:  # noqa: ARG002
            raise PermissionError

        def delete(self, location: str | InputFile | OutputFile) -> None:  # noqa: ARG002
            raise PermissionError

    return Reading()


def _snapshot(table: TableMetadata, files: _FilesBelow, *, version: int | None, where: str) -> LakeTable:
    from pyiceberg.manifest import read_manifest_list  # unlike a snapshot's own method without a cache of manifests

    if table.format_version not in FORMAT_VERSIONS:
        raise misread(
            f"the table is of Iceberg's version {table.format_version}, of which 1 and 2 are read", where=where
        )
    snapshot = table.current_snapshot() if version is None else table.snapshot_by_id(version)
    if snapshot is None:
        raise _no_snapshot(version, where=where)
    ids = {schema.schema_id: schema for schema in table.schemas}
    # PRIVACY: a column that was dropped since the last snapshot isn't the table's any more.
    present = version is None or snapshot.schema_id is None
    schema = ids[table.current_schema_id if present else snapshot.schema_id]
    found: list[LiveFile] = []
    io = _io(files)
    for manifest in read_manifest_list(io.new_input(snapshot.manifest_list)):
        found.extend(_live_files(manifest, io, files, where=where))
    return LakeTable(
        folder=files.root,
        table_format=ICEBERG.name,
        version=snapshot.snapshot_id,
        columns=tuple(field.name for field in schema.fields),
        partition_types={},
        field_ids={field.name: field.field_id for field in schema.fields},
        files=tuple(sorted(found, key=lambda file: file.path)),
    )


def _live_files(manifest: ManifestFile, io: FileIO, files: _FilesBelow, *, where: str) -> list[LiveFile]:
    from pyiceberg.manifest import ManifestContent

    if manifest.key_metadata is not None:
        raise misread("its manifests are encrypted", where=where)
    entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
    if entries and manifest.content != ManifestContent.DATA:
        raise _deletes(where)
    return [_live_file(entry.data_file, files, where=where) for entry in entries]


def _live_file(file: DataFile, files: _FilesBelow, *, where: str) -> LiveFile:
    from pyiceberg.manifest import DataFileContent, FileFormat

    if file.content != DataFileContent.DATA:
        raise _deletes(where)
    if file.file_format != FileFormat.PARQUET or file.key_metadata is not None:
        raise misread("some of the table's files are encrypted or not Parquet", where=where)
    return LiveFile(path=files.path(file.file_path), size=file.file_size_in_bytes)


def _deletes(where: str) -> InputRefused:
    return misread(
        "the snapshot has files of deletes (merge-on-read), which say which records of other files are deleted",
        where=where,
        remedy="Rewrite its data files (rewrite_data_files with delete-file-threshold 1), and name the snapshot that "
        "this makes.",
    )


def _no_snapshot(version: int | None, *, where: str) -> InputRefused:
    what = "the table has no snapshot yet" if version is None else f"there is no snapshot {version}, or not any more"
    return InputRefused(f"{what}.", where=where, remedy="Check [data].version.")
