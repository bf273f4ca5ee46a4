"""The Kustomize components, built by a real kubectl."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spec_decode_exporter import __version__
from tests.helm.kubernetes_pages import TEXT

# `make chart` installs one beside the Python.
KUBECTL = shutil.which("kubectl", path=Path(sys.executable).parent) or shutil.which("kubectl")
COMPONENTS = Path(__file__).parents[2] / "config" / "kustomize"
STACK = Path(__file__).with_name("production-stack.yaml")

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
GROUP = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: group, labels: {spec-decode-exporter/inject: "true"}}
spec:
  leaderWorkerTemplate:
    %s
    workerTemplate: {spec: {containers: [{name: vllm, image: vllm}]}}
"""
LEADER = "leaderTemplate: {spec: {%s containers: [{name: vllm, image: vllm}]}}"
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


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_labelled_workload_gets_the_sidecar_beside_its_own_init_containers(build, kind):
    objects = build(WORKLOAD.format(kind=kind, name="vllm", label=MARK), "sidecar")
    pod = objects["vllm"]["spec"]["template"]["spec"]
    assert names(pod, "initContainers") == {"spec-decode-exporter", "fetch"}
    assert names(pod, "containers") == {"vllm"}
    (sidecar,) = [one for one in pod["initContainers"] if one["name"] == "spec-decode-exporter"]
    assert sidecar["image"] == "r.example.org/sde:1.2.3"
    assert sidecar["restartPolicy"] == "Always"


def test_what_comes_out_is_what_kubernetes_takes(build):
    import kubernetes_validate

    objects = build(WORKLOAD.format(kind="Deployment", name="vllm", label=MARK), "sidecar")
    kubernetes_validate.validate(objects["vllm"], "1.36", strict=True)
    kubernetes_validate.validate(objects["vllm"], "1.29", strict=True)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_sidecar_s_pages_may_have_tls_and_passwords(build, kind):
    import kubernetes_validate

    workload = build(WORKLOAD.format(kind=kind, name="vllm", label=MARK), "sidecar", "sidecar-web")["vllm"]
    pod = workload["spec"]["template"]["spec"]
    (sidecar,) = [one for one in pod["initContainers"] if one["name"] == "spec-decode-exporter"]
    variables = {one["name"]: one["value"] for one in sidecar["env"]}
    mounts = {one["name"]: one["mountPath"] for one in sidecar["volumeMounts"]}
    file = variables["SPEC_DECODE_EXPORTER_WEB_CONFIG_FILE"]
    assert file == f"{mounts['spec-decode-exporter-web']}/web-config.yml"
    assert "SPEC_DECODE_EXPORTER_TARGET" in variables
    assert "httpGet" not in sidecar["livenessProbe"]
    assert sidecar["livenessProbe"]["tcpSocket"] == {"port": "spec-decode"}
    assert names(pod, "volumes") == {"spec-decode-exporter-state", "spec-decode-exporter-web"}
    assert names(pod, "initContainers") == {"spec-decode-exporter", "fetch"}
    kubernetes_validate.validate(workload, "1.36", strict=True)


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


def test_only_the_leader_of_a_group_gets_the_sidecar(build):
    group = build(GROUP % (LEADER % ""), "leaderworkerset")["group"]["spec"]["leaderWorkerTemplate"]
    leader, worker = group["leaderTemplate"], group["workerTemplate"]
    assert names(leader["spec"], "initContainers") == {"spec-decode-exporter"}
    assert names(leader["spec"], "containers") == {"vllm"}
    assert worker == {"spec": {"containers": [{"name": "vllm", "image": "vllm"}]}}


def test_what_a_leader_has_already_stays(build):
    own = "initContainers: [{name: fetch, image: busybox}], volumes: [{name: shm, emptyDir: {}}],"
    group = build(GROUP % (LEADER % own), "leaderworkerset")["group"]["spec"]["leaderWorkerTemplate"]
    leader = group["leaderTemplate"]["spec"]
    assert names(leader, "initContainers") == {"spec-decode-exporter", "fetch"}
    assert names(leader, "volumes") == {"spec-decode-exporter-state", "shm"}


def test_a_leader_that_is_made_of_the_workers_template_is_refused(build):
    with pytest.raises(ValueError, match=r"copy operation does not apply.*leaderTemplate"):
        build(GROUP % "size: 2", "leaderworkerset")


def test_the_chart_s_podmonitor_finds_all_that_got_the_sidecar(build, render):
    wanted = render("injection").one("PodMonitor")["spec"]["selector"]["matchLabels"]
    objects = build(WORKLOAD.format(kind="Deployment", name="vllm", label=MARK), "sidecar")
    pod = objects["vllm"]["spec"]["template"]
    group = build(GROUP % (LEADER % ""), "leaderworkerset")["group"]["spec"]["leaderWorkerTemplate"]
    assert wanted.items() <= pod["metadata"]["labels"].items()
    assert wanted.items() <= group["leaderTemplate"]["metadata"]["labels"].items()


def test_the_engines_of_the_production_stack_get_it_and_its_router_does_not(build):
    objects = build(STACK.read_text(), "production-stack", "sidecar", "leaderworkerset")
    engine, router = (
        objects["stack-llama-deployment-vllm"]["spec"],
        objects["stack-deployment-router"]["spec"],
    )
    assert names(engine["template"]["spec"], "initContainers") == {"spec-decode-exporter", "init"}
    assert names(engine["template"]["spec"], "volumes") == {"stack-storage", "spec-decode-exporter-state"}
    assert MARK.split(":", maxsplit=1)[0] not in engine["selector"]["matchLabels"], "a selector cannot change"
    assert "initContainers" not in router["template"]["spec"]
    group = objects["stack-big-lws"]["spec"]["leaderWorkerTemplate"]
    leader, worker = group["leaderTemplate"]["spec"], group["workerTemplate"]["spec"]
    assert names(leader, "initContainers") == {"spec-decode-exporter"}
    assert names(leader, "volumes") == {"shm", "spec-decode-exporter-state"}
    assert "initContainers" not in worker


def test_the_components_and_the_chart_have_the_same_sidecar(build, render_sidecar):
    objects = build(WORKLOAD.format(kind="Deployment", name="vllm", label=MARK), "sidecar")
    pod = objects["vllm"]["spec"]["template"]["spec"]
    group = build(GROUP % (LEADER % ""), "leaderworkerset")["group"]["spec"]["leaderWorkerTemplate"]
    leader = group["leaderTemplate"]["spec"]
    own = render_sidecar({"image": {"registry": "r.example.org", "repository": "sde", "tag": "1.2.3"}})
    for one in (pod, leader):
        (sidecar,) = [c for c in one["initContainers"] if c["name"] == "spec-decode-exporter"]
        assert {**sidecar, "imagePullPolicy": "IfNotPresent"} == own["initContainers"][0]
        assert own["volumes"][0] in one["volumes"]
