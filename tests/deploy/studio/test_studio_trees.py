"""The tree of a column's groups: changed by mouse, by keyboard and as a text, and brought in from other programs."""

from __future__ import annotations

import tomllib

import pytest

WARM = "warm\n  red\n  orange\ncold\n  blue\n  green\n"


@pytest.fixture
def tree(walk, studio):
    """The page of a column with a tree of two groups, in a browser that counts what is wrong."""
    source = studio.folder / "paint.csv"
    source.write_text("colour,age\n", encoding="utf-8")
    walk.enter()
    with_client = studio.client_of(walk.page.context)
    add = {"do": "add", "new_dataset": "paint", "budget_epsilon": "5", "budget_delta": "1e-4"}
    for path, form in (
        ("/dataset", add),
        ("/file", {"source": str(source), "records": "6000"}),
        ("/columns", {"role-0": "release", "role-1": "release"}),
        ("/columns/0", {"form": "tree", "text": WARM}),
    ):
        assert with_client.post(path, data=form).status_code == 303
    with_client.close()
    faults: list[str] = []
    walk.page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    walk.page.on("pageerror", lambda error: faults.append(str(error)))
    walk.open("/columns/0")
    yield walk.page
    assert faults == []


def text_of(page) -> list[str]:
    return page.locator("#field-text").input_value().splitlines()


def item(page, name: str):
    return page.get_by_role("treeitem", name=name, exact=True)


def test_groups_are_made_moved_renamed_and_dissolved_by_mouse(tree, walk, studio) -> None:
    item(tree, "green").locator(".node").drag_to(item(tree, "warm, a group of 2").locator(".node").first)
    assert text_of(tree) == ["warm", "  red", "  orange", "  green", "cold", "  blue"]
    item(tree, "red").locator(".node").click()
    item(tree, "orange").locator(".node").click(modifiers=["Control"])
    tree.get_by_label("Name of a group").fill("fire")
    tree.get_by_role("button", name="Make a group of what is chosen").click()
    assert text_of(tree) == ["warm", "  fire", "    red", "    orange", "  green", "cold", "  blue"]
    assert "fire" in tree.locator(".said").inner_text()
    # A group can't be put into itself, and what it holds goes with it.
    item(tree, "warm, a group of 2").locator(".node").first.click()
    tree.get_by_label("Group to move to").select_option(label="warm › fire")
    tree.get_by_role("button", name="Move what is chosen there").click()
    assert "into itself" in tree.locator(".said").inner_text()
    tree.get_by_label("Group to move to").select_option(label="cold")
    tree.get_by_role("button", name="Move what is chosen there").click()
    assert text_of(tree) == ["cold", "  blue", "  warm", "    fire", "      red", "      orange", "    green"]
    item(tree, "fire, a group of 2").locator(".node").first.click()
    tree.get_by_role("button", name="Dissolve the chosen group").click()
    tree.get_by_label("Name of a group").fill("all")
    item(tree, "cold, a group of 2").locator(".node").first.click()
    tree.get_by_role("button", name="Rename the chosen one").click()
    final = ["all", "  blue", "  warm", "    red", "    orange", "    green"]
    assert text_of(tree) == final
    for _ in range(5):
        tree.get_by_role("button", name="Undo").click()
    assert text_of(tree) == WARM.splitlines()
    for _ in range(5):
        tree.get_by_role("button", name="Redo").click()
    assert text_of(tree) == final
    walk.press("Save and look")
    location = tomllib.loads(studio.draft.read_text(encoding="utf-8"))["columns"]["colour"]["hierarchy"]
    rows = (studio.place / location).read_text(encoding="utf-8").splitlines()
    assert {*rows} == {"blue;blue;all;*", "red;warm;all;*", "orange;warm;all;*", "green;warm;all;*"}


def test_groups_are_made_moved_and_dissolved_by_keyboard(tree) -> None:
    """With Tab, arrows and typing alone; what is in focus has a name, and each change is said."""
    keys = tree.keyboard
    tree.locator("#field-form").focus()
    for _ in range(12):
        keys.press("Tab")
        if tree.evaluate("document.activeElement.getAttribute('role')") == "treeitem":
            break
    active = "document.activeElement.getAttribute('aria-label')"
    assert tree.evaluate(active) == "warm, a group of 2"
    keys.press("End")
    keys.press("Space")
    keys.press("Shift+ArrowUp")
    assert tree.evaluate(active) == "blue"
    assert tree.locator("[role=treeitem][aria-selected=true]").count() == 2
    keys.press("Tab")
    keys.type("sea")
    keys.press("Enter")  # makes the group, and doesn't send the form
    assert text_of(tree) == ["warm", "  red", "  orange", "cold", "  sea", "    blue", "    green"]
    assert tree.evaluate(active) == "sea, a group of 2"
    keys.press("F2")
    keys.type("water")
    keys.press("Enter")
    assert text_of(tree)[4] == "  water"
    keys.press("ArrowLeft")
    assert tree.locator("[role=treeitem][aria-expanded=false]").count() == 1
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    assert tree.evaluate(active) == "blue"
    keys.press("ArrowLeft")
    keys.press("Delete")
    assert text_of(tree) == WARM.splitlines()
    keys.press("Control+z")
    keys.press("Control+z")
    assert text_of(tree)[4] == "  sea"
    keys.press("Control+y")
    assert text_of(tree)[4] == "  water"
    keys.press("Home")
    keys.press("ArrowDown")
    keys.press("Space")
    for _ in range(8):
        keys.press("Tab")
        if tree.evaluate("document.activeElement.id") == "outline-target":
            break
    keys.press("End")
    keys.press("Tab")
    keys.press("Enter")
    assert text_of(tree) == ["warm", "  orange", "cold", "  water", "    blue", "    green", "    red"]
    assert "Moved to water: red" in tree.locator(".said").inner_text()


def test_a_list_becomes_a_tree_and_a_text_that_is_none_hides_it(tree) -> None:
    area = tree.locator("#field-text")
    area.fill("a\n    b\n  c")
    assert not tree.locator("[data-outline]").is_visible()
    area.fill("a\nb\nc")
    tree.locator("#field-form").select_option("values")
    item(tree, "b").locator(".node").click()
    tree.get_by_label("Name of a group").fill("last")
    tree.get_by_role("button", name="Make a group of what is chosen").click()
    assert text_of(tree) == ["a", "last", "  b", "c"]
    assert tree.locator("#field-form").input_value() == "tree"
    area.fill('<img src=x onerror="document.title=1">')
    assert item(tree, '<img src=x onerror="document.title=1">').count() == 1
    tree.locator("#field-form").select_option("prefixes")
    assert not tree.locator("[data-outline]").is_visible()
