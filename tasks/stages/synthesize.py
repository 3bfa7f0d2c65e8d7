"""Synthetic rows from exact counts: the library that draws them runs in a process of its own, perhaps another Python's.

PRIVACY: exact counts go to that process by a pipe. Neither they nor the library's messages are stored or shown.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.kernel.group_counts import GroupCounts, sum_counts
from ...mechanisms.kernel.recoding import KeyLayout
from ...mechanisms.kinds.synthetic_table import SyntheticTable, library_rho
from ..kernel.draws import ABANDON, DrawFailed
from ..readers.column_codes import arrow_of, numbers_of
from . import synthesizer

SYNTHESIZER = "CROWDBLEND_SYNTHESIZER"
EXTRA = "crowdblend[synthetic]"
SUPPORTED = "0.16."
VERSIONS = ("opendp", "mbi")
"""Libraries whose versions are drawn with the rows: three numbers each."""

_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})")
_INHERITED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR")
_SECONDS_TO_ANSWER = 120


def require_synthesizer() -> None:
    """Refuse a release for which the libraries aren't installed; they aren't loaded, and no record is read.

    Raises:
        InputRefused: there is no such interpreter, or it lacks a library or has another version.
    """
    python = _python()
    try:
        asked = [python, "-I", str(Path(synthesizer.__file__)), "versions"]
        done = subprocess.run(  # noqa: S603 - the interpreter is the steward's, the program ours
            asked, env=_environment(), capture_output=True, timeout=_SECONDS_TO_ANSWER, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as fault:
        raise InputRefused(
            f"the interpreter of the synthesizer can't be asked for its libraries ({type(fault).__name__}).",
            where=f"{SYNTHESIZER}={python}",
            remedy=f"Name a Python in whose environment {EXTRA} is installed.",
        ) from None
    known = all(isinstance(found.get(name), str) and _VERSION.fullmatch(found[name]) for name in VERSIONS)
    if not known or found.get("lacking") or not found["opendp"].startswith(SUPPORTED):
        lacking = ", ".join(found.get("lacking") or [f"opendp[mbi]=={SUPPORTED}*"])
        raise InputRefused(
            f"this Python lacks what synthetic tables are made with: {lacking}.",
            where=python,
            remedy=f"Install {EXTRA}, or set {SYNTHESIZER} to a Python of another environment that has opendp[mbi].",
        )


def synthetic_rows(
    counts: GroupCounts, *, layout: KeyLayout, mechanism: SyntheticTable
) -> tuple[tuple[int, ...], GroupCounts]:
    """Draw a table: distinct synthetic rows, with how often each is there.

    PRIVACY: each call is a draw of its own and costs the mechanism's price: store the result before it is used.

    Returns:
        The numbers of the libraries' versions, and the rows as keys of the same layout.

    Raises:
        ReleaseFailed: the process failed, or its answer isn't rows of this layout.
    """
    answer = _answer(_question(counts, layout=layout, mechanism=mechanism))
    try:
        used = [numbers_of_version(answer.schema.metadata[name.encode()].decode()) for name in VERSIONS]
        *codes, numbers = map(_whole_numbers, answer.columns)
        rows = _rows(codes, numbers, layout=layout)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, pa.ArrowException):
        raise _failed("its answer has another form") from None
    return tuple(number for one in used for number in one), rows


_MADE_UP = 1_000


def rehearse(*, layout: KeyLayout, mechanism: SyntheticTable) -> None:
    """Draw once from made-up records of the same columns with the same ρ, and forget the rows.

    What can't work for these columns or in this environment is refused so before anything is charged: the library
    splits ρ by the number of columns, loads what it needs as it goes, and takes memory for their labels. No record is
    read, so that it says nothing of any.

    Raises:
        InputRefused: it failed.
    """
    # So many made-up records that every code of every column occurs.
    every = np.arange(max(_MADE_UP, *layout.sizes), dtype=np.int64)
    codes = [(every * (place + 1) + place) % size for place, size in enumerate(layout.sizes)]
    made_up = sum_counts(layout.keys(codes), np.ones_like(every))
    try:
        synthetic_rows(made_up, layout=layout, mechanism=mechanism)
    except ReleaseFailed as failure:
        raise InputRefused(
            f"on made-up records of these columns {failure.what.removesuffix('.')}, so that nothing was charged.",
            where=_python(),
            remedy=f"Install all of {EXTRA} there, release fewer columns or labels, or raise [privacy].epsilon.",
        ) from None


def numbers_of_version(text: str) -> tuple[int, ...]:
    """Return the three numbers of a version.

    Raises:
        ValueError: it has another form.
    """
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError("a version has three numbers")
    return tuple(int(number) for number in found.groups())


def _whole_numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return a column's numbers.

    Raises:
        ValueError: it has others than whole ones, or lacks some.
    """
    if column.type != pa.int64() or column.null_count:
        raise ValueError("codes and numbers are whole numbers")
    return numbers_of(column.combine_chunks())


def _rows(codes: Sequence[NDArray[np.int64]], numbers: NDArray[np.int64], *, layout: KeyLayout) -> GroupCounts:
    """Return rows by their keys, ascending.

    Raises:
        ValueError: a code is none of its column, a row is there twice, or fewer than once.
    """
    for size, own in zip(layout.sizes, codes, strict=True):
        if own.size and not 0 <= own.min() <= own.max() < size:
            raise ValueError("a code is none of its column")
    if numbers.size == 0 or numbers.min() < 1:
        raise ValueError("a row is there at least once")
    keys = layout.keys(codes)
    order = np.lexsort(keys[::-1])
    keys = keys[:, order]
    if not np.any(keys[:, 1:] != keys[:, :-1], axis=0).all():
        raise ValueError("a row is there twice")
    return GroupCounts(keys, numbers[order])


def _question(counts: GroupCounts, *, layout: KeyLayout, mechanism: SyntheticTable) -> bytes:
    """Return the records as a stream of Arrow; columns bear numbers for names."""
    codes = layout.decode(counts.keys)
    columns = {f"c{number}": arrow_of(own.astype(np.int32)) for number, own in enumerate(codes)}
    asked = {
        "method": mechanism.method,
        "rho": repr(library_rho(mechanism)),
        "sizes": json.dumps(list(layout.sizes)),
    }
    table = pa.table({**columns, synthesizer.NUMBER: arrow_of(counts.counts)}).replace_schema_metadata(asked)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as written:
        written.write_table(table)
    question: bytes = stream.getvalue().to_pybytes()
    return question


def _answer(question: bytes) -> pa.Table:
    """Return what the process answers.

    Raises:
        ReleaseFailed: it failed.
    """
    # In isolated mode: neither PYTHONPATH nor the working folder may decide which library sees the records.
    asked = [_python(), "-I", str(Path(synthesizer.__file__)), "draw"]
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter is the steward's, the program ours
            asked, env=_environment(), input=question, capture_output=True, check=False
        )
    except OSError as fault:
        raise ReleaseFailed(
            f"the synthesizer can't be started ({type(fault).__name__}).",
            not_done="",
            remedy="Run again with the same release id: it is not charged twice.",
        ) from None
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").splitlines()[-1:] or [""]
        kind, _, cause = last[0].partition(" ")
        # PRIVACY: the last line is read only in the one form that the program writes: a fault's text may quote a
        # record.
        if done.returncode != synthesizer.FAILED or not kind.isidentifier():
            raise _failed(f"exit code {done.returncode}")
        raise _failed(f"{kind}: {_CAUSES[cause]}" if cause in _CAUSES else kind)
    try:
        with pa.ipc.open_stream(done.stdout) as stream:
            table: pa.Table = stream.read_all()
    except pa.ArrowException:
        raise _failed("its answer has another form") from None
    return table


_CAUSES = {
    "budget": "its own queries add up to more than the rho that it was given",
    "memory": "there is too little memory",
    "library": "a library that it needs isn't installed",
}
"""What the process tells of a cause → the same in words."""


def _failed(kind: str) -> DrawFailed:
    # Which marginals a method counts, and so what memory it needs, follows from its private choices.
    return DrawFailed(f"the synthesizer failed ({kind}).", not_done="", remedy=ABANDON)


def _python() -> str:
    """Return the interpreter that is named, or this one."""
    return os.environ.get(SYNTHESIZER) or sys.executable


def _environment() -> dict[str, str]:
    """Return what the process gets of this one's variables: nothing of ledgers, stores and passwords."""
    own = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**own, "JAX_PLATFORMS": "cpu"}
