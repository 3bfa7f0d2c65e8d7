"""A release as asked for: every parameter checked, every public thing resolved, no record seen."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..accounting.theory.price import Price, mechanism_record
from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.strongly_safe import StronglySafeRelease

__all__ = ["MicrodataRequest"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MicrodataRequest:
    """One microdata release, from the specification alone.

    Args:
        label: the release's name for people; not its id.
        form: "microdata" repeats each published row, "counts" gives one row a group with its count.
        file_format: "parquet" or "csv", of the published table.
        output: folder that will hold the published table and its certificate.
        dataset: the name under which the ledger keeps this population's budget.
        source: file, folder, glob or URL of the records, as written in the specification.
        base: folder that relative paths of the specification start from.
        separator: field separator of CSV records, one character.
        null_values: texts that mean "missing" and are published as "*".
        mechanism: what is run, fully enough to be priced.
        price: what the release is charged.
        paper_price: the price by the paper's bound, None where the bound gives no guarantee.
        map: the generalization map, fixed before the records are read.
    """

    label: str
    form: Literal["microdata", "counts"]
    file_format: Literal["parquet", "csv"]
    output: Path
    dataset: str
    source: str
    base: Path
    separator: str
    null_values: tuple[str, ...]
    mechanism: StronglySafeRelease
    price: Price
    paper_price: Price | None
    map: GeneralizationMap

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all that decides what is released; the output's place is not part of it."""
        canonical = {
            "label": self.label,
            "form": self.form,
            "format": self.file_format,
            "dataset": self.dataset,
            "source": self.source,
            "base": str(self.base),
            "separator": self.separator,
            "null": list(self.null_values),
            "mechanism": mechanism_record(self.mechanism),
            "delta": str(self.price.delta),
            "map": self.map.digest(),
        }
        text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(b"crowdblend specification 1\n" + text.encode("ascii")).hexdigest()
