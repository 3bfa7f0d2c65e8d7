"""A preview never looks at private records, and what it predicts is what happens."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TRIALS = 400
SIGMAS = 4.5  # two-sided false alarm of 7e-6 a comparison


def write_public(
    desk, *, rows: int = 3_000, file: str = "public.csv", seed: int = 5
) -> dict[tuple[str, str, str], int]:
    """Invented records with groups around the threshold; gives the groups at the specification's levels."""
    draws = np.random.default_rng(seed)
    lines, groups = ["colour;age;town"], {}
    for _ in range(rows):
        colour = draws.choice(["blue", "green", "red"], p=[0.6, 0.3, 0.1])
        age = int(draws.choice([22, 35, 61], p=[0.5, 0.4, 0.1]))
        town = draws.choice(["Lyon", "Lille", "Paris"], p=[0.6, 0.3, 0.1])
        lines.append(f"{colour};{age};{town}")
        group = (str(colour), str(age // 10), "South" if town == "Lyon" else "North")
        groups[group] = groups.get(group, 0) + 1
    (desk.folder / file).write_text("\n".join(lines) + "\n")
    return groups


def simulated(groups: dict, *, k: int, rate: float) -> tuple[float, float]:
    """Share suppressed over many drawn samples, and its standard error; numpy's coins, nothing of the project."""
    sizes = np.array(list(groups.values()))
    sampled = np.random.default_rng(17).binomial(sizes, rate, size=(TRIALS, sizes.size))
    lost = np.where(sampled < k, sampled, 0).sum(axis=1)
    share = lost.sum() / sampled.sum()
    return share, float(np.std(lost) / np.sqrt(TRIALS) / sampled.sum(axis=1).mean())


def test_the_share_is_that_of_drawn_samples(desk) -> None:
    groups = write_public(desk)
    told = desk("preview", desk.write_spec(), "--public", "public.csv", "--json").json
    assert told["people"] == 3_000
    share, error = simulated(groups, k=20, rate=0.1)
    assert 0.05 < share < 0.9, "the control: something is lost and something kept"
    assert abs(told["estimate"]["suppressed"] - share) < SIGMAS * error
    wrong, _ = simulated(groups, k=21, rate=0.1)
    assert abs(told["estimate"]["suppressed"] - wrong) > SIGMAS * error, "another threshold would be noticed"


def test_what_would_keep_pairs_best_at_this_size_and_price_is_proposed(desk) -> None:
    """By the number of people and the labels; the same of other people of that number."""
    told = []
    for seed in (5, 6):
        write_public(desk, seed=seed, file=f"{seed}.csv")
        found = desk("preview", desk.write_spec(), "--public", f"{seed}.csv", "--json").json
        told.append([remark for remark in found["remarks"] if "share = " in remark])
    assert told[0] == told[1]
    [remark] = told[0]
    assert "For about 3,000 people" in remark
    assert "[deletion] with levels colour [0, " in remark


def test_by_hand(desk) -> None:
    """One group of two and one single, k = 2, rate 1/2: of two each survives with the other; of 3 people 1 of 3."""
    (desk.folder / "public.csv").write_text("colour;age;town\nblue;20;Lyon\nblue;21;Lyon\nred;20;Lyon\n")
    spec = desk.write_spec(k="2", rate="0.5", delta="0.3")
    told = desk("preview", spec, "--public", "public.csv", "--json").json
    assert told["estimate"]["suppressed"] == pytest.approx(2 / 3)
    assert told["estimate"]["records"] == pytest.approx(0.5)
    assert told["estimate"]["groups"] == pytest.approx(0.25)
    without = {row["column"]: row["suppressed"] for row in told["by_column"]}
    assert without["age"] == pytest.approx(2 / 3)
    assert without["colour"] == pytest.approx(1 - 3 / 4), (
        "three alike: a record survives if either of the others is there"
    )
    worst = told["by_label"][0]
    assert (worst["columns"], worst["labels"], worst["suppressed"]) == (["colour"], ["red"], 1.0)


@pytest.mark.slow
def test_a_smaller_population_is_a_thinned_one(desk) -> None:
    """Half the people sampled at twice the rate are the same coins."""
    write_public(desk)
    half = desk("preview", desk.write_spec(rate="0.2"), "--public", "public.csv", "--population", "1500", "--json").json
    whole = desk("preview", desk.write_spec(rate="0.1"), "--public", "public.csv", "--json").json
    assert half["estimate"]["suppressed"] == pytest.approx(whole["estimate"]["suppressed"], rel=1e-12)
    assert half["people"] == pytest.approx(1_500)
    larger = desk("preview", desk.write_spec(), "--public", "public.csv", "--population", "30000", "--json").json
    assert larger["estimate"]["suppressed"] < whole["estimate"]["suppressed"]
    assert any("missing" in remark for remark in larger["remarks"])


@pytest.mark.slow
def test_a_suggestion_holds_what_it_promises(desk) -> None:
    write_public(desk)
    spec = desk.write_spec()
    told = desk("preview", spec, "--public", "public.csv", "--json").json
    steps = [one for one in told["suggestions"] if one["what"].startswith("Publish ")]
    assert steps
    for one in steps:
        name, level = one["what"].split()[1], one["what"].split()[-1]
        then = desk("preview", spec, "--public", "public.csv", "--level", f"{name}={level}", "--json").json
        assert then["estimate"]["suppressed"] == pytest.approx(one["suppressed"])
        assert {row["suppressed"] for row in then["by_level"] if row["chosen"]} == {then["estimate"]["suppressed"]}
    spending = [one for one in told["suggestions"] if one["what"].startswith("Spend ")]
    for one in spending:
        words = one["what"].split()
        then = desk("preview", desk.write_spec(rate=words[6], k=words[-1]), "--public", "public.csv", "--json").json
        assert then["epsilon"] == pytest.approx(one["epsilon"])
        assert then["epsilon"] <= told["epsilon"]
        assert then["estimate"]["records"] == pytest.approx(one["records"])


@pytest.mark.slow
def test_a_drawn_map_is_previewed_by_what_the_draw_favours(desk) -> None:
    write_public(desk)

    def chosen(text: str) -> str:
        lines = [line for line in text.splitlines() if not line.startswith("level")]
        return "\n".join(lines).replace("[columns.colour]", "[selection]\nepsilon = 0.1\n\n[columns.colour]")

    spec = desk.write_spec(edit=chosen)
    told = desk.succeed("preview", spec, "--public", "public.csv", "--json")
    explained = {column["column"]: column["levels"] for column in desk("explain", spec, "--json").json["columns"]}
    kept = {name: [level["information_kept"] for level in levels] for name, levels in explained.items()}
    labels = {
        "colour": [lambda value: value, lambda value: "*"],
        "age": [lambda value: value, lambda value: int(value) // 10, lambda value: int(value) // 50, lambda value: "*"],
        "town": [lambda value: value, lambda value: value == "Lyon", lambda value: "*"],
    }
    people = [line.split(";") for line in (desk.folder / "public.csv").read_text().splitlines()[1:]]

    def quality(levels: tuple[int, ...]) -> float:
        chosen_labels = [labels[name][level] for name, level in zip(labels, levels, strict=True)]
        sizes = Counter(tuple(label(value) for label, value in zip(chosen_labels, one, strict=True)) for one in people)
        detail = sum(kept[name][level] for name, level in zip(labels, levels, strict=True))
        return detail * sum(max(0, size - 200 + 1) for size in sizes.values())

    best = max(product(range(2), range(4), range(3)), key=quality)
    assert tuple(told.json["levels"].values()) == best
    assert best not in ((0, 0, 0), (1, 3, 2)), "the control: neither end of the lattice"


@pytest.mark.slow
def test_candidates_and_bounds_that_a_release_does_not_know_are_told(office, rows) -> None:
    spec = office.spec("bounded", file_format="parquet")
    text = spec.read_text().replace("level = 1\n", "").replace("[columns.age]", "[columns.age]\nmax_level = 0")
    spec.write_text(text.replace("[privacy]", "[selection]\nepsilon = 0.1\n\n[privacy]"))
    with pytest.raises(AssertionError, match="'age' is known at level 1"):
        office("preview", str(spec), "--release", str(rows))
    spec.write_text(spec.read_text().replace("max_level = 0", "max_level = 2"))
    told = json.loads(office("preview", str(spec), "--release", str(rows), "--json"))
    assert min(told["levels"].values()) >= 1


def test_where_no_group_is_large_enough_the_finest_map_is_not_praised(desk) -> None:
    (desk.folder / "public.csv").write_text("colour;age;town\nblue;20;Lyon\n")
    told = desk("preview", desk.write_spec(), "--public", "public.csv", "--json").json
    assert told["estimate"]["suppressed"] == 1.0
    for one in told["suggestions"]:
        assert one["information"] == 0.0, one


WAYS = ["itself", "absolute", "soft link", "hard link", "glob", "copy", "folder"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_private_records_are_refused_however_they_are_named(desk, way: str, kind: str) -> None:
    source = desk.folder / f"people.{kind}"
    if kind == "parquet":
        columns = {"colour": ["blue"] * 90, "age": [30] * 90, "town": ["Lyon"] * 90}
        pq.write_table(pa.table(columns), source)
    other = desk.folder / "other"
    other.mkdir()
    given = {
        "itself": source.name,
        "absolute": str(source),
        "soft link": f"link.{kind}",
        "hard link": f"hard.{kind}",
        "glob": f"peop*.{kind}",
        "copy": f"other/renamed.{kind}",
        "folder": "other",
    }[way]
    if way == "soft link":
        (desk.folder / given).symlink_to(source)
    if way == "hard link":
        os.link(source, desk.folder / given)
    if way in ("copy", "folder"):
        shutil.copyfile(source, other / f"renamed.{kind}")
    answer = desk("preview", desk.write_spec(source=source.name), "--public", given)
    assert answer.code == 2
    assert "nobody has paid for that" in answer.err
    assert "[selection]" in answer.err
    assert answer.out == ""


def test_without_a_crowd_the_reason_is_told(desk) -> None:
    answer = desk("preview", desk.write_spec())
    assert answer.code == 2
    assert "aren't looked at" in answer.err
    assert "nobody has paid for that" in answer.err


def test_records_that_are_not_the_private_ones_pass(desk) -> None:
    """The control of the refusals: other records, a source that isn't there yet."""
    write_public(desk)
    desk.succeed("preview", desk.write_spec(), "--public", "public.csv")
    answer = desk.succeed("preview", desk.write_spec(source="later.csv"), "--public", "people.csv", "--json")
    assert any("not compared" in remark for remark in answer.json["remarks"])


@pytest.mark.slow
def test_a_source_that_was_released_is_known_again(office, rows) -> None:
    """Under another specification, whose own source isn't there: the private store's keyed fingerprint tells."""
    moved = office.folder / "moved"
    moved.mkdir(exist_ok=True)
    shutil.copyfile(office.folder / "people.csv", moved / "people.csv")
    spec = office.spec("later", file_format="csv")
    spec.write_text(spec.read_text().replace('"people.csv"', '"not-yet.csv"'))
    with pytest.raises(AssertionError, match="was released as the data set 'people'"):
        office("preview", str(spec), "--public", "moved/people.csv")
    empty = office.folder / "empty"
    told = office("preview", str(spec), "--public", "moved/people.csv", CROWDBLEND_HOME=str(empty))
    assert "suppressed" in told, "the control: unknown there"
    assert not empty.exists(), "looking makes no store"


@pytest.mark.slow
def test_a_past_release_stands_for_its_people(office, rows) -> None:
    spec = office.spec("rows-again", file_format="parquet")
    told = json.loads(office("preview", str(spec), "--release", str(rows), "--json"))
    published = pq.read_table(rows / "data.parquet").num_rows
    assert told["people"] == pytest.approx(published / 0.2)
    assert {row["column"]: row["level"] for row in told["by_level"] if row["chosen"]} == {"the town": 1, "age": 1}
    assert min(row["level"] for row in told["by_level"]) == 1, "nothing finer is known"
    with pytest.raises(AssertionError, match="known at level 1"):
        office("preview", str(spec), "--release", str(rows), "--level", "age=0")
    with pytest.raises(AssertionError, match="--release"):
        office("preview", str(spec), "--public", str(rows / "data.parquet"))


@pytest.mark.slow
def test_a_charged_noisy_histogram_serves_too(office, noisy) -> None:
    spec = office.spec("after-noise", file_format="csv")
    told = json.loads(office("preview", str(spec), "--release", str(noisy), "--json"))
    assert any("noise" in remark for remark in told["remarks"])
    assert told["people"] == pytest.approx(6_003, rel=0.2)


@pytest.mark.slow
def test_another_hierarchy_or_a_changed_table_is_refused(office, rows, tmp_path) -> None:
    spec = office.spec("other-widths", file_format="parquet")
    spec.write_text(spec.read_text().replace("[10, 50]", "[5, 50]"))
    with pytest.raises(AssertionError, match="another hierarchy"):
        office("preview", str(spec), "--release", str(rows))
    changed = tmp_path / "changed"
    shutil.copytree(rows, changed)
    with (changed / "data.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(AssertionError, match="does not verify"):
        office("preview", str(office.spec("same", file_format="parquet")), "--release", str(changed))


def test_nothing_is_written_but_the_page_that_is_asked_for(desk) -> None:
    write_public(desk)
    spec = desk.write_spec()
    before = set(desk.folder.rglob("*"))
    desk.succeed("preview", spec, "--public", "public.csv")
    assert set(desk.folder.rglob("*")) == before, "no ledger, no private store"
    desk.succeed("preview", spec, "--public", "public.csv", "--html", "page.html")
    assert set(desk.folder.rglob("*")) - before == {desk.folder / "page.html"}


def test_no_page_where_a_release_would_be_picked_up(desk) -> None:
    write_public(desk)
    (desk.folder / "release").mkdir()
    (desk.folder / "release" / "certificate.json").write_text("{}")
    (desk.folder / "records").mkdir()
    desk.write_people(50, file="records/a.csv")
    spec = desk.write_spec(source="records")
    before = sorted(desk.folder.rglob("*"))
    for place in (
        "out/p.html",
        "out",
        "release/p.html",
        "records/p.html",
        "data.csv",
        "certificate.json",
        "public.csv",
    ):
        answer = desk("preview", spec, "--public", "public.csv", "--html", place)
        assert answer.code == 2, place
        assert answer.out == ""
    assert sorted(desk.folder.rglob("*")) == before


def test_a_mark_in_the_private_records_is_nowhere(desk) -> None:
    """The private file holds marks in every column; the preview is the same as with others there."""
    write_public(desk)
    pages = []
    for mark in ("Zanzibar7", "Quetzal9"):
        (desk.folder / "people.csv").write_text("colour;age;town\n" + f"{mark};{mark};{mark}\n" * 50)
        name = f"{mark}.html"
        answer = desk.succeed("preview", desk.write_spec(), "--public", "public.csv", "--html", name)
        pages.append((answer.out, (desk.folder / name).read_text()))
        assert mark not in "".join(pages[-1])
    assert pages[0] == pages[1]


UNREAD = """
import os, sys
reading, writing = os.pipe()
os.close(reading)
os.dup2(writing, 1)
from crowdblend.deploy import cli
cli.main(sys.argv[1:])
"""


def test_a_page_is_written_though_nobody_reads_what_is_printed(desk, commands) -> None:
    write_public(desk)
    words = ("preview", desk.write_spec(), "--public", "public.csv", "--html", "page.html")
    ended = commands.run(*words, folder=desk.folder, script=UNREAD)
    assert "</html>" in (desk.folder / "page.html").read_text(), ended.returncode


def test_texts_of_public_records_stay_texts(desk) -> None:
    (desk.folder / "towns.csv").write_text('"<script>[bold]</script>";South;*\nLille;North;*\n')
    rows = ['blue;20;"<script>[bold]</script>"'] * 5 + ["red;20;Lille"] * 900
    (desk.folder / "public.csv").write_text("colour;age;town\n" + "\n".join(rows) + "\n")
    spec = desk.write_spec(
        edit=lambda text: text.replace('hierarchy = "towns.csv"\nlevel = 1', 'hierarchy = "towns.csv"\nlevel = 0')
    )
    answer = desk("preview", spec, "--public", "public.csv", "--html", "page.html")
    assert answer.code == 0
    assert "[bold]" in answer.out, "no markup at the terminal either"
    page = (desk.folder / "page.html").read_text()
    assert "&lt;script&gt;" in page
    assert "<script" not in page


def test_a_release_that_suppresses_nothing_is_told_so(desk) -> None:
    histogram = '[histogram]\nkind = "outlier-private"\nepsilon = 0.5\nhorizon = 50\nmargin = 10\n'

    def edit(text: str) -> str:
        head, _, rest = text.partition("[sampling]")
        return head.replace('form = "microdata"\n', "") + histogram + "[privacy]" + rest.partition("[privacy]")[2]

    answer = desk("preview", desk.write_spec(edit=edit), "--public", "public.csv")
    assert answer.code == 2
    assert "crowdblend explain" in answer.err


def deleting(columns: dict[str, str], *, k: int = 2):
    """An edit of the specification into that of a deletion release with these levels."""

    def edit(text: str) -> str:
        text = text.replace("[sampling]\nrate = 0.1", "[deletion]").replace("delta =", "epsilon = 1\ndelta =")
        head, *tables = text.replace("k = 20", f"k = {k}").split("[columns.")
        made = []
        for table in tables:
            name = table.partition("]")[0]
            lines = [line for line in table.splitlines() if not line.startswith("level")]
            made.append("\n".join([*lines, columns[name]]) + "\n")
        return "[columns.".join([head, *made])

    return edit


CHAIN = {"colour": "levels = [0, 0, 1]", "age": "levels = [0, 1, 3]", "town": "levels = [0, 1, 1]"}


def write_towns(desk, *, rows: int = 3_000) -> list[tuple[str, int, str]]:
    """Invented records in groups of very different sizes; in the South each coarser group has one finer part."""
    draws = np.random.default_rng(7)
    ages = 10 * np.minimum(draws.geometric(0.3, rows), 10) - 5
    records = list(zip(
        draws.choice(["blue", "green", "red"], rows, p=[0.6, 0.3, 0.1]),
        ages.tolist(),
        draws.choice(["Lyon", "Lille", "Paris"], rows, p=[0.6, 0.3, 0.1]),
        strict=True,
    ))  # fmt: skip
    lines = ["colour;age;town", *(f"{colour};{age};{town}" for colour, age, town in records)]
    (desk.folder / "public.csv").write_text("\n".join(lines) + "\n")
    return records


def simulated_deletion(records, weights, *, k: int, drawn: int = 300, share: float = 1.0):
    """Groups and records of each of CHAIN's stages over many draws of Z, by hand: means and their standard errors."""
    draws = np.random.default_rng(23)
    region = {"Lyon": "South", "Lille": "North", "Paris": "North"}
    stages = [
        lambda colour, age, town: (colour, age, town),
        lambda colour, age, town: (colour, age // 10, region[town]),
        lambda colour, age, town: region[town],
    ]
    finest = Counter(records)
    found = np.zeros((drawn, 3, 2))
    for trial in range(drawn):
        left = {one: int(draws.binomial(count, share)) for one, count in finest.items()}
        for number, label in enumerate(stages):
            groups: dict = {}
            for one, count in left.items():
                groups.setdefault(label(*one), []).append((one, count))
            left = {}
            for members in groups.values():
                there = sum(count for _, count in members)
                kept = there - int(draws.choice(len(weights), p=weights))
                kept = kept if kept >= k else 0
                found[trial, number] += (kept > 0, kept)
                left[members[0][0]] = there - kept  # any of its records: all have this label from now on
    return found.mean(axis=0), found.std(axis=0) / drawn**0.5


@pytest.mark.slow
def test_each_stage_of_a_deletion_release_is_predicted_as_drawn_releases_are(desk) -> None:
    from crowdblend.flows.spec import read_spec
    from crowdblend.mechanisms.kinds.deletion_noise import WEIGHT_TOTAL, deletion_weights

    records = write_towns(desk)
    spec = desk.write_spec(edit=deleting(CHAIN))
    weights = [weight / WEIGHT_TOTAL for weight in deletion_weights(read_spec(spec, output=None).mechanism.noise)]
    for words, share in (((), 1.0), (("--population", "1800"), 0.6)):
        told = desk.succeed("preview", spec, "--public", "public.csv", *words, "--json").json
        mean, error = simulated_deletion(records, np.array(weights) / sum(weights), k=2, share=share)
        stages = told["stages"]
        assert told["people"] == pytest.approx(3_000 * share)
        assert stages[0]["left"] == pytest.approx(told["people"])
        for number, stage in enumerate(stages):
            for figure, place in (("published_groups", 0), ("published", 1)):
                slack = SIGMAS * error[number, place] + 1e-9
                assert abs(stage[figure] - mean[number, place]) < slack, (number, figure, share)
        assert told["published"] == pytest.approx(sum(stage["published"] for stage in stages))
        assert told["deleted"] == pytest.approx(1 - told["published"] / told["people"])
        assert min(stage["published"] for stage in stages) > 20, "each stage has something to tell"
    wrong, error = simulated_deletion(records, np.array(weights) / sum(weights), k=9)
    right = desk.succeed("preview", spec, "--public", "public.csv", "--json").json["stages"][1]
    assert abs(right["published_groups"] - wrong[1, 0]) > SIGMAS * error[1, 0], "another k would be noticed"


def test_a_deletion_release_is_predicted_beside_sampling_and_other_prices(desk) -> None:
    write_towns(desk)
    single = {"colour": "level = 0", "age": "level = 1", "town": "level = 1"}
    spec = desk.write_spec(edit=deleting(single))
    told = desk.succeed("preview", spec, "--public", "public.csv", "--json").json
    [sampled] = told["sampled"]
    same = desk.write_spec(rate=str(sampled["rate"]), k=str(sampled["k"]), file="sampled.toml")
    instead = desk.succeed("preview", same, "--public", "public.csv", "--json").json
    assert instead["epsilon"] == pytest.approx(sampled["epsilon"])
    assert sampled["epsilon"] <= told["epsilon"]
    assert instead["estimate"]["records"] == pytest.approx(sampled["records"])
    assert instead["estimate"]["suppressed"] == pytest.approx(sampled["suppressed"])
    assert told["published"] > sampled["records"]
    published = [row["published"] for row in told["by_epsilon"]]
    assert published == sorted(published)
    [own] = [row for row in told["by_epsilon"] if row["chosen"]]
    assert (own["published"], own["epsilon"]) == (told["published"], told["epsilon"])
    page = desk.folder / "page.html"
    words = ("preview", spec, "--public", "public.csv", "--level", "age=3")
    assert "Stage by stage" in desk.succeed(*words, "--html", page).out
    assert desk.succeed(*words, "--json").json["published"] > told["published"]
    assert "Deleted share by ε" in page.read_text()
    chain = desk.write_spec(edit=deleting(CHAIN), file="chain.toml")
    refused = desk("preview", chain, "--public", "public.csv", "--level", "age=1")
    assert (refused.code, "several stages" in refused.err) == (2, True)


def test_a_deletion_release_predicts_the_next_at_its_last_levels(desk) -> None:
    desk.write_people(6_000)
    desk.add_dataset()
    chain = {"colour": "levels = [0, 1]", "age": "levels = [0, 1]", "town": "levels = [0, 1]"}
    desk.succeed("run", desk.write_spec(edit=deleting(chain), output="first"))
    following = desk.write_spec(edit=lambda text: text.replace("k = 20", "k = 10"), file="next.toml")
    told = desk.succeed("preview", following, "--release", "first", "--level", "colour=1", "--json").json
    # Three of 12 groups of 500 leave some 79 records to each group of the last stage, which is published for certain:
    # 4 independent errors, each with a deviation of 2.8.
    assert abs(told["people"] - 6_000) < 40
    assert told["by_column"][0]["column"] in ("colour", "age", "town")
    refused = desk("preview", following, "--release", "first", "--level", "colour=1", "--level", "age=0")
    assert (refused.code, "known at level 1" in refused.err) == (2, True)
