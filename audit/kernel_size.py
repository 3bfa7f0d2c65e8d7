"""Run as `python -m audit.kernel_size`: files and lines of the kernel by folder, and of each kind."""

from __future__ import annotations

from pathlib import Path

from crowdblend.accounting.kernel.prices.registry import MECHANISM_KINDS, load_kind

__all__ = ["FOLDERS", "kernel_files", "kinds", "lines_of", "main", "shared_files"]

PROJECT = Path(__file__).resolve().parents[1]
FOLDERS = ("mechanisms/kernel", "accounting/kernel", "tasks/kernel")
"""The kernel, without its kinds."""
KINDS_FOLDERS = ("mechanisms/kinds", "accounting/kinds")


def kernel_files(folder: str) -> list[Path]:
    """Return the files of a folder that have more than a sentence in them."""
    return sorted(path for path in (PROJECT / folder).rglob("*.py") if path.name != "__init__.py")


def lines_of(paths: list[Path]) -> int:
    """Return how many lines some files have together."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def kinds() -> dict[str, list[Path]]:
    """Return the files of each kind of mechanism: its protection, where it has one, and its price."""
    files = {}
    for name, registered in MECHANISM_KINDS.items():
        protections = (protection.__module__ for protection in load_kind(name).protections)
        modules = dict.fromkeys((*protections, registered.price_module))
        files[name] = [PROJECT / f"{module.partition('.')[2].replace('.', '/')}.py" for module in modules]
    return files


def shared_files() -> list[Path]:
    """Return the files beside the kinds that prices and protections of several share."""
    own = {path for files in kinds().values() for path in files}
    return [path for folder in KINDS_FOLDERS for path in kernel_files(folder) if path not in own]


def main() -> None:
    """Print them."""
    whole = [path for folder in FOLDERS for path in kernel_files(folder)]
    rows = [(folder, kernel_files(folder)) for folder in FOLDERS]
    for name, files in [*rows, ("the kernel", whole), *kinds().items(), ("shared by kinds", shared_files())]:
        print(f"{name:<24}{len(files):>4} files {lines_of(files):>7,} lines")


if __name__ == "__main__":
    main()
