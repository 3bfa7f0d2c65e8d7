"""The part "exhibits": every attack against another way and against ours, printed and recorded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.text import Text

from .exhibit import Exhibit
from .of_budgets import running_tails
from .of_files import file_exhibits
from .of_maps import extreme_values, ladder_on_one_sample, map_of_own_sample, published_optimum
from .of_samples import floating_point, guessed_seeds, second_answer, second_release

__all__ = ["EXHIBITS", "exhibits"]

EXHIBITS: dict[str, Callable[[], list[Exhibit]]] = {
    "extreme-values": extreme_values,
    "second-release": lambda: [second_release()],
    "second-answer": lambda: [second_answer()],
    "map-of-own-sample": lambda: [map_of_own_sample()],
    "published-optimum": lambda: [published_optimum()],
    "ladder-on-one-sample": lambda: [ladder_on_one_sample()],
    "running-tails": lambda: [running_tails()],
    "files": file_exhibits,
    "guessed-seeds": lambda: [guessed_seeds()],
    "floating-point": lambda: [floating_point()],
}


def exhibits(*, only: str = "") -> dict[str, Any]:
    """Run the attacks, print what each has learned, and judge."""
    began, console, found, broken = time.monotonic(), Console(), [], []
    for name, make in EXHIBITS.items():
        if only not in name:
            continue
        try:
            made = make()
        except RuntimeError as error:
            broken.append(f"{name}: came to no end: {error}")
            continue
        for exhibit in made:
            found.append(exhibit)
            console.print(Text(exhibit.title, style="bold"))
            console.print(Text(f"  the other way: {exhibit.other_way}"))
            console.print(Text(f"  the attacker learns: {exhibit.from_other}"))
            console.print(Text(f"  from ours: {exhibit.from_ours}\n"))
    findings = [*broken, *(f"{one.name}: ours betrays: {one.from_ours}" for one in found if one.ours_betrays)]
    findings += [f"{one.name}: the attack no longer works on the other way" for one in found if not one.other_betrays]
    return {
        "part": "exhibits",
        "outcome": "failed" if findings else "passed",
        "seconds": round(time.monotonic() - began, 1),
        "exhibits": [exhibit.record() for exhibit in found],
        "findings": findings,
    }
