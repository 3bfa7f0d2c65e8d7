"""Each document is found by its name and makes its files; what may be written where holds for all."""

from __future__ import annotations

import pytest
from crowdblend.deploy.documents.document_registry import (
    DOCUMENTS,
    Document,
    VerifiedRelease,
    load_document,
    verified_release,
    write_document,
)
from crowdblend.mechanisms.kernel.errors import InputRefused


def test_each_name_loads_a_document() -> None:
    for name in DOCUMENTS:
        assert isinstance(load_document(name), Document), name
    with pytest.raises(InputRefused, match="only sheet, registry"):
        load_document("none")


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if load_document(name).about is VerifiedRelease])
def test_a_document_of_a_release_is_written_beside_no_release(rows, tmp_path, name: str) -> None:
    release = verified_release(rows, statements={"publisher": "An office"})
    before = sorted(rows.iterdir())
    for place in (rows, rows / "below"):
        with pytest.raises(InputRefused, match="lies in the release"):
            write_document(name, release, output=place)
    assert sorted(rows.iterdir()) == before
    files = write_document(name, release, output=tmp_path / "made")
    assert files
    assert sorted(files) == sorted((tmp_path / "made").iterdir())
    with pytest.raises(InputRefused, match="exists already"):
        write_document(name, release, output=tmp_path / "made")


def test_a_document_about_something_else_is_not_made_of_a_release(rows, tmp_path) -> None:
    with pytest.raises(InputRefused, match="not about a published release alone"):
        write_document("preview", verified_release(rows), output=tmp_path)
