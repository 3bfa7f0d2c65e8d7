"""Write the invented records of this example: people, their town, how often they read, and with what rate to sample."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

PEOPLE = 15_000
RATES = {"North": "0.1", "South": "0.1", "Island": "0.2"}
"""Few people live on the island, so that they are sampled at twice the rate."""


def main() -> None:
    """Write `records.csv`, of everybody, and `survey.csv`, of one in ten or five of them, beside this file."""
    lines = ["town,reads,inclusion"]
    for number in range(PEOPLE):
        town = "Island" if number % 10 == 9 else ("North", "South")[number % 2]
        reads = ("never", "monthly", "weekly")[number * number % 7 % 3]
        lines.append(f"{town},{reads},{RATES[town]}")
    folder = Path(__file__).parent
    (folder / "records.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Stands for what secret coins would leave; who is in a real survey may not follow from a rule that is known.
    surveyed = [line for number, line in enumerate(lines[1:]) if _word(number) < float(line.rpartition(",")[2])]
    (folder / "survey.csv").write_text("\n".join([lines[0], *surveyed]) + "\n", encoding="utf-8")


def _word(number: int) -> float:
    """A number from 0 to 1, always the same."""
    return int.from_bytes(sha256(str(number).encode()).digest()[:4]) / 2**32


if __name__ == "__main__":
    main()
