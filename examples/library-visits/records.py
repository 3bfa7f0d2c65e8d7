"""Write the invented records of this example: people, their town, how often they read, and with what rate to sample."""

from __future__ import annotations

from pathlib import Path

PEOPLE = 15_000
RATES = {"North": "0.1", "South": "0.1", "Island": "0.2"}
"""Few people live on the island, so that they are sampled at twice the rate."""


def main() -> None:
    """Write `records.csv`, which is of everybody, and `survey.csv`, which is of a tenth to a fifth, beside this file."""
    lines = ["town,reads,inclusion"]
    for number in range(PEOPLE):
        town = "Island" if number % 10 == 9 else ("North", "South")[number % 2]
        reads = ("never", "monthly", "weekly")[number * number % 7 % 3]
        lines.append(f"{town},{reads},{RATES[town]}")
    folder = Path(__file__).parent
    (folder / "records.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Stands for what secret coins would leave; a real survey's file may not be a rule that everybody knows.
    surveyed = [
        line for number, line in enumerate(lines[1:]) if number * 7919 % 10 < (2 if line.startswith("Island") else 1)
    ]
    (folder / "survey.csv").write_text("\n".join([lines[0], *surveyed]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
