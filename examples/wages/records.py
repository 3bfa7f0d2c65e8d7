"""Write the invented records of this example: people at work, with their schooling and weekly income."""

from __future__ import annotations

import math
from pathlib import Path

PEOPLE = 20_000
SCHOOLING = ("none", "school", "college")


def main() -> None:
    """Write `records.csv` beside this file; income rises with schooling and age, and is spread around that."""
    lines = ["sex,age,schooling,income"]
    for number in range(PEOPLE):
        mixed = (number * 7_919 + number * number * 31) % 100_003
        sex, age = ("Female", "Male")[mixed % 2], 18 + mixed // 2 % 47
        schooling = (mixed // 97 + (age < 40)) % 3
        spread = math.sin(mixed) + math.sin(3.7 * mixed)
        income = 350 + 120 * schooling + 5 * (age - 18) + 60 * (sex == "Male") + 90 * spread
        lines.append(f"{sex},{age},{SCHOOLING[schooling]},{max(round(income), 0)}")
    Path(__file__).with_name("records.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
