"""Synthetic records by AIM and MST of `opendp[mbi]`, which need not be installed: a line of JSON a draw, or why none.

"MST of its paper" is `mst_of_paper.py`. The library pins a version of Polars, so that it is best in an environment of
its own (`peers.txt`).
"""

from __future__ import annotations

import argparse
import json
import resource
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path

OF_PAPER = "MST of its paper"
SYNTHESIZER = Path(__file__).resolve().parents[2] / "tasks" / "stages" / "synthesizer.py"


def main() -> None:
    """Read codes and their sizes; write distinct synthetic records and how often each is.

    A code of -1 is "any other value", which they have as well. Each draw's model gives records twice: by rounding, as
    `synthesize` does where nothing is said, and by independent draws. Rounding gives columns that follow from the same
    one in the same order, so that they depend on each other where the model says that they don't.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", type=Path, help="NumPy's file of the records' codes, shape (columns, records)")
    parser.add_argument("--sizes", type=int, nargs="+", required=True, help="of the columns' domains")
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--algorithms", nargs="+", choices=("AIM", "MST", OF_PAPER), required=True)
    parser.add_argument("--draws", type=int, default=1)
    wanted = parser.parse_args()
    try:
        import mbi  # type: ignore[import-not-found]  # noqa: F401
        import numpy as np
        import opendp.prelude as dp
        import pandas  # noqa: F401
        import polars as pl  # type: ignore[import-not-found]
    except ImportError as missing:
        print(json.dumps({"missing": str(missing)}))
        return
    dp.enable_features("contrib")
    # The product's own program has the same need: the library's shares may add up to more than it has.
    runpy.run_path(str(SYNTHESIZER))["share_a_hair_less"]()

    def gaussian(scale: float) -> dp.Measurement:
        space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
        return dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))

    # With given domains they take ρ of zero-concentrated privacy: the one that costs this much, by OpenDP's conversion.
    scale = dp.binary_search(
        lambda one: gaussian(one).map(1).epsilon(wanted.delta) <= wanted.epsilon, bounds=(0.1, 1e6), T=float
    )
    rho = 1 / (2 * scale**2)
    names = [f"c{number}" for number in range(len(wanted.sizes))]
    codes = np.load(wanted.codes)
    records = pl.LazyFrame(dict(zip(names, codes, strict=True)))

    def by_paper() -> Callable[[str], pl.DataFrame]:
        from mst_of_paper import SpanningTree

        model = SpanningTree(codes, wanted.sizes, rho=rho, coins=np.random.default_rng())
        return lambda method: pl.DataFrame(dict(zip(names, model.drawn(method), strict=True)))

    def by_library(name: str) -> Callable[[str], pl.DataFrame]:
        context = dp.Context.compositor(
            data=records,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=rho),
            split_evenly_over=1,
        )
        keys = {column: list(range(size)) for column, size in zip(names, wanted.sizes, strict=True)}
        query = context.query().select(*names).contingency_table(keys=keys, algorithm=getattr(dp.mbi, name)())
        found = query.release()
        return lambda method: pl.DataFrame(found.synthesize(method=method))

    loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in wanted.algorithms:
        for _ in range(wanted.draws):
            started = time.perf_counter()
            synthesize = by_paper() if name == OF_PAPER else by_library(name)
            for method in ("round", "sample"):
                synthetic = synthesize(method).group_by(names).len("number").sort(names)
                answer = {
                    "algorithm": name,
                    "method": method,
                    "codes": [[-1 if code is None else int(code) for code in synthetic[column]] for column in names],
                    "numbers": synthetic["number"].to_list(),
                    "seconds": time.perf_counter() - started,
                    "mebibytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - loaded) / 1024,
                }
                print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
