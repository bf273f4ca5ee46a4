"""The Kustomize components, built by a real kubectl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

COMPONENTS = Path(__file__).parents[2] / "config" / "kustomize"
STACK = Path(__file__).with_name("production-stack.yaml")

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="NOT TESTED: kubectl is not installed"
)

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
    leaderTemplate: {spec: {%s containers: [{name: vllm, image: vllm}]}}
    workerTemplate: {spec: {containers: [{name: vllm, image: vllm}]}}
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
        done = subprocess.run(["kubectl", "kustomize", tmp_path], capture_output=True, text=True, check=False)
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


def test_another_workload_stays_as_it_is(build):
    before = WORKLOAD.format(kind="Deployment", name="other", label="app: vllm")
    assert build(before, "sidecar")["other"] == yaml.safe_load(before)


def test_only_the_leader_of_a_group_gets_the_sidecar(build):
    group = build(GROUP % "", "leaderworkerset")["group"]["spec"]["leaderWorkerTemplate"]
    assert names(group["leaderTemplate"]["spec"], "initContainers") == {"spec-decode-exporter"}
    assert names(group["workerTemplate"]["spec"], "initContainers") == set()


def test_a_leader_with_init_containers_of_its_own_is_refused_rather_than_robbed_of_them(build):
    with pytest.raises(ValueError, match="initContainers failed: test failed"):
        build(GROUP % "initContainers: [{name: fetch, image: busybox}],", "leaderworkerset")


def test_the_engines_of_the_production_stack_get_it_and_its_router_does_not(build):
    objects = build(STACK.read_text(), "production-stack", "sidecar")
    engine, router = (
        objects["stack-llama-deployment-vllm"]["spec"],
        objects["stack-deployment-router"]["spec"],
    )
    assert names(engine["template"]["spec"], "initContainers") == {"spec-decode-exporter", "init"}
    assert names(engine["template"]["spec"], "volumes") == {"stack-storage", "spec-decode-exporter-state"}
    assert MARK.split(":", maxsplit=1)[0] not in engine["selector"]["matchLabels"], "a selector cannot change"
    assert "initContainers" not in router["template"]["spec"]


def test_the_components_and_the_chart_have_the_same_sidecar(build, render_sidecar):
    objects = build(WORKLOAD.format(kind="Deployment", name="vllm", label=MARK), "sidecar")
    pod = objects["vllm"]["spec"]["template"]["spec"]
    group = build(GROUP % "", "leaderworkerset")["group"]["spec"]["leaderWorkerTemplate"]
    leader = group["leaderTemplate"]["spec"]
    own = render_sidecar({"image": {"registry": "r.example.org", "repository": "sde", "tag": "1.2.3"}})
    for one in (pod, leader):
        (sidecar,) = [c for c in one["initContainers"] if c["name"] == "spec-decode-exporter"]
        assert {**sidecar, "imagePullPolicy": "IfNotPresent"} == own["initContainers"][0]
        assert own["volumes"][0] in one["volumes"]
