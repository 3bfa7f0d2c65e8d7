"""Write the invented records of this example: people, their town and their favourite colour."""

from __future__ import annotations

from pathlib import Path

COLOURS = ("blue", "green", "red", "yellow")
PEOPLE = (4_000, 4_600, 70, 20)
"""How many like each colour: the proportions 40, 46, 7 and 2 of the literature's example, the rare ones rarer."""


def main() -> None:
    """Write `records.csv` beside this file."""
    lines = ["colour,town"]
    for colour, people in zip(COLOURS, PEOPLE, strict=True):
        lines += [f"{colour},{('North', 'South')[number % 2]}" for number in range(people)]
    Path(__file__).with_name("records.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
