"""What decides which coin a record has: the layout of the coins, and how records are numbered within a chunk."""

from __future__ import annotations

from ..mechanisms.sampling import LAYOUT

__all__ = ["SAMPLER_LAYOUT"]

# INVARIANT: whatever changes the numbers of a chunk's records needs a new number here. Version 1 took every line of a
# CSV file for a record, whatever quotes said, and passed over the empty lines of a file with one column.
_CSV_RECORDS = "csv-records/2"

SAMPLER_LAYOUT = f"{LAYOUT} {_CSV_RECORDS}"
"""Version that the ledger, certificates and workers name; a release that was begun with another is never taken up."""
