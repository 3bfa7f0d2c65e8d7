"""What each version keeps for those after it: a ledger, its private store, and releases, written by its commands.

As a program, run before a version is tagged: `python tests/support/kept_versions.py`. It writes
`tests/vectors/versions/VERSION.tar.xz`, and refuses to write over what is kept. Its keys are test keys: everybody has
them, and nothing that they sign says anything.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

KEPT = Path(__file__).parents[1] / "vectors" / "versions"
SPEC = """[release]
name = "{kind}"
output = "{kind}"

[data]
dataset = "people"
source = "people.csv"

{tables}
[columns.colour]
values = ["blue", "green", "red"]
{level}

[columns.age]
interval = {{ lower = 0, upper = 100, widths = [10, 50] }}
{level}
"""
SAMPLED = "[privacy]\ndelta = 1e-6\n\n[sampling]\nrate = 0.1\n\n"
TABLES = {
    "microdata": SAMPLED + "[suppression]\nk = 20\n",
    "noisy": SAMPLED + '[histogram]\nkind = "noisy"\nk = 20\nepsilon = 0.5\n',
    "deletion": "[deletion]\n\n[privacy]\nepsilon = 1\ndelta = 1e-6\n",
    "answer": '[answer]\nkind = "count"\nby = ["colour", "age"]\nepsilon = 0.5\n',
}
"""Kind of release → its own tables."""


def specification(kind: str) -> str:
    """Return the specification of a release."""
    return SPEC.format(kind=kind, tables=TABLES[kind], level="levels = [0, 0]" if kind == "deletion" else "level = 0")


def kept_file(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return what is kept of a file: nothing of SQLite's own beside the ledger, and no empty database of Prefect's."""
    return None if member.name.startswith("./home/cache") or member.name.endswith(("-shm", "-wal")) else member


def run(folder: Path, *words: str) -> None:
    """Run a command with the ledger and the private store of a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CROWDBLEND_", "PREFECT_"))}
    own = {"CROWDBLEND_LEDGER": f"sqlite:///{folder / 'ledger.db'}", "CROWDBLEND_HOME": str(folder / "home")}
    subprocess.run([Path(sys.executable).with_name("crowdblend"), *words], cwd=folder, env=kept | own, check=True)


def unpack(archive: Path, folder: Path) -> None:
    """Put what a version keeps into a folder: `ledger.db`, `home`, specifications, records and releases."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="tar")  # modes too: a private store that others can read is refused


def main() -> None:
    """Write what this version keeps."""
    archive = KEPT / f"{version('crowdblend')}.tar.xz"
    if archive.exists():
        sys.exit(f"{archive} is there already; nothing was written.")
    with tempfile.TemporaryDirectory(prefix="crowdblend-kept-") as place:
        folder = Path(place)
        lines = [f"{('blue', 'green', 'red')[number % 3]},{20 + 10 * (number % 2)}\n" for number in range(3000)]
        (folder / "people.csv").write_text("colour,age\n" + "".join(lines), encoding="utf-8")
        run(folder, "dataset", "add", "people", "--epsilon", "10", "--delta", "1e-3")
        for kind in TABLES:
            (folder / f"{kind}.toml").write_text(specification(kind), encoding="utf-8")
            run(folder, "run", f"{kind}.toml")
        run(folder, "key", "export", "publisher.pem")
        run(folder, "ledger", "verify")
        KEPT.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "w:xz") as packed:
            packed.add(folder, arcname=".", filter=kept_file)


if __name__ == "__main__":
    main()
