"""Nobody gets into the studio but who has its one-time address, and no page of elsewhere sends its forms."""

from __future__ import annotations

import os
import signal
import socket
import stat

import httpx
import pytest
from crowdblend.deploy.studio.studio_server import COOKIE, MOST_BYTES

PATHS = (
    "/",
    "/dataset",
    "/file",
    "/columns",
    "/columns/0",
    "/review",
    "/approval",
    "/approval/files",
    "/run/state",
    "/result/sheet",
    "/result/report",
    "/static/studio.js",
)


def test_the_address_opens_once(studio) -> None:
    with httpx.Client(base_url=studio.url) as other:
        assert other.get("/dataset").status_code == 401
        assert other.get("/enter?token=").status_code == 403
        assert other.get(f"/enter?token={studio.token}x").status_code == 403
        answer = other.get(f"/enter?token={studio.token}")
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", "path=/"} <= {part.strip() for part in cookie.split(";")}
        assert studio.token not in answer.text + cookie
        assert other.get("/dataset").status_code == 200
    assert httpx.get(studio.address).status_code == 403
    assert httpx.get(studio.url + "/dataset").status_code == 401


def test_nothing_is_shown_without_the_cookie(studio, entered) -> None:
    for path in PATHS:
        assert httpx.get(studio.url + path).status_code == 401, path
        assert httpx.post(studio.url + path, headers={"origin": studio.url}).status_code in (401, 405), path
        for given in ("", f"{COOKIE}=", f"{COOKIE}=x", f"{COOKIE}=é".encode(), "=;=", "a" * 3_000):
            assert httpx.get(studio.url + path, headers={"cookie": given}).status_code == 401, (path, given)


@pytest.mark.parametrize(
    "host", ["attacker.example", "attacker.example:{port}", "127.0.0.1.attacker.example", "", "[::1]", "127.0.0.1:x"]
)
def test_another_name_is_refused(studio, entered, host) -> None:
    port = studio.url.rpartition(":")[2]
    assert entered.get("/dataset", headers={"host": host.format(port=port)}).status_code == 421


@pytest.mark.parametrize("origin", [None, "null", "http://attacker.example", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_a_form_of_another_origin_is_refused(studio, entered, origin) -> None:
    before = studio.draft.read_bytes() if studio.draft.exists() else b""
    del entered.headers["origin"]
    headers = {} if origin is None else {"origin": origin}
    answer = entered.post("/file", data={"source": "x.csv", "records": "5"}, headers=headers)
    assert answer.status_code == 403
    assert (studio.draft.read_bytes() if studio.draft.exists() else b"") == before
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_another_site_is_shown_nothing(entered) -> None:
    for site in ("cross-site", "same-site"):
        assert entered.get("/dataset", headers={"sec-fetch-site": site}).status_code == 403
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        assert entered.request(method, "/dataset").status_code == 405


def test_large_and_odd_requests(studio, entered) -> None:
    assert entered.post("/file", content=b"source=" + b"x" * MOST_BYTES).status_code == 413
    assert entered.post("/file", content=iter([b"source=x"])).status_code == 411
    assert entered.post("/file", content=b"\xff\xfe=%ff").status_code == 400
    assert entered.post("/file", content="&".join(f"a{i}=1" for i in range(6_000)).encode()).status_code == 400
    assert entered.get("/dataset?" + "x" * 5_000).status_code == 414
    assert entered.get("/dataset", headers={"x-long": "x" * 20_000}).status_code in (400, 431)
    for path in (
        "/columns/99",
        "/columns/-1",
        "/columns/x",
        "/nowhere",
        "/static/../texts.toml",
        "/style/../server/app.py",
    ):
        assert entered.get(path).status_code in (404, 409), path
    host, port = studio.url.removeprefix("http://").split(":")
    for path in (
        "/static/../../draft.toml",
        "/static/%2e%2e/texts.toml",
        "/static//etc/passwd",
        "/style/..%2f..%2fapp.py",
    ):
        with socket.create_connection((host, int(port))) as raw:
            cookie = f"{COOKIE}={entered.cookies[COOKIE]}"
            raw.sendall(
                f"GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n".encode()
            )
            answer = b"".join(iter(lambda: raw.recv(65_536), b""))
        assert b" 404 " in answer.partition(b"\r\n")[0], path


def test_every_answer_bears_its_headers(studio, entered) -> None:
    for answer in (*(entered.get(path) for path in PATHS), httpx.get(studio.url), entered.post("/dataset", data={})):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        own = answer.request.url.path in ("/result/sheet", "/result/report")
        assert ("script-src 'self'" in policy) is not own
        assert "unsafe-inline" not in policy or own
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "<script>" not in answer.text
        assert " style=" not in answer.text
        assert " onclick" not in answer.text


def test_ctrl_c_ends_it_and_is_no_failure(studio, entered) -> None:
    studio.process.send_signal(signal.SIGINT)
    assert studio.process.wait(timeout=60) == 0
    assert studio.process.stdout.read() == f"It writes to {studio.place}. Ctrl-C ends it.\n"


def test_it_listens_to_this_machine_alone_and_its_folder_is_the_users(studio) -> None:
    assert studio.url.startswith("http://127.0.0.1:")
    assert stat.S_IMODE(studio.place.stat().st_mode) == 0o700
    port = int(studio.url.rpartition(":")[2])
    own = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in own - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError), socket.create_connection((address, port), timeout=2):  # noqa: PT011
            pass


def test_a_folder_of_others_and_a_second_studio_are_refused(studio) -> None:
    import subprocess
    import sys

    def refused(folder) -> str:
        words = ["studio", "--port", "0", "--no-browser", "--folder", str(folder)]
        ended = subprocess.run(
            [sys.executable, "-m", "crowdblend.deploy", *words],
            cwd=studio.folder,
            env=studio.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ended.returncode == 2
        return ended.stderr

    assert "another studio works in this folder" in refused(studio.place)
    opened = studio.folder / "opened"
    opened.mkdir()
    opened.chmod(0o755)
    assert "others may look into this folder" in refused(opened)
    (studio.folder / "link").symlink_to(studio.place)
    assert "no folder of yours" in refused(studio.folder / "link")
    os.close(os.open(studio.folder / "file", os.O_CREAT | os.O_WRONLY))
    assert "can't be used" in refused(studio.folder / "file")
