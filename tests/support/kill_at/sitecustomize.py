"""On the path of a release under test: in the middle of a step it kills its parent and itself, or does harm.

TEST_KILL_AT names the step of a kill; TEST_HARM_AT the one before which the shell command TEST_HARM is run.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from functools import wraps

STEPS = {
    "charge": (
        "crowdblend.accounting.kernel.ledger.writer",
        "ReleaseWriter",
        "charge",
    ),  # the key is there, the charge isn't
    "charged": ("crowdblend.accounting.kernel.ledger.writer", "ReleaseWriter", "mark_reading"),
    "select": ("crowdblend.tasks.stages.count", "", "_drawn"),
    "count": ("crowdblend.tasks.stages.count", "", "block_counts"),
    "publish": ("crowdblend.tasks.kernel.publication", "", "bring_into_view"),
    "closed": ("crowdblend.accounting.kernel.keys.private_store", "ReleaseFolder", "destroy_key"),
    "close": (
        "crowdblend.accounting.kernel.ledger.writer",
        "ReleaseWriter",
        "mark_published",
    ),  # in view, and not closed
}


PROCESSES = ("crowdblend.deploy.serving.served_release", "crowdblend.deploy.commands.jobs")


class Changing:
    """Finds one module and puts something else in the place of one of its functions."""

    def __init__(self, change, module: str, holder: str, function: str) -> None:
        self.change, self.module, self.holder, self.function = change, module, holder, function

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_patch(module) -> None:
            execute(module)
            holder = getattr(module, self.holder) if self.holder else module
            setattr(holder, self.function, self.change(getattr(holder, self.function)))

        spec.loader.exec_module = execute_and_patch
        return spec


def killed(function):
    @wraps(function)
    def kill(*args: object, **named: object) -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    return kill


def harmed(function):
    @wraps(function)
    def harm(*args: object, **named: object):
        subprocess.run(os.environ["TEST_HARM"], shell=True, check=True)  # noqa: S602 - the test's own command
        return function(*args, **named)

    return harm


if sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2] in PROCESSES:
    for variable, change in (("TEST_KILL_AT", killed), ("TEST_HARM_AT", harmed)):
        if variable in os.environ:
            sys.meta_path.insert(0, Changing(change, *STEPS[os.environ[variable]]))
