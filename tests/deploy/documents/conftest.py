"""Real releases, made once for the tests that read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Commands
from support.desk import CommandFolder
from support.prefect_servers import PrefectServer

SPEC = """
[release]
name = "{name}"
format = "{file_format}"
output = "{name}"
{form}
[data]
dataset = "people"
source = "people.csv"

[sampling]
rate = 0.2

{mechanism}
[privacy]
delta = 1e-5

[columns."the town"]
hierarchy = "towns.csv"
level = {level}

[columns.age]
interval = {{ lower = 0, upper = 100, widths = [10, 50] }}
level = 1
"""
DELETION = """
[release]
name = "{name}"
form = "{form}"
format = "{file_format}"
output = "{name}"

[data]
dataset = "people"
source = "people.csv"

[deletion]

[privacy]
epsilon = 1
delta = 1e-6

[columns."the town"]
hierarchy = "towns.csv"
{town}

[columns.age]
interval = {{ lower = 0, upper = 100, widths = [10, 50] }}
{age}
"""
# Nobody lives in Nantes or Metz, nor anywhere in the East.
TOWNS = "Lyon;South;*\nNice;South;*\nLille;North;*\nNantes;North;*\nParis;North;*\nMetz;East;*\n"
PLANTED = "Zanzibar7"


class Office(CommandFolder):
    """A steward's folder with records, a ledger and releases."""

    def __init__(self, folder: Path, commands: Commands, prefect: str) -> None:
        super().__init__(folder, commands)
        self.prefect = prefect
        (folder / "towns.csv").write_text(TOWNS)
        lines = ["the town,age,secret"]
        # One town in sixteen records is unknown, one group is too small for any threshold.
        towns = ["Lyon", "Nice", "Lille", "Paris"]
        lines += [f"{towns[i // 3 % 4] if i % 16 else PLANTED},{(i * 7) % 60},{PLANTED}{i}" for i in range(6_000)]
        lines += [f"Nice,99,{PLANTED}"] * 3
        (folder / "people.csv").write_text("\n".join(lines) + "\n")
        self("dataset", "add", "people", "--epsilon", "20", "--delta", "0.1")

    def __call__(self, *words: str, **environment: str) -> str:
        return self.command(*words, PREFECT_API_URL=self.prefect, **environment)

    def spec(
        self, name: str, *, file_format: str, form: str = "microdata", level: int = 1, mechanism: str = ""
    ) -> Path:
        path = self.folder / f"{name}.toml"
        path.write_text(
            SPEC.format(
                name=name,
                file_format=file_format,
                form=f'form = "{form}"\n' if form else "",
                level=level,
                mechanism=mechanism or "[suppression]\nk = 20\n",
            )
        )
        return path

    def release(self, name: str, **options) -> Path:
        return self.run(self.spec(name, **options))

    def run(self, spec: Path) -> Path:
        made = self.folder / spec.stem
        if made.is_dir():  # a fixture with parameters is set up again where tests of other files ask for it in between
            return made
        return Path(json.loads(self("run", str(spec), "--json"))["output"])

    def deletion(self, name: str, **changes: str) -> Path:
        """A specification of a deletion release; of a single stage unless the columns' levels are named."""
        given = {"form": "counts", "file_format": "csv", "town": "level = 1", "age": "level = 1"} | changes
        path = self.folder / f"{name}.toml"
        path.write_text(DELETION.format(name=name, **given))
        return path


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory, fork_server: Path, prefect_server: PrefectServer) -> Office:
    return Office(tmp_path_factory.mktemp("office"), Commands(fork_server), prefect_server.api_url)


@pytest.fixture(scope="session")
def rows(office: Office) -> Path:
    """Microdata as Parquet."""
    return office.release("rows", file_format="parquet")


@pytest.fixture(scope="session")
def table(office: Office) -> Path:
    """Sampled counts as CSV."""
    return office.release("table", file_format="csv", form="counts")


@pytest.fixture(scope="session")
def noisy(office: Office) -> Path:
    """A noisy histogram as CSV."""
    mechanism = '[histogram]\nkind = "noisy"\nk = 30\nepsilon = 0.5\n'
    return office.release("noisy", file_format="csv", form="", level=0, mechanism=mechanism)


@pytest.fixture(scope="session")
def kept(office: Office) -> Path:
    """Counts of a deletion release with a single stage, as CSV."""
    return office.run(office.deletion("kept"))


@pytest.fixture(scope="session")
def chain(office: Office) -> Path:
    """Rows of a deletion release with three stages, as Parquet."""
    levels = {"town": "levels = [0, 1, 1]", "age": "levels = [0, 1, 2]"}
    return office.run(office.deletion("chain", form="microdata", file_format="parquet", **levels))


@pytest.fixture(scope="session")
def calibrated_chain(office: Office) -> Path:
    """Counts of a deletion release with three stages and margins, as CSV."""
    levels = {"town": "levels = [0, 1, 1]", "age": "levels = [0, 1, 2]"}
    spec = office.deletion("calibrated", **levels)
    spec.write_text(spec.read_text().replace("[deletion]", "[deletion]\n\n[margins]"))
    return office.run(spec)


@pytest.fixture(scope="session", params=["csv", "parquet"])
def paired(office: Office, request: pytest.FixtureRequest) -> Path:
    """A deletion release of three columns that chose two pairs and found its levels."""
    file_format, levels = request.param, 'levels = "auto"'
    form = "counts" if file_format == "csv" else "microdata"
    spec = office.deletion(f"paired-{file_format}", form=form, file_format=file_format, town=levels, age=levels)
    secret = f'[columns.secret]\nvalues = ["{PLANTED}1", "{PLANTED}2"]\n{levels}\n'
    text = spec.read_text().replace("[deletion]", '[deletion]\n\n[margins]\npairs = "auto"\nnumber = 2')
    spec.write_text(f"{text}\n{secret}")
    return office.run(spec)


@pytest.fixture(scope="session")
def blocked(office: Office) -> Path:
    """A deletion release of three columns in two blocks that share one, with fixed levels, as Parquet."""
    spec = office.deletion(
        "blocked", form="microdata", file_format="parquet", town="levels = [0, 1]", age="levels = [1, 2]"
    )
    beside = (
        '[margins]\npairs = "auto"\nnumber = 1\n\n'
        '[blocks.home]\ntheme = "Home & age"\ncolumns = ["the town", "age"]\n\n'
        '[blocks.rest]\ncolumns = ["age", "secret"]\n\n[deletion]'
    )
    secret = f'[columns.secret]\nvalues = ["{PLANTED}1", "{PLANTED}2"]\nlevels = [0, 0]\n'
    spec.write_text(f"{spec.read_text().replace('[deletion]', beside)}\n{secret}")
    return office.run(spec)


@pytest.fixture(scope="session")
def wide(office: Office) -> Path:
    """Rows of nineteen columns in four stages, as CSV; labels of up to seventy characters without a space."""
    names = [f"{'a_long_name_of_column_' if number % 3 == 0 else 'c'}{number}" for number in range(19)]
    long = "x" * 70
    with (office.folder / "wide.csv").open("w") as file:
        file.write(",".join(names) + "\n")
        for record in range(4_000):
            file.write(",".join(long if number == 4 else str(record % 2) for number in range(19)) + "\n")
    tables = [
        f'[columns."{name}"]\nvalues = ["0", "1"{f", {long!r}" if number == 4 else ""}]\n'
        f"levels = [0, 0, {int(number > 2 and number % 3 > 0)}, {int(number > 2)}]\n"
        for number, name in enumerate(names)
    ]
    spec = office.folder / "wide.toml"
    head = DELETION[: DELETION.index("[columns")].format(name="wide", form="microdata", file_format="csv")
    spec.write_text(head.replace("people.csv", "wide.csv") + "\n".join(tables))
    return office.run(spec)
