"""Every pod and container that comes from here may run in a namespace that enforces Pod Security "restricted"."""

from __future__ import annotations

import copy

import pytest
import yaml

from helm.chart_files import ROOT
from tests.contract.chart.kubernetes_pages import after
from tests.contract.chart.pod_security import violations

VLLM = {
    "name": "vllm",
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}


def test_the_chart_s_pods(rendered):
    for pod in rendered.pods():
        assert not violations(pod)
        assert all(container["securityContext"]["readOnlyRootFilesystem"] for container in pod["containers"])


def test_the_sidecar_in_the_pod_of_a_vllm_that_may(render_sidecar):
    pod = render_sidecar({"config": {"policy": {"min_drafts": 5}}})
    assert not violations({**pod, "containers": [VLLM]})


def test_the_snippets_of_the_guide():
    assert not violations({**after("container"), "containers": [VLLM]})
    assert not violations(after("drill")["spec"])


def test_what_kustomize_adds():
    text = (ROOT / "config" / "kustomize" / "sidecar" / "sidecar.yaml").read_text(encoding="utf-8")
    pod = yaml.safe_load(text)["spec"]["template"]["spec"]
    assert not violations({**pod, "containers": [VLLM]})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda pod: pod.update(hostNetwork=True), "hostNetwork"),
        (lambda pod: pod.update(volumes=[{"name": "a", "hostPath": {"path": "/"}}]), "volume hostPath"),
        (lambda pod: pod["containers"][0].pop("securityContext"), "runAsNonRoot of vllm"),
        (
            lambda pod: pod["containers"][0]["securityContext"].update(capabilities={"drop": ["NET_RAW"]}),
            "capabilities.drop of vllm",
        ),
        (lambda pod: pod["containers"][0].update(ports=[{"hostPort": 1}]), "hostPort of vllm"),
    ],
)
def test_a_violation_is_seen(change, said):
    pod = copy.deepcopy({"containers": [VLLM]})
    assert not violations(pod)
    change(pod)
    assert said in violations(pod)
