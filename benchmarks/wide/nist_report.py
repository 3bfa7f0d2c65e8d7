"""NIST's own report of a release: SDNist on the excerpt of Massachusetts, in an environment of its own.

    python -m benchmarks.wide.nist_report --nist FOLDER                     # makes a release in blocks first
    python -m benchmarks.wide.nist_report --nist FOLDER --release FOLDER    # of a release that is there
    python -m benchmarks.wide.nist_report --nist FOLDER --synthesizers MST  # and of synthetic records beside it

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
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from crowdblend.analysis import load
from crowdblend.analysis.combined_counts import CombinedCounts
from crowdblend.analysis.label_tree import pair_model
from crowdblend.analysis.published_tables import PublishedTables, RowTable, labels_to
from crowdblend.deploy.api import add_dataset, release
from crowdblend.mechanisms.pair_model.chosen_levels import model_records
from numpy.typing import NDArray

from ..generated_pages import write_between
from ..utility.peers import INDEPENDENT, Asked, answers, peers_environment
from .wide_measures import Partition, evenly_drawn, fitted_to
from .wide_tables import NIST_BLOCKS, nist_columns, nist_wide

__all__ = ["main", "model_people", "released", "survey_records", "write_survey_data"]

BY = "benchmarks/wide/nist_report.py"
PINS = Path(__file__).with_name("sdnist.txt")
EPSILON, MINUTES = Decimal(1), 40.0
PEERS = ("MST", "MST of its paper")
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


def model_people(folder: Path, *, number: int, coins: np.random.Generator) -> tuple[list[str], Codes]:
    """Return the columns of a release of the excerpt, and records that agree with its counts and rows: nobody's.

    They are drawn along the tree of pairs by which levels are chosen, and weighted: for each pair the counts by the
    model of all that is published, and for each group of rows the people that it stands for by its labels at the last
    stage.

    Args:
        folder: the release's.
        number: of records.
        coins: of the choice among weighted records.

    Returns:
        Names, and the code of each record's value in each column, shape (columns, number).

    Raises:
        SystemExit: it isn't released by the values of this comparison, or counts nothing beside its rows.
    """
    loaded, columns = load(folder), nist_columns()
    published = loaded.published
    names = [column.name for column in published.columns]
    if not published.margins or any(
        name not in columns or set(loaded.labels(name)) - {"*"} != set(columns[name].values) for name in names
    ):
        raise SystemExit(f"{folder}: this is no release of the excerpt with margins by the values of this comparison")
    combined = CombinedCounts(
        published.margins, deviation=published.margin_deviation, pairs=published.pairs, total=published.total
    )
    model = pair_model(published, combined)
    codes = model_records(model, number=max(LEAST_DRAWN, number))
    partitions = [_row_groups(codes, table, published) for table in published.rows]
    for (first, second), counts in model.tables.items():
        partitions.append(Partition(codes[first] * counts.shape[1] + codes[second], counts.reshape(-1)))
    declared = np.all([own > 0 for own in codes], axis=0).astype(float)  # 0 is `*`, which nobody has
    chosen = evenly_drawn(fitted_to(declared, partitions), number=number, coins=coins)
    texts = [loaded.labels(name) for name in names]
    places = [
        np.array([columns[name].values.index(label) if label != "*" else -1 for label in own])
        for name, own in zip(names, texts, strict=True)
    ]
    return names, np.array([place[own[chosen]] for place, own in zip(places, codes, strict=True)])


def _row_groups(codes: Sequence[Codes], table: RowTable, published: PublishedTables) -> Partition:
    """Return how many people the rows of a table tell of each group by the labels of its last stage."""
    columns, last = [published.columns[place] for place in table.columns], table.stages[-1].levels
    told = [
        [
            column.hierarchy.coarser(own, level=level, to=coarsest)
            for column, own, level, coarsest in zip(columns, stage.codes, stage.levels, last, strict=True)
        ]
        for stage in table.stages
    ]
    mass = np.concatenate([stage.mass for stage in table.stages])
    labels = [labels_to(column, level) for column, level in zip(columns, last, strict=True)]
    people = np.array([label[codes[place]] for place, label in zip(table.columns, labels, strict=True)])
    _, parts = np.unique(np.concatenate([*map(np.array, told), people], axis=1), axis=1, return_inverse=True)
    parts = parts.reshape(-1)
    known = np.zeros(int(parts.max()) + 1, dtype=bool)
    known[parts[: mass.size]] = True
    counts = np.bincount(parts[: mass.size], weights=mass, minlength=known.size)
    return Partition(np.where(known[parts[mass.size :]], parts[mass.size :], -1), counts)


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


def report(nist: Path, records: Sequence[Sequence[str]], names: Sequence[str], *, folder: Path, python: Path) -> None:
    """Make SDNist's report of some records in a folder, anew.

    Raises:
        subprocess.CalledProcessError: the package failed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    write_survey_data(nist, folder / "data")
    with (folder / "records.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(records)
    subprocess.run(
        [str(python), "-m", "sdnist.report", str(folder / "records.csv"), "MA", "--data-root", str(folder / "data")],
        cwd=folder,
        env=os.environ | {"MPLBACKEND": "Agg", "BROWSER": "true"},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def figures(folder: Path) -> dict[str, str]:
    """Return what a report says in numbers, by what it measures."""
    told = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    synopsis = told["k_marginal"]["k_marginal_synopsys"]
    with (folder / told["Univariate"]["divergence"]).open(newline="", encoding="utf-8") as file:
        divergences = [float(row["divergence"]) for row in csv.DictReader(file)]
    correlations = told["Correlations"]["pearson correlation difference"]["correlation_difference"]
    with (folder / correlations).open(newline="", encoding="utf-8") as file:
        cells = [cell for row in list(csv.reader(file))[1:] for cell in row[1:]]
    differences = [abs(float(cell)) for cell in cells if cell]  # empty where a column is constant
    inconsistent = {one["Inconsistency Group"]: one for one in told["inconsistencies"]["summary"]}
    return {
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


def synthetic_codes(nist: Path, algorithm: str, python: Path) -> Codes:
    """Return a synthesizer's records, drawn independently from its model, shape (columns, records)."""
    table = nist_wide(nist).table
    asked = Asked(algorithm=algorithm, epsilon=EPSILON, draws=1, minutes=MINUTES)
    answer = next(one for one in answers(asked, table.records, table.sizes, python=python) if one.method == INDEPENDENT)
    declared = np.all(answer.codes >= 0, axis=0)
    return np.repeat(answer.codes[:, declared], answer.numbers[declared].astype(np.int64), axis=1)


def main(argv: Sequence[str] | None = None) -> None:
    """Make the report, print its figures, and write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nist", type=Path, required=True, help="folder of ma2019.csv")
    parser.add_argument("--release", type=Path, help="folder of a release of it; without it one is made")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "crowdblend-wide")
    parser.add_argument("--synthesizers", nargs="*", choices=PEERS, default=())
    parser.add_argument("--peers", type=Path, help="a Python that has what peers.txt of benchmarks/utility names")
    parser.add_argument("--sdnist", type=Path, help="a Python that has what sdnist.txt names")
    parser.add_argument("--write", type=Path, help="docs/benchmarks/wide-files.md")
    asked = parser.parse_args(argv)
    nist, work, coins = asked.nist.resolve(), asked.work.resolve(), np.random.default_rng(SEED)
    work.mkdir(parents=True, exist_ok=True)
    with (nist / "ma2019.csv").open(encoding="utf-8") as file:
        number = sum(1 for _ in file) - 1
    with tempfile.TemporaryDirectory(dir=work) as temporary:
        made = asked.release or released(nist, Path(temporary))
        names, codes = model_people(made, number=number, coins=coins)
    files = {"our release": codes}
    for one in asked.synthesizers:
        files[one] = synthetic_codes(nist, one, asked.peers or peers_environment(work))
    python, told = asked.sdnist or peers_environment(work, pins=PINS), dict[str, dict[str, str]]()
    for place, (name, own) in enumerate(files.items(), start=1):
        folder = work / f"sdnist-{place}"
        report(nist, survey_records(names, own, coins=coins), names, folder=folder, python=python)
        told[name] = figures(next((folder / "reports").iterdir()))
        print(f"{name}: {folder / 'reports'}")
    lines = [
        f"| SDNist's measure | {' | '.join(told)} |",
        "|---|" + "---|" * len(told),
        *(f"| {measure} | {' | '.join(one[measure] for one in told.values())} |" for measure in told["our release"]),
    ]
    print("\n".join(lines))
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)


if __name__ == "__main__":
    main()
