"""Where a second person has to approve, the studio's run begins with their signature over exactly the draft, or not."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import zipfile

import pytest
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.flows.spec import read_spec


@pytest.fixture
def as_second(studio):
    """The command line of a second person, with a private store of their own; the studio asks for their approval."""
    folder = studio.folder / "second"
    folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CROWDBLEND_")}
    own = kept | {"CROWDBLEND_HOME": str(folder / "home")}

    def run(*words: str) -> None:
        command = [sys.executable, "-m", "crowdblend.deploy", *words]
        ended = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=120)
        assert ended.returncode == 0, ended.stderr

    run("key", "rotate")
    run("key", "export", "second.pem")
    studio.kill()
    studio.options = ("--approvers", str(folder / "second.pem"))
    studio.start()
    return run


def sent_back(client, studio, as_second, whole) -> str:
    """Unpack at the second person's what the page gives, approve it as the page says, and return the line."""
    assert "--folder" in whole(client, "/approval")
    folder = studio.folder / "second"
    answer = client.get("/approval/files")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        assert {name.partition("/")[0] for name in packed.namelist()} <= {"draft.toml", "hierarchies"}
        packed.extractall(folder)
    as_second("approve", "draft.toml", "--folder", str(studio.place), "--by", "B. Second", "--yes")
    return (folder / "draft.toml.approval").read_text()


def ended(client) -> str:
    for _ in range(600):
        text = client.get("/run").text
        if "data-running" not in text:
            return text
        time.sleep(0.1)
    raise AssertionError(text)


def test_a_run_waits_for_the_second_person(studio, as_second, people, declare, whole) -> None:
    client = studio.client()
    declare(client, people)
    # With a hierarchy, whose contents are part of what is signed.
    tree = "dark\n  blue\n  green\nwarm\n  red"
    client.post("/columns/0", data={"form": "tree", "text": tree})
    assert 'href="/approval"' in whole(client, "/review")
    assert "It waits for an approval" in whole(client, "/approval")
    client.post("/run", data={"do": "begin", "after": ""})
    text = ended(client)
    assert "needs a second person&#39;s approval" in text
    with open_reader(studio.ledger) as reader:
        assert reader.releases() == ()
    line = sent_back(client, studio, as_second, whole)
    assert client.post("/approval", data={"approval": line}).status_code == 303
    assert "B. Second signed exactly this specification" in whole(client, "/approval")
    # A change makes it void, by a form or in a file, and so does what is no approval of this key.
    client.post("/columns/0", data={"form": "tree", "text": tree.replace("warm", "light")})
    shown = whole(client, "/approval")
    assert "It waits for an approval" in shown
    assert "was changed after it was approved" in shown
    for wrong in ("", "{}", line.replace("Second", "Third"), line):
        refused = client.post("/approval", data={"approval": wrong})
        assert refused.status_code == 422
        assert "wrong-approval-1" in refused.text
    before = json.loads((studio.place / "studio.json").read_text())["run"]
    client.post("/run", data={"do": "begin", "after": before})
    assert "was changed after it was approved" in ended(client)
    line = sent_back(client, studio, as_second, whole)
    assert client.post("/approval", data={"approval": line}).status_code == 303
    # Killed here it goes on, and the run has the approval that was sent.
    client.close()
    studio.kill()
    studio.start()
    client = studio.client()
    assert "It is approved" in whole(client, "/approval")
    before = json.loads((studio.place / "studio.json").read_text())["run"]
    client.post("/run", data={"do": "begin", "after": before})
    shown = ended(client)
    assert "/result" in shown
    whole(client, "/review")  # whose output is taken by now
    assert "has to approve" not in client.get("/run").text
    release_id = json.loads((studio.place / "studio.json").read_text())["run"]
    with open_reader(studio.ledger) as reader:
        [charged] = reader.releases()
    assert charged.release_id == release_id
    assert charged.charge.spec_digest == json.loads(line)["spec_digest"] == read_spec(studio.draft, output=None).digest
    client.close()


def test_the_steward_cannot_approve_and_a_wrong_file_of_keys_is_refused(
    studio, as_second, people, declare, whole
) -> None:
    client = studio.client()
    declare(client, people)
    whole(client, "/approval")
    own = studio.environment | {"CROWDBLEND_HOME": str(studio.home)}
    command = [sys.executable, "-m", "crowdblend.deploy", "approve", str(studio.draft), "--yes", "--output", "own"]
    assert subprocess.run(command, cwd=studio.folder, env=own, check=False, capture_output=True).returncode == 0
    refused = client.post("/approval", data={"approval": (studio.folder / "own").read_text()})
    assert refused.status_code == 422
    assert "it is no second person&#39;s" in refused.text
    assert not (studio.place / "draft.toml.approval").exists()
    client.close()
    words = ["studio", "--no-browser", "--port", "0", "--approvers", str(people)]
    command = [sys.executable, "-m", "crowdblend.deploy", *words]
    ended = subprocess.run(
        command, cwd=studio.folder, env=studio.environment, check=False, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert "not a file of Ed25519 public keys" in ended.stderr
