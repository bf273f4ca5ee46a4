"""Every pod and container that comes from here may run in a namespace that enforces Pod Security "restricted"."""

from __future__ import annotations

import pytest
import yaml

from helm.chart_files import ROOT
from tests.contract.chart.kubernetes_pages import after
from tests.contract.chart.pod_security import violations

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
VLLM = {"containers": [{"name": "vllm", "securityContext": RESTRICTED}]}


def test_pods_of_the_chart_the_guide_and_kustomize_are_allowed(render, render_sidecar):
    component = yaml.safe_load((ROOT / "config/kustomize/sidecar/sidecar.yaml").read_text(encoding="utf-8"))
    pods = [pod for case in ("fleet", "shards", "static", "web") for pod in render(case).pods()]
    pods += [after("drill")["spec"], {**after("container"), **VLLM}]
    pods += [{**component["spec"]["template"]["spec"], **VLLM}]
    pods += [{**render_sidecar({"config": {"policy": {"min_drafts": 5}}}), **VLLM}]
    assert [violations(pod) for pod in pods] == [[]] * len(pods)


@pytest.mark.parametrize(
    ("pod", "container", "said"),
    [
        ({}, {}, None),
        ({"hostNetwork": True}, {}, "hostNetwork"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, {}, "volume hostPath"),
        ({}, {"securityContext": {}}, "runAsNonRoot of vllm"),
        (
            {},
            {"securityContext": {**RESTRICTED, "capabilities": {"drop": ["NET_RAW"]}}},
            "capabilities.drop of vllm",
        ),
        ({}, {"ports": [{"hostPort": 1}]}, "hostPort of vllm"),
    ],
)
def test_a_violation_is_seen(pod, container, said):
    found = violations({**pod, "containers": [{**VLLM["containers"][0], **container}]})
    assert said in found if said else not found
