"""Discovery against the API server of a real Kubernetes, by an account that may only list and watch pods.

``KUBE_API`` names a program that runs such a server without a cluster: ``KUBE_API start mini FOLDER PORT`` writes
``FOLDER/ca.crt`` and takes accounts from ``FOLDER/tokens.csv``, ``KUBE_API stop FOLDER`` ends it. No controller and
no kubelet is needed: the test says itself that a pod runs. Where there is none, these tests are skipped.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

KUBE_API = os.environ.get("KUBE_API", "")
ACCOUNT = "system:serviceaccount:monitoring:exporter"

pytestmark = pytest.mark.skipif(not KUBE_API, reason="KUBE_API names no program that runs an API server")

SPECULATION = {"method": "mtp", "num_speculative_tokens": 3}


class ApiServer:
    """A real API server on loopback, with its administrator's hands."""

    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        self.url = f"https://127.0.0.1:{port}"
        self.folder.mkdir()
        (folder / "tokens.csv").write_text(
            f'admintoken,admin,admin,"system:masters"\nexporter-token,{ACCOUNT},exporter,"system:serviceaccounts"\n'
        )
        (folder / "token").write_text("exporter-token")
        self.start()

    def start(self, **environ):
        self._run("start", "mini", self.folder, self.port, **environ)

    def stop(self):
        self._run("stop", self.folder)

    def _run(self, *words, **environ):
        subprocess.run(
            [KUBE_API, *map(str, words)],
            check=True,
            timeout=120,
            env={**os.environ, **environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, method, path, body=None, kind="application/json", url=None):
        request = urllib.request.Request(
            (url or self.url) + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "Bearer admintoken", "Content-Type": kind},
        )
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        with urllib.request.build_opener(*handlers).open(request, timeout=10) as answer:
            return json.loads(answer.read() or b"{}")

    def create(self, path, **found):
        return self.ask("POST", path, found)

    def change(self, path, **found):
        return self.ask("PATCH", path, found, kind="application/merge-patch+json")

    def allow(self, namespace):
        """Let the exporter's account list and watch pods in a namespace, and nothing else."""
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
        self.create(f"{rbac}/roles", metadata={"name": "exporter"}, rules=rules)
        group = "rbac.authorization.k8s.io"
        self.create(
            f"{rbac}/rolebindings",
            metadata={"name": "exporter"},
            roleRef={"apiGroup": group, "kind": "Role", "name": "exporter"},
            subjects=[{"apiGroup": group, "kind": "User", "name": ACCOUNT}],
        )

    def forget_the_past(self):
        """Have etcd drop all but the newest versions: a watch from an earlier one is then 410 Gone."""
        newest = self.ask("GET", "/api/v1/pods")["metadata"]["resourceVersion"]
        etcd = f"http://127.0.0.1:{self.port + 1}"
        self.ask("POST", "/v3/kv/compaction", {"revision": newest, "physical": True}, url=etcd)


class Pods:
    """The pods of one namespace. Each of them is the same simulated vLLM, under another path."""

    def __init__(self, api, namespace, port):
        self._api, self._port = api, port
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name, app="vllm", running=True):
        self._api.create(
            self._path,
            metadata={
                "name": name,
                "labels": {"app": app, "team": "a"},
                # One simulated server stands for all pods; what it is asked besides makes them different pages.
                "annotations": {
                    "prometheus.io/path": f"/metrics?pod={name}",
                    "prometheus.io/port": str(self._port),
                },
            },
            spec={
                "containers": [
                    {
                        "name": "vllm",
                        "image": "vllm",
                        "args": ["serve", "m", "--speculative-config", json.dumps(SPECULATION)],
                        "ports": [{"name": "http", "containerPort": self._port}],
                    }
                ]
            },
        )
        if running:
            self.run(name)

    def run(self, name):
        self._api.change(f"{self._path}/{name}/status", status={"phase": "Running", "podIP": "127.0.0.1"})

    def label(self, name, **labels):
        self._api.change(f"{self._path}/{name}", metadata={"labels": labels})

    def delete(self, name):
        self._api.ask("DELETE", f"{self._path}/{name}?gracePeriodSeconds=0")


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
    e2e.eventually(lambda: "discovery_recovered" in exporter.log, within=90.0)


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
            opener.open(request, timeout=10)
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
    e2e.eventually(lambda: watched() == {"inference/a", "inference/later"}, within=120.0)
    assert exporter.process.poll() is None
