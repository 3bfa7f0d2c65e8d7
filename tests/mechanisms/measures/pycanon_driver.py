"""Run by the Python of pycanon's own environment: its measures of two CSV files, as one line of JSON."""

import json
import sys

import pandas as pd
from pycanon import anonymity
from pycanon.metrics import (
    average_ecsize,
    average_rir,
    discernability_metric,
    max_rir,
    sizes_ec,
)

before, released = (pd.read_csv(path, dtype=str) for path in sys.argv[1:3])
columns = list(before.columns)
told = {}
for name, table in (("before", before), ("after", released)):
    sizes = sizes_ec(table, columns)
    told[name] = {
        "k": int(anonymity.k_anonymity(table, columns)),
        "classes": int(sizes["n_ec"]),
        "average": float(sizes["mean_ec"]),
        "least": int(sizes["min_ec"]),
        "normalised": float(average_ecsize(before, table, columns)),
        "highest_risk": float(max_rir(table, columns)),
        "average_risk_of_a_class": float(average_rir(table, columns)),
    }
told["discernibility"] = int(discernability_metric(before, released, columns))
print(json.dumps(told))
