"""Products that leak: each breaks one thing before a real release, and the scan or the comparison must find it."""

from __future__ import annotations

__all__ = ["BROKEN"]

COUNTED = """
import crowdblend.tasks.sampled_counts as stage
suppress = stage.suppress
def telling(keys, counts, k):
    tell(counts, counts >= k)
    return suppress(keys, counts, k)
stage.suppress = telling
"""

BROKEN = {
    "the sample's size is logged": COUNTED
    + """
def tell(counts, kept):
    print(f"counted {counts.sum()} sampled records", file=sys.stderr)
""",
    "how many groups were suppressed is logged": COUNTED
    + """
def tell(counts, kept):
    print(f"{(~kept).sum()} groups suppressed", file=sys.stderr)
""",
    "the key outlives its release": """
from crowdblend.accounting.ledger.keystore import ReleaseFolder
ReleaseFolder.destroy_key = lambda self: None
""",
    "the key is a parameter of a Prefect task": """
import crowdblend.flows.microdata as flow
from prefect import task
counted = flow.surviving_groups
def telling(**given):
    named = task(task_run_name="count-with-{key}")(lambda key: None)
    named(given["key"].load().hex())
    return counted(**given)
flow.surviving_groups = telling
""",
    "a stage's result is kept by Prefect": """
import crowdblend.flows.microdata as flow
import crowdblend.mechanisms.sampling as sampling
from prefect import task
counted = flow.surviving_groups
def telling(**given):
    key = given["key"].load()
    chunk = sampling.ChunkIdentity(file=0, block=0)
    rate = given["request"].mechanism.sampling_rate
    kept = lambda: sampling.kept_positions(key=key, chunk=chunk, records=5000, rate=rate)
    task(persist_result=True, result_serializer="json")(lambda: kept().tolist())()
    return counted(**given)
flow.surviving_groups = telling
""",
    "dictionaries keep suppressed values": """
import crowdblend.tasks.table as table
labelled = table.labelled
def declared(keys, *, generalization):
    labels, places = labelled(keys, generalization=generalization)
    return ((*labels[0], "vermilion-07"), *labels[1:]), places
table.labelled = declared
""",
    "the published file bears the time of its writing": """
import os, time
import crowdblend.tasks.staging as staging
utime = os.utime
os.utime = lambda path, *rest, **named: utime(path, ns=(0, 10**18 + os.path.getsize("people.csv")))
""",
}
"""What is broken, and the code that breaks it."""
