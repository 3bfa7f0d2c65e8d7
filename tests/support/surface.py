"""What a version promises: commands, specification, settings, what is printed, formats, Python's and R's names.

As a program, run from the project's folder, it takes additions into the recorded surface, `tests/vectors/surface.json`:

    python tests/support/surface.py

It refuses what would break somebody who uses the recorded surface, unless that was deprecated by a version
before the last one whose number says that something may go (docs/stability.md).
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import click

PROJECT = Path(__file__).resolve().parents[2]
RECORDED = PROJECT / "tests" / "vectors" / "surface.json"
FORMAT = "crowdblend-surface/1"
OPTIONAL = "optional"
TAKEN = ("commands", "specification", "settings", "Python", "R")
"""Sections of what is taken: more may be taken later, and nothing else be required. In the others less may be given."""
BUILT = ("DateHierarchy", "EpsilonSafeRelease", "GeneralizationMap", "GroupCounts", "IntervalHierarchy", "MappedColumn")
BUILT = (*BUILT, "StronglySafeRelease", "ValueHierarchy")
"""Classes whose objects are built by who uses the package; those of others are given by its functions."""

Section = dict[str, str]
"""Name → what is promised of it: words with " | " between them."""


def surface() -> dict[str, Section]:
    """Return the sections of this version's surface."""
    return {
        "commands": dict(sorted(commands())),
        "exit codes": exit_codes(),
        "specification": dict(sorted(keys("specification", taken=True))),
        "settings": settings(),
        "printed": dict(sorted(line for name in outputs() for line in keys(name, taken=False))),
        "formats": formats(),
        "Python": dict(sorted(python_names())),
        "R": r_names(),
    }


def words(*told: str) -> str:
    """Join words, each once."""
    return " | ".join(dict.fromkeys(told))


def commands() -> Iterator[tuple[str, str]]:
    """Yield each command, and each argument and option of one, with what it takes."""
    from crowdblend.deploy.cli import crowdblend
    from crowdblend.deploy.commands.command_registry import COMMANDS

    def below(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
        yield name, OPTIONAL
        for parameter in command.params:
            yield from of_parameter(parameter, name)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for part in command.list_commands(context):
                if command is not crowdblend or part in COMMANDS:  # others are of other distributions
                    found = command.get_command(context, part)
                    assert found is not None
                    yield from below(found, f"{name} {part}")

    yield from below(crowdblend, "crowdblend")


def of_parameter(parameter: click.Parameter, command: str) -> Iterator[tuple[str, str]]:
    """Yield the names of an argument or option of a command, with what it takes."""
    told = [] if parameter.required else [OPTIONAL]
    if parameter.multiple or parameter.nargs != 1:
        told.append("several")
    if isinstance(parameter.type, click.Choice):
        told += [json.dumps(str(choice)) for choice in parameter.type.choices]
    elif isinstance(parameter, click.Option) and parameter.is_flag:
        told.append("flag")
    else:
        told.append(parameter.type.name)
    names = parameter.opts + parameter.secondary_opts
    for name in names if isinstance(parameter, click.Option) else [str(parameter.name).upper()]:
        yield f"{command} {name}", words(*told)


def exit_codes() -> Section:
    """Return the exit codes of refusals, and that of `serve`."""
    from crowdblend.deploy.serving.serve_settings import EXHAUSTED
    from crowdblend.mechanisms.kernel import errors

    kinds = (errors.ReleaseFailed, errors.InputRefused, errors.AccountantRefused)
    return {kind.__name__: str(kind.exit_code) for kind in kinds} | {"serve, no release left": str(EXHAUSTED)}


def outputs() -> list[str]:
    """Return the names of the schemas of what is written and printed."""
    from crowdblend.deploy.commands.spec_commands import NAMES

    return [name for name in NAMES if name != "specification"]


def keys(name: str, *, taken: bool) -> Iterator[tuple[str, str]]:
    """Yield each key that a schema has, with its types and whether it may be missing.

    Args:
        name: of the schema.
        taken: whether the keys are read rather than written: those written are there always unless they are "optional".
    """
    from crowdblend.deploy.commands.spec_commands import schema_text

    whole = json.loads(schema_text(name))
    found: dict[str, list[str]] = {name: [f"version {whole['$id'].rpartition(':')[2]}"]}
    may_be_missing: set[str] = set()

    def walk(schema: Mapping[str, Any], path: str, within: tuple[str, ...]) -> None:
        if "$ref" in schema:
            definition = schema["$ref"].removeprefix("#/$defs/")
            if definition in whole["$defs"] and definition not in within:  # else it holds itself
                walk(whole["$defs"][definition], path, (*within, definition))
            return
        branches = [branch for key in ("anyOf", "oneOf") for branch in schema.get(key, ())]
        for branch in branches:
            walk(branch, path, within)
        found.setdefault(path, []).extend(types_of(schema))
        for key, below in schema.get("properties", {}).items():
            inner = f"{path}.{key}"
            if key not in schema.get("required", ()):
                may_be_missing.add(inner)
            walk(below, inner, within)
        below = schema.get("additionalProperties")
        if isinstance(below, dict):
            may_be_missing.add(f"{path}.*")
            walk(below, f"{path}.*", within)
        for item in [schema["items"]] if "items" in schema else schema.get("prefixItems", ()):
            may_be_missing.add(f"{path}[]")
            walk(item, f"{path}[]", within)

    walk(whole, name, ())
    for path, told in found.items():
        if not taken and ".error" in path and path != f"{name}.error":
            continue  # refusals have one form, told of once below
        yield path, words(*([OPTIONAL] if path in may_be_missing else []), *told)


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return what values a schema takes: the values themselves where they are listed, otherwise types."""
    if "const" in schema:
        return [json.dumps(schema["const"])]
    if "enum" in schema:
        return [json.dumps(value) for value in schema["enum"]]
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def settings() -> Section:
    """Return the keys of `crowdblend.toml`, and crowdblend's own environment variables, as the page lists them."""
    from crowdblend.flows.paths import DEFAULTS, EXTENSIONS, PLACES

    page = (PROJECT / "docs" / "operations" / "environment.md").read_text(encoding="utf-8")
    variables = re.findall(r"^\| `(CROWDBLEND_\w+)` \|", page, flags=re.MULTILINE)
    inside = [*PLACES, *(f"defaults.{name}" for name in DEFAULTS), *(f"extensions.{name}" for name in EXTENSIONS)]
    return dict.fromkeys([*(f"crowdblend.toml: {name}" for name in inside), *sorted(variables)], OPTIONAL)


def formats() -> Section:
    """Return names and versions of what is read and verified: records of mechanisms, entries, entry points."""
    from crowdblend.accounting.extensions import Group
    from crowdblend.accounting.kernel.ledger.entries import ENTRY_TYPES
    from crowdblend.accounting.kernel.prices.registry import MECHANISM_KINDS
    from crowdblend.accounting.ledger.opening import SCHEMA_REVISION
    from crowdblend.deploy.commands.spec_commands import schema_text

    certificate = json.loads(schema_text("certificate"))["$defs"]["Certificate"]["properties"]["format"]["enum"]
    found = {f"certificate {name}": "verified" for name in certificate}
    found |= {f"entry {kind}": "read" for kind in sorted(ENTRY_TYPES)}
    found |= {f"mechanism {name}": "priced" for name in sorted(MECHANISM_KINDS)}
    found |= {f"entry points crowdblend.{group}": "loaded" for group in get_args(Group)}
    return found | {f"ledger's database, revision {SCHEMA_REVISION}": "opened"}


def python_names() -> Iterator[tuple[str, str]]:
    """Yield the public names of Python: functions, classes with their public members, and all parameters."""
    from crowdblend import analysis
    from crowdblend.deploy import api

    for module in (analysis, api):
        for name in module.__all__:
            yield from of_value(getattr(module, name), f"{module.__name__}.{name}")


def of_value(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Yield a public value, its members, and their parameters."""
    if not inspect.isclass(value):
        yield name, words(OPTIONAL, "function" if callable(value) else "value")
        if callable(value):
            yield from of_signature(value, name)
        return
    yield name, words(OPTIONAL, "class")
    exception = issubclass(value, BaseException)
    built = value.__name__ in BUILT
    fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    if built:
        yield from of_signature(value, name)
    for member in sorted(set(dir(value)) - set(dir(Exception if exception else object)) | fields):
        if member.startswith("_"):
            continue
        found = inspect.getattr_static(value, member, None)
        function = found.__func__ if isinstance(found, staticmethod | classmethod) else found
        method = inspect.isfunction(function)
        yield f"{name}.{member}", words(OPTIONAL, "method" if method else "attribute")
        if method:
            yield from of_signature(getattr(value, member), f"{name}.{member}")


def of_signature(function: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield a function's parameters: how each is given, and whether it may be left out."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        told = [] if parameter.default is parameter.empty and "VAR" not in parameter.kind.name else [OPTIONAL]
        if parameter.kind is not parameter.KEYWORD_ONLY:
            told.append("by place")
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            told.append("by name")
        yield f"{name}({parameter.name})", words(*told)


def r_names() -> Section:
    """Return what R's package exports: functions with their parameters, and methods."""
    package = PROJECT / "r" / "crowdblend"
    namespace = (package / "NAMESPACE").read_text(encoding="utf-8")
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted((package / "R").glob("*.R")))
    found: Section = {}
    for exported in re.findall(r"^export\((.*?)\)", namespace, flags=re.MULTILINE | re.DOTALL):
        for name in sorted(part.strip() for part in exported.split(",")):
            found[name] = OPTIONAL
            found |= {f"{name}({given})": told for given, told in r_parameters(sources, name)}
    methods = re.findall(r"^S3method\(([\w.]+), (\w+)\)", namespace, flags=re.MULTILINE)
    return found | {f"{generic} of {kind}": OPTIONAL for generic, kind in methods}


def r_parameters(sources: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a function of R's sources."""
    begun = re.search(rf"^{name} <- function\(", sources, flags=re.MULTILINE)
    assert begun, f"R exports {name}, which no file defines"
    depth, part, at = 1, "", begun.end()
    while depth:
        letter = sources[at]
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 or (depth == 1 and letter == ","):
            if part.strip():
                given, default, _ = part.partition("=")
                yield given.strip(), OPTIONAL if default or given.strip() == "..." else "required"
            part = ""
        else:
            part += letter
        at += 1


@dataclasses.dataclass(frozen=True)
class Compared:
    """How a surface differs from the recorded one.

    Args:
        added: names that came, or take more than before; `section: name: what is promised`.
        broken: what somebody relies on who uses the recorded surface, and what became of it.
    """

    added: tuple[str, ...]
    broken: tuple[str, ...]


def compared(recorded: Mapping[str, Section], now: Mapping[str, Section], *, gone: set[str]) -> Compared:
    """Compare two surfaces.

    Args:
        recorded: what was promised.
        now: what there is.
        gone: names that may go: `section: name`; with one go those below it.
    """
    added, broken = [], []
    for section in sorted(recorded.keys() | now.keys()):
        before, after = recorded.get(section, {}), now.get(section, {})
        for name in sorted(before.keys() | after.keys()):
            was, now_is = before.get(name), after.get(name)
            if was == now_is:
                continue
            told = f"{section}: {name}"
            if now_is is None:
                if not any(told == one or told.startswith((f"{one} ", f"{one}.", f"{one}(")) for one in gone):
                    broken.append(f"{told}: gone (was: {was})")
            elif was is None:
                parent = parent_of(name)
                if section in TAKEN and OPTIONAL not in now_is.split(" | ") and parent in before:
                    broken.append(f"{told}: new and required ({now_is}), where {parent} did without")
                else:
                    added.append(f"{told}: {now_is}")
            else:
                (added if fits(was, now_is, taken=section in TAKEN) else broken).append(
                    f"{told}: {now_is} (was: {was})"
                )
    return Compared(tuple(added), tuple(broken))


def fits(was: str, now: str, *, taken: bool) -> bool:
    """Return whether what was promised of a name still holds: all is taken that was, or nothing new is given.

    Values that are listed may come and go in what is given: who reads it passes over those that it doesn't know.
    """
    before, after = set(was.split(" | ")), set(now.split(" | "))
    if taken:
        return before - {"required"} <= after
    return {word for word in after if word[0] != '"'} <= before


def parent_of(name: str) -> str:
    """Return what a name stands below: the command of an option, the table of a key, the function of a parameter."""
    return re.sub(r"(\([^()]*\)|\.[^.()]+| [^ ()]+)$", "", name)


def main() -> int:
    """Take additions into the record; refuse to record what breaks."""
    now = surface()
    record = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {"surface": {}}
    found = compared(record["surface"], now, gone=may_go(record))
    if found.broken:
        print(
            "Not recorded. This would break who uses the recorded surface:", *found.broken, sep="\n  ", file=sys.stderr
        )
        print("Deprecate it first (docs/stability.md), or keep it.", file=sys.stderr)
        return 1
    write(now)
    print(f"{len(found.added)} additions recorded", *found.added[:50], sep="\n  ")
    return 0


def write(now: Mapping[str, Section]) -> None:
    """Write the record of a surface, and of what is deprecated in it."""
    from crowdblend.accounting.deprecations import DEPRECATED

    deprecated = {name: dataclasses.asdict(told) for name, told in sorted(DEPRECATED.items())}
    record = {"format": FORMAT, "version": version("crowdblend"), "deprecated": deprecated, "surface": now}
    RECORDED.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def may_go(record: Mapping[str, Any]) -> set[str]:
    """Return the names that the record has as deprecated by a version whose promises this one need not keep."""
    own = promise_of(version("crowdblend"))
    return {name for name, told in record.get("deprecated", {}).items() if promise_of(told["since"]) < own}


def promise_of(number: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, which all versions with its promises share: 1.2.3 → 1, 0.1.2 → 0, 1."""
    major, minor, *_ = (int(part) for part in number.split("."))
    return (major,) if major else (major, minor)


if __name__ == "__main__":
    sys.exit(main())
