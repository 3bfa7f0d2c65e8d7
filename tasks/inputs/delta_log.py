"""The log of a Delta Lake table: the files that are the table at one version.

After the protocol's own description (https://github.com/delta-io/delta/blob/master/PROTOCOL.md): what a version adds
and removes is replayed from the last checkpoint before it. INVARIANT: what isn't known here is refused, since a reader
that passes over what it doesn't know publishes records that the table has deleted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from ...mechanisms.kernel.errors import InputRefused
from ..readers.parquet_footer import open_parquet
from ..readers.source_files import Partition
from .lake_tables import REWRITE, LakeTable, LiveFile, TableFolder, TableFormat, misread, unescaped

LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
FEATURES = {"columnMapping", "deletionVectors", "timestampNtz", "vacuumProtocolCheck"}
"""Features of readers that change nothing where, as is checked too, no column is mapped and no file has a vector."""
_PASSED = {"cdc", "checkpointMetadata", "commitInfo", "domainMetadata", "txn"}
_TAKEN = {"protocol", "metaData", "add", "remove"}
_ADD = ("path", "partitionValues", "size", "deletionVector")
_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "byte": pa.int64(),
    "short": pa.int64(),
    "integer": pa.int64(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
_FileKey = tuple[str, str | None]


class DeltaFormat(TableFormat):
    """Tables of Delta Lake."""

    name = "Delta Lake"
    marks = (LOG,)

    def read(self, folder: TableFolder, *, metadata: str | None, version: int | None) -> LakeTable:
        """Replay the log.

        PRIVACY: of the log neither statistics nor notes of commits are kept, and no refusal quotes it.
        """
        del metadata
        try:
            return _table_at(folder, version)
        except InputRefused:
            raise
        # PRIVACY: what an error says may quote the log, so only its kind is given.
        except Exception as error:  # noqa: BLE001 - a log may have any value of JSON anywhere; nothing was charged yet
            raise misread(f"the log cannot be read ({type(error).__name__})", where=folder.location(LOG)) from None


DELTA_LAKE = DeltaFormat()


def _table_at(folder: TableFolder, version: int | None) -> LakeTable:
    where = folder.location(LOG)
    commits, checkpoints = _log_files(folder.names(LOG))
    last = max([*commits, *checkpoints], default=None)
    if last is None:
        raise misread("the log has neither a version nor a checkpoint", where=where)
    wanted = last if version is None else version
    if wanted > last:
        raise InputRefused(
            f"there is no version {wanted}; the last one is {last}.", where=where, remedy="Check [data].version."
        )
    start = max((number for number in checkpoints if number <= wanted), default=None)
    needed = range(0 if start is None else start + 1, wanted + 1)
    missing = [number for number in needed if number not in commits]
    if missing:
        raise misread(
            f"version {wanted} needs the log's version {missing[0]}, which is gone",
            where=where,
            remedy="Choose a version that the log still has in [data].version.",
        )
    replay = _Replay(folder)
    for name in [] if start is None else checkpoints[start]:
        replay.take(_checkpoint_actions(folder, f"{LOG}/{name}"), where=folder.location(f"{LOG}/{name}"))
    for number in needed:
        name = f"{LOG}/{commits[number]}"
        replay.take(_commit_actions(folder, name), where=folder.location(name))
    return replay.table(wanted, where=where)


def _log_files(names: list[str]) -> tuple[dict[int, str], dict[int, list[str]]]:
    """Return the commits by version, and the checkpoints of which every part is there."""
    commits: dict[int, str] = {}
    parts: dict[tuple[int, int], dict[int, str]] = {}
    for name in names:
        if match := _COMMIT.fullmatch(name):
            commits[int(match[1])] = name
        elif match := _CHECKPOINT.fullmatch(name):
            parts.setdefault((int(match[1]), int(match[3] or 1)), {})[int(match[2] or 1)] = name
    whole = {
        number: [found[place] for place in sorted(found)]
        for (number, many), found in sorted(parts.items())
        if sorted(found) == list(range(1, many + 1))
    }
    return commits, whole


def _commit_actions(folder: TableFolder, name: str) -> Iterator[tuple[str, Any]]:
    where = folder.location(name)
    for number, line in enumerate(folder.read(name).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            action = json.loads(line)
            ((kind, content),) = action.items()
        except (ValueError, AttributeError, RecursionError):
            raise misread(f"line {number} is no action", where=where) from None
        yield kind, content


def _checkpoint_actions(folder: TableFolder, name: str) -> Iterator[tuple[str, Any]]:
    where = folder.location(name)
    try:
        with open_parquet(where) as file:
            kinds = set(file.schema_arrow.names)
            columns = [f"add.{field}" for field in _ADD] + ["protocol", "metaData"] + sorted(kinds - _PASSED - _TAKEN)
            for batch in file.iter_batches(columns=columns, use_threads=False):
                for row in batch.to_pylist():
                    yield from ((kind, content) for kind, content in row.items() if content is not None)
    except (OSError, ImportError, ValueError, pa.ArrowException) as error:
        raise misread(f"the checkpoint cannot be read ({type(error).__name__})", where=where) from None


class _Replay:
    """The state of the table after the actions taken so far."""

    def __init__(self, folder: TableFolder) -> None:
        self._folder = folder
        self._protocol: Mapping[str, Any] = {}
        self._metadata: Mapping[str, Any] = {}
        self._live: dict[_FileKey, LiveFile] = {}

    def take(self, actions: Iterator[tuple[str, Any]], *, where: str) -> None:
        """Take the actions of one commit, or of a checkpoint's part.

        Raises:
            InputRefused: one isn't understood, or a file is both added and removed.
        """
        added: dict[_FileKey, LiveFile] = {}
        removed: set[_FileKey] = set()
        for kind, content in actions:
            if kind in _PASSED:
                continue
            if kind not in _TAKEN or not isinstance(content, dict):
                raise misread("the log has an action that isn't understood", where=where)
            match kind:
                case "protocol":
                    self._protocol = content
                case "metaData":
                    self._metadata = content
                case "remove":
                    removed.add(_key(content, where=where))
                case _:
                    key = _key(content, where=where)
                    if key in added:
                        raise misread("a file is added twice at once", where=where)
                    added[key] = _live_file(self._folder, content, where=where)
        # One commit that adds and removes a file has no order, so what is live would be a guess.
        if removed & added.keys():
            raise misread("a file is added and removed at once", where=where)
        for key in removed:
            self._live.pop(key, None)
        self._live.update(added)

    def table(self, version: int, *, where: str) -> LakeTable:
        """Return the table.

        Raises:
            InputRefused: its protocol, its metadata or one of its files isn't understood.
        """
        _require_protocol(self._protocol, where=where)
        columns, partitioned = _columns_of(self._metadata, where=where)
        if any(vector is not None for _, vector in self._live):
            raise misread(
                "some of the table's files have deletion vectors, which say which of their records are deleted",
                where=where,
                remedy=f"Rewrite these files (REORG TABLE … APPLY (PURGE)), or: {REWRITE}",
            )
        types = {name: _TYPES.get(columns[name]) for name in partitioned}
        for file in self._live.values():
            if {name for name, _ in file.partition} != types.keys():
                raise misread("a file lacks the columns that the table is partitioned by", where=where)
        files = sorted(self._live.values(), key=lambda file: file.path)
        return LakeTable(
            folder=self._folder.root,
            table_format=DELTA_LAKE.name,
            version=version,
            columns=tuple(columns),
            partition_types=types,
            field_ids={},
            files=tuple(files),
        )


def _require_protocol(protocol: Mapping[str, Any], *, where: str) -> None:
    reader = protocol.get("minReaderVersion")
    if not isinstance(reader, int) or not 1 <= reader <= 3:
        raise misread("the table's protocol is not understood", where=where)
    features = set(_of(list, protocol.get("readerFeatures") or [], where=where)) if reader == 3 else set()
    unknown = sorted(map(str, features - FEATURES))
    if unknown:
        raise misread(f"the table needs readers that know {', '.join(unknown)}", where=where)


def _columns_of(metadata: Mapping[str, Any], *, where: str) -> tuple[dict[str, str], list[str]]:
    """Each column's type, "" for one of several parts; and the names of those that the table is partitioned by."""
    settings = dict(metadata.get("configuration") or {})
    if str(settings.get("delta.columnMapping.mode", "none")).lower() != "none":
        raise misread("the table's columns are mapped to other names in its files (column mapping)", where=where)
    if (metadata.get("format") or {}).get("provider") != "parquet":
        raise misread("the table's files are not Parquet", where=where)
    partitioned = _of(list, metadata.get("partitionColumns"), where=where)
    try:
        fields = json.loads(metadata["schemaString"])["fields"]
        columns = {_of(str, field["name"], where=where): field["type"] for field in fields}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise misread("the table's schema is not understood", where=where) from None
    if len(columns) != len(fields) or len(set(partitioned)) != len(partitioned):
        raise misread("the table has two columns of one name", where=where)
    if any(not isinstance(columns.get(name), str) for name in partitioned):
        raise misread("the table is partitioned by a column that it doesn't have, or by a part of one", where=where)
    return {name: type_ if isinstance(type_, str) else "" for name, type_ in columns.items()}, partitioned


def _key(content: Mapping[str, Any], *, where: str) -> _FileKey:
    """Return what tells one logical file from another: its path, and the vector of its deleted records."""
    written = _of(str, content.get("path"), where=where)
    if _SCHEME.match(written):
        raise misread("it names a file by a URL, which may lie outside of the table's folder", where=where)
    path = unescaped(written, where=where)
    vector = content.get("deletionVector")
    if vector is None:
        return path, None
    kept = _of(dict, vector, where=where)
    return path, f"{kept.get('storageType')}{kept.get('pathOrInlineDv')}@{kept.get('offset')}"


def _live_file(folder: TableFolder, content: Mapping[str, Any], *, where: str) -> LiveFile:
    path = _key(content, where=where)[0]
    values = content.get("partitionValues")
    pairs = dict(values) if isinstance(values, list) else _of(dict, values, where=where)
    partition: Partition = tuple(
        (_of(str, name, where=where), None if value in (None, "") else _of(str, value, where=where))
        for name, value in sorted(pairs.items())
    )
    return LiveFile(
        path=folder.below(path, where=where), size=_of(int, content.get("size"), where=where), partition=partition
    )


def _of(type_: Callable[..., Any], value: object, *, where: str) -> Any:  # noqa: ANN401
    """Return a value of the log that must be of a type."""
    if not isinstance(value, type_):  # type: ignore[arg-type]
        raise misread("the log has an entry that isn't understood", where=where)
    return value
