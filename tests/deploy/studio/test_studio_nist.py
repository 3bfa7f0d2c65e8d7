"""NIST's excerpt with 21 columns, from a fresh ledger to a verified release by clicks and typing alone."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy.api import verify
from crowdblend.flows.spec import read_spec

from .test_studio_walk import keep, same_ledger

LEFT_OUT = ("INDP", "PINCP", "DENSITY")
"""Which repeat INDP_CAT, PINCP_DECILE and PUMA."""


def outline(**groups: str) -> str:
    return "\n".join(line for group, values in groups.items() for line in (group, *(f"  {v}" for v in values.split())))


def listed(*values: object) -> dict[str, str]:
    return {"form": "values", "text": "\n".join(map(str, values))}


def grouped(**groups: str) -> dict[str, str]:
    return {"form": "tree", "text": outline(**groups)}


# By NIST's description of the columns, as a steward types it; N is "not applicable".
TYPED = {
    "PUMA": grouped(west="25-00503 25-01300", east="25-00703 25-01000 25-02800"),
    "AGEP": {"form": "interval", "lower": "0", "upper": "100", "widths": "5, 10, 20"},
    "SEX": listed(1, 2),
    "MSP": grouped(child="N", married="1 2", single="3 4 5 6"),
    "HISP": grouped(no="0", hispanic="1 2 3 4"),
    "RAC1P": grouped(white="1", black="2", asian="6", other="3 4 5 7 8 9"),
    "NOC": listed("N", *range(6)),
    "NPF": listed("N", *range(2, 8)),
    "HOUSING_TYPE": grouped(housing="1", quarters="2 3"),
    "OWN_RENT": listed(0, 1, 2),
    "INDP_CAT": listed("N", *range(19)),
    "EDU": listed("N", *range(1, 13)),
    "PINCP_DECILE": grouped(none="N", low="0 1 2", middle="3 4 5 6", high="7 8 9"),
    "POVPIP": {"form": "interval", "lower": "0", "upper": "501", "widths": "50, 100"},
    "DVET": grouped(never="N", veteran="1 2 3 4 5 6"),
    "DREM": listed("N", 1, 2),
    "DPHY": listed("N", 1, 2),
    "DEYE": listed(1, 2),
    "DEAR": listed(1, 2),
    "WGTP": {"form": "interval", "lower": "0", "upper": "400", "widths": "50, 100"},
}


@pytest.mark.extra
@pytest.mark.slow
def test_nists_excerpt_is_released_by_clicks_and_typing(walk, studio, command_line) -> None:
    records = Path(os.environ["CROWDBLEND_NIST"]) / "ma2019.csv"
    shutil.copy(records, studio.folder / records.name)
    names = records.read_text(encoding="utf-8").partition("\n")[0].strip().split(",")
    page = walk.page
    walk.enter()
    walk.fill(new_dataset="acs-massachusetts", budget_epsilon="3", budget_delta="1e-5")
    walk.press("Add it and use it")
    walk.fill(source=records.name, records="7600")
    walk.press("Read the names and go on")
    walk.press("Release all that seem harmless")
    for name in LEFT_OUT:
        walk.fill(**{f"role-{names.index(name)}": "leave"})
    walk.fill(**{f"role-{names.index('PWGTP')}": "weight", f"role-{names.index('WGTP')}": "release"})
    keep(page, "nist-columns")
    walk.press("Save, and declare PUMA")
    for name, typed in TYPED.items():
        assert page.locator("h1").inner_text() == f"The column {name}"
        walk.fill(**typed)
        if name == "EDU":  # groups by the keyboard alone, from a list
            page.locator("[role=treeitem]").first.focus()
            for group, more in (("school", 4), ("college", 3), ("degree", 3)):
                page.keyboard.press("Space")
                for _ in range(more):
                    page.keyboard.press("Shift+ArrowDown")
                page.keyboard.press("Tab")
                page.keyboard.type(group)
                page.keyboard.press("Enter")
                page.keyboard.press("ArrowLeft")
                page.keyboard.press("ArrowDown")
            assert page.locator("#field-form").input_value() == "tree"
            keep(page, "nist-tree", at="#outline")
        walk.press("Save, all columns" if name == "WGTP" else "Save, next column")
    keep(page, "nist-declared")
    walk.press("Go on")
    for name in ("AGEP", "SEX"):
        page.locator(f"#field-pinned-{names.index(name)}").check()
    walk.fill(weight_bounds="1, 25, 50, 100, 200")
    walk.press("Go on")
    walk.until("svg.picture")
    keep(page, "nist-price", at="#means")
    walk.press("Go on")
    walk.until("section.good, section.fault")
    keep(page, "nist-review")
    assert page.locator("section.fault").count() == 0, page.locator("section.fault").inner_text()
    page.get_by_role("link", name="To the run").click()
    walk.press("Charge it and run")
    walk.until("a.button[href='/result']", seconds=600)
    page.get_by_role("link", name="To the result").click()
    walk.until("text=It verifies", seconds=300)
    keep(page, "nist-result", at="#tables")

    folder = studio.folder / "out" / "ma2019"
    assert verify(folder).findings == ()
    draft = tomllib.loads(studio.draft.read_text(encoding="utf-8"))
    assert len(draft["columns"]) + 1 == 21
    release_id = json.loads((studio.place / "studio.json").read_text())["run"]
    same_ledger(studio, release_id, ("acs-massachusetts", "--epsilon", "3", "--delta", "1e-5"))
    command_line("run", studio.draft, "--output", "again", "--release-id", "by-command", "--json")
    with open_reader(studio.ledger) as reader:
        made, again = (reader.release(one).charge for one in (release_id, "by-command"))
    assert made.spec_digest == again.spec_digest == read_spec(studio.draft, output=None).digest
    assert (made.mechanism, made.price, made.label, made.dataset) == (
        again.mechanism, again.price, again.label, again.dataset,
    )  # fmt: skip
    command_line("ledger", "verify")
