"""Every program on the page of the Python interface runs, in its order, and gives what the page says that it gives."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from crowdblend.deploy import api

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
BLOCK = re.compile(r"^```(python|toml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
GIVES = "# → "


def statements(program: str) -> Iterator[tuple[ast.stmt, str | None]]:
    """The statements of a program, each with what the page says that it gives."""
    said = {
        token.start[0]: token.string.removeprefix(GIVES)
        for token in tokenize.generate_tokens(StringIO(program).readline)
        if token.type == tokenize.COMMENT and token.string.startswith(GIVES)
    }
    for statement in ast.parse(program).body:
        yield statement, said.get(statement.end_lineno or 0)


def run(program: str, names: dict[str, object]) -> int:
    """Run a program and hold what it gives against what the page says; how many results were compared."""
    compared = 0
    for statement, expected in statements(program):
        if isinstance(statement, ast.Expr):
            given = eval(compile(ast.Expression(statement.value), str(PAGE), "eval"), names)  # noqa: S307 - our page
            if expected is not None:
                assert repr(given) == expected, ast.unparse(statement)
                compared += 1
        else:
            assert expected is None, ast.unparse(statement)
            exec(compile(ast.Module([statement], type_ignores=[]), str(PAGE), "exec"), names)  # noqa: S102 - our page
    return compared


def write_records(path: Path, rows: int) -> None:
    ages, towns = (23, 34, 34, 51, 87), ("Lyon", "Nice", "Lille")
    lines = [f"{('Female', 'Male')[i % 2]},{ages[i * i % 5]},{towns[i % 7 % 3]}" for i in range(rows)]
    path.write_text("sex,age,region\n" + "\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(desk) -> None:
    write_records(desk.folder / "people.csv", 3_000)
    write_records(desk.folder / "census.csv", 2_000)
    names: dict[str, object] = {}
    compared = 0
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    for language, text in blocks:
        if language == "toml":
            name = text.splitlines()[0].removeprefix("# ")
            (desk.folder / name).write_text(text, encoding="utf-8")
        else:
            compared += run(text, names)
    assert len(blocks) > 6
    assert compared > 20


def test_the_table_has_every_function() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## The names")[2].partition("## ")[0]
    named = set(re.findall(r"`(\w+)`", table))
    measures = {"average_class_size", "discernibility", "normalised_class_size", "resolve_paths"}
    functions = {name for name in api.__all__ if name[0].islower()} - measures
    assert functions - named == set()
    assert {name for name in named if not hasattr(api, name)} == set()
