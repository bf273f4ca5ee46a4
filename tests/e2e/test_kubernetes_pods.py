"""Discovery against the API server of a real Kubernetes: what a pod is, and what becomes of watch and token."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import pytest

from tests.e2e.kube_api import ApiServer, Pods, needs_kube_api
from tests.e2e.kubelet import Projected

pytestmark = needs_kube_api


class Wire:
    """A relay to the API server whose connections can be cut."""

    def __init__(self, port):
        self._to = ("127.0.0.1", port)
        self._ends, self._open = [], {}
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                self._join(near)

    def _join(self, near):
        try:
            far = socket.create_connection(self._to)
        except OSError:
            near.close()
            return
        self._ends += [near, far]
        self._open[near, far] = time.monotonic()
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self._copy, args=(one, other, (near, far)), daemon=True).start()

    def _copy(self, one, other, connection):
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                other.sendall(data)
        self._open.pop(connection, None)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def ages(self):
        """Return the seconds since each open connection began."""
        return [time.monotonic() - since for since in list(self._open.values())]

    def cut(self):
        """End all connections without a word of TLS."""
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def stop(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        self.cut()


@pytest.fixture(scope="module")
def api(tmp_path_factory, e2e):
    api = ApiServer(tmp_path_factory.mktemp("kubernetes") / "api", e2e.free_port())
    api.create("/api/v1/namespaces", metadata={"name": "inference"})
    api.allow("inference")
    yield api
    api.stop()


@pytest.fixture(scope="module")
def wire(api):
    wire = Wire(api.port)
    yield wire
    wire.stop()


@pytest.fixture(scope="module")
def ranks(start, e2e):
    """Two servers, for two ports of one pod."""
    servers = [start(e2e.Simulator, "steady", name=f"rank{rank}") for rank in range(2)]
    for server in servers:
        server.wait_for(server.url)
    return [server.port for server in servers]


@pytest.fixture(scope="module")
def pods(api, ranks):
    return Pods(api, "inference", ranks[0])


@pytest.fixture(scope="module")
def token(api):
    """The token as the kubelet has it in a pod: a link to a link that gets another aim."""
    return Projected(api.folder / "serviceaccount", token="exporter-token")


@pytest.fixture(scope="module")
def exporter(api, wire, token, start, e2e, pods):
    access = {
        "api_server": f"https://127.0.0.1:{wire.port}",
        "authorization": {"credentials_file": str(token.folder / "token")},
        "tls_config": {"ca_file": str(api.folder / "ca.crt")},
        "namespaces": ["inference"],
    }
    ways = [
        {"label_selector": "app=vllm", "labels": {"team": "team"}},
        {"label_selector": "app=ready", "only_ready": True},
        {"label_selector": "app=ranks", "ports": ["rank-0", "rank-1"]},
    ]
    config = {"discovery": {"kubernetes": [{**access, **way} for way in ways]}}
    exporter = start(e2e.Exporter, json.dumps(config))
    exporter.wait_for(f"{exporter.url}/-/ready")
    return exporter


@pytest.fixture
def watched(exporter):
    """Return the lines of the targets that are up, by their names."""

    def lines():
        up = [
            one
            for one in exporter.metrics().splitlines()
            if one.startswith("spec_decode_exporter_target_up{")
        ]
        return {one.split('target="')[1].split('"')[0]: one for one in up if one.endswith(" 1.0")}

    return lines


def test_readiness_counts_where_it_is_asked_for(pods, watched, e2e):
    pods.create("slow", app="ready")
    pods.create("careless")
    e2e.eventually(lambda: "inference/careless" in watched())
    assert "inference/slow" not in watched()
    pods.be_ready("slow")
    e2e.eventually(lambda: "inference/slow" in watched())
    pods.be_ready("slow", ready=False)
    e2e.eventually(lambda: "inference/slow" not in watched())
    assert "inference/careless" in watched()


def test_each_rank_of_a_data_parallel_pod_is_a_target(pods, ranks, watched, e2e):
    pods.create("ranks", app="ranks", ports={f"rank-{rank}": port for rank, port in enumerate(ranks)})
    both = {f"inference/ranks:{port}" for port in ranks}
    e2e.eventually(lambda: both <= watched().keys())
    pods.delete("ranks")
    e2e.eventually(lambda: not both & watched().keys())


def test_labels_are_as_the_pod_has_them_now(pods, watched, e2e):
    pods.create("owned")
    e2e.eventually(lambda: 'team="a"' in watched().get("inference/owned", ""))
    pods.label("owned", team="b")
    e2e.eventually(lambda: 'team="b"' in watched().get("inference/owned", ""))


def test_a_watch_that_is_cut_goes_on_and_misses_nothing(pods, wire, exporter, watched, e2e):
    pods.create("before")
    e2e.eventually(lambda: "inference/before" in watched())
    failures = exporter.log.count("discovery_failed")
    # Each way has a watch of its own. One that was just asked for would fail for want of an answer.
    e2e.eventually(lambda: len(wire.ages()) == 3 and min(wire.ages()) > 2)
    wire.cut()
    pods.create("after")
    pods.delete("before")
    e2e.eventually(lambda: "inference/after" in watched() and "inference/before" not in watched())
    assert exporter.log.count("discovery_failed") == failures, "one cut is no failure"


def test_a_token_that_is_replaced_is_used(api, pods, token, exporter, watched, e2e):
    api.accept("exporter-token", "second-token")
    api.restart()
    token.put(token="second-token")
    api.accept("second-token")
    api.restart()
    pods.create("with-the-second")
    e2e.eventually(lambda: "inference/with-the-second" in watched())
    assert "does not accept the token" not in exporter.log, "the second token arrived before the first ended"


def test_a_token_that_is_no_longer_taken_is_told_of_and_its_successor_mends_it(
    api, pods, token, exporter, watched, e2e
):
    api.accept("third-token")
    api.restart()
    e2e.eventually(lambda: "does not accept the token" in exporter.log)
    assert "inference/with-the-second" in watched(), "what is known stays"
    token.put(token="third-token")
    pods.create("with-the-third")
    e2e.eventually(lambda: "inference/with-the-third" in watched())
