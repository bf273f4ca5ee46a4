"""Discovery against the API server of a real Kubernetes, by an account that may only list pods."""

import json

import pytest

from tests.e2e.kube_api import ApiServer, Pods, Projected, needs_kube_api

pytestmark = needs_kube_api


@pytest.fixture(scope="module")
def api(tmp_path_factory, e2e):
    api = ApiServer(tmp_path_factory.mktemp("kubernetes") / "api", e2e.free_port())
    for namespace in ("inference", "closed"):
        api.create("/api/v1/namespaces", metadata={"name": namespace})
    api.allow("inference")
    yield api
    api.stop()


@pytest.fixture(scope="module")
def ranks(start, e2e):
    """The ports of two servers, for two ports of one pod."""
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


WAYS = [
    {"label_selector": "app=vllm", "labels": {"team": "team"}, "namespaces": ["inference", "closed"]},
    {"label_selector": "app=ready", "only_ready": True, "namespaces": ["inference"]},
    {"label_selector": "app=ranks", "ports": ["rank-0", "rank-1"], "namespaces": ["inference"]},
]


@pytest.fixture(scope="module")
def exporter(api, token, start, e2e):
    access = {
        "api_server": api.url,
        "authorization": {"credentials_file": str(token.folder / "token")},
        "tls_config": {"ca_file": str(api.folder / "ca.crt")},
    }
    config = {"discovery": {"kubernetes": [{**access, **way} for way in WAYS]}}
    exporter = start(e2e.Exporter, json.dumps(config))
    exporter.wait_for(f"{exporter.url}/-/ready")
    return exporter


@pytest.fixture
def up(exporter):
    """A function that returns the line of a pod's target; empty while it is not up."""

    def up(name):
        start = "spec_decode_exporter_target_up{"
        lines = [line for line in exporter.metrics().splitlines() if f'target="inference/{name}"' in line]
        return "".join(line for line in lines if line.startswith(start) and line.endswith(" 1.0"))

    return up


def test_pods_come_and_go_and_are_what_their_labels_say(pods, up, exporter, e2e):
    pods.create("a")
    pods.create("b", running=False)
    pods.create("other", app="nginx")
    e2e.eventually(lambda: up("a"))
    assert not up("b")
    assert not up("other")
    assert 'namespace="inference",pod="a",' in up("a")
    pods.run("b")
    e2e.eventually(lambda: up("b"))
    pods.label("b", app="retired")
    pods.label("other", app="vllm")
    e2e.eventually(lambda: up("other") and not up("b"))
    pods.delete("other")
    e2e.eventually(lambda: not up("other"))
    assert up("a")
    e2e.eventually(lambda: 'method="mtp",method_source="pod_arguments"' in exporter.metrics())


def test_labels_are_as_the_pod_has_them_now(pods, up, e2e):
    pods.create("owned")
    e2e.eventually(lambda: 'team="a"' in up("owned"))
    pods.label("owned", team="b")
    e2e.eventually(lambda: 'team="b"' in up("owned"))


def test_readiness_counts_where_it_is_asked_for(pods, up, e2e):
    pods.create("slow", app="ready")
    pods.create("careless")
    e2e.eventually(lambda: up("careless"))
    assert not up("slow")
    pods.be_ready("slow")
    e2e.eventually(lambda: up("slow"))
    pods.be_ready("slow", ready=False)
    e2e.eventually(lambda: not up("slow"))
    assert up("careless")


def test_each_rank_of_a_data_parallel_pod_is_a_target(pods, ranks, up, e2e):
    pods.create("ranks", app="ranks", ports={f"rank-{rank}": port for rank, port in enumerate(ranks)})
    e2e.eventually(lambda: all(up(f"ranks:{port}") for port in ranks))
    pods.delete("ranks")
    e2e.eventually(lambda: not any(up(f"ranks:{port}") for port in ranks))


def test_a_namespace_that_is_closed_is_named_with_the_remedy_and_read_once_it_is_open(api, exporter, e2e):
    e2e.eventually(lambda: "discovery_failed" in exporter.log)
    assert "to list pods in namespace closed is not allowed; bind a Role with" in exporter.log
    api.allow("closed")
    e2e.eventually(lambda: "discovery_recovered" in exporter.log)


def test_a_token_that_is_replaced_is_used(api, pods, token, exporter, up, e2e):
    api.accept("exporter-token", "second-token")
    api.restart()
    token.put(token="second-token")
    api.accept("second-token")
    api.restart()
    pods.create("with-the-second")
    e2e.eventually(lambda: up("with-the-second"))
    assert "does not accept the token" not in exporter.log, "the second token arrived before the first ended"


def test_a_token_that_is_no_longer_taken_is_reported_and_its_successor_mends_it(
    api, pods, token, exporter, up, e2e
):
    api.accept("third-token")
    api.restart()
    e2e.eventually(lambda: "does not accept the token" in exporter.log)
    assert up("with-the-second"), "what is known stays"
    token.put(token="third-token")
    pods.create("with-the-third")
    e2e.eventually(lambda: up("with-the-third"))


def test_targets_stay_while_the_api_is_away_and_what_happened_then_is_found(api, pods, exporter, up, e2e):
    before = exporter.log.count("discovery_failed")
    pods.create("kept")
    e2e.eventually(lambda: up("kept"))
    api.stop()
    e2e.eventually(lambda: exporter.log.count("discovery_failed") > before)
    assert up("kept")
    api.start(KUBE_KEEP="1")
    pods.create("later")
    pods.delete("kept")
    e2e.eventually(lambda: up("later") and not up("kept"))
    assert exporter.process.poll() is None
