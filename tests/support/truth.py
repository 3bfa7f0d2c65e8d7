"""What a command says of a release that was broken off, held against the ledger and the output's place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

IN_VIEW = re.compile(r"[Ii]s in view|is published")
NOTHING_IN_VIEW = re.compile(
    r"[Nn]othing (is in view|was published|was charged, read or published|was read or published)"
)
NOT_KNOWN = re.compile(r"isn't known|the ledger can't be read")


@dataclass(frozen=True)
class Facts:
    """What is so, whoever tells it.

    Args:
        stage: how far the ledger has the release; None where it has none of this id.
        in_view: whether the whole output is in its place.
        stage_before: the stage before the command.
    """

    stage: str | None
    in_view: bool
    stage_before: str | None = None


def untruths(code: int, words: str, facts: Facts) -> Iterator[str]:
    """Sentences about what an exit code and a message say that isn't so; none where all of it is true."""
    if code not in (0, 1, 2, 3):
        yield f"the exit code {code}"
    if "Traceback" in words and "Exception ignored" not in words:  # as a library's own finalizer prints it
        yield "a traceback"
    if code == 0:
        if facts.stage != "published":
            yield f"exit 0 at the stage {facts.stage}"
        return
    charged_now = facts.stage is not None and facts.stage_before is None
    progressed = facts.stage != facts.stage_before
    if code in (2, 3) and (charged_now or (progressed and facts.stage != "abandoned")):
        yield f"exit {code}, and the ledger went from {facts.stage_before} to {facts.stage}"
    if (
        facts.stage is not None
        and re.search(r"[Nn]othing was (charged|read, written or charged)", words)
        and charged_now
    ):
        yield "'nothing was charged' of a release that is charged"
    if (
        facts.stage in ("reading", "published")
        and progressed
        and re.search(r"nothing was read|Nothing was read", words)
    ):
        yield "'nothing was read' of a release whose reading is recorded"
    if re.search(r"is reserved and nothing was read", words) and facts.stage not in ("charged", None):
        yield f"'is reserved' at the stage {facts.stage}"
    if re.search(r"is spent, since reading had begun", words) and facts.stage not in ("reading", "published"):
        yield f"'reading had begun' at the stage {facts.stage}"
    if NOTHING_IN_VIEW.search(words) and facts.in_view and facts.stage_before != "published":
        yield "'nothing is in view' of an output that is in view"
    if IN_VIEW.search(words) and not facts.in_view and not NOTHING_IN_VIEW.search(words):
        yield "'in view' of an output that isn't"
    if (
        code == 1
        and facts.stage is not None
        and not NOT_KNOWN.search(words)
        and not re.search(r"reserved|spent|given back|stays charged|is published", words)
    ):
        yield "not a word about what it cost"
