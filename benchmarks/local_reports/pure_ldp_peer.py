"""The same sums by pure-ldp, which need not be installed: one line of JSON with seconds, or why there are none.

Version 1.2.0 needs an environment of its own: pure-ldp "numpy<2" "scipy<1.14" "xxhash<4" scikit-learn statsmodels.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

warnings.simplefilter("ignore")


def main() -> None:
    """Time pure-ldp's server on reports that its own client has made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, required=True)
    parser.add_argument("--hashes", type=int, required=True)
    parser.add_argument("--bits", type=int, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    arguments = parser.parse_args()
    try:
        from pure_ldp.frequency_oracles.apple_cms import CMSClient, CMSServer
    except ImportError as missing:
        print(json.dumps({"missing": str(missing)}))
        return
    server = CMSServer(arguments.epsilon, arguments.hashes, arguments.bits)
    client = CMSClient(arguments.epsilon, server.get_hash_funcs(), arguments.bits)
    reports = [client.privatise(number % 100) for number in range(arguments.reports)]
    begun = time.perf_counter()
    for report in reports:
        server.aggregate(report)
    summed = time.perf_counter() - begun
    begun = time.perf_counter()
    estimate = float(server.estimate(0))
    print(
        json.dumps(
            {
                "reports": arguments.reports,
                "seconds": summed,
                "estimate": estimate,
                "estimate_seconds": time.perf_counter() - begun,
            }
        )
    )


if __name__ == "__main__":
    main()
