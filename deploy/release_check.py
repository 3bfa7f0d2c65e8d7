"""The verification of a published release: its certificate and files, and the labels of its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..accounting.certificate.verify import CertificateCheck, certified_mechanism, read_certificate, verify_certificate
from ..flows.software import kernel_digest
from ..mechanisms.hierarchies.build import described_hierarchy, labels_beyond

if TYPE_CHECKING:
    import pyarrow as pa

    from ..accounting.kernel.keys.signing import PublicKey
    from ..mechanisms.hierarchies.declare import Hierarchy


STAGE = "stage"
"""The column that says which stage of a chain a row is of."""


def verify_release(path: Path, *, trusted: tuple[PublicKey, ...] | None) -> CertificateCheck:
    """Check a release without ledger, private store or network.

    After `verify_certificate` the table is read: its labels must be among those of the hierarchies that the
    certificate carries, or `*`; where there are several stages, at the levels of their row's stage. Margins must be as
    many as the price is for. Levels that follow from published counts are computed again. Points and local reports
    have no labels. Whether this installation has the kernel that the certificate names is told and is no finding.

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
    kernel, own = certificate["code_sources"], kernel_digest(certified_mechanism(certificate))
    return replace(
        check,
        findings=tuple(_label_findings(certificate, columns, path.parent)),
        unchecked=(*check.unchecked, *left_out),
        kernel=kernel,
        kernel_is_installed=kernel == own,
    )


def _label_findings(certificate: Mapping[str, Any], columns: list[Mapping[str, Any]], folder: Path) -> Iterator[str]:
    from ..flows.releases.release_kind import kind_of_mechanism  # with it comes what reads specifications

    figures = kind_of_mechanism(certified_mechanism(certificate)).figures
    if figures is None:
        return
    carried = {
        column["column"]: described_hierarchy(column["hierarchy"])
        for column in columns
        if column["hierarchy"] is not None and column["column"] not in figures
    }
    try:
        stages = _levels_of_stages(certificate)
    except (AttributeError, LookupError, TypeError, ValueError):
        yield "its stages are not those of its mechanism and its map"
        return
    if not _are_margins_of_mechanism(certificate):
        yield "its margins are not those of its mechanism and its map"
        return
    if "chosen_levels" in certificate["published"] and len(carried) == len(columns):
        yield from _choice_findings(certificate, carried, stages, folder)
    name = next((name for name in ("data.parquet", "data.csv") if name in certificate["files"]), None)
    if name is None or not carried:
        return
    import pyarrow as pa

    labels: dict[tuple[str, int], set[str | None]] = {}
    names = frozenset(carried) | ({STAGE} if len(stages) > 1 else set())
    try:
        for batch in _batches(folder / name, names):
            for number, rows in _by_stage(batch, stages=len(stages)):
                for column in carried.keys() & set(rows.schema.names):
                    texts = rows.column(column).cast(pa.string()).unique().to_pylist()
                    labels.setdefault((column, number), set()).update(texts)
    except (OSError, ValueError, pa.ArrowException):
        yield f"{name} can't be read as a table"
        return
    for column, hierarchy in carried.items():
        for number, stage in enumerate(stages):
            found, level = labels.get((column, number), set()), stage[column]
            known = {label for label in found if label is not None}
            if len(known) < len(found) or labels_beyond(hierarchy, known, level=level):
                yield f"column {column!r} of {name} has labels that its hierarchy doesn't have at level {level}"


def _levels_of_stages(certificate: Mapping[str, Any]) -> list[Mapping[str, int]]:
    """Return the level of each column at each stage; there is one stage where the mechanism has none.

    Raises:
        ValueError: stages that can't be the mechanism's, or not of the map's columns, or finer than the one before.
    """
    first = {column["column"]: column["level"] for column in certificate["map"]["columns"]}
    number = certificate["mechanism"].get("stages")
    if number is None:
        return [first]
    stages = [stage["levels"] for stage in certificate["published"]["stages"]]
    # Margins beside chosen pairs may have finer labels than the first stage's rows.
    begins = [first] if "pairs" in certificate["mechanism"] else []
    if not begins and stages[0] != first:
        raise ValueError("the first stage has other levels")
    if len(stages) != number or any(stage.keys() != first.keys() for stage in stages):
        raise ValueError("these are other stages")
    if any(after[name] < level for before, after in pairwise([*begins, *stages]) for name, level in before.items()):
        raise ValueError("a stage is finer than the one before")
    return stages


def _are_margins_of_mechanism(certificate: Mapping[str, Any]) -> bool:
    """Return whether as many margins and pairs are named as are paid for, of known columns, and a file with them."""
    number, pairs = certificate["mechanism"].get("margins", 0), certificate["mechanism"].get("pairs", 0)
    files = {"margins.parquet", "margins.csv"} & set(certificate["files"])
    if not number:
        return not files and "margins" not in certificate["published"]
    known = {column["column"] for column in certificate["map"]["columns"]}
    try:
        margins = certificate["published"]["margins"]["columns"]
        chosen = [pair["columns"] for pair in certificate["published"].get("pairs", [])]
        right = len(margins) == number and len(chosen) == pairs
        return len(files) == 1 and right and all(known.issuperset(margin) for margin in (*margins, *chosen))
    except (LookupError, TypeError):
        return False


def _choice_findings(
    certificate: Mapping[str, Any],
    hierarchies: Mapping[str, Hierarchy],
    stages: list[Mapping[str, int]],
    folder: Path,
) -> Iterator[str]:
    """Compute again which levels follow from the published noisy counts, and compare them."""
    import pyarrow as pa

    from ..flows.releases.paired_parts import chosen_again

    name = next(name for name in ("margins.parquet", "margins.csv") if name in certificate["files"])
    try:
        batches = _batches(folder / name, frozenset({"count"}))
        counts = [int(count) for batch in batches for count in batch.column("count").to_pylist()]
        again = chosen_again(certificate, hierarchies, counts)
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, pa.ArrowException):
        yield f"its levels can't be computed again from {name}"
        return
    if again != stages:
        yield f"its levels are not those that follow from {name}"


def _by_stage(batch: pa.RecordBatch, *, stages: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each stage, numbered from 0; all are of the first where there is one.

    Raises:
        ValueError: a row is of no stage.
    """
    if stages == 1:
        yield 0, batch
        return
    import pyarrow as pa
    import pyarrow.compute as pc

    if STAGE not in batch.schema.names:
        raise ValueError("there is no column of stages")
    numbers = batch.column(STAGE).cast(pa.int64())
    if not set(numbers.unique().to_pylist()) <= set(range(1, stages + 1)):
        raise ValueError("a row is of no stage")
    for number in range(stages):
        yield number, batch.filter(pc.equal(numbers, number + 1))


def _batches(path: Path, names: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """Yield a table's columns of these names, as far as it has them, part by part."""
    import pyarrow as pa

    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            own = [name for name in file.schema_arrow.names if name in names]
            yield from file.iter_batches(columns=own)
        return
    import pyarrow.csv as pc

    # Labels are texts, also where they look like numbers.
    convert = pc.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    with pc.open_csv(path, convert_options=convert) as reader:
        for batch in reader:
            yield batch.select([name for name in batch.schema.names if name in names])
