"""A Prefect flow of one's own, of which a release is a part: fetch the records, release, estimate from the release."""

import os
from pathlib import Path

# Before Prefect is imported: neither its client nor its server reports to its makers.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")

from crowdblend.deploy.api import PublishedRelease, release
from prefect import flow, task
from prefect.cache_policies import NO_CACHE

HERE = Path(__file__).parent / "survey"
TOWNS = ("Lyon", "Nice", "Lille", "Paris")


@task(cache_policy=NO_CACHE, persist_result=False)
def fetch_records() -> None:
    """Bring the quarter's records to where the specification looks; here they are invented.

    A task that sees records returns nothing: Prefect may keep what a task returns.
    """
    rows = [f"{TOWNS[number % 4]},{18 + number * 7 % 70}" for number in range(6_000)]
    (HERE / "people.csv").write_text("region,age\n" + "\n".join(rows) + "\n", encoding="utf-8")


@task
def estimate(published: PublishedRelease) -> dict[str, float]:
    """How many people each region has, from the release alone; public, so it may be kept."""
    groups = published.groups()
    sums = groups.group_by("region").aggregate([("count", "sum")]).to_pylist()
    return {row["region"]: row["count_sum"] / float(published.sampling_rate) for row in sums}


@flow
def quarterly_survey(quarter: str) -> dict[str, float]:
    """The release's id is the quarter's: run again, it is the same release, with the same sample, paid once."""
    fetch_records()
    published = release(HERE / "survey.toml", output=f"out/{quarter}", release_id=f"survey-{quarter}")
    return estimate(published)


if __name__ == "__main__":
    for region, people in sorted(quarterly_survey("2026-q1").items()):
        print(f"{region}: about {people:.0f} people")
