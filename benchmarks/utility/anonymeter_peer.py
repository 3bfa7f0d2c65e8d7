"""Attribute inference and singling out by `anonymeter`, which need not be installed: a line of JSON a release.

It needs a NumPy before 2, so that it is in an environment of its own (`attackers.txt`).
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

GUESSED = "guessed"


def main() -> None:
    """Attack each release whose file is named on a line of standard input.

    Files are NumPy's, of codes with shape (columns, records). The secret is compared by its labels; the guess is that
    of the nearest record of the release (`InferenceEvaluator`). Singling out is by one column and by three
    (`SinglingOutEvaluator`), which takes records that are alike as one. Control people were not released.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("original", type=Path, help="the records that were released")
    parser.add_argument("control", type=Path, help="records of people that were not")
    parser.add_argument("--ordered", type=int, nargs="+", required=True, help="columns whose codes are amounts")
    parser.add_argument("--secret", type=int, required=True, help="the column that is guessed")
    parser.add_argument("--labels", type=int, nargs="+", required=True, help="the label of each of its codes")
    parser.add_argument("--attacks", type=int, required=True)
    asked = parser.parse_args()
    try:
        import numpy as np
        import pandas as pd
        from anonymeter.evaluators import (  # type: ignore[import-not-found]
            InferenceEvaluator,
            SinglingOutEvaluator,
        )
    except ImportError as missing:
        print(json.dumps({"missing": str(missing)}))
        return
    warnings.simplefilter("ignore")  # of attacks that are as good as guessing, which is no fault
    labels = np.array(asked.labels)

    def table(file: Path) -> pd.DataFrame:
        codes = np.load(file)
        columns = {f"c{place}": own if place in asked.ordered else own.astype(str) for place, own in enumerate(codes)}
        return pd.DataFrame(columns | {GUESSED: labels[codes[asked.secret]].astype(str)})

    original, control = table(asked.original), table(asked.control)
    columns = [name for name in original.columns if name != GUESSED]
    known = [name for name in columns if name != f"c{asked.secret}"]
    for number, named in enumerate(sys.stdin):
        released, found = table(Path(named.strip())), {}
        np.random.seed(number)  # pandas draws its samples by it
        inference = InferenceEvaluator(
            ori=original, syn=released, control=control, aux_cols=known, secret=GUESSED, n_attacks=asked.attacks
        )
        found["inference"] = inference.evaluate(n_jobs=1).results()
        for mode in ("univariate", "multivariate"):
            singling = SinglingOutEvaluator(
                ori=original[columns],
                syn=released[columns],
                control=control[columns],
                n_attacks=asked.attacks,
                max_attempts=20 * asked.attacks,
                seed=number,
            )
            try:
                found[f"singling out, {mode}"] = singling.evaluate(mode=mode).results()
            except RuntimeError:  # its correction for a smaller control table found no fit
                continue
        answer = {}
        for name, results in found.items():
            risk = results.risk()
            answer |= {f"{name}: risk": risk.value, f"{name}: low": risk.ci[0], f"{name}: high": risk.ci[1]}
            answer |= {f"{name}: success": results.attack_rate.value}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
