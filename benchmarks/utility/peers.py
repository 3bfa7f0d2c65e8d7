"""Synthesizers of other houses, in a process and an environment of their own: they need not be installed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from threading import Timer

import numpy as np
from numpy.typing import NDArray

from .deletion import DELTA

__all__ = ["INDEPENDENT", "ROUNDED", "Answer", "Asked", "answers", "peer_name", "peers_environment"]

PINS = Path(__file__).with_name("peers.txt")
ROUNDED, INDEPENDENT = "round", "sample"
SINGLE_THREADED = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


def peer_name(algorithm: str, method: str) -> str:
    """A synthesizer's name on a page: as it is used where nothing is said, or with records drawn independently."""
    return algorithm if method == ROUNDED else f"{algorithm}, drawn independently"


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is asked of a synthesizer.

    Args:
        algorithm: as `mbi_peer.py` names it.
        epsilon: at `deletion.DELTA`.
        draws: models.
        minutes: for all of them; then it is stopped.
    """

    algorithm: str
    epsilon: Decimal
    draws: int
    minutes: float


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Answer:
    """Synthetic records.

    Args:
        method: how they were drawn from the model, ROUNDED or INDEPENDENT.
        codes: of distinct records, shape (columns, records); -1 is a value that nobody declared.
        numbers: how often each of them is there, shape (records,).
        spent: seconds and mebibytes.
    """

    method: str
    codes: NDArray[np.int64]
    numbers: NDArray[np.float64]
    spent: dict[str, float]


def answers(asked: Asked, records: NDArray[np.int64], sizes: Sequence[int], *, python: Path) -> Iterator[Answer]:
    """Synthetic records, draw after draw; as many as are made in time.

    Args:
        asked: which.
        records: their codes, shape (columns, records).
        sizes: of the columns' domains.
        python: of the synthesizers' environment.

    Raises:
        RuntimeError: the synthesizer failed, or its environment lacks something.
    """
    with tempfile.TemporaryDirectory(prefix="synthesized-") as folder:
        np.save(Path(folder) / "codes.npy", records)
        program = [str(python), str(Path(__file__).with_name("mbi_peer.py")), str(Path(folder) / "codes.npy")]
        price = ["--epsilon", str(asked.epsilon), "--delta", str(DELTA)]
        with subprocess.Popen(
            [
                *program,
                "--sizes",
                *map(str, sizes),
                *price,
                "--algorithms",
                asked.algorithm,
                "--draws",
                str(asked.draws),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | SINGLE_THREADED,
        ) as running:
            late = Timer(asked.minutes * 60.0, running.kill)
            late.start()
            try:
                for told in running.stdout or ():
                    yield _answer(json.loads(told))
                complaint = running.stderr.read() if running.stderr else ""
                if running.wait() and late.is_alive():
                    raise RuntimeError(f"{asked.algorithm}: {complaint[-2000:]}")
            finally:
                late.cancel()
                running.kill()


def _answer(told: dict[str, object]) -> Answer:
    if "missing" in told:
        raise RuntimeError(f"the synthesizers' environment lacks something: {told['missing']}")
    return Answer(
        method=str(told["method"]),
        codes=np.array(told["codes"], dtype=np.int64),
        numbers=np.array(told["numbers"], dtype=float),
        spent={name: float(str(told[name])) for name in ("seconds", "mebibytes")},
    )


def peers_environment(folder: Path, *, pins: Path = PINS) -> Path:
    """The Python of an environment with what is pinned, the synthesizers for example; made where there is none.

    Raises:
        subprocess.CalledProcessError: it could not be made.
    """
    home = folder / pins.stem
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists() or ready.read_text(encoding="utf-8") != pins.read_text(encoding="utf-8"):
        print(f"== the environment of {pins.name} in {home}, once", flush=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--requirement", pins], check=True)
        ready.write_text(pins.read_text(encoding="utf-8"), encoding="utf-8")
    return python
