"""The public Python names: typed, shown richly, and the same as the command line's."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.deploy import api
from crowdblend.mechanisms.refusal import InputRefused

ROOMS = ("mechanisms", "accounting", "tasks", "flows", "deploy")
WITH_EXAMPLES = ("api", "asking", "facts")


def test_release_open_ledger_and_report_from_python(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    explained = api.explain("spec.toml")
    assert "town" in explained._repr_html_()
    published = api.release("spec.toml", release_id="one")
    assert published.epsilon == Decimal(str(explained.facts["epsilon"]))
    assert published.sampling_rate == Decimal("0.1")
    assert published.levels == {"colour": 0, "age": 1, "town": 1}
    assert published.findings() == ()
    assert desk("key", "export", "key.pem").code == 0
    assert published.findings(public_key=Path("key.pem")) == ()
    groups = published.groups()
    assert groups.column_names == ["colour", "age", "town", "count"]
    assert sum(groups["count"].to_pylist()) == published.certificate["published"]["records"]
    assert api.release("spec.toml", release_id="one") == published == api.open_release("out")
    view = api.ledger()
    assert view.findings == ()
    assert "people" in view._repr_html_()
    made = api.private_report("spec.toml", published)
    assert made.measures.before.records == 2_400
    assert "2400" not in repr(made) + made._repr_html_()
    assert "2,400" not in repr(made)
    assert len(desk("ledger", "show", "--json").json["private_looks"]) == 1
    with pytest.raises(InputRefused, match="object store"):
        api.release("spec.toml", output="s3://bucket/place")
    with pytest.raises(api.AccountantRefused):
        api.release(desk.write_spec(k="25"), release_id="one")


def test_numbers_are_taken_exactly_or_not_at_all() -> None:
    assert api.plan(k=20, sampling_rate="0.1", delta="1e-6") == api.plan(
        k=20, sampling_rate=Decimal("0.1"), delta=Decimal("0.000001")
    )
    with pytest.raises(InputRefused, match="binary fraction"):
        api.plan(k=20, sampling_rate=0.1, delta="1e-6")
    with pytest.raises(InputRefused, match="no number"):
        api.plan(k=20, sampling_rate="a tenth", delta="1e-6")


def test_what_is_shown_keeps_texts_as_texts() -> None:
    table = api.FactTable(title="a <b>", headers=("<i>",), rows=(("<script>",),))
    shown = table._repr_html_()
    assert not any(tag in shown for tag in ("<b>", "<i>", "<script>"))
    assert table.__rich__().row_count == 1


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"crowdblend.deploy.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_the_names_load_neither_prefect_nor_pandas() -> None:
    heavy = "('prefect', 'pandas', 'distributed')"
    program = f"import sys, crowdblend.deploy.api; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_room_says_that_it_is_typed() -> None:
    for room in ROOMS:
        file = importlib.import_module(f"crowdblend.{room}").__file__
        assert file is not None
        assert Path(file).with_name("py.typed").is_file()
