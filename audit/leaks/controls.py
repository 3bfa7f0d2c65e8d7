"""Products that leak: each breaks one thing before a real release, and the scan or the comparison must find it."""

from __future__ import annotations

__all__ = ["BROKEN", "BROKEN_DELETIONS"]

COUNTED = """
import crowdblend.mechanisms.kinds.microdata as kind
suppress = kind.suppress
def telling(keys, counts, k):
    tell(counts, counts >= k)
    return suppress(keys, counts, k)
kind.suppress = telling
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
from crowdblend.accounting.kernel.keys.private_store import ReleaseFolder
ReleaseFolder.destroy_key = lambda self: None
""",
    "the key is a parameter of a Prefect task": """
import crowdblend.flows.release as flow
from prefect import task
counted = flow.count_stage
def telling(**given):
    named = task(task_run_name="count-with-{key}")(lambda key: None)
    named(given["work"].folder.key.load().hex())
    return counted(**given)
flow.count_stage = telling
""",
    "a stage's result is kept by Prefect": """
import crowdblend.flows.release as flow
import crowdblend.mechanisms.kernel.sampling as sampling
from prefect import task
counted = flow.count_stage
def telling(**given):
    key = given["work"].folder.key.load()
    chunk = sampling.ChunkIdentity(file=0, block=0)
    rate = given["count"].args[0].sampling_rate
    kept = lambda: sampling.kept_positions(key=key, chunk=chunk, records=5000, rate=rate)
    task(persist_result=True, result_serializer="json")(lambda: kept().tolist())()
    return counted(**given)
flow.count_stage = telling
""",
    "dictionaries keep suppressed values": """
import crowdblend.tasks.stages.table as table
texts_of = table.texts_of
table.texts_of = lambda labels: texts_of([*labels, "vermilion-07"])
""",
    "the published file bears the time of its writing": """
import os, time
import crowdblend.tasks.kernel.publication as staging
utime = os.utime
os.utime = lambda path, *rest, **named: utime(path, ns=(0, 10**18 + os.path.getsize("people.csv")))
""",
}
"""What is broken, and the code that breaks it."""

BROKEN_DELETIONS = {
    "how many records are deleted is logged": """
import crowdblend.mechanisms.kinds.deletion_protection as kind
draw_deletions = kind.draw_deletions
def telling(*given, **named):
    drawn = draw_deletions(*given, **named)
    print(drawn.tolist(), file=sys.stderr)
    return drawn
kind.draw_deletions = telling
""",
    "counts before the deletion are logged": """
import crowdblend.mechanisms.kinds.deletion_protection as kind
delete_records = kind.delete_records
def telling(counts, **named):
    print(counts.tolist(), file=sys.stderr)
    return delete_records(counts, **named)
kind.delete_records = telling
""",
}
"""The same for a deletion release."""
