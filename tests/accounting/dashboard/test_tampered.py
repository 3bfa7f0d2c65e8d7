"""A damaged ledger shows what was found and no figure, on every page; and a fuzzer finds no fault of ours."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from decimal import Decimal

import pytest
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import OptimalDeletion

CHARGE = "(SELECT position FROM entry WHERE release_id = '{release}')"
SUMMER = CHARGE.format(release="people-summer")
KIND = """(SELECT min(position) FROM entry WHERE body LIKE '%"kind":"{kind}"%')"""
CHEAPER = f"""UPDATE entry SET body = replace(body, '"k":20', '"k":40')
    WHERE position = {CHARGE.format(release="people-spring")}"""
FORGED = (
    f"""INSERT INTO entry SELECT last.position + 1, last.hash, printf('%064x', 15),
    replace(charged.body, '"k":15', '"k":"15"'), 'other', 'another', NULL FROM entry AS last, entry AS charged
    WHERE last.position = (SELECT max(position) FROM entry) AND charged.position = {SUMMER}""",
)
NO_JSON = "UPDATE entry SET body = '{{\"kind\":' WHERE position = {place}"
DAMAGES = {
    "price": CHEAPER,
    "account in the snapshot": "UPDATE snapshot SET state = replace(state, '\"people\"', '\"others\"')",
    "snapshot that is no text": "UPDATE snapshot SET state = x'00ff'",
    "snapshot that is gone": "DELETE FROM snapshot",
    "statement": "UPDATE snapshot SET statement = replace(statement, '1', '2')",
    "place that is another": f"UPDATE entry SET position = 9999 WHERE position = {SUMMER}",
    "publication that is gone": f"DELETE FROM entry WHERE position = {KIND.format(kind='release-published/1')}",
    "charge that is no JSON": NO_JSON.format(place=SUMMER),
    "charge that is no text": f"UPDATE entry SET body = x'00ff' WHERE position = {SUMMER}",
    "charge that is gone": f"DELETE FROM entry WHERE position = {SUMMER}",
    "sample of a charge": f"UPDATE entry SET sample_id = 'other' WHERE position = {SUMMER}",
    "registration": NO_JSON.format(place=1),
    "series": NO_JSON.format(place=KIND.format(kind="series-registered/1")),
    "refusal": NO_JSON.format(place=KIND.format(kind="release-refused/1")),
    "mechanism": f"""UPDATE entry SET body = replace(body, 'strongly-safe-release/1', 'strongly-safe-release/9')
    WHERE position = {SUMMER}""",
}
LIKE_ANOTHER = ("snapshot that is gone", "place that is another", "charge that is no text", "registration", "series")
"""What is found and shown at the place at which another one is, so that one of them is enough for `make check`."""
FIGURES = ("<data value", "<table", 'class="picture"', 'class="bar"', 'class="provenance"', "certificate.json")


def shows_findings_alone(pages, paths, chain: dict) -> None:
    """Every address, in every form, gives each finding and nothing else of the ledger."""
    for path in (*paths, "/releases/people-spring/certificate.json"):
        answer = pages.get(path)
        assert answer.status_code == 409, path
        text = html.unescape(answer.text)
        for finding in chain["findings"]:
            assert finding["what"] in text, (path, finding)
        assert [what for what in FIGURES if what in answer.text] == [], path
    for path in ("/overview" if path == "/" else path for path in paths):
        report = pages.get(f"/report{path}")
        assert (report.status_code, [what for what in FIGURES if what in report.text]) == (409, []), path
        for form in ("/api/v1", "/csv"):
            answer = pages.get(f"{form}{path}")
            assert answer.status_code == 409, path
            assert answer.json().keys() == {"error"}
            assert answer.json()["error"].keys() == {"status", "what", "why", "chain"}
            assert answer.json()["error"]["chain"]["findings"] == chain["findings"]
    metrics = pages.get("/metrics").text
    assert "crowdblend_chain_sound 0" in metrics
    assert "ledger_releases" not in metrics


def test_every_page_shows_the_findings_and_no_figure(serve, copied, paths) -> None:
    copied.past_the_guards(CHEAPER)
    with serve(copied, "--releases", "out") as running:
        chain = running.verified()
        assert chain["verdict"] == "broken"
        told = json.loads(copied.command("ledger", "verify", "--json", code=1))
        assert chain["findings_in_all"] == len(told["findings"]) > 0
        shows_findings_alone(running, paths, chain)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=name, marks=pytest.mark.long if name in LIKE_ANOTHER else ())
        for number, name in enumerate(DAMAGES)
        if number > 0
    ],
)
def test_no_figure_is_shown_whatever_is_damaged(opened, copied, paths, number) -> None:
    """The first damage is looked for at every address, above; each of the others at every fourth, in turn."""
    copied.past_the_guards(list(DAMAGES.values())[number])
    with opened(copied.ledger) as pages:
        chain = pages.verified()
        assert chain["verdict"] == "broken"
        shows_findings_alone(pages, paths[number % 4 :: 4], chain)


@pytest.mark.slow
@pytest.mark.parametrize(("was", "is_now"), [("optimal", "geometric"), ('"k":1', '"k":5')])
def test_no_figure_is_shown_of_a_forged_deletion(opened, copied, paths, was, is_now) -> None:
    noise = OptimalDeletion(epsilon=Decimal("0.1"), delta=Decimal("1e-6"))
    copied.charge("people-kept", mechanism=DeletionRelease(stages=1, k=1, noise=noise))
    place = CHARGE.format(release="people-kept")
    copied.past_the_guards(f"UPDATE entry SET body = replace(body, '{was}', '{is_now}') WHERE position = {place}")
    with opened(copied.ledger) as pages:
        chain = pages.verified()
        assert chain["verdict"] == "broken"
        shows_findings_alone(pages, paths, chain)


@pytest.mark.slow
def test_who_may_not_look_is_not_told_the_findings(opened, copied, paths) -> None:
    copied.past_the_guards(CHEAPER)
    with opened(copied.ledger, require_token=True) as pages:
        pages.headers = {"authorization": f"Bearer {copied.token}"}
        chain = pages.verified()
        for path in (*paths, "/verification/again", "/metrics", "/api/v1/verification", "/csv/overview"):
            refused = pages.get(path)
            assert refused.status_code == 401, path
            assert refused.text == "These pages need a token: crowdblend token add.\n"
        seen = pages.get("/", headers=pages.headers)
        assert seen.status_code == 409
        assert chain["findings"][0]["what"] in html.unescape(seen.text)


FORGED_AFTERWARDS = (
    (NO_JSON.format(place=KIND.format(kind="release-published/1")), "/releases/people-spring"),
    (f'UPDATE entry SET body = replace(body, \'"label":"s\', \'"label":"x\') WHERE position = {SUMMER}', "/releases"),
    (NO_JSON.format(place=KIND.format(kind="release-refused/1")), "/refusals"),
    ("UPDATE entry SET body = replace(body, 'Agreed', 'Denied')", "/datasets/1"),
    ("UPDATE snapshot SET state = replace(state, '1', '2'), statement = replace(statement, '1', '2')", "/"),
)


@pytest.mark.slow
def test_a_forged_entry_is_never_shown_under_a_chain_that_holds(serve, copied) -> None:
    """Each page that is made from it says so at once, before any verification has begun."""
    with serve(copied) as running:
        assert running.verified()["verdict"] == "sound"
        for statement, path in FORGED_AFTERWARDS:
            copied.past_the_guards(statement)
            page = running.get(path)
            assert page.status_code == 409, path
            assert "This ledger does not hold." in page.text, path
            assert "The chain holds" not in page.text, path
            assert "Denied" not in page.text
            error = running.get(f"/api/v1{'/overview' if path == '/' else path}").json()["error"]
            assert error["why"] or error["chain"]["verdict"] == "broken", (statement, error)


def test_a_token_that_no_writer_signed_lets_nobody_in(serve, copied) -> None:
    """Nor does one whose revocation was taken out."""
    token = copied.command("token", "add", "eve", "--expires", "90d").strip().splitlines()[-1]
    copied.command("token", "add", "alice", "--expires", "90d")
    copied.command("token", "revoke", "eve")
    with serve(copied, "--require-token") as running:
        headers = {"authorization": f"Bearer {token}"}
        assert running.get("/", headers=headers).status_code == 401
        copied.past_the_guards('DELETE FROM entry WHERE body LIKE \'%"kind":"token-revoked/1"%\'')
        answer = running.get("/", headers=headers)
        assert answer.status_code == 503
        assert "people" not in answer.text


@pytest.mark.slow
def test_a_change_under_a_running_dashboard_is_seen(serve, copied) -> None:
    with serve(copied) as running:
        before = running.verified()
        assert before["verdict"] == "sound"
        copied.past_the_guards(CHEAPER, *FORGED)
        at_once = running.get("/releases/people-spring")
        assert at_once.status_code == 409
        assert "This ledger does not hold." in at_once.text
        assert running.get("/verification/again").status_code == 303
        after = running.verified(past=before["ended"])
        assert after["verdict"] == "broken"
        assert after["findings"][0]["what"] in html.unescape(running.get("/samples").text)


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
