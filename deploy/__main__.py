"""`python -m crowdblend.deploy`: the command line without its script."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
