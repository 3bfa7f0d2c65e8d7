"""Execute the cells of notebooks in one process, and write what they print, give and draw into them.

python docs/notebooks/execute.py docs/notebooks/from-release-to-figure.ipynb
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt


def executed(notebook: Path) -> dict[str, Any]:
    """Return a notebook with what its cells print, give and draw; they run in its folder."""
    content: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(notebook.parent):
        for number, cell in enumerate((one for one in content["cells"] if one["cell_type"] == "code"), start=1):
            cell["execution_count"] = number
            cell["outputs"] = _outputs("".join(cell["source"]), names, number)
    return content


def _outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree, value, printed = ast.parse(source), None, io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102 - our own notebook
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None and not source.rstrip().endswith(";"):
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        found.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    for figure in map(plt.figure, plt.get_fignums()):
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=100, bbox_inches="tight", metadata={"Software": None})
        picture = {"image/png": base64.b64encode(drawn.getvalue()).decode()}
        found.append({"data": picture, "metadata": {}, "output_type": "display_data"})
    plt.close("all")
    return found


def written(content: dict[str, Any]) -> str:
    """Return a notebook as it stands in its file."""
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(written(executed(Path(name))), encoding="utf-8")
