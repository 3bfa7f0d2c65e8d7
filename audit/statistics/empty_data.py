"""What a release shows of empty data, of one record, and of one more record: the files must tell nothing."""

from __future__ import annotations

import json
from pathlib import Path

from ..desk import Job, temporary_desk

__all__ = ["same_for_empty_data"]

SPEC = """
[release]
name = "empty"
output = "unused"
[data]
dataset = "{dataset}"
source = "{source}"
[sampling]
rate = 0.2
[suppression]
k = 5
[privacy]
delta = 1e-3
[columns.colour]
values = ["blue", "red"]
level = 0
"""
RECORDS = {"empty": "", "one": "blue\n", "one-unseen": "chartreuse\n", "twice-the-same": "blue\nblue\n"}


def same_for_empty_data() -> list[str]:
    """What differs between releases of no, one and two records, each under the same coins; nothing should."""
    with temporary_desk() as desk:
        jobs = []
        for name, lines in RECORDS.items():
            desk.add_dataset(name)  # a data set of its own, and so a sample of its own in the ledger
            (desk.folder / f"{name}.csv").write_text("colour\n" + lines)
            jobs.append(
                Job(spec=SPEC.format(dataset=name, source=f"{name}.csv"), output=f"out-{name}", release_id=name)
            )
        results = desk.release(jobs)
        if any("refused" in result for result in results):
            return [f"empty data: {result['why']}" for result in results if "refused" in result]
        shown = [_shown(desk.folder / job.output) for job in jobs]
    return [
        f"a release of {name} differs from one of empty data in {what}"
        for name, one in zip(RECORDS, shown, strict=True)
        for what in one
        if one[what] != shown[0][what]
    ]


def _shown(folder: Path) -> dict[str, object]:
    """Everything of a release that should be the same: bytes of the table, times, sizes, the certificate's numbers."""
    certificate = json.loads((folder / "certificate.json").read_text())
    return {
        "the table's bytes": (folder / "data.parquet").read_bytes(),
        "the names of files": sorted(path.name for path in folder.iterdir()),
        "the times of files": sorted(path.stat().st_mtime for path in folder.iterdir()),
        "the numbers published": certificate["published"],
        "the map": certificate["map"],
    }
