"""One target fed in a process of its own, by inputs of its shape or guided by coverage; run by `run.py`.

`python -m audit.fuzz.worker TARGET shaped|guided SECONDS SEED FOLDER`: faults lie in FOLDER/faults, one of each
kind, and the number of inputs and the processor's seconds in FOLDER/inputs. The input in work lies in FOLDER/last,
should the process itself die.
"""

from __future__ import annotations

import hashlib
import re
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .targets import Target

__all__ = ["Feeder", "kind_of"]

MEMORY = 8 << 30
LONGEST = 4096


class Feeder:
    """Feeds a target, counts, and keeps one input of each kind of fault.

    Args:
        target: what is fed.
        folder: where it works and what it keeps.
    """

    def __init__(self, target: Target, folder: Path) -> None:
        from .desk import within

        self.within, self.seconds = within, target.seconds
        self.folder = folder
        (folder / "faults").mkdir(parents=True, exist_ok=True)
        self.run = target.prepare(folder / "desk")
        self.fed = 0
        self.told = time.monotonic()
        self.kinds: set[str] = set()

    def __call__(self, content: bytes) -> None:
        """Feed one input; a fault is kept, and the next input can come."""
        (self.folder / "last").write_bytes(content)
        self.fed += 1
        if time.monotonic() > self.told + 1:
            self.told = time.monotonic()
            self.tell()
        try:
            with self.within(self.seconds):
                self.run(content)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is what is looked for
            kind = kind_of(fault)
            if kind not in self.kinds:
                self.kinds.add(kind)
                name = hashlib.sha256(content).hexdigest()[:16]
                (self.folder / "faults" / name).write_bytes(content)
                text = f"{kind}\n\n{''.join(traceback.format_exception(fault))}"
                (self.folder / "faults" / f"{name}.txt").write_text(text, encoding="utf-8")

    def tell(self) -> None:
        """Make known how many inputs there were so far, and the processor's seconds."""
        (self.folder / "inputs").write_text(f"{self.fed} {time.process_time():.0f}", encoding="utf-8")


def kind_of(fault: BaseException) -> str:
    """What is wrong, and where in the product: equal for inputs that show the same fault."""
    frames = traceback.extract_tb(fault.__traceback__)
    own = [frame for frame in frames if "audit/fuzz" not in frame.filename and "site-packages" not in frame.filename]
    place = f" in {own[-1].name}, {'/'.join(Path(own[-1].filename).parts[-2:])}:{own[-1].lineno}" if own else ""
    told = re.sub(r"/tmp/[^ ')]*", "…", str(fault))  # noqa: S108 - a pattern
    return f"{type(fault).__name__}: {told[-160:].strip()}{place}"


def shaped(name: str, seconds: float, seed: int, folder: Path) -> None:
    """Inputs of the target's shape until the time is over; the corpus first."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    from .targets import TARGETS, corpus_of

    target = TARGETS[name]
    feeder = Feeder(target, folder)
    until = time.monotonic() + seconds
    for content in corpus_of(name):
        feeder(content)
    while time.monotonic() < until:

        @seeded(seed)
        @settings(
            max_examples=100,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(target.shaped())
        def feed(content: bytes) -> None:
            if time.monotonic() < until:
                feeder(content)

        feed()
        seed += 1
    feeder.tell()


def guided(name: str, seconds: float, seed: int, folder: Path) -> None:
    """Inputs that reach something new are kept and changed again, by libFuzzer; needs atheris."""
    import atheris

    with atheris.instrument_imports(include=["crowdblend"]):
        from .targets import CORPUS, TARGETS

    target = TARGETS[name]
    feeder = Feeder(target, folder)
    found, words = folder / "corpus", folder / "words"
    found.mkdir(exist_ok=True)
    told = ["".join(f"\\x{octet:02x}" for octet in word.encode()) for word in target.words]
    words.write_text("".join(f'"{word}"\n' for word in told), encoding="ascii")
    options = [
        f"-max_total_time={int(seconds)}",
        f"-seed={seed}",
        f"-timeout={4 * target.seconds}",
        "-rss_limit_mb=6000",
    ]
    options += [f"-artifact_prefix={folder}/", f"-max_len={LONGEST}", "-print_final_stats=1"]
    options += [f"-dict={words}"] if target.words else []  # libFuzzer refuses an empty one
    known = [str(CORPUS / name)] if (CORPUS / name).exists() else []
    atheris.Setup([sys.argv[0], *options, str(found), *known], feeder)
    atheris.Fuzz()


def main() -> None:
    """The program."""
    _, name, how, seconds, seed, folder = sys.argv
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    from .desk import no_network

    no_network()
    {"shaped": shaped, "guided": guided}[how](name, float(seconds), int(seed), place)


if __name__ == "__main__":
    main()
