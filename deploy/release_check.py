"""The verification of a published release: its certificate and files, and the labels of its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..accounting.ledger.certificate.verify import CertificateCheck, read_certificate, verify_certificate
from ..mechanisms.hierarchies.build import described_hierarchy, labels_beyond

if TYPE_CHECKING:
    import pyarrow as pa

    from ..accounting.ledger.private_store.signing import PublicKey

__all__ = ["verify_release"]


def verify_release(path: Path, *, trusted: tuple[PublicKey, ...] | None) -> CertificateCheck:
    """Check a release without ledger, private store or network.

    After `verify_certificate` the table is read: its labels must be among those of the hierarchies that the
    certificate carries, or `*`. Points and local reports have no labels.

    Args:
        path: the certificate; the release's files lie in the same folder.
        trusted: as `verify_certificate`.

    Raises:
        InputRefused: the certificate can't be read.
    """
    check = verify_certificate(path, trusted=trusted)
    if check.findings:
        return check
    certificate = read_certificate(path)
    columns = [column for column in certificate["map"]["columns"] if "hierarchy" in column]
    left_out = tuple(
        f"which values the labels of column {column['column']!r} stand for: its hierarchy is too large for the "
        "certificate; compare the publisher's with the digest, by `crowdblend hierarchy check`."
        for column in columns
        if column["hierarchy"] is None
    )
    findings = tuple(_label_findings(certificate, columns, path.parent))
    return replace(check, findings=findings, unchecked=(*check.unchecked, *left_out))


def _label_findings(certificate: Mapping[str, Any], columns: list[Mapping[str, Any]], folder: Path) -> Iterator[str]:
    from ..accounting.theory.kinds.registry import mechanism_of_record
    from ..flows.releases.registry import kind_of_mechanism  # with it comes what reads specifications

    figures = kind_of_mechanism(mechanism_of_record(certificate["mechanism"])).figures
    if figures is None:
        return
    carried = {
        column["column"]: (described_hierarchy(column["hierarchy"]), column["level"])
        for column in columns
        if column["hierarchy"] is not None and column["column"] not in figures
    }
    name = next((name for name in ("data.parquet", "data.csv") if name in certificate["files"]), None)
    if name is None or not carried:
        return
    import pyarrow as pa

    labels: dict[str, set[str | None]] = {}
    try:
        for batch in _batches(folder / name, frozenset(carried)):
            for column in batch.schema.names:
                labels.setdefault(column, set()).update(batch.column(column).cast(pa.string()).unique().to_pylist())
    except (OSError, pa.ArrowException):
        yield f"{name} can't be read as a table"
        return
    for column, found in labels.items():
        hierarchy, level = carried[column]
        texts = {label for label in found if label is not None}
        if len(texts) < len(found) or labels_beyond(hierarchy, texts, level=level):
            yield f"column {column!r} of {name} has labels that its hierarchy doesn't have at level {level}"


def _batches(path: Path, names: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """A table's columns of these names, as far as it has them, part by part."""
    import pyarrow as pa

    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            own = [name for name in file.schema_arrow.names if name in names]
            yield from file.iter_batches(columns=own)
        return
    import pyarrow.csv as pc

    convert = pc.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    with pc.open_csv(path, convert_options=convert) as reader:
        for batch in reader:
            yield batch.select([name for name in batch.schema.names if name in names])
