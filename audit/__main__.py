"""Run as `python -m audit run`, then `python -m audit report`."""

from .command import main

if __name__ == "__main__":
    main()
