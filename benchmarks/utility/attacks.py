"""Attacks on releases, ours and others', at equal (ε, δ): figures that are no substitute for the price.

    make utility                                   # this after the comparison; writes docs/attacks.md
    python -m benchmarks.utility.attacks --quick   # few draws, no environment of its own, no page

The bundled records of the Census 2000, without some people who are held out as control. What each attack is,
`attackers.py` says. `anonymeter` and the synthesizers run in environments that are made in the folder of --work
with the versions of `attackers.txt` and `peers.txt`, or in those that are named. Every cell is a line of
`attacks.jsonl` there as soon as it is made, and what is there is not made again. Ours are seeded, so that their figures
come out again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path

import numpy as np
from crowdblend.accounting.charts import Axis
from rich.progress import Progress

from audit.statistics.draws import shown_progress

from ..generated_pages import write_between
from .attackers import FALSE_ALARMS, KNOWN, NOTHING_DONE, OnPeople, attack_known, gain
from .compare import Cell, Results, picture, synthesized, ticked
from .deletion import DELTA
from .measures import Truth
from .peers import peers_environment
from .tables import USUAL_LEVEL, Table, census
from .ways import WAYS, Released

__all__ = ["main"]

BY = "benchmarks/utility/attacks.py"
PROJECT = Path(__file__).resolve().parents[2]
PICTURE = PROJECT / "docs" / "benchmarks" / "attacks.svg"
PINS = Path(__file__).with_name("attackers.txt")
EPSILONS = tuple(map(Decimal, ("0.5", "1", "2")))
SHOWN = Decimal(1)
CONTROLS, MEMBERS, DRAWS, SLOW_DRAWS, ATTACKS = 2_000, 8_000, 5, 2, 500
MST, INDEPENDENT = "MST", "MST, drawn independently"
SUBSAMPLED = "subsample of 10%, no guarantee"
FREE = (NOTHING_DONE, SUBSAMPLED)
"""Ways that have no price: they are the same at every ε."""
SECRET, ORDERED = "weekly_income", ("exper", "weekly_income")


@dataclass(frozen=True, kw_only=True)
class People:
    """Whose records are released, and who is held out.

    Args:
        table: their columns.
        quick: few people.
    """

    table: Table
    quick: bool = False

    @cached_property
    def _order(self) -> np.ndarray:
        return np.random.default_rng(1).permutation(self.table.records.shape[1])

    @property
    def controls(self) -> np.ndarray:
        """Held out."""
        return self.table.records[:, self._order[:CONTROLS]]

    @property
    def records(self) -> np.ndarray:
        """Released."""
        return self.table.records[:, self._order[CONTROLS : 6_000 if self.quick else None]]

    @property
    def truth(self) -> Truth:
        """The released records."""
        return Truth(table=self.table, records=self.records)

    @cached_property
    def attackers(self) -> OnPeople:
        """On people in the table and on those who are held out."""
        secret = self.table.names.index(SECRET)
        return OnPeople(
            table=self.table,
            records=self.records,
            members=self.records[:, :MEMBERS],
            controls=self.controls,
            secret=secret,
        )

    def cell(self, way: str, epsilon: Decimal, *, known: bool = False) -> Cell:
        """In the raw results."""
        name = f"{self.table.name}, one known" if known else self.table.name
        return Cell(table=name, number=self.records.shape[1], epsilon=epsilon, way=way)


def as_records(released: Released, coins: np.random.Generator) -> np.ndarray:
    """A release as records of values, shuffled; where a label is known, one of its values by its share.

    Returns:
        Shape (columns, rows).
    """
    rows = np.repeat(np.arange(released.rows.size), np.maximum(np.rint(released.rows), 0).astype(np.int64))
    coins.shuffle(rows)
    return np.array(
        [
            (np.cumsum(shares, axis=1)[rows] < coins.random(rows.size)[:, None])
            .sum(axis=1)
            .clip(0, shares.shape[1] - 1)
            for shares in released.shares
        ],
        dtype=np.int64,
    )


@dataclass(kw_only=True)
class Anonymeter:
    """A process with anonymeter, which attacks one release after the other.

    Args:
        process: it.
        folder: where releases are laid down for it.
    """

    process: subprocess.Popen[str]
    folder: Path
    _asked: int = field(default=0)

    def attack(self, records: np.ndarray) -> dict[str, float]:
        """What it says of a release.

        Raises:
            RuntimeError: it failed, or its environment lacks something.
        """
        self._asked += 1
        file = self.folder / f"release-{self._asked}.npy"
        np.save(file, records)
        asked, told = self.process.stdin, self.process.stdout
        if asked is None or told is None:
            raise RuntimeError("anonymeter's process has no pipes")
        with contextlib.suppress(BrokenPipeError):  # it says why on its output
            asked.write(f"{file}\n")
            asked.flush()
        line = told.readline()
        found: dict[str, float] = json.loads(line) if line else {"missing": math.nan}
        if "missing" in found:
            raise RuntimeError(f"anonymeter gave no figures: {found['missing']}")
        return {f"anonymeter, {name}": value for name, value in found.items()}


@contextlib.contextmanager
def anonymeter(people: People, python: Path | None) -> Iterator[Anonymeter | None]:
    """A process with anonymeter; None without a Python for it."""
    if python is None:
        yield None
        return
    table = people.table
    secret = table.names.index(SECRET)
    with tempfile.TemporaryDirectory(prefix="attacked-") as name:
        folder = Path(name)
        np.save(folder / "original.npy", people.records)
        np.save(folder / "control.npy", people.controls)
        program = [str(python), str(Path(__file__).with_name("anonymeter_peer.py"))]
        files, guessed = [str(folder / "original.npy"), str(folder / "control.npy")], ["--secret", str(secret)]
        ordered = [str(table.names.index(one)) for one in ORDERED]
        labels = map(str, table.label_codes(USUAL_LEVEL)[secret].tolist())
        with subprocess.Popen(
            [*program, *files, "--ordered", *ordered, *guessed, "--labels", *labels, "--attacks", str(ATTACKS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield Anonymeter(process=process, folder=folder)
            finally:
                process.kill()


def run(
    people: People,
    results: Results,
    *,
    pythons: tuple[Path | None, Path | None],
    draws: int,
    minutes: float,
    progress: Progress,
) -> None:
    """Make what is missing.

    Args:
        people: who is attacked.
        results: where figures go.
        pythons: of the synthesizers' environment and of anonymeter's; None leaves them out.
        draws: releases of each way and price.
        minutes: that the synthesizer may take.
        progress: told of every cell.
    """
    cells = [(way, epsilon) for way in KNOWN for epsilon in ([SHOWN] if way in FREE else EPSILONS)]
    bar = progress.add_task("attacks", total=len(cells) + 1)
    with anonymeter(people, pythons[1]) as other:
        for way, epsilon in cells:
            cell = people.cell(way, epsilon, known=True)
            progress.update(bar, description=cell.name)
            if not results.of(cell):
                coins = np.random.default_rng(zlib.crc32(cell.name.encode()))
                results.add(cell, attack_known(people.table, people.records, epsilon, way, coins, quick=people.quick))
            cell = people.cell(way, epsilon)
            for draw in range(len(results.of(cell)), 1 if way == NOTHING_DONE else draws):
                coins = np.random.default_rng([zlib.crc32(cell.name.encode()), draw])
                if way == NOTHING_DONE:
                    released = people.truth.whole
                else:
                    released = WAYS[way](people.table, people.records, epsilon, coins)
                figures = people.attackers.measured(released)
                if other is not None and epsilon == SHOWN and draw < SLOW_DRAWS:
                    figures |= other.attack(as_records(released, coins))
                results.add(cell, figures)
            progress.advance(bar)
        cell = people.cell(INDEPENDENT, SHOWN)
        missing = SLOW_DRAWS - len(results.of(cell))
        if pythons[0] is not None and missing > 0:
            progress.update(bar, description=cell.name)
            asked = people.cell(MST, SHOWN)
            for method, released, _ in synthesized(
                asked, people.truth, python=pythons[0], draws=missing, minutes=minutes
            ):
                if method == "sample":
                    figures = people.attackers.measured(released)
                    coins = np.random.default_rng(len(results.of(cell)))
                    results.add(cell, figures | (other.attack(as_records(released, coins)) if other else {}))
        progress.advance(bar)


WAYS_SHOWN = (*KNOWN, INDEPENDENT)
ON_PEOPLE = (
    ("groups of one", "groups of one", ".1%"),
    ("presence: auc", "presence: area", ".3f"),
    ("presence: power", "hits at 1%", ".1%"),
    ("inference: in", "income guessed, in", ".1%"),
    ("inference: control", "… control", ".1%"),
)
BY_ANONYMETER = (
    ("inference", "inference"),
    ("singling out, univariate", "singling out, one column"),
    ("singling out, multivariate", "… three columns"),
)


@dataclass(frozen=True, kw_only=True)
class AttackPage:
    """The tables and the picture of the results.

    Args:
        people: who was attacked.
        results: what was found.
    """

    people: People
    results: Results

    def lines(self) -> list[str]:
        """The page's lines between its marks."""
        number, controls = self.people.records.shape[1], CONTROLS
        limit = math.exp(float(SHOWN)) * FALSE_ALARMS + float(DELTA)
        found = [
            f"**One known person**, {number:,} records. With (1, 1e-6) no attack has more than {limit:.1%} hits at "
            f"{FALSE_ALARMS:.0%} false alarms.",
            "",
            f"| | {' | '.join(f'ε at least, of {one}' for one in EPSILONS)} | area, ε = 1 | hits at 1% | median group: "
            "ε at least, of 1 | area |",
            "|---|" + "---|" * (len(EPSILONS) + 4),
        ]
        for way in KNOWN:
            told = [self._known(way, one, "bound", ".2f") for one in EPSILONS]
            told += [self._known(way, SHOWN, key, form) for key, form in (("auc", ".3f"), ("power", ".1%"))]
            told += [
                self._known(way, SHOWN, f"{key}, median", form) for key, form in (("bound", ".2f"), ("auc", ".3f"))
            ]
            found.append(f"| {way} | {' | '.join(told)} |")
        found += ["", "![The ε that attacks prove, against the price](benchmarks/attacks.svg)", ""]
        found += [
            f"**People in the table and not in it**, ε = {SHOWN}, {number:,} records and {controls:,} control people, "
            "medians over the draws:",
            "",
            f"| | {' | '.join(name for _, name, _ in ON_PEOPLE)} | guessed more often, in |",
            "|---|" + "---|" * (len(ON_PEOPLE) + 1),
        ]
        found += [f"| {way} | {' | '.join(self._people(way))} |" for way in WAYS_SHOWN if self._draws(way)]
        found += [
            "",
            f"**By anonymeter**, ε = {SHOWN}, {ATTACKS} guesses a draw: its *risk*, the success beyond that with "
            "control people, and its 95% interval:",
            "",
            f"| | {' | '.join(name for _, name in BY_ANONYMETER)} |",
            "|---|" + "---|" * len(BY_ANONYMETER),
        ]
        found += [f"| {way} | {' | '.join(self._anonymeter(way))} |" for way in WAYS_SHOWN if self._draws(way)]
        return found

    def _draws(self, way: str) -> list[dict[str, float]]:
        return self.results.of(self.people.cell(way, SHOWN))

    def _known(self, way: str, epsilon: Decimal, key: str, form: str) -> str:
        value = self.known(way, epsilon, key)
        return "–" if value is None else format(value, form)

    def known(self, way: str, epsilon: Decimal, key: str) -> float | None:
        """Of the attack on one known person; None where it wasn't made."""
        made = self.results.of(self.people.cell(way, SHOWN if way in FREE else epsilon, known=True))
        return made[0][key] if made else None

    def _people(self, way: str) -> list[str]:
        draws = self._draws(way)
        medians = {key: float(np.median([one[key] for one in draws])) for key, _, _ in ON_PEOPLE}
        people = self.people.attackers.members.shape[1]
        more = gain(medians["inference: in"], people, medians["inference: control"], CONTROLS)
        told = [format(medians[key], form) for key, _, form in ON_PEOPLE]
        return [*told, "{:+.1%} ({:+.1%} to {:+.1%})".format(*more)]

    def _anonymeter(self, way: str) -> list[str]:
        told = []
        for key, _ in BY_ANONYMETER:
            parts = [f"anonymeter, {key}: {part}" for part in ("risk", "low", "high")]
            made = [one for one in self._draws(way) if parts[0] in one]
            shown = [float(np.median([one[part] for one in made])) for part in parts] if made else []
            told.append("{:.1%} ({:.1%}–{:.1%})".format(*shown) if shown else "–")
        return told

    def picture(self, file: Path) -> None:
        """Draw what the attack on one known person proves against the price."""
        stated = "price"
        bounds = {
            way: [
                (math.log10(one), math.log10(max(value, LEAST)))
                for one in EPSILONS
                if (value := self.known(way, one, "bound")) is not None
            ]
            for way in KNOWN
            if way in STYLES
        }
        ticks = {math.log10(one): str(one) for one in (0.2, 0.5, 1, 2, 5, 10)}
        picture(
            file,
            {stated: [(math.log10(one), math.log10(one)) for one in EPSILONS], **bounds},
            x=ticked("ε of the price, δ = 1e-6", {math.log10(one): str(one) for one in EPSILONS}),
            y=Axis(
                low=math.log10(LEAST),
                high=1.05,
                start=274,
                end=40,
                logarithmic=False,
                ticks=tuple(ticks.items()),
                name="ε at least",
            ),
            title="the ε that an attack on one known person proves",
            styles=STYLES,
        )


LEAST = 0.2
STYLES = {
    "price": ("#bbb", "2 3"),
    SUBSAMPLED: ("#777", "7 4"),
    "deletion, calibrated": ("#D55E00", ""),
    "deletion": ("#D55E00", "7 4"),
    "sampled": ("#0072B2", ""),
    "noisy histogram": ("#009E73", ""),
}
"""Way → colour and dashes."""


def main(argv: Sequence[str] | None = None) -> None:
    """Make what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "crowdblend-utility")
    parser.add_argument("--quick", action="store_true", help="one draw of few records, no page, no other environment")
    parser.add_argument("--peers", type=Path, help="a Python that has what peers.txt names")
    parser.add_argument("--anonymeter", type=Path, help="a Python that has what attackers.txt names")
    parser.add_argument("--no-peers", action="store_true", help="without synthesizers")
    parser.add_argument("--minutes", type=float, default=10.0, help="for the synthesizer")
    parser.add_argument("--no-run", action="store_true", help="write the page of what is there")
    parser.add_argument("--write", type=Path, help="the page, docs/attacks.md")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    asked = parser.parse_args(argv)
    people = People(table=census(), quick=asked.quick)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary) if asked.quick else asked.work
        work.mkdir(parents=True, exist_ok=True)
        results = Results(file=work / "attacks.jsonl")
        if not asked.no_run:
            pythons: tuple[Path | None, Path | None] = (None, None)
            if not asked.quick:
                synthesizers = None if asked.no_peers else asked.peers or peers_environment(work)
                pythons = synthesizers, asked.anonymeter or peers_environment(work, pins=PINS)
            with shown_progress() as progress:
                run(
                    people,
                    results,
                    pythons=pythons,
                    draws=1 if asked.quick else DRAWS,
                    minutes=asked.minutes,
                    progress=progress,
                )
        told = AttackPage(people=people, results=results)
        print("\n".join(told.lines()))
    if asked.write is not None:
        write_between(asked.write, told.lines(), by=BY)
        told.picture(asked.picture)


if __name__ == "__main__":
    main()
