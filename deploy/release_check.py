"""The verification of a published release: its certificate and files, and the labels of its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..accounting.certificate.row_tables import DATA, MEMBERS, are_margins_of_mechanism, members_view, table_of_block
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
    many as the price is for. Levels and blocks that follow from published counts are computed again. Points and
    local reports have no labels. Whether this installation has the kernel that the certificate names is told and is no
    finding.

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
    members = members_view(certificate)
    left_out = tuple(
        f"which values the labels of column {column['column']!r} stand for: its hierarchy is too large for the "
        "certificate; compare the publisher's with the digest, by `crowdblend hierarchy check`."
        for column in [*columns, *([] if members is None else members["map"]["columns"])]
        if column["hierarchy"] is None
    )
    if left_out and {"chosen_levels", "chosen_blocks"} & certificate["published"].keys():
        left_out += (
            "whether levels and blocks are those that follow from its counts: that takes every column's hierarchy.",
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
    carried = _carried(columns, figures)
    try:
        tables = _levels_of_tables(certificate)
    except (AttributeError, LookupError, TypeError, ValueError):
        yield "its stages are not those of its mechanism and its map"
        return
    if not are_margins_of_mechanism(certificate):
        yield "its margins are not those of its mechanism and its map"
        return
    if {"chosen_levels", "chosen_blocks"} & certificate["published"].keys() and len(carried) == len(columns):
        yield from _choice_findings(certificate, carried, tables, folder)
    for stem, stages in tables.items():
        yield from _table_findings(certificate, carried, stem, stages, folder)
    if (members := members_view(certificate)) is not None:
        of_members = _carried(members["map"]["columns"], figures)
        try:
            [stages] = _levels_of_tables(members).values()
        except (AttributeError, LookupError, TypeError, ValueError):
            yield "the stages of its table of members are not those of its mechanism and its map"
            return
        yield from _table_findings(members, of_members, MEMBERS, stages, folder)


def _carried(columns: list[Mapping[str, Any]], figures: frozenset[str]) -> dict[str, Hierarchy]:
    """Return the hierarchies that a certificate carries."""
    return {
        column["column"]: described_hierarchy(column["hierarchy"])
        for column in columns
        if column["hierarchy"] is not None and column["column"] not in figures
    }


def _table_findings(
    certificate: Mapping[str, Any],
    hierarchies: Mapping[str, Hierarchy],
    stem: str,
    stages: list[Mapping[str, int]],
    folder: Path,
) -> Iterator[str]:
    """Say which labels of a table of rows its hierarchies don't have at the levels of their stages."""
    name = next((name for name in (f"{stem}.parquet", f"{stem}.csv") if name in certificate["files"]), None)
    carried = {column: hierarchy for column, hierarchy in hierarchies.items() if column in stages[0]}
    if name is None and stem != DATA:
        what = "of members" if stem == MEMBERS else f"of the block {stem.removeprefix(f'{DATA}-')!r}"
        yield f"the table {what} is missing"
    if name is None or not carried:
        return
    import pyarrow as pa

    labels: dict[tuple[str, int], set[str | None]] = {}
    seen = frozenset(stages[0])
    names = seen | ({STAGE} if len(stages) > 1 else set())
    try:
        for batch in _batches(folder / name, names):
            seen &= set(batch.schema.names)
            for number, rows in _by_stage(batch, stages=len(stages)):
                for column in carried.keys() & set(rows.schema.names):
                    texts = rows.column(column).cast(pa.string()).unique().to_pylist()
                    labels.setdefault((column, number), set()).update(texts)
    except (OSError, ValueError, pa.ArrowException):
        yield f"{name} can't be read as a table"
        return
    if stem != DATA and seen != stages[0].keys():
        yield f"{name} lacks a column of its {'map' if stem == MEMBERS else 'block'}"
        return
    for column, hierarchy in carried.items():
        for number, stage in enumerate(stages):
            found, level = labels.get((column, number), set()), stage[column]
            known = {label for label in found if label is not None}
            if len(known) < len(found) or labels_beyond(hierarchy, known, level=level):
                yield f"column {column!r} of {name} has labels that its hierarchy doesn't have at level {level}"


def _levels_of_tables(certificate: Mapping[str, Any]) -> dict[str, list[Mapping[str, int]]]:
    """Return the level of each column at each stage of each table of rows, by the beginning of its file's name.

    There is one stage where the mechanism has none.

    Raises:
        ValueError: stages that can't be the mechanism's, or not of the map's columns, or finer than the one before; or
            other blocks than the mechanism's.
    """
    first = {column["column"]: column["level"] for column in certificate["map"]["columns"]}
    mechanism, published = certificate["mechanism"], certificate["published"]
    number = mechanism.get("stages")
    if number is None:
        return {DATA: [first]}
    if mechanism.get("blocks") is None:
        # Margins beside chosen pairs may have finer labels than the first stage's rows.
        exact = "pairs" not in mechanism
        return {DATA: _checked_stages(published["stages"], first, number=number, exact=exact)}
    blocks = {
        table_of_block(block["name"]): _checked_stages(
            block["stages"], {name: first[name] for name in block["columns"]}, number=number, exact=False
        )
        for block in published["blocks"]
    }
    if not len(blocks) == len(published["blocks"]) == mechanism["blocks"]:
        raise ValueError("these are other blocks")
    if any(not (own := block["columns"]) or len(set(own)) < len(own) for block in published["blocks"]):
        raise ValueError("a block has no columns, or names one twice")
    return blocks


def _checked_stages(
    stages: list[Mapping[str, Any]], first: Mapping[str, int], *, number: int, exact: bool
) -> list[Mapping[str, int]]:
    levels = [stage["levels"] for stage in stages]
    if exact and levels[0] != first:
        raise ValueError("the first stage has other levels")
    if len(levels) != number or any(stage.keys() != first.keys() for stage in levels):
        raise ValueError("these are other stages")
    if any(after[name] < level for before, after in pairwise([first, *levels]) for name, level in before.items()):
        raise ValueError("a stage is finer than the one before")
    return levels


def _choice_findings(
    certificate: Mapping[str, Any],
    hierarchies: Mapping[str, Hierarchy],
    tables: Mapping[str, list[Mapping[str, int]]],
    folder: Path,
) -> Iterator[str]:
    """Compute again which blocks and levels follow from the published noisy counts, and compare them."""
    import pyarrow as pa

    from ..flows.releases.paired_parts import chosen_again

    name = next(name for name in ("margins.parquet", "margins.csv") if name in certificate["files"])
    try:
        batches = _batches(folder / name, frozenset({"count"}))
        counts = [int(count) for batch in batches for count in batch.column("count").to_pylist()]
        again = {
            table_of_block(name) if name else DATA: stages
            for name, stages in chosen_again(certificate, hierarchies, counts)
        }
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, pa.ArrowException):
        yield f"its levels can't be computed again from {name}"
        return
    if {stem: [stage.keys() for stage in own] for stem, own in again.items()} != {
        stem: [stage.keys() for stage in own] for stem, own in tables.items()
    }:
        yield f"its blocks are not those that follow from {name}"
    elif again != tables:
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

    # Labels are texts, also where they look like numbers. So are other columns: a type that is guessed from the first
    # part of a file, in which a column may be empty, can be another one than the rest has.
    with pc.open_csv(path) as reader:
        every = reader.schema.names
    convert = pc.ConvertOptions(column_types=dict.fromkeys(every, pa.string()))
    with pc.open_csv(path, convert_options=convert) as reader:
        for batch in reader:
            yield batch.select([name for name in batch.schema.names if name in names])
