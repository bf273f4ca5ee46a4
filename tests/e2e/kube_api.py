"""A real API server of Kubernetes on loopback. Run by `make e2e` where ``KUBE_API`` names a program.

``KUBE_API start mini FOLDER PORT`` runs the server, writes ``FOLDER/ca.crt`` and takes accounts from
``FOLDER/tokens.csv``; ``KUBE_API stop FOLDER`` ends it. No controller and no kubelet is needed: the tests say themselves
that a pod runs.
"""

import json
import os
import ssl
import subprocess
import urllib.request

import pytest

KUBE_API = os.environ.get("KUBE_API", "")

needs_kube_api = pytest.mark.skipif(
    not KUBE_API, reason="NOT TESTED: KUBE_API names no program that runs an API server"
)


class ApiServer:
    """A real API server on loopback, with its administrator's hands."""

    def __init__(self, folder, port, account):
        self.folder = folder
        self.url = f"https://127.0.0.1:{port}"
        self.folder.mkdir()
        (folder / "token").write_text("exporter-token")
        accounts = f'admintoken,admin,admin,"system:masters"\nexporter-token,{account},exporter,"system:serviceaccounts"\n'
        (folder / "tokens.csv").write_text(accounts)
        self._run("start", "mini", folder, port)

    def stop(self):
        self._run("stop", self.folder)

    def _run(self, *words):
        nowhere = subprocess.DEVNULL
        subprocess.run([KUBE_API, *map(str, words)], check=True, timeout=300, stdout=nowhere, stderr=nowhere)

    def ask(self, method, path, body=None, kind="application/json"):
        request = urllib.request.Request(
            self.url + path,
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
