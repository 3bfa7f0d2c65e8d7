"""The private report is behind a word of warning, recorded as the command line does it, and in no browser's storage."""

from __future__ import annotations

import getpass
import json
import time
from concurrent.futures import ThreadPoolExecutor

from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy.documents.private_report import MARK


def looks(studio) -> list:
    with open_reader(studio.ledger) as reader:
        return list(reader.private_looks())


def until(client, words: str) -> str:
    for _ in range(600):
        text = client.get("/result").text
        if words in text:
            return text
        time.sleep(0.1)
    raise AssertionError(text)


def test_a_private_report_is_a_look_that_is_recorded_once(
    studio, browser, people, declare, whole, command_line
) -> None:
    client = studio.client()
    assert client.post("/result", data={"understood": "yes"}).status_code == 303
    assert client.get("/result/report").status_code == 404
    declare(client, people)
    client.post("/price", data={"do": "kind", "kind": "sampled"})
    client.post("/price", data={"do": "save", "rate": "0.3", "k": "10", "delta": "1e-5"})
    client.post("/run", data={"do": "begin", "after": ""})
    for _ in range(600):
        if "data-running" not in client.get("/run").text:
            break
        time.sleep(0.1)
    release_id = json.loads((studio.place / "studio.json").read_text())["run"]
    # Without the word nothing is looked at, and nothing is there to be opened.
    assert "not for publication" in client.get("/result").text
    refused = client.post("/result", data={})
    assert refused.status_code == 422
    assert "wrong-understood-1" in refused.text
    assert client.get("/result/report").status_code == 404
    assert looks(studio) == []
    # Sent many times, and again by a page that was left open: one look.
    with ThreadPoolExecutor(4) as pool:
        assert {*pool.map(lambda _: client.post("/result", data={"understood": "yes"}).status_code, range(4))} == {303}
    # Killed meanwhile, the studio goes on and the report is written all the same.
    client.close()
    studio.kill()
    studio.start()
    client = studio.client()
    until(client, "/result/report")
    client.post("/result", data={"understood": "yes"})
    [look] = looks(studio)
    report = client.get("/result/report")
    assert MARK in report.text
    assert report.headers["cache-control"] == "no-store"
    assert "sandbox" in report.headers["content-security-policy"]
    assert report.text == (studio.home / "reports" / f"{release_id}.html").read_text(encoding="utf-8")
    # No figure of it lies in the studio's folder.
    said = "".join(path.read_text(errors="replace") for path in (studio.place / "runs").rglob("report/*"))
    assert "The look is entry" in said
    assert "suppressed" not in said

    folder = studio.folder / "out" / "people"
    command_line("report", "private", studio.place / f"{release_id}.toml", folder, "--output", "again.html")
    first, again = looks(studio)
    assert first == look
    assert again.look == look.look
    assert look.look.by == getpass.getuser()
    client.close()


def test_the_browser_keeps_nothing_of_the_report(studio, browser, people, declare, monkeypatch) -> None:
    """Of a report that is there: no storage, no cache, no script, and none without the session."""
    import httpx

    client = studio.client()
    declare(client, people)
    (studio.home / "reports").mkdir(parents=True, mode=0o700)
    (studio.home / "reports" / "x.html").write_text(
        "<title>t</title><script>document.title = 'ran'</script>secret-figure"
    )
    notes = json.loads((studio.place / "studio.json").read_text())
    (studio.place / "studio.json").write_text(json.dumps(notes | {"run": "x"}))
    client.close()
    assert httpx.get(studio.url + "/result/report").status_code == 401
    studio.kill()
    studio.start()
    context = browser.new_context()
    page = context.new_page()
    page.goto(studio.address)
    page.wait_for_url("**/dataset")
    page.goto(studio.url + "/result/report")
    assert "secret-figure" in page.content()
    assert page.title() == "t"
    page.goto(studio.url + "/dataset")
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    assert page.evaluate("caches.keys()") == []
    page.go_back()
    asked = page.evaluate("performance.getEntriesByType('navigation')[0].transferSize")
    assert asked > 0  # asked for again, and not shown from a cache
    context.close()
