"""Discovery against the API server of a real Kubernetes, by an account that may only list and watch pods."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request

import pytest

from tests.e2e.kube_api import ApiServer, Pods, needs_kube_api

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
def pods(api, start, e2e):
    simulator = start(e2e.Simulator, "steady")
    simulator.wait_for(simulator.url)
    return Pods(api, "inference", simulator.port)


@pytest.fixture(scope="module")
def exporter(api, start, e2e, pods):
    discovery = {
        "api_server": api.url,
        "authorization": {"credentials_file": str(api.folder / "token")},
        "tls_config": {"ca_file": str(api.folder / "ca.crt")},
        "namespaces": ["inference", "closed"],
        "label_selector": "app=vllm",
        "labels": {"team": "team"},
    }
    exporter = start(e2e.Exporter, json.dumps({"discovery": {"kubernetes": [discovery]}}))
    exporter.wait_for(f"{exporter.url}/-/ready")
    return exporter


@pytest.fixture
def watched(exporter):
    """Return the targets that are up, as a set of names."""

    def names():
        lines = exporter.metrics().splitlines()
        up = [line for line in lines if line.startswith("spec_decode_exporter_target_up{")]
        return {line.split('target="')[1].split('"')[0] for line in up if line.endswith(" 1.0")}

    return names


def test_pods_come_and_go_and_are_what_their_labels_say(pods, exporter, watched, e2e):
    pods.create("a")
    e2e.eventually(lambda: watched() == {"inference/a"})
    pods.create("b", running=False)
    pods.create("other", app="nginx")
    pods.run("b")
    e2e.eventually(lambda: watched() == {"inference/a", "inference/b"})
    page = exporter.metrics()
    assert 'namespace="inference",pod="a",' in page
    assert 'team="a"' in page
    pods.label("b", app="retired")
    e2e.eventually(lambda: watched() == {"inference/a"})
    pods.label("other", app="vllm")
    e2e.eventually(lambda: watched() == {"inference/a", "inference/other"})
    pods.delete("other")
    e2e.eventually(lambda: watched() == {"inference/a"})


def test_a_pod_speculates_as_its_arguments_say(exporter, watched, e2e):
    e2e.eventually(lambda: 'method="mtp",method_source="pod_arguments"' in exporter.metrics())


def test_where_the_account_may_not_look_the_log_says_what_it_needs(exporter, e2e):
    e2e.eventually(lambda: "discovery_failed" in exporter.log)
    assert "to list pods in namespace closed is not allowed; bind a Role with" in exporter.log


def test_a_namespace_is_looked_in_once_that_is_allowed(api, exporter, e2e):
    api.allow("closed")
    e2e.eventually(lambda: "discovery_recovered" in exporter.log)


def test_the_account_may_do_nothing_else(api):
    for verb, path in (
        ("GET", "/api/v1/namespaces/inference/secrets"),
        ("GET", "/api/v1/pods"),
        ("GET", "/api/v1/nodes"),
    ):
        request = urllib.request.Request(
            api.url + path, method=verb, headers={"Authorization": "Bearer exporter-token"}
        )
        context = ssl.create_default_context(cafile=api.folder / "ca.crt")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with pytest.raises(urllib.error.HTTPError) as caught:
            opener.open(request, timeout=300)
        with caught.value as error:
            assert error.code == 403


def test_targets_stay_while_the_api_is_away_and_what_happened_then_is_found(
    api, pods, exporter, watched, e2e
):
    before = exporter.log.count("discovery_failed")
    pods.create("kept")
    e2e.eventually(lambda: watched() >= {"inference/a", "inference/kept"})
    api.stop()
    e2e.eventually(lambda: exporter.log.count("discovery_failed") > before)
    assert watched() >= {"inference/a", "inference/kept"}
    api.start(KUBE_KEEP="1")
    pods.create("later")
    pods.delete("kept")
    # What the watch has missed is dropped, and the server that remembers it is started again.
    api.forget_the_past()
    api.stop()
    api.start(KUBE_KEEP="1")
    e2e.eventually(lambda: watched() == {"inference/a", "inference/later"})
    assert exporter.process.poll() is None
