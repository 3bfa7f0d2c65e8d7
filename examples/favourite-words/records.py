"""Write the reports of this example: what 8,000 invented people's devices would send, made by the client library."""

from __future__ import annotations

import os
import tomllib
from decimal import Decimal
from pathlib import Path

from crowdblend.mechanisms.local_reports.design import QuestionDesign, design_of_table
from crowdblend.mechanisms.local_reports.device import header, question_report, report

HERE = Path(__file__).parent
PEOPLE = 8_000
WORDS = ("tea", "tea", "tea", "coffee", "coffee", "water", "mate", "kvass")


def write(specification: str, file: str) -> None:
    """Read the public parameters as a device would, and write one line for each person."""
    spec = tomllib.loads((HERE / specification).read_text(encoding="utf-8"), parse_float=Decimal)
    design = design_of_table(spec["reports"])
    lines = [header(design)]
    for person in range(PEOPLE):
        word = WORDS[person * person % 97 % 8]
        if isinstance(design, QuestionDesign):
            answers = (word == "coffee", person % 3 == 0)  # drinks coffee, cycles to work
            lines.append(question_report(design, answers, randomness=os.urandom))
        else:
            lines.append(report(design, word, randomness=os.urandom))
    (HERE / file).write_text("\n".join(lines) + "\n", encoding="ascii")


def main() -> None:
    """Write the files beside this one; the devices' coins are new each time."""
    write("words.toml", "sketches.csv")
    write("drinks.toml", "choices.csv")
    write("habits.toml", "answers.csv")


if __name__ == "__main__":
    main()
