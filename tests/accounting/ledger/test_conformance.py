"""Our verifier judges every committed conformance case as it must be; the cases are those of their program."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from crowdblend.accounting.descriptions.description_registry import description_of_record
from crowdblend.accounting.kernel.ledger.entries import ENTRY_TYPES
from crowdblend.accounting.kernel.prices.registry import MECHANISM_KINDS

PROJECT = Path(__file__).resolve().parents[3]
CONFORMANCE = PROJECT / "tests" / "vectors" / "conformance"
CASES = {str(path.parent.relative_to(CONFORMANCE)): path.parent for path in sorted(CONFORMANCE.glob("*/*/case.json"))}
LARGEST = 48 << 10


def program(name: str) -> ModuleType:
    """A program of the conformance cases as a module."""
    spec = importlib.util.spec_from_file_location(f"conformance_{name}", CONFORMANCE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_our_verifier_judges_each_case_as_it_must_be() -> None:
    verdict = program("crowdblend_verifier").verdict
    wrong = {}
    for name, case in CASES.items():
        stated, found = json.loads((case / "case.json").read_bytes()), verdict(case)
        if (found == ()) is not stated["holds"]:
            wrong[name] = (stated["why"], found)
    assert not wrong


def test_a_verifier_written_from_the_formats_agrees_on_every_certificate() -> None:
    """It shares no code with ours, and gives no answer where a series' price would have to be computed."""
    second = program("second_verifier")
    source = (CONFORMANCE / "second_verifier.py").read_text(encoding="utf-8")
    assert not re.search(r"^\s*(from|import) (crowdblend|\.|numpy|scipy)", source, re.MULTILINE)
    wrong, undecided = {}, set()
    for name, case in CASES.items():
        if not name.startswith("certificate/"):
            continue
        try:
            second.check(case)
            holds, said = True, ""
        except second.RefusedError as refused:
            holds, said = False, str(refused)
        except second.UndecidedError:
            undecided.add(name)
            continue
        if holds is not json.loads((case / "case.json").read_bytes())["holds"]:
            wrong[name] = said
    assert wrong == {}
    assert undecided == {"certificate/sound-of-a-series", "certificate/series-more-releases"}
    assert second.main(CASES["certificate/sound"]) == 0
    assert second.main(CASES["certificate/epsilon-lower"]) == 1
    assert second.main(CASES["ledger/sound"]) == 3


def test_there_are_sound_and_forged_cases_of_certificates_and_of_ledgers() -> None:
    stated = {name: json.loads((case / "case.json").read_bytes()) for name, case in CASES.items()}
    counts = Counter((name.partition("/")[0], one["holds"]) for name, one in stated.items())
    assert counts["certificate", True] >= 10
    assert counts["certificate", False] >= 60
    assert counts["ledger", True] >= 6
    assert counts["ledger", False] >= 60
    for name, one in stated.items():
        assert one.keys() == {"holds", "why"}
        assert re.fullmatch(r"\S[^\n]{9,150}\.", one["why"]), name
        assert ("sound" in name.partition("/")[2]) is one["holds"], name


@pytest.mark.slow
def test_the_cases_are_those_that_their_program_writes(tmp_path) -> None:
    assert program("write").write_all(tmp_path) == len(CASES)
    written, committed = (
        {
            str(path.relative_to(root)): path.read_bytes()
            for group in ("certificate", "ledger")
            for path in sorted((root / group).rglob("*"))
            if path.is_file()
        }
        for root in (tmp_path, CONFORMANCE)
    )
    assert written.keys() == committed.keys()
    assert [name for name, content in written.items() if committed[name] != content] == []
    assert max(map(len, committed.values())) < LARGEST


def run(only: str, *command: str) -> tuple[int, str]:
    words = [sys.executable, str(CONFORMANCE / "run.py"), "--only", only, *command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.slow
def test_a_verifier_is_run_by_the_protocol() -> None:
    """Ours over one sound and one forged case; and verifiers that accept, refuse, or say nothing."""
    ours = (sys.executable, str(CONFORMANCE / "crowdblend_verifier.py"))
    assert run("token-revoked-twice", *ours) == (0, "1 of 1 cases as they must be\n")
    assert run("ledger/sound-one-entry", *ours) == (0, "1 of 1 cases as they must be\n")
    accepting, silent = 'echo \'{"holds": true, "findings": []}\'', "exit 1"
    code, said = run("ledger/token-", "sh", "-c", accepting)
    assert code == 1
    assert said.count("accepted, and must be refused") == 4
    code, said = run("ledger/token-", "sh", "-c", silent)
    assert code == 1
    assert said.count("no answer by the protocol (exit code 1)") == 4
    code, said = run("ledger/sound-one", "sh", "-c", 'echo \'{"holds": false, "findings": ["no"]}\'; exit 1')
    assert (code, said.splitlines()[0]) == (1, "ledger/sound-one-entry: refused: no")
    assert run("no-such-case", "sh", "-c", accepting) == (1, "0 of 0 cases as they must be\n")


def test_the_page_names_every_entry_with_its_fields() -> None:
    page = (PROJECT / "docs" / "formats" / "ledger.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w/-]+)` \| (.+) \|$", page, re.MULTILINE))
    assert rows.keys() == ENTRY_TYPES.keys()
    for kind, cls in ENTRY_TYPES.items():
        assert re.findall(r"`(\w+)`", rows[kind]) == sorted(one.name for one in dataclasses.fields(cls)), kind


def test_the_page_names_every_rule_of_a_price() -> None:
    page = (PROJECT / "docs" / "formats" / "prices.md").read_text(encoding="utf-8")
    rules = {rule for line in MECHANISM_KINDS.values() for rule in description_of_record(line.records[0]).theorems}
    unnamed = {rule.removeprefix("selected-") for rule in rules if f"`{rule.removeprefix('selected-')}`" not in page}
    assert unnamed == {"lqs-theorem-3.9/1"}  # it was never charged: it is the published bound
