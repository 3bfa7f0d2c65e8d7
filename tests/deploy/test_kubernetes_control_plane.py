"""The Kubernetes manifests, applied to a real control plane: etcd, an API server and the controllers; no node."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from support.containers import debian_base, said

MANIFEST = Path(__file__).parents[2] / "deploy" / "kubernetes" / "crowdblend.yaml"
BUILT = ("kube-apiserver", "kube-controller-manager")
IMAGE = "localhost/crowdblend-control-plane:tests"
Kubectl = Callable[..., str]


def free_ports(many: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    with_port = [socket.create_server(("127.0.0.1", 0)) for _ in range(many)]
    ports = [one.getsockname()[1] for one in with_port]
    for one in with_port:
        one.close()
    return ports


def built_programs(folder: Path) -> dict[str, str]:
    """Those that Debian has the source of, and no package: built once, in minutes, and kept as an image."""
    base = f"BASE={debian_base('bookworm')}"
    words = ("--isolation", "chroot", "--pull=never", "--build-arg", base, "--tag", IMAGE)
    said("podman", "build", *words, Path(__file__).parents[1] / "support" / "control_plane")
    container = said("podman", "create", IMAGE, "true").strip()
    for name in BUILT:
        said("podman", "cp", f"{container}:/programs/{name}", folder / name)
    said("podman", "rm", container)
    return {name: str(folder / name) for name in BUILT}


@pytest.fixture(scope="module")
def kubectl(needs, container_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """Ask a control plane of this module's own."""
    missing = [name for name in ("etcd", "kubectl") if shutil.which(name) is None]
    needs(
        not missing, f"{' and '.join(missing)} (Debian: etcd-server, kubernetes-client)", "CROWDBLEND_TEST_KUBERNETES"
    )
    folder = tmp_path_factory.mktemp("kubernetes")
    found = {name: shutil.which(name) for name in ("etcd", "kubectl")} | built_programs(folder)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "accounts.key").write_bytes(key.private_bytes(*pem))
    peers, clients, port, controllers = free_ports(4)
    address = f"https://127.0.0.1:{port}"
    context = {"name": "own", "context": {"cluster": "own", "user": "own"}}
    cluster = {"name": "own", "cluster": {"server": address, "insecure-skip-tls-verify": True}}
    configuration = {"apiVersion": "v1", "kind": "Config", "current-context": "own", "contexts": [context]}
    configuration |= {"clusters": [cluster], "users": [{"name": "own", "user": {"token": "secret"}}]}
    (folder / "config").write_text(yaml.safe_dump(configuration))
    (folder / "tokens.csv").write_text("secret,own,own,system:masters\n")
    store, certificates, accounts = f"http://127.0.0.1:{clients}", folder / "certificates", folder / "accounts.key"
    options = {
        "etcd": {
            "data-dir": folder / "etcd",
            "listen-client-urls": store,
            "advertise-client-urls": store,
            "listen-peer-urls": f"http://127.0.0.1:{peers}",
        },
        "kube-apiserver": {
            "etcd-servers": store,
            "bind-address": "127.0.0.1",
            "secure-port": port,
            "cert-dir": certificates,
            "service-cluster-ip-range": "10.0.0.0/24",
            "authorization-mode": "RBAC",
            "token-auth-file": folder / "tokens.csv",
            "service-account-issuer": "https://kubernetes.default",
            "service-account-key-file": accounts,
            "service-account-signing-key-file": accounts,
        },
        "kube-controller-manager": {
            "kubeconfig": folder / "config",
            "bind-address": "127.0.0.1",
            "secure-port": controllers,
            "cert-dir": certificates,
            "service-account-private-key-file": accounts,
            "leader-elect": "false",
        },
    }
    settings = os.environ | {"KUBECONFIG": str(folder / "config"), "NO_PROXY": "127.0.0.1"}
    processes: list[subprocess.Popen] = []

    def ask(*words: object, text: str | None = None, code: int = 0) -> str:
        given = [str(found["kubectl"]), *map(str, words)]
        done = subprocess.run(given, env=settings, capture_output=True, text=True, input=text, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr

    def ready() -> bool:
        given = [str(found["kubectl"]), "get", "--raw", "/readyz"]
        return subprocess.run(given, env=settings, capture_output=True, check=False).stdout == b"ok"

    try:
        for name, given in options.items():
            words = [str(found[name]), *(f"--{option}={value}" for option, value in given.items())]
            with (folder / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, env=settings))
            if name == "kube-apiserver":
                wait(ready, lambda: (folder / "kube-apiserver.log").read_text()[-3000:])
        yield ask
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def wait(condition: Callable[[], bool], told: Callable[[], str]) -> None:
    """Wait for a state."""
    deadline = time.monotonic() + 400
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.5)


@pytest.mark.long
def test_the_control_plane_takes_the_manifests_and_makes_every_pod(kubectl: Kubectl, tmp_path: Path) -> None:
    # Debian's source is of version 1.20; this access mode came with 1.22.
    text = MANIFEST.read_text().replace("ReadWriteOncePod", "ReadWriteOnce")
    kubectl("apply", "--filename", "-", text=text)
    assert "unchanged" in kubectl("apply", "--filename", "-", text=text)
    wanted = list(yaml.safe_load_all(text))
    for one in wanted:
        place = () if one["kind"] == "Namespace" else ("--namespace", "crowdblend")
        kubectl("get", one["kind"], one["metadata"]["name"], *place)
    deployments = [one for one in wanted if one["kind"] == "Deployment"]
    many = sum(one["spec"]["replicas"] for one in deployments)

    def pods() -> list[dict]:
        found: list[dict] = json.loads(kubectl("get", "pods", "--namespace", "crowdblend", "-o", "json"))["items"]
        return found

    wait(lambda: len(pods()) == many, lambda: kubectl("get", "events", "--namespace", "crowdblend"))
    # What the server made of them is still confined; a field that it doesn't know would be gone.
    for pod in pods():
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        assert pod["spec"]["automountServiceAccountToken"] is False
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    broken = tmp_path / "broken.yaml"
    broken.write_text(text.replace("runAsNonRoot: true", "runAsNonRoot: perhaps"))
    kubectl("apply", "--filename", broken, code=1)
