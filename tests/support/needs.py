"""What a test needs of the machine."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def needs() -> Callable[[bool, str, str], None]:
    """What a test needs of the machine: whether it is there, what it is, and the switch of those who go without."""

    def need(there: bool, what: str, switch: str) -> None:
        if there:
            return
        if os.environ.get(switch) == "off":
            # Whoever hasn't got it has said so; the checks set no switch, and fail below.
            pytest.skip(f"{switch}=off says that {what} is known to be missing")
        pytest.fail(f"{what} is missing; install it, or set {switch}=off to leave untested what needs it")

    return need
