"""The demonstration runs the main job on real records and leaves the user's own things alone."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq

BARE_PATH = "/usr/bin:/bin"


def test_the_demonstration_publishes_and_explains(desk, monkeypatch) -> None:
    monkeypatch.setenv("PATH", BARE_PATH)
    answer = desk.succeed("demo", "--output", "shown")
    release = desk.folder / "shown" / "release"
    table = pq.read_table(release / "data.parquet")
    assert table.num_rows > 500
    assert table.column_names == ["state", "educ", "weekly_income", "exper"]
    for text in ("29,501", "ε = ", "certificate.json", "ledger verify", str(release)):
        assert text in answer.out
    places = str(desk.folder), sys.prefix  # may be long
    lines = [line for line in answer.out.splitlines() if not any(place in line for place in places)]
    assert len(lines) <= 40
    assert max(len(line) for line in lines) <= 80
    assert lines[0].startswith("Published ")
    # Beside it the deletion release: real, at the same price, of the same records, in two lines.
    deleted = desk.folder / "shown" / "deletion"
    kept = pq.read_table(deleted / "data.parquet")
    assert kept.num_rows > 4 * table.num_rows
    shown = [number for number, line in enumerate(answer.out.splitlines()) if "deletion release published" in line]
    assert f"published {kept.num_rows:,} rows in " in answer.out.splitlines()[shown[0]]
    assert "docs/choosing.md" in answer.out.splitlines()[shown[0] + 1]
    prices = [
        Decimal(json.loads((place / "certificate.json").read_text())["guarantee"]["epsilon"])
        for place in (release, deleted)
    ]
    assert 0 <= prices[0] - prices[1] < Decimal("1e-6")
    desk.succeed("verify", deleted / "certificate.json")
    desk.succeed("verify", release / "certificate.json")
    key = desk.folder / "shown" / "public-key.pem"
    desk.succeed("verify", release / "certificate.json", "--public-key", key)
    own = f"sqlite:///{desk.folder / 'shown' / 'ledger.db'}"
    desk.succeed("ledger", "verify", "--ledger", own)
    assert not Path(desk.ledger.removeprefix("sqlite:///")).exists()
    assert not (desk.home / "releases").exists()
    # What it proposes to run next is pasted into a shell that knows nothing of this environment.
    _, _, proposed = answer.out.partition("What to run next:\n")
    pasted, _, _ = proposed.partition("Then copy")
    ended = subprocess.run(
        ["/bin/bash", "-e"], input=pasted, env={"PATH": BARE_PATH}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "The files are those of the certificate." in ended.stdout


def test_it_never_writes_over_anything(desk) -> None:
    (desk.folder / "mine").mkdir()
    assert desk("demo", "--output", "mine").code == 2
    assert not list((desk.folder / "mine").iterdir())
