"""The R package: it answers as Python does, finds what was changed, and passes R's own checks."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from crowdblend.analysis import load
from crowdblend.deploy.documents.document_registry import verified_release
from crowdblend.deploy.documents.sheet.facts import sheet_facts
from crowdblend.deploy.documents.sheet.render_sheet import kit_snippets
from crowdblend.mechanisms.kernel.errors import InputRefused
from support.r_package_vectors import (
    KEY,
    PACKAGE,
    RELEASES,
    SPECIFICATIONS,
    VECTORS,
    answer,
    hierarchy_answers,
    questions,
    rubin_answers,
)

CASES = PACKAGE.parents[1] / "tests" / "vectors" / "conformance" / "certificate"
UNSIGNED = ("bytes-", "file-", "folder-file-", "format-", "key-", "signature-", "unsigned-", "algorithm-", "sound")
"""Cases that a verifier of signatures and files alone must judge: in the others a publisher signs what is false."""
BASE = {"HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "_R_CHECK_FORCE_SUGGESTS_": "false"}
"""The packages that read Parquet, and openssl, are suggested and need not be there."""
SUGGESTED = ("jsonlite", "knitr", "mitools", "survey")


@pytest.fixture(scope="module")
def r_is_there(needs) -> None:
    needs(shutil.which("Rscript") is not None and shutil.which("openssl") is not None, "R", "CROWDBLEND_TEST_R")
    asked = f"stopifnot(lengths(lapply(c{SUGGESTED}, find.package, quiet = TRUE)) > 0)"
    there = subprocess.run(["Rscript", "-e", asked], capture_output=True, check=False).returncode == 0
    needs(there, f"one of R's packages {', '.join(SUGGESTED)}", "CROWDBLEND_TEST_R")


def run(folder: Path, *words: str | Path, **environment: str) -> str:
    """Run a command of R with none of this process's settings; what it said, or a failure with it."""
    settings = BASE | {"PATH": os.environ["PATH"], "TMPDIR": str(folder)} | environment
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
    return done.stdout


@pytest.fixture(scope="module")
def library(r_is_there, tmp_path_factory) -> Path:
    """A library of R with the package alone, installed from the repository."""
    folder = tmp_path_factory.mktemp("library")
    run(folder, "R", "CMD", "INSTALL", "--no-docs", "--no-test-load", f"--library={folder}", PACKAGE)
    return folder


def require_same(mine: Any, its: Any, place: object) -> None:
    if isinstance(its, float):
        assert math.isclose(mine, its, rel_tol=1e-9, abs_tol=1e-9), place
    elif isinstance(its, list):
        assert len(mine) == len(its), place
        for one, other in zip(mine, its, strict=True):
            require_same(one, other, place)
    elif isinstance(its, dict):
        assert mine.keys() == its.keys(), place
        for name in its:
            require_same(mine[name], its[name], (place, name))
    else:
        assert mine == its, place


@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_the_vectors_are_what_python_answers(name) -> None:
    release = load(RELEASES / name, public_key=RELEASES / KEY)
    written = json.loads(VECTORS.read_text(encoding="utf-8"))
    found = [question | {"answer": answer(release, question)} for question in questions(release)]
    require_same(json.loads(json.dumps(found)), written["releases"][name], name)
    require_same(rubin_answers(), written["rubin"], "rubin")
    assert hierarchy_answers() == written["hierarchies"]


def test_a_capped_count_has_a_mean_below_its_cap_alone() -> None:
    release = load(RELEASES / "members")
    for ask in (release.mean, release.quantile):
        with pytest.raises(InputRefused, match=r"'size' has the label '4 or more', which has no largest number"):
            ask("size")
        assert 1 <= ask("size", where={"size": ["1", "2", "3"]}).estimate <= 3


@pytest.mark.parametrize("asked", [range(4, 100), range(2, 10), range(5, 6), ["1", range(3, 5)]])
def test_a_range_that_reaches_into_a_capped_label_is_refused(asked) -> None:
    release = load(RELEASES / "members")
    for ask in (release.count, release.share, lambda where: release.share({"sex": "f"}, of=where)):
        with pytest.raises(InputRefused, match=r"no largest number.*range that ends at 4\."):
            ask({"size": asked})


def test_a_range_that_ends_at_a_cap_leaves_its_label_out() -> None:
    release = load(RELEASES / "members")
    assert release.count({"size": range(2, 4)}) == release.count({"size": ["2", "3"]})
    capped = release.count({"size": [range(3, 4), "4 or more"]})
    assert capped == release.count({"size": ["3", "4 or more"]})
    assert capped.estimate > release.count({"size": "3"}).estimate


def test_figures_of_members_say_whom_they_leave_out() -> None:
    release = load(RELEASES / "members")
    own = release.members
    assert own is not None
    said = "of a unit with more than 3 members only 3 are counted"
    for figure in (own.count(), own.share({"sex": "f"}), own.odds({"sex": "f"}), own.mean("age"), own.quantile("age")):
        assert figure.note.endswith(said)
    for frame in (own.table("sex"), own.mean("age", by="sex"), own.odds({"sex": "f"}, by="town", against="Basel")):
        assert frame["note"].str.endswith(said).all()
    assert own.odds({"sex": "f"}, against={"town": "Basel"}).note.endswith(said)
    assert said not in release.count().note


def test_the_page_says_how_many_questions_there_are() -> None:
    written = json.loads(VECTORS.read_text(encoding="utf-8"))
    number = sum(map(len, written["releases"].values())) + len(written["rubin"])
    page = (PACKAGE.parents[1] / "docs" / "analysis.md").read_text(encoding="utf-8")
    assert len(SPECIFICATIONS) == 9
    assert f"{number:,} questions about nine small releases" in page


def test_r_finds_each_change_and_refuses_in_words(library, tmp_path) -> None:
    shutil.copy(PACKAGE / "tests" / "verify.R", tmp_path)
    run(tmp_path, "Rscript", "verify.R", R_LIBS=str(library), LC_ALL="C")  # some machines have no other locale


@pytest.mark.slow
@pytest.mark.parametrize("name", ["named-pairs", "sample-with-margins", "noisy-histogram"])
def test_the_code_on_a_sheet_runs_in_r(library, tmp_path, name) -> None:
    shutil.copytree(RELEASES / name, tmp_path / name)
    [code] = [one.code for one in kit_snippets(sheet_facts(verified_release(RELEASES / name))) if one.language == "r"]
    (tmp_path / "sheet.R").write_text(code, encoding="utf-8")
    said = run(tmp_path / name, "Rscript", tmp_path / "sheet.R", R_LIBS=str(library), TMPDIR=str(tmp_path))
    assert "estimate" in said


@pytest.mark.slow
def test_r_judges_certificates_as_the_conformance_cases_say(library, tmp_path) -> None:
    cases = [case for case in sorted(CASES.iterdir()) if case.name.startswith(UNSIGNED)]
    assert len(cases) > 50
    code = """
    for (case in commandArgs(TRUE)) {
      keys <- file.path(case, "publisher.pem")
      holds <- tryCatch(
        crowdblend::cb_verify(file.path(case, "release"), if (file.exists(keys)) keys)$ok,
        cb_refusal = function(refusal) FALSE
      )
      cat(basename(case), holds, "\\n")
    }
    """
    (tmp_path / "judge.R").write_text(code)
    said = run(tmp_path, "Rscript", "judge.R", *cases, R_LIBS=str(library)).split()
    judged = dict(zip(said[::2], said[1::2], strict=True))
    assert judged == {case.name: str(json.loads((case / "case.json").read_bytes())["holds"]).upper() for case in cases}


@pytest.mark.slow
@pytest.mark.parametrize(("case", "said"), [("files-margins-unpaid", "margins"), ("label-unknown", "labels")])
def test_r_refuses_what_a_publisher_signs_falsely_of_tables(library, tmp_path, case, said) -> None:
    code = """
    folder <- commandArgs(TRUE)
    read <- function() crowdblend::cb_read(file.path(folder, "release"), file.path(folder, "publisher.pem"))
    cat(tryCatch({ read(); "read" }, cb_refusal = conditionMessage))
    """
    (tmp_path / "read.R").write_text(code)
    assert said in run(tmp_path, "Rscript", "read.R", CASES / case, R_LIBS=str(library))


@pytest.mark.slow
def test_the_package_passes_the_checks_of_r(r_is_there, tmp_path) -> None:
    """Its tests are among them: each answer of the vectors, and verify.R."""
    # The check would ask repositories which of the suggested packages there are; here is one that has none.
    index = tmp_path / "repository" / "src" / "contrib" / "PACKAGES"
    index.parent.mkdir(parents=True)
    index.write_text("")
    empty = ", ".join(f'{name} = "file://{tmp_path}/repository"' for name in ("CRAN", "BioCsoft", "BioCann", "BioCexp"))
    (tmp_path / "profile.R").write_text(f"options(repos = c({empty}))\n")
    run(tmp_path, "R", "CMD", "build", PACKAGE)
    [built] = tmp_path.glob("*.tar.gz")
    said = run(tmp_path, "R", "CMD", "check", "--no-manual", built, R_PROFILE=str(tmp_path / "profile.R"))
    [state] = [line for line in said.splitlines() if line.startswith("Status:")]
    assert "ERROR" not in state, said
    assert "WARNING" not in state, said
    assert " 0 answered otherwise" in (tmp_path / "crowdblend.Rcheck" / "tests" / "vectors.Rout").read_text()
