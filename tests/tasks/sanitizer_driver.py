"""Run tests on a compiled reader that was built elsewhere: `MODULE WORD…`, the words being pytest's."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

import pytest

READERS = "crowdblend.tasks.readers"


def main(module: str, words: list[str]) -> int:
    """Pytest's exit code; the decoder at `module` takes the place of the installed one."""
    own = Path(module).name.partition(".")[0]
    name = f"{READERS}.{own}"
    loader = ExtensionFileLoader(name, module)
    spec = importlib.util.spec_from_file_location(name, module, loader=loader)
    if spec is None:
        raise RuntimeError(f"{module} is not an extension")
    decoder = importlib.util.module_from_spec(spec)
    sys.modules[name] = decoder
    loader.exec_module(decoder)
    setattr(importlib.import_module(READERS), own, decoder)
    code = int(pytest.main(words))
    from crowdblend.tasks.readers import csv_quotes, sampled_pages

    if decoder not in (sampled_pages.page_decoder, csv_quotes.csv_decoder):
        raise RuntimeError("the tests ran on another decoder")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
