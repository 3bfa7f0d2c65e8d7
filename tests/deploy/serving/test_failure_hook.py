"""Failures go to a command or a web address, with public facts alone, and a hook that fails stops nothing."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from crowdblend.deploy.serving.serve_settings import FailureFacts, hook_of
from crowdblend.mechanisms.kernel.errors import InputRefused

FACTS = FailureFacts(release_id="m@1", dataset="people", series="m", exit_code=2, cause="source-missing")
TOLD = {"release_id": "m@1", "dataset": "people", "series": "m", "exit_code": 2, "cause": "source-missing"}
SCRIPT = """
import json, os, sys
said = {name: value for name, value in os.environ.items() if name.startswith("CROWDBLEND_FAILED_")}
json.dump([json.load(sys.stdin), said], open(sys.argv[1], "w"))
"""


@pytest.fixture
def receiver():
    """A web server that keeps what it is sent, and answers 500 below /broken."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(500 if self.path.startswith("/broken") else 204)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Keep quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()
        serving.join()


def test_a_command_is_told_on_its_input_and_in_its_environment(tmp_path) -> None:
    script = tmp_path / "a script.py"
    script.write_text(SCRIPT)
    hook = hook_of(f"{sys.executable} '{script}' '{tmp_path / 'told'}'")
    assert hook is not None
    assert hook.tell(FACTS) is None
    body, environment = json.loads((tmp_path / "told").read_text())
    assert body == TOLD
    assert environment == {f"CROWDBLEND_FAILED_{name.upper()}": str(value) for name, value in TOLD.items()}


def test_a_webhook_is_sent_json(receiver) -> None:
    address, received = receiver
    hook = hook_of(f"{address}/secret-token")
    assert hook is not None
    assert hook.tell(FACTS) is None
    [(kind, body)] = received
    assert (kind, json.loads(body)) == ("application/json", TOLD)
    assert "secret-token" not in repr(hook)


def test_a_hook_that_fails_is_told_of_without_its_address(receiver) -> None:
    address, _ = receiver
    for text, told in [
        (f"{address}/broken/secret-token", "the webhook of --on-failure answered 500"),
        ("http://127.0.0.1:9/secret-token", "the webhook of --on-failure failed (URLError)"),
        ("false secret-token", "the command of --on-failure ended with 1"),
    ]:
        hook = hook_of(text)
        assert hook is not None
        assert hook.tell(FACTS) == told


def test_a_command_that_is_not_there_is_refused_at_once() -> None:
    assert hook_of(None) is None
    for text in ("no-such-program --now", "", "unbalanced 'quote"):
        with pytest.raises(InputRefused, match="--on-failure"):
            hook_of(text)


@pytest.mark.parametrize("command", ["cat | cat", "cat > told", "cat && cat", "cat >told 2>&1", "cat;cat"])
def test_what_only_a_shell_understands_is_refused_with_a_way_to_have_one(command: str, tmp_path) -> None:
    with pytest.raises(InputRefused, match="without a shell") as refused:
        hook_of(command)
    assert "sh -c" in refused.value.message
    told = tmp_path / "told"
    hook = hook_of(f"sh -c 'cat | tee {told} && true' '' '#'")
    assert hook is not None
    assert hook.tell(FACTS) is None
    assert json.loads(told.read_text())["release_id"] == "m@1"
