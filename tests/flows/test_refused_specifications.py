"""What no kind of release can be asked for is refused when its specification is read, with the place of the key."""

from __future__ import annotations

from pathlib import Path

import pytest
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.kernel.errors import InputRefused

HEAD = '[release]\nname = "a"\noutput = "out"\n[data]\ndataset = "people"\nsource = "people.csv"\n'
RATE = "[sampling]\nrate = 0.1\n"
DELTA = "[privacy]\ndelta = 1e-6\n"
SPEND = "[privacy]\nepsilon = 1\ndelta = 1e-6\n"
COLOUR = '[columns.colour]\nvalues = ["blue", "green", "red"]\n'
AGE = "[columns.age]\ninterval = { lower = 0, upper = 100, widths = [10, 50] }\n"
TOWN = "[columns.town]\ninterval = { lower = 0, upper = 9, widths = [3] }\n"
CELL = "[columns.cell]\ninterval = { lower = 0, upper = 400, widths = [] }\nlevel = 0\n"
SUPPRESSED = 'kind = "suppressed"\nk = 20'
NOISY = SUPPRESSED.replace("suppressed", "noisy") + "\nepsilon = 0.5"
ELSEWHERE = "docs/mechanisms/not-to-be-used.md"
BASES = {
    "deletion": HEAD
    + "[deletion]\n"
    + SPEND
    + COLOUR
    + "levels = [0, 0, 1]\n"
    + AGE
    + "levels = [0, 1, 3]\n"
    + TOWN
    + "levels = [0, 1, 1]\n",
    "chosen": HEAD + "[deletion]\n" + SPEND + "[selection]\nepsilon = 0.2\n" + COLOUR + AGE + TOWN,
    "map": HEAD + RATE + "[suppression]\nk = 20\n" + DELTA + "[selection]\nepsilon = 0.2\n" + COLOUR + AGE + TOWN,
    "margins": HEAD
    + '[deletion]\n[margins]\npairs = [["age", "sex"]]\n'
    + SPEND
    + '[columns.sex]\nvalues = ["f", "m", "x"]\nlevels = [0, 0]\n'
    + AGE
    + "levels = [1, 2]\n",
    "histogram": HEAD + RATE + f"[histogram]\n{NOISY}\n" + DELTA + COLOUR + "level = 0\n" + AGE + "level = 1\n",
    "points": HEAD + RATE + f"[points]\n{NOISY}\ncells_per_side = 9\n" + DELTA
    + "[columns.x]\nbounds = { lower = -1, upper = 3 }\n[columns.y]\nbounds = { lower = 0, upper = 1 }\n",
    "count": HEAD + '[answer]\nkind = "count"\nepsilon = 1\ncolumn = "town"\n',
    "sum": HEAD + '[answer]\nkind = "sum"\nepsilon = 1\ncolumn = "amount"\nlower = -10\nupper = 100\n',
    "moments": HEAD + '[answer]\nkind = "moments"\nepsilon = 1\n'
    + "[columns.pay]\nbounds = { lower = 0, upper = 9 }\n" + CELL,
    "sketch": HEAD
    + '[reports]\nkind = "count-mean-sketch"\nepsilon = 4\nhashes = 16\nbits = 8\nseed = "s"\nvalues = ["red"]\n',
    "one bit": HEAD + '[reports]\nkind = "k-randomization"\nflip_probability = 0.25\nquestions = ["voted"]\n',
    "unequal": HEAD + '[sampling]\ncolumn = "rate"\nrates = [0.1, 0.2]\n[histogram]\nkind = "suppressed"\nk = 12\n'
    + "[privacy]\ndelta = 1e-3\n" + CELL,
    "survey": HEAD + "[sampling.design]\nlowest = 0.1\nhighest = 0.2\nexceptions = 1\n"
    + '[histogram]\nkind = "suppressed"\nk = 12\n[privacy]\ndelta = 1e-3\n' + CELL,
    "synthetic": HEAD + "[synthetic]\n" + SPEND + COLOUR + "level = 0\n" + AGE + "level = 1\n",
}  # fmt: skip
WIDE = "[columns.{}]\ninterval = {{ lower = 0, upper = 90_000, widths = [] }}\nlevel = 0\n"
NOISE = "[deletion]\n"
CHAINS = (
    "epsilon = 0.2\ncandidates = [{ colour = [0, 0], age = [1, 3], town = [0, 1] }, "
    "{ colour = [1, 1], age = [2, 3], town = [0, 0] }]"
)
REFUSED = [
    ("deletion", "levels = [0, 1, 3]", "levels = [1, 0, 2]", "[columns.age].levels: level 0 comes after level 1"),
    ("deletion", "levels = [0, 1, 3]", "levels = [0, 1]", "[columns.age].levels: this column has 2 stages, and"),
    ("deletion", "levels = [0, 1, 1]", "level = 0", "[columns.town].level: this column has 1 stage, and 'colour'"),
    ("deletion", "levels = [0, 1, 3]", "level = 0\nlevels = [0, 1, 3]", "[columns.age].levels: level and levels"),
    ("deletion", "levels = [0, 1, 3]\n", "", "[columns.age].level: this is required and missing"),
    ("deletion", "levels = [0, 1, 1]", "levels = [0, 1, 3]", "[columns.town].levels: level 3 does not exist"),
    ("deletion", "levels = [0, 1, 1]", "levels = [0, 1, 1]\nweight = 1", "[columns.town].weight: this goes with a"),
    ("deletion", "epsilon = 1\n", "epsilon = 51\n", "[privacy].epsilon: epsilon must be above 0 and at most 50"),
    ("deletion", "epsilon = 1\n", "", "[privacy].epsilon: this is required"),
    ("deletion", NOISE, NOISE + 'shape = "geometric"\nepsilon = 1\nwidth = 60\n', "this noise costs"),
    ("deletion", NOISE, NOISE + 'shape = "geometric"\nepsilon = 1\nwidth = 9\n', "[deletion]: no epsilon is enough"),
    ("deletion", NOISE, NOISE + "width = 9\n", "[deletion].shape: parameters of a noise are given"),
    ("deletion", NOISE, NOISE + 'shape = "gaussian"\nwidth = 9\n', "[deletion].scale: this is missing"),
    ("deletion", NOISE, NOISE + 'shape = "gaussian"\nscale = 9\nwidth = 40\ndelta = 1e-9\n', "[deletion].delta: "),
    *(
        ("deletion", "[columns.town]", f"[columns.{name}]", f"a released column can't be called {name}")
        for name in ("stage", "weight")
    ),
    ("histogram", "level = 0", "levels = [0]", "[columns.colour].levels: levels are the stages of a deletion release"),
    ("chosen", "epsilon = 0.2", 'epsilon = 0.2\non = "fresh-sample"', "[selection].on: a deletion release reads all"),
    ("chosen", "epsilon = 0.2", "epsilon = 0.2\nrate = 0.1", "[selection].rate: a deletion release reads all records"),
    ("chosen", "epsilon = 1\n", "epsilon = 0.2\n", "[selection].epsilon: choosing the map costs ε = 0.2, which leaves"),
    ("chosen", AGE, AGE + "level = 1\n", "[columns.age].level: a fixed level and [selection] exclude each other"),
    ("chosen", AGE, AGE + "levels = [1, 2]\n", "[columns.age].levels: a fixed level and [selection] exclude each"),
    ("chosen", "epsilon = 0.2", CHAINS.replace("town = [0, 1]", "town = 1"), "number 1: 'town' has 1 level here, and"),
    ("chosen", "epsilon = 0.2", CHAINS.replace("age = [1, 3]", "age = [3, 1]"), "number 1: the levels of 'age' fall"),
    ("chosen", "epsilon = 0.2", CHAINS.replace("age = [1, 3]", "age = [1, 4]"), "number 1: level 4 of 'age' is not"),
    (
        "chosen",
        "epsilon = 0.2",
        "epsilon = 0.2\ncandidates = [{ colour = [], age = [], town = [] }]",
        "number 1: 'colour' has 0 levels here, and the candidates have 1 stage",
    ),
    (
        "chosen",
        "epsilon = 0.2",
        "epsilon = 0.2\ncandidates = [{ colour = 0, age = 1, town = 0 }, { colour = [0], age = [1], town = [0] }]",
        "number 2: this candidate is number 1 already",
    ),
    ("chosen", "epsilon = 0.2", CHAINS + "\nsteps = 3", "[selection].steps: a walk goes through all combinations"),
    ("map", "epsilon = 0.2", CHAINS, "number 1: levels of several stages belong to a deletion release"),
    ("margins", '["age", "sex"]', '["age"]', "[margins].pairs, number 1: a pair names two columns"),
    ("margins", '["age", "sex"]', '["age", "age"]', "[margins].pairs, number 1: a pair names two columns"),
    ("margins", '["age", "sex"]', '["age", "town"]', "number 1: 'town' is not a released column"),
    ("margins", '["age", "sex"]', '["age", "sex"], ["sex", "age"]', "number 2: this pair is there already"),
    ("margins", 'pairs = [["age", "sex"]]', "share = 1", "[margins].share: this must be less than 1"),
    ("margins", 'pairs = [["age", "sex"]]', "share = 1e-9", "[privacy].epsilon: no noise of 2 margins in all costs so"),
    ("margins", NOISE, NOISE + 'shape = "gaussian"\nscale = 4\nwidth = 25\n', "[privacy].epsilon: this noise costs"),
    ("margins", "upper = 100, widths = [10, 50]", "upper = 900000, widths = [1, 3]", "[margins].pairs: these margins"),
    ("histogram", NOISY, SUPPRESSED + "\nepsilon = 1", "[histogram].epsilon"),
    ("histogram", "\nepsilon = 0.5", "", "[histogram].epsilon"),
    ("histogram", RATE, "", "not differentially private"),
    ("histogram", '"noisy"', '"quantile"', "[histogram].kind"),
    ("histogram", '"noisy"', '"clustering"', ELSEWHERE),
    ("histogram", "epsilon = 0.5", 'epsilon = 0.5\nnoise = "gaussian"', ELSEWHERE),
    ("histogram", NOISY, 'kind = "outlier-private"\nepsilon = 0.5\nhorizon = 120\nmargin = 100', "counts every record"),
    ("histogram", "upper = 100, widths = [10, 50] }\nlevel = 1", "upper = 1_000_000, widths = [] }\nlevel = 0", "comb"),
    ("points", "\nepsilon = 0.5", "", "[points].epsilon"),
    ("points", '"noisy"', '"suppressed"', "[points].epsilon"),
    ("points", '"noisy"', '"outlier-private"', "[points].kind"),
    ("points", RATE, "", "[sampling].rate"),
    ("points", "bounds = {", "level = 0\nbounds = {", "[columns.x].level"),
    ("points", "bounds = { lower = -1, upper = 3 }", "level = 0", "[columns.x]"),
    ("points", "lower = -1", "lower = 3", "[columns.x].bounds"),
    ("points", "upper = 3", "upper = 3, missing = 4", "[columns.x].bounds"),
    ("points", "lower = -1, upper = 3", "lower = 1, upper = 1.0000000000000002", "too close"),
    ("points", "cells_per_side = 9", "cells_per_side = 1000", "combinations of labels"),
    ("points", f"[points]\n{NOISY}\ncells_per_side = 9", f"[histogram]\n{NOISY}", "bounds belong to a column"),
    ("count", 'column = "town"\n', "", "[answer].column"),
    ("count", "epsilon = 1", 'epsilon = 1\nnoise = "one-sided"', ELSEWHERE),
    ("count", "epsilon = 1", 'epsilon = 1\nrelation = "replacement"', "nothing to answer"),
    ("count", "epsilon = 1", 'epsilon = 1\nby = ["town"]', "[answer].by"),
    ("count", 'column = "town"\n', 'column = "town"\n' + TOWN + "level = 0\n", "not grouped by"),
    ("count", "[answer]", '[sampling]\ncolumn = "rate"\nrates = [0.1, 0.2]\n[answer]', "a column of rates has a price"),
    ("sum", "lower = -10\n", "", "[answer].lower"),
    ("sum", "epsilon = 1", "epsilon = 1\nmissing = 101", "[answer].missing"),
    ("sum", "epsilon = 1", "epsilon = 1\nleast_records = 3", "[answer].least_records"),
    ("sum", "upper = 100\n", 'upper = 100\nby = ["amount"]\n[columns.amount]\nvalues = ["a"]\nlevel = 0\n', "grouped"),
    ("sum", "[answer]", RATE + '[answer]\nrelation = "replacement"', "add/remove price only"),
    ("moments", "epsilon = 1", 'epsilon = 1\ncolumn = "pay"', "[answer].column: this is not a parameter of moments"),
    ("moments", "epsilon = 1", "epsilon = 1\nmissing = 0", "[answer].missing"),
    ("moments", "epsilon = 1", 'epsilon = 1\nby = ["cell"]', "[answer].by: sums of products are of all records"),
    ("moments", "epsilon = 1", 'epsilon = 1\nrequest = "0"', "[answer].request"),
    ("moments", "[answer]", RATE + "[answer]", "[sampling]: sums of products are of all records"),
    ("moments", "upper = 9", "upper = 9.5", "[columns.pay].bounds: bounds are whole numbers"),
    ("moments", "upper = 9", "upper = 0", "[columns.pay].bounds"),
    ("moments", "upper = 9", "upper = 9, missing = 3", "[columns.pay].bounds.missing"),
    ("moments", "upper = 9", "upper = 9_000_000", "[answer]: two columns' bounds lie so far apart"),
    ("moments", "upper = 9 }", "upper = 9 }\nlevel = 0", "[columns.pay].level: a column with bounds has nothing else"),
    ("moments", "columns.pay]", "columns.label]", "[columns.label]: a released column can't be called label"),
    ("moments", "[columns.cell]", "[columns.second_column]", "can't be called second_column"),
    ("sketch", "\nhashes = 16", "", "hashes is required"),
    ("sketch", '"count-mean-sketch"', '"apple"', "there is no kind"),
    ("sketch", "hashes = 16", "hashes = 16\nsecret = 1", "there is no such key"),
    ("sketch", "hashes = 16", "hashes = 16\nleast_people = 10000", "least_people is not a parameter"),
    ("sketch", '"red"]\n', '"red"]\n' + DELTA, "[reports].least_people"),
    ("one bit", '"voted"]', '"voted"]\nleast_people = 10000', "[privacy].delta"),
    ("one bit", '"voted"]', '"voted"]\nleast_people = 10000\n[privacy]\ndelta = 1e-6\nepsilon = 0.001', "than the ε"),
    ("one bit", "voted", "estimate", "can't be called 'estimate'"),
    ("one bit", 'questions = ["voted"]', 'values = ["red", ""]', "[reports]"),
    ("unequal", 'column = "rate"\nrates = [0.1, 0.2]', "", "[sampling].rate"),
    ("unequal", "\nrates = [0.1, 0.2]", "", "[sampling].rates"),
    ("unequal", 'column = "rate"\n', "", "[sampling].column"),
    ("unequal", "rates =", "rate = 0.1\nrates =", "exclude each other"),
    ("unequal", "0.2]", "0.2]\n[sampling.design]\nlowest = 0.1\nhighest = 0.2\nexceptions = 1", "exclude each other"),
    ("unequal", "[0.1, 0.2]", "[0.2, 0.1]", "must ascend"),
    ("unequal", "[0.1, 0.2]", "[0.1, 1.2]", "must ascend"),
    ("unequal", '"rate"', '"cell"', "both be released and give the inclusion rate"),
    ("unequal", '"suppressed"\nk = 12', '"noisy"\nk = 12\nepsilon = 1', "a design for the last only"),
    ("survey", '"suppressed"\nk = 12', '"outlier-private"\nepsilon = 1\nhorizon = 9\nmargin = 3', "a design for"),
    ("survey", "highest = 0.2", "highest = 0.05", "rates must satisfy"),
    ("survey", "exceptions = 1", "exceptions = 1\nlargest = 0.15", "rates must satisfy"),
    ("survey", "highest = 0.2", "highest = 1", "[sampling.design].highest"),
    ("survey", "exceptions = 1", "exceptions = -1", "[sampling.design].exceptions"),
    ("survey", "highest = 0.2", "highest = 0.9", "no epsilon is enough"),
    ("survey", "[sampling.design]", "rows_per_person = 5\n[sampling.design]", "[data].rows_per_person"),
    ("synthetic", "epsilon = 1\n", "", "[privacy].epsilon: this is required and missing."),
    ("synthetic", SPEND, "[privacy]\nepsilon = 1e-9\ndelta = 1e-60\n", "epsilon 1e-9 is too little"),
    ("synthetic", "[synthetic]", '[synthetic]\nmethod = "pategan"', "[synthetic].method"),
    ("synthetic", COLOUR + "level = 0", '[columns.colour]\nvalues = ["blue"]\nlevel = 1', "has a single label"),
    ("synthetic", COLOUR + "level = 0\n", "", "a model of one column"),
    ("synthetic", AGE + "level = 1\n", WIDE.format("one") + WIDE.format("other"), "MST counts"),
]  # fmt: skip
"""A specification of some kind, what is exchanged in it for what, and what is said then."""


@pytest.mark.parametrize("kind", BASES)
def test_what_is_exchanged_is_all_that_is_wrong(tmp_path: Path, kind: str) -> None:
    (tmp_path / "spec.toml").write_text(BASES[kind])
    read_spec(tmp_path / "spec.toml", output=None)


@pytest.mark.parametrize(("kind", "old", "new", "said"), REFUSED)
def test_what_cannot_be_asked_for_is_refused(tmp_path: Path, kind: str, old: str, new: str, said: str) -> None:
    assert old in BASES[kind]
    (tmp_path / "spec.toml").write_text(BASES[kind].replace(old, new, 1))
    with pytest.raises(InputRefused) as refused:
        read_spec(tmp_path / "spec.toml", output=None)
    assert refused.value.exit_code == 2
    assert said in refused.value.message
