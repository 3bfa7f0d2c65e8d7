"""No text of the ledger becomes anything else than text: neither markup, nor a header, nor a formula."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from crowdblend.accounting.ledger.ledger_writer import dataset_entry

NASTY = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{777*777}}{% raw %}",
    "'; DROP TABLE entry; --",
    '=HYPERLINK("http://evil")',
    "&lt;b&gt; & < > \" '",
    "a%0d%0aSet-Cookie: x",
    "../../etc/passwd",
    "\u202egnp.exe",
    "\U0001f4a3" * 20,
)


@pytest.mark.slow
def test_no_text_of_the_ledger_becomes_markup(serve, town, tmp_path) -> None:
    from decimal import Decimal

    copy = town.copy(tmp_path / "nasty")
    today = datetime.now(UTC).date()
    nasty = [text for text in NASTY if text.isprintable()]
    with copy.writer() as writer:
        for text in nasty:
            writer.add_dataset(
                dataset_entry(
                    name=text,
                    epsilon=Decimal(9),
                    delta=Decimal("0.001"),
                    relation="add/remove",
                    survey_rate=None,
                    rows_per_person=1,
                    by=text,
                    day=today,
                )
            )
            writer.raise_budget(name=text, epsilon=Decimal(10), delta=Decimal("0.001"), reason=text, by=text, day=today)
            writer.record_refusal(release_id=None, dataset=text, cause=text, reason=text, day=today)
            writer.add_token(
                name=text, expires=today + timedelta(days=1), by=text, day=today, randomness=lambda n: bytes(range(n))
            ) if text == nasty[0] else None
    for number, text in enumerate(nasty):
        copy.charge(f"nasty-{number}", dataset=text, label=text)
    with serve(copy) as running:
        overview = running.get("/api/v1/overview").json()
        assert {row["dataset"] for row in overview["datasets"]} >= set(nasty)
        paths = [f"/datasets/{row['position']}" for row in overview["datasets"]]
        entries = running.get("/api/v1/verification").json()["frame"]["entries"]
        paths += ["/", "/refusals", "/releases", "/samples", "/verification", "/releases/nasty-0"]
        paths += [f"/entries/{position}" for position in range(max(0, entries - 45), entries)]
        for path in paths:
            answer = running.get(path)
            assert answer.status_code == 200, path
            assert "set-cookie" not in answer.headers
            for raw in ("<script", "<img", "onerror=alert(1)>"):
                assert raw not in answer.text, (path, raw)
            assert "603729" not in answer.text
        cells = running.get("/csv/overview").text
        assert "\n'=HYPERLINK" in cells or "\n\"'=HYPERLINK" in cells
        assert not re.search(r'(?m)^"?[=+@-]', cells)


def test_a_csv_has_a_header(served) -> None:
    assert served.get("/csv/overview").text.splitlines()[0].startswith("dataset,position,accounting,epsilon_spent")
