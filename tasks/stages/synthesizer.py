"""The program that fits a model to counted records and draws synthetic rows, by `opendp[mbi]`.

It runs in a process and perhaps an environment of its own (docs/decisions/0021-synthetic-tables.md), so that it imports
nothing of crowdblend. Asked for `versions` it writes those of the libraries as JSON, and what it lacks. Asked to `draw`
it reads a stream of Arrow: a column of codes for each released column, the number of records that have them, and in the
schema's metadata what is asked for. It writes one of distinct synthetic rows and how often each is there, with the
libraries' versions as metadata.

PRIVACY: records come by a pipe and are written nowhere. It says nothing of an error but its type.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

EXTRA = 'extra == "mbi"'
NUMBER = "number"
FAILED = 1
CAUSES = {"insufficient budget": "budget", "RESOURCE_EXHAUSTED": "memory", "No module named": "library"}
"""What the message of an error says → what is reported of it. PRIVACY: nothing else of a message is."""

_SHARING = ("_aim", "_mst", "_table")
_HAIR = 2.0**-40


def versions() -> dict[str, Any]:
    """Versions of `opendp` and `mbi`, None where there is none; and what the extra asks for and isn't here."""
    wanted = [line.partition(";")[0].strip() for line in _requirements() if EXTRA in line]
    lacking = []
    for one in wanted:
        name, pin, exact = one.partition("==")
        found = _version(name if pin else one.split(">")[0])
        if found is None or (pin and found != exact):
            lacking.append(one)
    return {"opendp": _version("opendp"), "mbi": _version("mbi"), "lacking": lacking}


def _requirements() -> list[str]:
    try:
        return requires("opendp") or []
    except PackageNotFoundError:
        return []


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def drawn(records: Any) -> Any:  # noqa: ANN401 - tables of pyarrow, which isn't loaded yet
    """Synthetic rows of the same columns, from a table of codes with a number of records each.

    Code 0, which is that of values that nobody declared, is the category "null" that the library has in each column.

    PRIVACY: the privacy unit is one record, added or removed; ρ is spent in one query.
    """
    import numpy as np
    import opendp.prelude as dp
    import polars as pl  # type: ignore[import-not-found,unused-ignore]
    import pyarrow as pa

    asked = records.schema.metadata
    sizes = json.loads(asked[b"sizes"])
    names = [name for name in records.column_names if name != NUMBER]
    numbers = records.column(NUMBER).to_numpy()
    series = []
    for name in names:
        codes = np.repeat(records.column(name).to_numpy(), numbers)
        series.append(pl.Series(name, codes).set(pl.Series(codes == 0), None))
    dp.enable_features("contrib")
    share_a_hair_less()
    algorithm = {"mst": dp.mbi.MST, "aim": dp.mbi.AIM}[asked[b"method"].decode()]()
    context = dp.Context.compositor(
        data=pl.LazyFrame(series),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=float(asked[b"rho"])),
        split_evenly_over=1,
    )
    keys = {name: list(range(1, size)) for name, size in zip(names, sizes, strict=True)}
    found = context.query().select(*names).contingency_table(keys=keys, algorithm=algorithm).release()
    # Drawn independently, not rounded: rounding makes columns depend on each other that the model holds to be
    # independent. Sorted, so that the order discloses nothing.
    rows = found.synthesize(method="sample").fill_null(0).group_by(names).len(NUMBER).sort(names)
    columns = {name: pa.array(rows[name].to_numpy().astype(np.int64)) for name in (*names, NUMBER)}
    return pa.table(columns).replace_schema_metadata({name: version(name) for name in ("opendp", "mbi")})


def share_a_hair_less() -> None:
    """Make the library's shares of ρ smaller by a hair, so that they add up to no more than it has."""
    for name in _SHARING:
        # Each module has imported the function under its own name, so that it has to be replaced in each.
        vars(import_module(f"opendp.extras.mbi.{name}"))["prior"] = _a_hair_less


def _a_hair_less(share: float) -> float:
    """Return a share of ρ that the library is about to give to one of its queries, less a part in 2⁴⁰.

    It takes the double before by itself. That is too little: where it adds up the shares of many columns, each sum is
    rounded up, and the last query is refused. Less is always private.
    """
    return float(share) * (1.0 - _HAIR)


def cause(fault: BaseException) -> str:
    """Return the type of an error, and what is known of its cause by `CAUSES`."""
    known = next((reported for words, reported in CAUSES.items() if words in str(fault)), "")
    known = "memory" if isinstance(fault, MemoryError) else known
    return f"{type(fault).__name__} {known}".strip()


def main(task: str) -> int:
    """Write the libraries' versions, or draw; the exit code."""
    if task == "versions":
        print(json.dumps(versions()))
        return 0
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no part of the answer
    try:
        import pyarrow as pa

        with pa.ipc.open_stream(sys.stdin.buffer) as given:
            records = given.read_all()
        found = drawn(records)
        # Nothing is written before the draw is complete: a reader that finds a whole stream has a whole draw.
        with answers, pa.ipc.new_stream(answers, found.schema) as written:
            written.write_table(found)
    except Exception as fault:  # noqa: BLE001 - its message may have a record's values
        print(cause(fault), file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
