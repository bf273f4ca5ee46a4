"""The Kustomize component, built by a real kubectl."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spec_decode_exporter import __version__
from tests.contract.chart.kubernetes_pages import TEXT
from tests.paths import CHECKOUT

# `make chart` installs one beside the Python.
KUBECTL = shutil.which("kubectl", path=Path(sys.executable).parent) or shutil.which("kubectl")
COMPONENTS = CHECKOUT / "config" / "kustomize"

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="NOT TESTED: kubectl is not installed")

WORKLOAD = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, labels: {{{label}}}}}
spec:
  selector: {{matchLabels: {{app: vllm}}}}
  template:
    metadata: {{labels: {{app: vllm}}}}
    spec:
      initContainers: [{{name: fetch, image: busybox}}]
      containers: [{{name: vllm, image: vllm}}]
"""
MARK = 'spec-decode-exporter/inject: "true"'


@pytest.fixture
def build(tmp_path):
    """Build resources with components; returns the objects by name, or raises what kubectl says."""

    def built(resources, *components):
        shutil.copytree(COMPONENTS, tmp_path / "components", dirs_exist_ok=True)
        (tmp_path / "resources.yaml").write_text(resources)
        image = {"name": "spec-decode-exporter", "newName": "r.example.org/sde", "newTag": "1.2.3"}
        names = [f"components/{name}" for name in components]
        page = {"resources": ["resources.yaml"], "components": names, "images": [image]}
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(page))
        done = subprocess.run([KUBECTL, "kustomize", tmp_path], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr)
        return {one["metadata"]["name"]: one for one in yaml.safe_load_all(done.stdout)}

    return built


def names(pod, key):
    return {one["name"] for one in pod.get(key, ())}


def test_the_files_of_the_document_build(tmp_path):
    page = re.search(r"```yaml\n# kustomization.yaml\n(.*?)```", TEXT, re.DOTALL)[1]
    labelled = yaml.safe_load(re.search(r"```yaml\n# vllm.yaml, yours\n(.*?)```", TEXT, re.DOTALL)[1])
    workload = yaml.safe_load(WORKLOAD.format(kind=labelled["kind"], name="", label="")) | labelled
    (tmp_path / "vllm.yaml").write_text(yaml.safe_dump(workload))
    shutil.copytree(COMPONENTS, tmp_path / "config" / "kustomize")
    page = page.replace("<checkout>/", "").replace("<your registry>", "r.example.org")
    (tmp_path / "kustomization.yaml").write_text(page)
    done = subprocess.run([KUBECTL, "kustomize", tmp_path], capture_output=True, text=True, check=True)
    pod = yaml.safe_load(done.stdout)["spec"]["template"]["spec"]
    (sidecar,) = [one for one in pod["initContainers"] if one["name"] == "spec-decode-exporter"]
    assert sidecar["image"] == f"r.example.org/spec-decode-exporter:{__version__}"


def test_another_workload_stays_as_it_is(build):
    before = WORKLOAD.format(kind="Deployment", name="other", label="app: vllm")
    assert build(before, "sidecar")["other"] == yaml.safe_load(before)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_labelled_workload_gets_the_chart_s_sidecar_beside_its_own_init_containers(
    build, render, render_sidecar, kind
):
    import kubernetes_validate

    workload = build(WORKLOAD.format(kind=kind, name="vllm", label=MARK), "sidecar")["vllm"]
    for version in ("1.29", "1.36") if kind == "Deployment" else ():
        kubernetes_validate.validate(workload, version, strict=True)
    template = workload["spec"]["template"]
    pod = template["spec"]
    assert names(pod, "initContainers") == {"spec-decode-exporter", "fetch"}
    assert names(pod, "containers") == {"vllm"}
    own = render_sidecar({"image": {"registry": "r.example.org", "repository": "sde", "tag": "1.2.3"}})
    (sidecar,) = [one for one in pod["initContainers"] if one["name"] == "spec-decode-exporter"]
    assert {**sidecar, "imagePullPolicy": "IfNotPresent"} == own["initContainers"][0]
    assert own["volumes"][0] in pod["volumes"]
    monitor = render({"mode": "sidecar", "monitor": {"enabled": True}}).one("PodMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
