"""On the path of a release of `serve`: its process is interrupted at one of its steps, as TEST_INTERRUPTION says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

if sys.orig_argv[1:3] == ["-m", "crowdblend.deploy.serving.served_release"]:
    sys.path.append(str(Path(__file__).parents[2]))
    from support.interruptions import watch_steps

    watch_steps(json.loads(os.environ.pop("TEST_INTERRUPTION")))
