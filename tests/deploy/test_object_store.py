"""Releases read from and published to a real object store that speaks S3: OpenStack Swift with s3api, on loopback."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from crowdblend.flows import release
from crowdblend.mechanisms.kernel.errors import InputRefused, ReleaseFailed
from crowdblend.tasks import destinations as objects
from crowdblend.tasks.destinations import ObjectPrefix, discard, in_view, put_into_view, require_free
from crowdblend.tasks.stages import count
from fsspec.implementations.memory import MemoryFileSystem

PYTHON = "/usr/bin/python3"
PROGRAM = Path(__file__).with_name("swift_store.py")
ACCESS, SECRET = "test:tester", "testing"
PIPELINES = {
    "proxy": "catch_errors gatekeeper healthcheck proxy-logging cache listing_formats s3api tempauth copy "
    "container-quotas account-quotas slo dlo versioned_writes symlink proxy-logging proxy-server",
    "account": "account-server",
    "container": "container-server",
    "object": "object-server",
}
FILTERS = ("catch_errors", "gatekeeper", "healthcheck", "copy", "slo", "dlo", "versioned_writes", "symlink",
           "container_quotas", "account_quotas", "listing_formats")  # fmt: skip


@dataclass
class Store:
    """A running store with one bucket."""

    port: int

    @property
    def environment(self) -> dict[str, str]:
        """What the S3 driver reads of the place and the credentials."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        }


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def write_settings(folder: Path, ports: dict[str, int]) -> None:
    (folder / "swift.conf").write_text(
        "[swift-hash]\nswift_hash_path_suffix = tests\nswift_hash_path_prefix = tests\n"
        "[storage-policy:0]\nname = one\ndefault = yes\n"
    )
    for server, pipeline in PIPELINES.items():
        lines = [
            "[DEFAULT]",
            f"bind_ip = 127.0.0.1\nbind_port = {ports[server]}\nworkers = 0\nuser = {os.environ.get('USER', 'root')}",
            f"swift_dir = {folder}\ndevices = {folder}/devices\nmount_check = false\nlog_address = {folder}/nolog",
            "disable_fallocate = true",
            f"[pipeline:main]\npipeline = {pipeline}",
            f"[app:{server}-server]\nuse = egg:swift#{server}",
        ]
        if server == "proxy":
            lines += ["allow_account_management = true\naccount_autocreate = true"]
            lines += [f"[filter:{name.replace('_quotas', '-quotas')}]\nuse = egg:swift#{name}" for name in FILTERS]
            lines += ["[filter:proxy-logging]\nuse = egg:swift#proxy_logging"]
            lines += ["[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:1"]
            lines += [f"[filter:tempauth]\nuse = egg:swift#tempauth\nuser_test_tester = {SECRET} .admin"]
            lines += ["[filter:s3api]\nuse = egg:swift#s3api\nlocation = us-east-1"]
        (folder / f"{server}.conf").write_text("\n".join(lines) + "\n")
    for ring, server in (("account", "account"), ("container", "container"), ("object", "object")):
        builder = f"{folder}/{ring}.builder"
        device = f"r1z1-127.0.0.1:{ports[server]}/disk"
        for words in (["create", "4", "1", "0"], ["add", device, "1"], ["rebalance"]):
            done = subprocess.run(["swift-ring-builder", builder, *words], capture_output=True, check=False)
            assert done.returncode in (0, 1), done.stdout + done.stderr
    (folder / "devices" / "disk").mkdir(parents=True)


@pytest.fixture(scope="module")
def store(needs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of the tests' own with the bucket `releases`."""
    there = shutil.which("swift-proxy-server") is not None
    needs(there, "Swift (swift-proxy and the three servers)", "CROWDBLEND_TEST_SWIFT")
    folder = tmp_path_factory.mktemp("swift")
    ports = dict(zip(PIPELINES, free_ports(4), strict=True))
    write_settings(folder, ports)
    servers = []
    for server in PIPELINES:
        with (folder / f"{server}.log").open("wb") as log:
            words = [str(folder / "swift.conf"), f"/usr/bin/swift-{server}-server", str(folder / f"{server}.conf")]
            servers.append(
                subprocess.Popen([PYTHON, str(PROGRAM), *words], stdout=log, stderr=log, start_new_session=True)
            )
    made = Store(port=ports["proxy"])
    try:
        deadline = time.monotonic() + 900
        while not healthy(ports["proxy"]):
            assert time.monotonic() < deadline, (folder / "proxy.log").read_text()
            time.sleep(0.1)
        with pytest.MonkeyPatch.context() as patch:
            use(made, patch)
            filesystem().mkdir("releases")
        yield made
    finally:
        for server in servers:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=600)


def healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def filesystem() -> fsspec.AbstractFileSystem:
    return fsspec.filesystem("s3")


def use(store: Store, patch: pytest.MonkeyPatch) -> None:
    for name, value in store.environment.items():
        patch.setenv(name, value)
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.fixture
def bucket(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    use(store, monkeypatch)
    return store


@pytest.mark.long
def test_a_release_is_read_from_and_published_to_the_store(desk, bucket) -> None:
    desk.add_dataset()
    files = filesystem()
    files.put_file(str(desk.folder / "people.csv"), "releases/in/people.csv")
    spec = desk.write_spec(source="s3://releases/in/people.csv", output="s3://releases/out/people")
    done = desk.succeed("run", spec, "--release-id", "in-store", "--json")
    assert done.json["output"] == "s3://releases/out/people"
    files.invalidate_cache()
    assert sorted(files.ls("releases/out/people")) == [
        "releases/out/people/certificate.json",
        "releases/out/people/data.parquet",
    ]
    files.get("releases/out/people", str(desk.folder / "fetched"), recursive=True)
    desk.succeed("verify", desk.folder / "fetched" / "certificate.json")
    again = desk("run", spec, "--release-id", "in-store", "--json")
    assert again.code == 0
    assert again.json["published_records"] == done.json["published_records"]
    other = desk("run", spec)
    assert other.code == 2
    assert "exists already" in other.err
    assert not list(desk.home.rglob("staged-*"))


@pytest.mark.long
@pytest.mark.parametrize("moment", ["begin_reading", "block_counts"])
def test_an_object_that_is_written_again_while_it_is_read_publishes_nothing(desk, bucket, monkeypatch, moment) -> None:
    desk.add_dataset()
    files = filesystem()
    source = "releases/bound/people.csv"
    files.put_file(str(desk.folder / "people.csv"), source)
    people = (desk.folder / "people.csv").read_bytes()
    header, *lines = people.splitlines(keepends=True)
    waiting = [b"".join([header, *reversed(lines)])]
    stages = (release, count)[moment == "block_counts"]
    real = getattr(stages, moment)

    def then_written(*given, **named):
        done = real(*given, **named)
        if waiting:
            files.pipe_file(source, waiting.pop())
        return done

    monkeypatch.setattr(stages, moment, then_written)
    spec = desk.write_spec(source=f"s3://{source}")
    told = desk("run", spec, "--release-id", "bound")
    assert told.code == 1, told.err
    assert "another version of it" in told.err
    assert not (desk.folder / "out").exists()
    files.pipe_file(source, people)
    desk.succeed("run", spec, "--release-id", "bound")


def staged(folder: Path) -> tuple[tuple[str, str], ...]:
    import hashlib

    folder.mkdir()
    (folder / "data.parquet").write_bytes(b"rows" * 1000)
    (folder / "certificate.json").write_bytes(b"{}")
    return tuple((path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sorted(folder.iterdir()))


@pytest.mark.long
def test_the_certificate_comes_last_and_a_retry_makes_up_the_rest(bucket, tmp_path, monkeypatch) -> None:
    hashes = staged(tmp_path / "staged")
    prefix = ObjectPrefix(url="s3://releases/cut-off")
    real = objects._put

    def cut_off(files, source, target, *, digest):
        if target.endswith("certificate.json"):
            raise OSError("the process ends here")
        real(files, source, target, digest=digest)

    with monkeypatch.context() as patch:
        patch.setattr(objects, "_put", cut_off)
        with pytest.raises(ReleaseFailed):
            put_into_view(tmp_path / "staged", prefix, hashes)
    files = filesystem()
    files.invalidate_cache()
    assert files.ls("releases/cut-off") == ["releases/cut-off/data.parquet"]
    assert not in_view(prefix, hashes)
    files.pipe_file("releases/cut-off/data.parquet", b"torn")
    put_into_view(tmp_path / "staged", prefix, hashes)
    assert in_view(prefix, hashes)
    put_into_view(tmp_path / "staged", prefix, hashes)
    discard(prefix, hashes)
    assert not in_view(prefix, hashes)


@pytest.mark.long
def test_another_release_in_the_place_is_left_alone(bucket, tmp_path) -> None:
    hashes = staged(tmp_path / "staged")
    filesystem().pipe_file("releases/taken/certificate.json", b'{"another": 1}')
    with pytest.raises(ReleaseFailed, match="another release"):
        put_into_view(tmp_path / "staged", ObjectPrefix(url="s3://releases/taken"), hashes)
    assert filesystem().cat_file("releases/taken/certificate.json") == b'{"another": 1}'
    with pytest.raises(InputRefused, match="exists already"):
        require_free(ObjectPrefix(url="s3://releases/taken"))


class BusyStore(MemoryFileSystem):
    """A store in which somebody else's certificate arrives while the table is uploaded."""

    protocol = "busy"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]

    def put_file(self, lpath, rpath, **options) -> None:
        super().put_file(lpath, rpath, **options)
        if rpath.endswith("data.parquet"):
            self.pipe_file(rpath.replace("data.parquet", "certificate.json"), b'{"another": 1}')


def test_a_release_that_comes_into_the_place_during_the_upload_is_left_alone(tmp_path) -> None:
    fsspec.register_implementation("busy", BusyStore, clobber=True)
    prefix = ObjectPrefix(url="busy://releases/taken")
    with pytest.raises(ReleaseFailed, match="another release"):
        put_into_view(tmp_path / "staged", prefix, staged(tmp_path / "staged"))
    files, path = fsspec.core.url_to_fs(prefix.url)
    assert files.cat_file(f"{path}/certificate.json") == b'{"another": 1}'


def test_a_store_that_is_not_there_is_refused_before_the_charge(desk) -> None:
    desk.add_dataset()
    answer = desk("run", desk.write_spec(output="nosuch://bucket/out"))
    assert answer.code == 2
    assert "store can't be used" in answer.err
    assert desk("ledger", "show", "--json").json["releases"] == []
