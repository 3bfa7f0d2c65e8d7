"""Write the invented records of this example: people, their town and their income."""

from __future__ import annotations

from pathlib import Path

PEOPLE = 6_000


def main() -> None:
    """Write `records.csv` beside this file; one income in a hundred is missing, and one is far above the others."""
    lines = ["town,income"]
    for number in range(PEOPLE):
        town = ("North", "South", "South")[number % 3]
        income = "" if number % 100 == 99 else str(20_000 + 37 * (number * number % 1_009))
        lines.append(f"{town},{income}")
    lines.append("North,90000000")
    Path(__file__).with_name("records.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
