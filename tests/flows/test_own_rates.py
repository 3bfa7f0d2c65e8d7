"""Records with rates of their own in microdata, drawn maps, points and series: at the price of the highest rate."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.certificate.verify import check_certificate
from crowdblend.accounting.certificate.write_certificate import DOMAIN, certificate_bytes, signed_bytes
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from pyarrow import csv
from scipy import stats

SPEC = """
[release]
name = "rated"
output = "out"
{form}
[data]
dataset = "people"
source = "rated.parquet"
[sampling]
column = "inclusion"
rates = [0.1, 0.2]
[privacy]
delta = 1e-6
"""
GROUPS, EACH = 200, 800
FIXED = "[suppression]\nk = 40\n[columns.cell]\ninterval = { lower = 0, upper = 200, widths = [] }\nlevel = 0\n"
DRAWN = (
    "[suppression]\nk = 40\n[selection]\nepsilon = 0.1\n"
    "[columns.cell]\ninterval = { lower = 0, upper = 200, widths = [100] }\n"
)
POINTS = (
    '[points]\nkind = "suppressed"\nk = 40\ncells_per_side = 4\n[columns.cell]\nbounds = { lower = 0, upper = 200 }\n'
)


@pytest.fixture
def town(desk):
    """200 cells of 800 records, half of them with a rate of 0.1, half with 0.25, which is drawn as 0.2."""
    cells = np.repeat(np.arange(GROUPS), EACH)
    table = pa.table({"cell": cells, "inclusion": np.where(cells < GROUPS // 2, 0.1, 0.25)})
    pq.write_table(table, desk.folder / "rated.parquet")
    desk.add_dataset(epsilon="9", delta="0.1")
    return desk


def spec_of(desk, rest: str, *, form: str = "", name: str = "rated.toml") -> Path:
    path: Path = desk.folder / name
    path.write_text(SPEC.format(form=form) + rest, encoding="utf-8")
    return path


def published(result: dict) -> dict:
    return pq.read_table(Path(result["output"]) / "data.parquet").to_pydict()


def drawn_at(drawn: int, records: int, rate: float) -> bool:
    """Whether so many of some records are those of one rate, and of no other 10% away; false alarms at 1e-6."""
    near = stats.binomtest(drawn, records, rate).pvalue > 1e-6
    return near and all(stats.binomtest(drawn, records, rate * far).pvalue < 1e-6 for far in (1.1, 1 / 1.1))


def test_rows_are_drawn_at_the_rates_that_records_name(town) -> None:
    spec = spec_of(town, FIXED, form='form = "counts"')
    told = town.succeed("explain", spec, "--json").json
    assert told["inclusion"] == {"column": "inclusion", "rates": ["0.1", "0.2"]}
    done = town.succeed("run", spec, "--json").json
    highest = StronglySafeRelease(k=40, sampling_rate=Decimal("0.2"))
    assert done["mechanism"] == {"kind": "strongly-safe-release/1", "k": 40, "sampling_rate": "0.2"}
    assert told["epsilon"] == float(price(highest, delta=Decimal("1e-6")).epsilon) == pytest.approx(0.219, abs=5e-4)
    table = published(done)
    assert set(table) == {"cell", "count"}
    counts = dict(zip(map(int, table["cell"]), table["count"], strict=True))
    assert len(counts) == GROUPS, "none is suppressed, so that the counts are the sample's"
    for cells, rate in ((range(100), 0.1), (range(100, 200), 0.2)):
        assert drawn_at(sum(counts[cell] for cell in cells), 100 * EACH, rate)
        spread = np.var([counts[cell] for cell in cells]) / (EACH * rate * (1 - rate))
        assert 0.4 < spread < 1.8
    certificate = json.loads(Path(done["certificate"]).read_text(encoding="utf-8"))
    assert certificate["inclusion"] == {"column": "inclusion", "rates": ["0.1", "0.2"]}
    assert certificate["sampler_layout"].endswith(" chacha20-inclusion/1")
    assert "included at the rate that it names itself" in certificate["guarantee"]["in_words"]
    assert [one["column"] for one in certificate["map"]["columns"]] == ["cell"]
    assert town("verify", done["certificate"]).code == town("ledger", "verify").code == 0
    for command in (
        ["sheet", "out"],
        ["preview", spec, "--public", "rated.parquet"],
        ["report", "private", spec, "out"],
    ):
        town.refuse(*command, said="rates")


def test_a_forged_column_of_rates_is_found(town) -> None:
    done = town.succeed("run", spec_of(town, FIXED), "--json").json
    path = Path(done["certificate"])
    sound = path.read_bytes()
    key = Anchoring(home=town.home, file=None).keys.current()
    for change, what in (
        (lambda one: one.pop("inclusion"), "a column of rates exactly where"),
        (lambda one: one.update(sampler_layout=one["sampler_layout"].rpartition(" ")[0]), "a column of rates exactly"),
        (lambda one: one["inclusion"].update(rates=["0.1", "0.3"]), "is not the one that its price is for"),
        (lambda one: one["inclusion"].update(rates=["0.2", "0.1"]), "can't be read"),
        (lambda one: one["inclusion"].update(rates=[]), "can't be read"),
        (lambda one: one["inclusion"].update(rates=["NaN", "0.2"]), "can't be read"),
        (lambda one: one["inclusion"].update(more=1), "can't be read"),
    ):
        document = json.loads(sound)
        change(document)
        document["signature"]["value"] = key.sign(domain=DOMAIN, message=signed_bytes(document)).hex()
        path.write_bytes(certificate_bytes(document))
        assert any(what in finding for finding in check_certificate(path)), (what, check_certificate(path))


@pytest.mark.slow
def test_a_drawn_map_and_points_are_of_records_at_their_own_rates(town) -> None:
    """The first from a CSV file, the second from a Parquet one."""
    csv.write_csv(pq.read_table(town.folder / "rated.parquet"), town.folder / "rated.csv")
    drawn = spec_of(town, DRAWN, form='form = "counts"')
    drawn.write_text(drawn.read_text(encoding="utf-8").replace("rated.parquet", "rated.csv"), encoding="utf-8")
    done = town.succeed("run", drawn, "--json").json
    table = published(done)
    assert drawn_at(sum(table["count"]), GROUPS * EACH, 0.15)
    assert town("verify", done["certificate"]).code == 0
    done = town.succeed("run", spec_of(town, POINTS, name="points.toml"), "--output", "points", "--json").json
    places = np.array(published(done)["cell"])
    for half, rate in ((places < 100, 0.1), (places > 100, 0.2)):
        assert drawn_at(int(half.sum()), 100 * EACH, rate)
    assert town("verify", done["certificate"]).code == 0


@pytest.mark.slow
def test_a_series_of_records_with_rates_costs_what_the_highest_does(town) -> None:
    """The rates are fixed with a series; where columns are free, so are rates below its own."""
    spec = spec_of(town, FIXED)
    added = town.succeed("series", "add", "monthly", spec, "--releases", "3", "--json").json
    highest = StronglySafeRelease(k=40, sampling_rate=Decimal("0.2"))
    assert added["epsilon"] == pytest.approx(float(price(highest, delta=Decimal("1e-6"), releases=3).epsilon))
    done = town.succeed("run", spec, "--series", "monthly", "--json").json
    assert town("verify", done["certificate"]).code == 0
    spec.write_text(spec.read_text(encoding="utf-8").replace("[0.1, 0.2]", "[0.05, 0.2]"), encoding="utf-8")
    refused = town("run", spec, "--series", "monthly", "--output", "again")
    assert refused.code == 3
    assert "differs from the one that was registered" in refused.err
    town.succeed("series", "add", "freely", spec, "--releases", "2", "--free-columns")
    spec.write_text(spec.read_text(encoding="utf-8").replace("[0.05, 0.2]", "[0.1, 0.15]"), encoding="utf-8")
    done = town.succeed("run", spec, "--series", "freely", "--output", "free", "--json").json
    assert town("verify", done["certificate"]).code == 0
    assert json.loads(Path(done["certificate"]).read_text(encoding="utf-8"))["inclusion"]["rates"] == ["0.1", "0.15"]
    assert town("ledger", "verify").code == 0
