"""How often the intervals of regressions by answered requests hold, and how wide they are beside the sample's error.

    python -m benchmarks.answer_coverage --draws 1000 --write

The people are those of `analysis_coverage`. Each draw is an answer by the product's own protection, with fresh noise.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from secrets import token_bytes
from typing import Any

import numpy as np
from crowdblend.analysis.loaded_answer import LoadedAnswer
from crowdblend.analysis.regressions import Of
from crowdblend.flows.releases.moments_parts import PRODUCT_LABELS, product_facts, product_labels
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy
from crowdblend.mechanisms.kernel.group_counts import count_keys
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE
from crowdblend.mechanisms.kinds.moments import MomentsAnswer, MomentsProtection, columns_text

from .analysis_coverage import People, generated
from .generated_pages import write_between

__all__ = ["Asked", "main"]

BY = "benchmarks/answer_coverage.py"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "asking.md"
FORMULAS = (
    "income ~ age",
    "income ~ age + sex[m]",
    "income ~ C(schooling) + sex[m]",
    "income ~ age + hours + C(schooling) + C(region) + sex[m]",
)


class Asked:
    """A regression that was asked of some people: its columns, and its coefficients without noise.

    Args:
        people: the records.
        formula: of the regression.
        epsilon: of an answer.
    """

    def __init__(self, people: People, formula: str, *, epsilon: Decimal) -> None:
        self.formula = formula
        names = [name for name in people.hierarchies if name in formula]
        columns, texts = [], []
        for name in names:
            declared = people.hierarchies[name]
            if isinstance(declared, IntervalHierarchy):
                number = IntervalHierarchy(lower=declared.lower, upper=declared.upper, widths=())
                columns.append(MappedColumn(name=name, hierarchy=number, level=0))
                texts.append((declared.lower, declared.upper - 1))
            else:
                columns.append(MappedColumn(name=name, hierarchy=declared, level=0))
                texts.append(declared.size(0) - 1)
        self.recoding = GeneralizationMap(columns=tuple(columns))
        mechanism = MomentsAnswer(epsilon=epsilon, relation=ADD_REMOVE, columns=columns_text(texts))
        self.protection = MomentsProtection(mechanism=mechanism, layout=self.recoding.layout)
        codes = dict(zip(people.hierarchies, people.codes, strict=True))
        keys = self.recoding.keys([codes[name] for name in names])
        self.exact = count_keys(keys, cells=self.recoding.cells)

    def drawn(self) -> Any:
        """Return the coefficients by an answer with fresh noise."""
        return self._coefficients(self.protection.protect(self.exact, randomness=token_bytes))

    def true(self) -> Any:
        """Return the coefficients without noise, with their standard errors as a sample of a population."""
        exact = [one for block in self.protection.sums(self.exact) for one in block]
        return self._coefficients(exact, noise=1e-9, of="population")

    def _coefficients(self, sums: list[int], *, noise: float = 1.0, of: Of = "records") -> Any:
        moments = self.protection.mechanism
        errors = [noise * moments.noise(block).variance ** 0.5 for block in moments.blocks for _ in range(block.cells)]
        told = zip(*product_labels(moments, self.recoding), strict=True)
        table = dict(zip(PRODUCT_LABELS, map(list, told), strict=True)) | {"answer": sums, "standard_error": errors}
        published = {"form": "answer", "moments": product_facts(moments, self.recoding)}
        return LoadedAnswer(table, certificate={"published": published}).regression(self.formula, of=of)


def counted(asked: Asked, *, draws: int) -> dict[str, Any]:
    """Return how many intervals there were, which share of them held, and how wide they were."""
    exact = asked.true()
    true, sample = (np.asarray(exact[name], dtype=np.float64) for name in ("estimate", "standard_error"))
    found = defaultdict(list)
    for _ in range(draws):
        frame = asked.drawn()
        lower, upper, error = (
            np.asarray(frame[name], dtype=np.float64) for name in ("lower", "upper", "standard_error")
        )
        there = np.isfinite(lower)
        found["held"] += ((lower <= true) & (true <= upper))[there].tolist()
        found["ratio"] += (error / sample)[there].tolist()
        found["all"].append(there.size)
    number = len(found["held"])
    return {
        "intervals": number,
        "offered": number / sum(found["all"]),
        "held": float(np.mean(found["held"])) if number else float("nan"),
        "ratio": float(np.median(found["ratio"])) if number else float("nan"),
    }


def lines_of(sizes: list[int], *, draws: int, epsilon: Decimal) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| regression | records | sums | intervals offered | that hold | noise beside the sample's error |"
    yield "|---|---|---|---|---|---|"
    for formula in FORMULAS:
        for number in sizes:
            asked = Asked(generated(number), formula, epsilon=epsilon)
            found = counted(asked, draws=draws)
            cells = asked.protection.mechanism.cells
            held, ratio = (f"{found['held']:.1%}", f"{found['ratio']:.2g} times") if found["intervals"] else ("", "")
            yield f"| `{formula}` | {number:,} | {cells} | {found['offered']:.0%} | {held} | {ratio} |"


def main(arguments: list[str] | None = None) -> None:
    """Print the table, or write it into docs/asking.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2_000, 10_000, 50_000])
    parser.add_argument("--epsilon", type=Decimal, default=Decimal(1))
    parser.add_argument("--write", action="store_true", help="into docs/asking.md")
    given = parser.parse_args(arguments)
    lines = []
    for line in lines_of(given.sizes, draws=given.draws, epsilon=given.epsilon):
        print(line, flush=True)
        lines.append(line)
    if given.write:
        write_between(PAGE, lines, by=BY)


if __name__ == "__main__":
    main()
