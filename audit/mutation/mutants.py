"""Mutants of the mechanisms, the theory and the ledger's rules: cosmic-ray's operators, in one lasting order.

Cosmic-ray itself writes each mutant into the working tree and starts a whole test run for it. Here its operators alone
are used: mutants are compiled in memory (`run.py`), so that the tree stays as it is and a mutant takes seconds.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

__all__ = ["DECISIVE", "PROJECT", "SCOPE", "Mutant", "all_mutants", "sampled", "version_of"]

PROJECT = Path(__file__).resolve().parents[2]


def _sources(*places: str) -> tuple[Path, ...]:
    """Every module of some folders, and some modules; from the project's folder."""
    roots = [PROJECT / place for place in places]
    found = [path for root in roots for path in (root.rglob("*.py") if root.is_dir() else (root,))]
    return tuple(sorted(path.relative_to(PROJECT) for path in found))


ACCOUNTING = ("kernel/ledger", "kernel/prices", "kinds", "theory")
SCOPE = _sources("mechanisms", *(f"accounting/{place}" for place in ACCOUNTING))
# Where a change that no test notices would cost privacy at once: coins, threshold, deletion, prices, rules.
DECISIVE = frozenset(
    _sources(
        "mechanisms/kinds/deletion.py",
        "mechanisms/kernel/sampling.py",
        "mechanisms/kinds/microdata.py",
        "accounting/kernel/ledger/entries.py",
        "accounting/kernel/ledger/rules.py",
        "accounting/kernel/ledger/ledger_state.py",
        "accounting/kinds/deletion_prices.py",
        "accounting/kinds/microdata_prices.py",
        "accounting/kernel/prices/registry.py",
        "accounting/kernel/prices/privacy_profile.py",
    )
)
LEFT_OUT = ("core/NoOp",)
ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"})
ON_BITS = frozenset({"LShift", "RShift", "BitOr", "BitAnd", "BitXor"})


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one file.

    Args:
        path: the file, from the project's folder.
        operator: cosmic-ray's name of the change.
        occurrence: which of the places where the operator fits, from 0.
        line: where it begins.
        column: the same.
    """

    path: Path
    operator: str
    occurrence: int
    line: int
    column: int

    @property
    def name(self) -> str:
        """Unique among the mutants of one version of the sources."""
        return f"{self.path}:{self.line} {self.operator} {self.occurrence}"

    @property
    def module(self) -> str:
        """The module's name for imports."""
        return ".".join(("crowdblend", *self.path.with_suffix("").parts))

    def source(self) -> str | None:
        """The changed source; None where nothing that runs is changed, as in an annotation."""
        before = (PROJECT / self.path).read_text(encoding="utf-8")
        after = mutate_code(before, get_operator(self.operator)(), self.occurrence)
        return None if after is None or _running(after) == _running(before) else after

    def change(self) -> tuple[str, str]:
        """The changed line before and after."""
        before = (PROJECT / self.path).read_text(encoding="utf-8").splitlines()
        after = (self.source() or "").splitlines()
        for one, other in zip(before, after, strict=False):
            if one != other:
                return one.strip(), other.strip()
        return "", ""


def _running(source: str) -> str:
    """What of a source runs: its tree without annotations, which this project never evaluates."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = None if isinstance(node, ast.arg) else ast.Constant(value=None)
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def _worth_it(name: str) -> bool:
    """Arithmetic on bits of floating-point numbers is no mutant: it dies of its type, and would only flatter."""
    if name in LEFT_OUT:
        return False
    _, _, pair = name.partition("ReplaceBinaryOperator_")
    return not pair or any(set(pair.split("_")) <= family for family in (ARITHMETIC, ON_BITS))


def all_mutants(paths: tuple[Path, ...] = SCOPE) -> Iterator[Mutant]:
    """Every place where an operator fits, file by file."""
    operators = {name: get_operator(name) for name in operator_names() if _worth_it(name)}
    plain = {name: operator() for name, operator in sorted(operators.items()) if not operator.arguments()}
    for path in paths:
        nodes = list(ast_nodes(parso.parse((PROJECT / path).read_text(encoding="utf-8"))))
        for name, operator in plain.items():
            places = (start for node in nodes for start, _ in operator.mutation_positions(node))
            for occurrence, (line, column) in enumerate(places):
                yield Mutant(path=path, operator=name, occurrence=occurrence, line=line, column=column)


def sampled(seed: int, paths: tuple[Path, ...] = SCOPE) -> list[Mutant]:
    """All mutants of some files in an order drawn by a seed.

    One mutant of each place comes before a second one of any, so that an operator with many replacements counts once;
    among these the decisive modules come first. What follows them is, wherever it is broken off, an even sample of the
    places of the other modules.
    """
    mutants = list(all_mutants(paths))
    order = np.random.default_rng(seed).permutation(len(mutants))
    before: Counter[tuple[Path, int, int]] = Counter()
    ranked = []
    for rank, number in enumerate(order):
        mutant = mutants[number]
        place = (mutant.path, mutant.line, mutant.column)
        ranked.append((before[place], mutant.path not in DECISIVE, rank, mutant))
        before[place] += 1
    return [mutant for *_, mutant in sorted(ranked, key=lambda row: row[:3])]


@cache
def version_of(path: Path) -> str:
    """SHA-256 (hex) of a mutated source; results of another version of it are not taken up."""
    return hashlib.sha256((PROJECT / path).read_bytes()).hexdigest()
