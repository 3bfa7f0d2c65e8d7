"""A tampered ledger is shown as tampered on every page, with where and what; and a fuzzer finds no fault of ours."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CHEAPER = """UPDATE entry SET body = replace(body, '"k":20', '"k":40')
    WHERE position = (SELECT position FROM release WHERE release_id = 'people-spring')"""
RICHER = "UPDATE account SET epsilon_spent = '0.0001' WHERE dataset = 'people' AND sequence = 1"
UNREADABLE = """UPDATE entry SET body = '{"kind":'
    WHERE position = (SELECT position FROM release WHERE release_id = 'people-spring')"""
FORGED = (
    """INSERT INTO entry SELECT last.position + 1, last.hash, printf('%064x', 15), charged.kind,
    replace(charged.body, '"k":15', '"k":"15"') FROM entry AS last, entry AS charged
    WHERE last.position = (SELECT max(position) FROM entry)
    AND charged.position = (SELECT position FROM release WHERE release_id = 'people-summer')""",
    """INSERT INTO account SELECT dataset, sequence + 1, (SELECT max(position) FROM entry),
    epsilon_spent, delta_spent, epsilon_budget, delta_budget
    FROM account WHERE dataset = 'people' ORDER BY sequence DESC LIMIT 1""",
)
LOST = """DELETE FROM release_stage WHERE release_id = 'people-spring' AND stage = 'closed'"""


@pytest.mark.parametrize(
    "statement",
    [
        CHEAPER,
        pytest.param(RICHER, marks=pytest.mark.long),
        pytest.param(UNREADABLE, marks=pytest.mark.long),
        pytest.param(LOST, marks=pytest.mark.long),
    ],
    ids=["price", "account", "bytes", "stage"],
)
def test_every_page_says_so_with_where_and_what(serve, copied, paths, statement) -> None:
    copied.past_the_guards(statement)
    with serve(copied) as running:
        chain = running.verified()
        assert chain["verdict"] == "broken"
        told = json.loads(copied.command("ledger", "verify", "--json", code=1))
        assert chain["findings_in_all"] == len(told["findings"])
        first = chain["findings"][0]
        for path in paths:
            answer = running.get(path)
            assert answer.status_code in (200, 404, 409), path
            if answer.status_code == 200:
                assert "This ledger does not hold." in answer.text, path
                assert f'<a href="/entries/{first["position"]}">' in answer.text, path
            api = running.get(f"/api/v1{'/overview' if path == '/' else path}")
            if api.status_code == 200:
                assert api.json()["frame"]["chain"]["verdict"] == "broken"
        sound = sum(running.get(path).status_code == 200 for path in paths)
        assert sound >= len(paths) - 1
        assert "crowdblend_chain_sound 0" in running.get("/metrics").text


FORGED_ROWS = (
    ("UPDATE release_stage SET outcome = 'abandoned' WHERE release_id = 'people-spring' AND stage = 'closed'",
     "/releases", "its row in the table release_stage is missing or changed"),
    ("UPDATE sample SET purpose = 'selection' WHERE release_id = 'people-spring'",
     "/samples", "its row in the table sample is missing or changed"),
    ("UPDATE dataset SET position = 0 WHERE name = 'people'",
     "/", "its row in the table dataset is missing or changed"),
    ("DELETE FROM series_release WHERE number = 1", "/refusals", "follow from the signed chain"),
    (RICHER, "/datasets/1", "its row in the table account is missing or changed"),
)  # fmt: skip


def test_a_forged_row_is_never_shown_under_a_chain_that_holds(serve, copied) -> None:
    """Each page that is made from it says so at once, with where and what, before any verification has begun."""
    with serve(copied) as running:
        assert running.verified()["verdict"] == "sound"
        for statement, path, what in FORGED_ROWS:
            copied.past_the_guards(statement)
            page = running.get(path).text
            assert "This ledger does not hold." in page, path
            assert "The chain holds" not in page, path
            faults = running.get(f"/api/v1{'/overview' if path == '/' else path}").json()["frame"]["faults"]
            assert any(what in fault["what"] for fault in faults), (statement, faults)


def test_a_token_that_no_writer_signed_lets_nobody_in(serve, copied) -> None:
    """Nor does one whose revocation was taken out."""
    token = copied.command("token", "add", "eve", "--expires", "90d").strip().splitlines()[-1]
    copied.command("token", "add", "alice", "--expires", "90d")
    copied.command("token", "revoke", "eve")
    with serve(copied, "--require-token") as running:
        headers = {"authorization": f"Bearer {token}"}
        assert running.get("/", headers=headers).status_code == 401
        copied.past_the_guards("DELETE FROM entry WHERE kind = 'token-revoked/1'")
        answer = running.get("/", headers=headers)
        assert answer.status_code == 503
        assert "people" not in answer.text


@pytest.mark.slow
def test_a_change_under_a_running_dashboard_is_seen(serve, copied) -> None:
    with serve(copied) as running:
        before = running.verified()
        assert before["verdict"] == "sound"
        copied.past_the_guards(CHEAPER, *FORGED)
        unread = running.get("/api/v1/datasets/1")
        assert unread.json()["error"]["status"] == unread.status_code == 500
        assert unread.json()["error"].keys() == {"status", "what", "why"}
        at_once = running.get("/releases/people-spring")
        assert "This ledger does not hold." in at_once.text
        assert "content differs from its hash" in at_once.text
        assert running.get("/verification/again").status_code == 303
        after = running.verified(past=before["ended"])
        assert after["verdict"] == "broken"
        assert "This ledger does not hold." in running.get("/samples").text
        told, first = running.get("/datasets/1"), after["findings"][0]["position"]
        assert told.status_code == 409
        assert f"What the ledger holds here can&#39;t be read. entry {first}: " in told.text


@pytest.mark.slow
def test_a_fuzzer_finds_no_fault_of_ours(served, tmp_path) -> None:
    """Schemathesis asks the whole API with everything that its schema allows, and with what it doesn't."""
    ended = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "schemathesis.cli",
            "run",
            served.url + "api/v1/openapi.json",
            "--checks=not_a_server_error,response_schema_conformance,content_type_conformance",
            "--phases=examples,coverage,fuzzing",
            "--mode=all",
            "--max-examples=25",
            "--seed=7",
            "--generation-database=none",
            "--max-failures=5",
        ],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stdout[-3_000:] + ended.stderr[-2_000:]
    # Every line is JSON, also what the server itself says of requests that are none.
    log = [json.loads(line) for line in served.log.read_text().splitlines()]
    asked = [line for line in log if line["event"] == "request" and line["route"].startswith("/api/v1/")]
    assert len(asked) > 200
    assert not [line for line in asked if line["status"] >= 500]
