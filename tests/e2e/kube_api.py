"""A real API server of Kubernetes on loopback, and the pods in it. Run by `make e2e` where ``KUBE_API`` names a program.

``KUBE_API start mini FOLDER PORT`` runs the server, writes ``FOLDER/ca.crt`` and takes accounts from
``FOLDER/tokens.csv``; ``KUBE_API stop FOLDER`` ends it. No controller and no kubelet is needed: the tests say themselves
that a pod runs.
"""

import json
import os
import ssl
import subprocess
import urllib.request
from itertools import count

import pytest

KUBE_API = os.environ.get("KUBE_API", "")
ACCOUNT = "system:serviceaccount:monitoring:exporter"
SPECULATION = {"method": "mtp", "num_speculative_tokens": 3}

needs_kube_api = pytest.mark.skipif(
    not KUBE_API, reason="NOT TESTED: KUBE_API names no program that runs an API server"
)


class ApiServer:
    """A real API server on loopback, with its administrator's hands."""

    def __init__(self, folder, port, account=ACCOUNT):
        self.folder, self.port, self.account = folder, port, account
        self.url = f"https://127.0.0.1:{port}"
        self.folder.mkdir()
        (folder / "token").write_text("exporter-token")
        self.accept("exporter-token")
        self.start()

    def accept(self, *tokens):
        """Take these tokens for those of the exporter's account, from the next start on."""
        lines = ['admintoken,admin,admin,"system:masters"']
        lines += [f'{token},{self.account},exporter,"system:serviceaccounts"' for token in tokens]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")

    def restart(self):
        self.stop()
        self.start(KUBE_KEEP="1")

    def start(self, **environ):
        self._run("start", "mini", self.folder, self.port, **environ)

    def stop(self):
        self._run("stop", self.folder)

    def _run(self, *words, **environ):
        subprocess.run(
            [KUBE_API, *map(str, words)],
            check=True,
            timeout=300,
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
        with urllib.request.build_opener(*handlers).open(request, timeout=300) as answer:
            return json.loads(answer.read() or b"{}")

    def create(self, path, **found):
        return self.ask("POST", path, found)

    def change(self, path, **found):
        return self.ask("PATCH", path, found, kind="application/merge-patch+json")

    def allow(self, namespace):
        """Let the exporter's account list pods in a namespace, and nothing else."""
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
        self.create(f"{rbac}/roles", metadata={"name": "exporter"}, rules=rules)
        group = "rbac.authorization.k8s.io"
        self.create(
            f"{rbac}/rolebindings",
            metadata={"name": "exporter"},
            roleRef={"apiGroup": group, "kind": "Role", "name": "exporter"},
            subjects=[{"apiGroup": group, "kind": "User", "name": self.account}],
        )


class Pods:
    """The pods of one namespace. Each of them is the same simulated vLLM, under another path."""

    def __init__(self, api, namespace, port):
        self._api, self._port = api, port
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name, app="vllm", running=True, ports=None):
        """Create a pod; ``ports`` are the names and numbers of those that it has instead of its annotations' one."""
        # One simulated server stands for all pods; what it is asked besides makes them different pages.
        here = {"prometheus.io/path": f"/metrics?pod={name}"}
        here |= {} if ports else {"prometheus.io/port": str(self._port)}
        named = (ports or {"http": self._port}).items()
        vllm = {
            "name": "vllm",
            "image": "vllm",
            "args": ["serve", "m", "--speculative-config", json.dumps(SPECULATION)],
            "ports": [{"name": port, "containerPort": number} for port, number in named],
        }
        self._api.create(
            self._path,
            metadata={"name": name, "labels": {"app": app, "team": "a"}, "annotations": here},
            spec={"containers": [vllm]},
        )
        if running:
            self.run(name)

    def run(self, name):
        self._api.change(f"{self._path}/{name}/status", status={"phase": "Running", "podIP": "127.0.0.1"})

    def be_ready(self, name, ready=True):
        condition = {"type": "Ready", "status": str(ready)}
        self._api.change(f"{self._path}/{name}/status", status={"conditions": [condition]})

    def label(self, name, **labels):
        self._api.change(f"{self._path}/{name}", metadata={"labels": labels})

    def delete(self, name):
        self._api.ask("DELETE", f"{self._path}/{name}?gracePeriodSeconds=0")


class Projected:
    """A folder as a ConfigMap or a token is mounted: each file a link, through one link that gets another aim."""

    def __init__(self, folder, **files):
        self.folder, self._numbers = folder, count()
        folder.mkdir(parents=True)
        self.put(**files)

    def put(self, **files):
        """Replace all files at once. Underscores of a name stand for dots."""
        there = self.folder / f"..{next(self._numbers)}"
        there.mkdir()
        for name, text in files.items():
            (there / name.replace("_", ".")).write_text(text)
            link = self.folder / name.replace("_", ".")
            if not link.is_symlink():
                link.symlink_to(f"..data/{link.name}")
        (self.folder / "..data_tmp").symlink_to(there.name)
        (self.folder / "..data_tmp").replace(self.folder / "..data")
