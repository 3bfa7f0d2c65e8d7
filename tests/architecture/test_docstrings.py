"""Every name of the public interface is explained without any gap; ruff sees that every other has a docstring."""

from __future__ import annotations

import dataclasses
import inspect

from crowdblend.deploy import api


def gaps_of_class(name: str, thing: type) -> list[str]:
    """Fields that are not explained, and public members without a docstring."""
    said, found = inspect.getdoc(thing) or "", []
    if dataclasses.is_dataclass(thing):
        own = [field for field in dataclasses.fields(thing) if field.init and not field.name.startswith("_")]
        inherited = " ".join(inspect.getdoc(base) or "" for base in thing.__mro__[1:])
        found += [f"{name}: field {one.name}" for one in own if f"{one.name}:" not in said + inherited]
    for member, value in vars(thing).items():
        public = not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
        if public and not inspect.getdoc(getattr(thing, member)):
            found.append(f"{name}.{member} has no docstring")
    return found


def gaps(name: str, thing: object, *, strict: bool) -> list[str]:
    """What the docstring of a public name leaves unsaid.

    Every name has a docstring; a list of arguments is complete; the shape of an array is told. Strictly also: every
    argument is in the list, and what is raised is said.
    """
    said = inspect.getdoc(thing) or ""
    if not said:
        return [f"{name} has no docstring"]
    if inspect.isclass(thing):
        return gaps_of_class(name, thing)
    if not inspect.isfunction(thing):
        return []
    found = []
    signature = inspect.signature(thing)
    listed = "Args:" in said or strict
    found += [f"{name}: argument {one}" for one in signature.parameters if listed and f"{one}:" not in said]
    annotations = [str(part.annotation) for part in signature.parameters.values()] + [str(signature.return_annotation)]
    if any("NDArray" in annotation for annotation in annotations) and "shape" not in said.lower():
        found.append(f"{name}: the shape of an array")
    if strict and "raise " in inspect.getsource(thing) and "Raises:" not in said:
        found.append(f"{name}: what it raises")
    return found


def test_the_public_interface_is_explained_without_a_gap() -> None:
    assert len(api.__all__) == len(set(api.__all__))
    assert not [gap for name in api.__all__ for gap in gaps(name, getattr(api, name), strict=True)]


def test_the_check_sees_what_is_missing() -> None:
    def silent(array: int, other: int) -> int:
        """Say nothing."""
        if array:
            raise ValueError
        return other

    def partly(array: int, other: int) -> int:
        """Say a little.

        Args:
            array: a number.
        """
        return array + other

    @dataclasses.dataclass
    class Untold:
        """Say nothing of it."""

        size: int

        def grow(self) -> None:
            self.size += 1

    assert len(gaps("silent", silent, strict=True)) == 3
    assert len(gaps("partly", partly, strict=False)) == 1
    assert len(gaps("Untold", Untold, strict=False)) == 2
