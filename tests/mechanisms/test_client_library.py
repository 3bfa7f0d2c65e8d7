"""What a person's device imports is small: neither Dask nor Prefect nor pandas comes with it."""

from __future__ import annotations

import subprocess
import sys

CLIENT = """
import os, sys
import numpy as np
from decimal import Decimal
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch, encode
from crowdblend.mechanisms.local_reports.device import header, report
from crowdblend.mechanisms.kinds.krandomization import KRandomization, flipped
from crowdblend.mechanisms.local_reports.design import design_of_table
sketch = CountMeanSketch(epsilon=Decimal(4), hashes=64, bits=1024, seed=b"public")
sketched = encode(sketch, ["a value"], randomness=os.urandom)
assert sketched.packed_bits.shape == (1, 128)
mechanism = KRandomization(bits=3, flip_probability=Decimal("0.25"))
flipped(mechanism, np.array([2], dtype=np.uint32), randomness=os.urandom)
public = {"kind": "k-randomization", "flip_probability": 0.25, "values": ["a", "b"]}
design = design_of_table(public)
assert header(design) == "vector" and int(report(design, "a", randomness=os.urandom)) < 4
heavy = {"dask", "distributed", "prefect", "pandas", "pyarrow", "scipy", "opendp", "sqlalchemy"} & set(sys.modules)
assert not heavy, heavy
"""


def test_a_device_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
