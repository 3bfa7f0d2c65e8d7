"""A test that fails on every product; pytest collects it only where it is named, as the runner's own test does."""

from __future__ import annotations

import pytest


def test_that_always_fails() -> None:
    pytest.fail("it always fails")
