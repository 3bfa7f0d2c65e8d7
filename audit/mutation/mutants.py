"""Mutants of the kernel and of the kinds: cosmic-ray's operators, in one lasting order.

Cosmic-ray itself writes each mutant into the working tree and starts a whole test run for it. Here its operators alone
are used: mutants are compiled in memory (`run.py`), so that the tree stays as it is and a mutant takes seconds.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

__all__ = ["DECISIVE", "PROJECT", "SCOPE", "Mutant", "all_mutants", "lines_of_functions", "sampled", "version_of"]

PROJECT = Path(__file__).resolve().parents[2]


def _sources(*places: str) -> tuple[Path, ...]:
    """Every module of some folders, and some modules; from the project's folder."""
    roots = [PROJECT / place for place in places]
    found = [path for root in roots for path in (root.rglob("*.py") if root.is_dir() else (root,))]
    return tuple(sorted(path.relative_to(PROJECT) for path in found))


KERNEL = ("mechanisms/kernel", "accounting/kernel", "tasks/kernel")
SCOPE = _sources(*KERNEL, "mechanisms/kinds", "accounting/kinds")
# Where a change that no test notices would cost privacy at once.
DECISIVE = frozenset(_sources(*KERNEL))
LEFT_OUT = ("core/NoOp",)
SAME_OBJECT = re.compile(r"ReplaceComparisonOperator_(Eq|NotEq|Is|IsNot)_(Eq|NotEq|Is|IsNot)$")
EQUIVALENT: tuple[tuple[str, re.Pattern[str]], ...] = (
    # A margin of rounding is a bound that the proofs keep larger than what tests can bring about.
    (
        "NumberReplacer|ReplaceBinary|ReplaceUnary",
        re.compile(r"\b(ULP|ABOVE|BELOW|MARGIN|nextafter|errors?)\b|\b1e-\d"),
    ),
    # How much is done at a time, and by which of two ways of one result; where a search is given up.
    (
        "NumberReplacer|ReplaceBinary",
        re.compile(r"^_(\w*BLOCK|\w*AT_ONCE|DENSE|SAMPLED|OWN_PAGES|BATCH|DECAY|MOST|ROUNDS)\w* = "),
    ),
    ("NumberReplacer|ReplaceBinary", re.compile(r"> _BLOCK:$|^CREATORS_LOCK = |^growing = 1\.0 / bottom")),
    (
        "ReplaceComparison|NumberReplacer|AddNot",
        re.compile(
            r"_AT_ONCE|_OWN_PAGES|_COMPOSITES|pieces < 2|level=1|key_words == 1|keys\.shape\[0\] == 1"
            r"|len\((parts|found|filled|total|lowest)\)"
        ),
    ),
    # What a message or a name in a message says.
    ("", re.compile(r"^(raise |f\"|\"|where=|remedy=|not_done=)|Refused\(|Failed\(")),
    # How a function may be called: its callers give all arguments in one way.
    ("ReplaceBinaryOperator_Mul", re.compile(r"^def .*\*, ")),
    # Remembered results, copies and checks of lengths that are equal by construction.
    ("RemoveDecorator|NumberReplacer", re.compile(r"^@(lru_cache|cache|cached_property|wraps)")),
    ("ReplaceTrueWithFalse|ReplaceFalseWithTrue", re.compile(r"\b(strict|copy)=")),
    # NumPy takes any negative length for the one that it is to find; an array of one element has one.
    ("NumberReplacer|ReplaceUnary", re.compile(r"reshape\(|initial=-|\)\[0\]")),
)
"""Operators and lines on which a change is not a fault: left out, so that no list of single mutants is needed."""
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
        try:
            after = mutate_code(before, get_operator(self.operator)(), self.occurrence)
        except AttributeError:  # of an exception with a dotted name, for which cosmic-ray has no other
            return None
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


def _equivalent(operator: str, line: str) -> bool:
    """Return whether a change of this kind in this line is none of the behaviour that is promised."""
    if (kinds := SAME_OBJECT.search(operator)) and ("Is" in kinds[1]) != ("Is" in kinds[2]):
        return {kinds[1], kinds[2]} in ({"Eq", "Is"}, {"NotEq", "IsNot"})
    return any(re.search(operators, operator) and pattern.search(line) for operators, pattern in EQUIVALENT)


def all_mutants(paths: tuple[Path, ...] = SCOPE) -> Iterator[Mutant]:
    """Every place where an operator fits, file by file."""
    operators = {name: get_operator(name) for name in operator_names() if _worth_it(name)}
    plain = {name: operator() for name, operator in sorted(operators.items()) if not operator.arguments()}
    for path in paths:
        source = (PROJECT / path).read_text(encoding="utf-8")
        nodes, lines = list(ast_nodes(parso.parse(source))), source.splitlines()
        for name, operator in plain.items():
            places = (start for node in nodes for start, _ in operator.mutation_positions(node))
            for occurrence, (line, column) in enumerate(places):
                if not _equivalent(name, lines[line - 1].strip()):
                    yield Mutant(path=path, operator=name, occurrence=occurrence, line=line, column=column)


def sampled(seed: int, paths: tuple[Path, ...] = SCOPE) -> list[Mutant]:
    """All mutants of some files in an order drawn by a seed, which a change of one file leaves for the others.

    One mutant of each place comes before a second one of any, so that an operator with many replacements counts once;
    among these the decisive modules come first. What follows them is, wherever it is broken off, an even sample of the
    places of the other modules.
    """

    def drawn(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.path} {mutant.operator} {mutant.occurrence}".encode()).digest()

    before: Counter[tuple[Path, int, int]] = Counter()
    ranked = []
    for rank, mutant in enumerate(sorted(all_mutants(paths), key=drawn)):
        place = (mutant.path, mutant.line, mutant.column)
        ranked.append((before[place], mutant.path not in DECISIVE, rank, mutant))
        before[place] += 1
    return [mutant for *_, mutant in sorted(ranked, key=lambda row: row[:3])]


@cache
def lines_of_functions(path: Path) -> frozenset[int]:
    """The lines of a source that don't run at import: those of its functions' bodies."""
    bodies = [
        node.body
        for node in ast.walk(ast.parse((PROJECT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return frozenset(line for body in bodies for line in range(body[0].lineno, (body[-1].end_lineno or 0) + 1))


@cache
def version_of(path: Path) -> str:
    """SHA-256 (hex) of a mutated source; results of another version of it are not taken up."""
    return hashlib.sha256((PROJECT / path).read_bytes()).hexdigest()
