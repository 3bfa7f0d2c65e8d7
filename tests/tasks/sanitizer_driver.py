"""Run the fuzz tests on a page decoder that was built elsewhere: `MODULE WORD…`, the words being pytest's."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ExtensionFileLoader

import pytest

NAME = "crowdblend.tasks.readers.page_decoder"


def main(module: str, words: list[str]) -> int:
    """Pytest's exit code; the decoder at `module` takes the place of the installed one."""
    loader = ExtensionFileLoader(NAME, module)
    spec = importlib.util.spec_from_file_location(NAME, module, loader=loader)
    if spec is None:
        raise RuntimeError(f"{module} is not an extension")
    decoder = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = decoder
    loader.exec_module(decoder)
    import crowdblend.tasks.readers

    crowdblend.tasks.readers.page_decoder = decoder
    code = int(pytest.main(words))
    from crowdblend.tasks.readers import sampled_pages

    if sampled_pages.page_decoder is not decoder:
        raise RuntimeError("the tests ran on another decoder")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
