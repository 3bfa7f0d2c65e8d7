"""The reference that `make docs` writes has every public name, and asks nothing of the network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from crowdblend.deploy import api


@pytest.mark.slow
def test_the_reference_has_every_public_name(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pdoc", "--docformat", "google", "--output-directory", str(tmp_path)]
    run = subprocess.run([*words, "crowdblend.deploy.api"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "crowdblend" / "deploy" / "api.html").read_text(encoding="utf-8")
    missing = [name for name in (*api.__all__, "no_such_name") if f'id="{name}"' not in page]
    assert missing == ["no_such_name"]
    assert not re.findall(r"(?:src|href)=\"https?://[^\"]+\.(?:js|css)", page)
