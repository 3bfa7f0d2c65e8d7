"""What one record can change, and what is secret, appears nowhere but in the key store.

A search looks for the secret, sampled records and suppressed values; a comparison holds releases with the same coins,
whose inputs differ in one suppressed record, against each other. Each must also catch a leak planted on purpose.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from crowdblend.tasks.kernel.draws import _stored_form

from audit.leaks import controls, differential, scenes
from audit.leaks.run import controlled, found_in
from audit.leaks.scan import Secrets, scan
from audit.leaks.traces import Traces, traces_of

ANSWERED = """
[release]
name = "leaks"
output = "out"
[data]
dataset = "people"
source = "people.csv"
[answer]
kind = "count"
by = ["colour"]
epsilon = 1e-5
[columns.colour]
values = ["blue", "red"]
level = 0
"""


@pytest.fixture(
    scope="module",
    params=[
        "fixed",
        pytest.param("deletion", marks=pytest.mark.slow),
        *(pytest.param(name, marks=pytest.mark.long) for name in ("drawn", "points")),
    ],
)
def neighbours(request, prefect_template, tmp_path_factory):
    """Releases of D and of D with one more record, sampled under the same coins but of a suppressed group."""
    stand = scenes.Stand(
        tmp_path_factory.mktemp("leaks") / "stand", scenes.SCENES[request.param], template=prefect_template
    )
    stand.prepare()
    return stand, stand.run("d", with_t=False), stand.run("d-and-one", with_t=True)


def found(stand, traces) -> dict[str, list[str]]:
    return found_in(stand, traces)


def test_no_secret_shows_anywhere(neighbours) -> None:
    stand, *runs = neighbours
    for traces in runs:
        assert scenes.published_records(traces) > 10_000
        assert found(stand, traces) == {}


def test_the_search_finds_a_suppressed_value_in_a_certificate(neighbours) -> None:
    """What the certificate carries of the declared domain is no finding; the same value anywhere else in it is."""
    stand, traces, _ = neighbours
    place = scenes.CERTIFICATE
    certificate = json.loads(traces.raw_bytes[place])
    certificate["notes"] = "vermilion-07 dropped"
    leaked = replace(traces, raw_bytes=traces.raw_bytes | {place: json.dumps(certificate).encode()})
    if not stand.scene.whole_domain:
        assert found(stand, leaked) == {"suppressed value": [place]}


@pytest.mark.parametrize(
    "leak", ["key", "packed key", "size", "value", "id", "quality", "positions", "group", "deletions"]
)
def test_the_search_finds_a_planted_leak(neighbours, leak) -> None:
    import base64
    import pickle

    stand, traces, _ = neighbours
    key, positions = scenes.KEYS[0], scenes.kept(scenes.records_of_d(), scenes.RATE, scenes.KEYS[0])
    planted = {
        "key": f"k={key.hex().upper()}".encode(),
        "packed key": base64.b64encode(pickle.dumps({"key": bytearray(key)})),
        "size": f" kept {len(positions)} rows".encode(),
        "value": b" vermilion-07 dropped",
        "id": b" person-000123 seen",
        "quality": f" the best map scores {max(scenes.qualities(scenes.records_of_d(), 'whole'))}".encode(),
        "positions": repr(list(positions[:9])).encode(),
        "group": f" {scenes.group_counts(scenes.records_of_d())['blue, 30']} are blue".encode(),
        "deletions": repr(list(scenes.deletions()[:9])).encode(),
    }
    if leak == "quality" and stand.scene.choosing is None:
        return
    if leak in (("size", "positions") if stand.scene.deleting else ("group", "deletions")):
        return
    if leak == "packed key":
        hidden = stand.folder / "hidden"
        hidden.mkdir(exist_ok=True)
        (hidden / "result").write_bytes(b"33582 6")
        (hidden / "persisted").write_bytes(b'{"data": "' + planted[leak] + b'"}')
        assert "sampling key (bytes)" in found(stand, traces_of(hidden, leaving_out=frozenset()))
        return
    assert found(stand, traces.with_more("log", planted[leak]))


def test_the_search_finds_deletions_in_a_stored_draw(tmp_path) -> None:
    """Packed as draws are stored."""
    drawn = scenes.deletions()
    form = json.dumps({"numbers": _stored_form(np.array(drawn))})
    (tmp_path / "noise.draw.json").write_text(form)
    traces = traces_of(tmp_path, leaving_out=frozenset())
    assert scan(traces, Secrets(positions=drawn))
    assert not scan(traces, Secrets(positions=tuple(z + 100 for z in drawn)))


def test_neighbours_differ_in_nothing_unexplained(neighbours) -> None:
    _, one, other = neighbours
    assert [apart for apart in differential.differences([one], [other]) if apart.reason is None] == []
    tables = [place for place in one.raw_bytes if place.startswith("out/data")]
    assert tables
    assert all(one.raw_bytes[place] == other.raw_bytes[place] for place in [*tables, "out/certificate.json"])


@pytest.mark.parametrize("place", ["log", "ledger.db (rows)", "prefect/prefect.db (rows)"])
def test_the_comparison_finds_a_planted_difference(neighbours, place) -> None:
    _, one, other = neighbours
    leaked = other.with_more(place, b"suppressed 12 groups")
    assert any(apart.reason is None for apart in differential.differences([one], [leaked]))


def test_of_the_last_task_no_more_is_explained_than_whether_its_end_was_recorded(neighbours) -> None:
    _, one, _ = neighbours
    place = "prefect/prefect.db (rows)"
    rows = [row for row in one.lines[place].splitlines() if re.search(rb"[\"']close(-[0-9a-f]{8})?[\"']", row)]
    assert {row.split(b" ")[0] for row in rows} == {b"task_run", b"events", b"event_resources"}
    without = Traces(lines={}, raw_bytes={})

    def reasons(row: bytes) -> list[str | None]:
        added = Traces(lines={place: row}, raw_bytes={})
        return [apart.reason for apart in differential.differences([without], [added])]

    for row in rows:
        [reason] = reasons(row)
        assert reason is not None, row
        assert reasons(row[:-1] + b", 12)") == [None], row
        if b'message": ""' in row:
            assert reasons(row.replace(b'message": ""', b'message": "rare"')) == [None], row


def test_of_a_workers_heartbeat_no_more_is_explained_than_what_it_has_of_one_task() -> None:
    """Whether the last heartbeat before the state is dumped has the task's end depends on how busy the machine is."""
    without = Traces(lines={}, raw_bytes={})

    def reasons(line: str, place: str = "dask/state.yaml") -> list[str | None]:
        added = Traces(lines={place: line.encode()}, raw_bytes={})
        return [apart.reason for apart in differential.differences([without], [added])]

    told = [
        "    '[''get-data'', ''memory-read'', ''bytes'']': 2765",
        "    '[''execute'', ''partial-count'', ''memory-read'', ''bytes'']': 2873",
        "    '[''execute'', ''partial-count'', ''memory-read'', ''count'']': 1",
        "    '[''execute'', ''partial-count'', ''memory-read'', ''seconds'']': 0.0125",
        "    '[''execute'', ''partial-count'', ''executor'', ''seconds'']': 0.0125",
        "    '[''execute'', ''partial-count'', ''other'', ''seconds'']': 0.0125",
        "    profile-duration: 0.0125",
        "    num_fds: 15",
        "        unmanaged_old: 63844352",
    ]
    for line in told:
        [reason] = reasons(line)
        assert reason is not None, line
        assert reasons(line, "log") == [None], line
    for line in (
        told[2].replace(": 1", ": 12"),
        told[3].replace("0.0125", "12"),
        told[7] + "0",
        told[0] + " groups",
        told[8] + "0.5",
    ):
        assert reasons(line) == [None], line


def test_of_what_prefect_has_yet_to_send_at_the_end_no_more_is_explained_than_a_small_number() -> None:
    without = Traces(lines={}, raw_bytes={})

    def reasons(line: str) -> list[str | None]:
        added = Traces(lines={"log": line.encode()}, raw_bytes={})
        return [apart.reason for apart in differential.differences([without], [added])]

    told = "10:05:59.123 | WARNING | EventsWorker - Still processing items: 1 items remaining..."
    [reason] = reasons(told)
    assert reason is not None
    for line in (told.replace(": 1", ": 112"), told + " rare", told.replace("WARNING", "rare | WARNING")):
        assert reasons(line) == [None], line


def test_a_number_in_a_time_or_a_port_is_chance_and_anywhere_else_found() -> None:
    secrets = Secrets(numbers={"suppressed records": 246, "sample size": 33_828})

    def seen(line: str) -> list[str]:
        return sorted(scan(Traces(lines={"log": line.encode()}, raw_bytes={}), secrets))

    time = "2026-03-04 12:00:01"
    assert seen(f"{time},246 - distributed.core - INFO - Connection to tcp://127.0.0.1:33828 has been closed.") == []
    for line in (f"{time},245 - INFO - 246 groups", f"{time},246 groups", "12,246 - 12,245", "127.0.0.10: 246"):
        assert seen(line) == ["suppressed records"], line
    for line in ("records: 33828", "size:33828", "tcp://127.0.0.1:8787?33828"):
        assert seen(line) == ["sample size"], line


def test_what_looks_like_a_time_but_follows_the_records_is_found() -> None:
    """Masked parts are compared where there are two runs on each side; what differs by itself is let through."""

    def run(seconds: str, other: str):
        line = f"took {seconds} seconds at 2026-03-04 12:00:0{other}".encode()
        return Traces(lines={"log": line}, raw_bytes={})

    differences = differential.differences
    assert differences([run("1.25", "1")], [run("1.75", "2")]) == []
    same = [[run("1.25", "1"), run("1.35", "2")], [run("1.45", "3"), run("1.55", "4")]]
    assert differences(*same) == []
    [apart] = differences([run("1.25", "1"), run("1.25", "2")], [run("1.75", "3"), run("1.75", "4")])
    assert apart.reason is None
    assert "1.25" in apart.what


def test_two_runs_that_log_at_the_same_thousandth_of_a_second_differ_in_nothing() -> None:
    def run(second: int, thousandth: int, told: str = "Receive client connection") -> Traces:
        return Traces(lines={"log": f"2026-03-04 12:00:0{second},{thousandth} - INFO - {told}".encode()}, raw_bytes={})

    here, there = [run(1, 138), run(2, 138)], [run(3, 402), run(4, 977)]
    assert differential.differences(here, there) == []
    more, fewer = [run(1, 138, "12,138 groups"), run(2, 138, "12,138 groups")], [run(3, 402, "12,137 groups")]
    assert [found.what[:2] for found in differential.differences(more, fewer)] == ["+ ", "- "]


@pytest.mark.slow
def test_exact_numbers_below_noise_show_nowhere(prefect_template, tmp_path) -> None:
    """The noise of this answer is 0 with a probability of 5e-6, so that an exact count that shows is a leak."""
    exact = {"blue": 70_123, "red": 43_048}
    lines = [f"person-{i:06},{colour},{20 + i % 30}" for colour, count in exact.items() for i in range(count)]
    stand = scenes.Stand(tmp_path / "asked", scenes.Scene(name="answer", spec=ANSWERED), template=prefect_template)
    stand.prepare()
    traces = stand.run("run", with_t=False, lines=lines)
    numbers = {"blue": 70_123, "red": 43_048, "all": sum(exact.values())}
    secrets = Secrets(numbers=numbers, texts={"id": rb"person-\d{6}"})
    assert scan(traces, secrets) == {}
    assert scan(traces.with_more("log", b" counted 70123 blue"), secrets) == {"blue": ["log"]}
    [draw] = [content for place, content in traces.raw_bytes.items() if place.endswith("noise.draw.json")]
    holding = traces.holding(re.compile(re.escape(draw)))
    assert holding
    assert not [place for place in holding if not place.startswith("home/")]


@pytest.mark.long
@pytest.mark.parametrize(("scene", "broken"), [("fixed", controls.BROKEN), ("deletion", controls.BROKEN_DELETIONS)])
def test_every_product_that_leaks_is_found(tmp_path, scene, broken) -> None:
    caught = controlled(scenes.Stand(tmp_path / "controls", scenes.SCENES[scene]), sorted(broken))
    assert caught.keys() == broken.keys()
    assert [name for name, by in caught.items() if not by] == []
