"""A published table isn't read as records: its people would count twice at the price of once."""

from __future__ import annotations

import os
import shutil

import fsspec
import pytest

SAID = ("is a published release", "copy that to a folder elsewhere", "Nothing was read, written or charged.")


@pytest.fixture
def published(desk):
    """A desk with a release in `d/rel`, and records in `d/new`."""
    desk.add_dataset()
    desk.succeed("run", desk.write_spec(file_format="csv", output="d/rel"))
    (desk.folder / "d" / "new").mkdir()
    desk.write_people(2_400, file="d/new/data.csv")
    return desk


def in_pattern(desk) -> str:
    return "d/*/data.csv"


def by_name(desk) -> str:
    return f"file://{desk.folder}/d/rel/data.csv"


def by_link(desk) -> str:
    (desk.folder / "d" / "new" / "more.csv").symlink_to(desk.folder / "d" / "rel" / "data.csv")
    return "d/new"


def by_linked_folder(desk) -> str:
    (desk.folder / "q1").symlink_to("d")
    return "q*/*/data.csv"


def below_it(desk) -> str:
    (desk.folder / "d" / "rel" / "y=1").mkdir()
    desk.write_people(10, file="d/rel/y=1/a.csv")
    return "d/rel/y=1"


def in_store(desk) -> str:
    store = fsspec.filesystem("memory")
    for path in (desk.folder / "d").rglob("*.*"):
        store.pipe_file(f"/{desk.folder.name}/{path.relative_to(desk.folder)}", path.read_bytes())
    return f"memory://{desk.folder.name}/d/*/data.csv"


def below_it_in_store(desk) -> str:
    below_it(desk)
    in_store(desk)
    return f"memory://{desk.folder.name}/d/rel/y=1/a.csv"


SOURCES = (in_pattern, by_name, by_link, by_linked_folder, below_it, in_store, below_it_in_store)


@pytest.mark.parametrize("named", SOURCES)
def test_it_is_refused_and_nothing_is_charged(published, named) -> None:
    spec = published.write_spec(source=named(published))
    before = published.entries()
    for dry in (("--dry-run",), ()):
        answer = published.refuse("run", spec, *dry, said=SAID)
        assert f"{published.folder.name}/d/rel is a published release" in answer.err
    assert published.entries() == before
    assert not (published.folder / "out").exists()


def test_a_copy_elsewhere_is_read(published) -> None:
    (published.folder / "copy").mkdir()
    shutil.copy(published.folder / "d" / "rel" / "data.csv", published.folder / "copy" / "data.csv")
    spec = published.write_spec(source="copy/data.csv")
    spec.write_text(spec.read_text().replace('separator = ";"', 'separator = ","'))
    assert "is a published release" not in published("run", spec, "--dry-run").err


def beside_records(desk):
    """A specification of records, and the path of a certificate beside them."""
    (desk.folder / "records").mkdir()
    desk.write_people(2_400, file="records/a.csv")
    return desk.write_spec(source="records/a.csv"), desk.folder / "records" / "certificate.json"


def test_another_programs_certificate_is_none(desk) -> None:
    desk.add_dataset()
    spec, certificate = beside_records(desk)
    certificate.write_text('{"issuer": "another program"}')
    desk.succeed("run", spec, "--dry-run")


def test_a_certificate_that_cannot_be_read_is_refused(desk) -> None:
    desk.add_dataset()
    spec, certificate = beside_records(desk)
    os.mkfifo(certificate)
    desk.refuse("run", spec, said="records is a published release cannot be seen")
