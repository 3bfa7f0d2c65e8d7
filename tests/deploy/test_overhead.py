"""What a release costs in time besides its counting, next to an empty flow that is submitted the same way."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import pytest

ALLOWED_SECONDS = 3.0
TRIES = 3
EMPTY = """
from prefect import flow

@flow(name="empty", persist_result=False, log_prints=False)
def empty():
    pass

empty()
"""


def seconds_of(start) -> float:
    begun = time.perf_counter()
    start()
    return time.perf_counter() - begun


@pytest.mark.long
def test_a_job_takes_little_longer_than_an_empty_flow(desk, own_prefect_server, command) -> None:
    desk.add_dataset()
    environment = own_prefect_server.environment

    def empty() -> None:
        subprocess.run([sys.executable, "-c", EMPTY], env=environment, check=True, start_new_session=True)

    def job(number: int) -> None:
        words = ("submit", "spec.toml", "--output", f"out-{number}")
        code, _, err = command(*words, environment=environment).finish()
        assert code == 0, err

    desk.write_spec()
    empty()
    job(0)
    flows, jobs = [], []
    for number in range(1, TRIES + 1):
        flows.append(seconds_of(empty))
        jobs.append(seconds_of(lambda number=number: job(number)))
    overhead = statistics.median(jobs) - statistics.median(flows)
    with desk.capture.disabled():
        print(f"empty flows {flows}, jobs of 2,400 records {jobs}: overhead {overhead:.2f} s")
    assert overhead <= ALLOWED_SECONDS
