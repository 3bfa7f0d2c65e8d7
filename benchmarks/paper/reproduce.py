"""Regenerate Tables 1 and 2 and Figures 2 to 6 of LQS (arXiv:1101.2604v2) into docs/paper, ours beside the paper's."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from crowdblend.accounting.kernel.prices.arithmetic import log_up
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact
from crowdblend.accounting.kinds.composition.amplification import Guarantee, amplified
from crowdblend.accounting.kinds.composition.paper_bound import delta_paper

from ..generated_pages import record
from .figures import PICTURES, write_picture

__all__ = ["main", "page"]

PROJECT = Path(__file__).resolve().parents[2]
PRINTED = PROJECT / "tests" / "vectors" / "lqs_tables.json"

OPENING = """\
# The paper's tables and figures, recomputed

<!-- Written by `make paper`; edit benchmarks/paper/reproduce.py or benchmarks/paper/figures.py instead. -->

`make paper` writes this page and its pictures, and a test fails if they are not what the command writes now. The \
source is {source} (LQS). The columns *printed* hold the paper's values as transcribed in \
[tests/vectors/lqs_tables.json](../../tests/vectors/lqs_tables.json). Every other value is computed.

*Recomputed* is the paper's own formula, evaluated by this project and rounded to the digits that the paper prints. \
*Exact* is the exact privacy profile of the same release: the least δ for which it is (ε, δ)-differentially private \
when one person is added or removed. It is this project's result, not the paper's; its proof is \
[exact-profile.md](../proofs/exact-profile.md).
"""

FIRST_TABLE = """\
## Table 1: amplification by sampling

Theorem 1: (ε₁, δ₁) at sampling rate 1 becomes ln(1 + β(e^ε₁ − 1)) and βδ₁ at sampling rate β. The theorem starts \
from a bare guarantee, about whose mechanism nothing else is known, so there is no profile to put beside it. {verdict}
"""

SECOND_TABLE = """\
## Table 2: δ of one release with k = {k}

Theorem 3.9: δ = d(k, β, ε), for one strongly-safe release after sampling at rate β. {verdict} The exact δ is smaller \
than the paper's by a factor of {least} to {most}.
"""

FIGURES = """\
## Figures 2 to 6

In each, dashed curves with open marks are the paper's bound and solid curves with filled marks the exact profile. \
Each figure says below it how much of the original could be checked.
"""


def page(printed: Mapping[str, Any]) -> str:
    """The Markdown page: both tables and the captions of the figures.

    Args:
        printed: the paper's printed values, as in tests/vectors/lqs_tables.json.
    """
    parts = [OPENING.format(source=printed["source"]), *_table_1(printed["table_1"]), *_table_2(printed["table_2"])]
    parts.append(FIGURES)
    for picture in PICTURES:
        heading = f"### Figure {picture.number}: {picture.title}"
        image = f"![Figure {picture.number}: {picture.title}]({picture.file})"
        parts.append(f"{heading}\n\n{image}\n\n{picture.caption}\n\n{picture.original}\n")
    return "\n".join(_wrapped(part) for part in parts)


def _wrapped(markdown: str) -> str:
    """The same Markdown with its long lines of prose wrapped; rows of tables, images and headings stay whole."""
    whole = ("|", "!", "#", "<")
    lines = [
        line
        if line.startswith(whole)
        else textwrap.fill(line, width=120, break_long_words=False, break_on_hyphens=False)
        for line in markdown.splitlines()
    ]
    return "\n".join(lines) + "\n"


def _table_1(printed: Mapping[str, Any]) -> list[str]:
    tables, agreeing, cells = [], 0, 0
    for half in printed["rows"]:
        start = Guarantee(epsilon=_epsilon(half["epsilon_at_1"]), delta=Decimal(half["delta_at_1"]))
        rows = []
        for rate, *paper in zip(half["rates"], half["epsilons"], half["deltas"], strict=True):
            ours = amplified(start, from_rate=Decimal(1), to_rate=Decimal(rate))
            recomputed = [_like(paper[0], ours.epsilon), _like(paper[1], ours.delta)]
            agreeing += (recomputed[0] == paper[0]) + (recomputed[1] == paper[1])
            cells += 2
            rows.append([rate, paper[0], recomputed[0], paper[1], recomputed[1]])
        title = f"From ε₁ = {half['epsilon_at_1']}, δ₁ = {half['delta_at_1']}:\n\n"
        tables.append(title + _markdown(["β", "ε printed", "ε recomputed", "δ printed", "δ recomputed"], rows))
    return [FIRST_TABLE.format(verdict=_verdict(agreeing, cells)), *tables]


def _table_2(printed: Mapping[str, Any]) -> list[str]:
    k, rows, ratios, agreeing = int(printed["k"]), [], [], 0
    for rate, deltas in printed["rows"].items():
        for epsilon, paper in zip(printed["epsilons"], deltas, strict=True):
            bound = delta_paper(k=k, sampling_rate=float(rate), epsilon=float(epsilon))
            exact = delta_exact(k=k, sampling_rate=float(rate), epsilon=float(epsilon))
            recomputed = _like(paper, Decimal(bound))
            agreeing += recomputed == paper
            ratios.append(bound / exact)
            rows.append([rate, epsilon, paper, recomputed, f"{exact:.2e}", _ratio(bound / exact)])
    key_words = SECOND_TABLE.format(
        k=k, verdict=_verdict(agreeing, len(rows)), least=_ratio(min(ratios)), most=_ratio(max(ratios))
    )
    header = ["β", "ε", "δ printed", "δ recomputed", "δ exact", "recomputed / exact"]
    return [key_words, _markdown(header, rows)]


def _epsilon(text: str) -> Decimal:
    """A printed ε: a decimal, or `ln` of one (rounded up in its sixtieth digit)."""
    return log_up(Decimal(text.removeprefix("ln "))) if text.startswith("ln ") else Decimal(text)


def _like(printed: str, value: Decimal) -> str:
    """The value rounded to the digits of `printed`, and written the same way."""
    if value == 0:
        return "0"
    mantissa, mark, exponent = printed.partition("e")
    places = len(mantissa.partition(".")[2])
    if not mark:
        return f"{value:.{places}f}"
    digits, _, power = f"{float(value):.{places}e}".partition("e")
    width = len(exponent.lstrip("+-"))
    return f"{digits}e{'-' if int(power) < 0 else '+'}{abs(int(power)):0{width}d}"


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def _verdict(agreeing: int, cells: int) -> str:
    if agreeing == cells:
        return f"All {cells} printed values come out to every printed digit."
    return f"**Only {agreeing} of {cells} printed values come out to every printed digit.**"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---:"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page and its pictures.

    Args:
        arguments: the command line without the program's name; the process's own when None.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PROJECT / "docs" / "paper", help="folder to write into")
    folder: Path = parser.parse_args(arguments).output
    folder.mkdir(parents=True, exist_ok=True)
    printed = json.loads(PRINTED.read_text(encoding="utf-8"))
    (folder / "README.md").write_text(page(printed), encoding="utf-8", newline="\n")
    for picture in PICTURES:
        write_picture(picture, folder)
    record(folder / "README.md")


if __name__ == "__main__":
    main()
