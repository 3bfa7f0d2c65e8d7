"""Containers, manifests and the table of environment variables say what the code does; linted and schema-checked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def program(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert found, f"{name} is not installed; it is one of the development tools"
    return found


def lint(dockerfile: Path) -> subprocess.CompletedProcess:
    return subprocess.run([program("hadolint"), str(dockerfile)], capture_output=True, text=True, check=False)


def test_the_dockerfile_is_clean(tmp_path: Path) -> None:
    done = lint(DEPLOY / "docker" / "Dockerfile")
    assert done.returncode == 0, done.stdout
    broken = tmp_path / "Dockerfile"
    broken.write_text("FROM python\nRUN pip install crowdblend\n")
    assert lint(broken).returncode != 0


def test_the_image_is_pinned_confined_and_holds_no_secret() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}"] * 2
    assert re.search(r"^ARG BASE=python:3\.11\.\d+-slim-\w+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]\d*$", last, re.MULTILINE), "a number, so that others can see it is not root"
    assert "gcc" not in last
    assert not re.search(r"password|secret|token|_key\b", text, re.IGNORECASE)
    kept = (ROOT / ".dockerignore").read_text().split()
    assert kept[0] == "*", "what is not named stays out of the image"
    assert {"**/__pycache__", "**/*.so"} <= set(kept)


def validate(manifest: Path) -> subprocess.CompletedProcess:
    words = [program("kubernetes-validate"), "--strict", "--no-warn", str(manifest)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_kubernetes_manifests_follow_the_schemas(tmp_path: Path) -> None:
    done = validate(DEPLOY / "kubernetes" / "crowdblend.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    broken = tmp_path / "broken.yaml"
    broken.write_text((DEPLOY / "kubernetes" / "crowdblend.yaml").read_text().replace("replicas: 3", "replica: 3"))
    assert validate(broken).returncode != 0


def manifests() -> list[dict]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / "crowdblend.yaml").read_text()))


def test_every_pod_is_confined_and_no_manifest_holds_a_secret() -> None:
    pods = [one["spec"]["template"]["spec"] for one in manifests() if one["kind"] == "Deployment"]
    assert len(pods) == 5
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert "memory" in container["resources"]["limits"]
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert not [one for one in manifests() if one["kind"] == "Secret"]


def test_only_releases_see_the_private_store() -> None:
    holders = [
        one["metadata"]["name"]
        for one in manifests()
        if one["kind"] == "Deployment" and '"private"' in str(one).replace("'", '"')
    ]
    assert holders == ["releases"]


def test_the_compose_file_refers_to_what_it_declares() -> None:
    compose = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"ledger", "prefect-server", "scheduler", "worker", "releases", "dashboard"}
    for name, service in services.items():
        assert set(service.get("networks", [])) <= set(compose["networks"]), name
        assert set(service.get("depends_on", [])) <= set(services), name
        for volume in service.get("volumes", []):
            source = re.split(r":(?=/)", volume)[0]
            assert source.startswith((".", "$")) or source in compose["volumes"], volume
        assert ("healthcheck" in service) == (name in {"ledger", "prefect-server", "dashboard"}), name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "nothing listens beyond this machine"
    assert "private:/var/lib/crowdblend" in services["releases"]["volumes"]
    assert all("private" not in str(services[name].get("volumes")) for name in services if name != "releases")
    tls = yaml.safe_load((DEPLOY / "docker" / "dask" / "tls.yaml").read_text())
    assert tls["distributed"]["comm"]["require-encryption"] is True


def test_prefect_finds_the_deployed_flow() -> None:
    from prefect.utilities.importtools import import_object

    manifest = yaml.safe_load((DEPLOY / "prefect.yaml").read_text())
    for deployment in manifest["deployments"]:
        found = import_object(deployment["entrypoint"])
        assert set(deployment["parameters"]) <= set(found.parameters.properties)
        assert deployment["enforce_parameter_schema"]
        assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}


@pytest.mark.parametrize(
    ("table", "refused"),
    [
        ('address = "tcp://127.0.0.1:1"\nclass = "distributed.LocalCluster"', "exactly one"),
        ("workers = 2", "exactly one"),
        ('class = "os.system"', "class must be one of"),
        ('address = "tcp://127.0.0.1:1"\nscale = 3', "started by its class"),
        ('class = "distributed.LocalCluster"\nscale = 3\nadapt = { maximum = 2 }', "one of adapt and scale"),
        ('address = "tcp://127.0.0.1:1"\nsecure = false', "no such key"),
    ],
)
def test_a_wrong_cluster_table_is_refused(desk, table: str, refused: str) -> None:
    desk.add_dataset()
    spec = desk.write_spec(edit=lambda text: f"{text}\n[cluster]\n{table}\n")
    answer = desk("run", spec)
    assert answer.code == 2
    assert "[cluster]" in answer.err
    assert refused in answer.err
    assert desk("ledger", "show", "--json").json["releases"] == []
