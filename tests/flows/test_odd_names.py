"""Odd names of columns and odd labels go through release, verification, sheet and metadata, in both formats."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.metadata_folder import check_codebook, check_croissant, check_csvw

NAMES = (
    'e"f',
    "g,h",
    " i ",
    "j|k",
    "=l()",
    "\x1b[31mm",
    "n\to",
    "ünï\u202e",
    "'; --",
    "{{ p }}",
    "%41",
    "a/b.c",
    "]]>&amp;",
)
LABELS = (
    'x"y',
    "x,y",
    " x ",
    "x|y",
    "=x",
    "\x1b[2J",
    "x\ty",
    "\u202ex",
    "'x",
    "NA",
    "007",
    "<b>",
    "1e5",
)


def spec_of(file_format: str, kind: str) -> str:
    columns = "".join(
        f"[columns.{json.dumps(name)}]\nvalues = [{', '.join(map(json.dumps, (label, 'other')))}]\n"
        + ("level = 0\n" if kind == "sampled" else "levels = [0, 1]\n")
        for name, label in zip(NAMES, LABELS, strict=False)
    )
    values = ", ".join(map(json.dumps, LABELS))
    columns += f"[columns.all]\nvalues = [{values}]\n" + ("level = 0\n" if kind == "sampled" else "levels = [0, 0]\n")
    table = {
        "sampled": "[sampling]\nrate = 0.5\n[suppression]\nk = 8\n[privacy]\ndelta = 0.01\n",
        "deletion": "[deletion]\n[margins]\n[privacy]\nepsilon = 5\ndelta = 0.01\n",
    }[kind]
    return (
        f'[release]\nname = "odd"\noutput = "out"\nformat = "{file_format}"\nform = "counts"\nmetadata = {{}}\n'
        f'[data]\ndataset = "people"\nsource = "odd.parquet"\n{table}{columns}'
    )


@pytest.mark.parametrize("name", ["a\rb", "c\nd", "e\0f"])
def test_a_name_with_a_line_break_is_refused_before_the_charge(desk, name) -> None:
    desk.add_dataset()
    pq.write_table(pa.table({name: ["x", "y"] * 100}), desk.folder / "odd.parquet")
    spec = desk.folder / "odd.toml"
    own = f'[columns.{json.dumps(name)}]\nvalues = ["x", "y"]\nlevel = 0\n'
    spec.write_text(spec_of("csv", "sampled").split("[columns")[0] + own)
    for command in ("explain", "run"):
        refused = desk.refuse(command, spec, said="has a line break or a NUL in its name: rename it in the source")
        assert repr(name) in refused.err
    assert not (desk.folder / "out").exists()


@pytest.mark.parametrize(
    ("file_format", "kind"),
    [
        ("csv", "sampled"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("csv", "deletion"), ("parquet", "sampled"), ("parquet", "deletion"))
        ),
    ],
)
def test_every_odd_name_and_label_goes_through_all_or_is_refused_before_the_charge(desk, file_format, kind) -> None:
    desk.add_dataset(epsilon="1000", delta="0.5")
    records = 4_000
    columns = {name: [label, "other"] * (records // 2) for name, label in zip(NAMES, LABELS, strict=False)}
    columns["all"] = [LABELS[record // 2 % len(LABELS)] for record in range(records)]
    pq.write_table(pa.table(columns), desk.folder / "odd.parquet")
    spec = desk.folder / "odd.toml"
    spec.write_text(spec_of(file_format, kind))
    answer = desk.succeed("run", spec, "--json")
    release = Path(answer.json["output"])
    if file_format == "csv":
        with (release / "data.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        read = pd.read_csv(release / "data.csv", dtype=str, keep_default_na=False).to_dict("records")
        assert read == rows, "another reader of CSV reads the same"
    else:
        rows = pq.read_table(release / "data.parquet").to_pylist()
    assert set(NAMES) <= rows[0].keys()
    for name, label in zip(NAMES, LABELS, strict=False):
        assert {row[name] for row in rows} <= {label, "other", "*"}
        assert label in {row[name] for row in rows}
    assert {row["all"] for row in rows} - {"*"} == set(LABELS)
    told = desk.succeed("verify", release / "certificate.json")
    assert "\x1b" not in told.out + told.err
    headers = {"data": list(rows[0])}
    if kind == "deletion":
        headers["margins"] = ["column", "label", "second_column", "second_label", "count"]
        headers["margins"] += ["standard_error", "fitted"]
    check_croissant(release / "metadata" / "croissant.json", headers)
    if file_format == "csv":
        check_csvw(release / "metadata" / "csvw.json", headers)
    in_xml = {stem: [name.replace("\x1b", "\ufffd") for name in own] for stem, own in headers.items()}
    check_codebook(release / "metadata" / "ddi-codebook.xml", in_xml)
    sheet = desk.succeed("sheet", release, "--output", desk.folder / "documents", "--json")
    with Path(sheet.json["labels"]).open(newline="", encoding="utf-8") as file:
        labels = list(csv.DictReader(file))
    assert {row["column"] for row in labels} == {*NAMES, "all"}
    assert {row["label"] for row in labels if row["column"] == "all"} == {*LABELS, "*"}
    for page in (sheet.json["markdown"], sheet.json["html"]):
        text = Path(page).read_text(encoding="utf-8")
        assert not {"\x1b", "\u202e"} & set(text)
        assert "u001b" in text
