"""Exact counts, protected results and gates have one maker: no other way gets exact counts into a file."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.tasks.kernel import protected as sealing
from crowdblend.tasks.kernel.gate import Gate
from crowdblend.tasks.kernel.protected import ExactCounts, Protected, protected_result
from crowdblend.tasks.kernel.publication import stage_release
from support.kernel_bench import Bench, render

PROJECT = Path(__file__).resolve().parents[2]
OPENERS = {"opened_for_choice", "protect", "protected_result", "seal_counts", "stage_release"}
"""Functions of the kernel that give out or take what is sealed."""


def as_class(exact: Any, kind: type) -> Any:
    """Return the object itself, after its class was exchanged."""
    exact.__class__ = kind
    return exact


class _Filled:
    """Stands for a class of one's own whose objects hold what they like."""

    __slots__ = ("__weakref__", "content")


def _own(kind: type) -> Any:
    made = _Filled()
    made.content = GroupCounts(np.array([[3]]), np.array([99]))
    made.__class__ = kind
    return made


def _below(kind: type, module: str) -> Any:
    below = type("Below", (kind,), {"__module__": module, "__slots__": ()})
    return object.__new__(below)


WAYS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda exact: exact,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda exact: pickle.loads(pickle.dumps(exact)),  # noqa: S301 - made here
    "pickle of an old protocol": lambda exact: pickle.loads(pickle.dumps(exact, protocol=0)),  # noqa: S301 - as above
    "reduce": lambda exact: exact.__reduce__()[0](*exact.__reduce__()[1]),
    "replace": replace,
    "its constructor": lambda _: Protected(),
    "its constructor with counts": Protected,
    "the constructor of counts": ExactCounts,
    "object.__new__": lambda _: object.__new__(Protected),
    "another class": lambda exact: as_class(exact, Protected),
    "the class of a subclass": lambda exact: as_class(exact, type(_below(Protected, sealing.__name__))),
    "an object of one's own": lambda _: _own(Protected),
    "a subclass": lambda _: _below(Protected, __name__),
    "a subclass that says it is the kernel's": lambda _: _below(Protected, sealing.__name__),
    "a result as it is": lambda _: GroupCounts(np.array([[3]]), np.array([99])),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_makes_a_protected_result_of_exact_counts(way: str, bench: Bench) -> None:
    outside = bench.outside()
    with bench.gate(outside) as gate:
        gate.charge()
        gate.read()
        exact = outside.exact(gate)
        with pytest.raises((ReleaseFailed, TypeError)):
            stage_release(
                WAYS[way](exact),
                output=bench.output(),
                sample_id=gate.receipt.sample_id,
                day=gate.entry.day,
                folder=gate._folder,
                render=render,
            )
    assert bench.published() is None
    assert not list(bench.root.glob(".out*"))


@pytest.mark.parametrize("way", sorted(WAYS.keys() - {"itself"}))
def test_no_way_makes_exact_counts_that_can_be_protected(way: str, bench: Bench) -> None:
    outside = bench.outside()
    with bench.gate(outside) as gate:
        gate.charge()
        gate.read()
        with pytest.raises((ReleaseFailed, TypeError)):
            gate.protect(outside.protection, exact=lambda: WAYS[way](outside.exact(gate)))
        with pytest.raises(ReleaseFailed, match="another step"):
            gate.stage(outside.render)


def test_what_is_sealed_shows_nothing_of_its_content(bench: Bench) -> None:
    outside = bench.outside()
    with bench.gate(outside) as gate:
        gate.charge()
        gate.read()
        exact = outside.exact(gate)
        assert repr(exact) == str(exact) == "<ExactCounts>"
        assert not hasattr(exact, "__dict__")
        with pytest.raises(TypeError):
            vars(exact)
        assert [name for name in dir(exact) if not name.startswith("__")] == []
        with pytest.raises(AttributeError):
            exact.content = 1
        with pytest.raises(ReleaseFailed):
            protected_result(exact)
        with pytest.raises(TypeError):
            iter(exact)  # type: ignore[call-overload]


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, pickle.dumps, replace])
def test_a_gate_has_no_twin(twin: Callable[[Any], Any], bench: Bench) -> None:
    outside = bench.outside()
    with bench.gate(outside) as gate:
        gate.charge()
        gate.read()
        outside.protect(gate)
        with pytest.raises(TypeError):
            twin(gate)
        assert not hasattr(gate, "__dict__")


def test_a_gate_has_no_other_kinds_and_none_that_was_made_past_its_constructor_works(bench: Bench) -> None:
    with pytest.raises(TypeError, match="one gate"):
        type("Wider", (Gate,), {})
    bare, outside = object.__new__(Gate), bench.outside()
    for step in (bare.charge, bare.resume, bare.remembered, bare.read, bare.publish, bare.close):
        with pytest.raises(AttributeError):
            step()
    for step in (outside.exact, outside.protect):
        with pytest.raises(AttributeError):
            step(bare)
    with pytest.raises(AttributeError):
        bare.stage(render)
    assert bench.published() is None


def test_no_other_file_of_the_product_opens_what_is_sealed() -> None:
    """Python can't hide a function from who imports it; so nobody outside of the kernel does."""
    packages = ("accounting", "audit", "deploy", "flows", "mechanisms", "tasks")
    paths = {path for name in packages for path in (PROJECT / name).rglob("*.py")}
    texts = {path: path.read_text(encoding="utf-8") for path in paths - {*(PROJECT / "tasks" / "kernel").iterdir()}}
    found = set()
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)) if re.search(r"kernel\b.* import .*|\bkernel import", text) else ():
            module = getattr(node, "module", None) or ""
            if isinstance(node, ast.ImportFrom) and module.endswith(("kernel.protected", "kernel.publication")):
                found |= {(path.name, one.name) for one in node.names if one.name in OPENERS or one.name[0] == "_"}
            elif isinstance(node, ast.ImportFrom) and module.endswith("tasks.kernel"):
                found |= {(path.name, one.name) for one in node.names if one.name in ("protected", "publication")}
    assert found == set()
