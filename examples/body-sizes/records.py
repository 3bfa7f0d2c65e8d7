"""Write the invented records of this example: the height and the weight of people."""

from __future__ import annotations

from math import cos, sin
from pathlib import Path

PEOPLE = 12_000


def main() -> None:
    """Write `records.csv` beside this file; one weight in a hundred is missing."""
    lines = ["height,weight"]
    for number in range(PEOPLE):
        height = 1.70 + 0.09 * (sin(number) + sin(1.7 * number) + cos(2.3 * number))
        weight = 24.0 * height**2 + 6.0 * (sin(3.1 * number) + cos(0.7 * number))
        lines.append(f"{height:.3f},{'' if number % 100 == 99 else f'{weight:.1f}'}")
    Path(__file__).with_name("records.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
