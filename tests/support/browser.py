"""A real headless Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser(needs: Callable[[bool, str, str], None]) -> Iterator[object]:
    """A real headless Chromium, by way of Playwright; no page reaches beyond this machine."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    needs(program is not None, "Chromium", "CROWDBLEND_TEST_BROWSER")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, headless=True, args=BROWSER_ARGUMENTS)
        yield started
        started.close()
