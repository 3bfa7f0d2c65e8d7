"""The folder of metadata: valid, a function of what is published, verified with it, in view with it or not at all."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.prices.registry import mechanism_of_record
from crowdblend.mechanisms.kinds.deletion_noise import WEIGHT_TOTAL, deletion_weights
from crowdblend.tasks.request import MetadataTexts
from lxml import etree
from support.metadata_folder import (
    DDI,
    check_croissant,
    check_csvw,
    check_formats,
    files_of,
    written_again,
)

TABLE = """
[release.metadata]
title = "People & <friends> | 2026"
description = "Who lives where."
publisher = "Office of Statistics"
license = "CC-BY-4.0"
url = "https://data.example.org/people"
"""
TEXTS = MetadataTexts(
    title="People & <friends> | 2026",
    description="Who lives where.",
    publisher="Office of Statistics",
    license="CC-BY-4.0",
    url="https://data.example.org/people",
)


def described_spec(desk, *, table: str = TABLE, **changes: str) -> Path:
    return desk.write_spec(edit=lambda text: text.replace("[data]", f"{table}\n[data]", 1), **changes)


@pytest.fixture
def release(desk) -> Path:
    desk.add_dataset()
    desk.succeed("run", described_spec(desk, file_format="csv", form="counts"))
    return desk.folder / "out"


def test_a_release_in_csv_is_described_in_four_formats_and_from_nothing_but_what_is_published(desk, release) -> None:
    check_formats(release)
    rows = check_csvw(release / "metadata" / "csvw.json", {"data": ["colour", "age", "town", "count"]})
    assert {type(row["count"]) for row in rows} == {int}
    [first, *_] = check_croissant(release / "metadata" / "croissant.json", {"data": list(rows[0])})
    assert (first["data/colour"], first["data/count"]) == (rows[0]["colour"].encode(), rows[0]["count"])
    assert written_again(release, desk.folder / "again", texts=TEXTS) == files_of(release / "metadata")
    said = (release / "metadata" / "data-dictionary.md").read_text()
    assert "# People \\& \\<friends\\> \\| 2026\n" in said
    assert "**South**: Lyon, Marseille." in said
    croissant = json.loads((release / "metadata" / "croissant.json").read_text())
    certificate = json.loads((release / "certificate.json").read_text())
    assert certificate["files"].keys() == {
        "data.csv",
        *(f"metadata/{name}" for name in files_of(release / "metadata")),
    }
    assert [file["sha256"] for file in croissant["distribution"]] == [certificate["files"]["data.csv"]]
    book = etree.parse(release / "metadata" / "ddi-codebook.xml")
    assert book.findtext(f".//{DDI}titl") == "People & <friends> | 2026"
    assert [one.text for one in book.iterfind(f".//{DDI}var[@name='town']/{DDI}catgry/{DDI}catValu")] == [
        "*",
        "North",
        "South",
    ]


@pytest.mark.parametrize(
    "harm",
    [
        "changed",
        "added",
        *(pytest.param(harm, marks=pytest.mark.slow) for harm in ("missing", "linked", "below", "empty")),
    ],
)
def test_verification_finds_what_was_done_to_the_folder(desk, release, harm) -> None:
    assert desk("verify", release).code == 0
    folder = release / "metadata"
    one = folder / "croissant.json"
    match harm:
        case "changed":
            one.write_text(one.read_text().replace("CC-BY-4.0", "CC0-1.0"))
        case "missing":
            one.unlink()
        case "added":
            (folder / "more.json").write_text("{}")
        case "linked":
            shutil.copytree(folder, desk.folder / "elsewhere")
            shutil.rmtree(folder)
            folder.symlink_to(desk.folder / "elsewhere")
        case "below":
            (folder / "more").mkdir()
            (folder / "more" / "x").write_text("")
        case "empty":
            (release / "more").mkdir()
    answer = desk.refuse("verify", release, "--json", code=1)
    named = {"changed": one.name, "missing": one.name, "added": "more.json", "linked": "metadata", "below": "more"}
    assert any(named.get(harm, "more") in finding for finding in answer.json["findings"])


@pytest.mark.slow
def test_what_is_not_said_is_not_there_and_neither_is_the_folder_without_the_table(desk) -> None:
    desk.add_dataset()
    desk.succeed("run", described_spec(desk, table="metadata = {}\n"))
    check_formats(desk.folder / "out")
    croissant = json.loads((desk.folder / "out" / "metadata" / "croissant.json").read_text())
    assert croissant.keys() & {"license", "url", "creator", "alternateName"} == set()
    desk.succeed("run", desk.write_spec(output="plain"))
    assert sorted(path.name for path in (desk.folder / "plain").iterdir()) == ["certificate.json", "data.parquet"]


def test_what_nobody_may_know_is_not_there(desk, release) -> None:
    """No file of the folder has the number of records, what the private store knows, or a time but the day's."""
    everything = b"".join(files_of(release / "metadata").values()).decode()
    records = len((desk.folder / "people.csv").read_text().splitlines()) - 1
    for secret in (str(desk.folder), f"{records:,}", f">{records}<", "secret", "people.csv"):
        assert secret not in everything
    times = {path.stat().st_mtime for path in [*release.rglob("*"), release]}
    assert len(times) == 1
    assert times.pop() % 86_400 == 0


@pytest.mark.slow
def test_a_release_that_is_cut_off_before_it_is_in_view_comes_with_its_folder(desk, cut_off) -> None:
    desk.add_dataset()
    spec = described_spec(desk)
    cut_off(spec, stage="publish")
    assert not (desk.folder / "out").exists()
    [staged] = desk.folder.glob(".out.crowdblend-*")
    before = files_of(staged / "metadata")
    desk.succeed("run", spec, "--release-id", "one")
    assert files_of(desk.folder / "out" / "metadata") == before
    assert desk("run", spec, "--release-id", "one").code == 0
    assert desk("verify", desk.folder / "out").code == desk("ledger", "verify").code == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('title = "two\\nlines"', "no line break"),
        ('url = "ftp://example.org"', "[release.metadata].url"),
        ('url = "https://example.org/a b"', "[release.metadata].url"),
        ('license = ""', "[release.metadata].license"),
        ('licence = "CC0-1.0"', "Did you mean license?"),
    ],
)
def test_words_that_no_format_can_have_are_refused_before_anything_is_charged(desk, line, said) -> None:
    desk.add_dataset()
    desk.refuse("run", described_spec(desk, table=f"[release.metadata]\n{line}\n"), said=said)
    assert desk("ledger", "show", "--json").json["releases"] == []


@pytest.mark.slow
def test_margins_and_files_of_statistics_packages_are_described_too(desk) -> None:
    desk.add_dataset(epsilon="30", delta="0.1")
    spec = desk.folder / "kept.toml"
    spec.write_text(
        '[release]\nname = "kept"\noutput = "out"\nformat = "csv"\nform = "counts"\n'
        'also = ["sav", "dta"]\nmetadata = {}\n'
        '[data]\ndataset = "people"\nsource = "people.csv"\nseparator = ";"\n[deletion]\n[margins]\n'
        "[privacy]\nepsilon = 2\ndelta = 1e-3\n"
        '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevels = [0, 1]\n'
    )
    desk.succeed("run", spec)
    check_formats(desk.folder / "out")
    book = etree.parse(desk.folder / "out" / "metadata" / "ddi-codebook.xml")
    [weight] = book.iterfind(f".//{DDI}var[@name='weight']")
    assert weight.get("wgt") == "wgt"
    meaning = weight.findtext(f"{DDI}txt")
    certificate = json.loads((desk.folder / "out" / "certificate.json").read_text())
    noise = mechanism_of_record(certificate["mechanism"]).noise
    people = next(n for n in range(10_000) if sum(deletion_weights(noise)[: n + 1]) == WEIGHT_TOTAL) + 1  # k is 1
    assert f"at least {people} people left for it add up to their number on average" in meaning
    assert "A smaller one is missing, or overstated where it is in the table" in meaning
    assert "raked to the margins" in meaning
    croissant = json.loads((desk.folder / "out" / "metadata" / "croissant.json").read_text())
    assert {file["name"] for file in croissant["distribution"]} == {
        f"{stem}.{ending}" for stem in ("data", "margins") for ending in ("csv", "sav", "dta")
    }
    assert desk("verify", desk.folder / "out").code == 0


@pytest.mark.slow
def test_the_shell_verifier_knows_the_folder(desk, release) -> None:
    script = Path(__file__).resolve().parents[2] / "examples" / "verify-a-release" / "verify-release.sh"
    desk.succeed("key", "export", desk.folder / "key.pem")

    def verified() -> int:
        words = ["sh", script, release, desk.folder / "key.pem"]
        return subprocess.run(words, check=False, capture_output=True).returncode

    assert verified() == 0
    (release / "metadata" / "more").write_text("")
    assert verified() == 1
    (release / "metadata" / "more").unlink()
    (release / "empty").mkdir()
    assert verified() == 1
