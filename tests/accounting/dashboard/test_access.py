"""Nobody looks who may not, nothing but looking is possible, and no text becomes anything else than text."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from crowdblend.accounting.dashboard.server.access import Access, Options, host_of
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.kernel.errors import InputRefused


def basic(password: str, user: str = "anybody") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def sent_raw(running, address: bytes, *, headers: str = "Host: localhost", source: str = "") -> str:
    """The answer to an address that a client would tidy up or encode."""
    place = urlsplit(running.url)
    with socket.create_connection((place.hostname, place.port), source_address=(source, 0), timeout=30) as sent:
        sent.sendall(b"GET " + address + f" HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: sent.recv(65536), b"")).decode()


@pytest.fixture(scope="module")
def guarded(serve, town, tmp_path_factory):
    """A dashboard that asks everybody for a token, on a ledger with good, expired and revoked ones."""
    import os

    copy = town.copy(tmp_path_factory.mktemp("guarded"))
    today = datetime.now(UTC).date()
    with copy.writer() as writer:
        expired = writer.add_token(
            name="expired", expires=today, by="b", day=today - timedelta(days=1), randomness=os.urandom
        )
        revoked = writer.add_token(
            name="revoked", expires=today + timedelta(days=9), by="b", day=today, randomness=os.urandom
        )
        writer.revoke_token(name="revoked", by="b", day=today)
    with serve(copy, "--public-name", "audit.example", "--proxy", "127.0.0.2/32") as running:
        yield running, copy, expired, revoked


def test_only_a_valid_token_opens_any_page(guarded, paths) -> None:
    running, copy, expired, revoked = guarded
    wrong = copy.token[:-1] + ("0" if copy.token[-1] != "0" else "1")
    assert running.get("/health").json() == {"status": "ok"}
    for headers in ({}, bearer(wrong), basic(wrong), bearer(expired), basic(expired), bearer(revoked)):
        answer = running.get("/", headers=headers)
        assert answer.status_code == 401, headers
        assert answer.headers["www-authenticate"].startswith("Basic realm=")
        assert "people" not in answer.text
    for headers in (bearer(copy.token), basic(copy.token), basic(copy.token, user="")):
        assert running.get("/", headers=headers).status_code == 200
    for path in (*paths, "/metrics", "/static/style.css", "/api/v1/openapi.json", "/csv/overview", "/nowhere"):
        assert running.get(path).status_code == 401, path


def test_a_token_is_revoked_at_once(guarded) -> None:
    running, copy, *_ = guarded
    import os

    today = datetime.now(UTC).date()
    with copy.writer() as writer:
        text = writer.add_token(
            name="short", expires=today + timedelta(days=2), by="b", day=today, randomness=os.urandom
        )
        assert running.get("/", headers=bearer(text)).status_code == 200
        writer.revoke_token(name="short", by="b", day=today)
    assert running.get("/", headers=bearer(text)).status_code == 401


def test_a_proxys_header_counts_from_the_proxy_alone(guarded) -> None:
    running, *_ = guarded
    assert running.get("/", headers={"X-Forwarded-User": "somebody"}).status_code == 401
    named = "Host: audit.example\r\nX-Forwarded-User: somebody"
    assert sent_raw(running, b"/", headers=named, source="127.0.0.2").startswith("HTTP/1.1 200")


def access_of(*, tokens=(), **options) -> Access:
    made = Options(ledger_url="sqlite:///x", **options)
    return Access(made, tokens=lambda: tuple(tokens), today=lambda: datetime.now(UTC).date())


def decided(access: Access, *, peer: str = "10.0.0.1", values: int = 1, **headers: str) -> str:
    """The decision on a request with a wrong token, unless another authorization is given."""
    given = {"authorization": "Bearer nonsense"} | {name.replace("_", "-"): text for name, text in headers.items()}
    return access.decide(peer=peer, headers=given, values={"authorization": values})


TEN = ["wrong"] * 10 + ["too many"]


def test_wrong_attempts_are_limited_for_a_minute_and_others_are_not(monkeypatch) -> None:
    begun, passed = time.monotonic(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: begun + passed[0])
    access = access_of(require_token=True)
    assert [decided(access) for _ in range(11)] == TEN
    assert decided(access, peer="10.0.0.2") == "wrong"
    passed[0] = 59.0
    assert decided(access) == access.decide(peer="10.0.0.1", headers={}, values={}) == "too many"
    passed[0] = 60.0
    assert [decided(access) for _ in range(11)] == TEN
    for number in range(10_000):
        decided(access, peer=f"10.1.{number // 256}.{number % 256}")
    assert len(access._failures) <= 4_096


def test_behind_a_proxy_one_visitors_guesses_shut_nobody_else_out() -> None:
    """The last hop counts, which the proxy itself wrote; what a visitor wrote before it opens no second account."""
    access = access_of(proxies=(ipaddress.ip_network("127.0.0.2/32"),))
    proxy, stranger = {"peer": "127.0.0.2"}, {"peer": "127.0.0.1"}
    assert [decided(access, **proxy, x_forwarded_for=f"10.9.9.{n}, 10.0.0.1") for n in range(11)] == TEN
    assert decided(access, **proxy, x_forwarded_for="10.0.0.2") == "wrong"
    control = [decided(access, **stranger, x_forwarded_for=f"10.9.9.{n}") for n in range(11)]
    assert control == TEN, "who is no proxy speaks for itself alone"


def test_who_has_no_address_is_no_proxy() -> None:
    access = access_of(proxies=(ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))
    named = {"x-forwarded-user": "somebody"}
    for peer in ("", "unix:", "localhost"):
        assert access.decide(peer=peer, headers=named, values={"x-forwarded-user": 1}) == "who"
    assert access.decide(peer="::1", headers=named, values={"x-forwarded-user": 1}) == "in"


@pytest.mark.parametrize(
    "credential",
    [
        "Digest username=x",
        "Basic",
        "Basic !!!!",
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Bearer " + "x" * 600,
        "Basic " + base64.b64encode(b"user:" + b"x" * 600).decode(),
        "TOKEN",
    ],
)
def test_a_malformed_credential_opens_nothing_and_counts_as_a_wrong_one(town, credential) -> None:
    with open_reader(town.ledger) as reader:
        access = access_of(require_token=True, tokens=reader.tokens())
    written = credential.replace("TOKEN", town.token)  # without a scheme
    assert {decided(access, authorization=written) for _ in range(10)} == {"wrong"}
    good = f"Bearer {town.token}"
    assert decided(access, authorization=good) == "too many"
    assert decided(access, peer="10.0.0.2", authorization=good) == "in"
    assert decided(access, peer="10.0.0.2", authorization=good, values=2) == "wrong"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_nothing_but_looking_is_possible(served, method) -> None:
    import httpx

    answer = httpx.request(method, served.url, timeout=600)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.slow
def test_head_is_get_without_its_body(served, paths) -> None:
    import httpx

    for path in paths:
        answer = httpx.head(served.url.rstrip("/") + path, timeout=600)
        assert (answer.status_code, answer.content) == (200, b"")


def test_pages_go_by_no_other_name(served) -> None:
    """A name that an attacker lets resolve to this machine opens nothing."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil.example", "[::1", ""):
        assert served.get("/", headers={"Host": host}).status_code in (400, 421), host
    port = urlsplit(served.url).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]:1"):
        assert served.get("/", headers={"Host": host}).status_code == 200, host
    hosts = {"a:1": "a", "A.": "a", "[::1]:8": "::1", "a:b": None, "[::1": None, None: None}
    assert {text: host_of(text) for text in hosts} == hosts


def test_an_open_dashboard_behind_a_proxy_is_closed(served) -> None:
    for name in ("Forwarded", "Via", "X-Forwarded-For", "X-Real-IP", "X-Forwarded-Host"):
        assert served.get("/", headers={name: "1.2.3.4"}).status_code == 401, name


ABSENT = (
    "/..",
    "/../../etc/passwd",
    "/static/../app.py",
    "/static/..%2f..%2fapp.py",
    "/static/%2e%2e/app.py",
    "/static//etc/passwd",
    "/releases/..%2f..%2fetc%2fpasswd",
    "/releases/../certificate.json",
    "/releases/people-spring/../../certificate.json",
    "/releases/nothing/certificate.json",
    "/docs",
    "/redoc",
    "/openapi.json",
)
MALFORMED = (
    "/datasets/x",
    "/datasets/-1",
    "/datasets/1e3",
    f"/datasets/{'9' * 400}",
    f"/entries/{2**64}",
    "/releases?before=x",
    "/releases?before=-1",
    f"/refusals?cause={'x' * 300}",
    "/refusals?cause=",
    f"/calculator?k={'9' * 100}",
    "/releases/%00",
    "/releases/a%0d%0aSet-Cookie:%20x",
    "/releases/%F0%9F%92%A3",
    f"/releases/{'a' * 200}",
)


@pytest.mark.parametrize("path", ABSENT)
def test_what_is_not_a_page_is_absent(served, path) -> None:
    answer = sent_raw(served, path.encode())
    assert re.match(r"HTTP/1.1 (404|422) ", answer), answer[:100]
    assert "root:" not in answer
    assert "import" not in answer


@pytest.mark.parametrize("path", MALFORMED)
def test_a_malformed_or_oversized_parameter_is_refused(served, path) -> None:
    for prefix in ("", "/api/v1", "/csv", "/report"):
        answer = served.get(prefix + path)
        assert answer.status_code in (404, 422), (prefix, answer.status_code)
        assert "set-cookie" not in answer.headers
        assert "x" * 50 not in answer.text


@pytest.mark.parametrize("address", [b"/?cause=\x9f3", b"/releases\xe2\x82\xac"])
def test_bytes_that_no_address_has_are_refused(served, address) -> None:
    assert sent_raw(served, address).split()[1] == "400"


def test_an_oversized_address_or_header_is_refused(served) -> None:
    assert served.get("/refusals?cause=" + "x" * 5_000).status_code == 414
    assert served.get("/", headers={"X-Long": "x" * 40_000}).status_code == 431
    for _ in range(3):
        assert served.get("/health").status_code == 200


@pytest.mark.parametrize(
    "asked",
    [
        "k=1e999&delta=1e-6&sampling_rate=0.1",
        "k=20&sampling_rate=0.1&delta=1e-99999",
        "k=nan&sampling_rate=0.1&delta=1e-6",
        "k=20&sampling_rate=%EF%BC%91&delta=1e-6",
        "k=20&sampling_rate=2&delta=1e-6",
        "k=20",
        "k=20&sampling_rate=0.1&epsilon=inf",
        "k=99999&sampling_rate=0.1&delta=1e-6",
        "k=20&sampling_rate=0.1&delta=1e-6&releases=99999999",
        "k=20.5&sampling_rate=0.1&delta=1e-6",
    ],
)
def test_the_calculator_takes_only_what_it_can_compute(served, asked) -> None:
    answer = served.get(f"/api/v1/calculator?{asked}")
    assert answer.status_code == 200
    assert answer.json()["why_not"]
    assert answer.json()["prices"] == []


@pytest.mark.slow
def test_every_answer_bears_the_security_headers(served, paths) -> None:
    for path in (*paths, "/nowhere", "/datasets/x", "/static/style.css", "/metrics", "/api/v1/overview"):
        headers = served.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "set-cookie" not in headers
        assert "server" not in headers
        text = served.get(path).text
        assert " style=" not in text
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', text), path


@pytest.mark.slow
def test_a_place_that_others_reach_needs_a_name_and_a_token(town, tmp_path) -> None:
    with pytest.raises(InputRefused, match="public-name"):
        Options(ledger_url=town.ledger, host="192.0.2.1")
    empty = tmp_path / "empty"
    empty.mkdir()
    words = [sys.executable, "-W", "ignore", "-m", "crowdblend.deploy"]
    environment = town.environment | {
        "CROWDBLEND_LEDGER": f"sqlite:///{empty / 'ledger.db'}",
        "CROWDBLEND_HOME": str(empty / "home"),
    }
    subprocess.run([*words, "ledger", "init"], env=environment, check=True, capture_output=True, timeout=300)
    refused = subprocess.run(
        [*words, "dashboard", "--port", "0", "--require-token"],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert refused.returncode == 2
    assert "no token that is valid" in refused.stderr


def test_the_log_names_nobody(guarded) -> None:
    running, copy, *_ = guarded
    secret = copy.token.split("-")[2]
    running.get("/releases/people-spring?before=5", headers=basic(copy.token, user="mallory"))
    running.get("/refusals?cause=secret-cause", headers=bearer(copy.token))
    time.sleep(0.3)
    text = running.log.read_text()
    for line in text.splitlines():
        assert {"time", "event"} <= json.loads(line).keys()
    for what in ("mallory", secret, "127.0.0.1", "people-spring", "secret-cause", "auditor"):
        assert what not in text, what
    assert '"/releases/{release_id}"' in text


def test_metrics_are_public_facts(served) -> None:
    text = served.get("/metrics").text
    assert "crowdblend_chain_sound 1" in text
    assert "people" not in text
    for line in text.splitlines():
        assert re.fullmatch(r"# TYPE \w+ \w+|\w+(\{[^}]*(\{\w+\})?[^}]*\})? [-+.\dna]+(e[-+]?\d+)?", line), line
