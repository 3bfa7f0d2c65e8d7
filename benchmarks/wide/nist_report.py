"""NIST's own report of a release: SDNist on the excerpt of Massachusetts, in an environment of its own.

    python -m benchmarks.wide.nist_report --nist FOLDER                     # makes a release in blocks first
    python -m benchmarks.wide.nist_report --nist FOLDER --release FOLDER    # of a release that is there

SDNist wants one file of records with all columns. A release in blocks has none, and must have none. So records are
drawn from the published files alone that agree with its counts and with the rows of every block: nobody's records. What
the package would download, the excerpt with its schema and dictionary, is written from `ma2019.csv` and the codes of
`wide_tables.py`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from crowdblend.deploy.api import add_dataset, release
from crowdblend.mechanisms.hierarchies.build import described_hierarchy
from crowdblend.mechanisms.pair_model.chosen_levels import model_records
from crowdblend.mechanisms.pair_model.model import PairModel
from numpy.typing import NDArray

from ..utility.peers import peers_environment
from ..whole_run import write_between
from .wide_measures import Partition, evenly_drawn, fitted_to
from .wide_tables import NIST_BLOCKS, nist_columns

__all__ = ["main", "read_release", "released", "survey_records"]

BY = "benchmarks/wide/nist_report.py"
PINS = Path(__file__).with_name("sdnist.txt")
SEED = 1
LEAST_DRAWN = 200_000
"""Records that are weighted, at least; as many as there are people are drawn of them."""
NUMBERS = {
    "AGEP": (0, 99), "DENSITY": (16.3, 52864.7), "PINCP": (-9000, 1341000), "POVPIP": (0, 501), "PWGTP": (1, 9999),
    "WGTP": (0, 9999), "NOC": (0, 19), "NPF": (2, 20),
}  # fmt: skip
"""Columns of numbers, with their bounds by the survey's dictionary."""
BINNED = {"AGEP": 99, "POVPIP": 501, "PWGTP": 400, "WGTP": 400}
"""Columns whose values are bins, and the largest number that is drawn within the last bin."""

Codes = NDArray[np.int64]
Amounts = NDArray[np.float64]


def released(nist: Path, work: Path) -> Path:
    """Release the excerpt in blocks by subject, as whoever proposes nothing else does, and return its folder."""
    columns = nist_columns()
    with (nist / "ma2019.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with (work / "people.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([own.value_of(row[name]) for name, own in columns.items()] for row in rows)
    parts = [
        f'[release]\nname = "people"\n[data]\ndataset = "people"\nsource = "{work / "people.csv"}"\n[deletion]\n'
        '[privacy]\nepsilon = 1\ndelta = 1e-6\n[margins]\npairs = "auto"\n',
        *(f"[blocks.{name}]\ncolumns = {json.dumps(own)}\n" for name, own in NIST_BLOCKS.items()),
    ]
    for name, own in columns.items():
        lines = [";".join([value, *labels, "*"]) for value, labels in zip(own.values, own.labels(), strict=True)]
        (work / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        parts.append(f'[columns.{name}]\nhierarchy = "{work / name}.csv"\nlevels = "auto"\n')
    (work / "people.toml").write_text("".join(parts), encoding="utf-8")
    known: Any = {"ledger_url": f"sqlite:///{work / 'ledger.db'}", "home": work / "private"}
    add_dataset("people", epsilon=1, delta="1e-6", **known)
    release(work / "people.toml", output=work / "release", **known)
    return work / "release"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ReadRelease:
    """What a release's files tell.

    Args:
        names: of the columns.
        model: the fitted counts of columns and counted pairs, by values.
        counted: the columns of each counted pair, of each of the two the label of each value, and the fitted counts.
        rows: of each table its columns; of each, the label of each value at the last stage; the distinct labels of its
            rows, shape (columns, groups); and of how many people each group stands.
    """

    names: Sequence[str]
    model: PairModel
    counted: Sequence[tuple[tuple[int, int], tuple[Codes, Codes], Amounts]]
    rows: Sequence[tuple[Sequence[int], Sequence[Codes], Codes, Amounts]]

    def records(self, number: int, *, coins: np.random.Generator) -> Codes:
        """Return records that agree with counts and rows, shape (columns, number): nobody's.

        They are drawn along the model's tree of pairs, as levels are chosen by, and weighted so that they have the
        fitted counts of all counted pairs, and of each group of rows by its labels at the last stage.
        """
        codes = model_records(self.model, number=max(LEAST_DRAWN, number))
        partitions = []
        for columns, labels, groups, masses in self.rows:
            places = [own[codes[column]] for column, own in zip(columns, labels, strict=True)]
            known, parts = np.unique(np.concatenate([groups, np.array(places)], axis=1), axis=1, return_inverse=True)
            of_group = np.full(known.shape[1], -1)
            of_group[parts[: masses.size]] = np.arange(masses.size)
            partitions.append(Partition(of_group[parts[masses.size :]], masses))
        for (first, second), labels, counts in self.counted:
            parts = labels[0][codes[first]] * counts.shape[1] + labels[1][codes[second]]
            partitions.append(Partition(parts, counts.reshape(-1)))
        weights = fitted_to(np.ones(codes[0].size), partitions)
        chosen = evenly_drawn(weights, number=number, coins=coins)
        return np.array(codes)[:, chosen]


def read_release(folder: Path) -> ReadRelease:
    """Read the files of a release of the excerpt that chose pairs.

    Args:
        folder: the release's, with Parquet files.

    Raises:
        SystemExit: it is another release.
    """
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    columns, published = nist_columns(), certificate["published"]
    stated = {one["column"]: one["hierarchy"] for one in certificate["map"]["columns"]}
    for name, hierarchy in stated.items():
        if name not in columns or {row[0] for row in hierarchy.get("rows", [])} != set(columns[name].values):
            raise SystemExit(f"{folder}: column {name} hasn't the values of this comparison; release it by them")
    names = list(stated)
    hierarchies = {name: described_hierarchy(one) for name, one in stated.items()}

    def labels_of(name: str, level: int) -> list[str]:
        """Return the label of each value."""
        own = hierarchies[name]
        return list(own.labels(own.codes_of_texts([value.encode() for value in columns[name].values], level), level))

    cells = pq.read_table(folder / "margins.parquet").to_pylist()
    fitted = {(one["pair"], one["column"], one["label"], one["second_label"]): one["fitted"] for one in cells}
    margins = [np.array([max(fitted[0, name, label, None], 1e-6) for label in labels_of(name, 0)]) for name in names]
    counted, tables = [], dict[tuple[int, int], Amounts]()
    for number, pair in enumerate(published["pairs"], start=1):
        both = [labels_of(name, level) for name, level in zip(pair["columns"], pair["levels"], strict=True)]
        kinds = [list(dict.fromkeys(labels)) for labels in both]
        of_values = [np.array([kind.index(one) for one in labels]) for kind, labels in zip(kinds, both, strict=True)]
        counts = np.array([[fitted[number, pair["columns"][0], one, other] for other in kinds[1]] for one in kinds[0]])
        first, second = (names.index(name) for name in pair["columns"])
        counted.append(((first, second), (of_values[0], of_values[1]), counts))
        whole = np.outer(margins[first], margins[second])
        merged = np.zeros_like(counts)
        np.add.at(merged, (of_values[0][:, None], of_values[1][None, :]), whole)
        if (first, second) not in tables or counts.size == whole.size:  # the finer one where there are two
            tables[first, second] = whole * (counts / merged)[of_values[0]][:, of_values[1]] + 1e-9
    rows = []
    for block in published.get("blocks", [published]):
        file = folder / (f"data-{block['name']}.parquet" if "name" in block else "data.parquet")
        table, last = pq.read_table(file).to_pydict(), block["stages"][-1]["levels"]
        places = [number for number, name in enumerate(names) if name in last]
        coarse = {name: labels_of(name, last[name]) for name in last}
        codes = []
        for name in (names[place] for place in places):
            kinds_of = {"*": coarse[name][0]} | {
                label: coarse[name][value]
                for level in range(last[name] + 1)
                for value, label in enumerate(labels_of(name, level))
            }
            codes.append([coarse[name].index(kinds_of[label]) for label in table[name]])
        groups, parts = np.unique(np.array(codes), axis=1, return_inverse=True)
        of_values = [
            np.array([coarse[names[place]].index(label) for label in coarse[names[place]]]) for place in places
        ]
        rows.append((places, of_values, groups, np.bincount(parts.reshape(-1), weights=table["weight"])))
    records = float(np.mean([own.sum() for own in margins]))
    model = PairModel(records=records, margins=tuple(margins), tables=tables)
    counted.sort(key=lambda one: one[2].size)  # finer counts have the last word
    return ReadRelease(names=names, model=model, counted=counted, rows=rows)


def survey_records(names: Sequence[str], codes: Codes, *, coins: np.random.Generator) -> list[list[str]]:
    """Return records as the survey writes them, numbers drawn evenly within their bins; shape (records, columns)."""
    found = []
    for name, own in zip(names, codes, strict=True):
        values = nist_columns()[name].values
        if name not in BINNED:
            found.append([values[code] for code in own.tolist()])
            continue
        edges = sorted(int(value) for value in values if value != "N")
        ends = dict(zip(edges, [*(edge - 1 for edge in edges[1:]), BINNED[name]], strict=True))
        found.append(
            [
                "N" if values[code] == "N" else str(coins.integers(int(values[code]), ends[int(values[code])] + 1))
                for code in own.tolist()
            ]
        )
    return [list(row) for row in zip(*found, strict=True)]


def write_survey_data(nist: Path, folder: Path) -> None:
    """Write the folder that SDNist would download: the excerpt, its schema, and its dictionary, as far as it asks."""
    (folder / "massachusetts").mkdir(parents=True)
    shutil.copy(nist / "ma2019.csv", folder / "massachusetts" / "ma2019.csv")
    with (nist / "ma2019.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns, schema, dictionary = nist_columns(), dict[str, Any](), dict[str, Any]()
    for name in rows[0]:
        there = sorted({row[name] for row in rows})
        missing = "N" in there
        values = list(columns[name].values) if name in columns and name not in NUMBERS else there
        own: dict[str, Any] = (
            {"has_null": True, "null_value": "N", "dtype": "object"} if missing else {"dtype": "int64"}
        )
        entry: dict[str, Any] = {"N": "not applicable"} if missing else {}
        if name in NUMBERS:
            low, high = NUMBERS[name]
            entry |= {"min": low, "max": high}
        if name in NUMBERS and name not in ("NOC", "NPF"):
            own |= {"min": low, "max": high}
        else:
            own["values"] = [int(value) for value in values] if not missing and name != "PUMA" else values
        if name not in NUMBERS:
            entry |= {value: value for value in values if value != "N"}
        own |= {"PUMA": {"dtype": "object"}, "DENSITY": {"dtype": "float64"}}.get(name, {})
        schema[name], dictionary[name] = own, {"description": name, "values": entry}
    _ = dictionary["INDP"].pop("values")  # the package knows that it has too many
    written = {
        "massachusetts/ma2019.json": {"schema": schema},
        "data_dictionary.json": dictionary,
        "mappings.json": {"PUMA": {value: {"name": value, "link": ""} for value in columns["PUMA"].values}},
        "config.json": {"k_marginal": {"ignore_features": []}, "pca": {}, "bins": {}, "correlation_features": []},
    }
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def report(nist: Path, records: Sequence[Sequence[str]], names: Sequence[str], *, work: Path, python: Path) -> Path:
    """Make SDNist's report of some records, and return its folder.

    Raises:
        subprocess.CalledProcessError: the package failed.
    """
    shutil.rmtree(work / "sdnist", ignore_errors=True)
    write_survey_data(nist, work / "sdnist" / "data")
    with (work / "sdnist" / "records.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(records)
    command = [python, "-m", "sdnist.report", work / "sdnist" / "records.csv", "MA"]
    subprocess.run(
        [*map(str, command), "--data-root", str(work / "sdnist" / "data")],
        cwd=work / "sdnist",
        env=os.environ | {"MPLBACKEND": "Agg", "BROWSER": "true"},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return next((work / "sdnist" / "reports").iterdir())


def figures(folder: Path) -> list[str]:
    """Return a table of what a report says in numbers."""
    told = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    synopsis = told["k_marginal"]["k_marginal_synopsys"]
    with (folder / told["Univariate"]["divergence"]).open(newline="", encoding="utf-8") as file:
        divergences = [float(row["divergence"]) for row in csv.DictReader(file)]
    correlations = told["Correlations"]["pearson correlation difference"]["correlation_difference"]
    with (folder / correlations).open(newline="", encoding="utf-8") as file:
        cells = [cell for row in list(csv.reader(file))[1:] for cell in row[1:]]
    differences = [abs(float(cell)) for cell in cells if cell]  # empty where a column is constant
    inconsistent = {one["Inconsistency Group"]: one for one in told["inconsistencies"]["summary"]}
    rows = {
        "k-marginal, each pair within its PUMA": f"{synopsis['k_marginal_score']}",
        "as good as a sample of so many percent": f"{synopsis['sub_sampling_equivalent']}",
        "columns by themselves: mean divergence": f"{np.mean(divergences):.3f}",
        "correlations (Pearson): mean absolute difference": f"{np.mean(differences):.3f}",
        "propensity, mean square error": f"{told['propensity mean square error']['pmse_score']:.4f}",
        **{
            f"records that are inconsistent: {group.lower()}": f"{one['Percent Records Inconsistent']}%"
            for group, one in inconsistent.items()
        },
        "unique records matched": f"{told['unique_exact_matches']['records matched in target data']}",
    }
    return ["| SDNist's measure | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]


def main(argv: Sequence[str] | None = None) -> None:
    """Make the report, print its figures, and write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nist", type=Path, required=True, help="folder of ma2019.csv")
    parser.add_argument("--release", type=Path, help="folder of a release of it; without it one is made")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "crowdblend-wide")
    parser.add_argument("--sdnist", type=Path, help="a Python that has what sdnist.txt names")
    parser.add_argument("--write", type=Path, help="docs/benchmarks/wide-files.md")
    asked = parser.parse_args(argv)
    nist, work, coins = asked.nist.resolve(), asked.work.resolve(), np.random.default_rng(SEED)
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as temporary:
        made = read_release(asked.release or released(nist, Path(temporary)))
    with (nist / "ma2019.csv").open(encoding="utf-8") as file:
        number = sum(1 for _ in file) - 1
    codes = made.records(number, coins=coins)
    python = asked.sdnist or peers_environment(work, pins=PINS)
    folder = report(nist, survey_records(made.names, codes, coins=coins), made.names, work=work, python=python)
    lines = figures(folder)
    print("\n".join([*lines, "", f"{folder / 'report.html'}"]))
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)


if __name__ == "__main__":
    main()
