"""A release that was cut off goes on with the software that began it, whatever its version is called."""

from __future__ import annotations

import shutil

import pytest
from crowdblend.flows import software


def sources_that_differ(monkeypatch, folder) -> None:
    shutil.copytree(
        software.PACKAGES["mechanisms"], folder / "mechanisms", ignore=shutil.ignore_patterns("__pycache__")
    )
    with (folder / "mechanisms" / "kernel" / "sampling.py").open("a", encoding="utf-8") as file:
        file.write("# another line\n")
    monkeypatch.setattr(software, "PACKAGES", {**software.PACKAGES, "mechanisms": folder / "mechanisms"})


def library_that_differs(monkeypatch, folder) -> None:
    del folder
    real = software.version
    monkeypatch.setattr(software, "version", lambda name: "99" if name == "pyarrow" else real(name))


@pytest.mark.parametrize("changed", [sources_that_differ, library_that_differs])
def test_another_software_of_the_same_version_is_refused(desk, cut_off, monkeypatch, tmp_path_factory, changed) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    cut_off(spec)
    with monkeypatch.context() as other:
        software.sources_digest.cache_clear()
        changed(other, tmp_path_factory.mktemp("other"))
        answer = desk("run", spec, "--release-id", "one")
    software.sources_digest.cache_clear()
    assert answer.code == 3, answer.err
    assert "since then this changed: the software or a library of it." in answer.err
    desk.succeed("run", spec, "--release-id", "one")


def test_once_its_bytes_are_final_a_release_depends_on_no_code(desk, cut_off, monkeypatch) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    cut_off(spec, stage="publish")
    with monkeypatch.context() as other:
        library_that_differs(other, None)
        desk.succeed("run", spec, "--release-id", "one")
