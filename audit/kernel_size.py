"""Run as `python -m audit.kernel_size`: files and lines of the kernel by folder, and of each kind."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FOLDERS", "kernel_files", "kind_lines", "lines_of", "main"]

PROJECT = Path(__file__).resolve().parents[1]
FOLDERS = ("mechanisms/kernel", "accounting/kernel", "tasks/kernel")
"""The kernel, without its kinds."""
PARTS = ("mechanisms/kinds", "accounting/kinds")


def kernel_files(folder: str) -> list[Path]:
    """Return the files of a folder of the kernel that have more than a sentence in them."""
    return sorted(path for path in (PROJECT / folder).rglob("*.py") if path.name != "__init__.py")


def lines_of(paths: list[Path]) -> int:
    """Return how many lines some files have together."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def kind_lines() -> dict[str, int]:
    """Return the lines of each module of kinds, of protections and of prices."""
    return {f"{part}/{path.name}": lines_of([path]) for part in PARTS for path in kernel_files(part)}


def main() -> None:
    """Print them."""
    whole: list[Path] = []
    for folder in FOLDERS:
        files = kernel_files(folder)
        whole += files
        print(f"{folder:<40}{len(files):>4} files {lines_of(files):>7,} lines")
    print(f"{'the kernel':<40}{len(whole):>4} files {lines_of(whole):>7,} lines")
    for name, lines in kind_lines().items():
        print(f"{name:<50} {lines:>7,} lines")


if __name__ == "__main__":
    main()
