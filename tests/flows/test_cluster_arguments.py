"""What a specification may say of a cluster that is started for it: amounts and queues, and nothing that names code."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest
from crowdblend.flows.spec_tables import ARGUMENTS, CLASSES, ClusterTable
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.destinations import output_at
from crowdblend.tasks.inputs.hierarchy_files import read_hierarchy
from pydantic import ValidationError

PROJECT = Path(__file__).resolve().parents[2]
EXAMPLES = {
    "n_workers": 2,
    "threads_per_worker": 1,
    "memory_limit": "2GiB",
    "cores": 8,
    "processes": 4,
    "memory": "32 GB",
    "interface": "ib0",
    "queue": "long,normal",
    "walltime": "1-00:30:00",
    "account": "stat_office",
    "project": "census.2026",
    "disk": "1 GB",
    "namespace": "crowdblend",
    "worker_cores": 2,
    "worker_memory": 4,
}
NAMES_OF_CODE = {
    "distributed.LocalCluster": (
        "preload",
        "preload_nanny",
        "preload_argv",
        "worker_class",
        "scheduler_kwargs",
        "security",
        "plugins",
        "env",
        "nanny",
        "host",
        "protocol",
        "local_directory",
        "dashboard_address",
        "service_kwargs",
    ),
    **dict.fromkeys(
        [name for name in CLASSES if name.startswith("dask_jobqueue.")],
        (
            "python",
            "shebang",
            "worker_command",
            "worker_extra_args",
            "extra",
            "job_script_prologue",
            "env_extra",
            "job_extra_directives",
            "job_extra",
            "job_directives_skip",
            "job_cls",
            "scheduler_cls",
            "scheduler_options",
            "security",
            "config_name",
            "log_directory",
            "local_directory",
            "resource_spec",
            "submit_command_extra",
            "job_name",
        ),
    ),
    "dask_kubernetes.operator.KubeCluster": (
        "image",
        "env",
        "worker_command",
        "custom_cluster_spec",
        "name",
        "jupyter",
    ),
    "dask_gateway.GatewayCluster": ("auth", "address", "cluster_options", "image", "proxy_address"),
}


def table(name: str, /, **kwargs: object) -> ClusterTable:
    return ClusterTable.model_validate({"class": name, "kwargs": kwargs})


def examples(name: str) -> dict[str, object]:
    local = {"processes": True} if name == "distributed.LocalCluster" else {}
    return {argument: (EXAMPLES | local)[argument] for argument in ARGUMENTS[name]}


@pytest.mark.parametrize("name", CLASSES)
def test_amounts_and_queues_are_taken_and_what_names_code_is_refused(name: str) -> None:
    assert table(name, **examples(name)).kwargs == examples(name)
    for argument in NAMES_OF_CODE[name]:
        for value in ("code.py", ["x"], {"a": "b"}, True):
            with pytest.raises(
                ValidationError, match=f"kwargs can't have '{argument}'; for {re.escape(name)} "
            ) as told:
                table(name, **{argument: value})
            assert ", ".join(ARGUMENTS[name]) in str(told.value)
            assert "Dask's own configuration" in str(told.value)


@pytest.mark.parametrize("name", CLASSES)
def test_no_value_begins_another_line_word_or_command(name: str) -> None:
    for argument, example in examples(name).items():
        for value in (
            f"{example}\n#SBATCH --prolog=/tmp/x",
            f"{example}\n",
            f"{example} --prolog=/tmp/x",
            f"{example};id",
            f"{example}$(id)",
            f"{example}`id`",
            f'{example}" x',
            "-x",
            "",
            "../x",
            "%(python)s",
            -1,
            1.5,
            [example],
            {"a": example},
            None,
        ):
            with pytest.raises(ValidationError, match=f"'{argument}' with a value that it can't have"):
                table(name, **{argument: value})


# The environment of the tests has no dask_kubernetes.
@pytest.mark.parametrize("name", [name for name in CLASSES if not name.startswith("dask_kubernetes")])
def test_each_argument_is_one_of_the_class_s_own(name: str) -> None:
    module, _, own_name = name.rpartition(".")
    kind = getattr(importlib.import_module(module), own_name)
    if module == "dask_jobqueue":
        given = {key: value for key, value in examples(name).items() if key != "n_workers"}
        assert "n_workers" in inspect.signature(kind).parameters
        lines = kind.job_cls("tcp://127.0.0.1:1", name="x", **given).job_script().splitlines()
        plain = kind.job_cls("tcp://127.0.0.1:1", name="x", cores=8, memory="32GB", **_disk(given)).job_script()
        added = {key for key in ("queue", "account", "project") if key in given}
        assert len(lines) == len(plain.splitlines()) + len(added), "each is in a line of its own and begins no other"
    elif module == "distributed":
        worker = importlib.import_module("distributed").Worker
        assert set(ARGUMENTS[name]) <= {*inspect.signature(kind).parameters, *inspect.signature(worker).parameters}


def _disk(given: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in given.items() if key == "disk"}


def test_the_page_and_the_example_of_slurm_have_what_a_specification_may_say() -> None:
    page = (PROJECT / "docs" / "operations" / "clusters.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| (?:none|`\w+`) \| (.*) \|$", page, re.MULTILINE)
    assert {name: re.findall(r"`(\w+)`", arguments) for name, arguments in rows} == {
        name: list(arguments) for name, arguments in ARGUMENTS.items()
    }
    assert ARGUMENTS.keys() == CLASSES.keys()
    spec = tomllib.loads((PROJECT / "deploy" / "slurm" / "census.toml").read_text())
    ClusterTable.model_validate(spec["cluster"])


def test_code_that_is_named_after_an_approval_never_runs(desk, monkeypatch) -> None:
    desk.add_dataset()
    monkeypatch.setenv("CROWDBLEND_HOME", str(desk.folder / "second-home"))
    desk.succeed("key", "rotate")
    desk.succeed("key", "export", "second.pem")
    spec = desk.write_spec()
    desk.succeed("approve", "spec.toml", "--by", "B. Second", "--yes")
    monkeypatch.setenv("CROWDBLEND_HOME", str(desk.home))
    monkeypatch.setenv("CROWDBLEND_APPROVERS", "second.pem")
    code = desk.folder / "evilmod.py"
    code.write_text(f"open({str(desk.folder / 'ran')!r}, 'w').close()\n")
    kwargs = f'{{ n_workers = 1, threads_per_worker = 1, processes = false, preload = "{code}" }}'
    spec.write_text(f'{spec.read_text()}\n[cluster]\nclass = "distributed.LocalCluster"\nkwargs = {kwargs}\n')
    for command in ("run", "explain"):
        answer = desk(command, "spec.toml")
        assert answer.code == 2, answer.err
        assert "[cluster]: kwargs can't have 'preload'; for distributed.LocalCluster" in answer.err
    assert not (desk.folder / "ran").exists()
    assert desk("ledger", "show", "--json").json["releases"] == []


@pytest.mark.parametrize("chain", ["simplecache://x::file:///tmp/a", "reference::file:///tmp/a.json"])
def test_no_output_and_no_hierarchy_is_a_chain_of_drivers(chain: str) -> None:
    with pytest.raises(InputRefused, match="chained URLs are not supported"):
        output_at(chain, base=Path("/"))
    with pytest.raises(InputRefused, match="chained URLs are not supported"):
        read_hierarchy(chain)
