"""What every description and every call of the mechanisms has in common: nothing changes, nothing is told by place."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import cached_property

import crowdblend.mechanisms
import pytest

MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(crowdblend.mechanisms.__path__, "crowdblend.mechanisms.")
]
STREAMS = {"Coins"}  # of random bytes: they go on from where they were, and describe nothing


def classes() -> Iterator[type]:
    for module in MODULES:
        for thing in vars(module).values():
            if inspect.isclass(thing) and thing.__module__ == module.__name__:
                yield thing


def functions() -> Iterator[Callable[..., object]]:
    for module in MODULES:
        yield from (thing for thing in vars(module).values() if _own(thing, module.__name__))
    for made in classes():
        plain = (thing.__func__ if isinstance(thing, staticmethod) else thing for thing in vars(made).values())
        yield from (thing for thing in plain if _own(thing, made.__module__) and not thing.__name__.startswith("__"))


def _own(thing: object, module: str) -> bool:
    return inspect.isfunction(thing) and thing.__module__ == module


def faults(made: type) -> list[str]:
    """What keeps a class from being a description: frozen, without room for more, its fields given by name."""
    if (
        issubclass(made, Exception | tuple)
        or getattr(made, "_is_protocol", False)
        or made.__name__ in {*STREAMS, "Mechanism"}
    ):
        return []
    if "__dataclass_params__" not in vars(made):
        return ["no dataclass"]
    found = [] if made.__dataclass_params__.frozen else ["can be changed"]
    remembers = any(isinstance(thing, cached_property) for thing in vars(made).values())
    found += [] if "__slots__" in vars(made) or remembers else ["has room for more"]
    return found + [f"{field.name} by place" for field in dataclasses.fields(made) if field.init and not field.kw_only]


def test_every_description_is_frozen_and_its_fields_are_given_by_name() -> None:
    assert len(list(classes())) > 30
    assert {made.__qualname__: faults(made) for made in classes() if faults(made)} == {}


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"frozen": True, "slots": True}, "k by place"),
        ({"kw_only": True, "slots": True}, "can be changed"),
        ({"kw_only": True, "frozen": True}, "has room for more"),
    ],
)
def test_a_description_that_is_not_so_is_noticed(options, fault) -> None:
    def event() -> type:
        return type("Event", (), {"__annotations__": {"k": "int"}})

    assert faults(event()) == ["no dataclass"]
    assert faults(dataclasses.dataclass(**options)(event())) == [fault]
    assert faults(dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(event())) == []


def by_place(function: Callable[..., object]) -> list[str]:
    """Parameters that can't be given by name, and randomness that need not be."""
    named = inspect.signature(function).parameters.values()
    found = [one.name for one in named if one.kind is one.POSITIONAL_ONLY]
    return found + [
        one.name
        for one in named
        if one.name == "randomness" and (one.kind, one.default) != (one.KEYWORD_ONLY, one.empty)
    ]


def test_every_argument_may_be_named_and_randomness_must_be() -> None:
    assert sum("randomness" in inspect.signature(one).parameters for one in functions()) > 8
    assert {one.__qualname__: by_place(one) for one in functions() if by_place(one)} == {}


def test_randomness_by_place_or_by_default_is_noticed() -> None:
    def placed(randomness): ...

    def defaulted(*, randomness=bytes): ...

    def unnamed(counts, /, *, randomness): ...

    assert [by_place(one) for one in (placed, defaulted, unnamed)] == [["randomness"], ["randomness"], ["counts"]]
