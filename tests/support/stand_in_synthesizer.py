"""Stands in for a Python with `opendp[mbi]`, which the tests' environment can't have: it draws rows at random."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path


def written(folder: Path, *, way: str = "rows") -> Path:
    """An interpreter of its own: draws "rows", or "fails", or answers with codes that are none ("beyond").

    Where it "fails later" the first draw succeeds, which is the one before the charge.

    It notes each draw, with the variables that it was given, in `draws.jsonl` beside it.
    """
    path = folder / f"python-{way.replace(' ', '-')}"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "{way}" "{folder}/draws.jsonl" "$@"\n')
    path.chmod(0o700)
    return path


def main(way: str, notes: str, isolated: str, program: str, task: str) -> int:
    assert (isolated, Path(program).name) == ("-I", "synthesizer.py")
    if task == "versions":
        print(json.dumps({"opendp": "0.16.0", "mbi": "1.1.0", "lacking": []}))
        return 0
    import pyarrow as pa

    records = pa.ipc.open_stream(sys.stdin.buffer).read_all()
    asked = {name.decode(): text.decode() for name, text in records.schema.metadata.items()}
    sizes = json.loads(asked["sizes"])
    note = asked | {"variables": sorted(os.environ), "records": sum(records.column("number").to_pylist())}
    with Path(notes).open("a") as file:
        file.write(json.dumps(note) + "\n")
    before = len(Path(notes).read_text().splitlines()) - 1
    if way == "fails" or (way == "fails later" and before):
        print(f"the value {records.column('c0')[0]} is wrong\nOpenDPException budget", file=sys.stderr)
        return 1
    if way == "beyond":
        sizes[0] += 50
    coins = random.SystemRandom()
    rows = sorted({tuple(coins.randrange(size) for size in sizes) for _ in range(60)})
    if way == "beyond":
        rows[-1] = (sizes[0] - 1, *rows[-1][1:])
    columns = {f"c{place}": pa.array(codes, pa.int64()) for place, codes in enumerate(zip(*rows, strict=True))}
    numbers = pa.array([coins.randrange(1, 9) for _ in rows], pa.int64())
    table = pa.table({**columns, "number": numbers}).replace_schema_metadata({"opendp": "0.16.0", "mbi": "1.1.0"})
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as answer:
        answer.write_table(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
