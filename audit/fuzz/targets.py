"""All fuzz targets by name: how each is fed, and what it is fed with."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from . import shapes
from .dashboard import page
from .desk import Run, furnished_desk
from .inputs import csv_records, hierarchy, parquet_records, request, sound_parquet, specification
from .ledger import anchor, certificate, entry, ledger_file, public_keys, sound_certificate

__all__ = ["CORPUS", "TARGETS", "Target", "corpus_of"]

CORPUS = Path(__file__).with_name("corpus")


@dataclass(frozen=True, kw_only=True)
class Target:
    """One way into the product.

    Args:
        name: what it is called; its corpus has the same name.
        prepare: makes what it needs in an empty folder, and gives the function that is fed.
        shaped: inputs of the right shape with something wrong in them.
        words: what inputs are made of, for the coverage-guided fuzzer.
        seconds: the longest that one input may take.
    """

    name: str
    prepare: Callable[[Path], Run]
    shaped: Callable[[], st.SearchStrategy[bytes]]
    words: tuple[str, ...] = ()
    seconds: int = 30


def corpus_of(name: str) -> list[bytes]:
    """The committed inputs of a target, by the order of their names."""
    folder = CORPUS / name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.exists() else []


@cache
def _bodies() -> tuple[bytes, ...]:
    """Bodies of the entries of the committed ledger."""
    with tempfile.TemporaryDirectory() as folder:
        desk = furnished_desk(Path(folder))
        with closing(sqlite3.connect(desk.ledger)) as connection:
            return tuple(body.encode() for (body,) in connection.execute("SELECT body FROM entry ORDER BY position"))


@cache
def _certificate() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return sound_certificate(furnished_desk(Path(folder)))


@cache
def _anchor() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        desk = furnished_desk(Path(folder))
        return next((desk.home / "anchors").iterdir()).read_bytes()


def _marked(name: str) -> st.SearchStrategy[bytes]:
    return shapes.changed(corpus_of(name) or [b""])


TARGETS = {
    target.name: target
    for target in (
        Target(
            name="specification",
            prepare=specification,
            shaped=lambda: shapes.specs() | _marked("specification"),
            words=tuple(f"[{table}]" for table in shapes.SPEC)
            + tuple(f"{key} = " for table in shapes.SPEC.values() for key in table),
        ),
        Target(
            name="request",
            prepare=request,
            shaped=lambda: _marked("request"),
            words=(
                "[request]",
                "[answer]",
                "[columns.",
                "hierarchy_sha256 = ",
                "\\u001b",
                '"count"',
                '"moments"',
                "1e400",
            ),
        ),
        Target(
            name="hierarchy",
            prepare=hierarchy,
            shaped=lambda: shapes.hierarchies() | _marked("hierarchy"),
            words=(";", ",", '"', "*", "\r\n", "\ufeff"),
        ),
        Target(
            name="csv",
            prepare=csv_records,
            shaped=lambda: shapes.csv_files() | _marked("csv"),
            words=(";", '"', "letter", "number", "\r\n", "\ufeff"),
        ),
        Target(
            name="parquet", prepare=parquet_records, shaped=shapes.parquet_files, words=("PAR1", "letter", "number")
        ),
        Target(name="ledger-file", prepare=ledger_file, shaped=shapes.scripts, seconds=60),
        Target(
            name="ledger-entry",
            prepare=entry,
            shaped=lambda: shapes.entries(_bodies()),
            words=("release-charged/1", "dataset-added/1", "null", "true", "1e-6", "\\u0000"),
            seconds=60,
        ),
        Target(
            name="certificate",
            prepare=certificate,
            shaped=lambda: shapes.json_of(_certificate(), mark=b"S") | shapes.changed([_certificate()]),
            words=("crowdblend-certificate/5", "null", "NaN", "1e-6", "\\ud800"),
            seconds=60,
        ),
        Target(
            name="anchor",
            prepare=anchor,
            shaped=lambda: shapes.changed([_anchor()]) | shapes.json_of(_anchor().splitlines()[-1], mark=b"S"),
            words=("position", "ledger_id", "1e3", "\\ud800"),
            seconds=60,
        ),
        Target(
            name="public-keys",
            prepare=public_keys,
            shaped=lambda: _marked("public-keys"),
            words=("-----BEGIN PUBLIC KEY-----\n", "-----END PUBLIC KEY-----\n"),
        ),
        Target(
            name="dashboard",
            prepare=page,
            shaped=shapes.addresses,
            words=("/api/v1", "/csv", "/report", "/calculator?k=20&sampling_rate=0.1&delta=1e-6", "%00", "before="),
        ),
    )
}


def write_seeds() -> None:
    """Write the sound inputs of targets whose shape is not made anew, and leave what is there."""
    seeds = {
        "parquet": {f"sound-{number}": sound_parquet(**writing) for number, writing in enumerate(shapes.WRITINGS[:3])},
        "certificate": {"sound": _certificate(), "signed": b"S" + _certificate()},
        "anchor": {"sound": _anchor(), "signed": b"S" + _anchor().splitlines()[-1]},
        "ledger-entry": {
            f"{place:02}": bytes([place]) + body for place, body in enumerate(_bodies()) if place % 3 == 0
        },
    }
    for name, inputs in seeds.items():
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        for file, content in inputs.items():
            (CORPUS / name / file).write_bytes(content)


if __name__ == "__main__":
    write_seeds()
