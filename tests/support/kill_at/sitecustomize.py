"""On the path of a `serve` under test: the process of a release kills its parent and itself in the middle of a step."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys

STEPS = {
    "charge": ("crowdblend.accounting.ledger.writer", "LedgerWriter", "charge"),  # the key is there, the charge isn't
    "charged": ("crowdblend.accounting.ledger.writer", "LedgerWriter", "mark_reading"),
    "select": ("crowdblend.tasks.stages.count", "", "_drawn"),
    "count": ("crowdblend.tasks.stages.count", "", "group_counts"),
    "publish": ("crowdblend.tasks.stages.publish", "", "bring_into_view"),
    "close": ("crowdblend.accounting.ledger.writer", "LedgerWriter", "mark_published"),  # in view, and not closed
}


class Killing:
    """Finds one module and puts the end of the process in the place of one of its functions."""

    def __init__(self, module: str, holder: str, function: str) -> None:
        self.module, self.holder, self.function = module, holder, function

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_patch(module) -> None:
            execute(module)
            setattr(getattr(module, self.holder) if self.holder else module, self.function, killed)

        spec.loader.exec_module = execute_and_patch
        return spec


def killed(*args: object, **named: object) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if sys.orig_argv[1:3] == ["-m", "crowdblend.deploy.serving.served_release"] and "TEST_KILL_AT" in os.environ:
    sys.meta_path.insert(0, Killing(*STEPS[os.environ["TEST_KILL_AT"]]))
