"""A real studio in a process of its own, with records, a ledger and a browser that is led through its pages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from lxml import html
from support.desk import StewardFolder

SECONDS = 60


class FormClient(httpx.Client):
    """A client that looks at a page before it sends its form, and sends its hidden fields too, as a browser does."""

    def hidden(self, path: str) -> dict[str, str]:
        """The hidden fields of a page; of the run's, once what it would charge is computed."""
        for _ in range(10 * SECONDS):
            text = self.get(path).text
            if path != "/run" or "data-computing" not in text:
                break
            time.sleep(0.1)
        return {one.name: one.value for one in html.fromstring(text).xpath("//form/input[@type='hidden']")}

    def post(self, path: str, **sent) -> httpx.Response:
        if "data" in sent:
            sent["data"] = self.hidden(path) | sent["data"]
        return super().post(path, **sent)

    def send_form(self, path: str, form: dict[str, str]) -> httpx.Response:
        """Send a form as it was when its page was looked at."""
        return super().post(path, data=form)


@dataclass
class StudioProcess(StewardFolder):
    """A studio that is started, killed and started again in one folder."""

    process: subprocess.Popen[str] | None = None
    address: str = ""
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    options: tuple[str, ...] = ()

    @property
    def place(self) -> Path:
        return self.folder / "studio"

    @property
    def draft(self) -> Path:
        return self.place / "draft.toml"

    @property
    def url(self) -> str:
        return self.address.partition("/enter")[0]

    @property
    def token(self) -> str:
        return self.address.partition("token=")[2]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CROWDBLEND_")}
        return kept | self.settings

    def start(self) -> None:
        words = ["studio", "--port", "0", "--no-browser", "--folder", str(self.place), *self.options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crowdblend.deploy", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(self.process)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line + self.process.stdout.read()
        self.address = found[0]

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(SECONDS)

    def client(self) -> FormClient:
        """Who has entered: the cookie of the one-time token, and the origin that a browser would send."""
        client = FormClient(base_url=self.url, headers={"origin": self.url}, timeout=SECONDS)
        assert client.get(f"/enter?token={self.token}").status_code == 200
        return client

    def client_of(self, context) -> FormClient:
        """A client with the session of a browser that has entered."""
        cookies = {one["name"]: one["value"] for one in context.cookies()}
        return FormClient(base_url=self.url, headers={"origin": self.url}, cookies=cookies, timeout=SECONDS)


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[StudioProcess]:
    made = StudioProcess(folder=tmp_path)
    made.start()
    yield made
    for process in made.started:
        process.kill()
        process.wait(SECONDS)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def entered(studio: StudioProcess) -> Iterator[FormClient]:
    client = studio.client()
    yield client
    client.close()


@pytest.fixture
def people(studio: StudioProcess) -> Path:
    """Records of three columns, spread evenly over a few groups."""
    path = studio.folder / "people.csv"
    lines = [f"{('blue', 'green', 'red')[i % 3]},{20 + 10 * (i % 4)},{i}" for i in range(6_000)]
    path.write_text("\n".join(["colour,age,person_id", *lines]) + "\n", encoding="utf-8")
    return path


@dataclass
class Walk:
    """A browser that is led by clicks and typing alone."""

    page: object
    studio: StudioProcess

    def enter(self) -> None:
        self.page.goto(self.studio.address)
        self.page.wait_for_url("**/dataset")

    def open(self, path: str) -> None:
        self.page.goto(self.studio.url + path)

    def fill(self, **fields: str) -> None:
        for name, value in fields.items():
            place = self.page.locator(f"#field-{name.replace('__', '-')}")
            if place.evaluate("one => one.tagName") == "SELECT":
                place.select_option(value)
            else:
                place.fill(value)

    def press(self, name: str) -> None:
        """Press a button, and wait for the page that comes of it."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=name, exact=True).first.click()

    @property
    def path(self) -> str:
        return self.page.url.removeprefix(self.studio.url)

    def wrong_at(self, name: str) -> list[str]:
        """What is said to be wrong at a field, as assistive technology finds it."""
        ids = self.page.locator(f"#field-{name}").get_attribute("aria-describedby") or ""
        told = [one for one in ids.split() if one.startswith("wrong-")]
        return [" ".join(self.page.locator(f"#{one}").inner_text().split()) for one in told]

    def until(self, selector: str, *, seconds: int = SECONDS) -> None:
        self.page.wait_for_selector(selector, timeout=1_000 * seconds)


@pytest.fixture
def walk(browser, studio: StudioProcess) -> Iterator[Walk]:
    context = browser.new_context(locale="en-GB")
    yield Walk(page=context.new_page(), studio=studio)
    context.close()


@pytest.fixture
def declare() -> Callable[[httpx.Client, Path], None]:
    """Lead a client without a browser to a draft that can be run."""

    def to_the_review(client: httpx.Client, records: Path) -> None:
        for path, form in (
            ("/dataset", {"do": "add", "new_dataset": "people", "budget_epsilon": "5", "budget_delta": "1e-4"}),
            ("/file", {"source": str(records), "records": "6000"}),
            ("/columns", {"role-0": "release", "role-1": "release", "role-2": "leave"}),
            ("/columns/0", {"form": "values", "text": "blue\ngreen\nred"}),
            ("/columns/1", {"form": "interval", "lower": "0", "upper": "100", "widths": "10, 50"}),
        ):
            answer = client.post(path, data=form)
            assert answer.status_code == 303, answer.text

    return to_the_review


@pytest.fixture
def entered_walk(walk: Walk, studio: StudioProcess) -> Iterator[FormClient]:
    """A client with the session of the browser that has entered."""
    walk.enter()
    client = studio.client_of(walk.page.context)
    yield client
    client.close()


@pytest.fixture
def command_line(studio: StudioProcess) -> Callable[..., str]:
    """The command line in the studio's folder, on its ledger."""

    def run(*words: str | Path) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", "crowdblend.deploy", *map(str, words)],
            cwd=studio.folder,
            env=studio.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=5 * SECONDS,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


@pytest.fixture
def whole() -> Callable[[httpx.Client, str], str]:
    """A page, once what is computed for it in the background is there."""

    def text_of(client: httpx.Client, path: str) -> str:
        for _ in range(10 * SECONDS):
            answer = client.get(path)
            assert answer.status_code == 200, answer.text
            if "data-computing" not in answer.text:
                return answer.text
        raise AssertionError(path)

    return text_of
