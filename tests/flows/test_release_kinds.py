"""What every kind of release promises, held over a table with a release of each.

Foreign tables are refused; a dry run says what a run charges and leaves nothing; what is charged is spent once, also by
a retry, which publishes the same bytes; a published release is looked up without its source; a draw that is damaged is
never made again; no records are a release too; a series pays once; every document is there or says why not.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.kernel.prices import registry
from crowdblend.accounting.kernel.prices.registry import kind_of, mechanism_record
from crowdblend.deploy.documents.document_registry import verified_release
from crowdblend.deploy.documents.sheet.facts import sheet_facts
from crowdblend.flows.releases.release_kind import (
    DEFAULT_KIND,
    KINDS,
    NoDocument,
    ReleaseKind,
    kind_of_mechanism,
    release_kind,
)
from crowdblend.flows.spec import EVERY_KIND, read_spec, spec_model
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.krandomization import KRandomization, flipped
from crowdblend.tasks.kernel.draws import stored_numbers
from crowdblend.tasks.readers.report_files import vector_table
from crowdblend.tasks.request import MetadataTexts, Request
from support.metadata_folder import check_formats, files_of, written_again
from support.stand_in_synthesizer import written as written_stand_in

PAGE = Path(__file__).resolve().parents[2] / "docs" / "specification.md"
BASE = '[release]\nname = "a"\noutput = "out"\n[data]\ndataset = "people"\nsource = "people.csv"\n'
TEXTS = {
    "sampling": "[sampling]\nrate = 0.1\n",
    "suppression": "[suppression]\nk = 20\n",
    "privacy": "[privacy]\ndelta = 1e-6\n",
    "selection": "[selection]\nepsilon = 0.1\n",
    "margins": "[margins]\n",
    "blocks": "[blocks]\nnumber = 2\n",
    "histogram": '[histogram]\nkind = "suppressed"\nk = 20\n',
    "points": '[points]\nkind = "suppressed"\nk = 20\ncells_per_side = 4\n',
    "deletion": "[deletion]\n",
    "answer": '[answer]\nkind = "count"\nepsilon = 0.5\n',
    "reports": '[reports]\nkind = "k-randomization"\nflip_probability = 0.25\nvalues = ["red", "blue"]\n',
    "synthetic": "[synthetic]\n",
    "unit": '[unit]\nby = "home"\n',
    "columns": '[columns.sex]\nvalues = ["F", "M"]\n',
    "cluster": '[cluster]\naddress = "tcp://scheduler:8786"\n',
}
TOGETHER = {
    "microdata": {"sampling", "suppression", "privacy", "selection", "margins", "unit", "columns", "cluster"},
    "histogram": {"sampling", "privacy", "unit", "columns", "cluster"},
    "points": {"sampling", "privacy", "columns", "cluster"},
    "answer": {"sampling", "unit", "columns", "cluster"},
    "deletion": {"suppression", "privacy", "selection", "margins", "blocks", "unit", "columns", "cluster"},
    "reports": {"privacy", "cluster"},
    "synthetic": {"privacy", "unit", "columns", "cluster"},
}


def refusal_of(tmp_path: Path, *tables: str) -> str:
    """What is said of a specification with these tables; empty where they go together and nothing else is wrong."""
    path = tmp_path / "spec.toml"
    path.write_text(BASE + "".join(TEXTS[name] for name in tables), encoding="utf-8")
    try:
        read_spec(path, output=None)
    except InputRefused as refused:
        return refused.message
    return ""


def go_together(*tables: str) -> bool:
    kinds = [name for name in tables if name in KINDS]
    if len(kinds) > 1:
        return False
    kind = kinds[0] if kinds else DEFAULT_KIND
    return all(name in TOGETHER[kind] for name in tables if name != kind)


@pytest.mark.parametrize(("first", "second"), [*combinations(TEXTS, 2)])
def test_two_tables_go_together_or_are_refused(tmp_path, first, second) -> None:
    for tables in ((first, second), (second, first)):
        said = refusal_of(tmp_path, *tables)
        assert ("exclude each other" in said) is not go_together(*tables), said
        if not go_together(*tables):
            assert any(f"spec.toml: [{name}]" in said for name in tables)


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_specification_with_one_foreign_table_is_refused(tmp_path, kind) -> None:
    whole = {
        "microdata": ("sampling", "suppression", "privacy", "columns"),
        "histogram": ("histogram", "sampling", "privacy", "columns"),
        "points": ("points", "sampling", "privacy", "columns"),
        "answer": ("answer", "sampling", "columns"),
        "deletion": ("deletion", "suppression", "privacy", "columns"),
        "reports": ("reports",),
        "synthetic": ("synthetic", "privacy", "columns"),
    }[kind]
    assert "exclude each other" not in refusal_of(tmp_path, *whole)
    for foreign in TEXTS.keys() - TOGETHER[kind] - ({kind} if kind != DEFAULT_KIND else KINDS.keys()):
        assert "exclude each other" in refusal_of(tmp_path, *whole, foreign)


def test_every_table_is_decided_upon_and_stands_on_the_page() -> None:
    allowed = {kind: release_kind(kind).allows | ({kind} - {DEFAULT_KIND}) for kind in KINDS}
    assert set(spec_model().model_fields) == set(TEXTS) | {"release", "data"} == EVERY_KIND.union(*allowed.values())
    lines = dict(re.findall(r"^- (\w+): (`\[.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    shown = {kind: set(re.findall(r"`\[(\w+)\]`", text)) for kind, text in lines.items()}
    assert shown == allowed


def test_an_empty_table_is_a_table(tmp_path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(BASE + TEXTS["reports"] + "[columns]\n", encoding="utf-8")
    with pytest.raises(InputRefused, match=r"\[columns\]: this table and \[reports\] exclude each other"):
        read_spec(path, output=None)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_found_by_its_name_and_by_what_it_charges(name) -> None:
    kind = release_kind(name)
    assert kind.name == name
    assert (kind.model is None) is (name == DEFAULT_KIND)
    assert {kind_of_mechanism_type(one).name for one in kind.mechanisms} == {name}


def kind_of_mechanism_type(mechanism: type) -> ReleaseKind:
    return kind_of_mechanism(object.__new__(mechanism))


def test_every_mechanism_that_is_priced_is_charged_by_a_kind() -> None:
    """All but a series of several mechanisms, which its registration charges."""
    charged = {one.kind for name in KINDS for one in release_kind(name).mechanisms}
    assert charged | {"mixed_series"} == set(registry.MECHANISM_KINDS)


@pytest.mark.parametrize("field", [field.name for field in fields(ReleaseKind)])
def test_a_kind_without_a_field_is_no_kind(field) -> None:
    given = {one.name: getattr(release_kind("histogram"), one.name) for one in fields(ReleaseKind)}
    ReleaseKind(**given)
    del given[field]
    with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{field}'"):
        ReleaseKind(**given)


HEAD = (
    '[release]\nname = "a"\noutput = "out"\nmetadata.license = "CC0-1.0"\n'
    '[data]\ndataset = "{dataset}"\nsource = "{source}"\nseparator = ";"\n'
)
COLOUR = '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevel = 0\n'
SAMPLED = "[sampling]\nrate = 0.3\n[privacy]\ndelta = 1e-6\n"
RELEASES = {
    "microdata": "[suppression]\nk = 20\n" + SAMPLED + COLOUR,
    "microdata of a drawn map": "[suppression]\nk = 20\n"
    + SAMPLED
    + '[selection]\nepsilon = 0.01\ndraw = "exponential"\n'
    + COLOUR.replace("level = 0\n", "")
    + "[columns.age]\ninterval = { lower = 0, upper = 100, widths = [2, 4, 8, 16, 32] }\n",
    "histogram": '[histogram]\nkind = "noisy"\nk = 20\nepsilon = 0.1\n' + SAMPLED + COLOUR,
    "histogram at unequal rates": '[histogram]\nkind = "suppressed"\nk = 20\n[privacy]\ndelta = 1e-3\n'
    + '[sampling]\ncolumn = "secret"\nrates = [0.2, 0.5]\n'
    + COLOUR,
    "points": '[points]\nkind = "noisy"\nk = 20\nepsilon = 0.1\ncells_per_side = 8\n'
    + SAMPLED
    + "[columns.age]\nbounds = { lower = 0, upper = 100 }\n",
    "answer": '[answer]\nkind = "count"\nepsilon = 0.1\nby = ["colour"]\n' + COLOUR,
    "deletion": "[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n" + COLOUR.replace("level = 0", "levels = [0, 1]"),
    "deletion with margins": "[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n[margins]\n"
    + COLOUR.replace("level = 0", "levels = [0, 1]"),
    "deletion of found pairs": "[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n"
    + '[margins]\npairs = "auto"\nnumber = 1\n'
    + COLOUR.replace("level = 0", 'levels = "auto"')
    + '[columns.age]\ninterval = { lower = 0, upper = 100, widths = [50] }\nlevels = "auto"\n',
    "deletion of a drawn chain": "[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n[selection]\nepsilon = 0.2\n"
    + "candidates = [{ colour = [0, 1] }, { colour = [1, 1] }]\n"
    + COLOUR.replace("level = 0\n", ""),
    "reports": '[reports]\nkind = "k-randomization"\nflip_probability = 0.25\nvalues = ["red", "blue"]\n',
    "synthetic": "[synthetic]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n"
    + COLOUR
    + "[columns.age]\ninterval = { lower = 0, upper = 100, widths = [50] }\nlevel = 1\n",
}
"""A release of each kind: of the desk's people, or of reports."""
EACH = [pytest.param(name, marks=() if name == "microdata" else pytest.mark.slow) for name in RELEASES]


def written(desk, name: str) -> Path:
    """A specification, what it reads, and a budget that pays for it."""
    of_reports = RELEASES[name].startswith("[reports]")
    dataset, source = ("phones", "reports.parquet") if of_reports else ("people", "people.csv")
    relation = ("--relation", "replacement") if of_reports else ()
    desk.succeed("dataset", "add", dataset, *relation, "--epsilon", "30", "--delta", "0.1")
    if of_reports:
        mechanism = KRandomization(bits=2, flip_probability=Decimal("0.25"))
        originals = np.array([1] * 500 + [2] * 300, dtype=np.uint32)
        reports = flipped(mechanism, originals, randomness=np.random.default_rng(6).bytes)
        pq.write_table(vector_table(reports), desk.folder / source)
    path = desk.folder / "released.toml"
    path.write_text(HEAD.format(dataset=dataset, source=source) + RELEASES[name], encoding="utf-8")
    return path


@pytest.mark.parametrize("name", EACH)
def test_a_release_is_charged_as_told_once_and_a_retry_publishes_the_same(desk, two_attempts, name) -> None:
    check_release(desk, two_attempts, name)


@pytest.fixture(autouse=True)
def stand_in(tmp_path, monkeypatch) -> None:
    """Draws synthetic rows, other ones each time."""
    monkeypatch.setenv("CROWDBLEND_SYNTHESIZER", str(written_stand_in(tmp_path)))


def books(desk) -> tuple[dict, list[dict]]:
    """The data set's account and its releases."""
    shown = desk("ledger", "show", "--json").json
    [dataset] = shown["datasets"]
    return dataset, shown["releases"]


def check_release(desk, two_attempts, name: str) -> Path:
    """Look at a release before its charge, cut it off, run it again, look it up, and ask for its documents."""
    spec = written(desk, name)
    kind, request = release_kind(name.split(maxsplit=1)[0]), read_spec(spec, output=None)
    looked = desk.succeed("run", spec, "--dry-run", "--json").json
    assert books(desk)[1] == [], "a dry run leaves nothing"
    assert not (desk.home / "releases").exists()
    first, second = two_attempts(spec)
    assert first == second
    dataset, [entry] = books(desk)
    assert (entry["stage"], looked["charge"]["epsilon"]) == ("published", entry["epsilon"])
    assert dataset["epsilon_spent"] == entry["epsilon"]
    check_draws(desk, kind, request, drawn_map="map" in name or "chain" in name)
    check_published(desk, request)
    check_documents(desk, spec, kind, request)
    (desk.folder / request.source).unlink()
    desk.succeed("run", spec, "--release-id", "one")  # it is looked up: there is nothing to read
    spec.write_text(spec.read_text().replace('name = "a"', 'name = "b"'))
    desk.refuse("run", spec, "--release-id", "one", code=3, said="another specification")
    assert books(desk)[0] == dataset
    return spec


def check_draws(desk, kind: ReleaseKind, request: Request, *, drawn_map: bool) -> None:
    """What was drawn is stored, in private, and nothing else."""
    draws = {path.name for path in desk.home.rglob("*.draw.json") if path.stat().st_mode & 0o777 == 0o600}
    levels = [tuple(json.loads(path.read_text())["levels"]) for path in desk.home.rglob("map.draw.json")]
    protection = kind.protection(request, levels[0] if levels else None)
    assert isinstance(protection, kind_of(request.mechanism).protections)
    names = [("noise.draw.json", protection.drawn), ("map.draw.json", drawn_map)]
    assert draws == {name for name, stored in names if stored}
    if protection.drawn:
        [stored] = desk.home.rglob("noise.draw.json")
        assert protection.fits(stored_numbers(json.loads(stored.read_text())["numbers"]))
    assert desk.home.stat().st_mode & 0o777 == 0o700
    assert not list(desk.home.glob("releases/**/*.key")), "the key has gone"


def check_published(desk, request: Request) -> None:
    """It is signed, tells the day alone and nothing of where the records lie."""
    out = desk.folder / "out"
    assert desk("verify", out, "--json").json["signed_by"] == desk("key", "show", "--json").json["current"]
    desk.succeed("ledger", "verify")
    assert request.source not in (out / "certificate.json").read_text()
    assert {path.stat().st_mtime % 86_400 for path in out.iterdir()} == {0}
    check_formats(out)
    again = written_again(out, desk.folder / "again", texts=MetadataTexts(license="CC0-1.0"))
    assert files_of(out / "metadata") == again
    assert b"A figure that the mechanism publishes" not in again["data-dictionary.md"]


def check_documents(desk, spec: Path, kind: ReleaseKind, request: Request) -> None:
    out = desk.folder / "out"
    assert desk("explain", spec, "--json").json["maps"] >= 1
    explained, record = desk("explain", spec).out, mechanism_record(request.mechanism)
    assert [word for word in kind.meanings if word in record and word not in explained] == []
    form = json.loads((out / "certificate.json").read_text())["published"]["form"]
    sheet = desk("sheet", out, "--output", desk.folder / "sheets")
    untold = isinstance(kind.sheet(request.mechanism, form), NoDocument)
    assert (sheet.code, "there is no sheet of" in sheet.err) == ((2, True) if untold else (0, False)), sheet.err
    preview = desk("preview", spec, "--release", out)
    predicted = kind.preview(request.mechanism)
    # Of a chain's own release all is known at its last levels alone: its finer stages can't be predicted from it.
    chained = request.kind == "deletion"
    assert preview.code == (2 if predicted is None or isinstance(predicted, NoDocument) or chained else 0), preview.err
    assert ("there is no preview of" in preview.err) is isinstance(predicted, NoDocument)
    assert ("this release suppresses nothing" in preview.err) is (predicted is None)


DRAWN = [name for name in RELEASES if name not in ("microdata", "histogram at unequal rates", "reports")]


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_a_stored_draw_that_is_damaged_or_of_another_release_is_never_made_again(desk, cut_off, name) -> None:
    spec = written(desk, name)
    cut_off(spec)
    [*draws] = desk.home.rglob("*.draw.json")
    assert draws
    for path in draws:
        kept = json.loads(path.read_text())
        others = [kept | {key: "0" * 64} for key, value in kept.items() if isinstance(value, str)]
        empty = kept | {key: [] for key, value in kept.items() if not isinstance(value, str)}
        for damage in ("", "[]", "{}", *map(json.dumps, [empty, *others])):
            path.write_text(damage)
            desk.refuse("run", spec, "--release-id", "one", code=1, said="never drawn again")
        path.write_text(json.dumps(kept))
    assert not (desk.folder / "out").exists()
    desk.succeed("abandon", "one", "--reason", "a test")
    assert not list(desk.home.rglob("*.draw.json"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RELEASES if name != "reports"])
def test_no_records_are_a_release_too(desk, name) -> None:
    spec = written(desk, name)
    (desk.folder / "people.csv").write_text("colour;age;town;secret\n")
    result = desk.succeed("run", spec, "--json").json
    assert name in DRAWN or result["published_records"] == 0
    desk.succeed("verify", result["certificate"])


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASES)
def test_a_series_pays_once_for_releases_of_their_own_samples_or_there_is_none(desk, name) -> None:
    spec = written(desk, name)
    added = desk("series", "add", "monthly", spec, "--releases", "2", "--json")
    if not release_kind(name.split(maxsplit=1)[0]).series:
        assert (added.code, "Charge each release for itself" in added.err) == (2, True), added.err
        return
    assert added.code == 0, added.err
    for number, month in enumerate(("january", "february"), start=1):
        result = desk.succeed("run", spec, "--series", "monthly", "--output", month, "--json").json
        assert result["series"] == {"name": "monthly", "number": number, "releases": 2}
        assert result["epsilon"] == added.json["epsilon"]
        guarantee = json.loads(Path(result["certificate"]).read_text())["guarantee"]
        assert "this is one release of a series" in guarantee["in_words"].lower()
        desk.succeed("verify", result["certificate"])
    dataset, releases = books(desk)
    assert len({release["sample_id"] for release in releases}) == 2
    for draw in {path.name for path in desk.home.rglob("*.draw.json")}:
        assert len(list(desk.home.rglob(draw))) == 2, "each release draws for itself"
    desk.refuse("run", spec, "--series", "monthly", "--output", "march", code=3, said="all its 2 releases are taken")
    assert dataset["epsilon_spent"] == added.json["epsilon"]
    desk.succeed("ledger", "verify")


@pytest.mark.slow
def test_a_column_of_labels_may_be_called_as_another_kind_calls_its_figures(desk) -> None:
    people = desk.folder / "people.csv"
    people.write_text(people.read_text().replace("colour;", "standard_error;", 1))
    spec = written(desk, "microdata")
    spec.write_text(spec.read_text().replace("columns.colour", "columns.standard_error"))
    done = desk("run", spec, "--json")
    assert done.code == 0, done.err
    [column] = sheet_facts(verified_release(Path(done.json["output"]))).columns
    assert (column.name, column.labels) == ("standard_error", 3)
