"""The Kustomize component, built by a real kubectl."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spec_decode_exporter import __version__
from tests.contract.chart.rendering import TEXT, render, render_sidecar
from tests.paths import CHECKOUT

# `make chart` installs one beside the Python.
KUBECTL = shutil.which("kubectl", path=Path(sys.executable).parent) or shutil.which("kubectl")
COMPONENTS = CHECKOUT / "config" / "kustomize"
NAME = "spec-decode-exporter"

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="NOT TESTED: kubectl is not installed")

WORKLOAD = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: vllm, labels: {{{label}}}}}
spec:
  selector: {{matchLabels: {{app: vllm}}}}
  template:
    metadata: {{labels: {{app: vllm}}}}
    spec:
      initContainers: [{{name: fetch, image: busybox}}]
      containers: [{{name: vllm, image: vllm}}]
"""
PAGE = """
resources: [vllm.yaml]
components: [config/kustomize/sidecar]
images: [{name: spec-decode-exporter, newName: r.example.org/sde, newTag: 1.2.3}]
"""


def build(folder, workload, page=PAGE):
    """Build a workload with a kustomization; return the workload and the sidecar in it."""
    shutil.copytree(COMPONENTS, folder / "config" / "kustomize")
    (folder / "vllm.yaml").write_text(workload)
    (folder / "kustomization.yaml").write_text(page)
    done = subprocess.run([KUBECTL, "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = yaml.safe_load(done.stdout)
    containers = built["spec"]["template"]["spec"]["initContainers"]
    return built, next(one for one in containers if one["name"] == NAME)


def test_the_files_of_the_document_build(tmp_path):
    page = re.search(r"```yaml\n# kustomization.yaml\n(.*?)```", TEXT, re.DOTALL)[1]
    labelled = yaml.safe_load(re.search(r"```yaml\n# vllm.yaml, yours\n(.*?)```", TEXT, re.DOTALL)[1])
    workload = yaml.safe_load(WORKLOAD.format(kind=labelled["kind"], label="")) | labelled
    page = page.replace("<checkout>/", "").replace("<your registry>", "r.example.org")
    _, sidecar = build(tmp_path, yaml.safe_dump(workload), page)
    assert sidecar["image"] == f"r.example.org/{NAME}:{__version__}"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_labelled_workload_gets_the_chart_s_sidecar_beside_its_own_init_containers(tmp_path, kind):
    import kubernetes_validate

    workload, sidecar = build(tmp_path, WORKLOAD.format(kind=kind, label=f'{NAME}/inject: "true"'))
    for version in ("1.29", "1.36") if kind == "Deployment" else ():
        kubernetes_validate.validate(workload, version, strict=True)
    template = workload["spec"]["template"]
    pod = template["spec"]
    assert [[one["name"] for one in pod[key]] for key in ("initContainers", "containers")] == [
        [NAME, "fetch"],
        ["vllm"],
    ]
    own = render_sidecar({"image": {"registry": "r.example.org", "repository": "sde", "tag": "1.2.3"}})
    marker = own["initContainers"][0]["env"].pop(0)
    assert marker["name"] == "SPEC_DECODE_EXPORTER_IN_CHART"  # Kustomize has no values
    assert {**sidecar, "imagePullPolicy": "IfNotPresent"} == own["initContainers"][0]
    assert own["volumes"][0] in pod["volumes"]
    monitor = render({"mode": "sidecar", "monitor": {"enabled": True}}).one("PodMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
