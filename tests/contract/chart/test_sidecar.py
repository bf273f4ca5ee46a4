"""The sidecar as people's own charts get it."""

from __future__ import annotations

import json
import re

import pytest

AUTHORITY = {
    "extraVolumes": [{"name": "authority", "secret": {"secretName": "ca", "defaultMode": 292}}],
    "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/authority", "readOnly": True}],
}
SPECULATION = '{"method": "eagle3", "num_speculative_tokens": 4}'


def environment(container):
    return {one["name"]: one.get("value") for one in container["env"]}


def test_any_user_can_run_it(render, render_sidecar):
    """OpenShift chooses the user, and refuses others."""
    pods = [*render({"runAsUser": None}).pods(), render_sidecar({"runAsUser": None})]
    assert len(pods) == 3
    assert "runAsUser" not in json.dumps(pods)
    assert "fsGroup" not in json.dumps(pods)
    given = json.dumps([*render({"runAsUser": 1000680000}).pods()])
    assert {*re.findall(r'"(?:runAsUser|runAsGroup|fsGroup)": (\d+)', given)} == {"1000680000"}


def test_a_file_that_its_configuration_names_can_be_mounted(render_sidecar):
    pod = render_sidecar(AUTHORITY)
    (sidecar,) = pod["initContainers"]
    assert sidecar["volumeMounts"][-1:] == AUTHORITY["extraVolumeMounts"]
    assert pod["volumes"][-1:] == AUTHORITY["extraVolumes"]


OWN = {"config": {"policy": {"min_drafts": 5}}}
TOLD = {"sidecar": {"speculativeConfig": SPECULATION}}


@pytest.mark.parametrize(
    ("values", "variables"),
    [
        ({}, {"SPEC_DECODE_EXPORTER_TARGET": "http://localhost:8000/metrics"}),
        (
            TOLD,
            {
                "SPEC_DECODE_EXPORTER_TARGET": "http://localhost:8000/metrics",
                "SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG": SPECULATION,
            },
        ),
        ({**OWN, "sidecar": {"targetPort": 8200}}, {"TARGET_PORT": "8200"}),
        ({**OWN, **TOLD}, {"TARGET_PORT": "8000", "SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG": SPECULATION}),
    ],
)
def test_it_is_a_native_sidecar_that_is_told_of_the_vllm_beside_it(render_sidecar, values, variables):
    pod = render_sidecar(values)
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert environment(sidecar) == variables
    assert not {"readinessProbe", "startupProbe"} & set(sidecar)  # none of them counts for the pod
    assert sidecar["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert ("--config.auto-reload" in sidecar["args"]) == ("config" in values)
    assert {v["name"] for v in pod["volumes"]} == {m["name"] for m in sidecar["volumeMounts"]}


def test_its_configmap_has_the_name_that_the_pod_mounts_in_every_namespace(render, render_sidecar):
    volumes = render_sidecar(OWN)["volumes"]
    mounted = {v["configMap"]["name"] for v in volumes if "configMap" in v}
    assert {one["metadata"]["name"] for one in render({"mode": "sidecar", **OWN}).of("ConfigMap")} == mounted
    rendered = render("sidecar")
    configs = [one["metadata"] for one in rendered.of("ConfigMap") if "exporter.yml" in one["data"]]
    assert [one["namespace"] for one in configs] == ["inference", "research"]
    assert {one["kind"] for one in rendered} == {
        "ConfigMap",
        "PodMonitor",
        "PrometheusRule",
    }  # and runs nothing
