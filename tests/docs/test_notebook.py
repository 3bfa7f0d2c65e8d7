"""The notebook runs anew with the outputs that are in it, on the release that is beside it."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import re
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from crowdblend.analysis import load

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOK = NOTEBOOKS / "from-release-to-figure.ipynb"
NUMBER = re.compile(r"-?\d+\.?\d*")


def outputs(content: dict[str, Any]) -> list[tuple[str, Any]]:
    """Every text and every picture, in their order."""
    return [
        (kind, base64.b64decode(given) if kind == "image/png" else "".join(given))
        for cell in content["cells"]
        for output in cell.get("outputs", ())
        for kind, given in (output.get("data") or {"text/plain": output["text"]}).items()
    ]


def pixels(picture: bytes) -> np.ndarray:
    return matplotlib.image.imread(io.BytesIO(picture))


@pytest.mark.slow
def test_it_gives_what_is_in_it() -> None:
    spec = importlib.util.spec_from_file_location("execute", NOTEBOOKS / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    committed = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert module.written(committed) == NOTEBOOK.read_text(encoding="utf-8"), "as the program writes it"
    anew, there = outputs(module.executed(NOTEBOOK)), outputs(committed)
    assert [kind for kind, _ in anew] == [kind for kind, _ in there]
    assert sum(kind == "image/png" for kind, _ in there) == 1
    for (kind, own), (_, other) in zip(anew, there, strict=True):
        if kind == "image/png":
            assert pixels(own).shape == pixels(other).shape
            assert np.abs(pixels(own) - pixels(other)).mean() < 0.01
        else:
            assert NUMBER.sub("", own) == NUMBER.sub("", other)
            numbers = [[float(one) for one in NUMBER.findall(text)] for text in (own, other)]
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-6, abs=1e-6)


def test_its_release_verifies_and_is_what_its_specification_names() -> None:
    release = load(NOTEBOOKS / "census-2000")
    assert {column.name for column in release.columns} == {"state", "educ", "weekly_income", "exper"}
    text = (NOTEBOOKS / "census-2000.toml").read_text(encoding="utf-8")
    for column in release.columns:
        assert f"[columns.{column.name}]" in text
