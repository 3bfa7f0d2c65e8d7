"""The adversary's bench: `python tests/audit run`, then `python tests/audit report`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # so that the folder is the package `audit`
    from audit.command import main

    main()
