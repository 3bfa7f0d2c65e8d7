"""Synthetic records by AIM and MST of `opendp[mbi]`, which need not be installed: one line of JSON, or why none.

It pins a version of Polars, so that it is best in an environment of its own: opendp[mbi] pandas.
"""

from __future__ import annotations

import argparse
import json
import sys


def main() -> None:
    """Read records as JSON from standard input, and write synthetic ones to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--algorithms", nargs="+", choices=("AIM", "MST"), required=True)
    wanted = parser.parse_args()
    asked = json.load(sys.stdin)
    codes, sizes = asked["codes"], asked["sizes"]
    try:
        import mbi  # type: ignore[import-not-found]  # noqa: F401
        import opendp.prelude as dp
        import pandas  # noqa: F401
        import polars as pl  # type: ignore[import-not-found]
    except ImportError as missing:
        print(json.dumps({"missing": str(missing)}))
        return
    dp.enable_features("contrib")

    def gaussian(scale: float) -> dp.Measurement:
        space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
        return dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))

    # With given domains they take ρ of zero-concentrated privacy: the one that costs this much, by OpenDP's conversion.
    scale = dp.binary_search(
        lambda one: gaussian(one).map(1).epsilon(wanted.delta) <= wanted.epsilon, bounds=(0.1, 1e6), T=float
    )
    found = {}
    for name in wanted.algorithms:
        context = dp.Context.compositor(
            data=pl.LazyFrame(codes),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=1 / (2 * scale**2)),
            split_evenly_over=1,
        )
        keys = {column: list(range(size)) for column, size in sizes.items()}
        query = context.query().select(*codes).contingency_table(keys=keys, algorithm=getattr(dp.mbi, name)())
        synthetic = query.release().synthesize()
        found[name] = {column: synthetic[column].to_list() for column in codes}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
